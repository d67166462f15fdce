"""Whether a relevance filter may be hard: three limits set before looking, judged on held-out questions.

What belongs here: the paired figures of a hard filter against a boost and against none, and the decision. What does not: the rankings
(`retrieval`), and how good the filters themselves are (`filter_quality`). Entitlement is no filter and is hard on every side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.scoring.intervals import clopper_pearson, paired_difference
from rag_eval_assets.scoring.ranking import score_rankings
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, SCORED

Row = dict[str, Any]
HARD, SOFT, NONE = "hard", "soft", "none"
JUDGED_ON, TUNED_ON = "release", "development"

Values = dict[str, float]
"""A measure by question, failed and missing ones 0."""


@dataclass(frozen=True)
class Limits:
    """The metric that a hard filter must gain, by document, the three limits, and the boosts it is held against."""

    metric: str
    k: int
    minimum_gain: float
    epsilon: float
    recall_loss: float
    boost: Sequence[float]


@dataclass(frozen=True)
class Rankings:
    """Rows of retrieval_runs of the questions with a filter: under it, without it, and with it as a boost of the number given."""

    hard: pa.Table
    none: pa.Table
    soft: Callable[[float], pa.Table]

    @classmethod
    def of(
        cls, questions: Iterable[Row], runs: pa.Table, none: pa.Table, boosted: Callable[[pa.Table, pa.Table, float], pa.Table]
    ) -> Rankings:
        """From rankings of all questions and those without the filter; `boosted` makes the third of the other two."""
        wanted = pa.array(sorted(q["question_id"] for q in questions), pa.string())
        hard = runs.filter(pc.is_in(runs["question_id"], wanted))
        return cls(hard, none, lambda boost: boosted(hard, none, boost))


def made_elsewhere(retrievers: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Retrievers whose rankings, or a lane's, come from a file: what filter shaped them is not known here."""

    def is_one(name: str) -> bool:
        p = retrievers.get(name, {})
        return p.get("kind") == "run_file" or any(is_one(lane) for lane in p.get("of", ()))

    return frozenset(name for name in retrievers if is_one(name))


def filter_decision(
    rankings: Rankings,
    retrievers: Mapping[str, Mapping[str, Any]],
    questions: Sequence[Row],
    evidence: Sequence[Row],
    exclusion: Sequence[Row],
    limits: Limits,
    *,
    unavailable: str | None,
) -> list[Row]:
    """Rows of filter_decision, two a retriever: the hard filter against the boost, which decides, and against no filter.

    `questions` are those with a filter, of any split; `evidence` and `exclusion` are rows of golden_evidence and filter_exclusion, of which
    theirs are read.
    Of several boosts each retriever takes the one with the best mean on development questions, the smallest of equal ones. `hard` only
    where on release questions the lower limit of the paired gain reaches the least gain, false exclusion is at most epsilon and the mean
    loss of recall is within its limit; `soft` in every other case, which `detail` names. `unavailable` is the reason of rows where
    nothing was ranked at all. Where no question has a filter the rows say so: that is never a rate of 0.
    """
    reason = unavailable or (None if questions else "no_filter")
    asked = {q["question_id"] for q in questions}
    evidence, exclusion = ([row for row in rows if row["question_id"] in asked] for rows in (evidence, exclusion))
    elsewhere = made_elsewhere(retrievers)
    excluded, eligible = _excluded(exclusion)
    if reason is None and len(elsewhere) < len(retrievers):
        scored = _Scored(rankings, questions, evidence, limits)
    rows: list[Row] = []
    for name in sorted(retrievers):
        why = reason or ("made_elsewhere" if name in elsewhere else None)
        for against in (SOFT, NONE):
            row = _blank(name, against, limits, excluded, eligible)
            if why:
                row |= {"exclusion": None, "exclusion_lower": None, "exclusion_upper": None}
                rows.append(row | {"status": NOT_APPLICABLE, "reason": why})
                continue
            boost, tuned_on = scored.boost(name) if against == SOFT else (0.0, 0)
            row |= {"boost": boost, "tuned_on": tuned_on}
            rows.append(row | _compared(row, scored.values(HARD, name), scored.values(boost, name), limits))
    return rows


def _blank(retriever: str, against: str, limits: Limits, excluded: int, eligible: int) -> Row:
    lower, upper = clopper_pearson(excluded, eligible) if eligible else (None, None)
    return {
        "retriever": retriever, "against": against, "split": JUDGED_ON, "metric": limits.metric, "k": limits.k,
        "boost": 0.0 if against == NONE else min(limits.boost), "tuned_on": 0, "questions": 0, "failed": 0,
        "hard_mean": None, "against_mean": None, "gain": None, "lower": None, "upper": None,
        "recall_loss": None, "recall_loss_lower": None, "recall_loss_upper": None,
        "exclusion": excluded / eligible if eligible else None, "exclusion_lower": lower, "exclusion_upper": upper,
        "minimum_gain": limits.minimum_gain, "epsilon": limits.epsilon, "maximum_recall_loss": limits.recall_loss,
        "decision": "", "status": SCORED, "reason": None, "detail": None,
    }  # fmt: skip


