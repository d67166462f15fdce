"""Where sentences of a text end, for English, Dutch and German, in one pass over it.

What belongs here: the marks that end a sentence and the places where they do not. What does not: headings, table rows and list items,
which the elements of a document part (`ingestion.chunking.sentence`). In doubt nothing is cut: two sentences left together cost a
little room, half a sentence costs its meaning.
"""

from __future__ import annotations

import re

_END = re.compile(
    # Begun at a run's first mark only, or a long run would be walked from each of its marks.
    r"(?P<mark>(?<![.!?\u2026])[.!?\u2026]++)['\"\u2019\u201d\u201c\u00bb)\]]*+(?P<after>\s++)"
    r"|[\u3002\uff01\uff1f]++[\u300d\u300f\u201d\u2019\uff09]*+\s*+"
    r"|\n[^\S\n]*+\n\s*+"
    r"|\n(?=[^\S\n]*+(?:[-*\u2022\u2013]\s|\d{1,2}[.)]\s|\|))"
)
_OPENERS = "\"'\u201c\u2018\u201e\u201a\u00ab\u00bb([\u00bf\u00a1"
_LOOK_BACK = 24
"""Characters before a full stop in which an abbreviation is looked for."""

_BEFORE = re.compile(r"[^\s(\[\"'\u201c\u201e/]+\Z")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]\Z|\d{1,2}\Z")
_DUTCH_ARTICLE = re.compile(r"['\u2019][a-z]\s[A-Z\u00c0-\u00d6\u00d8-\u00de]")

# Words whose full stop goes on. One that usually ends its sentence where a capital follows (etc., usw., enz., Inc.) is not among them.
_GO_ON = (
    "mr mrs ms dr drs prof ir ing st sr jr rev gen col capt hon messrs approx ca cf vs viz al resp incl excl tel dept est min max "
    "bijv bv dhr mevr mw evt jl vgl zgn tgv tav mbt ipv ivm nl "
    "bzw bspw bsp evtl ggf hr fr frl inkl exkl zzgl mind sog ung bzgl dipl gem geb lfd od str verf allg entspr"
)
_BEFORE_A_NUMBER = "no nos nr nrs fig figs eq eqs sec sect ch chap vol pp pt art arts blz afb hfst tab tabel lid abb abs kap bd ziff rn"
_ALWAYS, _NUMBERED = frozenset(_GO_ON.split()), frozenset(_BEFORE_A_NUMBER.split())


def sentence_starts(text: str, start: int = 0, end: int | None = None) -> list[int]:
    """Characters strictly inside [start, end) where a sentence begins after another, ascending.

    A sentence keeps the white space that ends it. A blank line ends one, so does a line before a list item or table row; a line
    break alone does not. A full stop ends none after an abbreviation, an initial or a number of one or two digits (an ordinal in
    German), and no mark does where a small letter follows.
    """
    end = len(text) if end is None else end
    return [m.end() for m in _END.finditer(text, start, end) if start < m.end() < end and (m["mark"] is None or _ends(text, m))]


def _ends(text: str, match: re.Match[str]) -> bool:
    if text.count("\n", match.start("after"), match.end("after")) > 1:
        return True
    following = match.end()
    while following < len(text) - 1 and text[following] in _OPENERS and not _DUTCH_ARTICLE.match(text, following):
        following += 1
    if text[following].islower():
        return False
    if match["mark"] != ".":
        return True
    word = _BEFORE.search(text, max(0, match.start() - _LOOK_BACK), match.start())
    if word is None:
        return True
    before = word[0].casefold()
    if before in _NUMBERED and text[following].isdigit():
        return False
    return before not in _ALWAYS and not _INITIALS.match(word[0])
