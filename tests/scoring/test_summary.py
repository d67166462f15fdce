"""Means with their denominators: nothing that failed leaves one without being counted."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ingestion.rates import Bets
from rag_eval_assets.scoring.summary import slice_values, summarise
from tests.scoring.builders import Row, question, score, table


def summary(rows: list[Row], questions: list[Row], slices: tuple[str, ...] = ()) -> dict[tuple[str, str, str, str], Row]:
    found = summarise(table("system_scores", rows), questions, slices)
    return {(r["metric"], r["split"], r["slice"], r["slice_value"]): r for r in found}


def test_a_mean_never_hides_what_could_not_be_scored() -> None:
    """One score of .8 and two rows that failed must not read as .8 without more ado."""
    rows = [
        score("a", "faithfulness", 0.8),
        score("b", "faithfulness", None, status="failed", reason="timeout"),
        score("c", "faithfulness", None, status="failed", reason="unparsable_judgment"),
    ]
    row = summary(rows, [question(q) for q in "abc"])["faithfulness", "release", "all", ""]
    assert row["mean"] == row["observed"] == 0.8
    assert (row["scored"], row["failed"], row["missing"], row["questions"]) == (1, 2, 0, 1)
    assert (row["if_failed_zero"], row["if_failed_one"]) == pytest.approx((0.8 / 3, 2.8 / 3))


def test_ranking_headlines_count_failed_and_missing_questions_zero() -> None:
    """trec_eval's -c: one of two queries missing halves the mean; what was observed stands beside it."""
    rows = [
        score("a", "nDCG", 1.0, k=10, cutoff="rank", unit="document", stage="ranking"),
        score("b", "nDCG", None, status="missing", reason="missing_run", k=10, cutoff="rank", unit="document", stage="ranking"),
    ]
    row = summary(rows, [question(q) for q in "ab"])["nDCG", "release", "all", ""]
    assert (row["mean"], row["observed"], row["questions"], row["missing"]) == (0.5, 1.0, 2, 1)


def test_an_empty_ranking_stays_in_the_mean() -> None:
    rows = [
        score("a", "nDCG", 1.0, stage="ranking"),
        score("b", "nDCG", 0.0, reason="empty_ranking", stage="ranking"),
    ]
    assert summary(rows, [question(q) for q in "ab"])["nDCG", "release", "all", ""]["mean"] == 0.5


def test_what_does_not_apply_is_in_no_denominator() -> None:
    rows = [score("a", "token_f1", 0.5), score("b", "token_f1", None, status="not_applicable", reason="unanswerable")]
    row = summary(rows, [question("a"), question("b", answerable=False)])["token_f1", "release", "all", ""]
    assert (row["mean"], row["questions"], row["not_applicable"], row["if_failed_zero"]) == (0.5, 1, 1, 0.5)


def test_a_measure_that_applies_nowhere_has_no_mean_and_no_interval() -> None:
    row = summary([score("a", "m", None, status="not_applicable", reason="no_judge")], [question("a")])["m", "release", "all", ""]
    assert (row["mean"], row["lower"], row["upper"], row["questions"], row["method"]) == (None, None, None, 0, "none")


def test_unanswerable_questions_are_a_slice_of_their_own() -> None:
    rows = [score("a", "correct", 1.0), score("b", "correct", 0.0)]
    found = summary(rows, [question("a"), question("b", answerable=False)])
    assert found["correct", "release", "answerable", "true"]["mean"] == 1
    assert found["correct", "release", "answerable", "false"]["mean"] == 0


def test_splits_are_never_pooled() -> None:
    rows = [score("a", "correct", 1.0), score("b", "correct", 0.0)]
    found = summary(rows, [question("a", split="development"), question("b")])
    assert found["correct", "development", "all", ""]["mean"] == 1
    assert found["correct", "release", "all", ""]["mean"] == 0


def test_a_question_stands_in_every_value_of_a_list_slice() -> None:
    rows = [score("a", "correct", 1.0), score("b", "correct", 0.0)]
    questions = [question("a", kinds=["lookup", "negation"]), question("b", kinds=["negation"], slices='{"region": "north"}')]
    found = summary(rows, questions, ("kinds", "region"))
    assert found["correct", "release", "kinds", "negation"]["mean"] == 0.5
    assert found["correct", "release", "kinds", "lookup"]["questions"] == 1
    assert found["correct", "release", "region", "north"]["mean"] == 0
    assert slice_values(questions[0], "region") == []


def test_rates_have_exact_limits_and_their_method_is_named() -> None:
    rows = [score(f"q{i:02d}", "correct", float(i < 9)) for i in range(13)]
    row = summary(rows, [question(f"q{i:02d}") for i in range(13)])["correct", "release", "all", ""]
    assert (round(row["lower"], 4), round(row["upper"], 4)) == (0.3857, 0.9091)
    assert row["method"] == "clopper_pearson"


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [score(f"q{i}", "token_f1", i / 7) for i in range(7)]
    questions = [question(f"q{i}") for i in range(7)]
    assert summary(rows, questions) == summary(rows[::-1], questions[::-1])


def test_a_thousand_questions_in_twenty_slices_take_seconds() -> None:
    random = np.random.default_rng(5)
    names = [f"q{i:04d}" for i in range(1000)]
    questions = [question(q, slices=f'{{"part": "p{i % 20}"}}') for i, q in enumerate(names)]
    rows = [score(q, f"m{m}", float(v)) for m in range(12) for q, v in zip(names, random.random(1000), strict=True)]
    scores = table("system_scores", rows)
    summarise(scores.slice(0, 50), questions, ())
    started = time.perf_counter()
    found = summarise(scores, questions, ["part"])
    assert len(found) == 12 * 22
    # Five seconds on an idle machine of two cores, several times over what it takes; shared machines get room.
    assert time.perf_counter() - started < 15


def test_questions_on_one_document_are_one_piece_of_evidence_for_the_interval() -> None:
    """Ten documents, two questions each, alike within a document: the interval is that of ten, not of twenty."""
    right = {f"{doc}{n}": float(doc < "h") for doc in "abcdefghij" for n in (1, 2)}

    def asked(shared: bool) -> list[Row]:
        return [question(name, relevant=[{"document": name[0] if shared else name, "chunk": None, "grade": 1}]) for name in right]

    rows = [score(name, "correct", value) for name, value in right.items()]
    apart, together = (summary(rows, asked(shared))["correct", "release", "all", ""] for shared in (False, True))
    assert (apart["mean"], apart["method"]) == (together["mean"], "clopper_pearson") == (0.7, "clopper_pearson")
    assert together["method"] == "clustered_betting"
    # Of clusters of one size that agree within themselves nothing but their number counts: Waudby-Smith and Ramdas on ten values.
    ten = Bets.on(np.array([1.0] * 7 + [0.0] * 3)).limits(0.025)
    assert (together["lower"], together["upper"]) == pytest.approx(ten)
    assert together["upper"] - together["lower"] > apart["upper"] - apart["lower"]
