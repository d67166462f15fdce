"""XLSX workbooks: each sheet a title and its tables, cells as a reader sees them.

What belongs here: reading sheets with openpyxl and parting them into blocks. What does not: number formats (`number_formats`), blocks and
large tables (`grids`), the old binary .xls, which no library here reads.
"""

from __future__ import annotations

import re
import zipfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ingestion.parsers.archives import member_of, open_office, read_xml
from ingestion.parsers.elements import Element, Parsed, ParseFailure, ParseOptions
from ingestion.parsers.grids import block_elements
from ingestion.parsers.html_tables import Cell
from ingestion.parsers.number_formats import shown

MOST_CELLS = 2_000_000
"""Filled cells of one workbook, and cells of one block with the empty ones."""

_MERGE = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]*?ref=\"([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})\"")
_UNCOMPUTED = re.compile(rb"</(?:\w+:)?f>\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>")
_RELATION = (  # transitional and strict
    "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id",
    "{http://purl.oclc.org/ooxml/officeDocument/relationships}id",
)

Grid = dict[tuple[int, int], str]


def parse_workbook(path: Path, options: ParseOptions) -> Parsed:
    """Elements of a workbook: for each sheet with content a Title (its name; page = its position), then its blocks from top to bottom.

    Blocks are parted by empty rows and empty columns; merged cells become colspan and rowspan; numbers and dates are written as their
    format shows them; formulas give the value stored at the last computation, and a note where there is none. Hidden sheets are read
    and named in a note. Raises ParseFailure: corrupt, encrypted, too_large.
    """
    from openpyxl import load_workbook

    with open_office(path, options) as archive:
        sheets = _sheet_parts(archive)
        if len(sheets) > options.pages:
            raise ParseFailure("too_large", f"{len(sheets)} sheets, over the limit of {options.pages}")
        merges = {name: _merges(archive, part) for name, part in sheets.items()}
        uncomputed = sum(len(_UNCOMPUTED.findall(archive.read(part))) for part in sheets.values())
        try:
            workbook = load_workbook(path, read_only=True, data_only=True, keep_links=False)
        except Exception as error:  # openpyxl raises whatever its descriptors raise on a part that is not as it should be
            raise ParseFailure("corrupt", f"openpyxl cannot open it: {type(error).__name__}: {error}") from error
        parsed, budget = Parsed(), MOST_CELLS
        try:
            for number, sheet in enumerate(workbook.worksheets, 1):
                try:
                    grid = _grid(sheet, budget)
                except (ValueError, TypeError, KeyError, IndexError, SyntaxError) as error:
                    raise ParseFailure("corrupt", f"sheet {sheet.title!r} cannot be read: {type(error).__name__}: {error}") from error
                budget -= len(grid)
                if grid:
                    parsed.elements.append(Element("Title", sheet.title, number, 1))
                    parsed.elements += _sheet_elements(grid, merges.get(sheet.title, ()), number)
                if sheet.sheet_state != "visible":
                    parsed.notes.append(f"sheet {sheet.title!r} is hidden")
        finally:
            workbook.close()
    if uncomputed:
        parsed.notes.append(f"{uncomputed} formulas hold no stored value: open and save the workbook in a spreadsheet program")
    return parsed


def _sheet_parts(archive: zipfile.ZipFile) -> dict[str, str]:
    """Members that hold the worksheets, by sheet name, in the order of the workbook."""
    main = "xl/workbook.xml"
    targets = {
        relation.get("Id"): member_of(main, relation.get("Target") or "")
        for relation in read_xml(archive, "xl/_rels/workbook.xml.rels")
        if relation.get("TargetMode") != "External" and (relation.get("Type") or "").endswith("/worksheet")
    }
    names = set(archive.namelist())
    found = {}
    for sheet in read_xml(archive, main).iter("{*}sheet"):
        part = targets.get(next((value for name, value in sheet.attrib.items() if name in _RELATION), None))
        if part in names:
            found[sheet.get("name") or ""] = part
    return found


