"""The pairwise judge: which of two systems' answers is better, asked in both orders, so that a verdict on the place shows as one.

What belongs here: the request, verdicts in both orders, their summary, and their audit against people. What does not: sending
(`judging`), metrics of one answer (`claim_judge`), and whether a gate may believe a judge (`judges`).

A win needs both orders, as in MT-Bench (Zheng et al. 2023); a verdict that follows the place is a tie, and says so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ingestion.rates import bounded_mean, clopper_pearson
from rag_eval_assets.fences import RULE, fence, fenced
from rag_eval_assets.scoring import texts
from rag_eval_assets.scoring.judges import MINIMUM_ACCURACY, MINIMUM_LABELS, audit_row
from rag_eval_assets.scoring.judging import Ask, Judgment, Open, Prompt, Unjudged, judge_all, judged
from rag_eval_assets.scoring.outcomes import Outcome, Row, blocked, not_applicable
from rag_eval_assets.tables import NOT_APPLICABLE, SCORED

METRIC = "preference"
"""Name of the pairwise verdict in judge_audit."""

CANDIDATE, OTHER, TIE = "candidate", "other", "tie"
_WORTH = {CANDIDATE: 1.0, TIE: 0.5, OTHER: 0.0}
_LABELLED = {"answer": CANDIDATE, "other_answer": OTHER, "tie": TIE}
_DECLINED = "(declines to answer)"

MEASURES = ("win_rate_first", "win_rate_second", "swap_consistency", "first_place_rate", "win_rate")
AUDIT_MEASURES = ("accuracy", "accuracy_first", "accuracy_second", "aggregation_gain", "swap_consistency", "cost")

_TASK = """\
Decide which of two answers to the question is better: right, complete, and no more than was asked. Neither the length nor the style of an \
answer counts, nor which of them stands first. Where neither is better, say neither. Give a short rationale."""


class Preference(BaseModel):
    """The better of two answers, by its place."""

    model_config = ConfigDict(extra="forbid")
    preferred: Literal["first", "second", "neither"]
    rationale: str


@dataclass(frozen=True)
class Verdicts:
    """What a judge prefers where the candidate's answer stands first, and where it stands second, each with its rationale."""

    when_first: str
    when_second: str
    rationale: str

    @property
    def consistent(self) -> bool:
        return self.when_first == self.when_second

    @property
    def preferred(self) -> str:
        return self.when_first if self.consistent else TIE


def prompt(question: str, first: str, second: str) -> Prompt:
    """The request for a preference. Answers stand under numbers, no name of a system with them."""
    word = fence(question, first, second, name="material")
    material = f"Question:\n\n{fenced(word, [(0, question)])}\n\nAnswers, first and second:\n\n{fenced(word, [(1, first), (2, second)])}"
    rules = f"{_TASK}\n\n{RULE.format(fence=word)}"
    return Prompt(({"role": "system", "content": rules}, {"role": "user", "content": material}), Preference)


async def both_orders(ask: Ask, question: str, candidate: str, other: str) -> Verdicts:
    """Verdicts on a candidate's and another answer. Raises Unjudged."""
    found = []
    for first, second in ((candidate, other), (other, candidate)):
        given = (await judged(ask, prompt(question, first, second))).value
        assert isinstance(given, Preference)
        found.append(given)
    places = ({"first": CANDIDATE, "second": OTHER}, {"first": OTHER, "second": CANDIDATE})
    one, two = (place.get(given.preferred, TIE) for place, given in zip(places, found, strict=True))
    return Verdicts(one, two, f"candidate first: {found[0].rationale} / candidate second: {found[1].rationale}")


# -------------------------------------------------------------------------------------------------------------- systems
def preferences(cases: Sequence[Row], *, open_judge: Open, on_done: Callable[[int, int], None] | None = None) -> list[dict[str, Any]]:
    """Rows of preferences without work_key, one a case, in order.

    A case holds judge, candidate and other (names), question (a row of golden_questions), and candidate_answer and other_answer (rows of
    answers or None). Equal answers, and two refusals, are a tie that nobody is asked about, reason same_answer. A question that the corpus
    does not answer is not_applicable: what a judge prefers there says nothing of the corpus.
    """
    return judge_all(open_judge, [_work(case) for case in cases], on_done)


def _work(case: Row) -> Callable[[Ask], Awaitable[dict[str, Any]]]:
    question = case["question"]

    async def work(ask: Ask) -> dict[str, Any]:
        stopped = None if question["answerable"] else not_applicable("unanswerable")
        stopped = stopped or blocked(case["candidate_answer"]) or blocked(case["other_answer"])
        if stopped is not None:
            return _row(case, None, stopped)
        said = [_said(case[side]) for side in ("candidate_answer", "other_answer")]
        if texts.normal_tokens(said[0], question["language"]) == texts.normal_tokens(said[1], question["language"]):
            return _row(case, Verdicts(TIE, TIE, ""), Outcome(0.5, SCORED, "same_answer"))
        try:
            found = await both_orders(ask, question["text"], *said)
        except Unjudged as error:
            return _row(case, None, error.outcome)
        return _row(case, found, Outcome(_WORTH[found.preferred], SCORED, None if found.consistent else "position_dependent"))

    return work


def _said(answer: Row) -> str:
    # Markers of citations count passages that the judge does not see.
    return _DECLINED if answer["refused"] else texts.without_markers(answer["answer"]).strip()


