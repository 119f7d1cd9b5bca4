"""Answers to permission requests, said the same way on both wires."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import TriplaneError


@dataclass(frozen=True)
class Answer:
    """`reason` goes to the model where the wire has a place for it (HTTP)."""

    allow: bool
    always: bool = False
    reason: str | None = None


Decision = bool | Answer
"""`True` and `False` are for this once."""


R = TypeVar("R")
Decide = Callable[[R], Decision | Awaitable[Decision]]
"""Decides on a request, at once or later."""


def answer(decision: Decision) -> Answer:
    return decision if isinstance(decision, Answer) else Answer(decision)


def option_for(options: Sequence[Any], decision: Decision) -> str:
    """The option that says `decision`. Where `always` is not offered, once is taken: less is allowed, never more."""
    given = answer(decision)
    word = "allow" if given.allow else "reject"
    for kind in [f"{word}_always", f"{word}_once"] if given.always else [f"{word}_once"]:
        for option in options:
            if option["kind"] == kind:
                return str(option["id"])
    raise TriplaneError("unsupported", f"no option of kind {word}_once was offered")


async def decide(request: R, how: Decide[R], give: Callable[[Decision], Awaitable[object]]) -> None:
    """Runs `how` and hands its answer to `give`. Somebody else may have been faster: that is no error."""
    decision = how(request)
    if isinstance(decision, Awaitable):
        decision = await decision
    try:
        await give(decision)
    except TriplaneError as error:
        if error.code != "not_found":
            raise
