"""Fixed windows of tokens, whatever stands in them: the plainest strategy, and the one to beat.

What belongs here: where windows start and end. What does not: anything about structure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ingestion.chunking.budget import Budget


def chunk(text: str, elements: Sequence[Mapping[str, Any]], tokens: np.ndarray, size: int, overlap: int) -> list[tuple[int, int]]:
    """Windows of `size` tokens, each starting `overlap` tokens before the end of the one before; the last may be shorter.

    A window gives up a token where a character would be cut. Windows of nothing but white space are left out.
    """
    budget = Budget(tokens, len(text))
    spans = []
    start = end = 0
    while end < len(text):
        end = budget.furthest(start, size)
        if text[start:end].strip():
            spans.append((start, end))
        # The next character may hold several tokens; the overlap leaves them room, or the next window would end where this does.
        room = min(overlap, size - budget.count(end, end + 1))
        start = max(budget.earliest(end, room), start + 1)
    return spans
