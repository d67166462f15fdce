"""Where a quoted passage stands in a text: word for word, after folding, or aligned with what it says unchanged.

Everything here works on characters and half-open spans `[start, end)`. What is the same character is decided by `folding`, and which
step of ingestion lost a passage by `evidence`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from ingestion.folding import Span, fold, lower, normalise

EXACT: Final = "exact"
NORMALISED: Final = "normalised"
ALIGNED: Final = "aligned"

SHORTEST_ALIGNED: Final = 8
"""Folded characters below which a quotation is only found word for word: one edit in less makes another word of it."""

# A number with its separators and a sign that is no hyphen; superscripts and fractions too, since 10² is not 103.
_NUMBER: Final = re.compile(r"(?:(?<![\w-])-)?[\d\u00b2\u00b3\u00b9\u2070-\u2089\u00bc-\u00be\u2150-\u215e]+(?:[.,]\d+)*")
# Words that turn a statement round or bound it, in English, Dutch and German.
_TURNING: Final = re.compile(
    r"\b(?:not|no|never|none|nor|neither|without|cannot|nothing|nobody|\w+n't|only|except|unless|solely"
    r"|niet|geen|nooit|niets|niemand|zonder|noch|alleen|uitsluitend|behalve|tenzij|enkel"
    r"|nicht|kein\w{0,2}|nie|niemals|nichts|ohne|weder|nur|ausschließlich|außer|ausgenommen)\b"
)
# A word, a number with its separators or a sign. In scripts written without spaces a span may begin and end anywhere.
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN: Final = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+(?:(?<=\d)[.,]\d[^\W{_UNSPACED}]*)*|[^\w\s]")


@dataclass(frozen=True)
class Located:
    """A span `[start, end)` of a text that stands for a quotation, how it matched, and a similarity in [0, 1]."""

    start: int
    end: int
    match: str
    similarity: float


def _divides(text: str, at: int) -> bool:
    """Whether a cut before `text[at]` falls inside a number or between a letter and its accent."""
    if at == 0 or at == len(text):
        return False
    left, right = text[at - 1], text[at]
    if left.isdigit() and (right.isdigit() or (right in ".," and text[at + 1 : at + 2].isdigit())):
        return True
    if left in ".," and right.isdigit() and text[max(at - 2, 0) : at - 1].isdigit():
        return True
    return not right.isascii() and unicodedata.category(right)[0] == "M"


def _on_word_ends(text: str, start: int, end: int) -> bool:
    def joined(left: str, right: str) -> bool:
        return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")

    return not (start > 0 and joined(text[start - 1], text[start])) and not (end < len(text) and joined(text[end - 1], text[end]))


def _occurrences(quotation: str, text: str) -> Iterator[tuple[int, bool]]:
    """Places of `quotation` in `text` that cut no number or accent, each with whether it stands on word ends."""
    at = text.find(quotation)
    while at >= 0:
        end = at + len(quotation)
        if not _divides(text, at) and not _divides(text, end):
            yield at, _on_word_ends(text, at, end)
        at = text.find(quotation, at + 1)


def _literally(quotation: str, text: str) -> Located | None:
    inside_word: int | None = None
    for at, whole in _occurrences(quotation, text):
        if whole:
            return Located(at, at + len(quotation), EXACT, 1.0)
        inside_word = at if inside_word is None else inside_word
    return None if inside_word is None else Located(inside_word, inside_word + len(quotation), EXACT, 1.0)


def _normalised(quotation: str, text: str) -> Located | None:
    folded = fold(text)
    inside_word: Located | None = None
    for at, whole in _occurrences(quotation, folded.text):
        if not whole and inside_word is not None:
            continue
        span = folded.source(at, at + len(quotation))
        # Folding looks at neighbours, so the span is folded again on its own before it counts.
        if span is None or normalise(text[span[0] : span[1]]) != quotation:
            continue
        located = Located(*span, NORMALISED, 1.0)
        if whole:
            return located
        inside_word = located
    return inside_word


_GRAM: Final = 4
_MIX: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], dtype=np.uint64)


def _grams(text: str) -> np.ndarray:
    """Hashes of all runs of four characters, uint64 of shape (len - 3,)."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    count = max(len(codes) - _GRAM + 1, 0)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(_GRAM):
        hashes += codes[offset : offset + count] * _MIX[offset]
    return hashes


@lru_cache(maxsize=4)
def _gram_index(text: str) -> tuple[np.ndarray, np.ndarray]:
    hashes = _grams(text)
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order


