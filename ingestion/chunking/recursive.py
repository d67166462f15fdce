"""The splitter most systems use: at paragraphs, and where those are too long at lines, sentences, words, tokens.

What belongs here: finding those boundaries, once a text for all sizes, and packing what lies between them. What does not: the
elements of a document (`structural` packs those with the same engine).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ingestion.chunking.budget import Budget, Ints, trimmed, view
from ingestion.recent import Recent

# A piece keeps the white space that ends it. Each pattern needs linear time on any text. `_Matches` relies on two things: a match
# ends with the last of its white space, and no other match ends where one that was begun earlier does.
_SEPARATORS = {
    "paragraph": re.compile(r"\n[^\S\n]*+\n\s*+"),
    "line": re.compile(r"\n\s*+"),
    "sentence": re.compile(r"[.!?\u2026]['\"\u2019\u201d\u00bb)\]]*+\s++|[\u3002\uff01\uff1f]"),
    "word": re.compile(r"\s++"),
}
_INSIDE = re.compile(r"['\"\u2019\u201d\u00bb)\]\s]")
"""What a match holds after its first character."""

_KEPT_TOKENS = 1 << 23
"""Tokens of the texts whose boundaries are kept, some 20 bytes each."""


class Edges(NamedTuple):
    """Where a span may be cut, its two ends included, ascending, with the tokens past each place and those begun there (`Budget`)."""

    places: list[int]
    past: list[int]
    begun: list[int]


class Level(Protocol):
    """Places of one kind where a text may be cut."""

    def between(self, start: int, end: int) -> Edges | None:
        """`start`, the places strictly between, `end`; None where nothing is between."""


class _Places:
    """A level of places that are found, and their tokens counted, when it is first used."""

    def __init__(self, find: Callable[[], Ints], budget: Budget) -> None:
        self._find, self._budget = find, budget

    @cached_property
    def _all(self) -> tuple[Ints, Ints, Ints]:
        places = self._find()
        return (places, *self._budget.counted(places))

    @cached_property
    def _view(self) -> memoryview[int]:
        return view(self._all[0])

    def _inside(self, start: int, end: int) -> tuple[int, int]:
        """Numbers [first, last) of the places strictly between."""
        first = bisect_right(self._view, start)
        return first, bisect_left(self._view, end, first)

    def between(self, start: int, end: int) -> Edges | None:
        first, last = self._inside(start, end)
        return _edges(self._budget, start, end, *(of[first:last] for of in self._all)) if first < last else None


def _edges(budget: Budget, start: int, end: int, places: Ints, past: Ints, begun: Ints) -> Edges:
    return Edges(
        [start, *places.tolist(), end],
        [budget.past(start), *past.tolist(), budget.past(end)],
        [budget.begun(start), *begun.tolist(), budget.begun(end)],
    )


class _Matches(_Places):
    """A level of the ends of a pattern's matches."""

    def __init__(self, text: str, pattern: re.Pattern[str], find: Callable[[], Ints], budget: Budget) -> None:
        super().__init__(find, budget)
        self._text, self._pattern = text, pattern

    def _inside(self, start: int, end: int) -> tuple[int, int]:
        first, last = super()._inside(start, end)
        # The match may have begun before the span, and what is left of it may be none.
        if start and first < last and _INSIDE.match(self._text, start):
            first += not self._pattern.search(self._text, start, self._view[first])
        return first, last


class _Tokens:
    """The last level, which can always get below any size: where tokens start. Few spans need it, so nothing is kept."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def between(self, start: int, end: int) -> Edges | None:
        places = self._budget.starts_between(start, end)
        return _edges(self._budget, start, end, places, *self._budget.counted(places)) if len(places) else None


def _ends(pattern: re.Pattern[str], text: str) -> Ints:
    """Where the matches of a pattern end."""
    return np.array([match.end() for match in pattern.finditer(text)], dtype=np.int32)


_SPACES = np.array([chr(code).isspace() for code in range(0x3002)])
"""Whether a code point is white space; none above U+3000 is."""


def _word_starts(text: str) -> Ints:
    """Where white space ends: as `_ends` of it, an order of magnitude faster, for most places are these."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    space = _SPACES[np.minimum(codes, len(_SPACES) - 1)]
    return (np.flatnonzero(space[:-1] & ~space[1:]) + 1).astype(np.int32)


_kept: Recent[int, tuple[np.ndarray, str, list[Level]]] = Recent(_KEPT_TOKENS)


def text_levels(text: str, budget: Budget) -> list[Level]:
    """Where a text may be cut, best level first; the last, tokens, can always get below any size.

    Kept for the next chunking of the same text where its tokens are those of `tokenizers.cached_spans`: an array that nobody writes
    to, one object a text.
    """
    tokens = budget.tokens
    kept = None if tokens.flags.writeable else _kept.get(id(tokens))
    if kept is not None and kept[0] is tokens and kept[1] == text:
        return kept[2]
    levels: list[Level] = []
    for name, pattern in _SEPARATORS.items():
        find = partial(_word_starts, text) if name == "word" else partial(_ends, pattern, text)
        levels.append(_Matches(text, pattern, find, budget))
    levels.append(_Tokens(budget))
    if not tokens.flags.writeable:
        _kept.put(id(tokens), (tokens, text, levels), len(tokens))
    return levels


def within(places: Sequence[int], budget: Budget) -> Level:
    """A level that may cut at the given characters."""
    return _Places(lambda: np.unique(np.asarray(places, dtype=np.int32)), budget)


def split(budget: Budget, start: int, end: int, levels: Sequence[Level], size: int, overlap: int = 0) -> list[tuple[int, int]]:
    """Spans of at most `size` tokens over [start, end), cut at the best level that can.

    The text is cut at the first level. Neighbours that fit are packed up to `size`; a piece that is too long is cut by itself
    at the next level. A span starts with as many whole pieces of the span before as fit in `overlap` tokens beside its first
    new piece, so a piece longer than `overlap` is never repeated. (The algorithm of LangChain's
    RecursiveCharacterTextSplitter, on spans.)
    """
    if budget.count(start, end) <= size:
        return [(start, end)]
    edges, deeper = None, iter(levels)
    while edges is None:
        level = next(deeper, None)
        if level is None:
            return [(start, end)]
        edges = level.between(start, end)
    below = list(deeper)
    spans: list[tuple[int, int]] = []
    places, past, begun = edges
    group = 0
    for i in [i for i, (before, after) in enumerate(zip(past, begun[1:], strict=False)) if after - before > size]:
        _pack(spans, budget, edges, group, i, size, overlap)
        spans += split(budget, places[i], places[i + 1], below, size, overlap)
        group = i + 1
    _pack(spans, budget, edges, group, len(places) - 1, size, overlap)
    return spans


def _pack(spans: list[tuple[int, int]], budget: Budget, edges: Edges, first: int, end: int, size: int, overlap: int) -> None:
    """Add the pieces between neighbouring edges from number `first` to `end`, none over `size`, joined greedily."""
    places, past, begun = edges
    last = first
    while last < end:
        last = max(bisect_right(begun, past[first] + size, first, end + 1) - 1, last + 1)
        spans.append((places[first], places[last]))
        if overlap and last < end:
            room = min(overlap, size - begun[last + 1] + past[last])
            first = bisect_left(places, budget.earliest(places[last], room), first + 1, last)
        else:
            first = last


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
