"""Other limits and orders are tried on the recorded ranking; what did not change is not answered again."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.stats import binomtest

from rag_eval_assets.generation.context import ORDERINGS, assemble, reorder
from rag_eval_assets.scoring.experiments import Plan, replay_experiments
from rag_eval_assets.scoring.experiments import tried as tried_of
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import Row, answer, citation, question, quoted, retrieval

WORDS = "The filter is changed every two years."
OTHER = "The fan is cleaned in spring."
SPEC = {
    "system": "s", "kind": "builtin", "chunking": "c", "retriever": "bm25", "depth": 6, "top_k": 2, "token_budget": 100,
    "ordering": "best_first", "reader": "x", "require_citations": True, "parameters": "{}",
}  # fmt: skip


def reads_all(asked: Row, delivered: Row) -> Row:
    """Quotes the passage about the filter wherever it stands, else refuses."""
    return _quotes(asked, delivered["passages"])


def reads_the_ends(asked: Row, delivered: Row) -> Row:
    """Overlooks what stands between the first passage and the last."""
    return _quotes(asked, [delivered["passages"][0], delivered["passages"][-1]])


def _quotes(asked: Row, passages: list[Row]) -> Row:
    found = next((p for p in passages if WORDS in p["text"]), None)
    if found is None:
        return answer(asked["question_id"], refused=True)
    return answer(asked["question_id"], f"{WORDS} [{found['position'] + 1}]", [citation(found)])


def ranking(question_id: str, gold: int, tokens: int | None = 10) -> list[Row]:
    """Six passages, the evidence at rank `gold`."""
    texts = [(WORDS, "manual") if r == gold else (f"{OTHER} {r}", f"d{r}") for r in range(1, 7)]
    return [retrieval(question_id, r, doc, 0, text, tokens=tokens) for r, (text, doc) in enumerate(texts, 1)]


def tried(plan: Plan, read: Any = reads_all, rows: list[Row] | None = None, asked: list[Row] | None = None, **more: Any) -> list[Row]:
    """Question `a` with its evidence first, `b` third, `r` of the release split; every row with the pairs that were read."""
    spec = {**SPEC, **more}
    rows = rows or [*ranking("a", 1), *ranking("b", 3), *ranking("r", 1)]
    asked = asked or [
        question(name, split=split, reference_answer="every two years")
        for name, split in (("a", "development"), ("b", "development"), ("r", "release"))
    ]
    labels = [quoted(q["question_id"], "manual", 0, WORDS) for q in asked]
    of = {q["question_id"]: q for q in asked}
    contexts = assemble(rows, spec)
    answers = [read(of[c["question_id"]], c) for c in contexts]
    calls: list[list[tuple[Row, Row]]] = []

    def reads(pairs: list[tuple[Row, Row]]) -> list[Row]:
        calls.append(pairs)
        return [read(*pair) for pair in pairs]

    found = replay_experiments(tried_of(asked, labels, spec, rows, contexts, answers, plan, assemble, reorder), reads)
    assert all(set(r) == set(TABLES["replay_experiments"].columns) for r in found)
    assert len(calls) <= 1
    assert sum(r["generated"] for r in found) == sum(map(len, calls))
    assert not any(q["question_id"] == "r" for pairs in calls for q, _ in pairs)
    return found


def counted(rows: list[Row], *names: str) -> dict[str, tuple[Any, ...]]:
    return {r["point"]: tuple(r[name] for name in names) for r in rows}


def test_a_curve_over_top_k_stands_on_development_questions_with_the_system_as_it_is_in_it() -> None:
    rows = tried(Plan(top_k=(3, 1)))
    assert [(r["experiment"], r["point"], r["as_it_is"], r["split"], r["metric"], r["status"]) for r in rows] == [
        ("top_k", "1", False, "development", "correct", "scored"), ("top_k", "2", True, "development", "correct", "scored"),
        ("top_k", "3", False, "development", "correct", "scored"),
    ]  # fmt: skip
    assert counted(rows, "questions", "mean", "difference", "paired", "tokens") == {
        "1": (2, 0.5, 0.0, 2, 10.0), "2": (2, 0.5, None, 0, 20.0), "3": (2, 1.0, 0.5, 2, 30.0),
    }  # fmt: skip
    assert counted(rows, "changed", "generated", "reused") == {"1": (2, 2, 0), "2": (0, 0, 2), "3": (2, 2, 0)}


def test_the_intervals_are_exact_for_rates_and_have_a_width_where_no_answer_changed() -> None:
    rows = {r["point"]: r for r in tried(Plan(top_k=(1, 3)))}
    exact = binomtest(1, 2).proportion_ci(0.95, "exact")
    assert (rows["1"]["lower"], rows["1"]["upper"]) == pytest.approx((exact.low, exact.high))
    assert rows["1"]["difference_lower"] < -0.5
    assert rows["1"]["difference_upper"] > 0.5
    assert (rows["2"]["difference_lower"], rows["2"]["difference_upper"]) == (None, None)


def test_questions_that_share_gold_are_one_cluster() -> None:
    def asked(shared: bool) -> list[Row]:
        gold = [{"document": "manual" if shared else str(n), "chunk": None, "grade": 1} for n in range(12)]
        return [question(f"q{n:02}", split="development", reference_answer="every two years", relevant=[gold[n]]) for n in range(12)]

    rows = [row for n in range(12) for row in ranking(f"q{n:02}", 3)]
    alone, together = (tried(Plan(top_k=(3,)), rows=rows, asked=asked(shared))[1] for shared in (False, True))
    assert alone["difference"] == together["difference"] == 1.0
    assert together["difference_lower"] < alone["difference_lower"]


def test_a_context_that_an_earlier_point_delivered_keeps_its_answer() -> None:
    rows = tried(Plan(token_budget=(10, 15, 500)))
    # 10 and 15 tokens hold the same one passage, 100 and 500 the same two.
    assert counted(rows, "mean", "changed", "generated", "reused") == {
        "10": (0.5, 2, 2, 0), "15": (0.5, 2, 0, 2), "100": (0.5, 0, 0, 2), "500": (0.5, 0, 0, 2),
    }  # fmt: skip


def test_a_system_without_budget_stands_at_the_end_of_the_curve() -> None:
    rows = tried(Plan(token_budget=(10,)), token_budget=None)
    assert [(r["point"], r["as_it_is"]) for r in rows] == [("10", False), ("none", True)]


def test_a_reader_that_overlooks_the_middle_is_found_by_moving_the_evidence_there() -> None:
    rows = tried(Plan(order=ORDERINGS), reads_the_ends, top_k=4)
    own = [r for r in rows if r["experiment"] == "ordering"]
    # Best last leaves `a` at an end and `b` inside; so does both ends: ranks 1, 3, 4, 2.
    assert counted(own, "as_it_is", "mean", "difference", "generated", "reused") == {
        "best_first": (True, 0.5, None, 0, 2), "best_last": (False, 0.5, 0.0, 2, 0), "both_ends": (False, 0.5, 0.0, 2, 0),
    }  # fmt: skip
    moved = [r for r in rows if r["experiment"] == "gold_place"]
    assert counted(moved, "as_it_is", "mean", "difference", "generated", "reused") == {
        "as delivered": (True, 0.5, None, 0, 2), "first": (False, 1.0, 0.5, 1, 1), "middle": (False, 0.0, -0.5, 2, 0),
        "last": (False, 1.0, 0.5, 2, 0),
    }  # fmt: skip
    assert [r["place"] for r in rows] == list(range(7))
    assert counted(moved, "questions")["middle"] == (2,)


def test_without_two_other_passages_a_context_has_no_middle() -> None:
    moved = [r for r in tried(Plan(order=ORDERINGS)) if r["experiment"] == "gold_place"]
    assert {(r["questions"], r["mean"], r["status"], r["reason"]) for r in moved} == {(0, None, "not_applicable", "nothing_to_measure")}


def test_nothing_asked_for_is_nothing_done() -> None:
    assert tried(Plan()) == []


def test_a_point_past_what_was_recorded_says_so() -> None:
    rows = tried(Plan(top_k=(7,)))
    assert [(r["point"], r["status"], r["reason"], r["generated"]) for r in rows] == [
        ("2", "scored", None, 0), ("7", "not_applicable", "not_replayable", 0),
    ]  # fmt: skip
    assert rows[1]["detail"] == "the ranking was recorded to depth 6"
    uncounted = [*ranking("a", 1, None), *ranking("b", 3, None), *ranking("r", 1, None)]
    rows = tried(Plan(token_budget=(50,)), rows=uncounted, token_budget=None)
    assert [(r["point"], r["reason"]) for r in rows] == [("50", "tokens_unknown"), ("none", None)]


def test_what_was_only_logged_is_shown_as_it_is_and_not_replayed() -> None:
    rows = tried(Plan(top_k=(1,), order=ORDERINGS), kind="import", top_k=4)
    assert {r["point"] for r in rows if r["status"] == "scored"} == {"4", "best_first", "as delivered"}
    assert {r["reason"] for r in rows if r["status"] != "scored"} == {"not_replayable"}


def test_an_answer_that_fails_is_counted_and_in_no_mean() -> None:
    def breaks(asked: Row, delivered: Row) -> Row:
        if asked["question_id"] == "b" and len(delivered["passages"]) == 3:
            return answer("b", status="failed", reason="timeout")
        return reads_all(asked, delivered)

    row = tried(Plan(top_k=(3,)), breaks)[1]
    assert (row["questions"], row["failed"], row["mean"], row["paired"], row["difference"]) == (1, 1, 1.0, 1, 0.0)


def test_a_retriever_that_failed_is_reused_as_the_failure_it_is() -> None:
    stopped = {**dict.fromkeys(TABLES["system_retrievals"].columns), "question_id": "b", "split": "development", "rank": 0}
    stopped |= {"status": "failed", "reason": "timeout"}

    def fails_too(asked: Row, delivered: Row) -> Row:
        if delivered["status"] != "ok":
            return answer(asked["question_id"], status="failed", reason="upstream_failed")
        return reads_all(asked, delivered)

    row = tried(Plan(top_k=(3,)), fails_too, rows=[*ranking("a", 1), stopped])[1]
    assert (row["questions"], row["failed"], row["generated"], row["reused"]) == (1, 1, 1, 1)
