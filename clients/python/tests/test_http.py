"""The HTTP client against the real server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support import TOKEN, contiguous, line, said, serve, timed, write

from triplane import Answer, Backoff, HttpSession, TriplaneError, connect_http

QUICK = Backoff(min_s=0.01, max_s=0.1)


@timed
async def test_a_run_its_events_in_order_and_its_outcome(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        client = await connect_http(server.url, server.token)
        session = await client.create(title="one")
        items = [item async for item in session.run("hello there")]
        assert said(items) == "hello there" and contiguous(items)
        assert items[0]["type"] == items[-1]["type"] == "status"
        finished = await session.prompt("again")
        assert (finished["text"], finished["stopped_reason"]) == ("again", "completed")
        failed = await session.prompt("/fail unavailable")
        assert failed["stopped_reason"] == "error" and failed["error"]


@timed
async def test_errors_carry_the_servers_code_and_status(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        with pytest.raises(TriplaneError) as refused:
            await connect_http(server.url, "wrong")
        assert (refused.value.code, refused.value.status) == ("unauthorized", 401)
        client = await connect_http(server.url + "/", server.token)
        with pytest.raises(TriplaneError) as missing:
            await client.session("01a22f1b-0000-7000-8000-000000000000").view()
        assert missing.value.code == "not_found"
        session = await client.create()
        await session.start("/sleep 60000")
        with pytest.raises(TriplaneError) as busy:
            await session.prompt("two")
        assert busy.value.code == "busy"
        assert await session.cancel()
    with pytest.raises(TriplaneError) as gone:
        await client.info()
    assert gone.value.code == "disconnected"


@timed
async def test_a_stream_that_is_cut_goes_on_where_it_was(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, line(server) as proxy:
        session = await (await connect_http(proxy.url, TOKEN, reconnect=QUICK)).create()
        events = await session.events()
        await session.start("/say a\n/sleep 50\n/repeat 300 b\n/sleep 50\n/say c")
        items: list[Any] = []
        async for item in events:
            items.append(item)
            if item["type"] == "llm_delta" and (item["text"] == "a" or len(items) == 150):
                proxy.cut()
            if item["type"] == "status" and not item["busy"]:
                break
        await events.aclose()
        assert contiguous(items) and said(items) == "a" + "b" * 300 + "c"
        assert proxy.connections >= 3


@timed
async def test_events_go_on_over_a_restart_of_the_server(tmp_path: Path) -> None:
    async with serve(tmp_path) as first, line(first) as proxy:
        client = await connect_http(proxy.url, TOKEN, reconnect=QUICK)
        session = await client.create()
        events = await session.events()
        assert (await session.prompt("before"))["text"] == "before"
        items: list[Any] = [await anext(events)]
        # The second server starts while the first still runs, which lets the session go first.
        await session.unload()
        async with serve(tmp_path) as second:
            proxy.to = int(second.url.rsplit(":", 1)[1])
            proxy.cut()
            resumed = await client.resume(session.id)
            after = await resumed.prompt("after")
            async for item in events:
                items.append(item)
                if item["type"] == "final" and item["run_id"] == after["run_id"]:
                    break
            await events.aclose()
    assert contiguous(items)


@timed
async def test_what_is_lost_is_told_and_the_rest_follows(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        session = await (await connect_http(server.url, server.token)).create()
        seq = (await session.view())["seq"]
        events = await session.events(after=seq + 1000)
        gap = await anext(events)
        assert gap["type"] == "replay_gap" and (gap["first"], gap["last"]) == (seq + 1, seq + 1000)
        await session.start("hello")
        item = await anext(events)
        assert item["type"] != "replay_gap" and item["seq"] == seq + 1
        await events.aclose()


@timed
async def test_permissions_are_answered_by_a_helper_and_by_hand(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        client = await connect_http(server.url, server.token)
        session = await client.create()
        assert (await session.prompt(write("a.txt", "x"), on_permission=lambda _: True))["stopped_reason"] == "completed"
        assert (tmp_path / "work" / "a.txt").exists()

        async def later(_: object) -> Answer:
            return Answer(False, reason="not today")

        items = [item async for item in session.run(write("b.txt", "x"), on_permission=later)]
        resolved = [item for item in items if item["type"] == "permission_resolved"]
        assert [(one["outcome"], one.get("reason")) for one in resolved] == [("denied", "not today")]
        async for item in session.run(write("c.txt", "x")):
            if item["type"] == "permission_request":
                assert [one["session"] for one in await client.permissions()] == [session.id]
                assert await session.answer(item["request_id"], True) is None
                with pytest.raises(TriplaneError, match="not_found"):
                    await session.answer(item["request_id"], False)

        def broken(_: object) -> bool:
            raise RuntimeError("no answer")

        with pytest.raises(RuntimeError, match="no answer"):
            await session.prompt(write("d.txt", "x"), on_permission=broken)
        assert not (await session.view())["busy"]


@timed
async def test_cancelling_the_call_cancels_the_run(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        session = await (await connect_http(server.url, server.token)).create()

        async def begun(session: HttpSession) -> asyncio.Task[Any]:
            async with aclosing(await session.events()) as events:
                call = asyncio.create_task(session.prompt("/sleep 60000"))
                async for item in events:
                    if item["type"] == "turn_start":
                        break
            return call

        call = await begun(session)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not (await session.view())["busy"]
        # Also when it is not known yet whether the run began.
        call = asyncio.create_task(session.prompt("/sleep 60000"))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not (await session.view())["busy"]
        call = await begun(session)
        assert await session.cancel()
        assert (await call)["stopped_reason"] == "aborted"


@timed
async def test_the_rest_of_a_session(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        client = await connect_http(server.url, server.token)
        session = await client.create()
        await session.prompt("one")
        await session.prompt("two")
        assert [one["role"] for one in await session.messages()] == ["user", "assistant", "user", "assistant"]
        assert (await session.patch({"mode": "plan"}))["mode"] == "plan"
        branch, text = await session.fork(2)
        assert text == "two" and len(await branch.messages()) == 2
        assert (await session.undo())["prompt"] == "two"
        await session.clear()
        assert await session.tasks() == []
        await session.unload()
        assert not (await session.view())["loaded"]
        page = await client.sessions(limit=1)
        rest = await client.sessions(cursor=page["next"])
        assert {one["id"] for one in page["sessions"] + rest["sessions"]} == {session.id, branch.id}
