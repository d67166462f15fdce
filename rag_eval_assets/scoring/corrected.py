"""The rate that people would have given: a judge's rate of approvals with its own errors taken out, as its audit knows them.

What belongs here: the Rogan-Gladen estimate with the interval of Lang and Reiczigel. What does not: the audit itself (`judges`). The
estimate rests on labels that are like the answers it corrects: a judge that errs more on the answers is corrected too little.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from rag_eval_assets.scoring.judged import judge_of
from rag_eval_assets.scoring.judges import APPROVED, audited_metric
from rag_eval_assets.tables import NOT_APPLICABLE, SCORED

METHOD = "Rogan-Gladen 1978, interval of Lang and Reiczigel 2014"

Count = tuple[int, int]
"""Successes out of trials."""

_Z = 1.959963984540054


def rogan_gladen(approved: Count, sensitivity: Count, specificity: Count) -> tuple[float, float, float] | None:
    """True rate with its 95% limits, between 0 and 1, from counts: approvals of a judge, its approvals of what people approve, its
    rejections of what people reject.

    None where sensitivity and specificity do not add up to over 1: such a judge says nothing of the rate. The estimate is
    (apparent + specificity - 1) / (sensitivity + specificity - 1); the interval shifts and widens it for all three samples (Lang and
    Reiczigel, Preventive Veterinary Medicine 113, 2014, equations 6, 7, 16 and 17). Raises ValueError for a sample without trials.
    """
    if min(n for _, n in (approved, sensitivity, specificity)) < 1:
        raise ValueError("each of the three rates needs a trial")
    rate, hit, spared = (count / n for count, n in (approved, sensitivity, specificity))
    if hit + spared <= 1:
        return None
    value = (rate + spared - 1) / (hit + spared - 1)
    n, p = approved[1] + _Z**2, (approved[0] + _Z**2 / 2) / (approved[1] + _Z**2)
    (se, n_se), (sp, n_sp) = (((count + 1) / (n + 2), n + 2) for count, n in (sensitivity, specificity))
    if se + sp <= 1:
        return None
    middle = (p + sp - 1) / (se + sp - 1)
    of_se, of_sp = se * (1 - se) / n_se, sp * (1 - sp) / n_sp
    shift = 2 * _Z**2 * (middle * of_se - (1 - middle) * of_sp)
    half = _Z * math.sqrt(p * (1 - p) / n + middle**2 * of_se + (1 - middle) ** 2 * of_sp) / (se + sp - 1)
    value, lower, upper = (min(1.0, max(0.0, v)) for v in (value, middle + shift - half, middle + shift + half))
    # Cut to the unit interval, the estimate may stand past a limit that was shifted.
    return value, min(lower, value), max(upper, value)


def corrected_rates(scores: Iterable[Mapping[str, Any]], audit: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of corrected_rates: for each audited metric of a judge and split the share of answers it approves, and that share corrected.

    `scores` are rows of system_scores, `audit` those of judge_audit. An answer is approved from the audit's
    threshold, `judges.APPROVED` where it names none. Only answers with a score count; one whose judgment failed says nothing of the rate.
    """
    known = {(r["judge"], r["metric"], r["measure"]): r for r in audit}
    values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for row in scores:
        judge = judge_of(row["metric"])
        if judge is not None and _own_metric(row["metric"]) is not None:
            values[row["metric"], row["split"]] += [row["value"]] if row["status"] == SCORED else []
    rows = []
    for (metric, split), scored in sorted(values.items()):
        key = (judge_of(metric), _own_metric(metric))
        sensitivity, specificity = (_count(known.get((*key, measure))) for measure in ("sensitivity", "specificity"))
        threshold = (known.get((*key, "threshold")) or {}).get("value")  # an entailment scorer has one of its own
        approved = sum(v >= (APPROVED if threshold is None else threshold) for v in scored)
        found, reason = None, None
        if not scored:
            reason = "nothing_to_measure"
        elif not sensitivity[1] or not specificity[1]:
            reason = "no_labels"
        elif (found := rogan_gladen((approved, len(scored)), sensitivity, specificity)) is None:
            reason = "uninformative_judge"
        value, lower, upper = found or (None, None, None)
        rows.append(
            {
                "metric": metric,
                "split": split,
                "method": METHOD,
                "apparent": approved / len(scored) if scored else None,
                "questions": len(scored),
                "sensitivity": sensitivity[0] / sensitivity[1] if sensitivity[1] else None,
                "approved_labels": sensitivity[1],
                "specificity": specificity[0] / specificity[1] if specificity[1] else None,
                "rejected_labels": specificity[1],
                "value": value,
                "lower": lower,
                "upper": upper,
                "status": SCORED if value is not None else NOT_APPLICABLE,
                "reason": reason,
            }
        )
    return rows


def _own_metric(metric: str) -> str | None:
    """The audited metric that a judged metric is itself; None where it only rests on it."""
    name = metric.partition("@")[0]
    audited = audited_metric(name)
    return audited if name.removeprefix("ragas_") == audited else None


def _count(row: Mapping[str, Any] | None) -> Count:
    if row is None or row["value"] is None:
        return 0, 0
    return round(row["value"] * row["labels"]), row["labels"]
