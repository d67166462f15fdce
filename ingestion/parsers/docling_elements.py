"""Documents read with docling, an optional package with models of its own: its items mapped to our elements.

What belongs here: setting up docling's converter (written against docling 2.143) and the mapping. What does not: fetching its models, which
docling looks for in DOCLING_ARTIFACTS_PATH, or downloads where that is not set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ingestion.parsers.elements import Box, Element, Parsed, ParseFailure, ParseOptions
from ingestion.parsers.html_tables import Cell, table_html, table_text

_CATEGORIES = {
    "title": "Title", "section_header": "Title", "field_heading": "Title", "list_item": "ListItem", "page_header": "Header",
    "page_footer": "Footer", "footnote": "Footnote", "caption": "FigureCaption", "formula": "Formula", "code": "CodeSnippet",
    "text": "NarrativeText", "paragraph": "NarrativeText",
}  # fmt: skip
_converters: dict[str, Any] = {}


def warm(threads: int) -> None:
    """Import docling; its models load with the first file, for which of them are needed depends on the pipeline."""
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    import docling.document_converter  # noqa: F401


def parse(path: Path, media_type: str, options: ParseOptions) -> Parsed:
    """Elements of a file; the first note says which of docling's pipelines ran, standard or VLM (PDF and images alone have a choice).

    Raises ParseFailure: corrupt (with docling's own words), too_large (pages).
    """
    del media_type
    if options.pipeline not in _converters:
        _converters[options.pipeline] = _converter(options.pipeline)
    result = _converters[options.pipeline].convert(path, raises_on_error=False, max_num_pages=options.pages)
    if result.status.value not in ("success", "partial_success"):
        count = getattr(result.input, "page_count", 0) or 0
        if count > options.pages:
            raise ParseFailure("too_large", f"{count} pages, over the limit of {options.pages}")
        told = "; ".join(error.error_message for error in result.errors) or "no reason given"
        raise ParseFailure("corrupt", f"docling ended with {result.status.value}: {told}")
    notes = [f"read by docling, {options.pipeline} pipeline"]
    if result.status.value == "partial_success":
        notes.append("; ".join(["docling read a part only", *(error.error_message for error in result.errors)]))
    return Parsed(list(elements_of(result.document)), notes)


def _converter(pipeline: str) -> Any:
    from docling.datamodel.base_models import InputFormat
    from docling.document_converter import DocumentConverter, ImageFormatOption, PdfFormatOption

    if pipeline != "vlm":
        return DocumentConverter()
    from docling.pipeline.vlm_pipeline import VlmPipeline

    return DocumentConverter(
        format_options={
            InputFormat.PDF: PdfFormatOption(pipeline_cls=VlmPipeline),
            InputFormat.IMAGE: ImageFormatOption(pipeline_cls=VlmPipeline),
        }
    )


def elements_of(document: Any) -> Iterator[Element]:
    """Our elements from a DoclingDocument, in its reading order: body, furniture and notes, what is invisible left out."""
    layers = {type(document.body.content_layer)(name) for name in ("body", "furniture", "notes")}
    for item, _ in document.iterate_items(included_content_layers=layers, traverse_pictures=True):
        label = getattr(getattr(item, "label", None), "value", "")
        page, box = _place(document, item)
        if label in ("table", "document_index") and hasattr(item, "data"):
            html = _table(item.data.table_cells)
            yield Element("Table", table_text(html) or "", page, html=html, box=box)
        elif text := (getattr(item, "text", "") or "").strip():
            category = _CATEGORIES.get(label, "UncategorizedText")
            level = (1 if label == "title" else getattr(item, "level", 1) + 1) if category == "Title" else None
            yield Element(category, text, page, level, box=box)


def _table(cells: Sequence[Any]) -> str:
    """HTML of a table; the rows above the first cell that is no column header are its header."""
    body = min((cell.start_row_offset_idx for cell in cells if not cell.column_header), default=0)
    return table_html(
        [
            Cell(
                cell.start_row_offset_idx,
                cell.start_col_offset_idx,
                cell.end_row_offset_idx - cell.start_row_offset_idx,
                cell.end_col_offset_idx - cell.start_col_offset_idx,
                " ".join(cell.text.split()),
            )
            for cell in cells
        ],
        body,
    )


def _place(document: Any, item: Any) -> tuple[int | None, Box | None]:
    """Page and box of an item's first part; the box from the page's top left, in points."""
    first = next(iter(getattr(item, "prov", None) or ()), None)
    if first is None:
        return None, None
    page = document.pages.get(first.page_no)
    if page is None or page.size is None:
        return first.page_no, None
    box = first.bbox.to_top_left_origin(page_height=page.size.height)
    return first.page_no, (box.l, box.t, box.r, box.b)
