"""The splitter against its definition, piece by piece and without anything counted ahead, on any text, tokens and span."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingestion.chunking import recursive
from ingestion.chunking.budget import Budget
from ingestion.chunking.recursive import split, text_levels, within
from ingestion.recent import Recent
from ingestion.tokenizers import load_tokenizer
from tests.ingestion.chunking.test_chunk_spans import hostile_tokens

Span = tuple[int, int]
Cut = Callable[[int, int], list[int]]

SEPARATORS = (
    r"\n[^\S\n]*+\n\s*+",
    r"\n\s*+",
    r"[.!?\u2026]['\"\u2019\u201d\u00bb)\]]*+\s++|[\u3002\uff01\uff1f]",
    r"\s++",
)
ALPHABET = "ab1 .!?\n\n\t\r\"')]\u2026\u201d\u3002\uff01\u00a0\u200b漢😀é"


class Definition:
    """Every number is counted from the spans of tokens when it is asked for."""

    def __init__(self, text: str, tokens: np.ndarray) -> None:
        self.text, self.starts, self.ends = text, tokens[:, 0].tolist(), tokens[:, 1].tolist()

    def count(self, start: int, end: int) -> int:
        return sum(s < end and e > start for s, e in zip(self.starts, self.ends, strict=True))

    def furthest(self, start: int, tokens: int) -> int:
        index = sum(end <= start for end in self.ends) + tokens
        return max(self.starts[index], start + 1) if index < len(self.starts) else len(self.text)

    def earliest(self, end: int, tokens: int) -> int:
        after = sum(start < end for start in self.starts)
        first = after - tokens
        if first <= 0:
            return 0
        return end if first == after else min(max(self.starts[first], self.ends[first - 1]), end)

    def levels(self) -> list[Cut]:
        def matches(pattern: re.Pattern[str]) -> Cut:
            return lambda start, end: [m.end() for m in pattern.finditer(self.text, start, end) if start < m.end() < end]

        tokens: Cut = lambda start, end: sorted({s for s in self.starts if start < s < end})  # noqa: E731
        return [*(matches(re.compile(pattern)) for pattern in SEPARATORS), tokens]

    def split(self, start: int, end: int, levels: list[Cut], size: int, overlap: int) -> list[Span]:
        if self.count(start, end) <= size or not levels:
            return [(start, end)]
        spans: list[Span] = []
        edges = [start, *levels[0](start, end), end]
        group = 0
        for i in range(len(edges) - 1):
            if self.count(edges[i], edges[i + 1]) > size:
                spans += self.pack(edges[group : i + 1], size, overlap)
                spans += self.split(edges[i], edges[i + 1], levels[1:], size, overlap)
                group = i + 1
        return spans + self.pack(edges[group:], size, overlap)

    def pack(self, edges: list[int], size: int, overlap: int) -> list[Span]:
        spans: list[Span] = []
        first, last = 0, 0
        while last < len(edges) - 1:
            last = max(bisect_right(edges, self.furthest(edges[first], size)) - 1, last + 1)
            spans.append((edges[first], edges[last]))
            if overlap and last < len(edges) - 1:
                room = min(overlap, size - self.count(edges[last], edges[last + 1]))
                first = bisect_left(edges, max(self.earliest(edges[last], room), edges[first] + 1), hi=last)
            else:
                first = last
        return spans


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, np.ndarray, Span, int, int]:
    parts = st.text(ALPHABET, max_size=60) | st.sampled_from(["\n\n\n", "A b c. D e? F", 'one." \n two', " \n ", "x" * 30, "\u3002 "])
    text = "".join(draw(st.lists(parts, max_size=6)))
    name = draw(st.sampled_from(["cl100k_base", "minilm", "hostile"]))
    tokens = draw(hostile_tokens(len(text))) if name == "hostile" else load_tokenizer(name).spans(text)
    start, end = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))) | st.just((0, len(text)))))
    size = draw(st.integers(1, 30))
    return text, tokens, (start, end), size, draw(st.just(0) | st.integers(0, size - 1))


def every_character(text: str) -> np.ndarray:
    at = np.arange(len(text), dtype=np.int32)
    return np.stack([at, at + 1], axis=1)


@settings(max_examples=1_000)
@given(cases())
@example(('a." b c d', every_character('a." b c d'), (2, 8), 2, 0))  # begins inside what ends a sentence
@example(("a\n\n\nb c d e", every_character("a\n\n\nb c d e"), (3, 11), 3, 1))  # begins inside a blank line
def test_a_span_is_split_as_by_the_definition_whatever_its_text_and_where_it_begins(case: tuple[str, np.ndarray, Span, int, int]) -> None:
    text, tokens, (start, end), size, overlap = case
    budget, definition = Budget(tokens, len(text)), Definition(text, tokens)
    expected = definition.split(start, end, definition.levels(), size, overlap)
    assert split(budget, start, end, text_levels(text, budget), size, overlap) == expected
    own = list(range(0, len(text), 7))
    inner: Cut = lambda start, end: [place for place in own if start < place < end]  # noqa: E731
    expected = definition.split(start, end, [inner, *definition.levels()], size, overlap)
    assert split(budget, start, end, [within(own, budget), *text_levels(text, budget)], size, overlap) == expected


def test_boundaries_are_found_once_for_all_sizes_and_never_taken_for_another_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recursive, "_kept", Recent(100))
    text = "a b c d. e f g h. i j k l."
    shared, own = every_character(text), every_character(text)
    shared.setflags(write=False)
    first = text_levels(text, Budget(shared, len(text)))
    assert text_levels(text, Budget(shared, len(text))) is first
    assert text_levels(text.upper(), Budget(shared, len(text))) is not first
    # An array that can be written to may hold other tokens next time.
    assert text_levels(text, Budget(own, len(text))) is not text_levels(text, Budget(own, len(text)))
