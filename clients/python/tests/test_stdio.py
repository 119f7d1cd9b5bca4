"""The stdio client against the real server, as its child."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support import contiguous, said, spawned, timed, write

from triplane import Backoff, StdioClient, StdioSession, TriplaneError, spawn_stdio


async def create(client: StdioClient, tmp_path: Path) -> StdioSession:
    return await client.create(tmp_path / "work")


@timed
async def test_the_manifest_is_read_and_its_protocol_checked(tmp_path: Path) -> None:
    async with spawned(tmp_path) as client:
        assert client.manifest["protocol"] == 1 and "sessions.prompt" in client.manifest["methods"]
    later = """input(); print('{"jsonrpc":"2.0","id":1,"result":{"protocol":2,"methods":[]}}', flush=True); input()"""
    for script, code in [(later, "protocol"), ("print('hello'); input()", "protocol"), ("raise SystemExit(3)", "disconnected")]:
        with pytest.raises(TriplaneError) as failed:
            await spawn_stdio(sys.executable, ["-c", script])
        assert failed.value.code == code
    with pytest.raises(TriplaneError, match="disconnected"):
        await spawn_stdio("no-such-program")


@timed
async def test_a_run_its_events_and_its_outcome(tmp_path: Path) -> None:
    async with spawned(tmp_path) as client:
        session = await create(client, tmp_path)
        for text in ("hello there", "and again"):
            items: list[Any] = [item async for item in session.run(text)]
            assert said(items) == text and contiguous(items)
            assert (items[0]["type"], items[-1]["type"]) == ("runStarted", "runFinished")
        outcome = await session.prompt([{"type": "text", "text": "parts"}])
        assert (outcome["reply"], outcome["stopReason"]) == ("parts", "completed")
        assert len((await session.history(limit=2))["messages"]) == 2
        assert len((await session.get())["messages"]) == 6
        assert [row["id"] for row in await client.sessions()] == [session.id]
        assert any(agent["capabilities"]["prompt"] for agent in await client.agents())


@timed
async def test_two_readers_share_one_subscription_that_ends_with_the_session(tmp_path: Path) -> None:
    async with spawned(tmp_path) as client:
        session = await create(client, tmp_path)
        readers = [await session.events(), await session.events()]
        await session.prompt("hello")
        await session.detach()
        for reader in readers:
            items: list[Any] = [item async for item in reader]
            assert contiguous(items) and items[-1]["type"] == "sessionClosed"
        with pytest.raises(TriplaneError, match="not_found"):
            await session.events()


@timed
async def test_permissions_are_answered_by_a_helper_and_by_hand(tmp_path: Path) -> None:
    async with spawned(tmp_path) as client:
        session = await create(client, tmp_path)
        outcome = await session.prompt(write("a.txt", "x"), on_permission=lambda _: True)
        assert outcome["stopReason"] == "completed" and (tmp_path / "work" / "a.txt").exists()
        resolved = []
        async for item in session.run(write("b.txt", "x")):
            if item["type"] == "permissionRequest":
                await session.answer(item, False)
                with pytest.raises(TriplaneError, match="not_found"):
                    await session.answer(item, True)
            if item["type"] == "permissionResolved":
                resolved.append(item["outcome"])
        assert resolved == ["denied"] and not (tmp_path / "work" / "b.txt").exists()

        def broken(_: object) -> bool:
            raise RuntimeError("no answer")

        with pytest.raises(RuntimeError, match="no answer"):
            await session.prompt(write("c.txt", "x"), on_permission=broken)
        assert not await session.cancel()


@timed
async def test_cancelling_the_call_cancels_the_run(tmp_path: Path) -> None:
    async with spawned(tmp_path) as client:
        session = await create(client, tmp_path)
        for on_permission in (None, lambda _: True):
            events = await session.events()
            call = asyncio.create_task(session.prompt("/say a\n/sleep 60000", on_permission=on_permission))
            async for item in events:
                if item["type"] == "textDelta":
                    break
            await events.aclose()
            with pytest.raises(TriplaneError, match="busy"):
                await session.prompt("x", on_permission=on_permission)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert (await session.prompt("next"))["reply"] == "next"
        async with aclosing(await session.events()) as events:
            call = asyncio.create_task(session.prompt("/sleep 60000"))
            async for item in events:
                if item["type"] == "turnStarted":
                    break
        assert await session.cancel()
        assert (await call)["stopReason"] == "aborted"


@timed
async def test_the_nodes_feed_tells_who_comes_and_goes(tmp_path: Path) -> None:
    async with spawned(tmp_path) as client:
        feed = await client.node_events()
        session = await create(client, tmp_path)
        await session.detach()
        seen = []
        async for item in feed:
            seen.append(item["type"])
            if item["type"] == "detached":
                break
        assert [kind for kind in seen if kind != "sessionEvents"] == ["created", "detached"]
        await feed.aclose()


@timed
async def test_a_process_that_dies_is_started_again_and_what_hung_on_it_is_told(tmp_path: Path) -> None:
    async with spawned(tmp_path) as client:
        session = await create(client, tmp_path)
        await session.prompt("kept")
        events = await session.events()
        call = asyncio.create_task(session.prompt("/sleep 60000"))
        async for item in events:
            if item["type"] == "turnStarted":
                break
        first = client.pid
        os.kill(first, signal.SIGKILL)
        with pytest.raises(TriplaneError, match="disconnected"):
            await call
        with pytest.raises(TriplaneError, match="disconnected"):
            async for item in events:
                pass
        # Many calls, one process.
        listed = await asyncio.gather(*(client.sessions() for _ in range(3)))
        assert client.pid != first and {row["id"] for rows in listed for row in rows} == {session.id}
        with pytest.raises(TriplaneError, match="not_found"):
            await session.prompt("it is not live")
        again = await client.attach(session.id, takeover=True)
        assert (await again.prompt("after"))["reply"] == "after"
        await client.close()
        with pytest.raises(TriplaneError, match="closed"):
            await client.sessions()


@timed
async def test_a_read_is_sent_again_when_the_process_dies_under_it(tmp_path: Path) -> None:
    # Dies once, at the first read; then it answers.
    script = """
