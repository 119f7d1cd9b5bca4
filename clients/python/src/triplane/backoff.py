"""Waiting before one tries again."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Waits double from `min_s` to `max_s`, with jitter. `attempts`: failures in a row before it is given up; `None`: never."""

    min_s: float = 0.25
    max_s: float = 10.0
    attempts: int | None = None


class Retry:
    def __init__(self, options: Backoff) -> None:
        self._options = options
        self._failed = 0

    def reset(self) -> None:
        """It worked; the next wait is the first again."""
        self._failed = 0

    async def wait(self, error: Exception) -> None:
        """Waits, or raises `error` when all attempts are used."""
        if self._options.attempts is not None and self._failed >= self._options.attempts:
            raise error
        whole = min(self._options.max_s, self._options.min_s * 2.0 ** min(self._failed, 30))
        self._failed += 1
        await asyncio.sleep(whole * random.uniform(0.5, 1))
