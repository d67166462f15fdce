"""Hard or soft: three limits on held-out questions, and everything else soft."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rag_eval_assets.scoring.filter_decision import Limits, Rankings, filter_decision, made_elsewhere
from tests.scoring.builders import complete, no_hit, question, ranking, relevant, runs

LIMITS = Limits(metric="P", k=2, minimum_gain=0.1, epsilon=0.02, recall_loss=0.02, boost=(1.0,))
BM25 = {"bm25": {"kind": "bm25"}}
MANY = [f"q{n:03}" for n in range(200)]
GOOD, HALF, BAD = ["a", "b"], ["a", "x"], ["x", "y"]


def decided(
    hard: dict[str, list[str]],
    soft: dict[str, list[str]] | dict[float, dict[str, list[str]]],
    *,
    none: dict[str, list[str]] | None = None,
    splits: dict[str, str] | None = None,
    excluded: int = 0,
    golds: dict[str, list[str]] | None = None,
    limits: Limits = LIMITS,
    retrievers: dict[str, dict[str, Any]] = BM25,
    unavailable: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Rows by side; every question has gold a and b, of which the filter hides `excluded` in all."""
    ids = sorted(hard)
    asked = [question(i, split=(splits or {}).get(i, "release"), filter='{"locale": "nl"}') for i in ids]
    gold = [relevant(i, doc) for i in ids for doc in (golds or {}).get(i, GOOD)]
    exclusion = [
        complete("filter_exclusion", question_id=i, split=asked[n]["split"], status="scored", eligible_gold=2,
                 excluded_documents=["a"] if n < excluded else [])
        for n, i in enumerate(ids)
    ]  # fmt: skip

    def of(rankings: dict[str, list[str]]) -> pa.Table:
        return runs([row for i, documents in rankings.items() for row in ranking(i, documents)])

    def boosted(boost: float) -> pa.Table:
        return of(soft.get(boost, soft))  # type: ignore[call-overload]

    sides = Rankings(of(hard), of(none or hard), boosted)
    return {r["against"]: r for r in filter_decision(sides, retrievers, asked, gold, exclusion, limits, unavailable=unavailable)}


def test_a_large_gain_without_exclusion_or_loss_makes_the_filter_hard() -> None:
    row = decided(dict.fromkeys(MANY, GOOD), dict.fromkeys(MANY, HALF))["soft"]
    assert (row["decision"], row["detail"], row["hard_mean"], row["against_mean"], row["gain"]) == ("hard", None, 1.0, 0.5, 0.5)
    assert 0.1 < row["lower"] < 0.5 < row["upper"]
    assert (row["recall_loss"], row["exclusion"], row["questions"]) == (-0.5, 0.0, 200)


def test_the_same_gain_on_few_questions_is_not_shown_and_stays_soft() -> None:
    few = MANY[:4]
    row = decided(dict.fromkeys(few, GOOD), dict.fromkeys(few, HALF))["soft"]
    assert row["gain"] == 0.5
    assert row["decision"] == "soft"
    assert "lower limit" in row["detail"]


@pytest.mark.parametrize(("excluded", "decision"), [(8, "hard"), (9, "soft")])
def test_exclusion_decides_at_epsilon(excluded: int, decision: str) -> None:
    """8 of 400 gold documents are 2%, 9 are more."""
    row = decided(dict.fromkeys(MANY, GOOD), dict.fromkeys(MANY, HALF), excluded=excluded)["soft"]
    assert (row["decision"], row["exclusion"]) == (decision, excluded / 400)
    assert row["exclusion_lower"] < row["exclusion"] < row["exclusion_upper"]


def test_a_loss_of_recall_over_its_limit_keeps_the_filter_soft() -> None:
    """In nine questions of ten the filter finds one more of 20 relevant documents; in the tenth it hides both of two."""
    tenth = set(MANY[::10])
    golds = {i: GOOD if i in tenth else [*GOOD, *(f"g{n}" for n in range(18))] for i in MANY}
    hard = {i: BAD if i in tenth else GOOD for i in MANY}
    soft = {i: GOOD if i in tenth else HALF for i in MANY}
    row = decided(hard, soft, golds=golds)["soft"]
    assert row["gain"] == pytest.approx(0.9 * 0.5 - 0.1)
    assert row["recall_loss"] == pytest.approx(0.1 - 0.9 / 20)
    assert (row["decision"], row["detail"]) == ("soft", "recall loss 0.0550 is over 0.02")


