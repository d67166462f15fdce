"""Chunks that end where the subject changes: at the largest distances between the sentences before a place and those after it.

What belongs here: distances between neighbouring groups of sentences, and which of them are breaks. What does not: the model that
embeds a sentence (the caller gives a function), and what a sentence is (`sentence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ingestion.chunking import Embed
from ingestion.chunking.budget import Budget, trimmed
from ingestion.chunking.recursive import split, tidied
from ingestion.chunking.sentence import sentence_levels, unit_starts

GROUP = 3
"""Sentences on each side of a place that are compared."""

DECIMALS = 3
"""Distances are compared after rounding, so that the last bits of a vector, which differ between processors, move no cut by
themselves: places that then tie are taken in the order of the text."""


def breaks(vectors: npt.NDArray[np.float32], percentile: int) -> list[int]:
    """Numbers i of sentences (from 1) before which the text is broken, ascending.

    The distance of a place is 1 - cosine of the mean vectors of up to `GROUP` sentences before and after it. Of n places the
    n * (100 - percentile) / 100 farthest are breaks, rounded down: how many depends on no vector. Vectors (n + 1, d) must be finite.
    """
    places = len(vectors) - 1
    wanted = places * (100 - percentile) // 100
    if wanted < 1:
        return []
    # In double precision the sums do not depend on the width of the processor's vector unit to any digit that is compared.
    total = np.concatenate([np.zeros((1, vectors.shape[1])), np.cumsum(vectors, axis=0, dtype=np.float64)])
    at = np.arange(1, places + 1)
    before = total[at] - total[np.maximum(at - GROUP, 0)]
    after = total[np.minimum(at + GROUP, places + 1)] - total[at]
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    cosines = np.einsum("ij,ij->i", before, after) / np.where(lengths > 0, lengths, 1.0)
    order = np.lexsort((at, -np.round(1.0 - cosines, DECIMALS)))
    return sorted((order[:wanted] + 1).tolist())


def chunk(
    text: str,
    elements: Sequence[Mapping[str, Any]],
    tokens: np.ndarray,
    size: int,
    *,
    percentile: int,
    embed: Embed,
) -> list[tuple[int, int]]:
    """Spans between breaks; one over `size` tokens is cut at sentences, packed up to `size`, and a sentence over it at words.

    (Breakpoints by percentile as in Kamradt's "5 levels of text splitting"; every sentence is embedded once, its group is a mean.)
    `percentile` is 1 to 99. Raises ValueError for a vector that is not finite.
    """
    budget = Budget(tokens, len(text))
    starts = unit_starts(text, elements)
    spans = [trimmed(text, a, b) for a, b in zip([0, *starts], [*starts, len(text)], strict=True)]
    spans = [span for span in spans if span[0] < span[1]]
    vectors = embed([text[start:end] for start, end in spans]) if len(spans) > 1 else np.zeros((len(spans), 1), dtype=np.float32)
    if not np.isfinite(vectors).all():
        raise ValueError("a sentence's vector is not finite")
    edges = [0, *(spans[i][0] for i in breaks(vectors, percentile)), len(text)]
    levels = sentence_levels(text, starts, budget)
    pieces = [span for a, b in pairwise(edges) for span in split(budget, a, b, levels, size)]
    return tidied(text, pieces)
