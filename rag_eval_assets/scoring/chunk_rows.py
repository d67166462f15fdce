"""Rows of `chunk_quality`: a value, a rate of independent things, a share of things that come together in documents.

What belongs here: the shape of a row and its interval. What does not: what is counted (`chunk_quality`, `chunk_labels`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingestion.rates import clopper_pearson, pooled_rate
from rag_eval_assets.tables import NOT_APPLICABLE, SCORED

Row = dict[str, Any]


def row_of(measure: str, value: float | None, *, scope: str = "all", reason: str | None = None, **more: Any) -> Row:
    blank = dict.fromkeys(("numerator", "denominator", "lower", "upper"))
    status = SCORED if value is not None else NOT_APPLICABLE
    return {
        "measure": measure,
        "scope": scope,
        "value": value,
        **blank,
        "status": status,
        "reason": reason,
        "detail": None,
        **more,
    }


def rate_of(measure: str, numerator: int, denominator: int, *, reason: str, **more: Any) -> Row:
    """A share of things that are independent of each other, with its exact interval; not_applicable with `reason` where there are none."""
    row = _counted(measure, numerator, denominator, reason, more)
    if denominator:
        row["lower"], row["upper"] = clopper_pearson(numerator, denominator)
    return row


def share_of(measure: str, counts: Mapping[str, tuple[int, int]], *, reason: str = "nothing_to_measure", **more: Any) -> Row:
    """A share of things that come together in documents, from (counted, of how many) by document, with its interval over these."""
    numerator, denominator = (sum(pair[part] for pair in counts.values()) for part in (0, 1))
    row = _counted(measure, numerator, denominator, reason, more)
    if denominator:
        pairs = [counts[doc_id] for doc_id in sorted(counts)]
        _, row["lower"], row["upper"] = pooled_rate([true for true, _ in pairs], [every for _, every in pairs])
    return row


def _counted(measure: str, numerator: int, denominator: int, reason: str, more: Mapping[str, Any]) -> Row:
    counts: Row = {"numerator": float(numerator), "denominator": float(denominator)}
    if not denominator:
        return row_of(measure, None, reason=reason, **counts, **more)
    return row_of(measure, numerator / denominator, **counts, **more)
