"""What a question's labels ask for: gold documents with grades, evidence groups with their spans, and when a span is found.

What belongs here: the one reading of `golden_evidence` that ranking scores, contexts, citations, the funnel and diagnosis share.
What does not: any ranking, and where a quotation stands in a text (`ingestion.evidence`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Row = Mapping[str, Any]
Span = tuple[str, int | None, int | None]
"""A delivered passage: document, start, end; without offsets it counts by its document only."""

WHOLE = 0.95
"""Share of an evidence span's characters (white space apart) that must be there for it to be whole."""

HALF = 0.5
"""Share of an evidence span's characters that makes one chunk relevant to it."""


@dataclass(frozen=True)
class Alternative:
    """One item of an evidence group: a span, a whole document (no quotation), or a quotation that ingestion lost."""

    doc_id: str
    start: int | None
    end: int | None
    quotation: str | None
    grade: int
    lost_at: str | None

    @property
    def by_document(self) -> bool:
        """Whether its document alone is asked for."""
        return self.quotation is None and self.lost_at is None

    @property
    def located(self) -> bool:
        """Whether its span in the canonical text is known."""
        return self.start is not None and self.end is not None and self.end > self.start

    @property
    def span(self) -> tuple[int, int]:
        """Its span; ValueError where it is not located."""
        if self.start is None or self.end is None:
            raise ValueError(f"evidence in {self.doc_id!r} has no span")
        return self.start, self.end

    @cached_property
    def _weights(self) -> npt.NDArray[np.bool_]:
        start, end = self.span
        length = end - start
        # White space between chunks belongs to none of them. Its places are known where the quotation stands unchanged.
        if self.quotation is not None and len(self.quotation) == length:
            ink = np.array([not c.isspace() for c in self.quotation], dtype=np.bool_)
            if ink.any():
                return ink
        return np.ones(length, dtype=np.bool_)

    def cover(self, spans: Iterable[tuple[int, int]]) -> float:
        """Share of this span's characters that the union of `spans` holds: an overlap counts once."""
        first, last = self.span
        held = np.zeros(last - first, dtype=np.bool_)
        for start, end in spans:
            held[max(0, start - first) : max(0, end - first)] = True
        return float((held & self._weights).sum() / self._weights.sum())

    def found_in(self, passage: Span) -> bool:
        """Whether one passage is relevant: it covers at least half of the span, or lies wholly inside it."""
        doc_id, start, end = passage
        if doc_id != self.doc_id:
            return False
        if not self.located:
            return self.by_document
        if start is None or end is None or end <= start:
            return False
        first, last = self.span
        if first <= start and end <= last:
            return True
        return self.overlaps(start, end) and self.cover([(start, end)]) >= HALF

    def overlaps(self, start: int, end: int) -> bool:
        """Whether [start, end) shares a character with this span."""
        return self.located and start < self.span[1] and end > self.span[0]

    def whole_at(self, passages: Sequence[Span]) -> int | None:
        """Number of leading passages after which this evidence is whole; None if it never is."""
        spans: list[tuple[int, int]] = []
        for count, (doc_id, start, end) in enumerate(passages, 1):
            if doc_id != self.doc_id:
                continue
            if not self.located:
                if self.by_document:
                    return count
            elif start is not None and end is not None and self.overlaps(start, end):
                spans.append((start, end))
                if self.cover(spans) >= WHOLE:
                    return count
        return None


@dataclass(frozen=True)
class Group:
    """An evidence group: any one of its alternatives will do."""

    name: str
    alternatives: tuple[Alternative, ...]

    @property
    def grade(self) -> int:
        """Largest grade of its alternatives."""
        return max(a.grade for a in self.alternatives)

    def found_in(self, passage: Span) -> bool:
        """Whether one passage is relevant to some alternative."""
        return any(a.found_in(passage) for a in self.alternatives)

    def whole_at(self, passages: Sequence[Span]) -> int | None:
        """Number of leading passages after which some alternative is whole; None if none ever is."""
        return min((n for a in self.alternatives if (n := a.whole_at(passages)) is not None), default=None)


@dataclass
class Labels:
    """What one question's caller may be given, and why a measure does not apply.

    `documents` are grades by kept document (a document that ingestion lost stays, under its own id: it is in the denominators
    and can never be found). `groups` have an entitled alternative with a positive grade. `chunks` are labels on an imported
    system's chunk ids.
    """

    question_id: str
    documents: dict[str, int] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    chunks: dict[str, int] = field(default_factory=dict)
    unlabelled: str | None = None
    """Reason why no ranking measure applies."""

    @cached_property
    def quoted(self) -> bool:
        """Whether any evidence of the question is a quotation, so that spans can be asked for."""
        return any(a.quotation is not None for g in self.groups for a in g.alternatives)

    @property
    def no_groups(self) -> str | None:
        """Reason why measures of evidence groups do not apply."""
        return self.unlabelled or (None if self.quoted else "no_span_labels")

    @property
    def no_chunks(self) -> str | None:
        """Reason why measures of chunks do not apply."""
        return self.unlabelled or (None if self.quoted or self.chunks else "no_span_labels")

    def chunk_relevance(self, chunk_id: str | None, passage: Span) -> list[str]:
        """Names of the labels that one chunk is relevant to."""
        names = [f"group {g.name}" for g in self.groups if g.found_in(passage)] if self.quoted else []
        if chunk_id is not None and chunk_id in self.chunks:
            names.append(f"chunk {chunk_id}")
        return names

    @property
    def chunk_grades(self) -> dict[str, int]:
        """Grades by the names that `chunk_relevance` gives."""
        groups = {f"group {g.name}": g.grade for g in self.groups} if self.quoted else {}
        return groups | {f"chunk {c}": grade for c, grade in self.chunks.items()}


def read_labels(questions: Sequence[Row], evidence: Iterable[Row]) -> dict[str, Labels]:
    """Labels by question id, from rows of golden_questions and golden_evidence. Order of rows does not matter."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in evidence:
        rows[row["question_id"]].append(row)
    return {q["question_id"]: _labels(q, rows[q["question_id"]]) for q in questions}


def _labels(question: Row, rows: list[Row]) -> Labels:
    labels = Labels(question["question_id"])
    if not question["answerable"]:
        labels.unlabelled = "unanswerable"
        return labels
    if not any(r["grade"] > 0 for r in rows):
        labels.unlabelled = "no_relevance_labels"
        return labels
    entitled = [r for r in rows if r["entitled"]]
    if not any(r["grade"] > 0 for r in entitled):
        labels.unlabelled = "not_entitled_gold_only"
        return labels
    groups: dict[str, list[Row]] = defaultdict(list)
    readable: set[str] = set()
    for row in entitled:
        doc_id = row["kept_doc_id"] or row["doc_id"]
        readable.add(row["doc_id"])
        labels.documents[doc_id] = max(labels.documents.get(doc_id, 0), row["grade"])
        if row["label"] == "evidence" and row["grade"] > 0:
            groups[row["group"]].append(row)
    labels.groups = [Group(name, tuple(map(alternative, sorted(groups[name], key=lambda r: r["item"])))) for name in sorted(groups)]
    for item in question.get("relevant") or ():
        if item["chunk"] and item["document"] in readable and item["grade"] > 0:
            labels.chunks[item["chunk"]] = max(labels.chunks.get(item["chunk"], 0), item["grade"])
    return labels


def alternative(row: Row) -> Alternative:
    """A row of golden_evidence as what has to be found."""
    doc_id = row["kept_doc_id"] or row["doc_id"]
    return Alternative(doc_id, row["start"], row["end"], row["quotation"], row["grade"], row["lost_at"])
