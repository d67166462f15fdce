"""Rows of `cleaning_quality`: a measure without labels, a rate with its interval, a ratio of amounts, and the cases behind a loss.

What belongs here: the form of a row. What does not: what is counted (`cleaning_quality`, `structure_quality`, `extraction_quality`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ingestion.rates import clopper_pearson

MOST: Final = 20
"""Cases that a detail lists."""


def measure(name: str, scope: str, detail: str | None = None) -> dict[str, Any]:
    """A row of `cleaning_quality` without a value: not applicable, for want of labels."""
    return {
        "measure": name,
        "scope": scope,
        "value": None,
        "numerator": None,
        "denominator": None,
        "lower": None,
        "upper": None,
        "status": "not_applicable",
        "reason": "no_labels",
        "detail": detail,
    }


def rate(name: str, scope: str, numerator: int, denominator: int, detail: str | None = None) -> dict[str, Any]:
    """A rate with its exact interval; not applicable where nothing was labelled."""
    row = measure(name, scope, detail)
    if not denominator:
        return row
    lower, upper = clopper_pearson(numerator, denominator)
    return row | {
        "value": numerator / denominator,
        "numerator": float(numerator),
        "denominator": float(denominator),
        "lower": lower,
        "upper": upper,
        "status": "scored",
        "reason": None,
    }


def ratio(name: str, scope: str, numerator: float, denominator: float, detail: str | None = None) -> dict[str, Any]:
    """A ratio of amounts that are no independent trials, so without an interval."""
    row = measure(name, scope, detail)
    if not denominator:
        return row
    return row | {
        "value": numerator / denominator,
        "numerator": float(numerator),
        "denominator": float(denominator),
        "status": "scored",
        "reason": None,
    }


def listed(problem: str, entries: Iterable[tuple[str, str | None]], skipped: int = 0) -> str | None:
    """Readable detail: the cases behind a loss, at most twenty, and labels left out because their document failed."""
    cases = sorted({": ".join(filter(None, (doc_id, " ".join((text or "").split())[:80]))) for doc_id, text in entries})
    more = f"; and {len(cases) - MOST} more" if len(cases) > MOST else ""
    parts = [f"{problem}: {'; '.join(cases[:MOST])}{more}"] if cases else []
    if skipped:
        parts.append(f"{skipped} labels on documents without canonical text are not counted")
    return ". ".join(parts) or None
