"""Tables of a PDF page: what its rules frame, and rows of cells that stand in columns without any.

What belongs here: which lines make a table, and its cells. What does not: where it stands among the text (`pymupdf_text`), HTML itself
(`html_tables`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ingestion.parsers.elements import Box, Element, join_lines
from ingestion.parsers.html_tables import Cell, table_html, table_text
from ingestion.parsers.layout import Line, same_row, union

_MOST_DRAWINGS = 20_000  # a map or chart: a search for table rules there takes minutes and finds none
_NARROWEST_COLUMN, _LOWEST_ROW = 6.0, 4.0  # points: no text fits in less
_FEWEST_ROWS = 3
_DRAWS = re.compile(rb"\s(?:re|l|Do)\s")
"""Operators of a content stream that draw rectangles, lines or a form (ISO 32000-1, 8.5.2 and 8.8)."""


def ruled_tables(page: Any, number: int, lines: Sequence[Line]) -> tuple[list[tuple[Box, Element]], list[Line]]:
    """Ruled tables of an upright page, each with its box, and the lines that are in none of them.

    A frame round a text, or a grid that loses words, is no table.
    """
    if not _has_rules(page):
        return [], list(lines)
    tables: list[tuple[Box, Element]] = []
    left = list(lines)
    for table in page.find_tables().tables:
        box: Box = tuple(table.bbox)
        inside = [line for line in left if _centre_in(line.box, box)]
        element = _table(table, number, inside)
        if element is None:
            continue
        taken = {id(line) for line in inside}
        left = [line for line in left if id(line) not in taken]
        tables.append((box, element))
    return tables, left


def _has_rules(page: Any) -> bool:
    """Whether a page holds drawings that could rule a table: cheap, where looking for tables takes a quarter of a second a page."""
    if not _DRAWS.search(page.read_contents()):
        return False  # running the page to see its boxes costs half of reading its text
    wide = tall = frames = drawings = 0
    for kind, (x0, y0, x1, y1), *_ in page.get_bboxlog():
        if kind not in ("fill-path", "stroke-path"):
            continue
        drawings += 1
        width, height = x1 - x0, y1 - y0
        wide += width > 20 and height < 4
        tall += height > 8 and width < 4
        frames += width > 20 and height > 8
    return drawings <= _MOST_DRAWINGS and (frames > 0 or (wide >= 2 and tall >= 2))


def _centre_in(inner: Box, outer: Box) -> bool:
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]


def _groups(values: Iterable[float], tolerance: float) -> list[list[float]]:
    """Positions in ascending groups, each within `tolerance` of the next: the doubled edges of padded cells are one rule."""
    groups: list[list[float]] = []
    for value in sorted(set(values)):
        if groups and value - groups[-1][-1] <= tolerance:
            groups[-1].append(value)
        else:
            groups.append([value])
    return groups


def _table(table: Any, page: int, lines: Sequence[Line]) -> Element | None:
    boxes: list[Box] = sorted({tuple(cell) for cell in table.cells if cell is not None}, key=lambda b: (b[1], b[0]))
    columns = _groups((x for box in boxes for x in (box[0], box[2])), _NARROWEST_COLUMN)
    rows = _groups((y for box in boxes for y in (box[1], box[3])), _LOWEST_ROW)
    if len(columns) < 3 or len(rows) < 3:  # two edges are one column or one row: a frame
        return None
    held: dict[Box, list[Line]] = {box: [] for box in boxes}
    for line in lines:
        home = next((box for box in boxes if _centre_in(line.box, box)), None)
        if home is None or _runs_on(line, home, boxes):
            return None  # the rules are not those of a table: losing or cutting text is worse than a table read as lines
        held[home].append(line)
    grid: _Grid = {}
    for box, content in held.items():
        left, right = (next(i for i, group in enumerate(columns) if x in group) for x in (box[0], box[2]))
        top, bottom = (next(i for i, group in enumerate(rows) if y in group) for y in (box[1], box[3]))
        if not content and (left == right or top == bottom):
            continue  # padding
        row, column = min(top, len(rows) - 2), min(left, len(columns) - 2)
        down, across, before = grid.get((row, column), (1, 1, []))
        grid[row, column] = (max(down, bottom - top), max(across, right - left), before + content)
    if sum(bool(content) for _, _, content in grid.values()) < 2:
        return None
    grid = _without_seams(_split_by_columns(grid, columns), len(rows) - 1)
    cells = [
        Cell(row, column, down, across, join_lines([line.text for line in sorted(content, key=lambda i: (round(i.y0), i.x0))]))
        for (row, column), (down, across, content) in sorted(grid.items())
    ]
    count = max(row + down for (row, _), (down, _, _) in grid.items())
    bold = [[line.bold for (row, _), (_, _, content) in grid.items() if row == i for line in content] for i in range(count)]
    html = table_html(cells, _header_rows(cells, bold))
    return Element("Table", table_text(html) or "", page, html=html, box=union(boxes))


_Grid = dict[tuple[int, int], tuple[int, int, list[Line]]]
"""(row, column) of a cell's first square -> rows and columns that it spans, and its lines."""


