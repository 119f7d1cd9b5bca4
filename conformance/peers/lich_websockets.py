"""Drives a lich server with PyPI `websockets`, so that our own client library does not judge itself.

usage: lich_websockets.py PORT TOKEN

The server runs the scripted model. Prints `ok CLAUSES: what` for each check, and ends with 1 at the first that fails.
"""

import asyncio
import json
import sys

import websockets
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

PORT, TOKEN = int(sys.argv[1]), sys.argv[2]
URL = f"ws://127.0.0.1:{PORT}/"
DEADLINE = 10
MIB = 1 << 20


class Client:
    """One socket; requests by id, everything that comes kept in order."""

    def __init__(self, ws):
        self.ws, self.next, self.inbox = ws, 0, []

    async def send(self, method, **params):
        self.next += 1
        request = {"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}
        await self.ws.send(json.dumps(request, ensure_ascii=False))
        return self.next

    async def reply(self, id):
        """The answer to `id`; frames in between stay in the inbox, the answer too."""
        while True:
            for frame in self.inbox:
                if frame.get("id") == id and "method" not in frame:
                    return frame
            text = await asyncio.wait_for(self.ws.recv(), DEADLINE)
            assert isinstance(text, str), "a binary frame"
            self.inbox.append(json.loads(text))

    async def call(self, method, **params):
        frame = await self.reply(await self.send(method, **params))
        assert "result" in frame, frame
        return frame["result"]

    async def code(self, method, **params):
        frame = await self.reply(await self.send(method, **params))
        assert "error" in frame, frame
        return frame["error"]["data"]["code"]

    async def create(self):
        return (await self.call("session.create", source="python"))["session_id"]

    def place(self, id):
        return next(at for at, frame in enumerate(self.inbox) if frame.get("id") == id)

    def events(self, session):
        of = [f["params"] for f in self.inbox if f.get("method") == "event"]
        return [params["event"] for params in of if params["session_id"] == session]


def client(**options):
    return connect(URL, additional_headers={"x-lich-token": TOKEN}, max_size=None, **options)


async def status(url, headers):
    try:
        async with connect(url, additional_headers=headers):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


async def l22_token():
    "the token: in the query, in a header, missing, wrong"
    assert await status(f"{URL}?token={TOKEN}", {}) == 101
    assert await status(f"{URL}any/path?token={TOKEN}", {}) == 101
    assert await status(URL, {"x-lich-token": TOKEN}) == 101
    assert await status(URL, {}) == 401
    assert await status(URL, {"x-lich-token": TOKEN + "x"}) == 401


async def l22_origin():
    "a foreign origin is 403 before the token is looked at"
    assert await status(URL, {"Origin": "https://evil.example"}) == 403


async def l23_no_compression():
    "an offer of permessage-deflate is not taken"
    async with client(compression="deflate") as ws:
        assert ws.response.headers.get("Sec-WebSocket-Extensions") is None
        assert (await Client(ws).call("health"))["status"] == "ok"


async def l03_l04_health():
    "health, with and without params"
    async with client() as ws:
        assert (await Client(ws).call("health"))["version"]
        await ws.send('{"jsonrpc":"2.0","id":"x","method":"health"}')
        assert json.loads(await ws.recv())["result"]["status"] == "ok"


async def l02_locked_set():
    "another method is -32601"
    async with client() as ws:
        c = Client(ws)
        frame = await c.reply(await c.send("session.delete"))
        assert frame["error"]["code"] == -32601, frame


async def l05_l06_create_and_list():
    "a session made a moment ago is listed first"
    async with client() as ws:
        c = Client(ws)
        ids = [await c.create() for _ in range(3)]
        listed = [row["id"] for row in (await c.call("session.list"))["sessions"]]
        assert set(ids) <= set(listed), listed


async def l14_l16_l17_events_before_the_reply():
    "500 deltas in order, all before the reply, none of larik's own"
    async with client() as ws:
        c = Client(ws)
        id = await c.create()
        sent = await c.send("prompt.submit", session_id=id, text="/repeat 500 x")
        result = (await c.reply(sent))["result"]
        await c.call("health")
        assert result["reply"] == "x" * 500 and result["stopped_reason"] == "completed", result
        types = [event["type"] for event in c.events(id)]
        assert types.count("llm_delta") == 500 and types[0] == "turn_start" and types[-1] == "final", types
        assert not {"status", "user_message", "permission_resolved", "session_closed"} & set(types)
        last = max(at for at, frame in enumerate(c.inbox) if frame.get("method") == "event")
        assert last < c.place(sent), "an event after the reply"


async def l18_l19_abort_and_order():
    "submit, submit, clear, abort, submit without a pause"
    async with client() as ws:
        c = Client(ws)
        id = await c.create()
        one = await c.send("prompt.submit", session_id=id, text="/sleep 60000")
        two = await c.send("prompt.submit", session_id=id, text="/sleep 60000")
        clear = await c.send("session.clear", session_id=id)
        abort = await c.send("prompt.abort", session_id=id)
        five = await c.send("prompt.submit", session_id=id, text="after")
        assert (await c.reply(five))["result"]["reply"] == "after"
        assert (await c.reply(abort))["result"]["aborted"] is True
        for aborted in (one, two):
            frame = await c.reply(aborted)
            ended = frame.get("result", {}).get("stopped_reason") or frame["error"]["data"]["code"]
            assert ended in ("aborted", "cancelled"), frame
        places = [c.place(id) for id in (one, two, clear, five)]
        assert places == sorted(places), places
        assert c.place(abort) < c.place(one)


async def l15_l19_sessions_at_once():
    "a long run keeps nobody waiting"
    async with client() as ws:
        c = Client(ws)
        busy, other = await c.create(), await c.create()
        long = await c.send("prompt.submit", session_id=busy, text="/sleep 60000")
        assert (await c.call("prompt.submit", session_id=other, text="quick"))["reply"] == "quick"
        assert (await c.call("prompt.abort", session_id=busy))["aborted"] is True
        await c.reply(long)


async def l07_l10_clear_and_resume():
    "a resume forks what the live session saw"
    async with client() as ws:
        c = Client(ws)
        id = await c.create()
        await c.call("prompt.submit", session_id=id, text="before")
        await c.call("session.clear", session_id=id)
        await c.call("prompt.submit", session_id=id, text="after")
        resumed = await c.call("session.resume", id=id)
        assert resumed["resumed_id"] == id and resumed["session_id"] != id and resumed["message_count"] == 2, resumed
        await c.call("prompt.submit", session_id=resumed["session_id"], text="more")
        assert (await c.call("session.resume", id=resumed["session_id"]))["message_count"] == 4
        assert await c.code("session.resume", id="../x") == "invalid_params"
        assert await c.code("session.resume", id="no-such-session") == "not_found"


async def closes(ws, code):
    try:
        while True:
            await asyncio.wait_for(ws.recv(), DEADLINE)
    except ConnectionClosed as closed:
        assert closed.rcvd is not None and closed.rcvd.code == code, closed


async def l01_binary():
    "a binary frame closes with 1003"
    async with client() as ws:
        await ws.send(b"{}")
        await closes(ws, 1003)


def sized(size):
    head, tail = '{"jsonrpc":"2.0","id":1,"method":"health","params":{"x":"', '"}}'
    return head + "a" * (size - len(head) - len(tail)) + tail


async def l23_size():
    "1 MiB is taken; a byte more is 1009, in fragments too"
    async with client() as ws:
        await ws.send(sized(MIB))
        assert "result" in json.loads(await ws.recv())
        text = sized(MIB)
        await ws.send(text[at : at + 4096] for at in range(0, MIB, 4096))
        assert "result" in json.loads(await ws.recv())
    async with client() as ws:
        await ws.send(sized(MIB + 1))
        await closes(ws, 1009)
    async with client() as ws:
        text = sized(MIB + 1)
        try:
            await ws.send(text[at : at + 65536] for at in range(0, MIB + 1, 65536))
        except ConnectionClosed:
            pass
        await closes(ws, 1009)


async def l14_large_reply():
    "a reply of 3 MB comes whole"
    async with client() as ws:
        c = Client(ws)
        text = "é" * 300_000
        result = await c.call("prompt.submit", session_id=await c.create(), text=f"/repeat 5 {text}")
        assert result["reply"] == text * 5


async def c09_pings():
    "pings are answered with their payload"
    async with client() as ws:
        await asyncio.wait_for(await ws.ping(b"payload"), DEADLINE)


async def main():
    checks = [l22_token, l22_origin, l23_no_compression, l03_l04_health, l02_locked_set, l05_l06_create_and_list]
    checks += [l14_l16_l17_events_before_the_reply, l18_l19_abort_and_order, l15_l19_sessions_at_once]
    checks += [l07_l10_clear_and_resume, l01_binary, l23_size, l14_large_reply, c09_pings]
    for check in checks:
        clauses = " ".join(part.upper() for part in check.__name__.split("_") if part[1:].isdigit())
        try:
            await asyncio.wait_for(check(), 4 * DEADLINE)
        except Exception as wrong:  # whatever it is, it is told with the check's name
            print(f"broke {clauses}: {check.__doc__}: {wrong!r}")
            raise
        print(f"ok {clauses}: {check.__doc__}")


print(f"websockets {websockets.__version__}")
asyncio.run(main())
