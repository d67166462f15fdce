"""PDF files with a text layer, read with PyMuPDF: reading order by columns, headings by type size, ruled tables as HTML.

What belongs here: what a PDF's fonts, lines and page positions say about its elements. What does not: page geometry common with OCR
(`layout`), and pages that are pictures of text (`ocr`): those are named in a note, never guessed.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ingestion.parsers.elements import (
    Box,
    Element,
    Parsed,
    ParseFailure,
    ParseOptions,
    ends_sentence,
    join_lines,
    starts_list_item,
    without_bullet,
)
from ingestion.parsers.html_tables import Cell, table_html, table_text
from ingestion.parsers.layout import Line, continues_across, paragraphs, reading_order, same_row, union
from ingestion.parsers.pdf_files import open_pdf

_MARGIN = 0.12  # share of the page's height in which running heads and feet stand
_MOST_DRAWINGS = 20_000  # a map or chart: a search for table rules there takes minutes and finds none
_NARROWEST_COLUMN, _LOWEST_ROW = 6.0, 4.0  # points: no text fits in less
_FEWEST_ROWS = 3
_HEADING_SIZE, _SMALL = 1.12, 0.92
_LONGEST_HEADING = 200
_SUPERSCRIPT = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_SUPERSCRIPT_FLAG, _BOLD_FLAG = 1, 16
REPAIRED = "the file is damaged and was read as repaired by MuPDF"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_DIGITS = re.compile(r"\d+")
_DRAWS = re.compile(rb"\s(?:re|l|Do)\s")
"""Operators of a content stream that draw rectangles, lines or a form (ISO 32000-1, 8.5.2 and 8.8)."""
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|pagina|blad|p\.|s\.)\s*)?(?P<number>\d{1,4}|[ivxlc]{1,7})(?:\s*(?:of|von|van|/)\s*\d{1,4})?\W*", re.I
)
_NOTE_MARK = re.compile(r"(?:[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\d{1,2}(?!\d)|[*∗⋆†‡§]+)\s*\S")


def warm(threads: int) -> None:
    """Import the library, so that no file's time limit pays for it."""
    del threads  # MuPDF uses one
    import pymupdf

    tools: Any = pymupdf.TOOLS
    tools.mupdf_display_errors(False)
    tools.mupdf_display_warnings(False)


@dataclass
class _Page:
    """A page being read: its lines that are still to be placed, and the elements already taken out of them."""

    number: int
    width: float
    height: float
    lines: list[Line]
    turned: list[list[Line]] = field(default_factory=list)
    tables: list[tuple[Box, Element]] = field(default_factory=list)
    head: list[Element] = field(default_factory=list)
    foot: list[Element] = field(default_factory=list)
    notes: list[Element] = field(default_factory=list)
    has_text: bool = True


def parse(path: Path, media_type: str, options: ParseOptions) -> Parsed:
    """Elements of a PDF's text layer. Raises ParseFailure: corrupt, encrypted, too_large, no_text."""
    del media_type
    import pymupdf

    with open_pdf(path, options.pages) as document:
        pages = [_read_page(page, pymupdf) for page in document]
        notes = [REPAIRED] if document.is_repaired else []
    if not any(page.has_text for page in pages):
        raise ParseFailure("no_text", f"none of the {len(pages)} pages has a text layer; a scan needs the ocr or auto parser")
    bare = [str(page.number) for page in pages if not page.has_text]
    if bare:
        notes.append(f"no text layer on page {', '.join(bare[:20])}{' and more' if len(bare) > 20 else ''}")
    return Parsed(_assembled(pages), notes)


def read_layer(pages: Sequence[Any]) -> list[Element]:
    """Elements of the text layer of some pages of an open document, running heads told by all of them."""
    import pymupdf

    return _assembled([_read_page(page, pymupdf) for page in pages])


