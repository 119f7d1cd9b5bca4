"""Servers and scratch directories for a test; everything ends with it, and nothing takes longer than `DEADLINE`."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from triplane import Server, StdioClient, spawn_stdio, start_server

BIN = os.environ.get("TRIPLANE_BIN") or str(Path(__file__).resolve().parents[3] / "target" / "debug" / "triplane")
TOKEN = "a-token-for-tests-only"
DEADLINE = 30.0


def timed(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs an async test, under a deadline. The wrapper keeps the parameters, for pytest's fixtures."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        async def under_deadline() -> None:
            async with asyncio.timeout(DEADLINE):
                await test(*args, **fixtures)

        asyncio.run(under_deadline())

    return run


def where(tmp_path: Path) -> dict[str, Any]:
    """How a server is started in a directory of its own."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "TRIPLANE_HOME": str(tmp_path / "home"), "TRIPLANE_TOKEN": TOKEN}
    return {"cwd": work, "env": env, "stderr": subprocess.DEVNULL}


def serve(tmp_path: Path) -> Any:
    return start_server(BIN, **where(tmp_path))


@asynccontextmanager
async def spawned(tmp_path: Path) -> AsyncIterator[StdioClient]:
    client = await spawn_stdio(BIN, **where(tmp_path))
    try:
        yield client
    finally:
        await client.kill()


def write(path: str, content: str) -> str:
    """A prompt whose model calls the tool that writes a file, which asks for a permission."""
    return f"/tool write {json.dumps({'path': path, 'content': content})}"


class Line:
    """A TCP line to a server, that can be cut and led elsewhere."""

    def __init__(self, server: Server) -> None:
        self.to = urlsplit(server.url).port
        self.connections = 0
        self.url = ""
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.to)
        self._open |= {writer, far_writer}

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            except OSError:
                pass
            finally:
                for one in (writer, far_writer):
                    one.transport.abort()

        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        self._open -= {writer, far_writer}


@asynccontextmanager
async def line(server: Server) -> AsyncIterator[Line]:
    proxy = Line(server)
    listening = await asyncio.start_server(proxy._meet, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        listening.close()
        proxy.cut()
        await asyncio.sleep(0)


def contiguous(items: list[Any]) -> bool:
    return [one["seq"] for one in items] == [items[0]["seq"] + at for at in range(len(items))]


def said(items: list[Any]) -> str:
    return "".join(one["text"] for one in items if one["type"] in ("llm_delta", "textDelta"))
