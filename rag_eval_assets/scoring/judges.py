"""Judges against human labels: how often they agree, in which direction they err, how steady they are, and whether a gate may believe them.

What belongs here: comparing verdicts with labels. What does not: asking (`judging`), prompts (`ragas_metrics`, `claim_judge`), the
scores of a system, and what its rate is once a judge's errors are taken out (`corrected`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Any

from ingestion.rates import clopper_pearson
from rag_eval_assets.scoring import claim_judge, ragas_metrics
from rag_eval_assets.scoring.judging import Ask, Judgment, Open, Prompt, judge_all
from rag_eval_assets.scoring.outcomes import Outcome
from rag_eval_assets.scoring.ragas_metrics import JUDGED_METRICS
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, SCORED

MEASURES = (
    "accuracy",
    "kappa",
    "false_approval_rate",
    "false_rejection_rate",
    "sensitivity",
    "specificity",
    "verdict_flip_rate",
    "score_variance",
    "order_flip_rate",
    "length_effect",
    "cost",
)

RAGAS, CLAIMS = "faithfulness", "claim_faithfulness"
"""The audited metric of a judge's ragas metrics, and of its claim metrics: what both kinds rest on is the verdict on one claim."""

ENTAILMENT = "entailment"
"""The metric of an entailment scorer, audited as it is."""

MINIMUM_LABELS = 50
"""Labels under which no judge may gate."""

MINIMUM_ACCURACY = 0.8
"""Lower limit of accuracy from which a judge may gate."""

APPROVED = 0.5
"""Score from which a judge approves an answer."""

NAMED = 20
"""Labels that a list of disagreements names at most."""

_YES = frozenset({"yes", "true", "1", "supported", "correct", "pass"})
_NO = frozenset({"no", "false", "0", "unsupported", "incorrect", "fail"})


def audited_metric(metric: str) -> str:
    """The metric whose audit speaks for a judge's metric."""
    if metric.partition("@")[0] == ENTAILMENT:
        return ENTAILMENT
    return RAGAS if metric in JUDGED_METRICS or metric.startswith("ragas_") else CLAIMS