def _assembled(pages: Sequence[_Page]) -> list[Element]:
    body = _body_size(pages)
    _take_running_heads(pages, body)
    for page in pages:
        _take_footnotes(page, body)
    words = _words(pages)
    content = [element for page in pages for element in _elements(page, body, words)]
    _set_levels(content)
    return [element for element, _ in content]


def _words(pages: Sequence[_Page]) -> frozenset[str]:
    """Words of the document, lower case, where a line ends in a hyphen and they are asked for."""
    if not any(line.text[-1:] in "-‐" for page in pages for line in page.lines):
        return frozenset()
    return frozenset(
        word.strip(".,;:!?()[]\"'").lower() for page in pages for line in page.lines for word in line.text.split() if len(word) > 3
    )


# ------------------------------------------------------------------------------------------------------ lines of a page
def _read_page(page: Any, pymupdf: Any) -> _Page:
    flags = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP  # ligatures are spelt out, images left alone
    turns: dict[int, list[Line]] = {}
    for number, block in enumerate(page.get_text("dict", flags=flags)["blocks"]):
        for raw in block.get("lines", ()):
            line = _line(raw, number)
            if line is not None:
                turns.setdefault(_quarter(raw["dir"]), []).append(line)
    text = "".join(line.text for lines in turns.values() for line in lines)
    # Text whose glyphs map to no character is a picture of text as far as a reader of the layer can tell.
    legible = text.count("\ufffd") <= len(text) / 2 and bool(text.strip())
    found = _Page(page.number + 1, page.rect.width, page.rect.height, [], has_text=legible)
    if not legible:
        return found
    order = sorted(turns, key=lambda turn: (-sum(len(line.text) for line in turns[turn]), turn))
    upright, *others = order
    found.lines = _merge_marks(turns[upright])
    if upright != 0:
        found.lines = [_turn(line, upright, found.width, found.height) for line in found.lines]
        if upright in (1, 3):
            found.width, found.height = found.height, found.width
    else:
        found.tables = _tables(page, found, pymupdf)
    found.turned = [[_turn(line, turn, found.width, found.height) for line in turns[turn]] for turn in others]
    return found


def _line(raw: dict[str, Any], block: int) -> Line | None:
    spans = [span for span in raw["spans"] if span["text"].strip()]
    if not spans:
        return None
    full = [span for span in spans if not span["flags"] & _SUPERSCRIPT_FLAG] or spans
    size = max(full, key=lambda span: (len(span["text"].strip()), span["size"]))["size"] if len(full) > 1 else full[0]["size"]
    # 30 days with a note mark 1 is not 301 days: what stands raised stays raised.
    text = "".join(span["text"].translate(_SUPERSCRIPT) if span["flags"] & _SUPERSCRIPT_FLAG else span["text"] for span in raw["spans"])
    bold = all(span["flags"] & _BOLD_FLAG for span in spans)
    return Line(" ".join(_CONTROL.sub("", text).split()), tuple(raw["bbox"]), float(size), bold, block)


def _quarter(direction: tuple[float, float]) -> int:
    """Quarter turns (clockwise) of a writing direction: 0 left to right, 1 downwards, 2 upside down, 3 upwards."""
    x, y = direction
    if abs(x) >= abs(y):
        return 0 if x > 0 else 2
    return 1 if y > 0 else 3


def _turn(line: Line, quarter: int, width: float, height: float) -> Line:
    """A line as it stands once the page is turned so that it reads from left to right."""
    x0, y0, x1, y1 = line.box
    boxes: dict[int, Box] = {
        0: line.box,
        1: (y0, width - x1, y1, width - x0),
        2: (width - x1, height - y1, width - x0, height - y0),
        3: (height - y1, x0, height - y0, x1),
    }
    return replace(line, box=boxes[quarter])


