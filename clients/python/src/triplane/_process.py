"""A child process of lines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from .errors import TriplaneError

LINE_BYTES = 64 << 20
"""Longest line that is taken: above the server's own bound for a batch of replies."""


async def start(
    command: str, args: Sequence[str], *, cwd: str | os.PathLike[str] | None, env: Mapping[str, str] | None, stderr: int | None
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            command,
            *args,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=LINE_BYTES,
        )
    except OSError as error:
        raise TriplaneError("disconnected", f"{command} could not be started", cause=str(error)) from error


async def stop(process: asyncio.subprocess.Process, *, seconds: float = 10.0) -> None:
    """Waits for a process that was told to end, and kills it after a while."""
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
