"""Small chunks to be found by, each inside a larger parent that is delivered in its place.

What belongs here: children that keep to their parent. What does not: parents themselves (`recursive` cuts them) and delivering them
(a retriever's business).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ingestion.chunking import recursive
from ingestion.chunking.budget import Budget
from ingestion.chunking.recursive import split, text_levels, tidied


def parents(text: str, elements: Sequence[Mapping[str, Any]], tokens: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Spans of at most `size` tokens that share nothing."""
    return recursive.chunk(text, elements, tokens, size, 0)


def chunk(text: str, tokens: np.ndarray, parents: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Spans of at most `size` tokens, none over the border of a parent. Children repeat nothing: what stands beside one is delivered
    with it.
    """
    budget = Budget(tokens, len(text))
    levels = text_levels(text, budget)
    return [span for start, end in parents for span in tidied(text, split(budget, start, end, levels, size))]
