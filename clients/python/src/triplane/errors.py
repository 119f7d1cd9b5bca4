"""The one error of this package."""

from __future__ import annotations

from typing import Literal

from .generated.larik import ErrorCode

ClientCode = Literal["disconnected", "protocol", "replay_gap"]
"""Codes that this package gives: the connection is gone and the outcome unknown; the other end does not speak this protocol; the
events that were waited for are lost."""


class TriplaneError(Exception):
    """A call that failed: `code` to decide on, a message to show, and the server's own `cause` where it tells one."""

    def __init__(
        self, code: ErrorCode | ClientCode, message: str, *, cause: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.code: ErrorCode | ClientCode = code
        self.message = message
        self.cause = cause
        self.status = status
        """Status of the HTTP answer, where there was one."""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.cause})" if self.cause else "")
