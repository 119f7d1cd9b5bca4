#!/usr/bin/env python3
"""A client of the stdio wire in another language, over what may stand between it and the server: a terminal, a socket, relays, files.

Usage: peer.py PROGRAM. Prints one line a check; exits 1 when one fails. Needs nothing but Python's own library, on Linux.
"""

import fcntl
import json
import os
import pty
import select
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import tty

DEADLINE = 10.0
PROGRAM = os.path.abspath(sys.argv[1])


class Broke(Exception):
    """The server did not do what it should."""


def start(home, stdin, stdout, program=None, **more):
    """The server, in directories of its own."""
    work = os.path.join(home, "work")
    os.makedirs(work, exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LLVM_PROFILE_FILE") if name in os.environ}
    env = {**kept, "HOME": home, "TRIPLANE_HOME": os.path.join(home, ".triplane")}
    command = program or [PROGRAM, "serve", "--transport", "stdio"]
    log = open(os.path.join(home, "stderr"), "wb")
    return subprocess.Popen(command, cwd=work, env=env, stdin=stdin, stdout=stdout, stderr=log, **more), work


class Wire:
    """Lines over two descriptors; every line that comes must be JSON-RPC."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.rest, self.next = b"", 1
        self.events = []

    def send(self, method, params):
        self.next += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}) + "\n"
        data = line.encode()
        while data:
            data = data[os.write(self.writer, data):]
        return self.next

    def line(self):
        end = time.monotonic() + DEADLINE
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.reader], [], [], left)[0]:
                raise Broke(f"no line within {DEADLINE} s; so far {self.rest[-200:]!r}")
            try:
                more = os.read(self.reader, 65536)
            except OSError as error:  # a terminal whose other side is closed
                raise Broke(f"the output ended: {error}") from error
            if not more:
                raise Broke(f"the output ended within {self.rest[-200:]!r}")
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        message = json.loads(line)
        if message.get("jsonrpc") != "2.0":
            raise Broke(f"no JSON-RPC: {line[:200]!r}")
        return message

    def reply(self, wanted):
        while True:
            message = self.line()
            if message.get("id") == wanted:
                if "error" in message:
                    raise Broke(f"an error: {message['error']}")
                return message["result"]
            self.events.append(message)

    def call(self, method, params=None):
        return self.reply(self.send(method, params or {}))


def same(got, want, what):
    if got != want:
        raise Broke(f"{what}: got {got!r}, want {want!r}")


def exits(child):
    try:
        same(child.wait(DEADLINE), 0, "the exit code")
    except subprocess.TimeoutExpired as error:
        raise Broke("the server did not end") from error


def main_path(wire, work, chunks):
    """A session, a run whose events all come, in order and before its reply."""
    same(wire.call("manifest")["protocol"], 1, "the wire's version")
    session = wire.call("sessions.create", {"cwd": work})["id"]
    wire.call("sessions.subscribe", {"id": session})
    text = f"/repeat {chunks} " + "x" * 100
    outcome = wire.call("sessions.prompt", {"id": session, "parts": [{"type": "text", "text": text}]})
    same(outcome["stopReason"], "completed", "the run")
    seqs = [event["seq"] for message in wire.events for event in message["params"]["events"]]
    same(seqs, list(range(1, len(seqs) + 1)), "the seqs")
    deltas = sum(event["type"] == "textDelta" for message in wire.events for event in message["params"]["events"])
    same(deltas, chunks, "deltas")
    return session


def terminal(home):
    """`ssh -t`: both ends are one terminal, in raw mode; the line ends as they are, and nothing is held back."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    child, work = start(home, slave, slave, start_new_session=True)
    os.close(slave)
    wire = Wire(master, master)
    main_path(wire, work, 300)
    wire.call("shutdown")
    exits(child)


def cooked_terminal(home):
    """A person at a terminal: lines in the terminal's own mode, and ^D at their end."""
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    child, _ = start(home, slave, slave, start_new_session=True)
    os.close(slave)
    wire = Wire(master, master)
    wire.call("manifest")
    os.write(master, b"\x04")
    exits(child)


def one_socket(home):
    """One socket for both directions, read slowly, then half closed: what was asked is answered, and the server ends."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    child, work = start(home, theirs, theirs)
    shared = fcntl.fcntl(theirs, fcntl.F_GETFL)
    wire = Wire(ours.fileno(), ours.fileno())
    session = main_path(wire, work, 300)
    many = [wire.send("sessions.get", {"id": session}) for _ in range(20)]
    time.sleep(0.3)
    ours.shutdown(socket.SHUT_WR)
    for one in many:
        same(wire.reply(one)["id"], session, "a late answer")
    exits(child)
    same(fcntl.fcntl(theirs, fcntl.F_GETFL), shared, "the flags of a socket that others may share")


def relays(home):
    """`ssh HOST triplane serve …` without a terminal: programs that only pass bytes on stand on both sides."""
    chain = ["/bin/sh", "-c", 'cat | "$0" serve --transport stdio | cat', PROGRAM]
    child, work = start(home, subprocess.PIPE, subprocess.PIPE, chain)
    wire = Wire(child.stdout.fileno(), child.stdin.fileno())
    main_path(wire, work, 300)
    child.stdin.close()
    exits(child)


def files(home):
    """Requests in a file, answers into another: all are answered, then the server ends."""
    path = os.path.join(home, "requests")
    with open(path, "w", encoding="utf-8") as out:
        for n in range(100):
            out.write(json.dumps({"jsonrpc": "2.0", "id": n, "method": "agents.list"}) + "\n")
        out.write('{"jsonrpc":"2.0","id":100,"method":"manifest"}')  # no line end
    with open(path, "rb") as requests, open(os.path.join(home, "answers"), "wb") as answers:
        child, _ = start(home, requests, answers)
        exits(child)
    with open(os.path.join(home, "answers"), encoding="utf-8") as answers:
        same(sorted(json.loads(line)["id"] for line in answers), list(range(101)), "the answers")


def stalled_reader(home):
    """Nobody reads for a while: the server waits, loses no reply, and is not held up for good."""
    child, work = start(home, subprocess.PIPE, subprocess.PIPE)
    wire = Wire(child.stdout.fileno(), child.stdin.fileno())
    session = main_path(wire, work, 10)
    count, sent = 3000, []
    writer = threading.Thread(target=lambda: sent.extend(wire.send("sessions.get", {"id": session}) for _ in range(count)))
    writer.start()
    time.sleep(0.5)
    seen = set()
    while len(seen) < count:
        message = wire.line()
        if "id" in message and message["id"] in seen:
            raise Broke(f"answered twice: {message['id']}")
        seen.add(message.get("id"))
    writer.join(DEADLINE)
    same(seen, set(sent), "the answers")
    wire.call("shutdown")
    exits(child)


def main():
    failed = 0
    for check in (terminal, cooked_terminal, one_socket, relays, files, stalled_reader):
        with tempfile.TemporaryDirectory(prefix="triplane-peer-") as home:
            try:
                check(home)
                print(f"{check.__name__}: held")
            except Broke as broke:
                failed += 1
                with open(os.path.join(home, "stderr"), "rb") as log:
                    print(f"{check.__name__}: BROKE: {broke}\n{log.read().decode(errors='replace')[-2000:]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