def _merges(archive: zipfile.ZipFile, part: str) -> list[tuple[int, int, int, int]]:
    """Merged ranges of a sheet as first row, first column, last row, last column, from 1."""
    from openpyxl.utils import range_boundaries

    found = []
    for reference in _MERGE.findall(archive.read(part)):
        left, top, right, bottom = range_boundaries(reference.decode("ascii"))
        found.append((top, left, bottom, right))
    return found


def _grid(sheet: Any, most: int) -> Grid:
    """The filled cells of a sheet as text by row and column. The size a sheet states is not believed."""
    sheet.reset_dimensions()
    grid: Grid = {}
    for row in sheet.iter_rows():
        for cell in row:
            if cell.value is not None and (text := shown(cell.value, cell.number_format).strip()):
                grid[cell.row, cell.column] = text
                if len(grid) > most:
                    raise ParseFailure("too_large", f"over {MOST_CELLS} filled cells")
    return grid


def _sheet_elements(grid: Grid, merges: Sequence[tuple[int, int, int, int]], page: int) -> Iterator[Element]:
    spans = {(top, left): (bottom - top + 1, right - left + 1) for top, left, bottom, right in merges if (top, left) in grid}
    filled = set(grid)
    if sum(rows * columns for rows, columns in spans.values()) <= MOST_CELLS:
        for (top, left), (height, width) in spans.items():
            filled.update((top + i, left + j) for i in range(height) for j in range(width))
    for rows, columns in _blocks(filled):
        yield from block_elements(_cells(grid, spans, rows, columns), page, level=2)


def _blocks(filled: set[tuple[int, int]]) -> Iterator[tuple[range, range]]:
    """Row and column ranges of the blocks, from top to bottom and left to right: cut at empty rows and at two or more empty columns
    (a single one is a spacer within a table), again until nothing is left to cut."""
    waiting = [(filled, True, False)] if filled else []
    while waiting:
        cells, by_row, tried = waiting.pop()
        axis, widest = (0, 1) if by_row else (1, 2)
        lines = sorted({cell[axis] for cell in cells})
        starts = [0, *(i for i in range(1, len(lines)) if lines[i] - lines[i - 1] > widest), len(lines)]
        if len(starts) > 2:
            part_of = {line: part for part, start in enumerate(starts[:-1]) for line in lines[start : starts[part + 1]]}
            parts: list[set[tuple[int, int]]] = [set() for _ in starts[:-1]]
            for cell in cells:
                parts[part_of[cell[axis]]].add(cell)
            waiting += [(part, not by_row, False) for part in reversed(parts)]
        elif not tried:
            waiting.append((cells, not by_row, True))
        else:
            tall, wide = [cell[0] for cell in cells], [cell[1] for cell in cells]
            yield range(min(tall), max(tall) + 1), range(min(wide), max(wide) + 1)


def _cells(grid: Grid, spans: Mapping[tuple[int, int], tuple[int, int]], rows: range, columns: range) -> list[Cell]:
    """The cells of a block, moved to 0, 0: empty ones too, but no row and no column without text, and none under a merged cell."""
    here = [(row, column) for row, column in grid if row in rows and column in columns]
    tall, wide = sorted({row for row, _ in here}), sorted({column for _, column in here})
    if len(tall) * len(wide) > MOST_CELLS:
        raise ParseFailure("too_large", f"a block of {len(tall)} by {len(wide)} cells, over {MOST_CELLS}")
    covered: set[tuple[int, int]] = set()
    found = []
    for i, row in enumerate(tall):
        for j, column in enumerate(wide):
            if (i, j) in covered:
                continue
            height, width = spans.get((row, column), (1, 1))
            height, width = bisect_left(tall, row + height) - i, bisect_left(wide, column + width) - j
            if height * width > 1:
                covered.update((i + down, j + right) for down in range(height) for right in range(width))
            found.append(Cell(i, j, height, width, grid.get((row, column), "")))
    return found
