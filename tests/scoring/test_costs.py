"""Costs: percentiles are observed figures, absent ones are counted, and a gate may stand on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.scoring.costs import MEASURES, RUN_MEASURES, gated_measures, nearest_rank, system_costs
from rag_eval_assets.scoring.gates import judge_gates
from rag_eval_assets.settings import Gate
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import Row, answer, table


def recorded(reply: float | None, **more: object) -> Row:
    empty = dict.fromkeys((*MEASURES, "attempts", "seconds"))
    return {**answer(f"q{reply}", "x"), "split": "release", **empty, "origin": "made", "reply_seconds": reply, **more}


def ranked(number: int, seconds: float | None, origin: str | None = "made", status: str = "ok") -> list[Row]:
    """A ranking of two passages, or the one row of a failed one."""
    row = {"question_id": f"q{number}", "split": "release", "status": status, "seconds": seconds, "origin": origin}
    return [row, row] if status == "ok" else [row]


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


def test_what_a_run_took_is_content_only_where_a_gate_names_it() -> None:
    def costs(faster: float, gates: dict[str, Row]) -> list[dict[str, object]]:
        answers = [
            recorded(1.0, attempts=1, origin=origin, seconds=n / faster)
            for n, origin in enumerate(("asked", "store", "reused", "reused"), 1)
        ]
        rankings = [row for n in range(1, 21) for row in ranked(n, n / faster, "reused" if n <= 15 else "made")]
        rows = system_costs(answers, rankings, gated_measures(gates))
        content = [c for c in TABLES["system_costs"].columns if TABLES["system_costs"].role(c) == "content"]
        found = {r["measure"]: r for r in rows}
        assert [found["retrieval_seconds"][f"run_{k}"] for k in ("p50", "p95", "p99")] == [10 / faster, 19 / faster, 20 / faster]
        assert found["generation_seconds"]["run_total"] == 10 / faster
        # Of four replies one was asked for; of twenty rankings fifteen were kept.
        assert [found[k]["run_mean"] for k in ("reply_hits", "answer_reuse", "retrieval_reuse")] == [0.75, 0.5, 0.75]
        return [{k: r[k] for k in content} for r in rows]

    assert costs(1.0, {}) == costs(2.0, {})
    gate = {"gate": {"source": "system_costs", "metric": "retrieval_seconds_p95"}}
    slow, fast = ({r["measure"]: r["p95"] for r in costs(f, gate)} for f in (1.0, 2.0))
    assert (slow["retrieval_seconds"], fast["retrieval_seconds"]) == (19.0, 9.5)
    assert {slow[m] for m in RUN_MEASURES if m != "retrieval_seconds"} == {None}


def test_without_a_gate_a_first_run_has_the_content_of_one_that_keeps_rows() -> None:
    def content(origin: str) -> list[dict[str, object]]:
        made = system_costs([recorded(1.0, attempts=1, origin=origin), recorded(2.0, origin=None)], ranked(1, 1.0, origin))
        names = [c for c in TABLES["system_costs"].columns if TABLES["system_costs"].role(c) == "content"]
        return [{name: row[name] for name in names} for row in made]

    assert content("first_made") == content("made") == content("reused")
    assert {r["measure"]: r["scored"] for r in content("first_made")}["answer_reuse"] == 1  # the other one says no origin


def gated(rows: list[Row], rankings: list[Row] | None = None, **gate: object) -> tuple[float | None, str, str]:
    chosen = Gate.model_validate({"source": "system_costs", **gate})
    gates = {"gate": chosen.model_dump()}
    found_costs = system_costs(rows, rankings or (), gated_measures(gates))
    (found,) = judge_gates(gates, {"system_costs": {"chat": table("system_costs", found_costs)}})
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


def test_gates_stand_on_times_of_retrieval_and_on_cache_hits() -> None:
    rows = [recorded(1.0, attempts=1, origin=origin) for origin in ("asked", "store")]
    rankings = [row for n in range(1, 21) for row in ranked(n, float(n))]
    assert gated(rows, rankings, metric="retrieval_seconds_p95", at_most=19) == (19.0, "PASS", "meets_threshold")
    assert gated(rows, rankings, metric="retrieval_seconds_p99", at_most=19) == (20.0, "FAIL", "misses_threshold")
    assert gated(rows, rankings, metric="reply_hits_mean", at_least=0.6) == (0.5, "FAIL", "misses_threshold")
    # A ranking without a time, such as a failed one, leaves the gate closed.
    assert gated(rows, [*rankings, *ranked(21, None, status="failed")], metric="retrieval_seconds_p50", at_most=99)[2] == "coverage_short"


@pytest.mark.parametrize("metric", ["answer_reuse_mean", "retrieval_reuse_mean"])
def test_where_no_earlier_row_was_there_to_keep_a_gate_on_reuse_does_not_apply(metric: str) -> None:
    rows = [recorded(1.0, attempts=1, origin=origin) for origin in ("first_asked", "first_store", "first_store", "first_store")]
    rankings = [row for n in range(1, 5) for row in ranked(n, 1.0, "first_made")]
    assert gated(rows, rankings, metric=metric, at_least=0.5) == (None, "INSUFFICIENT_EVIDENCE", "not_applicable")
    # Replies may be there already: three of four are.
    assert gated(rows, rankings, metric="reply_hits_mean", at_least=0.75, minimum_questions=4) == (0.75, "PASS", "meets_threshold")
