"""One chunk a document: the unit of public retrieval benchmarks, and the ceiling for recall by document.

What belongs here: the one span. What does not: any size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def chunk(text: str, elements: Sequence[Mapping[str, Any]], tokens: np.ndarray, size: int, overlap: int) -> list[tuple[int, int]]:
    """The whole text; nothing where it is all white space."""
    return [(0, len(text))] if text.strip() else []
