"""The funnel names the first step that lost each group of evidence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rag_eval_assets.scoring.funnel import evidence_funnel
from rag_eval_assets.tables import STAGES
from tests.scoring.builders import (
    Row,
    complete,
    context,
    evidence,
    hit,
    no_hit,
    passage,
    question,
    quoted,
    relevant,
    retrieval,
    runs,
    score,
    table,
)

WORDS = "The filter is changed every two years."
TEXT = f"Care. {WORDS} Call us."
SPEC = {"system": "s", "chunking": "whole", "retriever": "dense", "depth": 10, "top_k": 2}


def follow(**changed: Any) -> Row:
    """The funnel row of one question whose evidence is answered, with parts of its way changed."""
    way: dict[str, Any] = {
        "questions": [question()],
        "evidence": [quoted("q", "a", 6, WORDS)],
        "exclusion": [],
        "chunks": [(0, 60)],
        "runs": [hit("q", 1, "a", 0, 60, retriever="dense")],
        "retrievals": [retrieval("q", 1, "a", 0, TEXT)],
        "contexts": [context("q", [passage(0, "a", 0, TEXT)])],
        "scores": [score("q", "correct", 1.0)],
        "retrievers": {},
        **changed,
    }
    chunks = [complete("chunks", doc_id="a", start=s, end=e) for s, e in way["chunks"]]
    (row,) = evidence_funnel(
        way["questions"], way["evidence"], way["exclusion"], table("chunks", chunks), runs(way["runs"]), SPEC, way["retrievals"],
        way["contexts"], way["scores"], retrievers=way["retrievers"],
    )  # fmt: skip
    return row


def test_evidence_that_was_answered_was_lost_nowhere() -> None:
    row = follow()
    assert (row["furthest"], row["lost_at"], row["open_next"], row["best_rank"], row["status"]) == ("answered", None, None, 1, "ok")


@pytest.mark.parametrize(
    ("changed", "stage"),
    [
        *(({"evidence": [quoted("q", "a", 6, WORDS, lost_at=s)]}, s) for s in ("acquired", "parsed", "cleaned", "kept")),
        ({"chunks": [(0, 20), (20, 60)], "runs": [], "retrievals": [], "contexts": []}, "chunked"),
        ({"evidence": [quoted("q", "a", 6, WORDS, entitled=False)], "runs": [], "retrievals": [], "contexts": []}, "eligible"),
        (
            {
                "exclusion": [complete("filter_exclusion", question_id="q", excluded_documents=["a"])],
                "runs": [], "retrievals": [], "contexts": [],
            },
            "filtered",
        ),
        ({"runs": [hit("q", 11, "a", 0, 60, retriever="dense")], "retrievals": [], "contexts": []}, "exact_search"),
        ({"retrievals": [retrieval("q", 3, "a", 0, TEXT)], "contexts": [context("q", [])]}, "ranked"),
        ({"contexts": [context("q", [])]}, "in_context"),
        ({"scores": [score("q", "correct", 0.0)]}, "answered"),
        ({"scores": [score("q", "correct", None, status="failed", reason="timeout")]}, "answered"),
    ],
)  # fmt: skip
def test_each_loss_is_put_down_to_the_stage_that_made_it(changed: dict[str, Any], stage: str) -> None:
    lost = changed
    if stage in ("acquired", "parsed", "cleaned", "kept"):
        lost = {**changed, "runs": [], "retrievals": [], "contexts": []}
    row = follow(**lost)
    order = list(STAGES)
    before = order[order.index(stage) - 1] if stage != "acquired" else None
    assert (row["lost_at"], row["open_next"], row["furthest"]) == (stage, STAGES[stage], before)


def test_what_an_index_misses_and_exact_search_finds_is_the_indexs_loss() -> None:
    retrievers = {
        "dense": {"kind": "dense", "index": "hnsw", "embedder": "minilm"},
        "dense-exact": {"kind": "dense", "index": "exact", "embedder": "minilm"},
        "bm25": {"kind": "bm25", "index": "exact", "embedder": "minilm"},
    }
    found = [hit("q", 1, "a", 0, 60, retriever="dense-exact"), hit("q", 1, "b", retriever="dense")]
    row = follow(runs=found, retrievals=[], contexts=[], retrievers=retrievers)
    assert (row["furthest"], row["lost_at"], row["open_next"]) == ("exact_search", "index_search", "ann_recall")


def test_two_chunks_that_carry_the_evidence_together_have_not_lost_it() -> None:
    halves = [passage(0, "a", 0, TEXT[:25]), passage(1, "a", 25, TEXT[25:])]
    row = follow(
        chunks=[(0, 25), (25, 60)],
        runs=[hit("q", 1, "a", 0, 25, retriever="dense"), hit("q", 2, "a", 25, 60, retriever="dense")],
        retrievals=[retrieval("q", 1, "a", 0, TEXT[:25]), retrieval("q", 2, "a", 25, TEXT[25:])],
        contexts=[context("q", halves)],
    )
    assert (row["lost_at"], row["furthest"], row["best_rank"]) == (None, "answered", 2)


def test_a_group_is_where_its_furthest_alternative_is() -> None:
    lost = quoted("q", "gone", 0, "x" * 30, item=1, lost_at="parsed")
    assert follow(evidence=[quoted("q", "a", 6, WORDS), lost])["furthest"] == "answered"


def test_evidence_delivered_though_the_caller_may_not_read_it_is_said_to_be() -> None:
    row = follow(evidence=[quoted("q", "a", 6, WORDS, entitled=False)])
    assert row["lost_at"] == "eligible"
    assert row["detail"] == "delivered all the same"


def test_without_a_verdict_on_the_answer_evidence_in_the_context_is_not_lost() -> None:
    row = follow(scores=[score("q", "correct", None, status="not_applicable", reason="no_gold_answer")])
    assert (row["furthest"], row["lost_at"]) == ("in_context", None)
    assert "not known" in row["detail"]


def test_documents_stand_for_groups_where_a_question_has_none() -> None:
    row = follow(evidence=[relevant("q", "a")], runs=[hit("q", 1, "b", retriever="dense")], retrievals=[], contexts=[])
    assert (row["group"], row["lost_at"]) == ("a", "exact_search")


def test_a_cited_group_is_flagged() -> None:
    cited = score("q", "citation_gold_recall", 1.0, explanation=json.dumps({"cited": ["g1"], "not_cited": []}))
    assert follow(scores=[score("q", "correct", 1.0), cited])["cited"]
    assert not follow()["cited"]


@pytest.mark.parametrize(("status", "reason"), [("failed", "timeout"), ("not_applicable", "no_embedder")])
def test_a_retriever_that_did_not_run_leaves_a_typed_row(status: str, reason: str) -> None:
    stopped = complete("system_retrievals", question_id="q", rank=0, status=status, reason=reason)
    row = follow(runs=[no_hit("q", status, reason, retriever="dense")], retrievals=[stopped], contexts=[])
    assert (row["status"], row["reason"]) == (status, reason)
    assert row["lost_at"] == ("exact_search" if status == "failed" else None)


def test_unanswerable_questions_have_no_evidence_to_follow() -> None:
    asked, spec = question(answerable=False), SPEC
    empty = (table("chunks", []), runs([]), spec, [], [], [])
    assert evidence_funnel([asked], [], [], *empty) == []


def test_every_group_has_a_row() -> None:
    labels = [quoted("q", "a", 6, WORDS), evidence("q", "b", group="g2")]
    spec = {**SPEC}
    rows = evidence_funnel([question()], labels, [], table("chunks", []), runs([]), spec, [], [], [])
    assert [r["group"] for r in rows] == ["g1", "g2"]
