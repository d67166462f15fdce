"""What a system of your own has to offer to be evaluated.

What belongs here: the shapes that cross the border. What does not: any system; the built-in one is `rankings`, `context` and `readers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Passage:
    """A passage a system retrieves or delivers; it is located in the canonical text by its words, not by offsets of its own."""

    id: str
    document: str
    text: str
    score: float | None = None


@dataclass(frozen=True)
class Citation:
    """A passage an answer refers to: its place among the delivered ones, from 0, and the words it relies on."""

    position: int
    quotation: str = ""


@dataclass(frozen=True)
class Answer:
    """What a system replied. `raw` keeps the reply as it came; tokens are those the system reports, never a guess."""

    text: str
    refused: bool = False
    citations: Sequence[Citation] = ()
    raw: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@runtime_checkable
class SystemUnderTest(Protocol):
    """A system of your own. Retrieval and answering are called apart, so that a loss can be put down to one of them."""

    index_version: str
    """Identity of the index behind `retrieve`. Rows are reused only while it stays the same; without it none is."""

    depth: int
    """Passages to ask of `retrieve`."""

    top_k: int
    """Passages of those that reach the context."""

    token_budget: int | None
    """Tokens of passages delivered at most, counted by `count_tokens`; None for no budget. Settings override all three."""

    def retrieve(self, question: str, depth: int) -> Sequence[Passage]:
        """At most `depth` passages, best first, none of them twice. With a parameter `entitlement` of its own it is told what the
        caller may read, as {tenant, groups, jurisdiction, publication_state}."""
        ...

    def generate(self, question: str, passages: Sequence[Passage]) -> Answer | str:
        """The answer to `question` from `passages`, which stand in the order delivered. A plain text cites them as [n], n from 1."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` as the model counts them. Required with a token budget."""
        ...
