"""Tables as HTML: reading one into canonical form, its plain text, and writing one from cells.

What belongs here: the little HTML work that parsers, references and TEDS share. What does not: comparing tables (`ingestion.tables`) or
finding them (the parser modules).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any

from lxml import etree
from lxml import html as lxml_html

_SPACE = re.compile(r"\s+")


def read_table(markup: str) -> Any | None:
    """The first table of some HTML in canonical form, or None: th is td, rows that stand in no section are put in a tbody."""
    if not markup.strip():
        return None
    parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        root = lxml_html.document_fromstring(markup.encode("utf-8", errors="replace"), parser=parser)
    except etree.ParserError:  # no element at all
        return None
    found = root.xpath("//table")
    if not found:
        return None
    table = found[0]
    for cell in table.iter("th"):
        cell.tag = "td"
    body: Any = None
    for child in list(table):
        if child.tag != "tr":
            body = None
        elif body is None:
            body = etree.SubElement(table, "tbody")
            child.addprevious(body)
            body.append(child)
        else:
            body.append(child)
    return table


def span_of(value: str | None) -> int:
    """A colspan or rowspan attribute as a number; 1 for what HTML ignores."""
    return int(value) if value and value.strip().isdigit() and int(value) > 0 else 1


def table_text(markup: str) -> str | None:
    """Plain text of the first table in some HTML: a line a row, cells parted by one space. None if there is no table."""
    table = read_table(markup)
    if table is None:
        return None
    lines = []
    for row in table.iter("tr"):
        cells = [_SPACE.sub(" ", "".join(cell.itertext())).strip() for cell in row if cell.tag == "td"]
        lines.append(" ".join(cell for cell in cells if cell))
    return "\n".join(line for line in lines if line)


def with_header(markup: str, rows: int) -> str:
    """A table's HTML with its first `rows` rows in a thead. Unchanged where it has one, or a cell of them reaches below them."""
    root = lxml_html.fragment_fromstring(markup, create_parent="div")
    table = root.find(".//table")
    if table is None or rows < 1 or table.find(".//thead") is not None:
        return markup
    lines = list(table.iter("tr"))
    if rows >= len(lines) or any(i + span_of(cell.get("rowspan")) > rows for i, line in enumerate(lines[:rows]) for cell in line):
        return markup
    for child in list(table):
        table.remove(child)
    for tag, part in (("thead", lines[:rows]), ("tbody", lines[rows:])):
        etree.SubElement(table, tag).extend(part)
    return "".join(etree.tostring(child, encoding="unicode", method="html") for child in root)


@dataclass(frozen=True)
class Cell:
    """A cell of a table to be written: where it starts in the grid, what it spans, its text."""

    row: int
    column: int
    rows: int
    columns: int
    text: str


def table_html(cells: list[Cell], header_rows: int = 0) -> str:
    """HTML of a table given by its cells; the first `header_rows` rows go into a thead."""
    count = max((cell.row + cell.rows for cell in cells), default=0)
    parts = ["<table>"]
    for section, first, last in (("thead", 0, header_rows), ("tbody", header_rows, count)):
        if first >= last:
            continue
        parts.append(f"<{section}>")
        for row in range(first, last):
            parts.append("<tr>")
            for cell in sorted((cell for cell in cells if cell.row == row), key=lambda cell: cell.column):
                spans = f' colspan="{cell.columns}"' if cell.columns > 1 else ""
                spans += f' rowspan="{cell.rows}"' if cell.rows > 1 else ""
                parts.append(f"<td{spans}>{escape(cell.text, quote=False)}</td>")
            parts.append("</tr>")
        parts.append(f"</{section}>")
    return "".join((*parts, "</table>"))
