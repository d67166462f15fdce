"""What a ranking is made from, so that a part that changed searches again only where it counts.

What belongs here: which parts of the inputs each kind of retriever reads, through its lanes. What does not: hashing them, and the code
and depth that shape every ranking alike (the caller).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Dependencies:
    """Retrievers by name with their parameters, and identities of what they read: chunks with documents (`text`), those with an
    embedder's vectors (`dense`), and those with the labels that a fusion is tuned on (`tuned`); rankings made elsewhere by
    (retriever, question) as they stand."""

    retrievers: Mapping[str, Mapping[str, Any]]
    text: str
    dense: Mapping[str, str] = field(default_factory=dict)
    tuned: str = ""
    imported: Mapping[tuple[str, str], Any] = field(default_factory=dict)

    def of(self, retriever: str, question: str) -> list[Any]:
        """Everything but code, depth and question that one ranking depends on, as JSON can hold it."""
        p = self.retrievers[retriever]
        read = self.dense[p["embedder"]] if p["kind"] == "dense" else self.tuned if p["kind"] == "convex" else self.text
        own = self.imported.get((retriever, question)) if p["kind"] == "run_file" else None
        return [retriever, p, read, own, [self.of(lane, question) for lane in p.get("of", ())]]
