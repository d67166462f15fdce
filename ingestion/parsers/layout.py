"""The order in which a person reads the lines of a page, and the paragraphs they make.

What belongs here: geometry alone, for any source of lines with boxes (a text layer, OCR). What does not: fonts' meaning, running
heads, tables (the parsers), or what the text says.
"""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from ingestion.parsers.elements import Box, ends_sentence, starts_list_item


@dataclass(slots=True)
class Line:
    """A line of text: its box, type size (same unit as the box), whether it is bold, and the source's own block number.

    `block` is -1 where the source knows no blocks. Two lines of one block may stand side by side: then they are a row.
    """

    text: str
    box: Box
    size: float
    bold: bool = False
    block: int = -1
    x0: float = field(init=False, repr=False, compare=False)
    y0: float = field(init=False, repr=False, compare=False)
    x1: float = field(init=False, repr=False, compare=False)
    y1: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.x0, self.y0, self.x1, self.y1 = self.box

    @property
    def width(self) -> float:
        return self.box[2] - self.box[0]


Paragraph = list[Line]

_MINIMUM_COLUMN_LINES = 3
_MINIMUM_WORDS = 3.5  # a line of a narrow column of prose holds more; a cell of an unruled table mostly fewer
_FULL_LINE = 0.7
_MINIMUM_FULL_LINES = 0.5


def union(boxes: Sequence[Box]) -> Box:
    """The smallest box around some boxes."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


def same_row(one: Line, two: Line) -> bool:
    """Whether two lines stand beside each other: they share over half the height of the lower one."""
    shared = (one.y1 if one.y1 < two.y1 else two.y1) - (one.y0 if one.y0 > two.y0 else two.y0)
    return shared > 0 and shared > 0.5 * min(one.y1 - one.y0, two.y1 - two.y0)


def reading_order(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of a page as regions in reading order: a column, or a stretch over the full width, each top to bottom.

    A page is cut at its widest gutter that has prose on both sides; lines across the gutter part it into bands and stay in
    place; each side is cut again. What has no gutter is read block by block, rows from left to right.
    """
    if len(lines) < 2 * _MINIMUM_COLUMN_LINES:
        return [_by_blocks(lines)] if lines else []
    gutter = _gutter(lines)
    if gutter is None:
        return [_by_blocks(lines)]
    regions: list[list[Line]] = []
    for wide, left, right in _bands(lines, gutter):
        if wide:
            regions.append(_by_blocks(wide))
        regions += reading_order(left) + reading_order(right)
    return regions


def _gutter(lines: Sequence[Line]) -> float | None:
    """x of the best gutter: most lines beside it, then widest. None if no x has prose on both sides."""
    best: tuple[int, float, float] | None = None
    starts, ends = sorted(line.x0 for line in lines), sorted(line.x1 for line in lines)
    for x in sorted(set(starts)):
        before, after = bisect_right(ends, x), len(lines) - bisect_left(starts, x)
        if min(before, after) < _MINIMUM_COLUMN_LINES or len(lines) > 2 * (before + after):
            continue  # told by two look-ups, without a pass over the lines
        left = [line for line in lines if line.x1 <= x]
        right = [line for line in lines if line.x0 >= x]
        # Only where both sides stand beside each other do they tell a gutter: a short heading above the left one does not.
        top = max(min(line.y0 for line in side) for side in (left, right))
        bottom = min(max(line.y1 for line in side) for side in (left, right))
        left, right = ([line for line in side if line.y1 > top and line.y0 < bottom] for side in (left, right))
        if min(len(left), len(right)) < _MINIMUM_COLUMN_LINES or not (_is_prose(left) and _is_prose(right)):
            continue
        edge, start = max(line.x1 for line in left), min(line.x0 for line in right)
        size = statistics.median(line.size for line in (*left, *right))
        if start - edge < max(4.0, 0.6 * size):
            continue
        rank = (len(left) + len(right), start - edge, (edge + start) / 2)
        if best is None or rank > best:
            best = rank
    return best[2] if best else None


def _is_prose(lines: Sequence[Line]) -> bool:
    """Whether lines look like a column of running text: several words each, and most of them about as wide as the widest."""
    words = sum(len(line.text.split()) for line in lines) / len(lines)
    widths = sorted(line.width for line in lines)
    wide = widths[int(0.9 * (len(widths) - 1))]
    full = sum(width >= _FULL_LINE * wide for width in widths) / len(widths)
    return words >= _MINIMUM_WORDS and full >= _MINIMUM_FULL_LINES


def _bands(lines: Sequence[Line], gutter: float) -> list[tuple[list[Line], list[Line], list[Line]]]:
    """(full width, left, right) bands from top to bottom; the full-width lines of a band stand above its columns."""
    bands: list[tuple[list[Line], list[Line], list[Line]]] = [([], [], [])]
    for line in sorted(lines, key=lambda i: (i.y0, i.x0)):
        wide, left, right = bands[-1]
        if line.x0 < gutter < line.x1:
            if left or right:
                kept = _tail(left, right, line)
                bands.append(([*kept, line], [], []))
            else:
                wide.append(line)
        elif wide and not left and not right and _continues(wide[-1], line, lines):
            wide.append(line)
        else:
            (left if line.x1 <= gutter else right).append(line)
    return bands