def _merge_marks(lines: list[Line]) -> list[Line]:
    """Bullets and item numbers that the source set as lines of their own, put before the text that stands beside them."""
    taken: dict[int, Line] = {}
    marks: set[int] = set()
    for mark in lines:
        if len(mark.text) > 4 or not starts_list_item(f"{mark.text} x"):
            continue
        beside = [
            line
            for line in lines
            if line is not mark and id(line) not in taken and same_row(mark, line) and -1 < line.x0 - mark.x1 < 4 * line.size
        ]
        if beside:
            taken[id(min(beside, key=lambda line: line.x0))] = mark
            marks.add(id(mark))
    return [
        replace(line, text=f"{taken[id(line)].text} {line.text}", box=union([taken[id(line)].box, line.box])) if id(line) in taken else line
        for line in lines
        if id(line) not in marks
    ]


# ------------------------------------------------------------------------------------------------------------- tables
def _tables(page: Any, found: _Page, pymupdf: Any) -> list[tuple[Box, Element]]:
    """Ruled tables; their lines leave the page. A frame round a text, or a grid that loses words, is no table."""
    if not _has_rules(page):
        return []
    tables: list[tuple[Box, Element]] = []
    for table in page.find_tables().tables:
        box: Box = tuple(table.bbox)
        inside = [line for line in found.lines if _centre_in(line.box, box)]
        element = _table(table, found.number, inside)
        if element is None:
            continue
        taken = {id(line) for line in inside}
        found.lines = [line for line in found.lines if id(line) not in taken]
        tables.append((box, element))
    return tables


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


# ----------------------------------------------------------------------------------------- running heads and page numbers
def _take_running_heads(pages: Sequence[_Page], body: float) -> None:
    """Move lines that repeat in the top or bottom margin of several pages out of the text, and page numbers with them.

    Larger type than the body's is a chapter's heading, even where all chapters are headed alike.
    """
    zones: list[tuple[_Page, Line, bool]] = []
    for page in pages:
        for line in page.lines:
            top = line.y1 <= _MARGIN * page.height
            if line.size > _HEADING_SIZE * body:
                continue
            if top or line.y0 >= (1 - _MARGIN) * page.height:
                zones.append((page, line, top))
    texts = Counter((top, _DIGITS.sub("#", line.text.lower())) for _, line, top in zones)
    places: dict[tuple[bool, str], set[int]] = {}
    for page, line, top in zones:
        places.setdefault((top, _DIGITS.sub("#", line.text.lower())), set()).add(page.number)
    offsets = Counter(int(number) - page.number for page, line, _ in zones if (number := _number_in(line.text)) is not None)
    needed = 2 if len(pages) < 6 else 3
    for page, line, top in zones:
        key = (top, _DIGITS.sub("#", line.text.lower()))
        repeats = len(places[key]) >= needed and texts[key] <= 2 * len(places[key])
        number = _number_in(line.text)
        # Said once, a running head shows by its type alone: smaller than the text, at the very edge, no sentence.
        lone = line.size <= (0.97 if top else _SMALL) * body and len(line.text) <= 100 and not ends_sentence(line.text)
        lone = lone and (top or not _NOTE_MARK.match(line.text)) and _outermost(page, line, top)
        numbered = number is not None and (
            offsets[number - page.number] >= 2 or (len(pages) == 1 and number == 1 and _outermost(page, line, top))
        )
        if numbered or (_PAGE_NUMBER.fullmatch(line.text) and repeats):
            category = "PageNumber"
        elif (repeats and _near_edge(page, line, top)) or lone:
            category = "Header" if top else "Footer"
        else:
            continue
        page.lines.remove(line)
        (page.head if top else page.foot).append(Element(category, line.text, page.number, box=line.box))


def _number_in(text: str) -> int | None:
    match = _PAGE_NUMBER.fullmatch(text)
    return int(match["number"]) if match and match["number"].isdecimal() else None


def _outermost(page: _Page, line: Line, top: bool) -> bool:
    """Whether nothing but its own row stands between a line and the edge of the page."""
    return not any(
        (other.box[1] < line.box[1] - 1 if top else other.box[3] > line.box[3] + 1) and not same_row(other, line) for other in page.lines
    )


