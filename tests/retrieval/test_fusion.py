"""Reciprocal rank fusion gives the published order and does not depend on how it was asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.retrieval.fusion import DuplicateIds, rrf

DENSE = ["d3", "d7", "d1", "d4", "d2", "d9", "d10"]
SPARSE = ["d2", "d3", "d8", "d1", "d11", "d4", "d6"]
IDS = st.lists(st.sampled_from([f"d{n}" for n in range(12)]), unique=True, max_size=12)


def test_the_worked_lists_fuse_to_the_published_order_and_scores() -> None:
    fused = rrf([DENSE, SPARSE])
    assert [found for found, _ in fused][:3] == ["d3", "d2", "d1"]
    assert [f"{score:.5f}" for _, score in fused[:3]] == ["0.03252", "0.03178", "0.03150"]
    assert fused[4][0] == "d7"


@pytest.mark.parametrize("k", [0, -1])
def test_k_must_be_over_nought(k: int) -> None:
    with pytest.raises(ValueError, match=f"k is {k}"):
        rrf([["a"]], k)


def test_a_ranking_that_names_an_id_twice_is_refused_by_name() -> None:
    with pytest.raises(DuplicateIds, match="names b more than once"):
        rrf([["a"], ["b", "a", "b"]])


def test_equal_scores_are_ordered_by_id_descending() -> None:
    assert [found for found, _ in rrf([["a", "b"], ["b", "a"], ["c"]])] == ["b", "a", "c"]


@given(rankings=st.lists(IDS, max_size=4), k=st.integers(1, 100), data=st.data())
def test_the_order_of_lanes_never_matters_and_every_id_appears_once(rankings: list[list[str]], k: int, data: st.DataObject) -> None:
    fused = rrf(rankings, k)
    assert fused == rrf(data.draw(st.permutations(rankings)), k)
    assert sorted(found for found, _ in fused) == sorted({found for ranking in rankings for found in ranking})


@given(ranking=IDS)
def test_one_lane_alone_keeps_its_order(ranking: list[str]) -> None:
    assert [found for found, _ in rrf([ranking])] == ranking


@given(first=IDS, other=IDS)
def test_each_score_is_the_sum_of_its_reciprocal_ranks(first: list[str], other: list[str]) -> None:
    scores = dict(rrf([first, other], 60))
    for found, score in scores.items():
        terms = [1 / (60 + lane.index(found) + 1) for lane in (first, other) if found in lane]
        assert score == pytest.approx(sum(terms), abs=1e-15)
