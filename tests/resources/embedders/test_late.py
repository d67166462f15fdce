"""A document goes through the model once, each token is taken where it is most central, and every chunking is served."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.resources.embedders import load_embedder
from rag_eval_assets.resources.embedders.late import LateDocument, Window, embed_spans, token_ranges, windows
from rag_eval_assets.resources.stores import SqliteStore


class Letters:
    """Every letter is a token. Its vector says which letter it is and how far from its window's centre it was seen."""

    name, dimension, identity, limit, window = "letters", 3, "letters 1", None, 10

    def __init__(self) -> None:
        self.seen: list[str] = []

    def prefix(self, *, query: bool) -> str:
        return ""

    def tokenize(self, text: str) -> tuple[list[int], np.ndarray]:
        spans = [(i, i + 1) for i, letter in enumerate(text) if letter != " "]
        return [ord(text[a]) for a, _ in spans], np.array(spans, dtype=np.int64).reshape(-1, 2)

    def token_vectors(self, windows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        self.seen += ["".join(map(chr, window)) for window in windows]
        return [self.hidden(window) for window in windows]

    @staticmethod
    def hidden(window: Sequence[int]) -> np.ndarray:
        centre = (len(window) - 1) / 2
        return np.array([[1, token, abs(i - centre)] for i, token in enumerate(window)], dtype=np.float32)


def _by_hand(text: str, span: tuple[int, int], stride: int) -> np.ndarray:
    """The rule told again, token by token."""
    tokens = [i for i, letter in enumerate(text) if letter != " "]
    size = Letters.window
    starts, at = [], 0
    while at + size < len(tokens):
        starts.append(at)
        at += stride
    starts.append(max(0, len(tokens) - size))
    rows = []
    for number, place in enumerate(tokens):
        if span[0] <= place < span[1]:
            holding = [s for s in starts if s <= number < s + size]
            best = min(holding, key=lambda s: (abs(number - (s + min(s + size, len(tokens)) - 1) / 2), s))
            seen = [ord(text[tokens[i]]) for i in range(best, min(best + size, len(tokens)))]
            rows.append(Letters.hidden(seen)[number - best])
    mean = np.mean(rows, axis=0)
    return mean / np.linalg.norm(mean)


def test_a_long_text_goes_through_overlapping_windows_and_the_last_ends_with_it() -> None:
    # Centres 4.5, 8.5, 12.5 and 14.5: borders in the middle between two of them.
    assert windows(20, 10, 4) == [Window(0, 10, 0, 7), Window(4, 14, 7, 11), Window(8, 18, 11, 14), Window(10, 20, 14, 20)]
    assert windows(10, 10, 4) == [Window(0, 10, 0, 10)]
    assert windows(3, 10, 4) == [Window(0, 3, 0, 3)]
    assert windows(11, 10, 10) == [Window(0, 10, 0, 6), Window(1, 11, 6, 11)]
    assert windows(0, 10, 4) == []


@pytest.mark.parametrize("stride", [0, -1, 11])
def test_a_stride_that_leaves_tokens_out_is_refused(stride: int) -> None:
    with pytest.raises(ValueError, match=f"a stride of {stride} tokens"):
        windows(30, 10, stride)


@given(st.integers(1, 200), st.integers(1, 40), st.data())
def test_every_token_is_taken_once_from_the_window_where_it_is_most_central(count: int, size: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, size))
    cut = windows(count, size, stride)
    assert [t for w in cut for t in range(w.first, w.last)] == list(range(count))
    for window in cut:
        for token in range(window.first, window.last):
            off = {abs(2 * token - w.start - w.end + 1) for w in cut if w.start <= token < w.end}
            assert abs(2 * token - window.start - window.end + 1) == min(off)
    assert all(b.start - a.start <= stride for a, b in pairwise(cut))
    assert max(w.end - w.start for w in cut) <= size


def test_a_chunk_takes_the_tokens_that_overlap_it() -> None:
    tokens = np.array([[0, 3], [4, 7], [7, 9]])
    assert token_ranges(tokens, [(0, 9), (2, 5), (3, 4), (7, 9), (8, 20)]).tolist() == [[0, 3], [0, 2], [1, 1], [2, 3], [2, 3]]


