"""One measured value or the reason why there is none, and the score row it becomes.

What belongs here: the statuses shared by every measure of answers. What does not: any measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK, SCORED

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A value with status scored, or no value with another status and its reason."""

    value: float | None
    status: str = SCORED
    reason: str | None = None
    explanation: str | None = None


def not_applicable(reason: str) -> Outcome:
    """The measure does not apply, for a reason of the closed list."""
    return Outcome(None, NOT_APPLICABLE, reason)


def failed(reason: str, explanation: str | None = None) -> Outcome:
    """The measure could not be made, for a reason of the closed list; the explanation keeps what came instead."""
    return Outcome(None, FAILED, reason, explanation)


def blocked(row: Row | None) -> Outcome | None:
    """Outcome of every measure made on a content row that is not there or not ok; None where it is."""
    if row is None:
        return Outcome(None, MISSING, "missing_run")
    if row["status"] == OK:
        return None
    if row["status"] not in (FAILED, NOT_APPLICABLE, MISSING):
        raise ValueError(f"question {row['question_id']!r}: status {row['status']!r} is unknown")
    return Outcome(None, row["status"], row["reason"], row.get("detail"))


def score_row(question: Row, metric: str, unit: str, stage: str, outcome: Outcome) -> dict[str, Any]:
    """A row of system_scores without cut-off."""
    return {
        "question_id": question["question_id"],
        "split": question["split"],
        "metric": metric,
        "k": 0,
        "cutoff": "none",
        "unit": unit,
        "value": outcome.value,
        "status": outcome.status,
        "reason": outcome.reason,
        "stage": stage,
        "explanation": outcome.explanation,
    }
