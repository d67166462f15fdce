"""Fusion of rankings by rank or by normalised score.

What belongs here: the arithmetic, over ids of any kind, and the choice of weights on labelled rankings. What does not: which rankings are
fused and what happens where one of them is absent (`combined`), which questions are development (the caller).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

Id = TypeVar("Id", str, int)
Normalisation = Literal["min_max", "z_score"]
Scored = Sequence[tuple[Id, float]]
"""A ranking, best first: ids with their scores."""


class DuplicateIds(ValueError):
    """A ranking that names one id twice."""


def rrf(rankings: Sequence[Sequence[Id]], k: int = 60, weights: Sequence[float] | None = None) -> list[tuple[Id, float]]:
    """Reciprocal rank fusion (Cormack, Clarke, Buettcher 2009): score = sum over rankings of weight / (k + rank), ranks from 1.

    A weight is 1 unless `weights` has one for each ranking. Returns (id, score) best first; scores equal as float32 are ordered by
    id descending. The order of the rankings does not matter.

    Raises ValueError for k <= 0 and DuplicateIds where a ranking names an id twice.
    """
    if k <= 0:
        raise ValueError(f"rrf: k is {k}, it must be over 0")
    parts: dict[Id, list[float]] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        _distinct(ranking)
        for rank, found in enumerate(ranking, start=1):
            parts.setdefault(found, []).append(weight / (k + rank))
    return _summed(parts)


def normalise(scores: Sequence[float], how: Normalisation) -> list[float]:
    """A ranking's scores on one scale: min_max to [0, 1], z_score to mean 0 and (population) standard deviation 1.

    Scores that are all equal carry no order: min_max makes them 1 (each was found), z_score 0. Raises ValueError for another
    `how` and for scores that are not finite.
    """
    if not all(map(math.isfinite, scores)):
        raise ValueError("a score is not finite")
    if how == "min_max":
        low, high = min(scores, default=0.0), max(scores, default=0.0)
        return [(score - low) / (high - low) if high > low else 1.0 for score in scores]
    if how == "z_score":
        mean = math.fsum(scores) / max(1, len(scores))
        deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / max(1, len(scores)))
        return [(score - mean) / deviation if deviation > 0 else 0.0 for score in scores]
    raise ValueError(f"no normalisation {how!r}; known: min_max, z_score")


def weighted_sum(rankings: Sequence[Scored[Id]], weights: Sequence[float], how: Normalisation) -> list[tuple[Id, float]]:
    """Score fusion: sum over rankings of weight * normalised score (Bruch, Gai, Ingber 2023, for weights that sum to 1).

    An id that a ranking lacks gets that ranking's lowest normalised score: it scored no better than the last one kept. Returns
    (id, score) best first, ties as in `rrf`. Raises ValueError for weights that do not fit, DuplicateIds as `rrf` does.
    """
    if len(weights) != len(rankings) or not all(math.isfinite(w) and w >= 0 for w in weights) or not any(weights):
        raise ValueError(f"{len(rankings)} rankings need as many weights, none under 0 and not all 0, not {list(weights)}")
    lanes: list[tuple[float, dict[Id, float], float]] = []
    for ranking, weight in zip(rankings, weights, strict=True):
        ids = [found for found, _ in ranking]
        _distinct(ids)
        scores = normalise([score for _, score in ranking], how)
        lanes.append((weight, dict(zip(ids, scores, strict=True)), min(scores, default=0.0)))
    every = {found for _, own, _ in lanes for found in own}
    return _summed({found: [weight * own.get(found, lowest) for weight, own, lowest in lanes] for found in every})


def _distinct(ranking: Sequence[Id]) -> None:
    if len(set(ranking)) != len(ranking):
        twice = sorted({str(i) for i in ranking if ranking.count(i) > 1})
        raise DuplicateIds(f"a ranking names {', '.join(twice[:3])} more than once")


def _summed(parts: Mapping[Id, Sequence[float]]) -> list[tuple[Id, float]]:
    # fsum is exact, so the sum does not depend on the order of the lanes.
    scores = {found: math.fsum(terms) for found, terms in parts.items()}
    by_id = sorted(scores, reverse=True)
    return [(found, scores[found]) for found in sorted(by_id, key=lambda found: -np.float32(scores[found]))]


# -------------------------------------------------------------------------------------------------------------- tuning
@dataclass(frozen=True)
class Tuned:
    """Chosen weights, and what the choice rests on: labelled questions, the mean nDCG@k reached, the points tried."""

    weights: tuple[float, ...]
    questions: int
    value: float | None
    points: int


def simplex(lanes: int, steps: int) -> Iterator[tuple[float, ...]]:
    """Every vector of `lanes` weights that are multiples of 1 / steps and sum to 1, the first weight rising slowest."""

    def parts(left: int, number: int) -> Iterator[tuple[int, ...]]:
        if number == 1:
            yield (left,)
            return
        for own in range(left + 1):
            yield from ((own, *rest) for rest in parts(left - own, number - 1))

    for point in parts(steps, lanes):
        yield tuple(part / steps for part in point)


def tune(
    rankings: Mapping[str, Sequence[Scored[str]]],
    gold: Mapping[str, Mapping[str, int]],
    unit_of: Mapping[str, str],
    *,
    lanes: int,
    steps: int,
    how: Normalisation,
    k: int,
) -> Tuned:
    """The convex weights with the highest mean nDCG@k over labelled questions; equal weights where none is labelled.

    `rankings` are the lanes of each question, `gold` grades by unit (a document) and `unit_of` the unit of each id; ids of one unit
    collapse to its first rank. Of points whose means agree to nine decimals, the one nearest to equal weights wins, then the one
    with the larger first weights. nDCG as trec_eval has it: linear gains, the ideal from the labels.
    """
    labelled = {q: grades for q, grades in gold.items() if q in rankings and any(grade > 0 for grade in grades.values())}
    even = tuple(1 / lanes for _ in range(lanes))
    if not labelled:
        return Tuned(even, 0, None, 0)
    best: tuple[float, float, tuple[float, ...]] | None = None
    points = 0
    for weights in simplex(lanes, steps):
        points += 1
        values = []
        for question in sorted(labelled):
            fused = weighted_sum(rankings[question], weights, how)
            units = dict.fromkeys(unit_of[found] for found, _ in fused)
            values.append(ndcg(list(units), labelled[question], k))
        distance = round(sum((weight - 1 / lanes) ** 2 for weight in weights), 9)
        candidate = (round(math.fsum(values) / len(values), 9), -distance, weights)
        best = candidate if best is None else max(best, candidate)
    assert best is not None
    return Tuned(best[2], len(labelled), round(best[0], 6), points)


def ndcg(units: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """nDCG@k of distinct units, best first, against grades of at least 0; 0 where no grade is positive."""
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k]
    best = math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(ideal, 1))
    found = math.fsum(grades.get(unit, 0) / math.log2(rank + 1) for rank, unit in enumerate(units[:k], 1))
    return found / best if best else 0.0
