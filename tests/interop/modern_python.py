"""A client made of the Python SDK (mcp 2.x): listens to one URI and prints each update."""

import asyncio
import sys

from mcp import Client


async def main(url: str, uri: str) -> None:
    async with Client(url) as client:
        async with client.listen(resource_subscriptions=[uri]) as subscription:
            honored = subscription.honored.resource_subscriptions
            print("listening" if honored == [uri] else f"honored {honored}", flush=True)
            async for event in subscription:
                print(event.uri, flush=True)


asyncio.run(main(*sys.argv[1:]))
