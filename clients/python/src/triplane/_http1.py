"""HTTP/1.1 as far as one server of ours needs it: a request a connection, a body of a stated length, chunks, or to the end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from types import TracebackType
from urllib.parse import urlsplit

from .errors import TriplaneError

LINE_BYTES = 64 << 10


class Response:
    """An answer whose head is read. The connection closes with it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> Response:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer.transport.abort()

    async def read_head(self) -> None:
        line = (await self._reader.readline()).decode("latin-1").split(" ", 2)
        if len(line) < 2 or not line[0].startswith("HTTP/1.") or not line[1].isdigit():
            raise TriplaneError("protocol" if line != [""] else "disconnected", "no answer in HTTP/1.1")
        self.status = int(line[1])
        while (text := (await self._reader.readline()).decode("latin-1").strip()) != "":
            name, _, value = text.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, as it comes. Raises `disconnected` when it is cut."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            while (size := int((await self._reader.readline()).split(b";")[0].strip() or b"-1", 16)) > 0:
                yield await self._reader.readexactly(size)
                await self._reader.readexactly(2)
            if size < 0:
                raise TriplaneError("disconnected", "the body was cut")
        elif "content-length" in self.headers:
            yield await self._reader.readexactly(int(self.headers["content-length"]))
        elif self.status not in (204, 304):
            while chunk := await self._reader.read(LINE_BYTES):
                yield chunk

    async def body(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


async def send(base: str, method: str, path: str, headers: dict[str, str], body: bytes | None) -> Response:
    """Sends a request, and reads the head of its answer. What fails below HTTP is `disconnected`."""
    url = urlsplit(base)
    context = ssl.create_default_context() if url.scheme == "https" else None
    port = url.port or (443 if context else 80)
    try:
        reader, writer = await asyncio.open_connection(url.hostname, port, ssl=context, limit=LINE_BYTES)
    except OSError as error:
        raise TriplaneError("disconnected", f"no connection to {base}", cause=str(error)) from error
    response = Response(reader, writer)
    try:
        lines = [f"{method} {url.path.rstrip('/')}{path} HTTP/1.1", f"host: {url.netloc}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method in ("POST", "PATCH"):
            lines.append(f"content-length: {len(body or b'')}")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
        await writer.drain()
        await response.read_head()
        return response
    except (OSError, ValueError) as error:
        writer.transport.abort()
        raise TriplaneError("disconnected", f"no answer from {base}", cause=str(error)) from error
    except BaseException:
        writer.transport.abort()
        raise
