"""Which step of ingestion lost a quoted passage, and how much of it a set of spans covers.

Everything here works on characters and half-open spans `[start, end)`. How a passage is found belongs in `quotations`; whether a
retriever finds it later, elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ingestion.folding import Span
from ingestion.quotations import closest, locate

DOCUMENT: Final = "document"
NONE: Final = "none"

FOUND_TEXT_LIMIT: Final = 300


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Sorted, disjoint spans that cover the same characters; touching spans become one, empty ones go."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def covered(span: Span, spans: Iterable[Span]) -> int:
    """Characters of `span` that lie in at least one of `spans`; overlap counts once."""
    return sum(max(min(span[1], end) - max(span[0], start), 0) for start, end in merge_spans(spans))


@dataclass(frozen=True)
class _Item:
    """One label of one question, before it is looked up."""

    question: dict[str, Any]
    label: str
    group: str
    item: int
    doc_id: str
    quotation: str | None
    grade: int


def _items(question: dict[str, Any]) -> Iterator[_Item]:
    numbers: dict[tuple[str, str], int] = {}
    listed = [("evidence", entry["group"], entry) for entry in question["evidence"] or ()]
    listed += [("relevant", entry["document"], entry) for entry in question["relevant"] or ()]
    for label, group, entry in listed:
        number = numbers.get((label, group), 0)
        numbers[label, group] = number + 1
        grade = entry["grade"]
        yield _Item(question, label, group, number, entry["document"], entry.get("quotation") or None, 1 if grade is None else grade)


def _closest_text(quotation: str | None, text: str) -> str | None:
    found = closest(quotation, text) if quotation else None
    return text[found.start : found.end][:FOUND_TEXT_LIMIT] if found else None


def _follow(
    item: _Item,
    parsed: str,
    document: Mapping[str, Any] | None,
    kept: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """What became of one label whose source is there."""
    own = document["text"] if document is not None and document["status"] == "ok" else ""
    if item.quotation is None:
        if kept is not None:
            return {"kept_doc_id": kept["doc_id"], "match": DOCUMENT, "status": "ok"}
        lost_at = "kept" if own else "cleaned" if parsed.strip() else "parsed"
        return {"lost_at": lost_at, "status": "failed", "reason": "document_failed"}
    if kept is not None and (located := locate(item.quotation, kept["text"])):
        return {
            "kept_doc_id": kept["doc_id"],
            "start": located.start,
            "end": located.end,
            "document_characters": len(kept["text"]),
            "match": located.match,
            "similarity": located.similarity,
            "status": "ok",
        }
    if kept is not None and kept["doc_id"] != item.doc_id and locate(item.quotation, own):
        lost_at, there = "kept", kept["text"]
    elif locate(item.quotation, parsed):
        lost_at, there = "cleaned", own
    else:
        lost_at, there = "parsed", parsed
    reason = "not_locatable" if there.strip() else "document_failed"
    return {"lost_at": lost_at, "found_text": _closest_text(item.quotation, there), "status": "failed", "reason": reason}


def trace(
    questions: list[dict[str, Any]],
    sources: Mapping[str, dict[str, Any]],
    parsed_text: Mapping[str, str],
    documents: Mapping[str, dict[str, Any]],
    verdicts: Mapping[str, dict[str, Any]],
    entitled: Callable[[dict[str, Any], dict[str, Any]], bool],
) -> list[dict[str, Any]]:
    """Rows of `golden_evidence`: every evidence item and every relevant document of every question, and where it stands.

    `questions` are rows of `golden_questions`; `sources`, `parsed_text` (elements of the chosen parser joined in order),
    `documents` and `verdicts` (rows of `near_duplicates` with `row == "document"`) are keyed by document. `entitled` takes
    the question's entitlement, decoded, and the source row.

    `lost_at` names the first stage that lost the label: `acquired` (no such source), `parsed` (the passage is not in the
    parsed text), `cleaned` (not in the canonical text), `kept` (the document was merged into one that does not hold the
    passage: a false merge). A label of a merged copy moves to the survivor where the passage stands there; a document
    label always moves.

    `eligible` equals `entitled`. What ingestion lost stays in the denominators and counts as not retrieved: a parser that
    drops a passage must not make the score better. Only gold its caller may not read leaves them. A source that is not
    there cannot refuse its caller, so its labels stay eligible too.
    """
    items = [item for question in questions for item in _items(question)]
    # By document, so that each text is folded once.
    items.sort(key=lambda item: item.doc_id)
    rows: list[dict[str, Any]] = []
    for item in items:
        source = sources.get(item.doc_id)
        allowed = source is None or entitled(json.loads(item.question["entitlement"] or "{}"), source)
        row: dict[str, Any] = {
            "question_id": item.question["question_id"],
            "label": item.label,
            "group": item.group,
            "item": item.item,
            "doc_id": item.doc_id,
            "kept_doc_id": None,
            "quotation": item.quotation,
            "start": None,
            "end": None,
            "document_characters": None,
            "grade": item.grade,
            "match": NONE,
            "similarity": None,
            "lost_at": None,
            "found_text": None,
            "entitled": allowed,
            "eligible": allowed,
            "status": "missing",
            "reason": None,
        }
        if source is None:
            row |= {"lost_at": "acquired", "reason": "document_failed"}
        else:
            verdict = verdicts.get(item.doc_id)
            survivor = documents.get(verdict["other_doc_id"] if verdict else item.doc_id)
            kept = survivor if survivor is not None and survivor["status"] == "ok" else None
            row |= _follow(item, parsed_text.get(item.doc_id, ""), documents.get(item.doc_id), kept)
        rows.append(row)
    return sorted(rows, key=lambda row: (row["question_id"], row["label"], row["group"], row["item"]))
