"""PPTX presentations, read with python-pptx: a slide is a page with a title, paragraphs, lists, tables and what the speaker says.

What belongs here: the order of shapes and what a paragraph is. What does not: pictures and charts, which hold no text to read here.
unstructured's own reader takes every short line for a title and knows neither merged cells nor bullets that a layout gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingestion.parsers.archives import open_office
from ingestion.parsers.elements import Element, Parsed, ParseFailure, ParseOptions, starts_list_item, without_bullet
from ingestion.parsers.html_tables import Cell, table_html, table_text

_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_PRESENTATION = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_BULLETS = tuple(f"{_DRAWING}{name}" for name in ("buChar", "buAutoNum", "buBlip"))
_FURNITURE = {"DATE": "Footer", "FOOTER": "Footer", "HEADER": "Header", "SLIDE_NUMBER": "PageNumber"}
_DEEPEST = 50  # groups within groups


def parse_slides(path: Path, options: ParseOptions) -> Parsed:
    """Elements of a presentation: page = slide, from 1; the title placeholder is a Title, notes follow their slide as NarrativeText.

    Hidden slides are read and named in a note. Raises ParseFailure: corrupt, encrypted, too_large.
    """
    from lxml import etree
    from pptx import Presentation
    from pptx.exc import PythonPptxError

    with open_office(path, options):
        try:
            slides = list(Presentation(str(path)).slides)
            if len(slides) > options.pages:
                raise ParseFailure("too_large", f"{len(slides)} slides, over the limit of {options.pages}")
            parsed = Parsed()
            for number, slide in enumerate(slides, 1):
                parsed.elements += _slide(slide, number)
                if slide.element.get("show") in ("0", "false"):
                    parsed.notes.append(f"slide {number} is hidden")
        except (PythonPptxError, KeyError, ValueError, AttributeError, etree.LxmlError) as error:
            raise ParseFailure("corrupt", f"cannot be read as a presentation: {type(error).__name__}: {error}") from error
    return parsed


def _slide(slide: Any, number: int) -> Iterator[Element]:
    title = slide.shapes.title
    shapes = list(_leaves(slide.shapes, 0))
    # Top to bottom, left to right; a title is first wherever it stands, for it heads the slide.
    for shape in sorted(shapes, key=lambda s: (s.element is not getattr(title, "element", None), s.top or 0, s.left or 0)):
        if getattr(shape, "has_table", False):
            yield from _table(shape.table, number)
        elif shape.has_text_frame:
            form = shape.placeholder_format if shape.is_placeholder else None
            furniture = _FURNITURE.get(getattr(getattr(form, "type", None), "name", ""))
            is_title = title is not None and shape.element is title.element
            inherited = _inherited_styles(slide, shape)
            for paragraph in shape.text_frame.paragraphs:
                text = " ".join(paragraph.text.replace("\v", " ").split())
                if not text:
                    continue
                if furniture:
                    yield Element(furniture, text, number)
                elif is_title:
                    yield Element("Title", text, number, 1)
                elif _has_bullet(paragraph, inherited) or starts_list_item(text):
                    yield Element("ListItem", without_bullet(text), number)
                else:
                    yield Element("NarrativeText" if text.endswith((".", "!", "?")) else "UncategorizedText", text, number)
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
        for line in frame.text.replace("\v", "\n").splitlines():
            if line.strip():
                yield Element("NarrativeText", line.strip(), number)


def _leaves(shapes: Any, depth: int) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < _DEEPEST:
            yield from _leaves(shape.shapes, depth + 1)
        else:
            yield shape


def _table(table: Any, page: int) -> Iterator[Element]:
    cells = []
    for i, row in enumerate(table.rows):
        for j, cell in enumerate(row.cells):
            if not cell.is_spanned:
                rows, columns = (cell.span_height, cell.span_width) if cell.is_merge_origin else (1, 1)
                cells.append(Cell(i, j, rows, columns, " ".join(cell.text.split())))
    header = int(bool(table.first_row) and len(table.rows) > 1 and all(cell.rows == 1 for cell in cells if cell.row == 0))
    html = table_html(cells, header)
    if text := table_text(html):
        yield Element("Table", text, page, html=html)


def _has_bullet(paragraph: Any, inherited: list[Any]) -> bool:
    """Whether a paragraph shows a bullet or number: what it says itself, else the nearest list style that says anything."""
    level = paragraph.level or 0
    own = [properties for properties in (paragraph._p.find(f"{_DRAWING}pPr"),) if properties is not None]
    styles = [style.find(f"{_DRAWING}lvl{level + 1}pPr") for style in inherited]
    for properties in (*own, *(style for style in styles if style is not None)):
        for child in properties:
            if child.tag in _BULLETS:
                return True
            if child.tag == f"{_DRAWING}buNone":
                return False
    return False


def _inherited_styles(slide: Any, shape: Any) -> list[Any]:
    """The list styles that a shape's paragraphs inherit, nearest first: its own, its layout's, its master's, the master's body style
    (ECMA-376-1, 19.3.1)."""
    if not shape.is_placeholder:
        return list(shape.element.iter(f"{_DRAWING}lstStyle"))
    form, layout = shape.placeholder_format, slide.slide_layout
    master = layout.slide_master
    holders = [shape.element, *[p.element for p in layout.placeholders if p.placeholder_format.idx == form.idx][:1]]
    holders += [p.element for p in master.placeholders if p.placeholder_format.type == form.type][:1]
    styles = [style for holder in holders for style in holder.iter(f"{_DRAWING}lstStyle")]
    if getattr(form.type, "name", "") in ("BODY", "OBJECT", "SUBTITLE"):
        styles += list(master.element.iter(f"{_PRESENTATION}bodyStyle"))
    return styles
