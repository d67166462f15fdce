"""Slices that follow from labels, caller, documents and ranking, each hand-worked."""

from __future__ import annotations

from typing import Any

from rag_eval_assets.scoring.slices import derived
from rag_eval_assets.scoring.summary import summarise
from rag_eval_assets.tables import DERIVED_SLICES
from tests.scoring.builders import Row, question, score, table

DOCUMENTS: list[Row] = [
    {"doc_id": "a.pdf", "doc_class": "pdf"},
    {"doc_id": "b.html", "doc_class": "html"},
]
LENGTHS = {"a.pdf": 300, "b.html": 90, None: None}


def gold(question_id: str, doc_id: str | None, start: int | None = None, end: int | None = None, **more: Any) -> Row:
    own = {"question_id": question_id, "kept_doc_id": doc_id, "start": start, "end": end, "grade": 1, "eligible": True}
    return {**own, "document_characters": LENGTHS[doc_id], **more}


def reciprocal(question_id: str, value: float | None, **more: Any) -> Row:
    return score(question_id, "RR", value, unit="document", stage="ranking", **more)


def values(questions: list[Row], scores: list[Row], evidence: list[Row]) -> dict[str, dict[str, Any]]:
    found = derived(questions, table("system_scores", scores), evidence, DOCUMENTS)
    return {q["question_id"]: {name: q[name] for name in DERIVED_SLICES if name in q} for q in found}


def test_a_question_is_in_the_slices_of_its_gold_its_caller_and_its_best_relevant_rank() -> None:
    asked = question("q", entitlement='{"tenant": ["acme"]}')
    evidence = [gold("q", "a.pdf", 110, 130), gold("q", "a.pdf", 290, 300), gold("q", "b.html", 0, 20)]
    assert values([asked], [reciprocal("q", 1 / 3)], evidence) == {
        "q": {
            "doc_class": ["html", "pdf"],
            "tenant": ["acme"],
            "relevant_documents": ["2"],
            "relevant_position": ["2-3"],
            "evidence_position": ["beginning", "end", "middle"],
        }
    }


def test_ranks_are_read_back_from_reciprocal_ranks_and_a_ranking_without_gold_is_none() -> None:
    ranks = {"a": 1, "b": 5, "c": 6, "d": 10, "e": 11, "f": 100}
    scores = [reciprocal(q, 1 / rank) for q, rank in ranks.items()]
    scores += [reciprocal("none", 0.0), reciprocal("broken", None, status="failed", reason="timeout"), reciprocal("a", 0.5, k=5)]
    found = values([question(q) for q in (*ranks, "none", "broken")], scores, [])
    assert {q: own["relevant_position"] for q, own in found.items()} == {
        "a": ["1"], "b": ["4-5"], "c": ["6-10"], "d": ["6-10"], "e": ["over 10"], "f": ["over 10"], "none": ["none"], "broken": [],
    }  # fmt: skip


def test_only_gold_that_the_caller_may_read_counts() -> None:
    evidence = [gold("q", "a.pdf", eligible=False), gold("q", "b.html", grade=0), gold("q", None)]
    own = values([question("q")], [], evidence)["q"]
    assert own == {"doc_class": [], "tenant": ["none"], "relevant_documents": [], "relevant_position": [], "evidence_position": []}


def test_a_slice_that_the_golden_set_names_itself_is_left_as_it_is() -> None:
    own = values([question("q", slices='{"tenant": "north"}')], [], [])["q"]
    assert "tenant" not in own
    rows = summarise(table("system_scores", [score("q", "m", 1.0)]), [question("q", slices='{"tenant": "north"}')], ["tenant"])
    assert ("tenant", "north") in {(row["slice"], row["slice_value"]) for row in rows}


def test_a_mean_of_fewer_questions_than_the_minimum_is_marked() -> None:
    questions = derived([question(q) for q in "abc"], table("system_scores", [reciprocal(q, 1.0) for q in "ab"]), [], DOCUMENTS)
    scores = table("system_scores", [score(q, "m", 1.0) for q in "abc"])
    rows = {(r["slice"], r["slice_value"]): r["supported"] for r in summarise(scores, questions, ["relevant_position"], 3)}
    assert rows["all", ""] is True
    assert rows["relevant_position", "1"] is False