TEXT = "the quick brown fox jumps over the lazy dog and naps"


@pytest.mark.parametrize("stride", [1, 4, 7, 10])
def test_a_chunks_vector_is_the_mean_over_its_tokens(stride: int) -> None:
    spans = ((0, 19), (4, 9), (16, 40), (0, len(TEXT)), (50, 52))
    (found,) = embed_spans([LateDocument(TEXT, "d", spans)], Letters(), None, stride=stride)
    for span in spans:
        assert found[span] == pytest.approx(_by_hand(TEXT, span, stride), abs=1e-6)
        assert found[span].dtype == np.float32


def test_a_span_without_tokens_has_no_vector_and_costs_no_pass() -> None:
    embedder = Letters()
    assert embed_spans([LateDocument("a  b", "d", ((1, 3),)), LateDocument("", "e", ())], embedder, None, stride=4) == [{(1, 3): None}, {}]
    assert embedder.seen == []


def test_one_pass_serves_every_chunking(tmp_path: Path) -> None:
    store, first, other = SqliteStore(tmp_path / "v.sqlite"), Letters(), Letters()
    asked: list[str] = []

    def ahead() -> list[tuple[int, int]]:
        asked.append("ahead")
        return [(0, 9), (10, 19)]

    embed_spans([LateDocument(TEXT, "d", ((0, 19),), ahead)], first, store, stride=4)
    (found,) = embed_spans([LateDocument(TEXT, "d", ((0, 9), (10, 19)), ahead)], other, store, stride=4)
    assert (len(first.seen) > 1, other.seen, asked) == (True, [], ["ahead"])
    assert found[10, 19] == pytest.approx(_by_hand(TEXT, (10, 19), 4), abs=1e-6)


@pytest.mark.parametrize("change", ["document", "stride", "model"])
def test_another_document_window_rule_or_model_never_reads_these_vectors(tmp_path: Path, change: str) -> None:
    store = SqliteStore(tmp_path / "v.sqlite")
    embed_spans([LateDocument(TEXT, "d", ((0, 9),))], Letters(), store, stride=4)
    again = Letters()
    again.identity = "letters 2" if change == "model" else Letters.identity
    embed_spans([LateDocument(TEXT, "e" if change == "document" else "d", ((0, 9),))], again, store, stride=5 if change == "stride" else 4)
    assert again.seen


def test_a_chunk_sees_its_document() -> None:
    embedder = load_embedder("minilm", "minilm", batch=8, threads=1)
    if embedder is None:
        pytest.skip("the minilm extra is not installed")
    chunk = "It was founded in the thirteenth century."
    vectors = []
    for subject in ("Amsterdam is the capital of the Netherlands.", "The guild of Flemish weavers kept its own court."):
        text = f"{subject} {chunk}"
        (found,) = embed_spans([LateDocument(text, subject, ((len(subject) + 1, len(text)),))], embedder, None, stride=256)  # type: ignore[arg-type]
        vectors += list(found.values())
    city = embedder.embed(["the city of Amsterdam"])[0]
    assert vectors[0] @ city > vectors[1] @ city + 0.1  # type: ignore[operator]


def test_the_model_sees_512_positions_and_batches_change_no_vector() -> None:
    embedder, alone = (load_embedder("minilm", "minilm", batch=8, threads=1) for _ in range(2))
    if embedder is None or alone is None:
        pytest.skip("the minilm extra is not installed")
    assert embedder.window == 510  # type: ignore[attr-defined]
    texts = ["pump seal valve " * 400, "The lid is warm. " * 30, "x"]
    spans = ((0, 1), (0, 200)), ((0, 16), (17, 33)), ((0, 1),)
    documents = [LateDocument(text, text, own) for text, own in zip(texts, spans, strict=True)]
    together = embed_spans(documents, embedder, None, stride=256)  # type: ignore[arg-type]
    for document, found in zip(documents, together, strict=True):
        (own,) = embed_spans([document], alone, None, stride=256)  # type: ignore[arg-type]
        assert all(np.array_equal(found[span], own[span]) for span in document.wanted)  # type: ignore[arg-type]