def _split_by_columns(grid: _Grid, columns: Sequence[Sequence[float]]) -> _Grid:
    """Cells over several columns whose lines stand each inside one of them, as a cell a column: their rules were left out."""
    found: _Grid = {}
    for (row, column), (down, across, content) in grid.items():
        homes = [
            [i for i in range(column, column + across) if columns[i][0] - 2 <= line.x0 and line.x1 <= columns[i + 1][-1] + 2]
            for line in content
        ]
        if across == 1 or not all(homes) or len({home[0] for home in homes}) < 2:
            found[row, column] = (down, across, content)
            continue
        for i in range(column, column + across):
            found[row, i] = (down, 1, [line for line, home in zip(content, homes, strict=True) if home[0] == i])
    return found


def _without_seams(grid: _Grid, rows: int) -> _Grid:
    """The grid without boundaries of rows that only one column has: there a cell's text was cut between two of its lines."""
    for lower in range(rows - 1, 0, -1):
        starts = [place for place in grid if place[0] == lower]
        above = {column: row for row, column in grid if row < lower and row + grid[row, column][0] == lower}
        if len(starts) != 1 or list(above) != [starts[0][1]] or not grid[starts[0]][2]:
            continue
        place = starts[0]
        upper = (above[place[1]], place[1])
        if grid[upper][1] != grid[place][1]:
            continue
        down, _, content = grid.pop(place)
        grid[upper] = (grid[upper][0] + down, grid[upper][1], grid[upper][2] + content)
        grid = {
            (row - (row >= lower), column): (span - (row < lower < row + span), across, held)
            for (row, column), (span, across, held) in grid.items()
        }
    return grid


def _runs_on(line: Line, box: Box, boxes: Sequence[Box]) -> bool:
    """Whether a line runs from its cell on into another of its row, which text in a cell does not."""
    middle = (line.y0 + line.y1) / 2
    return any(
        other[0] >= box[2] - 2 and other[1] <= middle <= other[3] and line.x1 > other[0] + max(line.size, _NARROWEST_COLUMN)
        for other in boxes
    )


def _header_rows(cells: Sequence[Cell], bold: Sequence[Sequence[bool]]) -> int:
    """Leading rows set wholly in bold, unless the whole table is."""
    header = next((i for i, row in enumerate(bold) if not row or not all(row)), len(bold))
    if header == len(bold):
        return 0
    # A cell that reaches below the header would leave a hole in the body: then nothing is a header.
    return header if all(cell.row + cell.rows <= header for cell in cells if cell.row < header) else 0


def with_unruled_tables(regions: Sequence[list[Line]], number: int, stands: dict[str, Element]) -> list[list[Line]]:
    """The regions, with rows of cells that stand in columns taken together as tables: each a region of its own, one line whose text is a
    mark, and the table under that mark in `stands`."""
    found: list[list[Line]] = []
    for region in regions:
        rows: list[list[Line]] = []
        for line in region:
            if rows and same_row(rows[-1][-1], line) and line.x0 >= rows[-1][-1].x1:
                rows[-1].append(line)
            else:
                rows.append([line])
        plain: list[Line] = []
        i = 0
        while i < len(rows):
            end = _end_of_table(rows, i) if len(rows[i]) > 1 else i
            if end - i < _FEWEST_ROWS:
                plain += rows[i]
                i += 1
                continue
            cells = [Cell(r, c, 1, 1, line.text) for r, row in enumerate(rows[i:end]) for c, line in enumerate(row)]
            html = table_html(cells, _header_rows(cells, [[line.bold for line in row] for row in rows[i:end]]))
            box = union([line.box for row in rows[i:end] for line in row])
            mark = f"\ue000u{len(stands)}"
            stands[mark] = Element("Table", table_text(html) or "", number, html=html, box=box)
            found += [plain] if plain else []
            found.append([Line(mark, box, rows[i][0].size)])
            plain = []
            i = end
        found += [plain] if plain else []
    return found


def _end_of_table(rows: Sequence[Sequence[Line]], start: int) -> int:
    """Index after the last row, from `start` on, of one table: as many cells in each row, columns that do not overlap."""
    columns = [(line.x0, line.x1) for line in rows[start]]
    end = start
    while len(columns) > 1 and end < len(rows) and len(rows[end]) == len(columns):
        wider = [(min(low, line.x0), max(high, line.x1)) for (low, high), line in zip(columns, rows[end], strict=True)]
        gap = end > start and rows[end][0].y0 - rows[end - 1][0].y1 > 2 * rows[end][0].size
        if gap or any(two[0] - one[1] < 0.5 * rows[end][0].size for one, two in itertools.pairwise(wider)):
            break
        columns = wider
        end += 1
    return end
