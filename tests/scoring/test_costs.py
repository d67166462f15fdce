"""Costs: percentiles are observed figures, absent ones are counted, and a gate may stand on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.scoring.costs import MEASURES, nearest_rank, system_costs
from rag_eval_assets.scoring.gates import judge_gates
from rag_eval_assets.settings import Gate
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import Row, answer, table


def recorded(seconds: float | None, **more: object) -> Row:
    empty = dict.fromkeys(MEASURES)
    return {**answer(f"q{seconds}", "x"), "split": "release", **empty, "reply_seconds": seconds, **more}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.sampled_from([50, 95, 99]))
def test_a_percentile_is_numpys_inverted_distribution(values: list[float], percent: int) -> None:
    assert nearest_rank(sorted(values), percent) == np.percentile(values, percent, method="inverted_cdf")


def test_percentiles_of_twenty_replies_are_the_tenth_and_the_nineteenth() -> None:
    rows = system_costs([recorded(float(n)) for n in range(20, 0, -1)])
    found = {r["measure"]: r for r in rows}["reply_seconds"]
    assert [found[k] for k in ("p50", "p95", "p99", "mean", "total", "scored")] == [10.0, 19.0, 20.0, 10.5, 210.0, 20]
    assert set(found) == set(TABLES["system_costs"].columns)


def test_what_recorded_nothing_is_counted_and_no_figure_is_no_zero() -> None:
    rows = system_costs([recorded(2.0, cost=0.25), recorded(None, status="failed"), recorded(None, status="not_applicable")])
    found = {r["measure"]: r for r in rows}
    assert [found["reply_seconds"][k] for k in ("questions", "scored", "failed", "p99")] == [2, 1, 1, 2.0]
    assert found["cost"]["total"] == pytest.approx(0.25)
    absent = found["first_token_seconds"]
    assert (absent["status"], absent["reason"], absent["p50"]) == ("not_applicable", "nothing_to_measure", None)


def gated(rows: list[Row], **gate: object) -> tuple[float | None, str, str]:
    chosen = Gate.model_validate({"source": "system_costs", **gate})
    (found,) = judge_gates({"gate": chosen.model_dump()}, {"system_costs": {"chat": table("system_costs", system_costs(rows))}})
    assert found["scope"] == "chat"
    return found["value"], found["decision"], found["decision_reason"]


def test_gates_stand_on_percentiles_means_and_totals_of_what_replies_recorded() -> None:
    rows = [recorded(float(n), cost=0.01) for n in range(1, 21)]
    assert gated(rows, metric="reply_seconds_p95", at_most=19) == (19.0, "PASS", "meets_threshold")
    assert gated(rows, metric="reply_seconds_p99", at_most=19) == (20.0, "FAIL", "misses_threshold")
    assert gated(rows, metric="cost_total", at_most=0.21)[1] == "PASS"
    assert gated(rows, metric="cost_mean", at_most=0.02, minimum_questions=21)[1:] == ("INSUFFICIENT_EVIDENCE", "too_few_questions")
    # One reply that recorded nothing leaves the gate closed; a reader in this process has nothing to be judged.
    assert gated([*rows, recorded(None, status="failed")], metric="reply_seconds_p95", at_most=100)[1:] == ("FAIL", "coverage_short")
    assert gated([recorded(None)], metric="reply_seconds_p95", at_most=1)[1] == "INSUFFICIENT_EVIDENCE"
