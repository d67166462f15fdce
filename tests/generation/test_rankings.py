"""The ranking a system works from is its retriever's, cut to its depth, with every question in it."""

from __future__ import annotations

import hashlib

import pytest

from rag_eval_assets.generation.rankings import system_rankings
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import Row, hit, no_hit, question, runs

SPEC = {"system": "s", "retriever": "bm25", "depth": 2, "retrieval_sha256": "r"}
TEXTS = {d: f"text of {d}".ljust(100) + "what follows" for d in "abc"}


def rankings(rows: list[Row], questions: list[Row] | None = None) -> list[Row]:
    return system_rankings(SPEC, questions or [question()], runs(rows), TEXTS)


def test_hits_are_cut_to_the_systems_depth_and_carry_their_text() -> None:
    rows = [hit("q", 3, "c"), hit("q", 1, "a"), hit("q", 2, "b"), hit("q", 1, "b", retriever="dense")]
    found = rankings(rows)
    assert [(r["rank"], r["doc_id"], r["text"]) for r in found] == [(1, "a", TEXTS["a"][:100]), (2, "b", TEXTS["b"][:100])]
    assert all(r["text_sha256"] == hashlib.sha256(r["text"].encode()).hexdigest() for r in found)
    assert all(set(r) == set(TABLES["system_retrievals"].columns) for r in found)


def test_a_question_without_a_ranking_is_missing_and_typed_rows_are_kept() -> None:
    rows = [no_hit("a", "ok", "empty_ranking"), no_hit("b", "failed", "timeout"), no_hit("c", "not_applicable", "no_embedder")]
    found = rankings(rows, [question(q) for q in "dcba"])
    assert [(r["question_id"], r["rank"], r["status"], r["reason"]) for r in found] == [
        ("a", 0, "ok", "empty_ranking"),
        ("b", 0, "failed", "timeout"),
        ("c", 0, "not_applicable", "no_embedder"),
        ("d", 0, "missing", "missing_run"),
    ]


def test_a_chunk_named_twice_fails_its_question_and_says_which() -> None:
    (row,) = rankings([hit("q", 1, "a"), hit("q", 2, "a")])
    assert (row["status"], row["reason"], row["detail"], row["rank"]) == ("failed", "duplicate_ids", "a#0-100", 0)


def test_a_score_that_is_not_finite_fails_its_question() -> None:
    (row,) = rankings([hit("q", 1, "a", score=float("nan"))])
    assert (row["status"], row["reason"]) == ("failed", "non_finite_score")


def test_a_hit_delivers_its_span_whichever_chunk_found_it() -> None:
    (row,) = rankings([hit("q", 1, "a", start=5, end=104, chunk_id="a#10-20")])
    assert (row["chunk_id"], row["text"]) == ("a#10-20", TEXTS["a"][5:104])


def test_a_document_without_text_is_an_error_that_names_it() -> None:
    with pytest.raises(KeyError, match="z"):
        rankings([hit("q", 1, "z")])
