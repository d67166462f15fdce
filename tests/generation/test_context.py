"""A context is the first top_k passages within the budget, in the order asked for, and says what it cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_assets.generation.context import ORDERINGS, assemble, reorder
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import Row, complete, retrieval

SPEC: dict[str, Any] = {"top_k": 3, "token_budget": None, "ordering": "best_first"}


def ranked(*tokens: int | None) -> list[Row]:
    return [retrieval("q", rank, f"d{rank}", 0, f"text {rank}", tokens=n) for rank, n in enumerate(tokens, 1)]


def delivered(rows: list[Row], **changed: Any) -> Row:
    (row,) = assemble(rows, {**SPEC, **changed})
    assert set(row) == set(TABLES["contexts"].columns)
    return row


def test_top_k_cuts_first_and_what_it_cut_is_kept() -> None:
    row = delivered(ranked(1, 1, 1, 1, 1))
    assert [p["rank"] for p in row["passages"]] == [1, 2, 3]
    assert row["cut_by_top_k"] == ["d4#0-6", "d5#0-6"]
    assert (row["cut_by_budget"], row["context_truncated"], row["tokens"]) == ([], False, 3)


def test_passages_past_the_budget_are_dropped_and_none_after_them_slips_in() -> None:
    row = delivered(ranked(60, 60, 10), token_budget=100)
    assert [p["rank"] for p in row["passages"]] == [1]
    assert row["cut_by_budget"] == ["d2#0-6", "d3#0-6"]
    assert row["context_truncated"]


def test_a_budget_reached_exactly_is_kept_to() -> None:
    assert delivered(ranked(60, 40, 1), token_budget=100)["tokens"] == 100


def test_tokens_of_a_passage_that_nobody_counted_leave_the_sum_unknown() -> None:
    assert delivered(ranked(60, None))["tokens"] is None
    assert delivered([retrieval("q", 1, "d", 0, "text", tokens=60)])["tokens"] == 60


def test_tokens_are_never_guessed() -> None:
    with pytest.raises(ValueError, match="no token count"):
        delivered(ranked(10, None), token_budget=100)
    assert len(delivered(ranked(10, None))["passages"]) == 2


@pytest.mark.parametrize(
    ("ordering", "ranks"), [("best_first", [1, 2, 3, 4, 5]), ("best_last", [5, 4, 3, 2, 1]), ("both_ends", [1, 3, 5, 4, 2])]
)
def test_passages_stand_in_the_order_asked_for(ordering: str, ranks: list[int]) -> None:
    row = delivered(ranked(1, 1, 1, 1, 1), top_k=5, ordering=ordering)
    assert [p["rank"] for p in row["passages"]] == ranks
    assert [p["position"] for p in row["passages"]] == [0, 1, 2, 3, 4]


def test_an_unknown_ordering_is_refused() -> None:
    with pytest.raises(ValueError, match="none of best_first"):
        delivered(ranked(1), ordering="random")


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("ok", "empty_ranking", ("ok", "empty_context")),
        ("failed", "timeout", ("failed", "upstream_failed")),
        ("missing", "missing_run", ("missing", "missing_run")),
        ("not_applicable", "no_embedder", ("not_applicable", "no_embedder")),
    ],
)
def test_a_ranking_without_hits_gives_a_typed_context(status: str, reason: str, expected: tuple[str, str]) -> None:
    row = delivered([complete("system_retrievals", question_id="q", split="release", rank=0, status=status, reason=reason)])
    assert (row["status"], row["reason"]) == expected
    assert row["passages"] == []


def test_the_identity_changes_with_texts_names_and_order() -> None:
    base = delivered(ranked(1, 1))
    assert base["context_sha256"] == delivered(ranked(9, 9))["context_sha256"]
    moved = [{**row, "start": 5, "end": 11, "chunk_id": f"{row['doc_id']}#5-11"} for row in ranked(1, 1)]
    for other in (delivered(moved), delivered(ranked(1, 1), ordering="best_last"), delivered(ranked(1))):
        assert other["context_sha256"] != base["context_sha256"]


@settings(deadline=None)
@given(st.lists(st.integers(1, 50), max_size=12), st.integers(1, 8), st.integers(1, 200), st.sampled_from(ORDERINGS))
def test_every_passage_is_delivered_or_accounted_for(tokens: list[int], top_k: int, budget: int, ordering: str) -> None:
    rows = ranked(*tokens) or [complete("system_retrievals", question_id="q", split="release", rank=0, status="ok", reason="empty_ranking")]
    row = delivered(rows, top_k=top_k, token_budget=budget, ordering=ordering)
    named = [p["chunk_id"] for p in row["passages"]] + row["cut_by_budget"] + row["cut_by_top_k"]
    assert sorted(named) == sorted(r["chunk_id"] for r in rows if r["rank"])
    assert row["tokens"] <= budget
    assert len(row["passages"]) <= top_k


def test_passages_in_another_order_make_another_context_and_back_again_the_same() -> None:
    rows = [retrieval("q", rank, f"d{rank}", 0, f"Text {rank}.") for rank in (1, 2, 3)]
    context = assemble(rows, {"top_k": 3, "token_budget": None, "ordering": "best_first"})[0]
    turned = reorder(context, context["passages"][::-1])
    assert [(p["position"], p["doc_id"]) for p in turned["passages"]] == [(0, "d3"), (1, "d2"), (2, "d1")]
    assert turned["context_sha256"] != context["context_sha256"]
    assert turned == assemble(rows, {"top_k": 3, "token_budget": None, "ordering": "best_last"})[0]
    assert reorder(turned, turned["passages"][::-1]) == context
    with pytest.raises(ValueError, match="not those delivered"):
        reorder(context, context["passages"][:2])
