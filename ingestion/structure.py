"""Parts of a document that a parser should keep as parts: headings in order, lists whole, captions, footnotes, table cells; and running
heads that leaked into the text.

What belongs here: one measure a part, each with what was missed. What does not: text as a whole (`transcripts`), table likeness
(`tables`), rows of a table (`parse_quality`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ingestion.parsers.elements import FURNITURE, without_bullet
from ingestion.parsers.html_tables import read_table

ALIKE = 0.9
"""Similarity from which two parts are the same one: an OCR error does not make a heading another heading."""

_SPACE = re.compile(r"\s+")
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"^(?:\(?\w{1,3}[.)]|[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\[?\d{1,3}\]?(?=\s|$)|[*†‡§]+)\s*")
_LONGEST_HEAD = 100


class Found(NamedTuple):
    """How many of `units` parts were not found, and the first of them by name."""

    missed: int
    units: int
    cases: tuple[str, ...] = ()


Elements = Sequence[Mapping[str, Any]]


def _plain(text: str) -> str:
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text)).strip().casefold()


def _unnumbered(text: str) -> str:
    """A list item or note without the mark that opens it, which formats keep in different places."""
    return _plain(_NUMBER.sub("", without_bullet(text.strip())))


def _same(one: str, other: str) -> bool:
    from rapidfuzz.distance import Levenshtein

    return one == other or Levenshtein.normalized_similarity(one, other, score_cutoff=ALIKE) >= ALIKE


def headings(references: Sequence[str], elements: Elements) -> tuple[Found, Found]:
    """Headings missing from, and headings invented beside, the longest run of reference headings that stand in the parsed order."""
    wanted = [_plain(text) for text in references]
    titles = [row["text"] for row in elements if row["category"] == "Title"]
    pairs = _common(wanted, [_plain(text) for text in titles])
    missing = tuple(references[i] for i in range(len(wanted)) if i not in {one for one, _ in pairs})
    invented = tuple(titles[j] for j in range(len(titles)) if j not in {other for _, other in pairs})
    return Found(len(missing), len(wanted), missing), Found(len(invented), len(titles), invented)


def _common(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Longest common subsequence of two lists of texts that are the same by `_same`: pairs of positions."""
    best = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    equal = [[_same(a, b) for b in other] for a in one]
    for i in range(len(one) - 1, -1, -1):
        for j in range(len(other) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j + 1] + equal[i][j], best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        if equal[i][j] and best[i][j] == best[i + 1][j + 1] + 1:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def lists(references: Sequence[str], elements: Elements) -> Found:
    """Lists (items a line) that do not stand whole: every item a list item of its own, in order, nothing between them."""
    body = [row for row in elements if row["category"] not in FURNITURE]
    texts = [_unnumbered(row["text"]) if row["category"] == "ListItem" else None for row in body]
    broken = []
    for reference in references:
        items = [_unnumbered(line) for line in reference.splitlines()]
        last = len(texts) - len(items) + 1
        whole = any(
            all(text is not None and _same(item, text) for item, text in zip(items, texts[i : i + len(items)], strict=True))
            for i in range(max(last, 0))
        )
        if not whole:
            broken.append(reference.splitlines()[0])
    return Found(len(broken), len(references), tuple(broken))


def apart(references: Sequence[str], elements: Elements) -> Found:
    """Captions or footnotes that are no element of their own: lost, or run into other text."""
    texts = [_unnumbered(row["text"]) for row in elements]
    missed = tuple(text for text in references if not any(_same(_unnumbered(text), other) for other in texts))
    return Found(len(missed), len(references), missed)


def cells(reference_html: str, parsed_html: str | None) -> Found:
    """Non-empty cells of a reference table whose text no cell of the parsed table has; a text counts as often as it stands there."""
    wanted = Counter(_cell_texts(reference_html))
    found = Counter(_cell_texts(parsed_html)) if parsed_html else Counter[str]()
    lost = wanted - found
    return Found(sum(lost.values()), sum(wanted.values()), tuple(sorted(lost)))


def _cell_texts(markup: str) -> list[str]:
    table = read_table(markup)
    if table is None:
        return []
    return [text for cell in table.iter("td") if (text := _plain("".join(cell.itertext())))]


def leaked(reference: str, elements: Elements) -> Found:
    """Pages on which a running head or foot stands in the text: a short element that repeats, digits aside, at the edge of two pages
    or more, and that the transcript does not hold."""
    edges: dict[str, set[int]] = defaultdict(set)
    pages = _by_page(elements)
    for page, rows in pages.items():
        for row in (*rows[:2], *rows[-2:]):
            edges[_masked(row["text"])].add(page)
    held = _masked(reference)
    repeated = {text for text, on in edges.items() if len(on) > 1 and text and len(text) <= _LONGEST_HEAD and text not in held}
    leaks = {
        page: row["text"]
        for page, rows in pages.items()
        for row in rows
        if row["category"] not in FURNITURE and _masked(row["text"]) in repeated
    }
    cases = tuple(f"page {page}: {text}" for page, text in sorted(leaks.items()))
    return Found(len(leaks), len(pages) if len(pages) > 1 else 0, cases)


def _by_page(elements: Iterable[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    pages: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in elements:
        if row["page"] is not None:
            pages[row["page"]].append(row)
    return dict(sorted(pages.items()))


def _masked(text: str) -> str:
    return _DIGITS.sub("#", _plain(text))
