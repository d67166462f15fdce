"""The form in which two passages are the same passage: case kept, typography and layout folded, every offset mapped back.

What belongs here: what counts as the same character. What does not: finding a passage (`quotations`).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

Span = tuple[int, int]

# Characters that show nothing (Default_Ignorable_Code_Point): soft hyphen, zero width, joiners, bidirectional controls, variation
# selectors, BOM, tags.
INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
DASHES: Final = "\\-\u2010-\u2015\u2212\ufe58\ufe63\uff0d"
_QUOTES: Final = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2035\u02bc\u02b9\u0060\u00b4\u2039\u203a", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u2036\u00ab\u00bb\u301d\u301e", '"'),
    "\u2044": "/",
}
_LETTER: Final = r"[^\W\d_]"


@dataclass(frozen=True)
class Folded:
    """A folded text with the pieces it was made from, so that its offsets map back to the source exactly.

    Piece i begins at `begins[i]` of the folded text and stands for `[starts[i], ends[i])` of the source. A verbatim piece
    may be entered anywhere; a replaced one (a ligature, a white space run) only as a whole.
    """

    text: str
    begins: list[int]
    starts: list[int]
    ends: list[int]
    verbatim: list[bool]

    def source(self, start: int, end: int) -> Span | None:
        """The source span of folded `[start, end)`; None where an end falls inside a replaced piece."""
        first, last = bisect_right(self.begins, start) - 1, bisect_right(self.begins, end - 1) - 1
        if self.verbatim[first]:
            source_start = self.starts[first] + start - self.begins[first]
        elif start == self.begins[first]:
            source_start = self.starts[first]
        else:
            return None
        if self.verbatim[last]:
            return source_start, self.starts[last] + end - self.begins[last]
        following = self.begins[last + 1] if last + 1 < len(self.begins) else len(self.text)
        return (source_start, self.ends[last]) if end == following else None

    def enclosing(self, start: int, end: int) -> Span:
        """The smallest source span that holds folded `[start, end)`."""
        first, last = bisect_right(self.begins, start) - 1, bisect_right(self.begins, end - 1) - 1
        inside = start - self.begins[first] if self.verbatim[first] else 0
        source_end = self.starts[last] + end - self.begins[last] if self.verbatim[last] else self.ends[last]
        return self.starts[first] + inside, source_end


def _replacement(character: str) -> str:
    """What one character folds to: NFKC with typographic quotes and dashes made plain."""
    if re.match(f"[{DASHES}]", character):
        return "-"
    folded = unicodedata.normalize("NFKC", character)
    if folded.startswith(" ") and not character.isspace():
        folded = character  # a spacing accent would fall apart into a space and a mark
    return "".join(_QUOTES.get(part, part) for part in folded)


@lru_cache(maxsize=4096)
def _behaviour(character: str) -> str:
    """How folding treats a character: "mark", "changing", or "" for one that is kept, blank or invisible."""
    if character.isspace() or re.match(f"[{INVISIBLE}]", character):
        return ""
    if unicodedata.category(character)[0] == "M" or "\u1161" <= character <= "\u11ff":
        return "mark"
    return "changing" if _replacement(character) != character else ""


@lru_cache(maxsize=256)
def _pattern(marks: str, changing: str) -> re.Pattern[str]:
    """Everything that does not fold to itself in a text with these characters; named groups say what it is."""
    blank = rf"[\s{INVISIBLE}]"
    after_letter = rf"(?:(?<=[^\W\d_])|(?<=[{marks}]))" if marks else r"(?<=[^\W\d_])"
    alternatives = [
        rf"(?P<break>(?<=[\w{marks}])[{DASHES}]{blank}*\n{blank}*(?=\w))",
        rf"(?P<hyphen>{after_letter}[{DASHES}](?={_LETTER}))",
        rf"(?P<blank>(?! (?!{blank})){blank}+)",
    ]
    if marks:
        alternatives.insert(0, rf"(?P<cluster>[^\s{marks}{INVISIBLE}]?[{marks}]+)")
    if changing:
        alternatives.append(f"(?P<changing>[{re.escape(changing)}])")
    return re.compile("|".join(alternatives))


def _base(text: str, end: int) -> str:
    """The character that carries the marks before `end`."""
    at = end - 1
    while at > 0 and _behaviour(text[at]) == "mark":
        at -= 1
    return text[at]


def _fold_blank(found: str) -> str:
    hyphenated = found.startswith("\u00ad") and "\n" in found
    return " " if not hyphenated and any(c.isspace() for c in found) else ""


def _fold_match(text: str, match: re.Match[str]) -> str:
    found = match[0]
    if match.lastgroup == "cluster":
        return unicodedata.normalize("NFKC", found)
    if match.lastgroup == "hyphen":
        return "" if _base(text, match.start()).isalpha() else "-"
    if match.lastgroup == "break":
        base = _base(text, match.start())
        if not (base.isalnum() or base == "_"):
            return "-" + _fold_blank(found[1:])
        return "" if base.isalpha() and text[match.end()].isalpha() else "-"
    if match.lastgroup == "blank":
        return _fold_blank(found)
    folded = _replacement(found)
    after_digit = match.start() > 0 and text[match.start() - 1].isnumeric()
    if after_digit and folded[0].isdigit() and not found.isdecimal():
        return found  # 10² would become 102
    return folded


@lru_cache(maxsize=32)
def fold(text: str) -> Folded:
    pieces: list[str] = []
    begins: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    verbatim: list[bool] = []
    length = 0

    def add(piece: str, start: int, end: int, unchanged: bool) -> None:
        nonlocal length
        if piece:
            pieces.append(piece)
            begins.append(length)
            starts.append(start)
            ends.append(end)
            verbatim.append(unchanged)
            length += len(piece)

    alphabet = sorted(set(text))
    marks = "".join(c for c in alphabet if _behaviour(c) == "mark")
    changing = "".join(c for c in alphabet if _behaviour(c) == "changing")
    position = 0
    for match in _pattern(marks, changing).finditer(text):
        add(text[position : match.start()], position, match.start(), True)
        add(_fold_match(text, match), match.start(), match.end(), False)
        position = match.end()
    add(text[position:], position, len(text), True)
    return Folded("".join(pieces), begins, starts, ends, verbatim)


def normalise(text: str) -> str:
    """The form in which two passages are the same passage: case kept, typography and layout folded.

    White space runs become one space; invisible characters go; hyphens between letters go, with the line break after
    them; Unicode is NFKC, except where a superscript or fraction would join the number before it; quotes and dashes are plain.
    """
    return fold(text).text.strip(" ")


def lower(text: str) -> str:
    """Lower case, character by character, so that offsets stay."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return text.translate({ord(c): c.lower() for c in set(text) if len(c.lower()) == 1})
