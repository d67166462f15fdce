"""RM3 weighs terms as its papers say, and reads nothing that the caller may not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rag_eval_assets.retrieval.bm25 import Bm25Index
from rag_eval_assets.retrieval.expansion import rm3, rm3_weights

TEXTS = [["pump", "seal", "oil"], ["pump", "seal"], ["valve", "oil"], ["seal", "gasket"], ["mice"], ["mice"], ["mice"], ["mice"]]
PARAMETERS = {"fb_docs": 2, "fb_terms": 3, "original_weight": 0.5}


def test_weights_by_hand() -> None:
    # Texts with scores 3 and 1: pump 3/4*1/2 + 1/4*1/4 = 7/16, seal 3/4*1/2 = 6/16, oil 1/4*3/4 = 3/16. The best two are scaled by 13/16.
    feedback = [(["pump", "seal"], 3.0), (["pump", "oil", "oil", "oil"], 1.0)]
    weights = rm3_weights(["pump"], feedback, fb_terms=2, original_weight=0.6)
    assert weights == pytest.approx({"pump": 0.6 + 0.4 * 7 / 13, "seal": 0.4 * 6 / 13})
    assert math.fsum(weights.values()) == pytest.approx(1)


def test_terms_of_equal_weight_are_chosen_by_name() -> None:
    assert set(rm3_weights(["x"], [(["c", "b", "a"], 1.0)], fb_terms=2, original_weight=0.5)) == {"x", "a", "b"}


def test_expansion_finds_what_shares_no_word_with_the_question() -> None:
    index = Bm25Index(TEXTS, k1=1.2, b=0.75)
    assert set(index.search(["pump"], None, 8).positions.tolist()) == {0, 1}
    hits = rm3(index, ["pump"], None, 8, PARAMETERS)
    assert set(hits.positions.tolist()) == {0, 1, 2, 3}
    assert hits.detail == "expanded by: seal oil"


def test_with_all_weight_on_the_question_the_ranking_is_bm25_s() -> None:
    index = Bm25Index(TEXTS, k1=1.2, b=0.75)
    plain = index.search(["pump", "oil", "pump"], None, 8)
    hits = rm3(index, ["pump", "oil", "pump"], None, 8, {**PARAMETERS, "original_weight": 1.0})
    assert hits.positions.tolist() == plain.positions.tolist()
    assert (hits.scores * 3).tolist() == pytest.approx(plain.scores.tolist(), rel=1e-5)  # tf / length: a third of each


def test_a_text_that_the_caller_may_not_read_gives_no_term() -> None:
    index = Bm25Index(TEXTS, k1=1.2, b=0.75)
    mask = np.array([False, True, True, True, True, True, True, True])
    hits = rm3(index, ["pump"], mask, 8, PARAMETERS)
    assert hits.detail == "expanded by: seal"
    assert set(hits.positions.tolist()) == {1, 3}


def test_nothing_found_expands_nothing() -> None:
    hits = rm3(Bm25Index(TEXTS, k1=1.2, b=0.75), ["klingon"], None, 8, PARAMETERS)
    assert len(hits.positions) == 0
    assert len(rm3(Bm25Index([], k1=1.2, b=0.75), ["pump"], None, 8, PARAMETERS).positions) == 0
