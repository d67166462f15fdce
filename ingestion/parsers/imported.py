"""Text that an outside reader (an OCR service, a vision model) took from a document, page by page, as elements.

What belongs here: the three forms such a text may have, and paragraphs and headings in it. What does not: finding the file (`sources`) or
calling a reader: this project measures what it is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from ingestion.media_types import MARKDOWN, NDJSON
from ingestion.parsers.decoding import decode
from ingestion.parsers.elements import Element, Parsed, ParseFailure, ParseOptions, join_lines, starts_list_item, without_bullet
from ingestion.parsers.html_tables import read_table, table_text

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*")
_PARTS = re.compile(r"\n[ \t]*\n+")
_FIELDS = {"text": False, "markdown": True}


def warm(threads: int) -> None:
    """Nothing to load."""
    del threads


def parse(path: Path, media_type: str, options: ParseOptions) -> Parsed:
    """Elements of an import, page by page: paragraphs parted by empty lines, in Markdown also headings, lists and HTML tables.

    JSON Lines hold {"page": number from 1, "text" or "markdown": content}, in any order, a page once; .md and .txt hold pages parted by
    form feeds. Raises ParseFailure: corrupt (naming the line), undecodable, too_large (pages).
    """
    text, note = decode(path.read_bytes())
    pages = _lines(text) if media_type == NDJSON else [(i, page, media_type == MARKDOWN) for i, page in enumerate(text.split("\f"), 1)]
    if len(pages) > options.pages:
        raise ParseFailure("too_large", f"{len(pages)} pages, over the limit of {options.pages}")
    return Parsed([element for page in sorted(pages) for element in _page(*page)], ["imported text", *([note] if note else [])])


def _lines(text: str) -> list[tuple[int, str, bool]]:
    pages: dict[int, tuple[int, str, bool]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ParseFailure("corrupt", f"line {number} of the import is no JSON: {error}") from None
        found = [name for name in _FIELDS if isinstance(row, dict) and isinstance(row.get(name), str)]
        page = row.get("page") if isinstance(row, dict) else None
        if len(found) != 1 or not isinstance(page, int) or isinstance(page, bool) or page < 1:
            wanted = '{"page": 1, "text": "..."}, or "markdown" instead of "text"'
            raise ParseFailure("corrupt", f"line {number} of the import is not {wanted}")
        if page in pages:
            raise ParseFailure("corrupt", f"line {number} of the import gives page {page} again; keep one")
        pages[page] = (page, row[found[0]], _FIELDS[found[0]])
    return list(pages.values())


def _page(page: int, text: str, markdown: bool) -> Iterator[Element]:
    for part in _PARTS.split(text.replace("\r\n", "\n")):
        lines = [line.strip() for line in part.split("\n") if line.strip()]
        if not lines:
            continue
        if markdown and lines[0].lower().startswith("<table") and read_table(part) is not None:
            yield Element("Table", table_text(part) or "", page, html=part.strip())
            continue
        held: list[str] = []
        for line in lines:
            heading = _HEADING.fullmatch(line) if markdown else None
            if heading or starts_list_item(line):
                yield from _paragraph(held, page)
                held = []
            if heading:
                yield Element("Title", heading[2], page, len(heading[1]))
            else:
                held.append(line)
        yield from _paragraph(held, page)


def _paragraph(lines: list[str], page: int) -> Iterator[Element]:
    if lines:
        text = join_lines(lines)
        yield Element("ListItem", without_bullet(text), page) if starts_list_item(text) else Element("NarrativeText", text, page)
