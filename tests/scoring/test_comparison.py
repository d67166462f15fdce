"""Comparisons pair questions, refuse unlike with unlike, and do not pass on thin evidence."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rag_eval_assets.scoring.comparison import compare
from rag_eval_assets.scoring.decisions import DECISION_REASONS
from tests.scoring.builders import Row, complete, score

SPEC = {"system": "candidate", "top_k": 5}
IDENTITIES: dict[str, Any] = {"corpus": "c1", "golden": "g1", "spec": SPEC}


def saved(values: Any, name: str = "last", identities: dict[str, Any] | None = None, **more: Any) -> list[Row]:
    text = json.dumps(identities or IDENTITIES)
    rows = [score(f"q{i:03d}", "correct", None if v is None else float(v), **more) for i, v in enumerate(values)]
    kept = [{k: v for k, v in row.items() if k not in ("stage", "explanation")} for row in rows]
    return [complete("baselines", baseline=name, system="candidate", identities=text, **row) for row in kept]


def scores(values: Any, **more: Any) -> list[Row]:
    return [score(f"q{i:03d}", "correct", float(v), **more) for i, v in enumerate(values)]


def compared(now: list[Row], before: list[Row], identities: dict[str, Any] | None = None) -> Row:
    (row,) = compare(SPEC, now, before, identities or IDENTITIES)
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


def test_another_systems_baseline_is_not_this_ones() -> None:
    other = [{**row, "system": "other"} for row in saved([1, 0])]
    assert compared(scores([1, 0]), other)["reason"] == "no_baseline"


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


@pytest.mark.parametrize("field", ["corpus", "golden", "judge"])
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
    found = {(r["baseline"], r["split"]): r["difference"] for r in compare(SPEC, now, before, IDENTITIES)}
    assert found == {("one", "release"): 0, ("two", "release"): 1}


def test_what_applies_on_neither_side_is_no_difference() -> None:
    none = {"status": "not_applicable", "reason": "no_gold_answer"}
    row = compared([score("q000", "correct", None, **none)], saved([None], **none))
    assert (row["status"], row["reason"], row["paired"]) == ("not_applicable", "no_gold_answer", 0)
