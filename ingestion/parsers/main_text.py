"""Which elements of an HTML page are its main text, as a maintained extractor sees it.

What belongs here: running trafilatura, readability-lxml or jusText over a page, and marking the elements that the text they give does
not hold. What does not: what the page's own markup says (`html_pages`), and dropping what is marked (`cleaning`).
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain, groupby, pairwise

from ingestion.parsers.elements import BOILERPLATE, Element

RULES = "rules"
"""The choice that runs no extractor: only what the page's markup says is boilerplate."""

for _name in ("trafilatura", "readability", "justext"):
    logging.getLogger(_name).addHandler(logging.NullHandler())  # what they complain of is a note of the row, no line on stderr

_WORD = re.compile(r"\w+")
_GRAM = 4
_ALIGNED = 1 << 27
"""Words by words up to which a gap is aligned, 16 MiB of bits; a larger one without a phrase of its own holds nothing worth it."""
_SHARE = 0.5
_GAP = 2
_FILLS = frozenset({"NarrativeText", "ListItem", "Table"})


def mark(page: str, elements: Sequence[Element], extractor: str) -> str | None:
    """Make what `extractor` leaves out of the page's main text Boilerplate; a note where its answer could not be used.

    An element stays if at least half of its words stand, in order, in the main text; so does a heading right above one that stays,
    and a run of at most two paragraphs, list items or tables between two that stay (extractors lose notes and captions). What the
    page's own markup calls boilerplate remains that. Where the extractor fails or finds nothing, the markup alone decides.
    """
    if all(element.category == BOILERPLATE for element in elements):
        return None
    try:
        main = _WORD.findall(EXTRACT[extractor](page).lower())
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a page does to an extractor, the page is still read
        return f"{extractor} failed ({type(error).__name__}), so the page's markup alone says what is boilerplate"
    kept = _kept(elements, main)
    if not any(kept):
        return f"{extractor} found no main text, so the page's markup alone says what is boilerplate"
    for element, keep in zip(elements, kept, strict=True):
        if not keep:
            element.category, element.heading_level = BOILERPLATE, None
    return None


def _kept(elements: Sequence[Element], main: Sequence[str]) -> list[bool]:
    words = [_WORD.findall(element.text.lower()) for element in elements]
    stands = iter(_standing(list(chain.from_iterable(words)), main))
    kept = []
    for element, mine in zip(elements, words, strict=True):
        found = sum(next(stands) for _ in mine)
        kept.append(element.category != BOILERPLATE and bool(mine) and found >= _SHARE * len(mine))
    position = 0
    for keep, run in groupby(list(kept)):
        end = position + len(list(run))
        short = position > 0 and end < len(kept) and end - position <= _GAP
        if not keep and short and all(element.category in _FILLS for element in elements[position:end]):
            kept[position:end] = [True] * (end - position)
        position = end
    for i in reversed(range(len(kept) - 1)):
        kept[i] |= elements[i].category == "Title" and kept[i + 1]
    return kept


# ---------------------------------------------------------------------------------------------------------- alignment
def _standing(page: Sequence[str], main: Sequence[str]) -> bytearray:
    """For each word of the page, 1 if it stands in the main text: a common subsequence, the longest between phrases of one place.

    Phrases of four words that stand once on both sides fix where the texts meet (as in patience diff), which keeps a page of a million
    words in bounds.
    """
    from rapidfuzz.distance import LCSseq

    stands = bytearray(len(page))
    for (start, other), (end, other_end) in pairwise([(0, 0), *_anchors(page, main), (len(page), len(main))]):
        if (end - start) * (other_end - other) <= _ALIGNED:
            for block in LCSseq.opcodes(page[start:end], main[other:other_end]):
                if block.tag == "equal":
                    stands[start + block.src_start : start + block.src_end] = b"\1" * (block.src_end - block.src_start)
    return stands


def _anchors(page: Sequence[str], main: Sequence[str]) -> list[tuple[int, int]]:
    """Positions in both texts of phrases that each has once: the longest run that rises in both."""
    here, there = _phrases(page), _phrases(main)
    pairs = sorted((position, there[phrase]) for phrase, position in here.items() if phrase in there)
    ends: list[int] = []  # ends[n]: the least end, in the main text, of a rising run of n + 1 pairs
    last: list[int] = []  # the pair it ends with
    before: list[int] = []
    for i, (_, position) in enumerate(pairs):
        n = bisect_left(ends, position)
        ends[n : n + 1], last[n : n + 1] = [position], [i]
        before.append(last[n - 1] if n else -1)
    found = []
    i = last[-1] if last else -1
    while i >= 0:
        found.append(pairs[i])
        i = before[i]
    return found[::-1]


def _phrases(words: Sequence[str]) -> dict[tuple[str, ...], int]:
    """Positions of the phrases that stand once."""
    found: dict[tuple[str, ...], int] = {}
    for i in range(len(words) - _GRAM + 1):
        phrase = tuple(words[i : i + _GRAM])
        found[phrase] = -1 if phrase in found else i
    return {phrase: i for phrase, i in found.items() if i >= 0}


# --------------------------------------------------------------------------------------------------------- extractors
def _trafilatura(page: str) -> str:
    """trafilatura without readers' comments, balanced between precision and recall; nothing is fetched."""
    import trafilatura

    return trafilatura.extract(page, include_comments=False) or ""


_BLOCKS = ("br", "dd", "div", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "pre", "td", "th", "tr")


def _readability(page: str) -> str:
    """The summary of readability-lxml as text, a line a block."""
    from lxml import html as lxml_html
    from readability import Document

    tree = lxml_html.fromstring(Document(page).summary(html_partial=True))
    for block in tree.iter(*_BLOCKS):
        block.tail = f"\n{block.tail or ''}"
    return str(tree.text_content())


def _justext(page: str) -> str:
    """Paragraphs that jusText calls good, by the word list that covers most of the page."""
    import justext

    paragraphs = justext.justext(page.encode("utf-8", errors="replace"), _stoplist(page), encoding="utf-8")
    return "\n".join(paragraph.text for paragraph in paragraphs if not paragraph.is_boilerplate)


def _stoplist(page: str) -> frozenset[str]:
    words = _WORD.findall(re.sub(r"<[^>]*>", " ", page).lower())
    return max(_stoplists(), key=lambda known: sum(word in known for word in words))


@cache
def _stoplists() -> tuple[frozenset[str], ...]:
    import justext

    return tuple(justext.get_stoplist(name) for name in sorted(justext.get_stoplists()))


EXTRACT: dict[str, Callable[[str], str]] = {"trafilatura": _trafilatura, "readability": _readability, "justext": _justext}
