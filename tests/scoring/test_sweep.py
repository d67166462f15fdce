"""The chunk sweep recommends by a rule set beforehand, on development questions alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rag_eval_assets.scoring.sweep import chunk_sweep
from tests.scoring.builders import Row, complete, table

SIZES = {
    "window-128-o0": {"chunks": 400, "index_tokens": 40_000, "size": 128, "overlap": 0},
    "window-128-o32": {"chunks": 500, "index_tokens": 52_000, "size": 128, "overlap": 32},
    "window-256-o0": {"chunks": 200, "index_tokens": 40_000, "size": 256, "overlap": 0},
    "whole": {"chunks": 20, "index_tokens": 40_000, "size": 0, "overlap": 0},
}


def scores(
    values: Any, *, split: str = "development", metric: str = "nDCG", k: int = 10, unit: str = "document", cutoff: str = "rank"
) -> list[Row]:
    common = {"retriever": "bm25", "split": split, "metric": metric, "k": k, "unit": unit, "cutoff": cutoff}
    return [
        complete("retrieval_scores", question_id=f"{split}{i}", value=float(v), status="scored", **common) for i, v in enumerate(values)
    ]


def sweep(rows: dict[str, list[Row]], minimum: int = 50, margin: float = 0.05, **more: Any) -> dict[str, Row]:
    tables = {chunking: table("retrieval_scores", own) for chunking, own in rows.items()}
    found = chunk_sweep(tables, SIZES, **{"metric": "nDCG", "k": 10, **more}, margin=margin, minimum_questions=minimum)
    return {r["chunking"]: r for r in found if (r["metric"], r["k"], r["unit"]) == ("nDCG", 10, "document")}


def steady(mean: float, n: int = 400) -> Any:
    """Scores of one mean whose pairs differ by a constant, so that paired intervals are narrow."""
    return np.tile([mean - 0.1, mean + 0.1], n // 2)


def test_the_smallest_least_overlapping_chunking_that_is_non_inferior_is_recommended() -> None:
    found = sweep(
        {
            "window-256-o0": scores(steady(0.80)),
            "window-128-o32": scores(steady(0.79)),
            "window-128-o0": scores(steady(0.79)),
            "whole": scores(steady(0.50)),
        }
    )
    assert {c: r["verdict"] for c, r in found.items()} == {
        "window-256-o0": "best",
        "window-128-o32": "non_inferior",
        "window-128-o0": "recommended",
        "whole": "inferior",
    }
    assert found["window-128-o0"]["difference"] == pytest.approx(-0.01)
    assert -0.05 <= found["window-128-o0"]["difference_lower"] < -0.01 < found["window-128-o0"]["difference_upper"]
    best = found["window-256-o0"]
    assert [best[name] for name in ("difference", "difference_lower", "difference_upper")] == [None] * 3
    assert "non-inferior to window-256-o0 within 0.05" in found["window-128-o0"]["detail"]


def test_a_chunking_without_size_ranks_by_its_mean_length() -> None:
    found = sweep({"whole": scores(steady(0.80)), "window-256-o0": scores(steady(0.80))})
    assert found["window-256-o0"]["verdict"] == "recommended"


def test_with_too_few_questions_nothing_is_recommended() -> None:
    found = sweep({"window-256-o0": scores(steady(0.8, 40)), "window-128-o0": scores(steady(0.8, 40))})
    assert {r["verdict"] for r in found.values()} == {"undecided"}
    assert "40 development questions, 50 are wanted" in found["window-128-o0"]["detail"]


def test_thirteen_unchanged_pairs_do_not_prove_non_inferiority() -> None:
    found = sweep({"window-256-o0": scores(steady(0.8, 14)), "window-128-o0": scores(steady(0.8, 14) - 0.001)}, minimum=2)
    assert found["window-128-o0"]["verdict"] == "undecided"
    assert found["window-256-o0"]["verdict"] == "recommended"


def test_release_questions_are_not_read() -> None:
    development = {"window-256-o0": scores(steady(0.8)), "window-128-o0": scores(steady(0.4))}
    release = {c: rows + scores(steady(0.9 if c == "window-128-o0" else 0.1), split="release") for c, rows in development.items()}
    assert sweep(release) == sweep(development)


def test_failed_and_missing_questions_count_zero() -> None:
    rows = scores([1.0, 1.0, 1.0])
    rows[1] |= {"status": "failed", "reason": "timeout", "value": None}
    rows[2] |= {"status": "missing", "reason": "missing_run", "value": None}
    row = sweep({"window-256-o0": rows})["window-256-o0"]
    assert (row["questions"], row["failed"], row["mean"]) == (3, 2, pytest.approx(1 / 3))


def test_a_lane_that_did_not_run_says_why() -> None:
    rows = scores([0.0, 0.0])
    for row in rows:
        row |= {"status": "not_applicable", "reason": "no_embedder", "value": None}
    row = sweep({"window-256-o0": rows})["window-256-o0"]
    assert (row["questions"], row["mean"], row["verdict"], row["detail"]) == (
        0,
        None,
        "undecided",
        "no embedder is installed or configured",
    )


def test_only_the_deciding_measure_carries_verdicts_and_recall_at_equal_tokens_stands_beside_it() -> None:
    rows = scores(steady(0.8)) + scores(steady(0.7), metric="R", unit="group", k=500, cutoff="tokens")
    rows += scores(steady(0.7), metric="P", k=5)
    found = chunk_sweep({"whole": table("retrieval_scores", rows)}, SIZES, metric="nDCG", k=10, margin=0.02, minimum_questions=50)
    assert {(r["metric"], r["cutoff"], r["verdict"]) for r in found} == {("nDCG", "rank", "recommended"), ("R", "tokens", "")}


def test_a_deciding_measure_that_was_not_scored_is_undecided_and_says_so() -> None:
    row = sweep({"whole": scores(steady(0.8), k=5)})["whole"]
    assert (row["verdict"], row["mean"], row["questions"]) == ("undecided", None, 0)
    assert "k among the cut-offs" in row["detail"]


def test_recall_and_ndcg_at_equal_tokens_have_paired_intervals_of_their_own() -> None:
    """At equal k the long chunks win, at equal delivered tokens the short ones do."""
    rows = {}
    for chunking, at_k, at_tokens in (("window-128-o0", 0.6, 0.8), ("window-256-o0", 0.8, 0.6)):
        rows[chunking] = scores(steady(at_k)) + scores(steady(at_tokens), k=500, cutoff="tokens")
        rows[chunking] += scores(steady(at_tokens), metric="R", unit="group", k=500, cutoff="tokens")
    tables = {chunking: table("retrieval_scores", own) for chunking, own in rows.items()}
    found = chunk_sweep(tables, SIZES, metric="nDCG", k=10, margin=0.05, minimum_questions=50)
    at = {(r["metric"], r["cutoff"], r["chunking"]): r for r in found}
    for metric, cutoff, loser in (
        ("nDCG", "rank", "window-128-o0"),
        ("nDCG", "tokens", "window-256-o0"),
        ("R", "tokens", "window-256-o0"),
    ):
        row = at[metric, cutoff, loser]
        assert row["difference"] == pytest.approx(-0.2)
        assert row["difference_lower"] < -0.2 < row["difference_upper"] < 0


def test_the_cost_of_vectors_is_that_of_the_embedders_a_retriever_uses() -> None:
    tables = {"window-128-o0": table("retrieval_scores", scores(steady(0.8)))}
    costs = {"window-128-o0": {"minilm": (50_000, 614_400), "other": (60_000, 1_228_800), "endpoint": (None, 614_400)}}
    shared: Any = {"metric": "nDCG", "k": 10, "margin": 0.05, "minimum_questions": 50, "costs": costs}

    def cost(embedders: Any) -> tuple[int | None, int | None]:
        (row,) = chunk_sweep(tables, SIZES, embedders={"bm25": embedders}, **shared)
        return row["embedding_tokens"], row["vector_bytes"]

    assert cost(()) == (0, 0)
    assert cost(("minilm", "other")) == (110_000, 1_843_200)
    assert cost(("minilm", "absent")) == (None, None)
    assert cost(("minilm", "endpoint")) == (None, 1_228_800)
