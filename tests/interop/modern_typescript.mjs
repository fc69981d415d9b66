// A client made of the TypeScript SDK (@modelcontextprotocol/client 2.x): listens to one URI and prints each update.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, uri] = process.argv.slice(2);
const client = new Client(
  { name: "tests", version: "1" },
  { versionNegotiation: { mode: { pin: "2026-07-28" } } },
);
client.setNotificationHandler("notifications/resources/updated", (notification) =>
  console.log(notification.params.uri),
);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const subscription = await client.listen({ resourceSubscriptions: [uri] });
const honored = JSON.stringify(subscription.honoredFilter);
console.log(honored === JSON.stringify({ resourceSubscriptions: [uri] }) ? "listening" : `honored ${honored}`);
