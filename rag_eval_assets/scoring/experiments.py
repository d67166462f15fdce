"""Another top_k, token budget or order of passages, tried on what a system's retrieval recorded: what answers gain or lose by it.

What belongs here: which contexts an experiment delivers, which of them must be answered, and what the answers score beside the
system as it is. What does not: retrieval (none is called), assembling and answering (handed in), and decisions: points are tried on
development questions to find candidates, which a comparison decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ingestion.rates import clustered_mean
from rag_eval_assets.scoring.answers import score_answers
from rag_eval_assets.scoring.clusters import question_clusters
from rag_eval_assets.scoring.relevance import Labels, Row, read_labels
from rag_eval_assets.tables import AS_LOGGED, NOT_APPLICABLE, OK, SCORED, WHOLE_LOG

SPLIT = "development"
"""The split that experiments look at: what steers a choice is no question of the release split."""

PLACES = ("first", "middle", "last")
"""Places of the relevant passages among those delivered (Liu et al. 2024, "Lost in the Middle")."""

FEWEST_OTHERS = 2
"""Other passages that a context must hold, so that its middle is neither its beginning nor its end."""

AS_DELIVERED = "as delivered"
NO_BUDGET = "none"

Made = dict[str, Any]
Key = tuple[str, str, str]
Assemble = Callable[[list[Made], Made], list[Made]]
Reorder = Callable[[Made, Sequence[Made]], Made]
Answer = Callable[[list[tuple[Made, Made]]], list[Made]]
"""(question, context) pairs -> rows of answers, in order."""


@dataclass(frozen=True)
class Plan:
    """What is tried of one system; nothing by default."""

    top_k: Sequence[int] = ()
    token_budget: Sequence[int] = ()
    order: Sequence[str] = ()
    """Orderings tried; with any, the place of the relevant passages too."""

    def __bool__(self) -> bool:
        return bool(self.top_k or self.token_budget or self.order)


@dataclass(frozen=True)
class _Point:
    experiment: str
    name: str
    as_it_is: bool
    contexts: Mapping[str, Made] = field(default_factory=dict)
    """By question; those that the point says nothing about are not there."""
    stopped: tuple[str, str] | None = None
    """Reason and detail where the point cannot be replayed."""


def replay_experiments(
    found: Tried, read: Answer, pass_metric: str = "correct", answer_schema: Mapping[str, Any] | None = None
) -> list[Made]:
    """Rows of replay_experiments, one a point of each experiment that is tried, the system as it is among them.

    `read` is called once, with the contexts that neither the system nor an earlier point has answered: an equal context has the answer it
    had.
    """
    asked, own, points = found.asked, found.own, found.points
    new, generated = found.new
    answered = found.answered | dict(zip(new, read(list(new.values())) if new else (), strict=True))
    scores = _Scores(asked, found.evidence, answered, pass_metric, found.require_citations, answer_schema)
    as_it_is = {point.experiment: scores.of(point) for point in points if point.as_it_is}
    cluster_of = question_clusters(asked)
    rows = []
    for place, point in enumerate(points):
        mine = {} if point.stopped else scores.of(point)
        row = {"experiment": point.experiment, "point": point.name, "place": place, "as_it_is": point.as_it_is, "split": SPLIT}
        row |= {"metric": pass_metric, "generated": generated[place], "reused": len(point.contexts) - generated[place]}
        row |= {"changed": sum(_key(c) != _key(own[q]) for q, c in point.contexts.items())}
        delivered = [c["tokens"] for c in point.contexts.values() if c["status"] == OK]
        row |= {"tokens": math.fsum(delivered) / len(delivered) if delivered and None not in delivered else None}
        rows.append(row | _measured(mine, as_it_is[point.experiment], cluster_of, point))
    return rows


# ------------------------------------------------------------------------------------------------------------------- points
@dataclass(frozen=True)
class Tried:
    """Every point with its contexts, over the questions looked at, and the answers that the system gave them."""

    asked: list[Made]
    evidence: list[Made]
    own: dict[str, Made]
    points: list[_Point]
    answered: dict[Key, Made]
    require_citations: bool

    @property
    def new(self) -> tuple[dict[Key, tuple[Made, Made]], list[int]]:
        """What no answer is there for, and how many each point was the first to need."""
        of = {q["question_id"]: q for q in self.asked}
        new: dict[Key, tuple[Made, Made]] = {}
        counts = []
        for point in self.points:
            lacking = {_key(c): (of[q], c) for q, c in point.contexts.items() if _key(c) not in self.answered and _key(c) not in new}
            new |= lacking
            counts.append(len(lacking))
        return new, counts


def tried(
    questions: Iterable[Made],
    evidence: Iterable[Made],
    spec: Made,
    retrievals: list[Made],
    contexts: Iterable[Made],
    answers: Iterable[Made],
    plan: Plan,
    assemble: Assemble,
    reorder: Reorder,
) -> Tried:
    """What a plan tries of the recorded rankings.

    `assemble` (system_retrievals, spec) delivers as the system does, `reorder` gives a context's passages another order.
    """
    asked = sorted((q for q in questions if q["split"] == SPLIT), key=lambda q: q["question_id"])
    names = {q["question_id"] for q in asked}
    own = {c["question_id"]: c for c in contexts if c["question_id"] in names}
    labels = [e for e in evidence if e["question_id"] in names]
    ranked = [r for r in retrievals if r["question_id"] in names]
    points = [*_limits(plan, spec, ranked, own, assemble)]
    if plan.order:
        points += [*_orderings(plan.order, spec, ranked, own, assemble), *_places(spec, read_labels(asked, labels), own, reorder)]
    answered = {_key(own[a["question_id"]]): a for a in answers if a["question_id"] in own}
    return Tried(asked, labels, own, points, answered, bool(spec["require_citations"]))


def _limits(plan: Plan, spec: Made, ranked: list[Made], own: Mapping[str, Made], assemble: Assemble) -> Iterator[_Point]:
    """Curves over top_k and the token budget, one limit changed at a time, the system's own among the others."""
    uncounted = any(r["rank"] > 0 and r["tokens"] is None for r in ranked)
    for limit, tried in (("top_k", plan.top_k), ("token_budget", plan.token_budget)):
        mine = spec[limit]
        for value in sorted({*tried, mine} if tried else (), key=lambda v: math.inf if v is None else v):
            name, stopped = NO_BUDGET if value is None else AS_LOGGED if value == WHOLE_LOG else str(value), _only_logged(spec)
            if value == mine:
                yield _Point(limit, name, True, own)
                continue
            if stopped is None and limit == "top_k" and value > spec["depth"]:
                stopped = "not_replayable", f"the ranking was recorded to depth {spec['depth']}"
            elif stopped is None and limit == "token_budget" and uncounted:
                stopped = "tokens_unknown", "a passage of the ranking has no token count"
            yield _Point(limit, name, False, {} if stopped else _under(ranked, {**spec, limit: value}, own, assemble), stopped)