def _near_edge(page: _Page, line: Line, top: bool) -> bool:
    """Whether no text that is bigger than a running head stands between a line and the edge of the page."""
    beyond = [other for other in page.lines if (other.y1 <= line.y0 if top else other.y0 >= line.y1)]
    return len(beyond) <= 3


# --------------------------------------------------------------------------------------------------- sizes and footnotes
def _body_size(pages: Sequence[_Page]) -> float:
    """The type size that most characters of the document are set in."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            sizes[round(line.size * 2) / 2] += len(line.text)
    return max(sizes, key=lambda size: (sizes[size], size)) if sizes else 0.0


def _take_footnotes(page: _Page, body: float) -> None:
    """Move smaller type at the foot of a page, from its first note mark on, out of the text.

    It has to stand below every line of body size in its column, so a caption or a table's small type stays where it is.
    """
    small = [line for line in page.lines if line.size <= _SMALL * body and line.y0 > 0.5 * page.height]
    large = [line for line in page.lines if line.size > _SMALL * body]
    low = [line for line in small if not any(other.y0 > line.y0 and other.x0 < line.x1 and line.x0 < other.x1 for other in large)]
    for region in reading_order(low):
        opened = False
        for paragraph in _by_marks(region):
            opened = opened or bool(_NOTE_MARK.match(paragraph[0].text))
            if not opened:
                continue
            page.notes.append(
                Element("Footnote", join_lines([line.text for line in paragraph]), page.number, box=union([i.box for i in paragraph]))
            )
            taken = {id(line) for line in paragraph}
            page.lines = [line for line in page.lines if id(line) not in taken]


def _by_marks(region: Sequence[Line]) -> list[list[Line]]:
    notes: list[list[Line]] = []
    for line in region:
        if not notes or (_NOTE_MARK.match(line.text) and not same_row(line, notes[-1][-1])):
            notes.append([line])
        else:
            notes[-1].append(line)
    return notes


# ------------------------------------------------------------------------------------------------------------- elements
def _elements(page: _Page, body: float, words: frozenset[str]) -> list[tuple[Element, float]]:
    """A page's elements in reading order, each with its type size (0 where it is no heading)."""
    placed: list[tuple[Element, float]] = [(element, 0.0) for element in page.head]
    regions: list[list[Line]] = []
    # A table takes its place as one full-width line would; what stands beside it is read as if it were prose.
    stands = {f"\ue000{i}": element for i, (_, element) in enumerate(page.tables)}
    marks = [Line(f"\ue000{i}", box, body, block=-100 - i) for i, (box, _) in enumerate(page.tables)]
    regions += _around_tables(page.lines, marks)
    turned = [reading_order(lines) for lines in page.turned]
    open_paragraph: tuple[list[Line], Element] | None = None
    for region in _with_unruled_tables(regions, page, stands):
        for i, paragraph in enumerate(paragraphs(region)):
            if paragraph[0].text in stands:
                placed.append((stands[paragraph[0].text], 0.0))
                open_paragraph = None
                continue
            if i == 0 and open_paragraph is not None and continues_across(open_paragraph[0], paragraph):
                lines, element = open_paragraph
                lines += paragraph
                element.text = join_lines([line.text for line in lines], words)
                continue
            element, size = _element(paragraph, page, body, words)
            if i and _same_heading(placed[-1], element, size):
                title = placed[-1][0]
                title.text, title.box = join_lines([title.text, element.text]), union([b for b in (title.box, element.box) if b])
                continue
            placed.append((element, size))
            open_paragraph = (list(paragraph), element) if element.category == "NarrativeText" else None
    for region in (region for regions in turned for region in regions):  # stamps along the margin: no part of the headings
        for paragraph in paragraphs(region):
            text = join_lines([line.text for line in paragraph], words)
            placed.append((Element("UncategorizedText", text, page.number, box=None), 0.0))
    return placed + [(note, 0.0) for note in page.notes] + [(element, 0.0) for element in page.foot]


