"""One process of the stdio wire: its calls in flight, and the task that reads it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from . import _process
from .errors import TriplaneError


class Peer:
    """`notified` is told of each notification, `ended` once, when nothing more will come."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        notified: Callable[[str, dict[str, Any]], None],
        ended: Callable[[Peer, TriplaneError], None],
    ) -> None:
        self._process = process
        self._notified, self._ended = notified, ended
        self._last = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._gone: TriplaneError | None = None
        self._reading = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        return self._process.pid

    async def call(self, method: str, params: Mapping[str, Any] | None) -> Any:
        if self._gone is not None:
            raise self._gone
        assert self._process.stdin is not None
        self._last += 1
        id = self._last
        reply = self._pending[id] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            with suppress(ConnectionError):  # told by the reader
                await self._process.stdin.drain()
            return await reply
        finally:
            self._pending.pop(id, None)

    async def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        await _process.stop(self._process)
        await self._reading

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        error = TriplaneError("disconnected", "the server process ended")
        try:
            while line := await self._process.stdout.readline():
                if line.strip():
                    self._take(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as caught:
            error = TriplaneError("protocol", "the process says what is not of this wire", cause=repr(caught))
            with suppress(ProcessLookupError):
                self._process.kill()
        self._gone = error
        self._ended(self, error)
        for reply in self._pending.values():
            if not reply.done():
                reply.set_exception(error)

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self._notified(message["method"], message["params"])
            return
        reply = self._pending.get(message["id"])
        if reply is None or reply.done():
            return
        if (error := message.get("error")) is None:
            reply.set_result(message["result"])
            return
        data = error.get("data") or {}
        reply.set_exception(TriplaneError(data.get("code", "protocol"), error["message"], cause=data.get("cause")))
