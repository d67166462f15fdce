"""A retriever is worth keeping only if its paired gain over what it is built on is shown, within limits set before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rag_eval_assets.scoring.ranking import score_rankings
from rag_eval_assets.scoring.retrievers import Limits, measure_name, retriever_comparison
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import hit, no_hit, question, relevant, runs

Row = dict[str, Any]
LIMITS = Limits("nDCG", 10, 0.0, None)
STATED = {
    "bm25": {"kind": "bm25", "analyser": "english"},
    "hybrid": {"kind": "rrf", "of": ["bm25"]},
    "reranked": {"kind": "rerank", "of": ["bm25"], "depth": 2},
}


def compare(rows: list[Row], questions: list[Row], labels: list[Row], limits: Limits = LIMITS, stated: Row = STATED) -> list[Row]:
    table = runs([{**row, "parameters": json.dumps(stated[row["retriever"]]), "seconds": 0.5} for row in rows])
    scores = score_rankings(table, questions, labels, ks=(1, 10), token_budgets=(), by="retriever")
    return retriever_comparison(table, scores, questions, labels, ks=(1, 10), limits=limits)


def find(rows: list[Row], retriever: str, against: str, measure: str = "nDCG@10", unit: str = "document", split: str = "release") -> Row:
    wanted = (retriever, against, measure, unit, split)
    (found,) = [r for r in rows if (r["retriever"], r["against"], r["measure"], r["unit"], r["split"]) == wanted]
    return found


def world(better: str, worse: str = "bm25", questions: int = 40) -> tuple[list[Row], list[Row], list[Row]]:
    """One retriever finds the gold first, the other second."""
    rows, asked, labels = [], [], []
    for n in range(questions):
        q = f"q{n:02}"
        asked.append(question(q))
        labels.append(relevant(q, "gold"))
        rows += [hit(q, 1, "gold", retriever=better, tokens=30), hit(q, 2, "other", retriever=better, tokens=20)]
        rows += [hit(q, 1, "other", retriever=worse), hit(q, 2, "gold", retriever=worse)]
    return rows, asked, labels


def test_a_shown_gain_is_kept_and_the_difference_is_the_mean_of_the_pairs() -> None:
    row = find(compare(*world("hybrid")), "hybrid", "bm25")
    assert (row["verdict"], row["decision"], row["questions"]) == ("gain", "keep", 40)
    assert row["difference"] == pytest.approx(1 - 0.6309297535714575)  # gold at rank 2: 1 / log2(3)
    assert 0 < row["lower"] < row["difference"] < row["upper"]
    assert find(compare(*world("hybrid")), "hybrid", "bm25", "RR")["difference"] == pytest.approx(0.5)
    assert find(compare(*world("hybrid")), "hybrid", "bm25", "P@1")["difference"] == pytest.approx(1.0)


def test_a_gain_under_the_minimum_or_over_the_budget_is_not_kept() -> None:
    assert find(compare(*world("hybrid"), Limits("nDCG", 10, 0.5, None)), "hybrid", "bm25")["decision"] == "undecided"
    rows = compare(*world("reranked"), Limits("nDCG", 10, 0.0, 49))
    row = find(rows, "reranked", "bm25")
    assert (row["verdict"], row["decision"], row["model_tokens"]) == ("gain", "drop", 50)
    assert "reads 50 tokens for a question, 49 are allowed" in row["detail"]
    assert find(compare(*world("reranked"), Limits("nDCG", 10, 0.0, 50)), "reranked", "bm25")["decision"] == "keep"


def test_queries_of_a_model_must_beat_the_expansion_without_one_too_and_their_tokens_count() -> None:
    rows, asked, labels = world("written")
    rows += [hit(row["question_id"], row["rank"], row["doc_id"], retriever="rm3") for row in rows if row["retriever"] == "written"]
    for row in rows:
        if row["retriever"] == "written" and row["rank"] == 1:
            row |= {"model_tokens": 120, "model_cost": 0.5}
    stated = {**STATED, "written": {"kind": "hyde", "of": ["bm25"]}, "rm3": {"kind": "rm3", "of": ["bm25"]}}
    compared = compare(rows, asked, labels, stated=stated)
    over_lane, over_rm3 = (find(compared, "written", against) for against in ("bm25", "rm3"))
    assert (over_lane["verdict"], over_lane["decision"]) == ("gain", "keep")
    assert (over_rm3["verdict"], over_rm3["decision"], over_rm3["difference"]) == ("undecided", "undecided", 0.0)
    assert (over_lane["model_tokens"], over_lane["model_cost"]) == (120.0, 0.5)
    over_budget = compare(rows, asked, labels, Limits("nDCG", 10, 0.0, 119), stated)
    assert find(over_budget, "written", "bm25")["decision"] == "drop"


def test_a_fusion_that_loses_to_its_lane_is_flagged() -> None:
    row = find(compare(*world("bm25", "hybrid")), "hybrid", "bm25")
    assert (row["verdict"], row["decision"], row["detail"]) == ("loss", "drop", "the fusion loses to its lane bm25")


def test_a_handful_of_questions_decides_nothing() -> None:
    assert find(compare(*world("hybrid", questions=3)), "hybrid", "bm25")["decision"] == "undecided"


def test_a_fusion_is_not_judged_on_the_questions_it_was_tuned_on() -> None:
    stated = {**STATED, "hybrid": {"kind": "convex", "of": ["bm25"], "tuned_on": {"split": "release"}}}
    row = find(compare(*world("hybrid"), stated=stated), "hybrid", "bm25")
    assert (row["verdict"], row["decision"]) == ("gain", "undecided")
    assert "tuned on these questions" in row["detail"]


def test_failed_and_missing_questions_count_nought_on_both_sides_and_are_counted() -> None:
    rows, asked, labels = world("hybrid")
    kept = [r for r in rows if (r["retriever"], r["question_id"]) not in {("hybrid", "q00"), ("hybrid", "q01")}]
    kept.append(no_hit("q00", "failed", "timeout", retriever="hybrid"))
    found = compare(kept, asked, labels)
    alone = find(found, "hybrid", "")
    assert (alone["questions"], alone["failed"], alone["missing"]) == (40, 1, 1)
    assert (alone["mean"], alone["observed"]) == (pytest.approx(38 / 40), 1.0)
    assert find(found, "hybrid", "bm25")["mean"] == pytest.approx(38 / 40)


def test_unjudged_hits_and_tie_orders_stand_beside_the_mean() -> None:
    rows, asked, labels = world("hybrid")
    tied = [{**r, "score": 1.0} if r["retriever"] == "bm25" else r for r in rows]
    row = find(compare(tied, asked, labels), "bm25", "")
    assert (row["tied"], row["lowest"], row["highest"]) == (40, pytest.approx(0.63093, abs=1e-5), 1.0)
    assert row["unjudged"] == 0.5
    labels.append(relevant("q00", "other", 0))
    assert find(compare(tied, asked, labels), "bm25", "")["unjudged"] == pytest.approx(0.5 * 39 / 40)
    assert find(compare(tied, asked, labels), "hybrid", "bm25", "R@1")["against_unjudged"] == pytest.approx(39 / 40)


def test_a_group_scored_nowhere_says_why() -> None:
    row = find(compare(*world("hybrid")), "hybrid", "bm25", "R@10", "group")
    assert (row["questions"], row["difference"], row["verdict"], row["detail"]) == (0, None, "undecided", "no_span_labels")


def test_rows_fit_the_contract_and_their_order_depends_on_nothing() -> None:
    rows, asked, labels = world("hybrid")
    found = compare(rows, asked, labels)
    contract = TABLES["retriever_comparison"]
    assert set(found[0]) == set(contract.columns)
    keys = [tuple(r[name] for name in contract.key) for r in found]
    assert len(set(keys)) == len(keys)
    assert compare(rows[::-1], asked[::-1], labels[::-1]) == found


def test_measures_are_named_as_ir_measures_names_them() -> None:
    assert [measure_name(*m) for m in (("nDCG", 10, "rank"), ("RR", 0, "none"), ("R", 500, "tokens"))] == ["nDCG@10", "RR", "R@500 tokens"]
