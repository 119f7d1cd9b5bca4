#!/usr/bin/env python3
"""A driver for Triplane: an agent that repeats what it is told, and keeps sessions as files in $NOTES_DIR (~/.notes).
Install it as an executable `triplane-driver-notes` in $TRIPLANE_DRIVER_DIR or on $PATH. See driver-protocol.md."""
import json, os, pathlib, sys, uuid

NOTES = pathlib.Path(os.environ.get("NOTES_DIR") or pathlib.Path.home() / ".notes")
CAN = {"prompt": True, "read": True, "write": True, "delete": True}
waiting = {}  # session: (id of the prompt's request, what to say), while a person is asked

class Refused(Exception): pass  # code, message
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def event(id, **event): send(method="session.event", params={"id": id, "event": event})

def path(id): return NOTES / f"{id}.json"
def read(id):
    if not path(id).exists(): raise Refused("not_found", f"no note {id}")
    return json.loads(path(id).read_text())

def save(session, id=None, **_):
    session["id"] = id or str(uuid.uuid4())
    NOTES.mkdir(parents=True, exist_ok=True)
    half = NOTES / f".{session['id']}.tmp"
    half.write_text(json.dumps(session)) and half.rename(path(session["id"]))
    return {"id": session["id"], "lost": []}

def delete(id, **_):
    read(id) and path(id).unlink()
    return {}

def finish(request, id, text):
    for word in text.split(): event(id, type="llm_delta", text=word + " ")
    event(id, type="llm_end", message={"parts": [{"type": "text", "text": text}]})
    send(id=request, result={"stop": "completed"})

def prompt(request, id, messages, **_):
    text = " ".join(part.get("text", "") for part in messages[-1]["parts"])
    if not text.startswith("ask "): return finish(request, id, text)
    waiting[id] = (request, text[4:])
    event(id, type="permission_request", request_id="1", call_id="1", tool="repeat", title="Repeat this?")

def permission(id, outcome, **_):
    request, text = waiting.pop(id, (None, None))
    if request: finish(request, id, text if outcome == "allowed" else "as you like")
    return {}

METHODS = {
    "manifest": lambda **_: {"protocol": 1, "name": "Notes", "version": "1", "capabilities": CAN},
    "session.list": lambda **_: {"sessions": [json.loads(file.read_text()) for file in NOTES.glob("*.json")]},
    "session.load": lambda id, **_: {"session": read(id)}, "session.save": save, "session.delete": delete,
    "session.open": lambda **_: {}, "session.close": lambda **_: {},
    "session.permission": permission, "session.cancel": lambda id, **_: permission(id, "expired"),
}
for line in sys.stdin:
    call = json.loads(line)
    try:
        if call["method"] == "session.prompt": prompt(call["id"], **call["params"])
        elif call["method"] in METHODS: send(id=call["id"], result=METHODS[call["method"]](**call["params"]))
        else: raise Refused("unsupported", f"no method {call['method']}")
    except Refused as no:
        send(id=call["id"], error={"code": -32000, "message": no.args[1], "data": {"code": no.args[0]}})
