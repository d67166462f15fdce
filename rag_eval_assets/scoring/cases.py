"""One question with all that its answer is measured by: labels, delivered passages, answer, and what each citation resolves to.

What belongs here: reading these off the tables once for every measure. What does not: any measure (`answers`, `citations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rag_eval_assets.scoring import texts
from rag_eval_assets.scoring.relevance import Labels, Row, Span


@dataclass(frozen=True)
class Cited:
    """A distinct citation: the passage it names, its span, and what is wrong with it (None for nothing)."""

    position: int
    chunk_id: str | None
    span: Span
    quotation: str
    fault: str | None


@dataclass(frozen=True)
class Case:
    """Everything about one question that the measures read."""

    question: Row
    labels: Labels
    context: Row | None
    answer: Row | None
    require_citations: bool

    @property
    def language(self) -> str:
        """Language of the question, whose words, articles and stems the measures use."""
        return str(self.question.get("language") or "en")

    @property
    def passages(self) -> Sequence[Row]:
        """Passages delivered, in order."""
        return (self.context or {}).get("passages") or ()

    @cached_property
    def text(self) -> str:
        """The answer without its citation markers."""
        return texts.without_markers((self.answer or {}).get("answer") or "")

    @property
    def reference(self) -> str:
        """The reference answer; empty where there is none."""
        return (self.question["reference_answer"] or "").strip()

    @cached_property
    def citations(self) -> list[Cited]:
        """Citations of the answer, equal ones once: the same span, or the same words of the same passage."""
        found: dict[tuple[Any, ...], Cited] = {}
        for citation in (self.answer or {}).get("citations") or ():
            cited = self._resolve(citation)
            words = " ".join(texts.words(cited.quotation))
            found.setdefault((cited.position, cited.chunk_id, words or cited.span), cited)
        return list(found.values())

    @property
    def refused(self) -> bool:
        """Whether the system refused to answer."""
        return bool((self.answer or {}).get("refused"))

    @property
    def spans(self) -> list[Span]:
        """Spans of the passages delivered, in order."""
        return [(p["doc_id"], p["start"], p["end"]) for p in self.passages]

    @property
    def evidence_delivered(self) -> bool:
        """Whether every evidence group of the question is whole in what was delivered."""
        return bool(self.labels.groups) and all(g.whole_at(self.spans) for g in self.labels.groups)

    @property
    def claims(self) -> list[str]:
        """Sentences of the answer with their markers; equal ones once."""
        distinct: dict[tuple[str, ...], str] = {}
        for sentence in texts.sentences((self.answer or {}).get("answer") or ""):
            distinct.setdefault(tuple(texts.words(texts.without_markers(sentence))), sentence)
        return list(distinct.values())

    @property
    def valid(self) -> list[Cited]:
        """Citations that nothing is wrong with."""
        return [c for c in self.citations if c.fault is None]

    def _resolve(self, citation: Row) -> Cited:
        quotation = citation["quotation"] or ""
        passage = next((p for p in self.passages if p["position"] == citation["position"]), None)
        span: Span = (citation["doc_id"] or "", citation["start"], citation["end"])
        fault = None
        if passage is None:
            fault = "names no delivered passage"
        elif citation["chunk_id"] not in (None, passage["chunk_id"]) or citation["doc_id"] not in (None, passage["doc_id"]):
            fault = "names another passage than it points at"
        elif _squeezed(quotation) not in _squeezed(passage["text"]):
            fault = "quotes what the passage does not say"
        elif None not in (span[1], span[2], passage["start"], passage["end"]):
            if not passage["start"] <= citation["start"] < citation["end"] <= passage["end"]:
                fault = "points outside the passage"
        elif citation["start"] is None:
            span = (passage["doc_id"], passage["start"], passage["end"])
        return Cited(citation["position"], passage["chunk_id"] if passage else citation["chunk_id"], span, quotation, fault)


def _squeezed(text: str) -> str:
    return " ".join(text.split())
