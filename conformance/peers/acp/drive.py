"""Real agents over ACP, driven through the three wires against a model on loopback. Standard library only.

    drive.py TRIPLANE AGENT.json

AGENT.json: {"name", "command", "env", "files": {path: text}, "tool": {"name", "input"}}; "{url}" and "{home}" in it are filled in.
Each wire gets: a prompt, a tool call allowed and refused, a cancel, and a restart after which the agent knows the history.
"""

import base64, json, os, pathlib, queue, signal, socket, subprocess, sys, tempfile, threading, time, urllib.request

LIMIT = 90


class Stdio:
    """One JSON object a line, on pipes."""

    def __init__(self, program, env, cwd):
        command = [program, "serve", "--transport", "stdio"]
        self.child = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rpc = Rpc(lambda text: (self.child.stdin.write(text + "\n"), self.child.stdin.flush()), iter(self.child.stdout))

    def create(self, agent, cwd):
        self.id = self.rpc.call("sessions.create", {"cwd": cwd, "agent": agent})["id"]

    def attach(self, id):
        self.id = id
        self.rpc.call("sessions.attach", {"id": id})

    def listen(self):
        # A second subscription would double what comes.
        if getattr(self, "heard", None) != self.id:
            self.heard = self.id
            self.rpc.call("sessions.subscribe", {"id": self.id})

    def start(self, text):
        return self.rpc.send("sessions.prompt", {"id": self.id, "parts": [{"type": "text", "text": text}]})

    def events(self):
        while True:
            params = self.rpc.notes.get(timeout=LIMIT).get("params", {})
            yield from params.get("events", [])

    def answer(self, request, option):
        self.rpc.call("sessions.permission", {"id": self.id, "request": request, "option": option})

    def cancel(self):
        self.rpc.call("sessions.cancel", {"id": self.id})

    def stop(self):
        end(self.child)