def _continues(above: Line, line: Line, lines: Sequence[Line]) -> bool:
    """Whether a short line is the end of the full-width paragraph above it, rather than the start of a column."""
    if line.block != -1:
        return line.block == above.block
    alone = not any(other is not line and same_row(other, line) for other in lines)
    return alone and abs(line.x0 - above.x0) < line.size and line.y0 - above.y1 < 0.5 * line.size


def _tail(left: list[Line], right: list[Line], below: Line) -> list[Line]:
    """Take the short lines that belong to the full-width text `below` out of the column they seem to stand in, and return them.

    They are the last lines of one side, lower than all of the other, and nearer to what follows than to what they follow.
    """
    for side, other in ((left, right), (right, left)):
        floor = max((line.y1 for line in other), default=None)
        if floor is None:
            continue
        first = next((i for i, line in enumerate(side) if line.y0 >= floor), len(side))
        for i in range(max(first, 1), len(side)):
            before = side[i].y0 - max(line.y1 for line in side[:i])
            if before > 1.2 * max(below.y0 - side[-1].y1, 0.0) and before > 0.5 * side[i].size:
                tail = side[i:]
                del side[i:]
                return tail
    return []


def _by_blocks(lines: Sequence[Line]) -> list[Line]:
    """Lines without columns: blocks from top to bottom, blocks beside each other from left to right, rows inside a block."""
    downwards = sorted(lines, key=lambda i: (i.y0, i.x0))
    if _one_below_the_other(downwards):
        return downwards
    blocks: dict[int, list[Line]] = {}
    for i, line in enumerate(downwards):
        blocks.setdefault(line.block if line.block != -1 else -2 - i, []).append(line)
    ordered: list[Line] = []
    for row in _rows([(union([line.box for line in block]), block) for block in blocks.values()]):
        for _, block in row:
            for inner in _rows([(line.box, [line]) for line in block]):
                ordered += [line for _, (line,) in inner]
    return ordered


def _one_below_the_other(lines: Sequence[Line]) -> bool:
    """Whether no two of the lines can share a row and no block is broken by another: most text, which needs no grouping."""
    seen: set[int] = set()
    above: Line | None = None
    for line in lines:
        if above is not None and line.y0 - above.y0 < line.size:  # a row's tops are at most half of twice the size apart
            return False
        if above is None or line.block != above.block:
            if line.block in seen:
                return False
            if line.block != -1:
                seen.add(line.block)
        above = line
    return True


def _rows(items: list[tuple[Box, list[Line]]]) -> list[list[tuple[Box, list[Line]]]]:
    """Boxes grouped into rows: tops no further apart than half the lower height; rows top to bottom, boxes left to right."""
    rows: list[list[tuple[Box, list[Line]]]] = []
    for item in sorted(items, key=lambda i: (i[0][1], i[0][0])):
        box, block = item
        first = rows[-1][0][0] if rows else None
        height = min(box[3] - box[1], first[3] - first[1], 2 * block[0].size) if first else 0.0
        if first is not None and box[1] - first[1] < 0.5 * height:
            rows[-1].append(item)
        else:
            rows.append([item])
    return [sorted(row, key=lambda i: (i[0][0], i[0][1])) for row in rows]


def paragraphs(region: Sequence[Line]) -> list[Paragraph]:
    """The lines of a region as paragraphs. A new one starts at a change of type, a wider gap, an indent, or a list item."""
    if not region:
        return []
    pairs = [(above, line, same_row(above, line), _alike(above, line)) for above, line in itertools.pairwise(region)]
    gaps = [(line.y0 - above.y1) / line.size for above, line, beside, alike in pairs if alike and not beside and line.y0 > above.y0]
    usual = statistics.median_low(gaps) if gaps else 0.0
    left, right = min([line.x0 for line in region]), max([line.x1 for line in region])
    found: list[Paragraph] = [[region[0]]]
    for above, line, beside, alike in pairs:
        if not beside and (not alike or _breaks(found[-1], above, line, usual, left, right)):
            found.append([line])
        else:
            found[-1].append(line)
    return found


def _alike(one: Line, two: Line) -> bool:
    smaller, larger = (one.size, two.size) if one.size < two.size else (two.size, one.size)
    return larger <= 1.12 * smaller and one.bold == two.bold


def _breaks(paragraph: Paragraph, above: Line, line: Line, usual: float, left: float, right: float) -> bool:
    """Whether a line below another, of like type, starts a paragraph."""
    other_block = line.block != above.block
    allowed = usual + (0.35 if line.block == -1 or other_block else 0.7)
    if (line.y0 - above.y1) / line.size > allowed or line.y0 < above.y0 or starts_list_item(line.text):
        return True
    if not ends_sentence(above.text):
        return False
    first, indent = paragraph[0], line.x0 - above.x0
    if starts_list_item(first.text):
        if line.x0 < first.x0 + 0.2 * line.size:
            return True  # back at the margin after an item with a hanging indent
    elif 0.8 * line.size < indent < 4 * line.size and abs(above.x0 - left) < line.size:
        return True
    return other_block and above.x1 < left + 0.85 * (right - left)


def continues_across(last: Paragraph, first: Paragraph) -> bool:
    """Whether a paragraph that ends one column goes on as the first of the next: no sentence end, lower case, same type."""
    text = last[-1].text.rstrip()
    if not text or not first[0].text or not _alike(last[-1], first[0]) or starts_list_item(first[0].text):
        return False
    return not ends_sentence(text) and (first[0].text[0].islower() or text[-1] in "-‐\u00ad")
