"""Cutting a canonical text into chunks with exact spans: the registry of strategies and the one function that applies one.

What belongs here: names of strategies, and what every chunk carries whatever cut it (id, hash, tokens, section, page). What
does not: where to cut (one module a strategy, loaded when it is used) and tokenising (`ingestion.tokenizers`).
"""

from __future__ import annotations

import hashlib
import importlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

SMALLEST_SIZE = 8


@dataclass(frozen=True)
class Strategy:
    """One way to cut: the module with its `chunk` function, and whether it takes a size and an overlap in tokens."""

    module: str
    sized: bool
    overlaps: bool


STRATEGIES: dict[str, Strategy] = {
    "window": Strategy("ingestion.chunking.window", sized=True, overlaps=True),
    "recursive": Strategy("ingestion.chunking.recursive", sized=True, overlaps=True),
    "structural": Strategy("ingestion.chunking.structural", sized=True, overlaps=False),
    "page": Strategy("ingestion.chunking.page", sized=False, overlaps=False),
    "whole": Strategy("ingestion.chunking.whole", sized=False, overlaps=False),
}


def chunk_document(
    document: Mapping[str, Any], tokens: np.ndarray, *, strategy: str, size: int = 0, overlap: int = 0
) -> list[dict[str, Any]]:
    """The chunks of one document, rows of `chunks` without `work_key`, in order of their start.

    `document` has doc_id, text and elements; `tokens` is an (n, 2) array of the text's token spans. A chunk's `tokens` is the
    number of the document's tokens that lie in it, wholly or partly. Every character that is no white space lies in at least
    one chunk. Raises ValueError for an unknown strategy or parameters it cannot take.
    """
    kind = STRATEGIES.get(strategy)
    if kind is None:
        raise ValueError(f"no chunking strategy {strategy!r}; known: {', '.join(sorted(STRATEGIES))}")
    if kind.sized and size < SMALLEST_SIZE:
        raise ValueError(f"strategy {strategy!r} needs a size of at least {SMALLEST_SIZE} tokens, not {size}")
    if not 0 <= overlap < max(size, 1) or (overlap and not kind.overlaps):
        raise ValueError(f"strategy {strategy!r} with size {size} takes no overlap of {overlap} tokens")
    text: str = document["text"]
    elements = sorted(document["elements"] or (), key=lambda e: (e["start"], e["end"], e["order"]))
    spans = importlib.import_module(kind.module).chunk(text, elements, tokens, size, overlap)
    starts, ends = np.ascontiguousarray(tokens[:, 0]), np.ascontiguousarray(tokens[:, 1])
    counts = np.searchsorted(starts, [e for _, e in spans], "left") - np.searchsorted(ends, [s for s, _ in spans], "right")
    # A start between two elements belongs to the one that follows; the last element also owns what comes after it.
    element_ends = list(accumulate((e["end"] for e in elements), max))
    rows = []
    for ordinal, ((start, end), count) in enumerate(zip(spans, counts.tolist(), strict=True)):
        piece = text[start:end]
        position = min(bisect_right(element_ends, start), len(elements) - 1)
        first = elements[position] if elements else {"heading_path": [], "page": None}
        rows.append(
            {
                "chunk_id": f"{document['doc_id']}#{start}-{end}",
                "doc_id": document["doc_id"],
                "ordinal": ordinal,
                "start": start,
                "end": end,
                "text": piece,
                "text_sha256": hashlib.sha256(piece.encode("utf-8", "surrogatepass")).hexdigest(),
                "tokens": count,
                "section_path": list(first["heading_path"] or ()),
                "page": first["page"],
            }
        )
    return rows
