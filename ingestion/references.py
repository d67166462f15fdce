"""A reference transcript written in Markdown: its text as a reader reads it, and its headings, lists, captions, footnotes and tables.

What belongs here: what each mark of the Markdown stands for. What does not: files and their names (`labels`), and comparing anything
(`structure`, `parse_quality`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ingestion.parsers.html_tables import table_text

_CAPTION = re.compile(r"(?:table|figure|fig\.|tabel|figuur|afbeelding|tabelle|abbildung|abb\.)\s*\d+", re.I)
_SPACE = re.compile(r"\s+")
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}


@dataclass(frozen=True)
class Part:
    """A part of a reference: kind heading, list, caption, footnote or table; a list's items are the lines of its text."""

    kind: str
    text: str
    level: int | None = None
    html: str | None = None


def read_markdown(markup: str) -> tuple[str, list[Part]]:
    """Plain text and parts, in order, of a reference in Markdown (with tables and footnotes as Python-Markdown reads them).

    The text has a blank line between blocks, no bullets, but the numbers of numbered items; a table is a line a row; the call of a
    footnote is a raised number, and the notes stand at the end. A caption is a paragraph that begins with "Table 3", "Figure 2" or
    their Dutch or German names.
    """
    from lxml import html as lxml_html
    from markdown import markdown

    rendered = markdown(markup, extensions=["tables", "footnotes", "sane_lists"], output_format="html")
    root = lxml_html.fragment_fromstring(rendered, create_parent="div")
    for call in root.xpath("//sup[a[contains(@class, 'footnote-ref')]]"):
        call.text, number = "".join(call.itertext()).translate(_SUPERSCRIPT), list(call)
        for child in number:
            call.remove(child)
    for back in root.xpath("//a[contains(@class, 'footnote-backref')]"):
        back.drop_tree()
    blocks: list[str] = []
    parts: list[Part] = []
    for block in root:
        _read(block, blocks, parts)
    return "\n\n".join(text for text in blocks if text), parts


def _read(block: Any, blocks: list[str], parts: list[Part]) -> None:
    from lxml import etree

    if block.tag in _HEADINGS:
        parts.append(Part("heading", _line(block), _HEADINGS[block.tag]))
        blocks.append(_line(block))
    elif block.tag in ("ul", "ol"):
        items = _items(block)
        parts.append(Part("list", "\n".join(items)))
        blocks.extend(items)
    elif block.tag == "table":
        block.tail = None
        markup = etree.tostring(block, encoding="unicode", method="html")
        text = table_text(markup) or ""
        parts.append(Part("table", text, html=markup))
        blocks.append(text)
    elif "footnote" in (block.get("class") or "").split():
        for number, note in enumerate(block.iter("li"), 1):
            parts.append(Part("footnote", _line(note)))
            blocks.append(f"{str(number).translate(_SUPERSCRIPT)} {_line(note)}")
    elif block.tag == "blockquote":
        for child in block:
            _read(child, blocks, parts)
    elif block.tag != "hr":
        if _CAPTION.match(_line(block)):
            parts.append(Part("caption", _line(block)))
        blocks.append(_line(block))


def _items(block: Any) -> list[str]:
    """Items of a list and of the lists inside it, in reading order; numbered ones with their number."""
    found: list[str] = []
    first = int(block.get("start", 1))
    for number, item in enumerate(block.iterchildren("li"), first):
        inner = [child for child in item if child.tag in ("ul", "ol")]
        for child in inner:
            item.remove(child)
        found.append(f"{number}. {_line(item)}" if block.tag == "ol" else _line(item))
        for child in inner:
            found += _items(child)
    return found


def _line(element: Any) -> str:
    return _SPACE.sub(" ", "".join(element.itertext())).strip()
