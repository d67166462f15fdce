"""What is in a document, and what chunks hold of it: elements, sections, structures, the edges of sentences.

What belongs here: questions about places in one document. What does not: measures (`chunk_quality`, `chunk_labels`).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ingestion.evidence import merge_spans
from ingestion.sentences import sentence_starts

Row = dict[str, Any]
Span = tuple[int, int]

_ROW_END = re.compile(r"\n")
_NUMBERED_HEADING = re.compile(r"(?:\u00a7\s*)?\d+(?:\.\d+)*[.)]?\s+\S")
_NUMBERED_CLAUSE = re.compile(r"\d+(?:\.\d+)+[.)]?\s+\S")


@dataclass(frozen=True)
class Chunks:
    """The chunks of one document: [start, end), ascending, and for each start the furthest end reached so far."""

    spans: list[Span]
    starts: list[int]
    reach: list[int]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Chunks:
        ordered = sorted(spans)
        return cls(ordered, [s for s, _ in ordered], np.maximum.accumulate([e for _, e in ordered]).tolist() if ordered else [])

    def touching(self, span: Span) -> list[Span]:
        """Chunks that hold any character of `span`."""
        first = bisect_right(self.reach, span[0])
        last = bisect_right(self.starts, span[1] - 1)
        return [chunk for chunk in self.spans[first:last] if chunk[1] > span[0]]

    def end_at(self, position: int, text: str) -> bool:
        """Whether a chunk ends at `position`, white space apart, and the text goes on."""
        following = text[position:]
        gap = len(following) - len(following.lstrip())
        return gap < len(following) and any(position <= end <= position + gap for _, end in self.spans)

    def holds_whole(self, span: Span) -> bool:
        """Whether one chunk holds all of `span`."""
        position = bisect_right(self.starts, span[0]) - 1
        return position >= 0 and self.reach[position] >= span[1]

    def fewest(self, spans: Iterable[Span]) -> list[Span]:
        """The smallest set of chunks that holds every character of `spans` that any chunk holds."""
        chosen: list[Span] = []
        for start, end in merge_spans(spans):
            position = max(start, chosen[-1][1]) if chosen else start
            while position < end:
                near = self.touching((position, end))
                if not near:
                    break
                position = max(position, near[0][0])
                chosen.append(max((chunk for chunk in near if chunk[0] <= position), key=lambda chunk: chunk[1]))
                position = chosen[-1][1]
        return chosen


@dataclass(frozen=True)
class Document:
    text: str
    elements: list[Mapping[str, Any]]
    ends: list[int]
    headings: list[tuple[int, str]]
    paged: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Document:
        elements = sorted(row["elements"] or (), key=lambda e: (e["start"], e["end"], e["order"]))
        text = row["text"]
        headings = [(e["start"], folded(text[e["start"] : e["end"]])) for e in elements if e["category"] == "Title"]
        return cls(text, elements, [e["end"] for e in elements], headings, any(e["page"] is not None for e in elements))

    def section(self, position: int) -> list[str]:
        """Headings over the element at `position`, itself among them where it is one."""
        element = self.first_element(position)
        if element is None:
            return []
        own = [self.text[element["start"] : element["end"]]] if element["category"] == "Title" else []
        return [*(element["heading_path"] or ()), *own]

    def sha256(self, start: int, end: int) -> str:
        return hashlib.sha256(self.text[start:end].encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def sentences(self) -> SentenceEdges:
        return SentenceEdges(self)

    @cached_property
    def structures(self) -> dict[str, list[Span]]:
        return structures_of(self)

    def may_end(self, position: int) -> bool:
        """Whether a chunk may end here and the next begin without cutting a table, list, numbered section or sentence."""
        inside = any(start < position < end for spans in self.structures.values() for start, end in spans)
        return not inside and self.sentences.ends_at(position)

    def path_of(self, row: Row) -> list[str]:
        """Headings over a chunk: those its row carries, with the headings it begins with."""
        leading = [e for e in self.elements if e["end"] > row["start"] and e["start"] < row["end"]]
        text = next((e for e in leading if e["category"] != "Title"), None)
        if text is None or not leading or leading[0] is text:
            return list(row["section_path"]) if text is not None else self.section(row["end"] - 1)
        return list(text["heading_path"] or ())

    def first_element(self, start: int) -> Mapping[str, Any] | None:
        """The element at `start`, or the next one; the last where none follows."""
        return self.elements[min(bisect_right(self.ends, start), len(self.elements) - 1)] if self.elements else None


STRUCTURES = ("tables_cut", "lists_cut", "numbered_sections_cut")


def structures_of(document: Document) -> dict[str, list[Span]]:
    """Spans that a chunk should hold whole: tables, runs of list items, numbered sections (a heading with its own text, a clause)."""
    tables: list[Span] = []
    lists: list[Span] = []
    numbered: list[Span] = []
    section: int | None = None
    before = None
    for element in document.elements:
        start, end = span = trimmed(document.text, (element["start"], element["end"]))
        category, text = element["category"], document.text[start:end]
        if category == "Table":
            tables.append(span)
        if category == "ListItem":
            lists.append((lists.pop()[0] if before == "ListItem" else start, end))
        if category == "Title":
            section = len(numbered) if _NUMBERED_HEADING.match(text) else None
            if section is not None:
                numbered.append(span)
        elif section is not None:
            numbered[section] = (numbered[section][0], end)
        elif category != "ListItem" and _NUMBERED_CLAUSE.match(text):
            numbered.append(span)
        before = category
    return {"tables_cut": tables, "lists_cut": lists, "numbered_sections_cut": numbered}


class SentenceEdges:
    """Where a chunk may start and end without cutting a sentence: at sentences, elements, and the rows of tables.

    Only the elements in which a chunk starts or ends are looked into.
    """

    def __init__(self, document: Document) -> None:
        self._text = document.text
        self._areas = [(e["start"], e["end"], e["category"]) for e in document.elements] or [(0, len(document.text), "Text")]
        self._firsts = [area[0] for area in self._areas]
        self._longest = max(end - start for start, end, _ in self._areas)
        self._known: dict[int, tuple[set[int], set[int]]] = {}

    def starts_at(self, position: int) -> bool:
        return any(position in self._edges(at)[0] for at in self._around(position))

    def ends_at(self, position: int) -> bool:
        return any(position in self._edges(at)[1] for at in self._around(position))

    def _around(self, position: int) -> Iterator[int]:
        """Areas that hold a position or touch it."""
        at = bisect_right(self._firsts, position)
        while at > 0 and self._firsts[at - 1] >= position - self._longest:
            at -= 1
            if position <= self._areas[at][1]:
                yield at

    def _edges(self, at: int) -> tuple[set[int], set[int]]:
        if at not in self._known:
            first, last, category = self._areas[at]
            rows = (match.end() for match in _ROW_END.finditer(self._text, first, last))
            inner = rows if category == "Table" else sentence_starts(self._text, first, last)
            spans = [trimmed(self._text, span) for span in pairwise([first, *inner, last])]
            self._known[at] = {start for start, _ in spans}, {end for _, end in spans}
        return self._known[at]


def trimmed(text: str, span: Span) -> Span:
    piece = text[span[0] : span[1]]
    start = span[0] + len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


def folded(heading: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", heading).split()).casefold()
