#!/usr/bin/env python3
"""The built-in agent with real MCP servers and real language servers, through the real program.

    servers.py PROGRAM NODE_MODULES PYTHON_BIN

NODE_MODULES/.bin has server-everything, server-filesystem, pyright and typescript-language-server; PYTHON_BIN has mcp-server-time.
A dash in the place of one of them: what needs it is skipped. The last line counts: `agent: N passed, M failed, K skipped`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

DEADLINE = 60
TOKEN = "a-token-for-tests-only"
PROGRAM, NODE, PYTHON = (os.path.abspath(arg) if arg != "-" else None for arg in sys.argv[1:4])


class Skip(Exception):
    """What is missing."""


def npm(name):
    if NODE is None:
        raise Skip("the servers from npm are not installed")
    return os.path.join(NODE, ".bin", name)


def pypi(name):
    if PYTHON is None:
        raise Skip("the server from PyPI is not installed")
    return os.path.join(PYTHON, name)


def everything():
    return f'[mcp.everything]\ncommand = "{npm("mcp-server-everything")}"\n'


def languages():
    return (
        f'[lsp.pyright]\ncommand = "{npm("pyright-langserver")}"\nargs = ["--stdio"]\n'
        f'[lsp.typescript]\ncommand = "{npm("typescript-language-server")}"\nargs = ["--stdio"]\n'
        f'init_options = {{ tsserver = {{ path = "{NODE}/typescript/lib" }} }}\n'
    )


class House:
    """A home and a directory to work in, and what runs there."""

    def __init__(self, settings=""):
        self.temp = tempfile.TemporaryDirectory()
        self.root = os.path.realpath(self.temp.name)
        self.work, home = os.path.join(self.root, "work"), os.path.join(self.root, "home")
        os.mkdir(self.work)
        os.mkdir(home)
        self.write("../home/triplane.toml", settings)
        self.env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
        self.env |= {"TRIPLANE_HOME": home, "TRIPLANE_TOKEN": TOKEN}
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()
        self.temp.cleanup()

    def write(self, path, text):
        with open(os.path.join(self.work, path), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *args, code=0, **env):
        done = subprocess.run(
            [PROGRAM, *args], cwd=self.work, env=self.env | env, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        assert done.returncode == code, (args, done)
        return done.stdout

    def prompt(self, script, *args, **env):
        """The events of a run in which nothing asks."""
        text = self.run("prompt", "--json", "--mode", "bypass", *args, script, **env)
        return [json.loads(line) for line in text.splitlines()]

    def start(self, *args, **env):
        process = subprocess.Popen(
            [PROGRAM, *args], cwd=self.work, env=self.env | env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.running.append(process)
        return process, json.loads(process.stdout.readline())


def results(events):
    ends = [event for event in events if event["type"] == "tool_call_end"]
    return [(end["error"], "".join(part.get("text", "") for part in end["output"])) for end in ends]


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def until(what, fits, seconds=20):
    end = time.monotonic() + seconds
    while not fits():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def below(pid):
    """The command lines of everything that `pid` started, without guards."""
    parents, lines = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                lines[int(name)] = file.read().replace("\0", " ")
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(name)] = int(fields[1])
    found, grew = {pid}, True
    while grew:
        more = {child for child, parent in parents.items() if parent in found}
        grew = not more <= found
        found |= more
    return {one: lines[one] for one in found - {pid} if one in lines and "__shim" not in lines[one]}


def post(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=DEADLINE) as reply:
        return json.load(reply)


def servers_from_npm_and_pypi_are_listed_and_called():
    with House() as house:
        house.write("a.txt", "alpha")
        settings = everything() + f'[mcp.fs]\ncommand = "{npm("mcp-server-filesystem")}"\nargs = ["{house.work}"]\n'
        settings += f'[mcp.time]\ncommand = "{pypi("mcp-server-time")}"\n'
        house.write("../home/triplane.toml", settings)
        rows = [json.loads(line) for line in house.run("mcp", "list", "--check", "--json").splitlines()]
        assert [(row["name"], row["state"]) for row in rows] == [("everything", "ready"), ("fs", "ready"), ("time", "ready")], rows
        assert all(row["tools"] for row in rows), rows
        calls = [
            ("mcp__everything__echo", {"message": "hi"}),
            ("mcp__fs__read_text_file", {"path": f"{house.work}/a.txt"}),
            ("mcp__fs__read_text_file", {"path": "/etc/passwd"}),
            ("mcp__time__convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
            ("mcp__everything__get-sum", {"a": "x"}),
        ]
        told = results(house.prompt("\n".join(f"/tool {name} {json.dumps(data)}" for name, data in calls)))
        assert told[0] == (False, "Echo: hi") and told[1] == (False, "alpha"), told
        assert told[2][0] and "denied" in told[2][1], told
        assert not told[3][0] and "21:00" in told[3][1], told
        assert told[4][0], told


def progress_pictures_and_questions_become_events():
    with House(everything()) as house:
        script = "\n".join(f"/tool mcp__everything__{call}" for call in (
            'trigger-long-running-operation {"duration":1,"steps":4}', "get-tiny-image", "trigger-elicitation-request"))
        events = house.prompt(script)
        said = [event["text"] for event in events if event["type"] == "tool_call_output"]
        assert said and said[0].startswith("[1/4]"), said
        ends = [event for event in events if event["type"] == "tool_call_end"]
        assert [part["type"] for part in ends[1]["output"]] == ["text", "image"], ends[1]
        # Its form wants a name typed, so nobody can answer it here: it is told, and declined.
        asked = [event["data"] for event in events if event["type"] == "extension"]
        assert [(data["server"], data["answer"]) for data in asked] == [("everything", "decline")], asked
        assert "declined" in ends[2]["output"][0]["text"], ends[2]


def a_server_over_http_may_go_and_come_back():
    port = free_port()
    with House(f'[mcp.far]\nurl = "http://127.0.0.1:{port}/mcp"\n') as house:
        def serve():
            process = subprocess.Popen([npm("mcp-server-everything"), "streamableHttp"], env=house.env | {"PORT": str(port)},
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            house.running.append(process)
            until("it listens", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
            return process
        far = serve()
        _, ready = house.start("serve", "--transport", "http", "--addr", "127.0.0.1:0")
        session = post(ready["url"], "/v1/sessions", {"mode": "bypass"})["id"]

        def echo():
            prompt = {"text": '/tool mcp__far__echo {"message":"hi"}', "wait": True}
            return post(ready["url"], f"/v1/sessions/{session}/prompt", prompt)["text"]
        assert echo() == "tool mcp__far__echo: Echo: hi"
        far.kill()
        far.wait()
        gone = echo()
        assert "MCP server `far`" in gone and "Echo" not in gone, gone
        serve()
        until("it is connected again", lambda: echo() == "tool mcp__far__echo: Echo: hi")


def sessions_share_servers_which_end_with_the_process():
    with House(everything() + languages()) as house:
        process, ready = house.start("serve", "--transport", "http", "--addr", "127.0.0.1:0")
        sessions = [post(ready["url"], "/v1/sessions", {"mode": "bypass"})["id"] for _ in range(3)]
        assert not below(process.pid), "nothing is started before it is needed"
        write = json.dumps({"path": "a.py", "content": "x: int = 'a'\n"})
        script = f'/tool mcp__everything__echo {{"message":"hi"}}\n/tool write {write}'
        for session in sessions:
            post(ready["url"], f"/v1/sessions/{session}/prompt", {"text": script})
        for session in sessions:
            def read(session=session):
                request = urllib.request.Request(f"{ready['url']}/v1/sessions/{session}", headers={"Authorization": f"Bearer {TOKEN}"})
                with urllib.request.urlopen(request, timeout=DEADLINE) as reply:
                    return json.load(reply)
            until("the run ends", lambda: not read()["busy"], DEADLINE)  # pylint: disable=cell-var-from-loop
        started = below(process.pid)
        count = {name: sum(name in line and "node" in line.split(" ")[0] for line in started.values())
                 for name in ("server-everything", "pyright-langserver")}
        assert count == {"server-everything": 1, "pyright-langserver": 1}, started
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        until("all of them end", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in started))


def a_model_is_told_of_the_tools_and_a_person_of_what_is_not_approved():
    with House(everything() + languages()) as house:
        house.write(".mcp.json", json.dumps({"mcpServers": {"theirs": {"command": npm("mcp-server-filesystem"), "args": [house.work]}}}))
        _, model = house.start("script-model")
        address = {"OPENAI_BASE_URL": model["url"] + "/v1"}
        events = house.prompt('/tool mcp__everything__echo {"message":"hi"}', "--model", "openai/echo", **address)
        assert results(events) == [(False, "Echo: hi")], events
        news = [event["data"] for event in events if event["type"] == "extension"]
        assert [(data["server"], data["state"]) for data in news] == [("theirs", "unapproved")], news

        def named():
            with urllib.request.urlopen(model["url"] + "/requests", timeout=DEADLINE) as reply:
                return reply.read().decode()
        asked = named()
        assert "mcp__everything__echo" in asked and "definition" in asked and "mcp__theirs__" not in asked, asked[:2000]
        assert house.run("mcp", "approve", "theirs").startswith("approved for "), "approve says what it did"
        events = house.prompt("/tool mcp__theirs__list_allowed_directories", "--model", "openai/echo", **address)
        assert house.work in results(events)[0][1] and not [event for event in events if event["type"] == "extension"], events
        assert "mcp__theirs__" in named()
        house.run("mcp", "revoke", "theirs")
        assert "was not approved" in results(house.prompt("/tool mcp__theirs__list_allowed_directories"))[0][1]


def pyright_tells_what_an_edit_broke_and_finds_its_way():
    with House(languages()) as house:
        house.write("lib.py", 'def greet(name: str) -> str:\n    return "hi " + name\n')
        calls = [
            ("write", {"path": "a.py", "content": "from lib import greet\nx: int = greet('a')\n"}),
            ("edit", {"path": "a.py", "old": "x: int", "new": "x: str"}),
            ("diagnostics", {"path": "a.py"}),
            ("definition", {"path": "a.py", "symbol": "greet", "line": 2}),
            ("references", {"path": "lib.py", "symbol": "greet"}),
            ("symbols", {"path": "lib.py"}),
        ]
        told = results(house.prompt("\n".join(f"/tool {name} {json.dumps(data)}" for name, data in calls)))
        assert not any(error for error, _ in told), told
        texts = [text for _, text in told]
        assert "problems that pyright finds in it now:\nerror 2:10: " in texts[0], texts[0]
        assert texts[1] == "changed a.py" and texts[2] == "no problems", texts[1:3]
        assert texts[3] == "lib.py:1:5: def greet(name: str) -> str:", texts[3]
        assert [line.split(":")[0] for line in texts[4].splitlines()] == ["a.py", "a.py", "lib.py"], texts[4]
        assert texts[5].startswith("1: function greet"), texts[5]


def typescript_tells_what_an_edit_broke():
    with House(languages()) as house:
        calls = [("write", {"path": "a.ts", "content": "const x: number = 1;\n"}), ("edit", {"path": "a.ts", "old": "1", "new": "true"})]
        told = results(house.prompt("\n".join(f"/tool {name} {json.dumps(data)}" for name, data in calls)))
        assert told[0] == (False, "made a.ts (21 bytes)"), told
        assert "Type 'boolean' is not assignable to type 'number'." in told[1][1], told


def main():
    cases = [case for name, case in globals().items() if callable(case) and case.__module__ == "__main__" and "_" in name
             and name not in ("free_port",)]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in cases:
        began, name = time.monotonic(), case.__name__.replace("_", " ")
        try:
            case()
            how = "passed"
        except Skip as why:
            how, name = "skipped", f"{name}: {why}"
        except Exception:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
            how = "failed"
        counts[how] += 1
        print(f"   {how}: {name} ({time.monotonic() - began:.1f} s)", flush=True)
    print("agent: {passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
