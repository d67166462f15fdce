"""Embedders are ranked per language, by exact search alone, with the pairs that stand behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from rag_eval_assets.scoring.embedder_ranking import embedder_ranking
from tests.scoring.builders import Row, complete, table

RETRIEVERS = {
    "e5": {"kind": "dense", "index": "exact", "embedder": "multilingual"},
    "mini": {"kind": "dense", "index": "exact", "embedder": "minilm"},
    "mini-hnsw": {"kind": "dense", "index": "hnsw", "embedder": "minilm"},
    "bm25": {"kind": "bm25", "index": "exact", "embedder": "minilm"},
}


def scores(retriever: str, values: dict[str, float | None], status: str = "scored", **more: Any) -> list[Row]:
    common = {"retriever": retriever, "split": "development", "metric": "nDCG", "k": 10, "unit": "document", "cutoff": "rank"}
    return [
        complete("retrieval_scores", question_id=q, value=v, status=status if v is None else "scored", **{**common, **more})
        for q, v in values.items()
    ]


def questions(count: int, language: str, split: str = "development") -> list[Row]:
    return [{"question_id": f"{language}{i}", "language": language, "split": split} for i in range(count)]


def ranked(rows: list[Row], asked: list[Row]) -> dict[tuple[str, str], Row]:
    found = embedder_ranking({"whole": table("retrieval_scores", rows)}, asked, RETRIEVERS, k=10)
    return {(r["language"], r["retriever"]): r for r in found}


def test_each_language_has_its_own_order() -> None:
    asked = questions(300, "en") + questions(300, "nl")
    rng = np.random.default_rng(5)
    noise = {q["question_id"]: float(rng.uniform(0, 0.2)) for q in asked}
    rows = [
        *scores("mini", {q: n + (0.7 if q.startswith("en") else 0.2) for q, n in noise.items()}),
        *scores("e5", {q: n + 0.6 for q, n in noise.items()}),
        *scores("mini-hnsw", dict.fromkeys(noise, 1.0)),
        *scores("bm25", dict.fromkeys(noise, 1.0)),
    ]
    found = ranked(rows, asked)
    assert {key: (r["place"], r["verdict"], r["best"]) for key, r in found.items()} == {
        ("en", "mini"): (1, "best", None),
        ("en", "e5"): (2, "worse", "mini"),
        ("nl", "e5"): (1, "best", None),
        ("nl", "mini"): (2, "worse", "e5"),
    }
    dutch = found["nl", "mini"]
    assert (dutch["embedder"], dutch["paired"], dutch["warning"]) == ("minilm", 300, None)
    assert dutch["difference"] == pytest.approx(-0.4)
    assert dutch["difference_lower"] < -0.4 < dutch["difference_upper"] < 0


def test_a_difference_that_may_be_chance_is_not_told_as_worse_and_few_questions_are_warned_of() -> None:
    rng = np.random.default_rng(1)
    asked = questions(60, "de")
    one, other = ({q["question_id"]: float(v) for q, v in zip(asked, rng.random(60), strict=True)} for _ in range(2))
    found = ranked([*scores("mini", one), *scores("e5", other)], asked)
    (behind,) = [r for r in found.values() if r["place"] == 2]
    assert stats.ttest_rel(list(one.values()), list(other.values())).pvalue > 0.05
    assert behind["verdict"] == "not_shown_worse"
    assert {r["warning"] for r in found.values()} == {"60 questions in de; under 200 an order may be chance"}


def test_failed_and_missing_questions_count_zero_and_release_questions_are_not_read() -> None:
    asked = [*questions(3, "en"), {"question_id": "r", "language": "en", "split": "release"}]
    rows = [
        *scores("mini", {"en0": 1.0, "en1": 0.5, "r": 0.0}),
        *scores("mini", {"en2": None}, "failed"),
        *scores("e5", {"en0": None, "en1": None, "en2": None}, "not_applicable"),
    ]
    found = ranked(rows, asked)
    mine, absent = found["en", "mini"], found["en", "e5"]
    assert (mine["mean"], mine["questions"], mine["failed"], mine["verdict"]) == (0.5, 3, 1, "best")
    assert (absent["status"], absent["reason"], absent["place"], absent["mean"], absent["verdict"]) == (
        "not_applicable", "no_embedder", None, None, "no_score",
    )  # fmt: skip


def test_the_order_of_rows_never_matters() -> None:
    asked = questions(20, "en")
    rows = [*scores("mini", {q["question_id"]: 0.5 for q in asked}), *scores("e5", {q["question_id"]: 0.5 for q in asked})]
    assert ranked(rows, asked) == ranked(rows[::-1], asked[::-1])
    assert ranked(rows, asked)["en", "e5"]["place"] == 1, "equal means: by name"