def test_without_a_filter_anywhere_nothing_is_decided_and_no_rate_is_0() -> None:
    rows = decided({}, {})
    assert {(r["status"], r["reason"], r["decision"], r["exclusion"]) for r in rows.values()} == {("not_applicable", "no_filter", "", None)}


def test_filters_of_development_alone_decide_nothing_and_stay_soft() -> None:
    rows = decided(dict.fromkeys(MANY, GOOD), dict.fromkeys(MANY, HALF), splits=dict.fromkeys(MANY, "development"))
    assert (rows["soft"]["status"], rows["soft"]["reason"], rows["soft"]["decision"]) == ("missing", "too_few_questions", "soft")
    assert rows["none"]["decision"] == ""


def test_the_boost_is_chosen_on_development_and_judged_on_release() -> None:
    """On development the boost of 2 is the better one, on release the worse: it is taken, and judged where it was not chosen."""
    splits = {i: "development" if n < 100 else "release" for n, i in enumerate(MANY)}
    soft = {
        0.5: {i: HALF if splits[i] == "development" else GOOD for i in MANY},
        2.0: {i: GOOD if splits[i] == "development" else BAD for i in MANY},
    }
    limits = Limits("P", 2, 0.1, 0.02, 0.02, (0.5, 2.0))
    row = decided(dict.fromkeys(MANY, GOOD), soft, splits=splits, limits=limits)["soft"]
    assert (row["boost"], row["tuned_on"], row["questions"], row["gain"]) == (2.0, 100, 100, 1.0)


def test_equal_boosts_give_the_smallest() -> None:
    limits = Limits("P", 2, 0.1, 0.02, 0.02, (2.0, 0.5))
    splits = {i: "development" if n < 5 else "release" for n, i in enumerate(MANY)}
    assert decided(dict.fromkeys(MANY, GOOD), dict.fromkeys(MANY, HALF), splits=splits, limits=limits)["soft"]["boost"] == 0.5


def test_a_failed_question_counts_0_on_its_side() -> None:
    ids = ["p", "q"]
    asked = [question(i, filter='{"locale": "nl"}') for i in ids]
    gold = [relevant(i, doc) for i in ids for doc in GOOD]
    hard = runs([*ranking("p", GOOD), no_hit("q", "failed", "crashed")])
    sides = Rankings(hard, hard, lambda boost: runs(ranking("p", GOOD) + ranking("q", GOOD)))
    row = filter_decision(sides, BM25, asked, gold, [], LIMITS, unavailable=None)[0]
    assert (row["against"], row["questions"], row["failed"], row["hard_mean"], row["gain"]) == ("soft", 2, 1, 0.5, -0.5)
    assert "no eligible gold" in row["detail"]


def test_against_no_filter_a_row_compares_and_decides_nothing() -> None:
    row = decided(dict.fromkeys(MANY, GOOD), dict.fromkeys(MANY, HALF), none=dict.fromkeys(MANY, BAD))["none"]
    assert (row["gain"], row["boost"], row["decision"]) == (1.0, 0.0, "")


def test_a_ranking_made_elsewhere_has_no_unfiltered_side() -> None:
    retrievers = {"file": {"kind": "run_file"}, "both": {"kind": "rrf", "of": ["file", "bm25"]}, **BM25}
    assert made_elsewhere(retrievers) == {"file", "both"}
    row = decided(dict.fromkeys(MANY, GOOD), dict.fromkeys(MANY, HALF), retrievers={"file": {"kind": "run_file"}})["soft"]
    assert (row["status"], row["reason"], row["decision"]) == ("not_applicable", "made_elsewhere", "")


def test_a_chunking_that_no_system_uses_says_so() -> None:
    row = decided(dict.fromkeys(MANY, GOOD), dict.fromkeys(MANY, HALF), unavailable="not_used")["soft"]
    assert (row["status"], row["reason"]) == ("not_applicable", "not_used")