def _row(case: Row, found: Verdicts | None, outcome: Outcome) -> dict[str, Any]:
    return {
        **{name: case[name] for name in ("judge", "candidate", "other")},
        "question_id": case["question"]["question_id"],
        "split": case["question"]["split"],
        "when_first": found.when_first if found else None,
        "when_second": found.when_second if found else None,
        "consistent": found.consistent if found else None,
        "value": outcome.value,
        "status": outcome.status,
        "reason": outcome.reason,
        "detail": found.rationale or None if found else outcome.explanation,
    }


def preference_summary(rows: Iterable[Row], audit: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of preference_summary: `MEASURES` of each judge, pair and split from rows of preferences and judge_audit.

    win_rate_first and win_rate_second are the candidate's wins, ties half, where it stands first and second. swap_consistency is the share
    of pairs whose verdict stays when they are swapped, first_place_rate the share of verdicts for what stands first, ties half (.5 for a
    judge that does not look at the place); both over the pairs that were asked about. win_rate takes both orders together, and only
    where the judge's audit shows that this agrees better with people than either order (orders_not_aggregated).
    """
    aggregated = {r["judge"] for r in audit if (r["metric"], r["measure"]) == (METRIC, "aggregation_gain") and (r["value"] or 0) > 0}
    groups: defaultdict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["judge"], row["candidate"], row["other"], row["split"]].append(row)
    found = []
    for (judge, candidate, other, split), own in sorted(groups.items()):
        scored = [r for r in own if r["status"] == SCORED]
        asked = [r for r in scored if r["reason"] != "same_answer"]
        values = {
            "win_rate_first": [_WORTH[r["when_first"]] for r in scored],
            "win_rate_second": [_WORTH[r["when_second"]] for r in scored],
            "swap_consistency": [float(r["consistent"]) for r in asked],
            "first_place_rate": [(_WORTH[r["when_first"]] + 1 - _WORTH[r["when_second"]]) / 2 for r in asked],
            "win_rate": [r["value"] for r in scored] if judge in aggregated else [],
        }
        for measure in MEASURES:
            sample = values[measure]
            withheld = measure == "win_rate" and judge not in aggregated
            lower, upper = bounded_mean(sample) if sample else (None, None)
            found.append(
                {
                    "judge": judge,
                    "candidate": candidate,
                    "other": other,
                    "split": split,
                    "measure": measure,
                    "value": math.fsum(sample) / len(sample) if sample else None,
                    "lower": lower,
                    "upper": upper,
                    "questions": len(sample),
                    "failed": sum(r["status"] not in (SCORED, NOT_APPLICABLE) for r in own),
                    "status": SCORED if sample else NOT_APPLICABLE,
                    "reason": None if sample else "orders_not_aggregated" if withheld else "nothing_to_measure",
                }
            )
    return found


# ---------------------------------------------------------------------------------------------------------------- audit
def audit(
    labels: Sequence[Row], questions: Mapping[str, str], judges: Iterable[str], open_judge: Callable[[str], Open]
) -> list[dict[str, Any]]:
    """Rows of judge_audit of metric `METRIC`: `AUDIT_MEASURES` of each judge over the labels of kind preference.

    `questions` gives a question's text by id; a label of a question that is not there is left out. accuracy_first and accuracy_second are
    those of the order with the label's answer first and second, accuracy that of both together, aggregation_gain how far it is over
    the better of the two. A judgment that failed is an error of each.
    """
    usable = [r for r in labels if r["kind"] == METRIC and r["question_id"] in questions]
    rows = []
    for name in sorted(judges):
        if not usable:
            rows += [audit_row(name, METRIC, measure, 0, False, reason="no_labels") for measure in AUDIT_MEASURES]
            continue
        costs: dict[str, float | None] = {}
        found = judge_all(open_judge(name), [_labelled(r, questions[r["question_id"]], costs) for r in usable])
        rows += _audited(name, [_LABELLED[r["value"]] for r in usable], found, [c for c in costs.values() if c is not None])
    return rows


def _labelled(label: Row, question: str, costs: dict[str, float | None]) -> Callable[[Ask], Awaitable[Verdicts | None]]:
    async def work(ask: Ask) -> Verdicts | None:
        async def counted(asked: Prompt) -> Judgment:
            found = await ask(asked)
            costs[asked.messages[-1]["content"]] = found.cost  # equal requests are paid once
            return found

        try:
            return await both_orders(counted, question, label["answer"], label["other_answer"])
        except Unjudged:
            return None

    return work


def _audited(judge: str, people: Sequence[str], found: Sequence[Verdicts | None], costs: Sequence[float]) -> list[dict[str, Any]]:
    n, asked = len(people), [v for v in found if v is not None]
    told = f"{n - len(asked)} of {n} judgments failed" if len(asked) < n else None
    said = {"accuracy": "preferred", "accuracy_first": "when_first", "accuracy_second": "when_second"}
    right = {
        measure: sum(v is not None and getattr(v, part) == human for v, human in zip(found, people, strict=True))
        for measure, part in said.items()
    }
    passes = n >= MINIMUM_LABELS and clopper_pearson(right["accuracy"], n)[0] >= MINIMUM_ACCURACY
    gain = (right["accuracy"] - max(right["accuracy_first"], right["accuracy_second"])) / n
    consistent = sum(v.consistent for v in asked)

    def row(measure: str, value: float | None, of: int, limits: tuple[float | None, float | None] = (None, None)) -> dict[str, Any]:
        return audit_row(judge, METRIC, measure, of, passes, value, limits, None if value is not None else "no_labels", told)

    return [
        *(row(measure, count / n, n, clopper_pearson(count, n)) for measure, count in right.items()),
        row("aggregation_gain", gain, n),
        row("swap_consistency", consistent / len(asked) if asked else None, len(asked), clopper_pearson(consistent, len(asked))),
        row("cost", math.fsum(costs) if costs else None, n),
    ]
