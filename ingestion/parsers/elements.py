"""What every parser returns: elements in reading order, or a typed failure; and how they become rows of `parsed_documents`.

What belongs here: the element, the failure, heading paths and row assembly. What does not: reading any format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

BOILERPLATE = "Boilerplate"
"""Category of navigation, banners and other furniture of an HTML page: unstructured has no name for it."""

FURNITURE = frozenset({"Header", "Footer", "PageNumber", BOILERPLATE})
"""Categories that repeat around the text and are no part of it."""

Box = tuple[float, float, float, float]


class ParseFailure(Exception):
    """A file that cannot be parsed, for a reason of the closed list in `tables.REASONS`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class ParseOptions:
    """What a parser module is told: rendering resolution, most pages read, largest unpacked size, threads it may use; which of its
    pipelines or OCR engines reads, in which languages; who says what the main text of an HTML page is."""

    dpi: int = 200
    pages: int = 2000
    megabytes: int = 256
    threads: int = 1
    pipeline: str = "standard"
    engine: str = "rapidocr"
    languages: tuple[str, ...] = ()
    main_text: str = "rules"


@dataclass
class Element:
    """One element. `box` is x0, y0, x1, y1 in points from the page's top left; `heading_level` counts from 1, on Title only."""

    category: str
    text: str
    page: int | None = None
    heading_level: int | None = None
    html: str | None = None
    box: Box | None = None


@dataclass
class Parsed:
    """A parsed file: its elements, and notes on what the parser had to work around (kept in the first row's detail)."""

    elements: list[Element] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class ParseRequest(NamedTuple):
    """A file to parse: `sha256` is that of the bytes expected, as the corpus was listed."""

    doc_id: str
    path: Path
    media_type: str
    doc_class: str
    sha256: str


def ok_rows(request: ParseRequest, parsed: Parsed, seconds: float) -> list[dict[str, Any]]:
    """Rows of `parsed_documents` (without work_key) for a parsed file. Raises ParseFailure `no_text` where nothing is left to read."""
    kept = [element for element in parsed.elements if element.text.strip() or element.html]
    if not any(character.isalnum() for element in kept for character in element.text):
        raise ParseFailure("no_text", "; ".join(["no element holds a letter or digit", *parsed.notes]))
    rows = []
    above: list[tuple[int, str]] = []
    for order, element in enumerate(kept):
        level = (element.heading_level or 1) if element.category == "Title" else None
        if level is not None:
            above = [entry for entry in above if entry[0] < level]
        rows.append(
            _row(request, seconds)
            | {
                "order": order,
                "page": element.page,
                "category": element.category,
                "heading_level": level,
                # Furniture stands under no heading: it belongs to the page, not to the section that happens to be open.
                "heading_path": [] if element.category in FURNITURE else [text for _, text in above],
                "text": element.text,
                "html": element.html,
                "box": [round(value, 2) for value in element.box] if element.box else None,
                "detail": "; ".join(parsed.notes) or None if order == 0 else None,
            }
        )
        if level is not None:
            above.append((level, element.text))
    return rows


def failed_rows(request: ParseRequest, reason: str, detail: str, seconds: float | None = None) -> list[dict[str, Any]]:
    """The one row of a file that failed."""
    return [_row(request, seconds) | {"status": "failed", "reason": reason, "detail": stable(detail, request.path)}]


def not_applicable_rows(request: ParseRequest) -> list[dict[str, Any]]:
    """The one row of a file whose class the parser does not declare."""
    return [_row(request, None) | {"status": "not_applicable", "reason": "class_not_declared"}]


def _row(request: ParseRequest, seconds: float | None) -> dict[str, Any]:
    return {
        "doc_id": request.doc_id,
        "order": 0,
        "page": None,
        "category": None,
        "heading_level": None,
        "heading_path": [],
        "text": "",
        "html": None,
        "box": None,
        "doc_class": request.doc_class,
        "source_sha256": request.sha256,
        "status": "ok",
        "reason": None,
        "detail": None,
        "seconds": seconds,
    }


_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_FOLDERS = re.compile(r"(?<![\w./])/(?:[^\s\"'/]+/)+")
_SPACES = re.compile(r"\s+")
_LONGEST_DETAIL = 500


def stable(detail: str, path: Path) -> str:
    """An error text that is the same on every run and machine: no folders, no addresses, no traceback, one line, bounded."""
    if "Traceback (most recent call last)" in detail:
        detail = detail.strip().splitlines()[-1]
    detail = _FOLDERS.sub("", detail.replace(str(path), path.name))
    return _SPACES.sub(" ", _ADDRESS.sub("0x...", detail)).strip()[:_LONGEST_DETAIL]


# -------------------------------------------------------------------------------------------------------------- text
_BULLET = re.compile(r"[•‣◦▪●○■□➢➤✓✔·∙–—*\-‐-―]\s+\S")
_NUMBER = re.compile(r"(?:\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})\)|(?:\d{1,3}|[a-z])\.)\s+\S")
_FIRST_WORD = re.compile(r"[^\w-]")
_SENTENCE_END = (".", "!", "?", ":", ";", ",")


def starts_list_item(text: str) -> bool:
    """Whether a line opens an item of a list: a bullet, or a number or letter with a full stop or parenthesis."""
    if text[:1].isalpha() and text[1:2] != "." and ")" not in text[:6]:
        return False  # most lines, told without a pattern
    return bool(_BULLET.match(text) or _NUMBER.match(text))


def without_bullet(text: str) -> str:
    """A list item without its bullet, which its category already says; numbers and letters stay, for text refers to them."""
    return text.split(maxsplit=1)[1] if _BULLET.match(text) else text


def ends_sentence(text: str) -> bool:
    """Whether a text ends in punctuation that a heading does not end in."""
    return text.rstrip().rstrip("\"'”’»)").endswith(_SENTENCE_END)


# "Ein- und Ausgang", "in- en uitgang": what is left out there is the end of the first word, not a break in it.
_SUSPENDED = frozenset({"und", "oder", "bis", "sowie", "bzw", "en", "of", "tot", "and", "or", "to"})


def join_lines(lines: Sequence[str], words: frozenset[str] = frozenset()) -> str:
    """Lines of one paragraph as one text, words that a line break cut in two made whole.

    A hyphen before a break goes when the next line starts in lower case, unless that is a conjunction or `words` (lower case, of
    the whole document) holds the hyphenated form and not the joined one. A soft hyphen always goes.
    """
    text = ""
    for line in (line.strip() for line in lines):
        if not line:
            continue
        if text.endswith("\u00ad"):
            text = text[:-1] + line
            continue
        hyphened = len(text) > 1 and text[-1] in "-‐" and text[-2].isalnum()
        right = _FIRST_WORD.split(line, maxsplit=1)[0].lower() if hyphened else ""
        if not hyphened or right in _SUSPENDED:
            text += (" " if text else "") + line
        elif text[-2].isalpha() and line[0].islower():
            left = text[:-1].split()[-1].lower()
            keeps = f"{left}-{right}" in words and left + right not in words
            text = (text if keeps else text[:-1]) + line
        else:
            text += line  # "2024-\n2025", "EU-\nCommission": the hyphen is part of the word
    return text.replace("\u00ad", "")
