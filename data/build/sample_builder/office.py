"""PPTX and XLSX files of the authored text: a slide or a sheet a heading.

What belongs here: python-pptx and openpyxl calls, and the fixed times that make a file the same each time. What does not: Word files.
"""

from __future__ import annotations

import datetime as dt
import io
import re
from typing import Any

from sample_builder.markup import Block, ContentError, Rendition, plain
from sample_builder.word import repack

STAMP = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def sections(rendition: Rendition) -> list[tuple[Block, list[Block]]]:
    """Each heading with the blocks below it. Raises ContentError for a text that does not begin with a heading."""
    found: list[tuple[Block, list[Block]]] = []
    for block in rendition.blocks:
        if block.kind == "heading":
            found.append((block, []))
        elif not found:
            raise ContentError(f"{rendition.path}: must begin with a heading")
        else:
            found[-1][1].append(block)
    return found


def slides(rendition: Rendition) -> bytes:
    """A presentation: titles, bullets and tables."""
    import pptx
    from pptx.util import Inches

    deck: Any = pptx.Presentation()
    core = deck.core_properties
    core.title, core.author, core.last_modified_by, core.revision = rendition.title, "Brinkhal", "Brinkhal", 1
    core.created = core.modified = STAMP
    for heading, blocks in sections(rendition):
        tables = [block for block in blocks if block.kind == "table"]
        lines = [plain(block.text) for block in blocks if block.kind != "table"]
        slide = deck.slides.add_slide(deck.slide_layouts[1 if lines else 5])
        slide.shapes.title.text = plain(heading.text)
        if lines:
            frame = slide.placeholders[1].text_frame
            frame.text = lines[0]
            for line in lines[1:]:
                frame.add_paragraph().text = line
        for number, block in enumerate(tables):
            rows, columns = len(block.rows), len(block.rows[0])
            left, top = Inches(0.8), Inches((5.0 if lines else 1.8) + 1.2 * number)
            table = slide.shapes.add_table(rows, columns, left, top, Inches(8.4), Inches(0.4 * rows)).table
            for r, row in enumerate(block.rows):
                for c, cell in enumerate(row):
                    table.cell(r, c).text = plain(cell)
    raw = io.BytesIO()
    deck.save(raw)
    return repack(raw.getvalue())


def workbook(rendition: Rendition) -> bytes:
    """A workbook: one table a sheet, its head in bold, numbers as numbers."""
    import openpyxl
    from openpyxl.styles import Font

    book: Any = openpyxl.Workbook()
    book.remove(book.active)
    book.properties.creator, book.properties.title = "Brinkhal", rendition.title
    for heading, blocks in sections(rendition):
        sheet = book.create_sheet(plain(heading.text))
        for block in blocks:
            if block.kind != "table":
                raise ContentError(f"{rendition.path}: a sheet holds tables, not a {block.kind}")
            for r, row in enumerate(block.rows):
                sheet.append([typed(plain(cell)) for cell in row])
                if r == 0:
                    for cell in sheet[sheet.max_row]:
                        cell.font = Font(bold=True)
    raw = io.BytesIO()
    book.save(raw)
    return repack(raw.getvalue())


def typed(cell: str) -> str | int | float | None:
    """A cell as a number where the number is written as the cell is."""
    if re.fullmatch(r"\d+", cell) and str(int(cell)) == cell:
        return int(cell)
    if re.fullmatch(r"\d+\.\d+", cell) and str(float(cell)) == cell:
        return float(cell)
    return cell or None
