"""Starts an HTTP server for this program's own use, and reads where it listens."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from . import _process
from .errors import TriplaneError


@dataclass(frozen=True)
class Server:
    """For `connect_http`."""

    url: str
    token: str


@asynccontextmanager
async def start_server(
    command: str = "triplane",
    *,
    args: Sequence[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stderr: int | None = None,
) -> AsyncIterator[Server]:
    """Runs `triplane serve --transport http` on a free port while the block lasts. `args`: further flags; `stderr`: as for a
    subprocess, the caller's own when absent."""
    flags = ["serve", "--transport", "http", "--addr", "127.0.0.1:0", *args]
    process = await _process.start(command, flags, cwd=cwd, env=env, stderr=stderr)
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        try:
            ready = json.loads(line)
            server = Server(ready["url"], ready["token"])
        except (ValueError, KeyError, TypeError) as error:
            raise TriplaneError("disconnected", "the server ended before it listened") from error
        yield server
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await _process.stop(process)
