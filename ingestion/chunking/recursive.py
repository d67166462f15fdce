"""The splitter most systems use: at paragraphs, and where those are too long at lines, sentences, words, tokens.

What belongs here: finding those boundaries, and packing what lies between them. What does not: the elements of a document
(`structural` packs those with the same engine).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ingestion.chunking.budget import Budget, trimmed

Boundaries = Callable[[int, int], list[int]]
"""Given (start, end), the characters strictly between where one level may cut, ascending."""

# A piece keeps the white space that ends it. Each pattern needs linear time on any text.
_SEPARATORS = {
    "paragraph": re.compile(r"\n[^\S\n]*+\n\s*+"),
    "line": re.compile(r"\n\s*+"),
    "sentence": re.compile(r"[.!?\u2026]['\"\u2019\u201d\u00bb)\]]*+\s++|[\u3002\uff01\uff1f]"),
    "word": re.compile(r"\s++"),
}


def text_levels(text: str, budget: Budget) -> list[Boundaries]:
    """Where a text may be cut, best level first; the last, tokens, can always get below any size."""

    def matches(pattern: re.Pattern[str]) -> Boundaries:
        return lambda start, end: [m.end() for m in pattern.finditer(text, start, end) if start < m.end() < end]

    return [*map(matches, _SEPARATORS.values()), budget.starts_between]


def within(places: Sequence[int]) -> Boundaries:
    """A level that may cut at the given characters, ascending."""
    return lambda start, end: list(places[bisect_right(places, start) : bisect_left(places, end)])


def split(budget: Budget, start: int, end: int, levels: Sequence[Boundaries], size: int, overlap: int = 0) -> list[tuple[int, int]]:
    """Spans of at most `size` tokens over [start, end), cut at the best level that can.

    The text is cut at the first level. Neighbours that fit are packed up to `size`; a piece that is too long is cut by itself
    at the next level. A span starts with as many whole pieces of the span before as fit in `overlap` tokens beside its first
    new piece, so a piece longer than `overlap` is never repeated. (The algorithm of LangChain's
    RecursiveCharacterTextSplitter, on spans.)
    """
    if budget.count(start, end) <= size or not levels:
        return [(start, end)]
    spans: list[tuple[int, int]] = []
    edges = [start, *levels[0](start, end), end]
    group = 0
    for i in range(len(edges) - 1):
        if budget.count(edges[i], edges[i + 1]) > size:
            spans += _pack(budget, edges[group : i + 1], size, overlap)
            spans += split(budget, edges[i], edges[i + 1], levels[1:], size, overlap)
            group = i + 1
    return spans + _pack(budget, edges[group:], size, overlap)


def _pack(budget: Budget, edges: list[int], size: int, overlap: int) -> list[tuple[int, int]]:
    """Pieces between neighbouring `edges`, none over `size`, joined greedily."""
    spans: list[tuple[int, int]] = []
    first, last = 0, 0
    while last < len(edges) - 1:
        last = max(bisect_right(edges, budget.furthest(edges[first], size)) - 1, last + 1)
        spans.append((edges[first], edges[last]))
        if overlap and last < len(edges) - 1:
            room = min(overlap, size - budget.count(edges[last], edges[last + 1]))
            earliest = max(budget.earliest(edges[last], room), edges[first] + 1)
            first = bisect_left(edges, earliest, hi=last)
        else:
            first = last
    return spans


def chunk(text: str, elements: Sequence[Mapping[str, Any]], tokens: np.ndarray, size: int, overlap: int) -> list[tuple[int, int]]:
    """Spans of at most `size` tokens without white space at their ends; neighbours share at most `overlap` tokens."""
    budget = Budget(tokens, len(text))
    return tidied(text, split(budget, 0, len(text), text_levels(text, budget), size, overlap))


def tidied(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans without white space at their ends, empty ones and one of two that holds the other left out."""
    found: list[tuple[int, int]] = []
    for span in spans:
        start, end = trimmed(text, *span)
        # Where the overlap, or all that is new, was white space, one of two neighbours holds the other.
        if found and start == found[-1][0]:
            found.pop()
        if start < end and (not found or end > found[-1][1]):
            found.append((start, end))
    return found
