"""Cutting a canonical text into chunks with exact spans: the registry of strategies and the one function that applies one.

What belongs here: names of strategies, and what every chunk carries whatever cut it (id, hash, tokens, section, page). What
does not: where to cut (one module a strategy, loaded when it is used) and tokenising (`ingestion.tokenizers`).
"""

from __future__ import annotations

import hashlib
import importlib
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

SMALLEST_SIZE = 8

Embed = Callable[[list[str]], np.ndarray]
"""Unit vectors (n, d) of n texts."""


@dataclass(frozen=True)
class Strategy:
    """One way to cut: the module with its `chunk` function, and what it takes: a size, an overlap and a parent's size in tokens, and
    an embedder with a percentile.
    """

    module: str
    sized: bool = False
    overlaps: bool = False
    parents: bool = False
    embeds: bool = False


STRATEGIES: dict[str, Strategy] = {
    "window": Strategy("ingestion.chunking.window", sized=True, overlaps=True),
    "recursive": Strategy("ingestion.chunking.recursive", sized=True, overlaps=True),
    "sentence": Strategy("ingestion.chunking.sentence", sized=True, overlaps=True),
    "structural": Strategy("ingestion.chunking.structural", sized=True),
    "semantic": Strategy("ingestion.chunking.semantic", sized=True, embeds=True),
    "parent_child": Strategy("ingestion.chunking.parent_child", sized=True, parents=True),
    "page": Strategy("ingestion.chunking.page"),
    "whole": Strategy("ingestion.chunking.whole"),
}


@dataclass(frozen=True, order=True)
class Chunking:
    """A strategy with its parameters; 0 and "" where they mean nothing. `size`, `overlap` and `parent` are tokens."""

    strategy: str
    size: int = 0
    overlap: int = 0
    parent: int = 0
    percentile: int = 0
    embedder: str = ""

    def problem(self) -> str | None:
        """What is wrong with the parameters; None for nothing."""
        kind = STRATEGIES.get(self.strategy)
        if kind is None:
            return f"no strategy {self.strategy!r}; known: {', '.join(sorted(STRATEGIES))}"
        name = f"strategy {self.strategy!r}"
        for field, taken in (("size", kind.sized), ("parent", kind.parents), ("percentile", kind.embeds), ("embedder", kind.embeds)):
            if taken != bool(getattr(self, field)):
                return f"{name} {'needs' if taken else 'takes no'} {field}"
        if self.overlap and not kind.overlaps:
            return f"{name} takes no overlap"
        if kind.sized and (self.size < SMALLEST_SIZE or not 0 <= self.overlap < self.size):
            return f"{self.strategy} size {self.size} overlap {self.overlap}: size at least {SMALLEST_SIZE}, overlap below size"
        if kind.parents and self.parent <= self.size:
            return f"{self.strategy} size {self.size} parent {self.parent}: a parent is larger than its children"
        if kind.embeds and not 0 < self.percentile < 100:
            return f"{self.strategy} percentile {self.percentile}: from 1 to 99, the share of places that are no break"
        return None


def chunk_document(
    document: Mapping[str, Any], tokens: np.ndarray, chunking: Chunking, *, embed: Embed | None = None
) -> list[dict[str, Any]]:
    """The chunks of one document, rows of `chunks` without `work_key`, in order of their start.

    `document` has doc_id, text and elements; `tokens` is an (n, 2) array of the text's token spans. A chunk's `tokens` is the
    number of the document's tokens that lie in it, wholly or partly. Every character that is no white space lies in at least
    one chunk, and where chunks have parents each chunk in exactly one. `embed` gives unit vectors of texts, where the strategy
    needs them. Raises ValueError for an unknown strategy or parameters it cannot take.
    """
    if problem := chunking.problem():
        raise ValueError(problem)
    kind = STRATEGIES[chunking.strategy]
    text: str = document["text"]
    elements = sorted(document["elements"] or (), key=lambda e: (e["start"], e["end"], e["order"]))
    module = importlib.import_module(kind.module)
    parents: list[tuple[int, int]] = []
    if kind.parents:
        parents = module.parents(text, elements, tokens, chunking.parent)
        spans = module.chunk(text, tokens, parents, chunking.size)
    elif kind.embeds:
        if embed is None:
            raise ValueError(f"strategy {chunking.strategy!r} needs an embedder")
        spans = module.chunk(text, elements, tokens, chunking.size, percentile=chunking.percentile, embed=embed)
    else:
        spans = module.chunk(text, elements, tokens, chunking.size, chunking.overlap)
    counts = _token_counts(tokens, spans)
    parent_counts = _token_counts(tokens, parents) if parents else []
    parent_starts = [start for start, _ in parents]
    # A start between two elements belongs to the one that follows; the last element also owns what comes after it.
    element_ends = list(accumulate((e["end"] for e in elements), max))
    rows = []
    for ordinal, ((start, end), count) in enumerate(zip(spans, counts, strict=True)):
        piece = text[start:end]
        position = min(bisect_right(element_ends, start), len(elements) - 1)
        first = elements[position] if elements else {"heading_path": [], "page": None}
        above = bisect_right(parent_starts, start) - 1
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
                "parent_start": parents[above][0] if parents else None,
                "parent_end": parents[above][1] if parents else None,
                "parent_tokens": parent_counts[above] if parents else None,
            }
        )
    return rows


def _token_counts(tokens: np.ndarray, spans: list[tuple[int, int]]) -> list[int]:
    """Tokens that lie in each span, wholly or partly."""
    starts, ends = np.ascontiguousarray(tokens[:, 0]), np.ascontiguousarray(tokens[:, 1])
    sought = np.array(spans, dtype=np.int32).reshape(-1, 2)
    found: list[int] = (np.searchsorted(starts, sought[:, 1], "left") - np.searchsorted(ends, sought[:, 0], "right")).tolist()
    return found
