"""PDF files with a text layer, read with PyMuPDF: reading order by columns, headings by type size, ruled tables as HTML.

What belongs here: what a PDF's fonts, lines and page positions say about its elements. What does not: page geometry common with OCR
(`layout`), and pages that are pictures of text (`ocr`): those are named in a note, never guessed.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
import statistics
from collections import Counter
from collections.abc import Sequence
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
from ingestion.parsers.layout import Line, continues_across, paragraphs, reading_order, same_row, union
from ingestion.parsers.pdf_files import open_pdf
from ingestion.parsers.pdf_tables import ruled_tables, with_unruled_tables

_MARGIN = 0.12  # share of the page's height in which running heads and feet stand
_HEADING_SIZE, _SMALL = 1.12, 0.92
_LONGEST_HEADING = 200
_SUPERSCRIPT = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_SUPERSCRIPT_FLAG, _BOLD_FLAG = 1, 16
REPAIRED = "the file is damaged and was read as repaired by MuPDF"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_DIGITS = re.compile(r"\d+")
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
                quarter = 0 if raw["dir"] == (1.0, 0.0) else _quarter(raw["dir"])
                turns.setdefault(quarter, []).append(line)
    text = "".join(line.text for lines in turns.values() for line in lines)
    # Text whose glyphs map to no character is a picture of text as far as a reader of the layer can tell.
    legible = text.count("\ufffd") <= len(text) / 2 and bool(text.strip())
    area = page.rect
    found = _Page(page.number + 1, area.width, area.height, [], has_text=legible)
    if not legible:
        return found
    order = sorted(turns, key=lambda turn: (-sum([len(line.text) for line in turns[turn]]), turn))
    upright, *others = order
    found.lines = _merge_marks(turns[upright])
    if upright != 0:
        found.lines = [_turn(line, upright, found.width, found.height) for line in found.lines]
        if upright in (1, 3):
            found.width, found.height = found.height, found.width
    else:
        found.tables, found.lines = ruled_tables(page, found.number, found.lines)
    found.turned = [[_turn(line, turn, found.width, found.height) for line in turns[turn]] for turn in others]
    return found


def _line(raw: dict[str, Any], block: int) -> Line | None:
    spans = raw["spans"]
    if len(spans) == 1:
        (span,) = spans
        size, flags = span["size"], span["flags"]
        text = _raised(span) if flags & _SUPERSCRIPT_FLAG else span["text"]
    else:
        text = "".join([_raised(span) if span["flags"] & _SUPERSCRIPT_FLAG else span["text"] for span in spans])
        spans = [span for span in spans if span["text"].strip()]
        if not spans:
            return None
        full = [span for span in spans if not span["flags"] & _SUPERSCRIPT_FLAG] or spans
        size = max(full, key=lambda span: (len(span["text"].strip()), span["size"]))["size"]
        flags = functools.reduce(operator.and_, (span["flags"] for span in spans))
    if not text.isprintable():
        text = _CONTROL.sub("", text)
    text = " ".join(text.split())
    return Line(text, raw["bbox"], size, bool(flags & _BOLD_FLAG), block) if text else None


def _raised(span: dict[str, Any]) -> str:
    """30 days with a note mark 1 is not 301 days: what stands raised stays raised."""
    return str(span["text"]).translate(_SUPERSCRIPT)


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
    exact: dict[float, int] = {}
    for page in pages:
        for line in page.lines:
            exact[line.size] = exact.get(line.size, 0) + len(line.text)
    sizes: Counter[float] = Counter()
    for size, characters in exact.items():
        sizes[round(size * 2) / 2] += characters
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
    for region in with_unruled_tables(regions, page.number, stands):
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
