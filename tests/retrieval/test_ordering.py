"""Hits are ordered as trec_eval orders them, and a cut among ties keeps the rule."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.retrieval.ordering import best_first

TIED = st.lists(st.sampled_from([0.25, 0.5, 0.5000001, 0.50000001, 1.0]), min_size=1, max_size=30)


@given(scores=TIED, depth=st.integers(1, 35), seed=st.integers(0, 2**16))
def test_the_cut_is_the_head_of_the_full_order_whatever_the_order_of_candidates(scores: list[float], depth: int, seed: int) -> None:
    single = [np.float32(score) for score in scores]
    expected = sorted(range(len(single)), key=lambda at: (-single[at], -at))[:depth]
    shuffled = np.random.default_rng(seed).permutation(len(single))
    positions, found = best_first(shuffled, np.array(single, dtype=np.float32)[shuffled], depth)
    assert positions.tolist() == expected
    assert found.tolist() == [single[at] for at in expected]


@given(scores=TIED)
def test_reciprocal_rank_agrees_with_trec_eval_for_every_relevant_document(scores: list[float]) -> None:
    names = [f"d{at:02}" for at in range(len(scores))]
    positions, _ = best_first(np.arange(len(scores)), np.array(scores, dtype=np.float32), len(scores))
    for rank, at in enumerate(positions, start=1):
        evaluator = pytrec_eval.RelevanceEvaluator({"q": {names[at]: 1}}, {"recip_rank"})
        found = evaluator.evaluate({"q": dict(zip(names, scores, strict=True))})["q"]["recip_rank"]
        assert found == pytest.approx(1 / rank)


def test_a_depth_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="depth 0"):
        best_first(np.arange(1), np.ones(1, dtype=np.float32), 0)