def may_gate(audit: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """(judge, audited metric) of the rows of judge_audit whose judge may gate."""
    return {(row["judge"], row["metric"]) for row in audit if row["may_gate"]}


def judge_audit(
    labels: list[dict[str, Any]], judges: Mapping[str, Mapping[str, Any]], open_judge: Callable[[str], Open]
) -> list[dict[str, Any]]:
    """Rows of judge_audit: `MEASURES` of each judge and audited metric over the quality_labels of kind judgment.

    A label says whether its `answer` is supported by its `quotation` (value yes or no; labels with another value are left out). The judge's
    verdict is its faithfulness, approved from .5. A judgment that failed counts as a rejection of what people approved and as an
    approval of what they rejected: silence earns no credit; sensitivity and specificity leave it out, because a rate that they
    correct has no failed judgment in it. With `repeats` over 1 every label is judged as often, and verdict_flip_rate is the share of labels
    whose verdicts differ, score_variance the mean variance of a label's scores. order_flip_rate is the share whose verdict changes with
    the place of the quotation, before or behind the next label's. length_effect is Spearman's correlation of an answer's length with
    verdict minus label, over 0 where length is rewarded. cost is the sum over all requests. Without judges there is one row, judge
    "none", reason no_judge.
    """
    if not judges:
        return [audit_row("none", "none", "accuracy", 0, False, reason="no_judge")]
    usable = usable_labels(labels)
    rows = []
    for name in sorted(judges):
        for metric in sorted({audited_metric(m) for m in judges[name]["metrics"]}):
            if not usable:
                rows += [audit_row(name, metric, m, 0, False, reason="no_labels") for m in MEASURES]
                continue
            rows += _audit(name, metric, usable, _asked(metric, usable, open_judge(name), judges[name]["repeats"]))
    return rows


@dataclass(frozen=True)
class _Asked:
    """What a judge said of every label: in each round, and with another quotation behind the label's own or before it."""

    rounds: Sequence[Sequence[Outcome]]
    orders: Sequence[Sequence[Outcome]]
    costs: Mapping[Any, float | None]


def _asked(metric: str, labels: Sequence[Mapping[str, Any]], opened: Open, repeats: int) -> _Asked:
    costs: dict[Any, float | None] = {}
    own = [[r["quotation"]] for r in labels]
    rounds = [_round(opened, metric, labels, own, n, costs) for n in range(repeats)]
    others = [_another(labels, at) for at in range(len(labels))]
    beside = [(mine, other) for mine, other in zip(own, others, strict=True) if other is not None]
    if len(beside) < len(own):  # every quotation is the same text: there is no order
        return _Asked(rounds, [], costs)
    orders = [[[*mine, other] for mine, other in beside], [[other, *mine] for mine, other in beside]]
    return _Asked(rounds, [_round(opened, metric, labels, texts, 0, costs) for texts in orders], costs)


def _another(labels: Sequence[Mapping[str, Any]], at: int) -> str | None:
    """The quotation of the next label that has another one."""
    following = [labels[(at + step) % len(labels)]["quotation"] for step in range(1, len(labels))]
    return next((text for text in following if text != labels[at]["quotation"]), None)


def _round(
    opened: Open,
    metric: str,
    labels: Sequence[Mapping[str, Any]],
    contexts: Sequence[Sequence[str]],
    repeat: int,
    costs: dict[Any, float | None],
) -> list[Outcome]:
    return judge_all(opened, [_work(metric, r, texts, repeat, costs) for r, texts in zip(labels, contexts, strict=True)])


def _work(
    metric: str, label: Mapping[str, Any], contexts: Sequence[str], repeat: int, costs: dict[Any, float | None]
) -> Callable[[Ask], Awaitable[Outcome]]:
    async def work(ask: Ask) -> Outcome:
        async def counted(prompt: Prompt) -> Judgment:
            found = await ask(prompt)
            # One request is paid once, however many rounds rest on its reply.
            costs[json.dumps(prompt.messages), prompt.schema, prompt.repeat] = found.cost
            return found

        # The label names its question by id; the judge reads answer and passage, and a question it cannot read must not be empty.
        question = label["question_id"] or "-"
        if metric == RAGAS:
            sample = {"user_input": question, "response": label["answer"], "retrieved_contexts": list(contexts)}
            return await ragas_metrics.judge_one(counted, metric, sample, repeat=repeat)
        case = claim_judge.Case(question, label["answer"], "", list(contexts))
        return (await claim_judge.prepared(case, [metric], threshold=APPROVED, repeat=repeat)(counted))[metric]

    return work


def _audit(judge: str, metric: str, labels: Sequence[Mapping[str, Any]], asked: _Asked) -> list[dict[str, Any]]:
    people = [approved_by_people(r) for r in labels]
    outcomes = asked.rounds[0]
    verdicts = [_approves(o) if o.status == SCORED else not human for o, human in zip(outcomes, people, strict=True)]
    judged = [(human, _approves(o)) for o, human in zip(outcomes, people, strict=True) if o.status == SCORED]
    failed = sum(o.status == FAILED for o in outcomes)
    agreed, n = sum(p == v for p, v in zip(people, verdicts, strict=True)), len(people)
    rejected, approved = people.count(False), people.count(True)
    accuracy = clopper_pearson(agreed, n)
    passes = n >= MINIMUM_LABELS and accuracy[0] >= MINIMUM_ACCURACY
    told = f"{failed} of {n} judgments failed" if failed else None

    def row(
        measure: str, value: float | None, of: int, limits: tuple[float | None, float | None] = (None, None), detail: str | None = None
    ) -> dict[str, Any]:
        detail = "; ".join(filter(None, [told, detail])) or None
        return audit_row(judge, metric, measure, of, passes, value, limits, None if value is not None else "no_labels", detail)

    def rate(measure: str, count: int, of: int, detail: str | None = None) -> dict[str, Any]:
        return row(measure, count / of, of, clopper_pearson(count, of), detail) if of else row(measure, None, 0)

    def errors(human: bool) -> list[str]:
        return [r["label_id"] for r, p, v in zip(labels, people, verdicts, strict=True) if p == human and v != human]

    def flips(rounds: Sequence[Sequence[Outcome]]) -> tuple[list[list[float]], int]:
        """Scores of the labels judged more than once, and how many of them have two verdicts."""
        scored = [[o.value for o in own if o.value is not None] for own in zip(*rounds, strict=True)]
        scored = [values for values in scored if len(values) > 1]
        return scored, sum(len({v >= APPROVED for v in values}) > 1 for values in scored)

    chance = (approved * verdicts.count(True) + rejected * verdicts.count(False)) / n**2
    repeated, flipped = flips(asked.rounds)
    ordered, turned = flips(asked.orders)
    right = {human: (sum(p == v == human for p, v in judged), sum(p == human for p, _ in judged)) for human in (True, False)}
    known = [cost for cost in asked.costs.values() if cost is not None]
    return [
        rate("accuracy", agreed, n),
        # Where every label and verdict is the same, chance agrees as often as the judge: kappa says nothing.
        row("kappa", None if chance == 1 else (agreed / n - chance) / (1 - chance), n),
        rate("false_approval_rate", len(errors(False)), rejected, _named(errors(False))),
        rate("false_rejection_rate", len(errors(True)), approved, _named(errors(True))),
        rate("sensitivity", *right[True]),
        rate("specificity", *right[False]),
        rate("verdict_flip_rate", flipped, len(repeated)),
        row("score_variance", fmean(map(pvariance, repeated)) if repeated else None, len(repeated)),
        rate("order_flip_rate", turned, len(ordered)),
        row("length_effect", _length_effect(labels, outcomes, people), n - failed),
        row("cost", math.fsum(known) if known else None, n),
    ]


def _named(labels: Sequence[str]) -> str | None:
    """Labels on which judge and people differ, as text."""
    more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
    return f"labels {', '.join(labels[:NAMED])}{more}" if labels else None


def _length_effect(labels: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome], people: Sequence[bool]) -> float | None:
    """Spearman's correlation; None where all lengths or all differences are one."""
    judged = [
        (len(r["answer"]), int(_approves(o)) - int(p)) for r, o, p in zip(labels, outcomes, people, strict=True) if o.status == SCORED
    ]
    if len({length for length, _ in judged}) < 2 or len({difference for _, difference in judged}) < 2:
        return None
    from scipy.stats import spearmanr

    lengths, differences = zip(*judged, strict=True)
    return float(spearmanr(lengths, differences).statistic)


def _approves(outcome: Outcome) -> bool:
    return outcome.value is not None and outcome.value >= APPROVED


def usable_labels(labels: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Labels of kind judgment that say yes or no of an answer and a quotation, in order of their ids."""
    usable = (r for r in labels if r["kind"] == "judgment" and r["answer"] and r["quotation"])
    return sorted((r for r in usable if r["value"].strip().lower() in _YES | _NO), key=lambda r: r["label_id"])


def approved_by_people(label: Mapping[str, Any]) -> bool:
    """Whether a usable label says that the quotation supports the answer."""
    return label["value"].strip().lower() in _YES


def audit_row(
    judge: str,
    metric: str,
    measure: str,
    labels: int,
    may_gate: bool,
    value: float | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    reason: str | None = None,
    detail: str | None = None,
) -> dict[str, Any]:
    """A row of judge_audit; one without a value does not apply."""
    return {
        "judge": judge,
        "metric": metric,
        "measure": measure,
        "value": value,
        "lower": limits[0],
        "upper": limits[1],
        "labels": labels,
        "may_gate": may_gate,
        "status": SCORED if value is not None else NOT_APPLICABLE,
        "reason": reason,
        "detail": detail,
    }