import json, os, sys
for line in sys.stdin:
    ask = json.loads(line)
    if ask["method"] != "manifest" and not os.path.exists(sys.argv[1]):
        open(sys.argv[1], "w").close()
        os._exit(1)
    result = {"protocol": 1, "methods": []} if ask["method"] == "manifest" else {"agents": [], "cancelled": False}
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"""
    for ask, again in [("agents.list", True), ("sessions.cancel", False)]:
        async with await spawn_stdio(sys.executable, ["-c", script, str(tmp_path / ask)], restart=Backoff(min_s=0.01)) as client:
            if again:
                assert await client.agents() == []
            else:
                with pytest.raises(TriplaneError, match="disconnected"):
                    await client.call(ask)
                assert (await client.call(ask))["cancelled"] is False


@timed
async def test_restarts_are_given_up_after_so_many_and_can_be_turned_off(tmp_path: Path) -> None:
    # It starts well once.
    script = """
import os, sys
if os.path.exists(sys.argv[1]):
    sys.exit(3)
open(sys.argv[1], "w").close()
input()
print('{"jsonrpc":"2.0","id":1,"result":{"protocol":1,"methods":[]}}', flush=True)
input()
"""
    for name, restart, starts in [("some", Backoff(min_s=0.01, attempts=2), 3), ("none", None, 0)]:
        tried = 0
        async with await spawn_stdio(sys.executable, ["-c", script, str(tmp_path / name)], restart=restart) as client:
            start = client._start

            async def counted() -> Any:
                nonlocal tried
                tried += 1
                return await start()

            client._start = counted
            for _ in range(6):
                with pytest.raises(TriplaneError, match="disconnected"):
                    await client.call("sessions.cancel")
        assert tried == starts, name
