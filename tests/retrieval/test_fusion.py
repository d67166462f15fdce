"""Fusion by rank gives the published order, fusion by score the worked sums, and neither depends on how it was asked."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_assets.retrieval.fusion import DuplicateIds, Tuned, ndcg, normalise, rrf, simplex, tune, weighted_sum

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


# ------------------------------------------------------------------------------------------------------- score fusion
LANE = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-50, 50, allow_nan=False, width=32), min_size=1, max_size=8)


def _best_first(lane: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(lane.items(), key=lambda pair: (-pair[1], pair[0]))


def test_a_weighted_sum_by_hand() -> None:
    # min-max: a 1, b .5, c 0 and c 1, a .25, d 0; b is absent from the second lane and gets its lowest, 0.
    fused = weighted_sum([[("a", 6.0), ("b", 4.0), ("c", 2.0)], [("c", 0.9), ("a", 0.3), ("d", 0.1)]], [0.6, 0.4], "min_max")
    assert [(name, round(score, 6)) for name, score in fused] == [("a", 0.7), ("c", 0.4), ("b", 0.3), ("d", 0.0)]
    # z-scores of 6, 4, 2 are +-1.2247 and 0; an absent id gets the lane's lowest.
    fused = weighted_sum([[("a", 6.0), ("b", 4.0), ("c", 2.0)], [("a", 1.0)]], [1.0, 0.0], "z_score")
    assert [(name, round(score, 4)) for name, score in fused] == [("a", 1.2247), ("b", 0.0), ("c", -1.2247)]


def test_scores_that_are_all_equal_were_all_found() -> None:
    assert normalise([3.0], "min_max") == [1.0]
    assert normalise([3.0, 3.0], "z_score") == [0.0, 0.0]
    assert normalise([], "min_max") == []


@settings(deadline=None)
@given(st.lists(LANE, min_size=2, max_size=3), st.data())
def test_score_fusion_ignores_scale_and_order_of_lanes(lanes: list[dict[str, float]], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.floats(0.1, 1), min_size=len(lanes), max_size=len(lanes)))
    plain = dict(weighted_sum([_best_first(lane) for lane in lanes], weights, "min_max"))
    assert set(plain) == {name for lane in lanes for name in lane}
    turned = weighted_sum([_best_first(lane) for lane in lanes[::-1]], weights[::-1], "min_max")
    assert dict(turned) == plain
    scaled = [{name: score * 4 for name, score in lane.items()} for lane in lanes]
    assert dict(weighted_sum([_best_first(lane) for lane in scaled], weights, "min_max")) == pytest.approx(plain, abs=1e-9)


_RANX = """
import json, sys
from ranx import Run, fuse
lanes = json.load(sys.stdin)
fused = fuse(runs=[Run({"q": lane}) for lane in lanes], norm="min-max", method="wsum", params={"weights": (0.3, 0.7)})
print(json.dumps(fused.to_dict()["q"]))
"""


def test_the_convex_sum_is_ranx_s() -> None:
    """Documents that one lane lacks included. Run uncompiled in a process of its own, where ranx costs seconds instead of a minute."""
    rng = np.random.default_rng(3)
    lanes = [{f"d{n}": float(rng.random() * 30) for n in rng.permutation(30)[:20]} for _ in range(2)]
    told = subprocess.run(
        [sys.executable, "-c", _RANX], input=json.dumps(lanes), capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    theirs = json.loads(told.stdout.splitlines()[-1])
    ours = dict(weighted_sum([_best_first(lane) for lane in lanes], (0.3, 0.7), "min_max"))
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_weights_that_do_not_fit_and_repeated_ids_are_refused() -> None:
    lane = [("a", 1.0)]
    for weights in ([1.0], [0.5, -0.1], [0.0, 0.0], [math.nan, 1.0]):
        with pytest.raises(ValueError, match="need as many weights"):
            weighted_sum([lane, lane], weights, "min_max")
    with pytest.raises(DuplicateIds, match="a more than once"):
        weighted_sum([[("a", 2.0), ("a", 1.0)]], [1.0], "min_max")
    with pytest.raises(ValueError, match="not finite"):
        weighted_sum([[("a", math.inf)]], [1.0], "min_max")


def test_the_grid_of_convex_weights_is_whole() -> None:
    assert list(simplex(2, 4)) == [(0, 1), (0.25, 0.75), (0.5, 0.5), (0.75, 0.25), (1, 0)]
    three = list(simplex(3, 10))
    assert len(three) == 66
    assert all(sum(point) == pytest.approx(1) for point in three)


def test_tuning_gives_a_lane_that_is_always_right_the_weight_and_says_what_it_rests_on() -> None:
    right, wrong = [("gold", 1.0), ("other", 0.0)], [("other", 1.0), ("gold", 0.0)]
    own = {"gold": "g", "other": "o"}
    found = tune({"q1": [wrong, right]}, {"q1": {"g": 1}, "q2": {"g": 1}}, own, lanes=2, steps=10, how="min_max", k=10)
    # Every weight over .5 on the second lane ranks gold first; the nearest to equal weights wins.
    assert found == Tuned((0.4, 0.6), 1, 1.0, 11)
    assert tune({"q1": [wrong, right]}, {}, own, lanes=2, steps=10, how="min_max", k=10) == Tuned((0.5, 0.5), 0, None, 0)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from("abcdef"), unique=True, min_size=1), st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), min_size=1)
)
def test_the_measure_that_tunes_is_trec_eval_s(units: list[str], grades: dict[str, int]) -> None:
    run = {"q": {unit: float(len(units) - rank) for rank, unit in enumerate(units)}}
    theirs = pytrec_eval.RelevanceEvaluator({"q": grades}, {"ndcg_cut_3"}).evaluate(run)["q"]["ndcg_cut_3"]
    assert ndcg(units, grades, 3) == pytest.approx(theirs, abs=1e-9)
