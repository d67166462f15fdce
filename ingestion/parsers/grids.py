"""Grids of cells (spreadsheets, CSV) as Table elements of a size that a chunker can keep whole.

What belongs here: the rule by which a large grid becomes several tables, and which row is its header. What does not: where the cells come
from (`spreadsheets`, `delimited`), or tables of pages and slides, which are as large as their makers left them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ingestion.parsers.elements import Element, ends_sentence
from ingestion.parsers.html_tables import Cell, table_html

MOST_CHARACTERS = 2000
"""Text of one Table element, header included: some 500 tokens of English. A single row may be longer: no row is cut."""
MOST_COLUMNS = 24
"""Columns of one Table element. Of a wider grid each part repeats the first column, which names the row."""

_NUMBER = re.compile(r"[-+(]?[\s$€£¥]*[\d.,'’\s]*\d[\d.,'’\s]*[%)]?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*")


def has_header(first: Sequence[str]) -> bool:
    """Whether the first row names columns: two or more cells, and none that is a number, a date or, but for the corner, empty."""
    return len(first) > 1 and all(cell.strip() for cell in first[1:]) and not any(_NUMBER.fullmatch(cell.strip()) for cell in first)


def block_elements(cells: Sequence[Cell], page: int | None = None, level: int = 1) -> Iterator[Element]:
    """Elements of one block of cells, a rectangle that starts at 0, 0: a Table, its titles (of heading level `level`) and its notes.

    Above a table of several columns, rows whose one filled cell is the first are titles; below it, such rows that are sentences are
    notes. A block of one cell is text, and so is a column of sentences.
    """
    lines: list[list[Cell]] = [[] for _ in range(max((cell.row + cell.rows for cell in cells), default=0))]
    for cell in sorted(cells, key=lambda cell: cell.column):
        if cell.text.strip():
            lines[cell.row].append(cell)
    top, bottom = 0, len(lines)
    if any(len(line) > 1 for line in lines):
        while _alone(lines[top]):
            top += 1
        while _alone(lines[bottom - 1]) and ends_sentence(lines[bottom - 1][0].text):
            bottom -= 1
    elif len(lines) == 1 or sum(ends_sentence(line[0].text) for line in lines if line) > len(lines) / 2:
        for line in lines:
            yield Element("NarrativeText" if ends_sentence(line[0].text) else "UncategorizedText", line[0].text, page)
        return
    for line in lines[:top]:
        title = not ends_sentence(line[0].text)
        yield Element("Title" if title else "NarrativeText", line[0].text, page, level if title else None)
    table = [replace(cell, row=cell.row - top, rows=min(cell.rows, bottom - cell.row)) for cell in cells if top <= cell.row < bottom]
    if table:
        columns = max(cell.column + cell.columns for cell in table)
        first = {cell.column: cell for cell in table if cell.row == 0}
        single = all(cell.rows == cell.columns == 1 for cell in first.values()) and bottom - top > 1
        names = [first[column].text if column in first else "" for column in range(columns)]
        yield from table_elements(table, int(single and has_header(names)), page)
    for line in lines[bottom:]:
        yield Element("NarrativeText", line[0].text, page)


def _alone(line: Sequence[Cell]) -> bool:
    return len(line) == 1 and line[0].column == 0 and line[0].rows == 1


def table_elements(cells: Sequence[Cell], header_rows: int, page: int | None = None) -> Iterator[Element]:
    """Table elements of a grid, from top to bottom and, where it is wide, left to right. Parts repeat the `header_rows` first rows; a
    cell that spans a cut stands on both sides of it."""
    rows = max((cell.row + cell.rows for cell in cells), default=0)
    columns = max((cell.column + cell.columns for cell in cells), default=0)
    by_row: list[list[Cell]] = [[] for _ in range(rows)]
    for cell in sorted(cells, key=lambda cell: (cell.row, cell.column)):
        for row in range(cell.row, cell.row + cell.rows):
            by_row[row].append(cell)
    for line in by_row:
        line.sort(key=lambda cell: cell.column)
    for left, right in _columns(columns):
        parts = [_window(line, left, right) for line in by_row]
        sizes = [sum(len(cell.text) + 1 for cell in line if cell.row == row) for row, line in enumerate(parts)]
        for top, bottom in _rows(sizes, header_rows):
            lines = [*range(header_rows), *range(top, bottom)]
            shown = _packed(parts, lines)
            if any(cell.text for cell in shown):
                yield Element("Table", _text(shown, len(lines)), page, html=table_html(shown, header_rows))


def _columns(columns: int) -> Iterator[tuple[int, int]]:
    """Column ranges [from, to) of the parts of a grid, the first column of all parts but the first left to be repeated."""
    yield 0, min(columns, MOST_COLUMNS)
    for left in range(MOST_COLUMNS, columns, MOST_COLUMNS - 1):
        yield left, min(columns, left + MOST_COLUMNS - 1)


def _rows(sizes: Sequence[int], header_rows: int) -> Iterator[tuple[int, int]]:
    """Row ranges [from, to) of the parts of a grid, its header left out, as full as MOST_CHARACTERS allows."""
    header, top, held = sum(sizes[:header_rows]), header_rows, 0
    for row in range(header_rows, len(sizes)):
        if row > top and header + held + sizes[row] > MOST_CHARACTERS:
            yield top, row
            top, held = row, 0
        held += sizes[row]
    if top < len(sizes) or header_rows == len(sizes):
        yield top, len(sizes)


def _window(line: Sequence[Cell], left: int, right: int) -> list[Cell]:
    """The cells of a row, which are in order, between two columns, cut to them; behind the first column where that is not among them."""
    found = [Cell(cell.row, 0, cell.rows, 1, cell.text) for cell in line[:1] if left > 0 and cell.column == 0]
    shift = 1 - left if left > 0 else 0
    for cell in line[max(0, bisect_left(line, left, key=lambda cell: cell.column) - 1) :]:
        if cell.column >= right:
            break
        start, end = max(cell.column, left), min(cell.column + cell.columns, right)
        if start < end:
            found.append(Cell(cell.row, start + shift, cell.rows, end - start, cell.text))
    return found


def _packed(parts: Sequence[Sequence[Cell]], lines: Sequence[int]) -> list[Cell]:
    """The cells of some rows, moved together: a cell that began above them, or reaches below, keeps the part that is among them."""
    found = []
    for i, row in enumerate(lines):
        for cell in parts[row]:
            begins = cell.row == row or i == 0 or lines[i - 1] != row - 1
            if begins:
                last = i
                while last + 1 < len(lines) and lines[last + 1] == lines[last] + 1 < cell.row + cell.rows:
                    last += 1
                found.append(Cell(i, cell.column, last - i + 1, cell.columns, cell.text))
    return found


def _text(cells: Sequence[Cell], rows: int) -> str:
    """Plain text as `html_tables.table_text` has it: a line a row, cells parted by one space."""
    lines: list[list[str]] = [[] for _ in range(rows)]
    for cell in cells:
        if text := " ".join(cell.text.split()):
            lines[cell.row].append(text)
    return "\n".join(" ".join(line) for line in lines if line)