def _with_unruled_tables(regions: Sequence[list[Line]], page: _Page, stands: dict[str, Element]) -> list[list[Line]]:
    """The regions, with rows of cells that stand in columns taken together as tables: each a mark in `stands`, a region alone."""
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
            end = _end_of_table(rows, i)
            if end - i < _FEWEST_ROWS:
                plain += rows[i]
                i += 1
                continue
            cells = [Cell(r, c, 1, 1, line.text) for r, row in enumerate(rows[i:end]) for c, line in enumerate(row)]
            html = table_html(cells, _header_rows(cells, [[line.bold for line in row] for row in rows[i:end]]))
            box = union([line.box for row in rows[i:end] for line in row])
            mark = f"\ue000u{len(stands)}"
            stands[mark] = Element("Table", table_text(html) or "", page.number, html=html, box=box)
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


def _same_heading(above: tuple[Element, float], element: Element, size: float) -> bool:
    """Whether a heading is the next line of the one above it: same size, hardly any space between them, no number of its own."""
    title, title_size = above
    if title.category != "Title" or element.category != "Title" or title.box is None or element.box is None:
        return False
    close = 0 <= element.box[1] - title.box[3] < 0.6 * size
    return close and abs(size - title_size) < 0.3 and not (element.text[0].isdigit() or starts_list_item(element.text))


def _around_tables(lines: Sequence[Line], marks: Sequence[Line]) -> list[list[Line]]:
    """Reading order of a page with tables: a table wider than half the text parts the page; a narrower one joins its column."""
    if not marks:
        return reading_order(lines)
    full = union([line.box for line in (*lines, *marks)])
    wide = sorted((mark for mark in marks if mark.width > 0.6 * (full[2] - full[0])), key=lambda mark: mark.y0)
    narrow = [mark for mark in marks if mark not in wide]
    regions: list[list[Line]] = []
    rest = [*lines, *narrow]
    for mark in wide:
        above = [line for line in rest if (line.y0 + line.y1) / 2 < mark.y0]
        rest = [line for line in rest if (line.y0 + line.y1) / 2 >= mark.y0]
        regions += [*reading_order(above), [mark]]
    return regions + reading_order(rest)


def _element(paragraph: Sequence[Line], page: _Page, body: float, words: frozenset[str]) -> tuple[Element, float]:
    rows = sum(not same_row(one, two) for one, two in itertools.pairwise(paragraph)) + 1
    ragged = rows > 1 and len(paragraph) >= 2 * rows  # an unruled table or a form: its rows stay lines
    text = _row_text(paragraph) if ragged else join_lines([line.text for line in paragraph], words)
    size = statistics.median_high([line.size for line in paragraph])
    bold = all(line.bold for line in paragraph)
    box = union([line.box for line in paragraph])
    short = len(text) <= _LONGEST_HEADING and any(character.isalpha() for character in text)
    if short and not ragged and size >= _HEADING_SIZE * body and rows <= 4:
        return Element("Title", text, page.number, box=box), size
    if short and bold and not ragged and rows <= 2 and not ends_sentence(text) and size >= 0.98 * body:
        return Element("Title", text, page.number, box=box), size
    if starts_list_item(text):
        return Element("ListItem", without_bullet(text), page.number, box=box), 0.0
    return Element("UncategorizedText" if ragged else "NarrativeText", text, page.number, box=box), 0.0


def _row_text(paragraph: Sequence[Line]) -> str:
    rows: list[list[str]] = []
    above: Line | None = None
    for line in paragraph:
        if above is not None and same_row(above, line):
            rows[-1].append(line.text)
        else:
            rows.append([line.text])
        above = line
    return "\n".join(" ".join(row) for row in rows)


def _set_levels(content: Sequence[tuple[Element, float]]) -> None:
    """Heading levels from type sizes: the largest is level 1; sizes within half a point are one level; the deepest is 6, as in HTML."""
    sizes = sorted({round(size * 2) / 2 for element, size in content if element.category == "Title"}, reverse=True)
    for element, size in content:
        if element.category == "Title":
            element.heading_level = min(6, sizes.index(round(size * 2) / 2) + 1)
