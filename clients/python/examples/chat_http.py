"""A chat over HTTP: lines in, words out as they come. URL and TOKEN name a server; without them one is started here.

    python examples/chat_http.py
"""

import asyncio
import os
import sys
from contextlib import AsyncExitStack

from triplane import connect_http, start_server


async def main() -> None:
    async with AsyncExitStack() as stack:
        url, token = os.environ.get("URL"), os.environ.get("TOKEN")
        if not url or not token:
            server = await stack.enter_async_context(start_server(os.environ.get("TRIPLANE_BIN", "triplane")))
            url, token = server.url, server.token
        client = await connect_http(url, token)
        session = await client.create()
        while line := (await asyncio.to_thread(sys.stdin.readline)).rstrip("\n"):
            async for event in session.run(line):
                if event["type"] == "llm_delta":
                    print(event["text"], end="", flush=True)
                elif event["type"] == "permission_request":
                    print(f"\nallowed: {event['title']}")
                    await session.answer(event["request_id"], True)
                elif event["type"] == "replay_gap":
                    print(f"\n({event['last'] - event['first'] + 1} events were lost)")
                elif event["type"] == "error":
                    print(f"\n{event['code']}: {event['message']}")
            print()


asyncio.run(main())
