"""Comparisons pair questions, refuse unlike with unlike, and do not pass on thin evidence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rag_eval_assets.scoring.comparison import compare
from rag_eval_assets.scoring.decisions import DECISION_REASONS
from tests.scoring.builders import Row, complete, question, score

SPEC = {"system": "candidate", "top_k": 5}
IDENTITIES: dict[str, Any] = {
    "corpus": "c1",
    "questions": "g1",
    "labels": "l1",
    "scorer": "s1",
    "judge": "j1",
    "policy": None,
    "spec": SPEC,
}


def saved(values: Any, name: str = "last", identities: dict[str, Any] | None = None, **more: Any) -> list[Row]:
    text = json.dumps(identities or IDENTITIES)
    rows = [score(f"q{i:03d}", "correct", None if v is None else float(v), **more) for i, v in enumerate(values)]
    kept = [{k: v for k, v in row.items() if k not in ("stage", "explanation")} for row in rows]
    return [complete("baselines", baseline=name, system="candidate", identities=text, **row) for row in kept]


def scores(values: Any, **more: Any) -> list[Row]:
    return [score(f"q{i:03d}", "correct", float(v), **more) for i, v in enumerate(values)]


def compared(
    now: list[Row], before: list[Row], identities: dict[str, Any] | None = None, questions: Sequence[Row] = (), policy: Any = None
) -> Row:
    (row,) = compare(now, before, questions, identities or IDENTITIES, policy)
    assert row["decision_reason"] in DECISION_REASONS
    return row


def test_without_a_baseline_there_is_one_row_that_says_so() -> None:
    row = compared(scores([1, 0]), [])
    assert (row["baseline"], row["status"], row["reason"], row["decision"]) == (
        "none",
        "not_applicable",
        "no_baseline",
        "INSUFFICIENT_EVIDENCE",
    )


def test_thirteen_unchanged_questions_are_insufficient_evidence() -> None:
    row = compared(scores([0.7] * 13), saved([0.7] * 13))
    assert (row["difference"], row["paired"]) == (0, 13)
    assert (row["decision"], row["decision_reason"]) == ("INSUFFICIENT_EVIDENCE", "interval_spans_margin")
    assert row["upper"] - row["lower"] >= 0.4


def test_many_unchanged_questions_pass_as_non_inferior() -> None:
    row = compared(scores([0.7] * 600), saved([0.7] * 600))
    assert (row["decision"], row["decision_reason"]) == ("PASS", "non_inferior")


def test_a_clear_drop_fails_and_a_clear_gain_passes() -> None:
    good, bad = [1.0] * 150, [1.0] * 75 + [0.0] * 75
    worse = compared(scores(bad), saved(good))
    assert (worse["decision"], worse["decision_reason"], worse["difference"]) == ("FAIL", "worse", -0.5)
    better = compared(scores(good), saved(bad))
    assert (better["decision"], better["decision_reason"]) == ("PASS", "improved")


def test_a_question_that_only_the_baseline_scored_keeps_a_decision_from_passing() -> None:
    now = scores([0.7] * 600)
    now[0] |= {"status": "failed", "reason": "timeout", "value": None}
    row = compared(now, saved([0.7] * 600))
    assert (row["paired"], row["missing"], row["decision"], row["decision_reason"]) == (599, 1, "INSUFFICIENT_EVIDENCE", "missing_pairs")
    assert "q000" in row["detail"]


def test_a_failed_ranking_counts_zero_and_pairs() -> None:
    ranked = {"unit": "document", "stage": "ranking"}
    now = scores([1, 1], **ranked)
    now[0] |= {"status": "failed", "reason": "timeout", "value": None}
    row = compared(now, saved([1, 1], unit="document"))
    assert (row["paired"], row["difference"], row["missing"]) == (2, -0.5, 0)


@pytest.mark.parametrize("field", ["corpus", "questions", "labels", "scorer", "judge"])
def test_what_must_match_and_does_not_is_refused_by_name(field: str) -> None:
    row = compared(scores([1]), saved([1], identities={**IDENTITIES, field: "other"}))
    assert (row["status"], row["reason"], row["decision"], row["decision_reason"]) == (
        "not_applicable", "incomparable", "INSUFFICIENT_EVIDENCE", "incomparable",
    )  # fmt: skip
    assert field in row["detail"]
    assert row["difference"] is None


def test_treatments_may_differ_and_are_listed() -> None:
    row = compared(scores([1]), saved([1], identities={**IDENTITIES, "spec": {**SPEC, "top_k": 3}}))
    assert json.loads(row["what_changed"]) == {"top_k": [3, 5]}
    assert row["status"] == "scored"


def test_pairs_are_by_question_and_not_by_place() -> None:
    values = np.linspace(0, 1, 20)
    row = compared(scores(values)[::-1], saved(values))
    assert row["difference"] == 0


def test_baselines_and_splits_are_compared_apart() -> None:
    before = saved([1, 1], "one") + saved([0, 0], "two")
    now = [*scores([1, 1]), score("d", "correct", 1.0, split="development")]
    found = {(r["baseline"], r["split"]): r["difference"] for r in compare(now, before, [], IDENTITIES)}
    assert found == {("one", "release"): 0, ("two", "release"): 1}


def test_what_applies_on_neither_side_is_no_difference() -> None:
    none = {"status": "not_applicable", "reason": "no_gold_answer"}
    row = compared([score("q000", "correct", None, **none)], saved([None], **none))
    assert (row["status"], row["reason"], row["paired"]) == ("not_applicable", "no_gold_answer", 0)


# ------------------------------------------------------------------------------------------------------------- policies
def policy(*, excluded: float = 0.1, slices: Sequence[str] = (), support: int = 20, **claims: dict[str, Any]) -> dict[str, Any]:
    full = {
        name: {"metric": "correct", "k": 0, "cutoff": "rank", "unit": "question", "claim": "non_inferiority", "margin": 0.02, **claim}
        for name, claim in claims.items()
    }
    chosen = {"margin": 0.02, "slices": slices, "minimum_support": support}
    return {"confidence": 0.95, "split": "release", "claims": full, "maximum_excluded": excluded, "exploratory": chosen}


def declared(now: list[Row], before: list[Row], rules: dict[str, Any], questions: Sequence[Row] = ()) -> dict[str, Row]:
    rows = compare(now, before, questions, IDENTITIES, rules)
    assert all(r["decision_reason"] in DECISION_REASONS for r in rows)
    return {r["claim_name"]: r for r in rows if r["role"] == "declared"}


@pytest.mark.parametrize("margin", [0.05, 0.02])
@pytest.mark.parametrize(("metric", "value"), [("correct", 1.0), ("nDCG", 0.7)])
def test_thirteen_unchanged_pairs_decide_no_margin_and_say_what_they_could(margin: float, metric: str, value: float) -> None:
    now, before = ([{**r, "metric": metric} for r in rows] for rows in (scores([value] * 13), saved([value] * 13)))
    row = declared(now, before, policy(it={"metric": metric, "margin": margin}))["it"]
    assert (row["decision"], row["decision_reason"], row["paired"]) == ("INSUFFICIENT_EVIDENCE", "interval_spans_margin", 13)
    assert row["lower"] <= -0.2
    assert row["upper"] >= 0.2
    assert row["detectable"] >= 0.2


def test_an_interval_of_ndcg_is_not_narrower_than_that_of_a_rate() -> None:
    rate = declared(scores([1.0] * 13), saved([1.0] * 13), policy(it={}))["it"]
    ndcg = declared(scores([0.7] * 13), saved([0.7] * 13), policy(it={}))["it"]
    assert ndcg["upper"] - ndcg["lower"] >= rate["upper"] - rate["lower"]


def test_each_claim_has_its_own_bound() -> None:
    better, good = [1.0] * 300, [1.0] * 240 + [0.0] * 60
    rules = policy(gain={"claim": "superiority", "margin": None}, same={"claim": "equivalence", "margin": 0.05}, kept={"margin": 0.05})
    gained = declared(scores(better), saved(good), rules)
    assert {n: (r["decision"], r["decision_reason"]) for n, r in gained.items()} == {
        "gain": ("PASS", "improved"), "same": ("FAIL", "not_equivalent"), "kept": ("PASS", "improved"),
    }  # fmt: skip
    unchanged = declared(scores(good * 3), saved(good * 3), rules)
    assert {n: (r["decision"], r["decision_reason"]) for n, r in unchanged.items()} == {
        "gain": ("INSUFFICIENT_EVIDENCE", "interval_spans_zero"), "same": ("PASS", "equivalent"), "kept": ("PASS", "non_inferior"),
    }  # fmt: skip
    lost = declared(scores(good), saved(better), rules)
    assert [r["decision"] for r in lost.values()] == ["FAIL"] * 3


def test_a_claim_that_holds_alone_need_not_hold_in_its_family() -> None:
    gain = ([1.0] * 9 + [0.0] * 91, [0.0] * 100)
    alone = declared(scores(gain[0]), saved(gain[1]), policy(gain={"claim": "superiority", "margin": 0.0}))["gain"]
    assert (alone["decision"], alone["decision_reason"]) == ("PASS", "improved")
    names = [f"m{i}" for i in range(9)]
    now = scores(gain[0]) + [{**r, "metric": n} for n in names for r in scores([0.5] * 100)]
    before = saved(gain[1]) + [{**r, "metric": n} for n in names for r in saved([0.5] * 100)]
    family = {name: {"metric": name, "claim": "superiority", "margin": 0.0} for name in names}
    row = declared(now, before, policy(gain={"claim": "superiority", "margin": 0.0}, **family))["gain"]
    assert (row["decision"], row["decision_reason"]) == ("INSUFFICIENT_EVIDENCE", "not_in_family")
    assert row["p_adjusted"] == pytest.approx(10 * row["p_value"])


def test_questions_that_share_a_gold_document_are_one_piece_of_evidence() -> None:
    values = [0.7] * 600
    apart = [question(f"q{i:03d}", evidence=[{"document": f"d{i}", "grade": 1}]) for i in range(600)]
    together = [question(f"q{i:03d}", evidence=[{"document": f"d{i // 50}", "grade": 1}]) for i in range(600)]
    first, second = (declared(scores(values), saved(values), policy(it={}), own)["it"] for own in (apart, together))
    assert (first["clusters"], first["decision"]) == (600, "PASS")
    assert (second["clusters"], second["decision"]) == (12, "INSUFFICIENT_EVIDENCE")


def test_slices_are_exploratory_and_need_support() -> None:
    values = [1.0] * 40
    asked = [question(f"q{i:03d}", intent="rare" if i < 5 else "common") for i in range(40)]
    rows = compare(scores(values), saved(values), asked, IDENTITIES, policy(it={}, slices=["intent"]))
    found = {r["slice_value"]: r for r in rows if r["slice"] == "intent"}
    assert {r["role"] for r in found.values()} == {"exploratory"}
    assert (found["rare"]["paired"], found["rare"]["decision_reason"]) == (5, "too_few_questions")
    assert (found["common"]["paired"], found["common"]["decision_reason"]) == (35, "interval_spans_margin")


def test_a_measure_that_stops_applying_is_excluded_and_too_much_of_it_decides_nothing() -> None:
    now = scores([1.0] * 600)
    for row in now[:30]:
        row |= {"status": "not_applicable", "reason": "refused", "value": None}
    row = declared(now, saved([1.0] * 600), policy(it={}))["it"]
    assert (row["paired"], row["excluded"], row["missing"], row["decision"]) == (570, 30, 0, "PASS")
    strict = declared(now, saved([1.0] * 600), policy(it={}, excluded=0.04))["it"]
    assert (strict["decision"], strict["decision_reason"]) == ("INSUFFICIENT_EVIDENCE", "too_many_excluded")


@pytest.mark.parametrize(
    ("field", "more", "told"), [("k", {"k": 5}, "k: 5, not 10"), ("unit", {"unit": "chunk"}, "unit: chunk, not document")]
)
def test_a_claim_on_another_cut_off_or_unit_is_refused_by_name(field: str, more: dict[str, Any], told: str) -> None:
    ranked = {"k": 10, "cutoff": "rank", "unit": "document"}
    row = declared(scores([1, 1], **ranked), saved([1, 1], **ranked | more), policy(it={"k": 10, "unit": "document"}))["it"]
    assert (row["decision"], row["decision_reason"]) == ("INSUFFICIENT_EVIDENCE", "incomparable")
    assert told in row["detail"]


def test_a_baseline_saved_under_a_policy_is_compared_under_it_alone() -> None:
    made_under = {**IDENTITIES, "policy": "p1"}
    assert compared(scores([1]), saved([1], identities=made_under), made_under)["status"] == "scored"
    row = compared(scores([1]), saved([1], identities=made_under), {**IDENTITIES, "policy": "p2"})
    assert (row["decision_reason"], row["detail"]) == ("incomparable", "policy: 'p1' is now 'p2'")
    assert compared(scores([1]), saved([1]), {**IDENTITIES, "policy": "p2"})["status"] == "scored"
