"""A client made of the Python SDK; commands and output as in typescript.mjs."""

import asyncio
import sys

import httpx
from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

kind, instance = sys.argv[1:3]


def say(text):
    print(text, flush=True)


async def redirect(request):
    """Sends a request to the instance in use, as a load balancer would."""
    target = httpx.URL(instance)
    request.url = request.url.copy_with(host=target.host, port=target.port)
    request.headers["host"] = f"{target.host}:{target.port}"


def make_client(headers=None, timeout=None, auth=None):
    return httpx.AsyncClient(
        headers=headers, timeout=timeout, auth=auth, follow_redirects=True, event_hooks={"request": [redirect]}
    )


async def on_message(message):
    if isinstance(message, types.ServerNotification) and isinstance(message.root, types.ResourceUpdatedNotification):
        say(f"updated {message.root.params.uri}")
    elif isinstance(message, Exception):
        print(message, file=sys.stderr, flush=True)


async def follow(session):
    global instance
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command, _, argument = line.strip().partition(" ")
        if command == "use":
            instance = argument
            say(f"using {argument}")
        elif command == "subscribe":
            await session.subscribe_resource(AnyUrl(argument))
            say(f"subscribed {argument}")
        elif command == "read":
            result = await session.read_resource(AnyUrl(argument))
            say(f"read {result.contents[0].text}")
        elif command == "close":
            return


async def main():
    if kind == "sse":
        opening = sse_client(f"{instance}/sse", httpx_client_factory=make_client)
    else:
        opening = streamablehttp_client(f"{instance}/mcp", httpx_client_factory=make_client)
    async with opening as streams:
        async with ClientSession(streams[0], streams[1], message_handler=on_message) as session:
            await session.initialize()
            say("connected")
            await follow(session)


asyncio.run(main())
