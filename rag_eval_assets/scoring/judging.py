"""Asking a judge model: one request, what came of it, and many rows judged at once.

What belongs here: the shapes that cross the border to whoever sends requests, and a failed judgment as an outcome. What does not: sending,
keeping replies and limits (`resources.language_models`), prompts (`claim_judge`, `ragas_metrics`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from rag_eval_assets.scoring.outcomes import Outcome, failed

Found = TypeVar("Found")


@dataclass(frozen=True)
class Prompt:
    """A request whose reply is one JSON value of `schema`; `repeat` asks the same once more."""

    messages: tuple[Mapping[str, str], ...]
    schema: type[BaseModel]
    repeat: int = 0


@dataclass(frozen=True)
class Judgment:
    """The value of a reply, or a reason of the closed list why there is none; `text` is the reply as it came, null without one;
    `cost` what it cost by the price table of now, null where that is not known."""

    value: BaseModel | None
    reason: str | None = None
    detail: str | None = None
    text: str | None = None
    cost: float | None = None


Ask = Callable[[Prompt], Awaitable[Judgment]]
Open = Callable[[], AbstractAsyncContextManager[Ask]]
"""Opens a judge for one run: its limits hold over everything asked within."""


class Unjudged(Exception):
    """A judgment that failed, as an outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


def unparsable(told: str, text: str | None = None) -> Unjudged:
    """A reply that was received and is no judgment; its text is kept."""
    return Unjudged(failed("unparsable_judgment", told if text is None else f"{told}: {text}"))


async def judged(ask: Ask, prompt: Prompt) -> Judgment:
    """The judgment of a prompt, with a value. Raises Unjudged."""
    found = await ask(prompt)
    if found.value is None:
        # A model's unreadable reply is an unreadable judgment; what the endpoint or a limit did keeps its own name.
        reason = "unparsable_judgment" if found.reason == "unparsable_reply" else found.reason or "unparsable_judgment"
        raise Unjudged(failed(reason, ": ".join(filter(None, [found.detail, found.text])) or None))
    return found


def judge_all(
    open_judge: Open, work: Sequence[Callable[[Ask], Awaitable[Found]]], on_done: Callable[[int, int], None] | None = None
) -> list[Found]:
    """What each piece of work finds, in order. How many requests are in flight at once is the judge's own limit."""

    async def all_of_it() -> list[Found]:
        done = 0
        async with open_judge() as ask:

            async def one(piece: Callable[[Ask], Awaitable[Found]]) -> Found:
                nonlocal done
                found = await piece(ask)
                done += 1
                if on_done:
                    on_done(done, len(work))
                return found

            return list(await asyncio.gather(*map(one, work)))

    return asyncio.run(all_of_it()) if work else []
