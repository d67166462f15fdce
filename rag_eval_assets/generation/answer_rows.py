"""A row of answers, whoever answered, and the answer of a question that nobody need be asked.

What belongs here: the columns and their defaults, and citations by number. What does not: reading (`readers`, `chat`, `own_systems`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK

Row = Mapping[str, Any]

INVENTED = -1
"""Position of a citation that names no delivered passage."""

_MARKER = re.compile(r"\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]")


def answer_row(question: Row, context: Row, spec: Row, **values: Any) -> dict[str, Any]:
    """A row of answers without work_key; `values` replace the columns of an empty answer. An unknown column is a KeyError."""
    row = {
        "question_id": question["question_id"],
        "split": question["split"],
        "answer": "",
        "refused": False,
        "citations": [],
        "raw": None,
        "reader": spec["reader"],
        "replied_by": None,
        "prompt_tokens": None,
        "completion_tokens": None,
        "reply_seconds": None,
        "first_token_seconds": None,
        "cost": None,
        "attempts": None,
        "context_sha256": context["context_sha256"],
        "status": OK,
        "reason": None,
        "detail": None,
        "seconds": None,
        "origin": "made",
    }
    unknown = sorted(set(values) - set(row))
    if unknown:
        raise KeyError(f"answers has no column {', '.join(unknown)}")
    return {**row, **values}


def without_reading(question: Row, context: Row, spec: Row) -> dict[str, Any] | None:
    """The row of a question whose context leaves nothing to read: failed, inapplicable or empty; None where there is something."""
    if context["status"] in (FAILED, MISSING):
        return answer_row(question, context, spec, status=FAILED, reason="upstream_failed")
    if context["status"] == NOT_APPLICABLE:
        return answer_row(question, context, spec, status=NOT_APPLICABLE, reason=context["reason"])
    if not context["passages"]:
        return answer_row(question, context, spec, refused=True, reason="empty_context")
    return None


def cited_by_number(text: str, context: Row) -> list[dict[str, Any]]:
    """Citations of the markers `[n]` and `[n, m]` in a text, n from 1, each number once; one that no passage has is invented."""
    passages = {p["position"] + 1: p for p in context["passages"]}
    numbers = dict.fromkeys(int(n) for marker in _MARKER.findall(text) for n in marker.split(","))
    return [citation(passages.get(number), f"[{number}]") for number in numbers]


def citation(passage: Row | None, said: str) -> dict[str, Any]:
    """The citation of a delivered passage; without one, an invented citation that keeps what was `said`."""
    if passage is None:
        return {"position": INVENTED, "chunk_id": None, "doc_id": None, "start": None, "end": None, "quotation": said}
    return {**{name: passage[name] for name in ("position", "chunk_id", "doc_id", "start", "end")}, "quotation": ""}