def _orderings(orderings: Sequence[str], spec: Made, ranked: list[Made], own: Mapping[str, Made], assemble: Assemble) -> Iterator[_Point]:
    stopped = _only_logged(spec)
    for ordering in orderings:
        if ordering == spec["ordering"]:
            yield _Point("ordering", ordering, True, own)
        else:
            found = {} if stopped else _under(ranked, {**spec, "ordering": ordering}, own, assemble)
            yield _Point("ordering", ordering, False, found, stopped)


def _only_logged(spec: Made) -> tuple[str, str] | None:
    return ("not_replayable", "answers were only logged") if spec["kind"] == "import" else None


def _under(ranked: list[Made], spec: Made, own: Mapping[str, Made], assemble: Assemble) -> dict[str, Made]:
    return {c["question_id"]: c for c in assemble(ranked, spec) if c["question_id"] in own}


def _places(spec: Made, labels: Mapping[str, Labels], own: Mapping[str, Made], reorder: Reorder) -> Iterator[_Point]:
    """Relevant passages first, in the middle and last, of every context that holds one and others enough."""
    parts = {}
    for name, context in own.items():
        groups = labels[name].groups
        gold = [p for p in context["passages"] if any(g.found_in((p["doc_id"], p["start"], p["end"])) for g in groups)]
        others = [p for p in context["passages"] if p not in gold]
        if gold and len(others) >= FEWEST_OTHERS:
            parts[name] = (gold, others)
    yield _Point("gold_place", AS_DELIVERED, True, {name: own[name] for name in parts})
    stopped = _only_logged(spec)
    for place in PLACES:
        moved = {}
        for name, (gold, others) in parts.items() if not stopped else ():
            before = {"first": 0, "middle": len(others) // 2, "last": len(others)}[place]
            moved[name] = reorder(own[name], [*others[:before], *gold, *others[before:]])
        yield _Point("gold_place", place, False, moved, stopped)


# ------------------------------------------------------------------------------------------------------------------ answers
def _key(context: Row) -> Key:
    return context["question_id"], context["context_sha256"], context["status"]


@dataclass
class _Scores:
    """Values of the pass metric; an answer from one context is scored once, whatever points share it."""

    asked: list[Made]
    evidence: list[Made]
    answered: Mapping[Key, Made]
    pass_metric: str
    require_citations: bool
    answer_schema: Mapping[str, Any] | None
    known: dict[Key, Row] = field(default_factory=dict)

    def of(self, point: _Point) -> dict[str, Row]:
        """Score rows by question."""
        new = {q: c for q, c in point.contexts.items() if _key(c) not in self.known}
        rows = score_answers(
            [q for q in self.asked if q["question_id"] in new],
            list(new.values()),
            [self.answered[_key(c)] for c in new.values() if _key(c) in self.answered],
            self.evidence,
            require_citations=self.require_citations,
            answer_schema=self.answer_schema,
        )
        self.known |= {_key(new[r["question_id"]]): r for r in rows if r["metric"] == self.pass_metric}
        return {q: self.known[_key(c)] for q, c in point.contexts.items()}


# --------------------------------------------------------------------------------------------------------------------- rows
def _measured(mine: Mapping[str, Row], as_it_is: Mapping[str, Row], cluster_of: Mapping[str, str], point: _Point) -> Made:
    values = {q: float(r["value"]) for q, r in mine.items() if r["status"] == SCORED}
    pairs = [q for q in values if as_it_is[q]["status"] == SCORED] if not point.as_it_is else []
    gaps = [values[q] - float(as_it_is[q]["value"]) for q in pairs]
    mean, lower, upper = _mean(list(values.values()), [cluster_of[q] for q in values], 0.0)
    difference, least, most = _mean(gaps, [cluster_of[q] for q in pairs], -1.0)
    reason, detail = point.stopped or ("nothing_to_measure", None)
    return {
        "questions": len(values),
        "failed": sum(r["status"] not in (SCORED, NOT_APPLICABLE) for r in mine.values()),
        "mean": mean,
        "lower": lower,
        "upper": upper,
        "paired": len(pairs),
        "difference": difference,
        "difference_lower": least,
        "difference_upper": most,
        "status": SCORED if values else NOT_APPLICABLE,
        "reason": None if values else reason,
        "detail": detail,
    }


def _mean(values: list[float], clusters: list[str], least: float) -> tuple[float | None, float | None, float | None]:
    """Mean of values in [least, 1] with its interval; three nulls of none."""
    if not values:
        return None, None, None
    return math.fsum(values) / len(values), *clustered_mean(values, clusters, least, 1.0)
