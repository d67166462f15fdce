"""A filter as a boost, between no filter and a hard one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rag_eval_assets.retrieval.soft_filter import boosted
from rag_eval_assets.tables import TABLES

COLUMNS = ["question_id", "retriever", "rank", "chunk_id", "doc_id", "start", "end", "tokens", "score", "status", "reason"]
SCHEMA = pa.schema([TABLES["retrieval_runs"].schema.field(name).with_nullable(True) for name in COLUMNS])


def ranked(*names: str, question: str = "q", **more: Any) -> list[dict[str, Any]]:
    own = {"question_id": question, "retriever": "bm25", "start": 0, "end": 9, "tokens": 3, "status": "ok", "reason": None}
    return [
        own | {"rank": rank, "chunk_id": f"{name}#0-9", "doc_id": name, "score": 100.0 - rank} | more for rank, name in enumerate(names, 1)
    ]


def broken(status: str, reason: str) -> list[dict[str, Any]]:
    return [dict.fromkeys(COLUMNS) | {"question_id": "q", "retriever": "bm25", "rank": 0, "status": status, "reason": reason}]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def order(hard: list[dict[str, Any]], none: list[dict[str, Any]], boost: float, depth: int = 10) -> list[str]:
    return boosted(table(hard), table(none), boost, depth)["doc_id"].to_pylist()


def test_scores_are_those_worked_by_hand() -> None:
    """a: 1/61; b: 1/62 + .5/61 = .024326; c: 1/63 + .5/62 = .023938."""
    found = boosted(table(ranked("b", "c")), table(ranked("a", "b", "c")), 0.5, 10)
    assert found["doc_id"].to_pylist() == ["b", "c", "a"]
    assert found["score"].to_pylist() == pytest.approx([0.024326, 0.023938, 0.016393], abs=1e-6)
    assert found["rank"].to_pylist() == [1, 2, 3]


def test_a_small_boost_leaves_the_order_and_a_large_one_puts_all_that_passes_first() -> None:
    none, hard = ranked("a", "b", "c", "d"), ranked("d", "b", "e")
    assert order(hard, none, 1e-9) == ["a", "b", "c", "d", "e"]
    assert order(hard, none, 1e9) == ["d", "b", "e", "a", "c"]


def test_what_the_unfiltered_ranking_cut_off_is_found_by_the_filtered_one() -> None:
    assert order(ranked("z"), ranked("a", "b"), 2.0, depth=2) == ["z", "a"]


def test_scores_of_any_scale_give_one_order() -> None:
    none, hard = ranked("a", "b", "c"), ranked("c", "b")
    shrunk = [row | {"score": row["score"] * 1e-6} for row in none]
    unscored = [row | {"score": None} for row in none]
    assert order(hard, none, 1.0) == order(hard, shrunk, 1.0) == order(hard, unscored, 1.0)


def test_a_parent_found_at_two_chunks_is_delivered_once() -> None:
    here = [row | {"chunk_id": "a#0-4"} for row in ranked("a")]
    there = [row | {"chunk_id": "a#4-9"} for row in ranked("a")]
    assert order(here, there, 1.0) == ["a"]


def test_a_filter_that_lets_nothing_through_leaves_the_unfiltered_ranking() -> None:
    assert order(broken("ok", "empty_ranking"), ranked("a", "b"), 1.0) == ["a", "b"]
    empty = boosted(table(broken("ok", "empty_ranking")), table(broken("ok", "empty_ranking")), 1.0, 5)
    assert empty.select(["rank", "status", "reason"]).to_pylist() == [{"rank": 0, "status": "ok", "reason": "empty_ranking"}]


@pytest.mark.parametrize("side", ["hard", "none"])
def test_a_broken_side_breaks_the_boosted_ranking_for_its_reason(side: str) -> None:
    sides = {"hard": ranked("a"), "none": ranked("a")} | {side: broken("failed", "non_finite_score")}
    found = boosted(table(sides["hard"]), table(sides["none"]), 1.0, 5)
    assert found.select(["rank", "status", "reason"]).to_pylist() == [{"rank": 0, "status": "failed", "reason": "non_finite_score"}]


def test_a_question_without_a_filtered_ranking_is_missing() -> None:
    found = boosted(table([]), table(ranked("a")), 1.0, 5)
    assert found.select(["status", "reason"]).to_pylist() == [{"status": "missing", "reason": "missing_run"}]


def test_row_order_never_matters() -> None:
    none, hard = ranked("a", "b", "c") + ranked("c", "a", question="p"), ranked("b", "c") + ranked("a", question="p")
    assert boosted(table(hard), table(none), 1.0, 5).equals(boosted(table(hard[::-1]), table(none[::-1]), 1.0, 5))
