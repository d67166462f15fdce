"""Fusion of rankings by rank.

What belongs here: reciprocal rank fusion over ids of any kind. What does not: which rankings are fused, and what happens where
one of them is absent (`runs`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Id = TypeVar("Id", str, int)


class DuplicateIds(ValueError):
    """A ranking that names one id twice."""


def rrf(rankings: Sequence[Sequence[Id]], k: int = 60) -> list[tuple[Id, float]]:
    """Reciprocal rank fusion (Cormack, Clarke, Buettcher 2009): score = sum over rankings of 1 / (k + rank), ranks from 1.

    Returns (id, score) best first; scores equal as float32 are ordered by id descending. The order of the rankings does not
    matter. Raises ValueError for k <= 0 and DuplicateIds where a ranking names an id twice.
    """
    if k <= 0:
        raise ValueError(f"rrf: k is {k}, it must be over 0")
    parts: dict[Id, list[float]] = {}
    for ranking in rankings:
        if len(set(ranking)) != len(ranking):
            twice = sorted({str(i) for i in ranking if ranking.count(i) > 1})
            raise DuplicateIds(f"a ranking names {', '.join(twice[:3])} more than once")
        for rank, found in enumerate(ranking, start=1):
            parts.setdefault(found, []).append(1.0 / (k + rank))
    # fsum is exact, so the sum does not depend on the order of the lanes.
    scores = {found: math.fsum(terms) for found, terms in parts.items()}
    by_id = sorted(scores, reverse=True)
    return [(found, scores[found]) for found in sorted(by_id, key=lambda found: -np.float32(scores[found]))]
