"""What a system's answers cost: percentiles of time, tokens and money over the questions of a split.

What belongs here: reading the figures that were recorded with each reply. They are content, not timings of a run: making a row again from
the response store gives the same figure, so that a gate may stand on it. What does not: seconds of this machine's own work.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from rag_eval_assets.scoring.relevance import Row
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, SCORED

MEASURES = {
    "reply_seconds": ("total", "s"),
    "first_token_seconds": ("first_token", "s"),
    "prompt_tokens": ("prompt", "tokens"),
    "completion_tokens": ("completion", "tokens"),
    "cost": ("query", "price table's currency"),
}
"""Columns of answers that hold a recorded figure: the stage they measure, and their unit."""

PERCENTILES = (50, 95, 99)


def system_costs(answers: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of system_costs: every measure in every split, over the answers that recorded it.

    A percentile is a figure that was observed: the smallest that at least p percent do not exceed (nearest rank). Answers whose reply
    failed or recorded nothing are counted beside; where none recorded anything the row is not_applicable, nothing_to_measure.
    """
    by_split: dict[str, list[Row]] = defaultdict(list)
    for row in answers:
        by_split[row["split"]].append(row)
    return [_row(split, measure, own) for split, own in sorted(by_split.items()) for measure in MEASURES]


def _row(split: str, measure: str, answers: Sequence[Row]) -> dict[str, Any]:
    values = sorted(float(row[measure]) for row in answers if row[measure] is not None)
    stage, unit = MEASURES[measure]
    asked = [row for row in answers if row["status"] != NOT_APPLICABLE]
    return {
        "split": split,
        "measure": measure,
        "stage": stage,
        "unit": unit,
        **{f"p{p}": nearest_rank(values, p) for p in PERCENTILES},
        "mean": math.fsum(values) / len(values) if values else None,
        "total": math.fsum(values) if values else None,
        "questions": len(asked),
        "scored": len(values),
        "failed": sum(row["status"] == FAILED for row in asked),
        "status": SCORED if values else NOT_APPLICABLE,
        "reason": None if values else "nothing_to_measure",
    }


def nearest_rank(ordered: Sequence[float], percent: int) -> float | None:
    """The smallest of ascending values that at least `percent` of them do not exceed; None of none."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else None
