"""A small sepia server in another language, to prove that the conformance runner can judge one: it serves a few methods over stdio,
keeps its sessions in memory, and asks a model at $OPENAI_BASE_URL. Python's standard library is all it needs.

    triplane conformance --stdio "python3 conformance/peers/foreign/server.py"

With FOREIGN_BREAKS=answers-notifications it breaks C02, with FOREIGN_BREAKS=forgets-final it breaks the schema of an event.
"""

import asyncio
import json
import os
import sys
import threading
import time
import urllib.request
import uuid

BREAKS = os.environ.get("FOREIGN_BREAKS", "")
MODEL = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
LIMIT = 16 << 20
NUMBERS = {"invalid_params": -32602, "internal": -32603}


class Failure(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


class Doubled(dict):
    """An object that gave a key twice."""


def pairs(items):
    made = dict(items)
    return made if len(made) == len(items) else Doubled(made)


def no_constant(word):
    raise ValueError(word)


def decode(line):
    value = json.loads(line.decode("utf-8"), object_pairs_hook=pairs, parse_constant=no_constant)
    json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate does not encode
    return value


def doubled(value):
    if isinstance(value, Doubled):
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(doubled(one) for one in inner)


def now():
    return time.time_ns() // 1_000_000


def need(params, name, kind):
    if not isinstance(params.get(name), kind):
        raise Failure("invalid_params", f"{name}: missing or of the wrong type")
    return params[name]


class Server:
    def __init__(self):
        self.sessions, self.tasks = {}, set()
        self.methods = {
            "manifest": self.manifest,
            "agents.list": self.agents,
            "sessions.list": self.list,
            "sessions.create": self.create,
            "sessions.subscribe": self.subscribe,
            "sessions.prompt": self.prompt,
            "shutdown": self.shutdown,
        }

    # --- methods

    async def manifest(self, params):
        config = {"idleTtlMs": None, "sweepMs": 30000, "historyLimit": 500, "probeIdleMs": 60000}
        node = {"id": str(uuid.uuid5(uuid.NAMESPACE_URL, os.environ.get("SEPIA_HOME", "."))), "name": "foreign"}
        return {"name": "foreign", "version": "1", "protocol": 1, "node": node, "config": config, "methods": list(self.methods)}

    async def agents(self, params):
        able = {"prompt": True, "read": False, "write": False, "delete": False, "config": False}
        return {"agents": [{"id": "tiny", "name": "Tiny", "installed": True, "capabilities": able}]}

    async def list(self, params):
        rows = sorted(self.sessions.values(), key=lambda one: one["row"]["updatedAt"], reverse=True)
        return {"sessions": [one["row"] for one in rows]}

    async def create(self, params):
        cwd, at, session = need(params, "cwd", str), now(), str(uuid.uuid4())
        if not os.path.isdir(cwd):
            raise Failure("invalid_params", f"cwd: {cwd} is no directory")
        if params.get("agent") not in (None, "tiny"):
            raise Failure("unknown_agent", f"no agent {params['agent']}")
        row = {"id": session, "agentId": "tiny", "cwd": cwd, "createdAt": at, "updatedAt": at, "live": True, "pending": False,
               "pinned": False, "archived": False, "projectIds": [], "spans": []}
        if isinstance(params.get("title"), str):
            row["title"] = params["title"]
        self.sessions[session] = {"row": row, "busy": False, "seq": 0, "forwarders": 0}
        return {"id": session, "agentId": "tiny", "readOnly": False, "model": "script/echo"}

    async def subscribe(self, params):
        session = self.session(params)
        session["forwarders"] += 1
        return {"subscribed": True, "sessionId": session["row"]["id"]}

    async def prompt(self, params):
        session, parts = self.session(params), need(params, "parts", list)
        if not all(isinstance(part, dict) and isinstance(part.get("type"), str) and isinstance(part.get("text", ""), str) for part in parts):
            raise Failure("invalid_params", "parts: each is an object with a type")
        text = "".join(part.get("text", "") for part in parts if part["type"] == "text")
        if not text:
            raise Failure("invalid_params", "parts: there is nothing to say")
        if session["busy"]:
            raise Failure("busy", "a run is in flight")
        session["busy"] = True
        session["row"]["updatedAt"] = now()
        usage, run = {"input": len(text.split()), "output": 0, "cached": 0, "reasoning": 0}, str(uuid.uuid4())
        self.emit(session, {"type": "runStarted"}, {"type": "userMessage", "id": str(uuid.uuid4()), "text": text, "origin": "client"},
                  {"type": "turnStarted", "turn": 1, "model": "script/echo"}, {"type": "llmStarted", "model": "script/echo"})
        reply, stop, loop = [], "completed", asyncio.get_running_loop()

        def chunk(text):
            reply.append(text)
            loop.call_soon_threadsafe(self.emit, session, {"type": "textDelta", "text": text})

        try:
            await asyncio.to_thread(ask_model, text, chunk)
        except OSError as error:
            stop = "error"
            self.emit(session, {"type": "error", "code": "unavailable", "message": str(error), "retryable": False})
        reply = "".join(reply)
        usage["output"] = len(reply.split())
        message = {"id": str(uuid.uuid4()), "role": "assistant", "parts": [{"type": "text", "text": reply}], "at": now(), "stop": stop}
        final = {"type": "final", "reply": reply, "usage": usage, "turnsUsed": 1, "stoppedReason": stop, "runId": run}
        if BREAKS == "forgets-final":
            del final["reply"]
        session["busy"] = False
        self.emit(session, {"type": "messageFinished", "message": message, "usage": usage, "stop": stop}, {"type": "usage", **usage},
                  final, {"type": "runFinished", "outcome": stop})
        return {"stopReason": stop, "usage": usage, "turns": 1, "reply": reply, "runId": run}

    async def shutdown(self, params):
        return {}

    def session(self, params):
        found = self.sessions.get(need(params, "id", str))
        if found is None:
            raise Failure("not_found", "no such session is live; create or attach it first")
        return found

    def emit(self, session, *events):
        for event in events:
            session["seq"] += 1
            event["seq"] = session["seq"]
        for _ in range(session["forwarders"]):
            write({"jsonrpc": "2.0", "method": "session.event", "params": {"sessionId": session["row"]["id"], "events": list(events)}})

    # --- JSON-RPC

    async def one(self, request):
        """The answer to one request, or None."""
        id_ = request.get("id") if isinstance(request, dict) else None
        sound = (
            isinstance(request, dict) and not isinstance(request, Doubled) and request.get("jsonrpc") == "2.0"
            and isinstance(request.get("method"), str) and isinstance(id_, (str, int, float, type(None))) and not isinstance(id_, bool)
            and isinstance(request.get("params", {}), (dict, list))
        )
        if not sound:
            id_ = id_ if isinstance(id_, (str, int, float)) and not isinstance(id_, bool) else None
            return {"jsonrpc": "2.0", "id": None if isinstance(request, Doubled) else id_, "error": {"code": -32600, "message": "no request"}}
        answer = await self.call(request["method"], request.get("params", {}))
        quiet = "id" not in request and BREAKS != "answers-notifications"
        return None if quiet else {"jsonrpc": "2.0", "id": id_, **answer}

    async def call(self, method, params):
        if method not in self.methods:
            return {"error": {"code": -32601, "message": f"no method {method}"}}
        try:
            if not isinstance(params, dict) or doubled(params):
                raise Failure("invalid_params", "params must be an object, each key once")
            return {"result": await self.methods[method](params)}
        except Failure as failure:
            number = NUMBERS.get(failure.code, -32000)
            return {"error": {"code": number, "message": failure.message, "data": {"code": failure.code}}}
        except Exception as error:
            print(f"{method}: {error!r}", file=sys.stderr)
            return {"error": {"code": NUMBERS["internal"], "message": "a defect", "data": {"code": "internal"}}}

    async def line(self, line):
        try:
            value = decode(line)
        except (ValueError, RecursionError):
            return write({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}})
        if not isinstance(value, list):
            answer = await self.one(value)
        elif not 0 < len(value) <= 100:
            answer = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "a batch has 1 to 100 requests"}}
        else:
            answers = await asyncio.gather(*(self.one(one) for one in value))
            answer = [one for one in answers if one is not None] or None
        if answer is not None:
            write(answer)
        if isinstance(value, dict) and value.get("method") == "shutdown":
            os._exit(0)

    async def serve(self):
        loop, lines = asyncio.get_running_loop(), asyncio.Queue()

        def read():
            while line := sys.stdin.buffer.readline(LIMIT + 1):
                long = len(line) > LIMIT
                while long and not line.endswith(b"\n"):
                    if not (line := sys.stdin.buffer.readline(LIMIT)):
                        break
                loop.call_soon_threadsafe(lines.put_nowait, b"" if long else line)
            loop.call_soon_threadsafe(lines.put_nowait, None)

        threading.Thread(target=read, daemon=True).start()
        while (line := await lines.get()) is not None:
            if line and not line.strip(b" \t\r\n"):
                continue
            task = asyncio.create_task(self.line(line))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        await asyncio.gather(*self.tasks)


def ask_model(text, chunk):
    """Streams one completion; each piece of text goes to `chunk`."""
    body = json.dumps({"model": "script", "stream": True, "messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(f"{MODEL}/chat/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        for line in response:
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    if piece := choice["delta"].get("content"):
                        chunk(piece)


def write(message):
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


sys.setrecursionlimit(10_000)  # JSON may be nested
asyncio.run(Server().serve())
