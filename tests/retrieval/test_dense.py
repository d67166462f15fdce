"""Exact search is exact to the last tie, and a score belongs to its pair, not to the batch it was computed in."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_assets.retrieval import dense
from rag_eval_assets.retrieval.dense import ExactIndex, HnswIndex, faiss_threads, load_faiss, pair_scores

Vectors = npt.NDArray[np.float32]


def _unit(seed: int, count: int, width: int = 48) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _by_hand(vectors: Vectors, query: Vectors, allowed: npt.NDArray[np.bool_] | None, depth: int) -> list[tuple[int, float]]:
    """Exact sums of exact products, rounded once."""
    scores = [np.float32(math.fsum(float(a) * float(b) for a, b in zip(row, query, strict=True))) for row in vectors]
    order = sorted(range(len(vectors)), key=lambda at: (-scores[at], -at))
    return [(at, float(scores[at])) for at in order if allowed is None or allowed[at]][:depth]


@settings(max_examples=40)
@given(seed=st.integers(0, 9999), count=st.integers(1, 60), copies=st.integers(1, 4), depth=st.integers(1, 70), masked=st.booleans())
def test_exact_search_equals_a_full_sort_with_duplicates_and_masks(seed: int, count: int, copies: int, depth: int, masked: bool) -> None:
    rng = np.random.default_rng(seed)
    vectors = _unit(seed, count)[rng.integers(0, count, count * copies)]  # near-duplicates: many scores are tied
    queries = _unit(seed + 1, 3)
    masks = [rng.random(len(vectors)) < 0.5 if masked else None for _ in queries]
    for query, mask, hits in zip(queries, masks, ExactIndex(vectors).search(queries, masks, depth), strict=True):
        expected = _by_hand(vectors, query, mask, depth)
        assert hits.positions.tolist() == [at for at, _ in expected]
        assert hits.scores.tolist() == pytest.approx([score for _, score in expected], abs=1e-7)


def test_a_query_alone_and_in_any_batch_gets_bit_equal_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = _unit(1, 5000, 384), _unit(2, 70, 384)
    together = ExactIndex(vectors).search(queries, [None] * 70, 100)
    alone = [ExactIndex(vectors).search(query[None, :], [None], 100)[0] for query in queries]
    monkeypatch.setattr(dense, "BLOCK_NUMBERS", 5000 * 7)
    blocks = ExactIndex(vectors).search(queries, [None] * 70, 100)
    for one, other, third in zip(together, alone, blocks, strict=True):
        assert one.positions.tolist() == other.positions.tolist() == third.positions.tolist()
        assert one.scores.tolist() == other.scores.tolist() == third.scores.tolist()


def test_a_tie_that_a_matrix_product_would_round_apart_is_still_a_tie() -> None:
    """The same numbers in 200 orders against a constant query: equal sums, unless float32 adds them up in another order."""
    rng = np.random.default_rng(5)
    numbers = _unit(5, 1, 384)[0]
    vectors = np.stack([rng.permutation(numbers) for _ in range(200)])
    query = np.full((1, 384), 384**-0.5, dtype=np.float32)
    assert len(set((query @ vectors.T)[0].tolist())) > 1
    (hits,) = ExactIndex(vectors).search(query, [None], 5)
    assert hits.positions.tolist() == [199, 198, 197, 196, 195]


def test_the_pair_score_does_not_depend_on_the_rows_beside_it() -> None:
    vectors, query = _unit(3, 300, 384), _unit(4, 1, 384)[0]
    together = pair_scores(query, vectors)
    assert together.tolist() == [pair_scores(query, vectors[at : at + 1])[0] for at in range(300)]


def test_exact_search_agrees_with_faiss() -> None:
    vectors, queries = _unit(5, 2000, 384), _unit(6, 20, 384)
    index = load_faiss().IndexFlatIP(384)
    index.add(vectors)
    _, expected = index.search(queries, 10)
    found = ExactIndex(vectors).search(queries, [None] * 20, 10)
    assert [hits.positions.tolist() for hits in found] == expected.tolist()


def test_no_vector_and_no_eligible_vector_are_empty_rankings() -> None:
    empty = ExactIndex(np.empty((0, 8), dtype=np.float32)).search(_unit(1, 2, 8), [None, None], 5)
    assert [len(hits.positions) for hits in empty] == [0, 0]
    nobody = np.zeros(10, dtype=np.bool_)
    vectors, query = _unit(1, 10, 8), _unit(2, 1, 8)
    assert len(ExactIndex(vectors).search(query, [nobody], 5)[0].positions) == 0
    assert len(HnswIndex(vectors, m=4, ef_construction=8).search(query, nobody, 5, ef_search=8)[0].positions) == 0


@pytest.fixture(scope="module")
def graph() -> HnswIndex:
    return HnswIndex(_unit(7, 1500), m=16, ef_construction=100)


def test_a_graph_is_built_equal_twice(graph: HnswIndex) -> None:
    faiss = load_faiss()
    again = HnswIndex(_unit(7, 1500), m=16, ef_construction=100)
    assert faiss.serialize_index(again.index).tobytes() == faiss.serialize_index(graph.index).tobytes()


def test_a_graph_searched_wide_enough_finds_what_exact_search_finds(graph: HnswIndex) -> None:
    queries = _unit(8, 30)
    exact = ExactIndex(graph.vectors).search(queries, [None] * 30, 10)
    for hits, truth in zip(graph.search(queries, None, 10, ef_search=1500), exact, strict=True):
        assert hits.positions.tolist() == truth.positions.tolist()
        assert hits.scores.tolist() == truth.scores.tolist(), "a pair's score is the same in both indexes"
        assert hits.detail is None


@pytest.mark.parametrize("share", [0.5, 0.05, 0.004])
def test_a_filtered_graph_returns_eligible_hits_only_fills_the_depth_and_says_how(graph: HnswIndex, share: float) -> None:
    mask = np.zeros(1500, dtype=np.bool_)
    mask[np.random.default_rng(9).permutation(1500)[: int(share * 1500)]] = True
    eligible = int(mask.sum())
    for hits in graph.search(_unit(10, 20), mask, 10, ef_search=32):
        assert mask[hits.positions].all()
        assert len(hits.positions) == min(10, eligible)
        assert f"{eligible} of 1500 vectors eligible" in str(hits.detail)


def test_vectors_of_one_text_tie_and_are_ordered_by_position(graph: HnswIndex) -> None:
    vectors = np.repeat(_unit(11, 50), 4, axis=0)
    twins = HnswIndex(vectors, m=16, ef_construction=100)
    assert twins.search(vectors[:1], None, 4, ef_search=200)[0].positions.tolist() == [3, 2, 1, 0]


def test_the_cut_of_a_graph_search_is_the_cut_of_everything_it_found_scored_exactly() -> None:
    """Near-copies that float32 cannot tell apart fast stand on both sides of the cut: none may be lost to rounding."""
    rng = np.random.default_rng(12)
    rows = np.repeat(_unit(12, 40), 8, axis=0)
    rows = (rows + rng.normal(scale=3e-8, size=rows.shape)).astype(np.float32)
    graph, queries = HnswIndex(rows, m=16, ef_construction=100), _unit(13, 25)
    _, found = graph.index.search(queries, 64, params=load_faiss().SearchParametersHNSW(efSearch=64))
    for query, near, hits in zip(queries, found, graph.search(queries, None, 5, ef_search=64), strict=True):
        scores = {int(at): float(pair_scores(query, rows[at : at + 1])[0]) for at in near}
        assert hits.positions.tolist() == sorted(scores, key=lambda at: (scores[at], at), reverse=True)[:5]


def test_a_query_finds_the_same_alone_and_beside_others_on_any_number_of_threads(graph: HnswIndex) -> None:
    queries = _unit(14, 20)
    together = graph.search(queries, None, 10, ef_search=32)
    with faiss_threads(2):
        spread = graph.search(queries, None, 10, ef_search=32)
    for query, one, two in zip(queries, together, spread, strict=True):
        (alone,) = graph.search(query[None, :], None, 10, ef_search=32)
        assert alone.positions.tolist() == one.positions.tolist() == two.positions.tolist()
        assert alone.scores.tolist() == one.scores.tolist() == two.scores.tolist()


def test_threads_are_bounded_within_the_block_only() -> None:
    faiss = load_faiss()
    before = faiss.omp_get_max_threads()
    with faiss_threads(1):
        assert faiss.omp_get_max_threads() == 1
    assert faiss.omp_get_max_threads() == before