class Http:
    """HTTP with Server-Sent Events."""

    def __init__(self, program, env, cwd):
        command = [program, "serve", "--transport", "http", "--addr", "127.0.0.1:0"]
        self.child = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        ready = json.loads(self.child.stdout.readline())
        self.url, self.token = ready["url"], ready["token"]

    def ask(self, verb, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Authorization": "Bearer " + self.token}, method=verb)
        with urllib.request.urlopen(request, timeout=LIMIT) as reply:
            return json.loads(reply.read() or b"null")

    def create(self, agent, cwd):
        self.id = self.ask("POST", "/v1/sessions", {"agent": agent})["id"]

    def attach(self, id):
        self.id = self.ask("POST", "/v1/sessions", {"resume": id})["id"]

    def listen(self):
        self.stream = urllib.request.urlopen(f"{self.url}/v1/sessions/{self.id}/events?token={self.token}", timeout=LIMIT)

    def start(self, text):
        self.ask("POST", f"/v1/sessions/{self.id}/prompt", {"text": text})

    def events(self):
        for line in self.stream:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def answer(self, request, option):
        self.ask("POST", f"/v1/sessions/{self.id}/permissions/{request}", {"allow": option["kind"].startswith("allow")})

    def cancel(self):
        self.ask("POST", f"/v1/sessions/{self.id}/cancel")

    def stop(self):
        end(self.child)


class Rpc:
    """JSON-RPC: replies by id, notifications in a queue."""

    def __init__(self, write, lines):
        self.write, self.next, self.replies, self.notes = write, 0, {}, queue.Queue()
        threading.Thread(target=self.read, args=(lines,), daemon=True).start()

    def read(self, lines):
        for line in lines:
            message = json.loads(line)
            if "method" in message:
                self.notes.put(message)
            else:
                self.replies.setdefault(message["id"], queue.Queue()).put(message)

    def send(self, method, params):
        self.next += 1
        self.replies.setdefault(self.next, queue.Queue())
        self.write(json.dumps({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}))
        return self.next

    def call(self, method, params):
        return self.reply(self.send(method, params))

    def reply(self, id):
        message = self.replies[id].get(timeout=LIMIT)
        if "error" in message:
            raise SystemExit(f"{message['error']}")
        return message["result"]


class Ws(Http):
    """WebSocket for sessions and prompts; permissions are answered over HTTP, since that wire has no call for them."""

    def __init__(self, program, env, cwd):
        command = [program, "serve", "--transport", "ws,http", "--addr", "127.0.0.1:0", "--agent", env["DRIVE_AGENT"]]
        self.child = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        for ready in (json.loads(self.child.stdout.readline()) for _ in range(2)):
            self.token = ready["token"]
            self.url = ready.get("url", getattr(self, "url", None))
            self.port = ready.get("port", getattr(self, "port", None))
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        head += f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nx-triplane-token: {self.token}\r\n\r\n"
        self.socket.sendall(head.encode())
        self.file = self.socket.makefile("rb")
        assert b" 101 " in self.file.readline()
        while self.file.readline().strip():
            pass
        self.rpc = Rpc(self.frame, self.frames())

    def frame(self, text, opcode=1):
        data, mask = text.encode(), os.urandom(4)
        length = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + len(data).to_bytes(2, "big")
        body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self.socket.sendall(bytes([0x80 | opcode]) + length + mask + body)

    def frames(self):
        while len(head := self.file.read(2)) == 2:
            length = head[1] & 127
            if length > 125:
                length = int.from_bytes(self.file.read(2 if length == 126 else 8), "big")
            data = self.file.read(length)
            if head[0] & 15 == 1:
                yield data

    def create(self, agent, cwd):
        self.id = self.rpc.call("session.create", {"source": "drive"})["session_id"]

    def attach(self, id):
        # A resume over this wire is a fork.
        self.id = self.rpc.call("session.resume", {"id": id})["session_id"]

    def listen(self):
        pass

    def start(self, text):
        self.submit = self.rpc.send("prompt.submit", {"session_id": self.id, "text": text})

    def events(self):
        while True:
            event = self.rpc.notes.get(timeout=LIMIT)["params"]["event"]
            yield event
            if event["type"] == "final":
                self.rpc.reply(self.submit)
                yield {"type": "status", "busy": False}

    def cancel(self):
        self.rpc.call("prompt.abort", {"session_id": self.id})


def end(child):
    child.send_signal(signal.SIGTERM)
    child.wait(timeout=30)


def run(wire, text, option=None, cancel=False):
    """One run to its end: (why it stopped, its reply, whether anybody was asked)."""
    wire.listen()
    wire.start(text)
    asked, stop, reply = False, None, ""
    for event in wire.events():
        kind = event["type"]
        if kind in ("permission_request", "permissionRequest"):
            asked = True
            wanted = "allow_once" if option == "allow" else "reject_once"
            found = next(o for o in event["options"] if o["kind"] == wanted)
            request = event.get("request_id") or event.get("requestId")
            wire.answer(request, found["id"] if isinstance(wire, Stdio) else found)
        elif kind in ("llm_delta", "textDelta") and cancel:
            cancel = False
            wire.cancel()
        elif kind == "error":
            print("   ", event)
        elif kind == "final":
            stop = event.get("stopped_reason") or event.get("stoppedReason")
            reply = event["reply"]
        elif kind in ("status", "runFinished") and not event.get("busy"):
            if isinstance(wire, Http):
                getattr(wire, "stream", wire.child.stdout).close() if hasattr(wire, "stream") else None
            return stop or event.get("outcome"), reply, asked


def check(what, truth):
    print(f"   {'ok  ' if truth else 'FAIL'} {what}", flush=True)
    return bool(truth)


def drive(program, agent, wire, root, log):
    """All checks over one wire; how many failed."""
    cwd = str(root / "work")
    name, tool = agent["name"], agent["tool"]
    env = {**os.environ, "TRIPLANE_HOME": str(root / "home"), "DRIVE_AGENT": name, "TRIPLANE_LOG": "error"}
    call = lambda mark: f"[[tool:{tool['name']} {json.dumps(tool['input']).replace('MARK', mark)}]]"
    server, results = wire(program, env, cwd), []
    try:
        server.create(name, cwd)
        stop, reply, _ = run(server, "[[say:the first answer]]")
        results.append(check("a prompt is answered", stop == "completed" and "the first answer" in reply))
        _, _, asked = run(server, call("allowed"), "allow")
        results.append(check("a tool that is allowed runs", asked and (root / "work" / "allowed").exists()))
        (root / "work" / "allowed").unlink(missing_ok=True)
        _, _, asked = run(server, call("refused"), "refuse")
        results.append(check("a tool that is refused does not", asked and not (root / "work" / "refused").exists()))
        began = time.monotonic()
        stop, _, _ = run(server, "[[slow:0.2]][[long:400]]", cancel=True)
        results.append(check("a cancel ends the run", stop == "aborted" and time.monotonic() - began < 20))
        stop, reply, _ = run(server, "[[say:after the cancel]]")
        results.append(check("the next prompt works", stop == "completed" and "after the cancel" in reply))
    finally:
        server.stop()
    server = wire(program, env, cwd)
    try:
        server.attach(previous(root))
        size = log.stat().st_size
        stop, reply, _ = run(server, "[[say:after the restart]]")
        asked = log.read_bytes()[size:].decode(errors="replace")
        results.append(check("after a restart it goes on", stop == "completed" and "after the restart" in reply))
        results.append(check("and its model sees the history", "the first answer" in asked))
    finally:
        server.stop()
    return results.count(False)


def previous(root):
    """The session that was written last."""
    files = (root / "work" / ".triplane" / "sessions").glob("*.jsonl")
    return max(files, key=lambda file: file.stat().st_mtime_ns).stem


def main():
    program, agent = os.path.abspath(sys.argv[1]), json.load(open(sys.argv[2]))
    here, failed = pathlib.Path(__file__).parent, 0
    for wire in (Stdio, Http, Ws):
        with tempfile.TemporaryDirectory() as temp:
            root = pathlib.Path(temp)
            log = root / "model.log"
            for sub in ("home", "work", "agent"):
                (root / sub).mkdir()
            log.touch()
            command = [sys.executable, str(here / "fake_model.py"), "--port", "0", "--log", str(log)]
            model = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                url = f"http://127.0.0.1:{json.loads(model.stdout.readline())['port']}"
                fill = lambda text: text.replace("{url}", url).replace("{home}", str(root / "agent"))
                for path, text in agent["files"].items():
                    file = root / "agent" / path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(fill(text))
                env = ", ".join(f"{json.dumps(key)} = {json.dumps(fill(value))}" for key, value in agent["env"].items())
                table = f"[agents.{agent['name']}]\ncommand = {json.dumps(agent['command'])}\nenv = {{ {env} }}\n"
                (root / "home" / "triplane.toml").write_text(table)
                print(f"== {agent['name']} over {wire.__name__.lower()}", flush=True)
                failed += drive(program, agent, wire, root, log)
            finally:
                model.terminate()
                model.wait()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
