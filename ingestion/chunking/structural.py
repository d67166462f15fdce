"""Cutting along a document's own structure: sections first, then paragraphs, tables and lists, each whole while it fits.

What belongs here: sections from headings, and which of them may share a chunk. What does not: cutting inside an element that is
too large (`recursive` does that: a table by its rows, a list by its items, a text by its sentences).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any

import numpy as np

from ingestion.chunking.budget import Budget, trimmed
from ingestion.chunking.recursive import Edges, Level, split, text_levels, within

HEADING, LIST_ITEM, TABLE = "Title", "ListItem", "Table"


@dataclass(frozen=True)
class _Section:
    """Headings in a row with what follows up to the next heading. `parent` is the path of headings above the first."""

    start: int
    end: int
    parent: tuple[str, ...]


@dataclass(frozen=True)
class _Except:
    """A level without some of its places: no cut is made there."""

    places: frozenset[int]
    level: Level

    def between(self, start: int, end: int) -> Edges | None:
        edges = self.level.between(start, end)
        if edges is None or self.places.isdisjoint(edges.places[1:-1]):
            return edges
        kept = [place not in self.places for place in edges.places]
        kept[0] = kept[-1] = True
        return Edges(*(list(compress(of, kept)) for of in edges)) if sum(kept) > 2 else None


def _sections(text: str, elements: Sequence[Mapping[str, Any]]) -> list[_Section]:
    # A heading right after a heading opens no section of its own: the upper one would stand alone.
    headings = [
        element
        for element, before in zip(elements, [None, *elements], strict=False)
        if element["category"] == HEADING and (before is None or before["category"] != HEADING)
    ]
    starts = [e["start"] for e in headings]
    sections = []
    if not starts or text[: starts[0]].strip():
        sections.append(_Section(0, starts[0] if starts else len(text), ()))
    for heading, start, end in zip(headings, starts, [*starts, len(text)][1:], strict=True):
        if start < end:
            sections.append(_Section(start, end, tuple(heading["heading_path"] or ())))
    return sections


def _block_starts(elements: Sequence[Mapping[str, Any]], budget: Budget, size: int) -> list[int]:
    """Where a section may be cut between elements, ascending: neither inside a list nor after a heading.

    A heading goes with what it announces, unless that is a table or a list which fits a chunk without it only.
    """
    runs: list[tuple[str, int, int]] = []
    for element in elements:
        category, start, end = element["category"], element["start"], element["end"]
        if runs and category == LIST_ITEM == runs[-1][0]:
            runs[-1] = (category, runs[-1][1], end)
        else:
            runs.append((category, start, end))
    starts = []
    heading = None
    for category, start, end in runs:
        fits_alone = category in (LIST_ITEM, TABLE) and budget.count(start, end) <= size
        if heading is None or (fits_alone and budget.count(heading, end) > size):
            starts.append(start)
        heading = (start if heading is None else heading) if category == HEADING else None
    return starts


def chunk(text: str, elements: Sequence[Mapping[str, Any]], tokens: np.ndarray, size: int, overlap: int) -> list[tuple[int, int]]:
    """Sections as chunks of at most `size` tokens, in order.

    A section joins the chunk before when one of the two is under half of `size`, both fit together, and it stands under the
    same parent heading as the chunk's first section. A section over `size` is cut between its elements. `overlap` is 0: a
    structural chunk repeats nothing.
    """
    budget = Budget(tokens, len(text))
    groups: list[_Section] = []
    for section in _sections(text, elements):
        if groups:
            group = groups[-1]
            smaller = min(budget.count(group.start, group.end), budget.count(section.start, section.end))
            related = section.parent[: len(group.parent)] == group.parent
            if related and 2 * smaller < size and budget.count(group.start, section.end) <= size:
                groups[-1] = _Section(group.start, section.end, group.parent)
                continue
        groups.append(section)
    announced = frozenset(after["start"] for before, after in pairwise(elements) if before["category"] == HEADING)
    levels = [within(_block_starts(elements, budget, size), budget), *(_Except(announced, level) for level in text_levels(text, budget))]
    spans = (trimmed(text, *span) for group in groups for span in split(budget, group.start, group.end, levels, size))
    return [(start, end) for start, end in spans if start < end]
