"""Whole sentences, packed up to a size, whatever paragraph or section they stand in.

What belongs here: the places between sentences, and packing there. What does not: what ends a sentence (`ingestion.sentences`) and
packing itself (`recursive`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ingestion.chunking.budget import Budget
from ingestion.chunking.recursive import Level, split, text_levels, tidied, within
from ingestion.sentences import sentence_starts

_ROW = re.compile(r"\n")


def unit_starts(text: str, elements: Sequence[Mapping[str, Any]]) -> list[int]:
    """Where a sentence, an element or a row of a table starts, ascending, 0 left out."""
    found: set[int] = set()
    position = 0
    for element in elements:
        start, end = max(element["start"], position), element["end"]
        if start >= end:
            continue
        found.update(sentence_starts(text, position, start))
        inner = (m.end() for m in _ROW.finditer(text, start, end)) if element["category"] == "Table" else sentence_starts(text, start, end)
        found.update((start, *inner))
        position = end
    found.update(sentence_starts(text, position, len(text)), (position,))
    return sorted(found - {0, len(text)})


def chunk(text: str, elements: Sequence[Mapping[str, Any]], tokens: np.ndarray, size: int, overlap: int) -> list[tuple[int, int]]:
    """Chunks of whole sentences, at most `size` tokens each; one repeats the last whole sentences of the one before that fit in
    `overlap` tokens beside its first new sentence. A sentence over `size` is cut at words.
    """
    budget = Budget(tokens, len(text))
    return tidied(text, split(budget, 0, len(text), sentence_levels(text, unit_starts(text, elements), budget), size, overlap))


def sentence_levels(text: str, starts: Sequence[int], budget: Budget) -> list[Level]:
    """Where sentences may be parted, then words and tokens: a sentence that is too long has no better place."""
    return [within(starts, budget), *text_levels(text, budget)[-2:]]
