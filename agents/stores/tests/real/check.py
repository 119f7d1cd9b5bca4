"""Converts one session into the stores of real agents, resumes it there, and looks for its history in the next request to the model.

check.py TRIPLANE PROGRAMS: the binary under test, and a directory in which npm has installed the agents. Standard library only.
The model is a small server on loopback that knows two protocols and answers every request with one sentence."""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

DEADLINE = 180
MARKS = ["what is the secret word?", "Let me look.", "cat secret", "zebra", "The secret word is zebra."]


class Model(http.server.BaseHTTPRequestHandler):
    """Answers as Anthropic's messages, OpenAI's responses and OpenAI's chat do, and keeps what it was asked."""

    protocol_version = "HTTP/1.1"
    asked = []

    def log_message(self, *_):
        pass

    def reply(self, body, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(b'{"data": []}', "application/json")

    do_HEAD = do_GET

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            body = json.loads(text)
        except ValueError:
            return self.reply(b"{}", "application/json")
        Model.asked.append(body)
        path = self.path.split("?")[0]
        if path.endswith("count_tokens"):
            return self.reply(b'{"input_tokens": 1}', "application/json")
        shape = {"messages": anthropic, "responses": responses, "completions": chat}.get(path.rsplit("/", 1)[-1])
        if shape is None:
            return self.reply(b"{}", "application/json")
        events = shape(body)
        if not body.get("stream"):
            return self.reply(json.dumps(events[-1]).encode(), "application/json")
        self.reply("".join(events[:-1]).encode(), "text/event-stream")


def event(data, name=True):
    return (f"event: {data['type']}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def anthropic(body):
    usage = {"input_tokens": 1, "output_tokens": 1}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "stop_sequence": None,
             "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn", "usage": usage}
    start = {**whole, "content": [], "stop_reason": None}
    return [event(data) for data in (
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"})] + [whole]


def responses(body):
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "model": body.get("model"),
             "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}
    return [event(data) for data in (
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "Done."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole})] + [whole]


def chat(body):
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body.get("model")}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    delta = {"role": "assistant", "content": "Done."}
    whole = {**base, "object": "chat.completion", "usage": usage,
             "choices": [{"index": 0, "message": delta, "finish_reason": "stop"}]}
    return [event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}, False),
            event({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}, False),
            "data: [DONE]\n\n", whole]


def session(cwd):
    def said(number, role, *parts):
        return {"id": f"m{number}", "role": role, "at": 1796000000000 + number, "parts": list(parts)}
    words = lambda text: {"type": "text", "text": text}
    return {"version": 1, "id": "source", "agent": "native", "cwd": cwd, "title": "The word", "model": "fake/fake-1",
            "created": 1796000000000, "updated": 1796000000009, "messages": [
                said(1, "user", words(MARKS[0])),
                said(2, "assistant", {"type": "thinking", "text": "I have to look."}, words(MARKS[1]),
                     {"type": "call", "id": "call_h1", "name": "bash", "input": {"command": MARKS[2]}}),
                said(3, "tool", {"type": "result", "id": "call_h1", "output": [words(MARKS[3])], "error": False}),
                said(4, "assistant", words(MARKS[4]))]}


def ask(args, cwd, env, stdin=""):
    """Runs a program in a group of its own, which is gone afterwards. Its output."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(args, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            process.communicate(stdin.encode(), timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        out.seek(0)
        return out.read().decode(errors="replace")


def main():
    triplane, programs = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve() / "node_modules"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    passed = failed = 0
    with tempfile.TemporaryDirectory() as temp:
        home, cwd = pathlib.Path(temp, "home"), pathlib.Path(temp, "work")
        for path in (home, cwd, home / ".codex", home / ".config/opencode"):
            path.mkdir(parents=True, exist_ok=True)
        (home / ".codex/config.toml").write_text(
            f'model = "fake-1"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\nbase_url = "{url}/v1"\n'
            'wire_api = "responses"\nenv_key = "FAKE_KEY"\n')
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
                    "models": {"fake-1": {"name": "fake-1"}}}
        (home / ".config/opencode/opencode.json").write_text(json.dumps({"provider": {"fake": provider}, "model": "fake/fake-1"}))
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "FAKE_KEY": "x", "ANTHROPIC_BASE_URL": url,
               "ANTHROPIC_API_KEY": "x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
               **{f"OPENCODE_DISABLE_{what}": "1" for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")}}
        opencode = str(programs / "opencode-linux-x64/bin/opencode")
        codex = next(programs.glob("@openai/codex-linux-x64/vendor/*/bin/codex"), programs / "codex")
        agents = {
            "claude": [str(programs / "@anthropic-ai/claude-code-linux-x64/claude"), "-p", "--resume", "ID", "go on"],
            "codex": [str(codex), "exec", "--skip-git-repo-check", "resume", "ID", "go on"],
            "opencode": [opencode, "run", "-s", "ID", "go on"],
        }
        source = pathlib.Path(temp, "session.json")
        source.write_text(json.dumps(session(str(cwd))))
        for agent, command in agents.items():
            if not os.access(command[0], os.X_OK):
                print(f"   skipped: {agent}: npm installed no program for this machine")
                continue
            if agent == "opencode":
                # Its tables are there from its first start on.
                ask([opencode, "session", "list"], cwd, env)
            made = subprocess.run([triplane, "sessions", "import", str(source), "--to", agent], cwd=cwd, env=env,
                                  capture_output=True, text=True, timeout=DEADLINE)
            name = made.stdout.strip()
            Model.asked.clear()
            output = ask([name if word == "ID" else word for word in command], cwd, env) if name else made.stderr
            seen = max((sum(mark in json.dumps(body, ensure_ascii=False) for mark in MARKS) for body in Model.asked), default=0)
            back = subprocess.run([triplane, "sessions", "export", name or "x", "--from", agent], cwd=cwd, env=env,
                                  capture_output=True, text=True, timeout=DEADLINE)
            grown = "go on" in back.stdout and "Done." in back.stdout
            if seen == len(MARKS) and grown:
                passed += 1
                print(f"   {agent}: resumed with its whole history, and what it added is read back")
            else:
                failed += 1
                print(f"   {agent}: FAILED: {seen} of {len(MARKS)} marks in the request, added to: {grown}\n{output[-2000:]}{back.stderr}")
    server.shutdown()
    print(f"stores: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
