"""A vector is computed once, whatever happens in between."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rag_eval_assets.resources.embedders import DURABLE_TEXTS, EmbeddingFailed, embed_texts, vector_key
from rag_eval_assets.resources.stores import SqliteStore


class Counting:
    """Three numbers a text, from its hash; counts what it was asked for."""

    name, dimension, identity, limit = "counting", 3, "counting 1", 100

    def __init__(self, fail_after: int | None = None, prefix: str = "", refused: str = "", lasting: bool = False) -> None:
        self.seen: list[str] = []
        self.fail_after = fail_after
        self.passage_prefix, self.refused, self.lasting = prefix, refused, lasting

    def prefix(self, *, query: bool) -> str:
        return "q: " if query else self.passage_prefix

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        if self.fail_after is not None and len(self.seen) >= self.fail_after:
            raise KeyboardInterrupt
        if self.refused in texts:
            raise EmbeddingFailed("crashed", "HTTP 400", lasting=self.lasting)
        self.seen += texts
        return np.array([self.vector(text) for text in texts], dtype=np.float32).reshape(-1, 3)

    @staticmethod
    def vector(text: str) -> npt.NDArray[np.float32]:
        if text == "broken":
            return np.full(3, np.nan, dtype=np.float32)
        raw = np.frombuffer(hashlib.sha256(text.encode()).digest()[:3], dtype=np.uint8).astype(np.float32) + 1
        return raw / np.linalg.norm(raw)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def test_each_distinct_text_is_embedded_once_and_order_is_kept(tmp_path: Path) -> None:
    store, embedder = SqliteStore(tmp_path / "v.sqlite"), Counting()
    texts = ["b", "aaa", "b", "cc"]
    vectors = embed_texts(texts, embedder, store)
    assert embedder.seen == ["aaa", "cc", "b"], "longest first"
    assert np.array_equal(vectors, np.stack([Counting.vector(text) for text in texts]))
    again = Counting()
    assert np.array_equal(embed_texts([*texts, "new"], again, store)[:4], vectors)
    assert again.seen == ["new"]


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store, texts = SqliteStore(tmp_path / "v.sqlite"), [f"text {i}" for i in range(3 * DURABLE_TEXTS)]
    killed = Counting(fail_after=DURABLE_TEXTS)
    with pytest.raises(KeyboardInterrupt):
        embed_texts(texts, killed, store)
    resumed = Counting()
    progress: list[tuple[int, int]] = []
    embed_texts(texts, resumed, store, lambda done, total: progress.append((done, total)))
    assert sorted(resumed.seen + killed.seen) == sorted(texts)
    assert len(killed.seen) == DURABLE_TEXTS
    assert [progress[0], progress[-1]] == [(DURABLE_TEXTS, len(texts)), (len(texts), len(texts))]


def test_another_model_or_prefix_never_reads_this_ones_vectors(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "v.sqlite")
    embed_texts(["a"], Counting(), store)
    other = Counting()
    other.identity = "counting 2"
    embed_texts(["a"], other, store)
    assert other.seen == ["a"]
    for embedder, query in ((Counting(prefix="passage: "), False), (Counting(), True)):
        embed_texts(["a"], embedder, store, query=query)
        assert embedder.seen == ["a"]


def test_a_torn_or_non_finite_vector_is_computed_again(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "v.sqlite")
    sha = hashlib.sha256(b"a").hexdigest()
    store.put_many({vector_key(Counting.identity, "", sha): b"\x00" * 7})
    assert np.array_equal(embed_texts(["a"], Counting(), store)[0], Counting.vector("a"))
    assert np.isnan(embed_texts(["broken", "a"], Counting(), store)[0]).all()
    again = Counting()
    embed_texts(["broken", "a"], again, store)
    assert again.seen == ["broken"]


def test_no_store_and_no_text_are_fine() -> None:
    assert embed_texts([], Counting(), None).shape == (0, 3)
    assert embed_texts(["a", "a"], Counting(), None).shape == (2, 3)


def test_a_refused_text_fails_alone_and_is_told(tmp_path: Path) -> None:
    store, failures = SqliteStore(tmp_path / "v.sqlite"), {}
    vectors = embed_texts(["aa", "no", "b"], Counting(refused="no"), store, failures=failures)
    assert np.array_equal(vectors[[0, 2]], np.stack([Counting.vector("aa"), Counting.vector("b")]))
    assert np.isnan(vectors[1]).all()
    assert [(text, failed.reason, failed.detail) for text, failed in failures.items()] == [("no", "crashed", "HTTP 400")]
    with pytest.raises(EmbeddingFailed):
        embed_texts(["aa", "no"], Counting(refused="no"), store)


def test_after_a_lasting_failure_nothing_more_is_asked() -> None:
    embedder, failures = Counting(refused="x" * 99, lasting=True), {}
    texts = ["x" * 99, *(f"text {i}" for i in range(2 * DURABLE_TEXTS))]
    vectors = embed_texts(texts, embedder, None, failures=failures)
    assert (embedder.seen, set(failures), vectors.shape) == ([], set(texts), (len(texts), 3))


def test_a_vector_is_kept_as_little_endian_float32(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "v.sqlite")
    (vector,) = embed_texts(["a"], Counting(), store)
    key = vector_key(Counting.identity, "", hashlib.sha256(b"a").hexdigest())
    assert store.get_many([key])[key] == b"".join(struct.pack("<f", x) for x in vector)
