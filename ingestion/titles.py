"""The title of a document. What a heading is, the parser has decided; how text is cleaned is not decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

LONGEST: Final = 200


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _shortened(line: str) -> str:
    """At most 200 characters, cut at a word where there is one."""
    if len(line) <= LONGEST:
        return line
    cut = line[:LONGEST]
    return cut.rsplit(" ", 1)[0] if " " in cut else cut


def find_title(declared: str | None, elements: Sequence[Mapping[str, Any]]) -> str | None:
    """The declared title, else the first heading (category Title), else the first line with text; None without text.

    `elements` hold `category` and `text` in reading order. White space is collapsed; at most 200 characters are kept.
    """
    if declared and _one_line(declared):
        return _shortened(_one_line(declared))
    for element in elements:
        if element["category"] == "Title" and _one_line(element["text"]):
            return _shortened(_one_line(element["text"]))
    for element in elements:
        for line in element["text"].splitlines():
            if _one_line(line):
                return _shortened(_one_line(line))
    return None
