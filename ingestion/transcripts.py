"""Two texts of one document compared: what a person checked, and what a parser read. CER, WER, what was mistaken for what, order.

What belongs here: normalisation, error counts with the places of the errors, reading order. What does not: documents, their parts and the
rows about them (`parse_quality`, `structure`).
"""

from __future__ import annotations

import itertools
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\w+", re.UNICODE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n")


@dataclass(frozen=True)
class Change:
    """A run of units that were read wrong: `start` and `end` in the hypothesis; one side is empty for an insertion or omission."""

    expected: str
    found: str
    start: int
    end: int
    edits: int


@dataclass(frozen=True)
class Alignment:
    """The least edits that turn a reference into a hypothesis, of so many reference units, and where they stand.

    `kept` are the runs read right: (start in the hypothesis, units).
    """

    edits: int
    units: int
    changes: tuple[Change, ...]
    kept: tuple[tuple[int, int], ...]


def normalise(text: str, *, case: str, whitespace: str, punctuation: str, unicode_form: str) -> str:
    """Text under a normalisation policy: case keep|lower, whitespace keep|collapse, punctuation keep|remove, unicode_form NFC|NFKC.

    Punctuation is Unicode category P. Collapsed white space is one space, none at the ends. Raises ValueError for another word.
    """
    for name, value, allowed in (
        ("case", case, ("keep", "lower")),
        ("whitespace", whitespace, ("keep", "collapse")),
        ("punctuation", punctuation, ("keep", "remove")),
        ("unicode_form", unicode_form, ("NFC", "NFKC")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be {' or '.join(allowed)}, not {value!r}")
    text = unicodedata.normalize("NFKC" if unicode_form == "NFKC" else "NFC", text)
    if case == "lower":
        text = text.lower()
    if punctuation == "remove":
        text = "".join(character for character in text if not unicodedata.category(character).startswith("P"))
    return _SPACE.sub(" ", text).strip() if whitespace == "collapse" else text


def align_characters(reference: str, hypothesis: str) -> Alignment:
    """Alignment by code points, with jiwer: CER is its edits over its units (insertions count, so it may pass 1)."""
    import jiwer

    # jiwer's own default strips both sides, which is for the policy to say.
    apart = jiwer.Compose([jiwer.ReduceToListOfListOfChars()])
    return _alignment(jiwer.process_characters, apart, reference, hypothesis, reference, hypothesis, "")


def align_words(reference: str, hypothesis: str) -> Alignment:
    """The same by words, being what white space parts: WER."""
    import jiwer

    apart = jiwer.Compose([jiwer.RemoveMultipleSpaces(), jiwer.Strip(), jiwer.ReduceToListOfListOfWords()])
    expected, found = reference.split(), hypothesis.split()
    return _alignment(jiwer.process_words, apart, " ".join(expected), " ".join(found), expected, found, " ")


def _alignment(
    process: Any, apart: Any, reference: str, hypothesis: str, expected: Sequence[str], found: Sequence[str], separator: str
) -> Alignment:
    if not expected or not found:  # jiwer refuses an empty reference
        size = len(expected) + len(found)
        change = Change(separator.join(expected), separator.join(found), 0, len(found), size)
        return Alignment(size, len(expected), (change,) if size else (), ())
    output = process(reference, hypothesis, reference_transform=apart, hypothesis_transform=apart)
    changes, kept = [], []
    for equal, chunks in itertools.groupby(output.alignments[0], lambda chunk: chunk.type == "equal"):
        run = list(chunks)  # "m" read as "rn" is an insertion and a substitution: told as one change
        start, end = run[0].hyp_start_idx, run[-1].hyp_end_idx
        if equal:
            kept.append((start, end - start))
            continue
        sides = expected[run[0].ref_start_idx : run[-1].ref_end_idx], found[start:end]
        cost = sum(max(c.ref_end_idx - c.ref_start_idx, c.hyp_end_idx - c.hyp_start_idx) for c in run)
        changes.append(Change(separator.join(sides[0]), separator.join(sides[1]), start, end, cost))
    edits = output.substitutions + output.insertions + output.deletions
    return Alignment(edits, len(expected), tuple(changes), tuple(kept))


def costliest(changes: Sequence[tuple[str, str, int, int]], most: int = 20, longest: int = 80) -> list[dict[str, Any]]:
    """What was mistaken for what, most edits first: {expected, found, count, edits} of (expected, found, count, edits), merged.

    An empty `expected` is an insertion, an empty `found` an omission. Texts are cut to `longest` characters after they are counted.
    """
    counts: Counter[tuple[str, str]] = Counter()
    edits: Counter[tuple[str, str]] = Counter()
    for expected, found, count, cost in changes:
        counts[expected, found] += count
        edits[expected, found] += cost
    ordered = sorted(counts, key=lambda pair: (-edits[pair], -counts[pair], pair))[:most]
    return [{"expected": pair[0][:longest], "found": pair[1][:longest], "count": counts[pair], "edits": edits[pair]} for pair in ordered]


def reading_order(reference: str, hypothesis: str) -> float | None:
    """Kendall's tau between the order of the reference's sentences and the order in which the hypothesis has them, -1 to 1.

    A sentence is matched by its words, and pairs of words, that stand exactly once on both sides; it is placed at the median of
    theirs in the hypothesis. None where fewer than two sentences match.
    """
    blocks = [_words(block) for block in _SENTENCE.split(reference)]
    target = _words(hypothesis)
    both = _singles([word for block in blocks for word in block]) & _singles(target)
    position = {term: i for i, term in _terms(target) if term in both}
    places = []
    for block in blocks:
        found = [position[term] for _, term in _terms(block) if term in position]
        if found:
            places.append(statistics.median(found))
    if len(places) < 2 or len(set(places)) < 2:
        return None
    from scipy.stats import kendalltau

    return float(kendalltau(range(len(places)), places).statistic)


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


def _terms(words: Sequence[str]) -> list[tuple[int, str]]:
    """Words and neighbouring pairs, each with the position of its first word."""
    return [*enumerate(words), *((i, f"{one} {two}") for i, (one, two) in enumerate(itertools.pairwise(words)))]


def _singles(words: Sequence[str]) -> set[str]:
    counts = Counter(term for _, term in _terms(words))
    return {term for term, count in counts.items() if count == 1}
