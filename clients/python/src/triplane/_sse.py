"""A reader of event streams (the WHATWG rules): bytes in any cuts in, messages out."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\n|\r(?!\Z)")


class Message(NamedTuple):
    """One message: `id` only if it has one of its own."""

    event: str
    data: str
    id: str | None


class StreamParser:
    def __init__(self) -> None:
        self.retry_ms: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._rest = ""
        self._data: list[str] = []
        self._event = ""
        self._id: str | None = None

    def push(self, data: bytes) -> Iterator[Message]:
        """The messages that `data` completes. A CR at the very end may be half of a CRLF, and waits."""
        *lines, self._rest = _LINE_END.split(self._rest + self._decoder.decode(data))
        for line in lines:
            if (message := self._line(line)) is not None:
                yield message

    def _line(self, line: str) -> Message | None:
        if line == "":
            message = Message(self._event or "message", "\n".join(self._data), self._id)
            empty = not self._data
            self._data, self._event, self._id = [], "", None
            return None if empty else message
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value)
        return None
