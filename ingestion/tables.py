"""How alike two tables are: TEDS, the tree-edit-distance similarity of PubTabNet, and the small HTML work around it.

What belongs here: reading a table out of HTML, its plain text, and the similarity of two tables. What does not: finding tables
in documents (`parsers`), or pairing them with references (`transcripts`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import Any

from lxml import etree
from lxml import html as lxml_html

_SPACE = re.compile(r"\s+")
_BREAK = re.compile(r"[ \t]*[\r\n]\s*")


class TableTooLarge(ValueError):
    """A table over the stated number of nodes: the exact tree edit distance would take minutes."""


@dataclass
class _Node:
    """A node of the tree compared: a tag, the spans of a cell, its content as tokens, its children."""

    tag: str
    spans: tuple[int, int] = (1, 1)
    content: tuple[str, ...] = ()
    children: list[_Node] = field(default_factory=list)


def teds(predicted_html: str, gold_html: str, *, structure_only: bool = False, maximum_nodes: int | None = None) -> float:
    """TEDS of two HTML tables, 0 to 1: 1 - edit distance / size of the larger tree (Zhong et al. 2020, arXiv:1911.10683).

    Cells differ by the normalised Levenshtein distance of their content, character by character, with inline tags as one token
    each; `structure_only` (TEDS-S) ignores content. Both sides are first put in canonical form: th is td, line breaks and the
    indentation around them are layout, rows stand in a tbody (as the HTML standard parses them), attributes other than spans
    mean nothing. Spaces within a line count as written, as they do in the published figures.

    A prediction without a table scores 0. Raises ValueError if the gold has none, TableTooLarge if either tree is over `maximum_nodes`.
    """
    gold = _table(gold_html)
    if gold is None:
        raise ValueError("the reference holds no <table>")
    predicted = _table(predicted_html)
    if predicted is None:
        return 0.0
    sizes = [sum(1 for _ in table.iterdescendants()) for table in (predicted, gold)]
    if maximum_nodes is not None and max(sizes) > maximum_nodes:
        raise TableTooLarge(f"{max(sizes)} nodes, over the limit of {maximum_nodes}")
    trees = [_tree(table, structure_only) for table in (predicted, gold)]
    if trees[0] == trees[1]:  # the usual case of a born-digital table, without a search that is cubic in its size
        return 1.0
    from apted import APTED

    distance = APTED(*trees, _costs()).compute_edit_distance()
    return max(0.0, 1.0 - float(distance) / max(sizes))


def _costs() -> Any:
    from apted import Config
    from rapidfuzz.distance import Levenshtein

    class Costs(Config):  # type: ignore[misc]
        """One for every insertion, deletion and change of tag or span; cells with equal spans cost their text distance."""

        def rename(self, one: _Node, two: _Node) -> float:
            if one.tag != two.tag or one.spans != two.spans:
                return 1.0
            return float(Levenshtein.normalized_distance(one.content, two.content))

        def children(self, node: _Node) -> list[_Node]:
            return node.children

    return Costs()


def _table(markup: str) -> Any | None:
    """The first table of some HTML in canonical form, or None."""
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


def _span(value: str | None) -> int:
    return int(value) if value and value.strip().isdigit() and int(value) > 0 else 1


def _tree(element: Any, structure_only: bool) -> _Node:
    if element.tag == "td":
        spans = (_span(element.get("colspan")), _span(element.get("rowspan")))
        return _Node("td", spans, () if structure_only else _content(element))
    return _Node(str(element.tag), children=[_tree(child, structure_only) for child in element])


def _content(cell: Any) -> tuple[str, ...]:
    tokens: list[str] = []

    def text(value: str | None) -> None:
        tokens.extend(_BREAK.sub("\n", value or ""))

    def walk(element: Any) -> None:
        text(element.text)
        for child in element:
            tokens.append(f"<{child.tag}>")
            walk(child)
            tokens.append(f"</{child.tag}>")
            text(child.tail)

    walk(cell)
    first, last = (1 if tokens[:1] == ["\n"] else 0), (-1 if tokens[-1:] == ["\n"] else None)
    return tuple(" " if token == "\n" else token for token in tokens[first:last])


def table_text(markup: str) -> str | None:
    """Plain text of the first table in some HTML: a line a row, cells parted by one space. None if there is no table."""
    table = _table(markup)
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
    if rows >= len(lines) or any(i + _span(cell.get("rowspan")) > rows for i, line in enumerate(lines[:rows]) for cell in line):
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
