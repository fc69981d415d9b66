// A client made of the TypeScript SDK. Reads commands on stdin, one a line, and prints what it sees, one a line:
//   use URL          requests go to this instance from now on
//   subscribe URI    prints `subscribed URI`
//   read URI         prints `read TEXT`
//   close            ends
// Every notice prints `updated URI`. The first argument is the transport, the second the URL to begin with.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const [, , kind, first] = process.argv;
let instance = first;
// As a load balancer would: the same path at another instance.
const send = (url, init) => {
  const { pathname, search } = new URL(url);
  return fetch(new URL(pathname + search, instance), init);
};
const transport =
  kind === "sse"
    ? new SSEClientTransport(new URL("/sse", first), { fetch: send, eventSourceInit: { fetch: send } })
    : new StreamableHTTPClientTransport(new URL("/mcp", first), { fetch: send });
const client = new Client({ name: "interop", version: "1" });
client.onerror = (error) => console.error(String(error));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
  console.log(`updated ${params.uri}`);
});
await client.connect(transport);
console.log("connected");

const commands = {
  use: async (url) => {
    instance = url;
    console.log(`using ${url}`);
  },
  subscribe: async (uri) => {
    await client.subscribeResource({ uri });
    console.log(`subscribed ${uri}`);
  },
  read: async (uri) => {
    const { contents } = await client.readResource({ uri });
    console.log(`read ${contents[0].text}`);
  },
  close: async () => {
    await client.close();
    process.exit(0);
  },
};
for await (const line of createInterface({ input: process.stdin })) {
  const [command, argument] = line.split(" ");
  await commands[command](argument);
}
