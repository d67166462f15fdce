"""Judges against human labels: how often they agree, in which direction they err, and whether a gate may believe them.

What belongs here: comparing verdicts with labels. What does not: asking the judge (`ragas_metrics`) and the scores it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingestion.rates import clopper_pearson
from rag_eval_assets.scoring import ragas_metrics
from rag_eval_assets.scoring.outcomes import Outcome
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, SCORED

MEASURES = ("accuracy", "kappa", "false_approval_rate", "false_rejection_rate")

MINIMUM_LABELS = 50
"""Labels under which no judge may gate."""

MINIMUM_ACCURACY = 0.8
"""Lower limit of accuracy from which a judge may gate."""

APPROVED = 0.5
"""Score from which a judge approves an answer."""

_YES = frozenset({"yes", "true", "1", "supported", "correct", "pass"})
_NO = frozenset({"no", "false", "0", "unsupported", "incorrect", "fail"})

Ask = Callable[[Sequence[tuple[str, Mapping[str, Any]]], Mapping[str, Any]], list[Outcome]]


def judge_audit(
    labels: list[dict[str, Any]], judges: Mapping[str, Mapping[str, Any]], *, ask: Ask = ragas_metrics.ask
) -> list[dict[str, Any]]:
    """Rows of judge_audit: four measures of each judge over the quality_labels of kind judgment.

    A label says whether its `answer` is supported by its `quotation` (value yes or no; labels with another value are left out). The judge's
    verdict is its faithfulness, approved from .5. A judgment that failed counts as a rejection of what people approved and as an
    approval of what they rejected: silence earns no credit. Without judges there is one row, judge "none", reason no_judge.
    """
    if not judges:
        return [_row("none", "accuracy", None, (None, None), 0, False, NOT_APPLICABLE, "no_judge", None)]
    usable = sorted((r for r in labels if _usable(r)), key=lambda r: r["label_id"])
    people = [r["value"].strip().lower() in _YES for r in usable]
    rows = []
    for name in sorted(judges):
        if not usable:
            rows += [_row(name, m, None, (None, None), 0, False, NOT_APPLICABLE, "no_labels", None) for m in MEASURES]
            continue
        outcomes = ask([("faithfulness", _sample(r)) for r in usable], judges[name])
        failed = sum(o.status == FAILED for o in outcomes)
        verdicts = [
            (o.value >= APPROVED if o.status == SCORED and o.value is not None else not human)
            for o, human in zip(outcomes, people, strict=True)
        ]
        rows += _audit(name, people, verdicts, f"{failed} of {len(usable)} judgments failed" if failed else None)
    return rows


def _audit(judge: str, people: list[bool], verdicts: list[bool], detail: str | None) -> list[dict[str, Any]]:
    pairs = list(zip(people, verdicts, strict=True))
    agreed, n = sum(p == v for p, v in pairs), len(pairs)
    rejected, approved = people.count(False), people.count(True)
    false_approvals = sum(v and not p for p, v in pairs)
    false_rejections = sum(p and not v for p, v in pairs)
    accuracy = clopper_pearson(agreed, n)
    may_gate = n >= MINIMUM_LABELS and accuracy[0] >= MINIMUM_ACCURACY
    chance = (approved * verdicts.count(True) + rejected * verdicts.count(False)) / n**2
    kappa = None if chance == 1 else (agreed / n - chance) / (1 - chance)
    # Where every label and verdict is the same, chance agrees as often as the judge: kappa says nothing.
    status, reason = (SCORED, "") if kappa is not None else (NOT_APPLICABLE, "no_labels")

    def rate(measure: str, count: int, of: int) -> dict[str, Any]:
        if not of:
            return _row(judge, measure, None, (None, None), 0, may_gate, NOT_APPLICABLE, "no_labels", detail)
        return _row(judge, measure, count / of, clopper_pearson(count, of), of, may_gate, SCORED, None, detail)

    return [
        rate("accuracy", agreed, n),
        _row(judge, "kappa", kappa, (None, None), n, may_gate, status, reason or None, detail),
        rate("false_approval_rate", false_approvals, rejected),
        rate("false_rejection_rate", false_rejections, approved),
    ]


def _usable(row: Mapping[str, Any]) -> bool:
    return row["kind"] == "judgment" and bool(row["answer"]) and bool(row["quotation"]) and row["value"].strip().lower() in _YES | _NO


def _sample(row: Mapping[str, Any]) -> dict[str, Any]:
    # The label names its question by id; the judge reads answer and passage, and a question it cannot read must not be empty.
    return {"user_input": row["question_id"] or "-", "response": row["answer"], "retrieved_contexts": [row["quotation"]]}


def _row(
    judge: str,
    measure: str,
    value: float | None,
    limits: tuple[float | None, float | None],
    labels: int,
    may_gate: bool,
    status: str,
    reason: str | None,
    detail: str | None,
) -> dict[str, Any]:
    return {
        "judge": judge,
        "measure": measure,
        "value": value,
        "lower": limits[0],
        "upper": limits[1],
        "labels": labels,
        "may_gate": may_gate,
        "status": status,
        "reason": reason,
        "detail": detail,
    }
