"""A candidate against its saved baselines, question by question.

What belongs here: which two scores may be compared at all, the paired difference, and the decision. What does not: saving a baseline, and
gates on a single system.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rag_eval_assets.scoring.decisions import FAIL, INSUFFICIENT, PASS
from rag_eval_assets.scoring.intervals import paired_difference
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, SCORED

MARGIN = 0.02
"""Drop of a mean score that a release may show, on scores between 0 and 1."""

TREATMENTS = "spec"
"""Identity under which the parameters that may differ stand; every other identity must match."""

_RANKED = ("document", "chunk", "group")
Row = Mapping[str, Any]
Measure = tuple[str, int, str, str, str]


def compare(
    spec: Row, scores: Iterable[Row], baselines: Iterable[Row], identities: Mapping[str, Any], *, margin: float = MARGIN
) -> list[dict[str, Any]]:
    """Rows of comparison: one per baseline, measure and split, of rows of system_scores and of baselines.

    `identities` of the candidate, and those saved with the baseline (JSON), must be equal but for `spec`, whose differences are listed as
    what changed; a baseline that differs elsewhere gives one row, incomparable, naming the fields. Ranking measures count a failed
    or missing question 0 on both sides; others pair the questions scored on both sides, and a question that only the baseline
    scored keeps a decision from passing. Without a baseline there is one row, no_baseline.

    Decision on the 95% interval of the mean difference: PASS above -margin, FAIL below 0 and not above -margin, else
    INSUFFICIENT_EVIDENCE.
    """
    saved: dict[str, list[Row]] = defaultdict(list)
    for row in baselines:
        if row["system"] == spec["system"]:
            saved[row["baseline"]].append(row)
    if not saved:
        return [_refused("none", "no_baseline", "{}", None)]
    candidate = _by_measure(scores)
    rows = []
    for name in sorted(saved):
        then = json.loads(saved[name][0]["identities"])
        changed = _changes(then.get(TREATMENTS) or {}, identities.get(TREATMENTS) or {})
        treatments = json.dumps(changed, sort_keys=True, ensure_ascii=False)
        unlike = _changes({k: v for k, v in then.items() if k != TREATMENTS}, {k: v for k, v in identities.items() if k != TREATMENTS})
        if unlike:
            detail = "; ".join(f"{field}: {was!r} is now {now!r}" for field, (was, now) in sorted(unlike.items()))
            rows.append(_refused(name, "incomparable", treatments, detail))
            continue
        before = _by_measure(saved[name])
        # Measures that only one side has (a metric or a cut-off that came or went) are differences in what is measured, not in scores.
        shared = sorted(before.keys() & candidate.keys())
        rows += [_compared(name, measure, before[measure], candidate[measure], treatments, margin) for measure in shared]
    return rows


def _compared(
    baseline: str, measure: Measure, before: Mapping[str, Row], now: Mapping[str, Row], treatments: str, margin: float
) -> dict[str, Any]:
    metric, k, cutoff, unit, split = measure
    old, new = _values(before, unit), _values(now, unit)
    shared = sorted(old.keys() & new.keys())
    lost = sorted(old.keys() - new.keys())
    gained = new.keys() - old.keys()
    a, b = np.array([new[q] for q in shared]), np.array([old[q] for q in shared])
    lower, upper = paired_difference(a, b) if shared else (None, None)
    decision, reason = _decide(lower, upper, len(lost), margin)
    return {
        "baseline": baseline,
        "metric": metric,
        "k": k,
        "cutoff": cutoff,
        "unit": unit,
        "split": split,
        "difference": float((a - b).mean()) if shared else None,
        "lower": lower,
        "upper": upper,
        "paired": len(shared),
        "missing": len(lost) + len(gained),
        "decision": decision,
        "decision_reason": reason,
        "what_changed": treatments,
        **({"status": SCORED, "reason": None} if shared else _unpaired(before, now)),
        "detail": f"{len(before.keys() | now.keys()) - len(old.keys() | new.keys())} excluded, margin {margin:g}"
        + (f"; not scored now: {', '.join(lost[:10])}" if lost else ""),
    }


def _decide(lower: float | None, upper: float | None, lost: int, margin: float) -> tuple[str, str]:
    if lower is None or upper is None:
        return INSUFFICIENT, "no_pairs"
    if upper < 0 and lower < -margin:
        return FAIL, "worse"
    if lost:
        return INSUFFICIENT, "missing_pairs"
    if lower < -margin:
        return INSUFFICIENT, "interval_spans_margin"
    return PASS, "improved" if lower > 0 else "non_inferior"


def _unpaired(before: Mapping[str, Row], now: Mapping[str, Row]) -> dict[str, str]:
    rows = [*now.values(), *before.values()]
    if all(r["status"] == NOT_APPLICABLE for r in rows):
        return {"status": NOT_APPLICABLE, "reason": rows[0]["reason"]}
    return {"status": MISSING, "reason": "missing_run"}


def _values(rows: Mapping[str, Row], unit: str) -> dict[str, float]:
    found = {}
    for question, row in rows.items():
        if row["status"] == SCORED:
            found[question] = row["value"]
        elif unit in _RANKED and row["metric"] != "context_recall" and row["status"] in (FAILED, MISSING):
            found[question] = 0.0
    return found


def _by_measure(rows: Iterable[Row]) -> dict[Measure, dict[str, Row]]:
    found: dict[Measure, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        found[row["metric"], row["k"], row["cutoff"], row["unit"], row["split"]][row["question_id"]] = row
    return found


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Fields whose values differ, with the value before and now; a field that one side lacks counts as null there."""
    return {
        field: [before.get(field), now.get(field)]
        for field in sorted(before.keys() | now.keys())
        if _canonical(before.get(field)) != _canonical(now.get(field))
    }


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _refused(baseline: str, reason: str, treatments: str, detail: str | None) -> dict[str, Any]:
    return {
        "baseline": baseline,
        "metric": "all",
        "k": 0,
        "cutoff": "none",
        "unit": "question",
        "split": "all",
        "difference": None,
        "lower": None,
        "upper": None,
        "paired": 0,
        "missing": 0,
        "decision": INSUFFICIENT,
        "decision_reason": reason,
        "what_changed": treatments,
        "status": NOT_APPLICABLE,
        "reason": reason,
        "detail": detail,
    }