_MOST_HITS: Final = 400_000
_WINDOWS: Final = 6
_GAIN: Final = 25.0


def _windows(quotation: str, text: str) -> list[Span]:
    """Stretches of `text` that share most runs of four characters with `quotation`, best first.

    A run votes for the place its quotation would begin; frequent runs weigh less. Similar passages share many runs: at
    a similarity of .85 at most every seventh character is replaced.
    """
    length = len(quotation)
    if len(text) <= 4 * length:
        return [(0, len(text))]
    hashes, order = _gram_index(text)
    wanted = _grams(quotation)
    left, right = np.searchsorted(hashes, wanted, "left"), np.searchsorted(hashes, wanted, "right")
    counts = right - left
    rarest = np.argsort(counts, kind="stable")
    rarest = rarest[np.cumsum(counts[rarest]) <= _MOST_HITS]
    rarest = rarest[counts[rarest] > 0]
    if not len(rarest):
        return []
    counts = counts[rarest]
    # Positions of every hit, without a Python loop over the runs.
    ends = np.cumsum(counts)
    hits = np.arange(ends[-1]) - np.repeat(ends - counts, counts) + np.repeat(left[rarest], counts)
    begins = order[hits] - np.repeat(rarest, counts) + length
    width = max(length // 2, 16)
    votes = np.bincount(begins // width, weights=np.repeat(1 / np.sqrt(counts), counts))
    pairs = votes + np.append(votes[1:], 0)
    windows: list[Span] = []
    taken: list[int] = []
    for best in np.argsort(-pairs, kind="stable")[: 4 * _WINDOWS].tolist():
        if pairs[best] <= 0 or len(windows) == _WINDOWS:
            break
        if all(abs(best - other) > 1 for other in taken):
            taken.append(best)
            begin = best * width - length
            windows.append((max(begin - width // 2, 0), min(begin + 2 * width + length + width // 2, len(text))))
    return windows


_PROBE: Final = 64
"""Characters of one machine word: up to here rapidfuzz tries every place, and quickly."""


def _rough_spans(quotation: str, part: str) -> list[Span]:
    """Spans of `part` where the quotation may about stand, from the places of its head, its tail and the whole."""
    from rapidfuzz import fuzz
    from rapidfuzz.distance import Indel

    length = len(quotation)
    head = fuzz.partial_ratio_alignment(quotation[:_PROBE], part)
    if head is None or length <= _PROBE:
        return [(head.dest_start, head.dest_end) if head else (0, len(part))]
    tail = fuzz.partial_ratio_alignment(quotation[-_PROBE:], part)
    # Head and tail may stand elsewhere too, and stray characters align anywhere: the median shift follows neither.
    blocks = [b for b in Indel.opcodes(quotation, part) if b.tag == "equal"]
    shifts = [b.dest_start - b.src_start for b in blocks]
    middle = int(np.median(np.repeat(shifts, [b.src_end - b.src_start for b in blocks]))) if blocks else 0
    starts = [head.dest_start, middle] + ([tail.dest_end - length] if tail else [])
    ends = [head.dest_start + length, middle + length] + ([tail.dest_end] if tail else [])
    return [(start, end) for start in starts for end in ends if end > start]


@dataclass(frozen=True)
class _Candidate:
    """A stretch of a folded text on word ends, and where else near it words begin and end."""

    score: float
    start: int
    end: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def _candidate(quotation: str, text: str, window: Span) -> _Candidate | None:
    """The stretch of `text[window]` that lies about where the quotation aligns; None without a word."""
    from rapidfuzz import fuzz

    offset = window[0]
    part = text[offset : window[1]]
    tokens = [match.span() for match in _TOKEN.finditer(part)]
    # A token that the window's edge cuts would put a span's end inside a word.
    if tokens and offset > 0 and tokens[0][0] == 0:
        tokens = tokens[1:]
    if tokens and window[1] < len(text) and tokens[-1][1] == len(part):
        tokens = tokens[:-1]
    if not tokens:
        return None
    reach = min(max(len(quotation) // 4, 12), 80)
    first, last = [token[0] for token in tokens], [token[1] for token in tokens]
    snapped: set[Span] = set()
    for rough in _rough_spans(quotation, part):
        begin = first[min(bisect_left(first, rough[0]), len(first) - 1)]
        snapped.add((begin, next((at for at in last[bisect_left(last, rough[1]) :] if at > begin), last[-1])))
    score, start, end = max((fuzz.ratio(quotation, part[s:e]), s, e) for s, e in sorted(snapped))
    return _Candidate(
        score,
        offset + start,
        offset + end,
        tuple(offset + token[0] for token in tokens if abs(token[0] - start) <= reach),
        tuple(offset + token[1] for token in tokens if abs(token[1] - end) <= reach),
    )


def _refined(quotation: str, text: str, candidate: _Candidate) -> tuple[float, int, int]:
    """The candidate with its ends moved, word by word, to where the similarity is highest."""
    from rapidfuzz import fuzz

    best, start, end = candidate.score, candidate.start, candidate.end
    while True:
        before = (start, end)
        for at in candidate.starts:
            if at < end and (score := fuzz.ratio(quotation, text[at:end], score_cutoff=best)) > best:
                best, start = score, at
        for at in candidate.ends:
            if at > start and (score := fuzz.ratio(quotation, text[start:at], score_cutoff=best)) > best:
                best, end = score, at
        if (start, end) == before:
            return best / 100, start, end


def _says_the_same(quotation: str, found: str) -> bool:
    """Whether two similar passages agree in what a similarity does not weigh: numbers, negations, whole words.

    Every number, and every word that negates or restricts, must be equal and in the same order. Of every word of three
    letters or more at least half the characters must be aligned; of a word with a digit, and of a lone capital, all of them.
    """
    from rapidfuzz.distance import Indel

    folded_quotation, folded_found = lower(quotation), lower(found)
    for pattern in (_NUMBER, _TURNING):
        if pattern.findall(folded_quotation) != pattern.findall(folded_found):
            return False
    aligned = np.ones(len(quotation), dtype=bool)
    for operation in Indel.editops(folded_quotation, folded_found):
        if operation.tag == "delete":
            aligned[operation.src_pos] = False
    for word in re.finditer(r"\w+", quotation):
        share = float(aligned[word.start() : word.end()].mean())
        whole = any(c.isdigit() for c in word[0]) or (len(word[0]) == 1 and word[0].isupper())
        if (whole and share < 1) or (len(word[0]) >= 3 and share < 0.5):
            return False
    return True


def _alignments(quotation: str, text: str) -> list[Located]:
    """Similar stretches of `text`, most similar first, then first in the text. `quotation` is normalised."""
    folded = fold(text)
    lowered, wanted = lower(folded.text), lower(quotation)
    rough = [near for window in _windows(wanted, lowered) if (near := _candidate(wanted, lowered, window))]
    # Moving the ends gains a few points, so a stretch far behind the best one stays behind.
    enough = max((near.score for near in rough), default=0.0) - _GAIN
    found = {_refined(wanted, lowered, near) for near in rough if near.score >= enough}
    return [
        Located(*folded.enclosing(start, end), ALIGNED, similarity)
        for similarity, start, end in sorted(found, key=lambda span: (-span[0], span[1], span[2]))
    ]


def locate(quotation: str, text: str, *, minimum: float = 0.85) -> Located | None:
    """Where `quotation` stands in `text`, or None where it does not.

    Tried in this order, white space around the quotation ignored:

    - *exact*: the same characters;
    - *normalised*: the same after `normalise`, at exact offsets of `text`;
    - *aligned*: a stretch on word ends with a similarity of at least `minimum` (1 minus the insertions and deletions over
      the sum of both lengths, case ignored), which also has the same numbers, the same negating and restricting words
      (English, Dutch, German), and for each word one that resembles it. "30 days" is not where "14 days" stands, however
      similar the sentence. Quotations under eight characters are not aligned.

    If it occurs more than once, the first occurrence on word ends counts, else the first. A place where it would cut a
    number ("30 days" in "130 days") is none.
    """
    stripped = quotation.strip()
    if not stripped or not text:
        return None
    if located := _literally(stripped, text):
        return located
    wanted = normalise(stripped)
    if not wanted:
        return None
    if located := _normalised(wanted, text):
        return located
    if len(wanted) < SHORTEST_ALIGNED:
        return None
    for candidate in _alignments(wanted, text):
        if candidate.similarity < minimum:
            break
        if _says_the_same(wanted, normalise(text[candidate.start : candidate.end])):
            return candidate
    return None


def closest(quotation: str, text: str) -> Located | None:
    """The stretch of `text` most similar to `quotation`, whatever it says: for reading side by side, never as evidence."""
    wanted = normalise(quotation)
    if not wanted or not text:
        return None
    return next(iter(_alignments(wanted, text)), None)
