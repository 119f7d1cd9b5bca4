"""A chat with a server of one's own, over its stdin and stdout: lines in, words out as they come.

    python examples/chat_stdio.py
"""

import asyncio
import os
import sys

from triplane import TriplaneError, spawn_stdio


def allow(request: dict) -> bool:
    print(f"\nallowed: {request['title']}")
    return True


async def main() -> None:
    async with await spawn_stdio(os.environ.get("TRIPLANE_BIN", "triplane")) as client:
        session = await client.create(os.getcwd())
        while line := (await asyncio.to_thread(sys.stdin.readline)).rstrip("\n"):
            try:
                async for event in session.run(line, on_permission=allow):
                    if event["type"] == "textDelta":
                        print(event["text"], end="", flush=True)
                    elif event["type"] == "error":
                        print(f"\n{event['code']}: {event['message']}")
                print()
            except TriplaneError as error:
                if error.code not in ("busy", "unavailable"):
                    raise
                print(f"\n{error}")


asyncio.run(main())
