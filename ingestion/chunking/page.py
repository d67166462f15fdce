"""One chunk a page, for documents that have pages.

What belongs here: where a page starts in the canonical text. What does not: any size; a page is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ingestion.chunking.budget import trimmed


def chunk(text: str, elements: Sequence[Mapping[str, Any]], tokens: np.ndarray, size: int, overlap: int) -> list[tuple[int, int]]:
    """A span for each run of elements on one page; the whole text where no element has a page.

    An element without a page stands on that of the element before.
    """
    edges = [0]
    page = None
    for element in elements:
        if element["page"] is not None and element["page"] != page:
            if page is not None:
                edges.append(element["start"])
            page = element["page"]
    spans = (trimmed(text, start, end) for start, end in zip(edges, [*edges[1:], len(text)], strict=True))
    return [(start, end) for start, end in spans if start < end]