def _excluded(rows: Sequence[Row]) -> tuple[int, int]:
    """Eligible gold documents of release questions that their filters hide, and all of them."""
    own = [row for row in rows if row["split"] == JUDGED_ON and row["status"] == SCORED]
    return sum(len(row["excluded_documents"]) for row in own), sum(row["eligible_gold"] for row in own)


@dataclass(frozen=True)
class _Side:
    metric: Values
    recall: Values
    broken: frozenset[str]
    reason: str | None


class _Scored:
    """Values of each side by retriever; a boost is scored when it is first asked for."""

    def __init__(self, rankings: Rankings, questions: Sequence[Row], evidence: Sequence[Row], limits: Limits) -> None:
        self.rankings, self.questions, self.evidence, self.limits = rankings, list(questions), list(evidence), limits
        self.split_of = {q["question_id"]: q["split"] for q in questions}
        self._sides: dict[str | float, dict[tuple[str, str], _Side]] = {}

    def values(self, side: str | float, retriever: str, split: str = JUDGED_ON) -> _Side:
        """Under the hard filter, or under a boost (0: no filter)."""
        if side not in self._sides:
            table = self.rankings.hard if side == HARD else self.rankings.none if side == 0 else self.rankings.soft(float(side))
            self._sides[side] = self._read(table)
        return self._sides[side].get((retriever, split), _Side({}, {}, frozenset(), None))

    def boost(self, retriever: str) -> tuple[float, int]:
        """The boost for a retriever, and the development questions it was chosen on."""
        found = sorted(set(self.limits.boost))
        if len(found) == 1:
            return found[0], 0
        tried = {boost: list(self.values(boost, retriever, TUNED_ON).metric.values()) for boost in found}
        means = {boost: float(np.mean(values)) if values else 0.0 for boost, values in tried.items()}
        best = max(found, key=lambda boost: (means[boost], -boost))
        return best, len(tried[best])

    def _read(self, table: pa.Table) -> dict[tuple[str, str], _Side]:
        limits = self.limits
        scores = score_rankings(table, self.questions, self.evidence, ks=(limits.k,), token_budgets=(), by="retriever")
        found: dict[tuple[str, str], _Side] = {}
        for row in scores.to_pylist():
            if (row["unit"], row["cutoff"]) != ("document", "rank") or row["metric"] not in (limits.metric, "R"):
                continue
            key = row["retriever"], self.split_of[row["question_id"]]
            side = found.get(key, _Side({}, {}, frozenset(), None))
            if row["status"] == NOT_APPLICABLE:
                found[key] = _Side(side.metric, side.recall, side.broken, side.reason or row["reason"])
                continue
            value = {row["question_id"]: row["value"] if row["status"] == SCORED else 0.0}
            broken = side.broken | ({row["question_id"]} if row["status"] in (FAILED, MISSING) else set())
            metric = side.metric | value if row["metric"] == limits.metric else side.metric
            recall = side.recall | value if row["metric"] == "R" else side.recall
            found[key] = _Side(metric, recall, broken, side.reason)
        return found


def _compared(row: Row, hard: _Side, other: _Side, limits: Limits) -> Row:
    shared = sorted(hard.metric.keys() & other.metric.keys())
    decides = row["against"] == SOFT
    if not shared:
        reason = hard.reason or other.reason or "too_few_questions"
        told = f"no {JUDGED_ON} question with a filter is scored on both sides"
        status = MISSING if reason == "too_few_questions" else NOT_APPLICABLE
        return {"status": status, "reason": reason, "decision": SOFT if decides else "", "detail": told}
    a, b = (np.array([side.metric[q] for q in shared]) for side in (hard, other))
    c, d = (np.array([side.recall[q] for q in shared]) for side in (other, hard))
    lower, upper = paired_difference(a, b)
    low, high = paired_difference(c, d)
    found = {
        "questions": len(shared),
        "failed": len((hard.broken | other.broken) & set(shared)),
        "hard_mean": float(a.mean()), "against_mean": float(b.mean()), "gain": float((a - b).mean()), "lower": lower, "upper": upper,
        "recall_loss": float((c - d).mean()), "recall_loss_lower": low, "recall_loss_upper": high,
    }  # fmt: skip
    return found | (_decided(row | found, limits) if decides else {})


def _decided(row: Row, limits: Limits) -> Row:
    missed = []
    if row["lower"] < limits.minimum_gain:
        missed.append(f"the gain's lower limit {row['lower']:.4f} is under {limits.minimum_gain:g}")
    if row["exclusion"] is None:
        missed.append("no eligible gold to measure exclusion on")
    elif row["exclusion"] > limits.epsilon:
        missed.append(f"exclusion {row['exclusion']:.4f} is over {limits.epsilon:g}")
    if row["recall_loss"] > limits.recall_loss:
        missed.append(f"recall loss {row['recall_loss']:.4f} is over {limits.recall_loss:g}")
    return {"decision": SOFT if missed else HARD, "detail": "; ".join(missed) or None}
