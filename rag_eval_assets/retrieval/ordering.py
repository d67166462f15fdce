"""The one order of hits: score as float32 descending, then id descending, as trec_eval has it.

What belongs here: the tie rule, the cut at a depth, and what one question's search comes to. What does not: how a score is computed.
Chunks are numbered in ascending order of their ids before any search, so "id descending" is "position descending" and no search depends
on the order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Hits:
    """One question's ranking, best first: positions of chunks and their scores. `detail` states what the search did beyond its
    settings; `seconds` is its wall time.
    """

    positions: Positions
    scores: Scores
    detail: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class NoRanking:
    """Why a question has no ranking: a status and a reason of the closed lists."""

    status: str
    reason: str
    detail: str | None = None


Outcome = Hits | NoRanking


def best_first(positions: Positions, scores: Scores, depth: int) -> tuple[Positions, Scores]:
    """The first `depth` of the candidates in the order of hits, ties at the cut included in the rule.

    `positions` are distinct, in any order; `scores` are float32 and finite. Raises ValueError for a depth under 1.
    """
    if depth < 1:
        raise ValueError(f"depth {depth} must be at least 1")
    if len(scores) > depth:
        cut = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        near = np.flatnonzero(scores >= cut)
        positions, scores = positions[near], scores[near]
    order = np.lexsort((-positions, -scores))[:depth]
    return positions[order], scores[order]
