"""Failed questions are replayed under one changed condition at a time, and a step is implicated, never blamed."""

from __future__ import annotations

from typing import Any

import pytest

from rag_eval_assets.generation.context import assemble
from rag_eval_assets.report import addresses
from rag_eval_assets.scoring.answers import score_answers
from rag_eval_assets.scoring.diagnosis import INTERVENTIONS, Replay, Trials, diagnose
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import Row, answer, citation, complete, question, quoted, retrieval

WORDS = "The filter is changed every two years."
OTHER = "The fan is cleaned in spring."
SPEC = {
    "system": "s", "chunking": "c", "retriever": "bm25", "depth": 10, "top_k": 2, "token_budget": 100, "ordering": "best_first", "reader": "x",
    "require_citations": True, "parameters": "{}",
}  # fmt: skip


def reads_well(asked: Row, delivered: Row, spec: Row) -> Row:
    """Quotes the passage about the filter if it is delivered, else refuses."""
    found = [p for p in delivered["passages"] if WORDS in p["text"]]
    if not found:
        return answer(asked["question_id"], refused=True)
    return answer(asked["question_id"], f"{WORDS} [{found[0]['position'] + 1}]", [{**_whole(found[0])}])


def reads_badly(asked: Row, delivered: Row, spec: Row) -> Row:
    return answer(asked["question_id"], "Never.", [_whole(p) for p in delivered["passages"][:1]])


def _whole(source: Row) -> Row:
    if source["start"] is None:
        return {k: source[k] for k in ("position", "chunk_id", "doc_id", "start", "end")} | {"quotation": source["text"]}
    return citation(source)


def diagnosed(rows: list[Row], read: Any = reads_well, asked: Row | None = None, first: Any = None, **more: Any) -> dict[str, Row]:
    asked = asked or question(reference_answer="every two years", gold_context=WORDS)
    labels = more.pop("labels", [quoted("q", "manual", 0, WORDS)])
    trials, exclusion = more.pop("trials", None), more.pop("exclusion", ())
    spec = {**SPEC, **more}
    contexts = assemble(rows, spec)
    answers = [(first or read)(asked, c, spec) for c in contexts]
    scores = score_answers([asked], contexts, answers, labels, require_citations=True)
    found = diagnose([asked], labels, spec, rows, contexts, answers, scores, read, assemble=assemble, exclusion=exclusion, trials=trials)
    assert all(set(r) == set(TABLES["diagnosis"].columns) - {"work_key"} for r in found)
    return {r["intervention"]: r for r in found}


def at_rank(rank: int, tokens: int = 10) -> list[Row]:
    """A ranking whose evidence stands at `rank`."""
    texts = [(WORDS, "manual") if r == rank else (f"{OTHER} {r}", f"d{r}") for r in range(1, 7)]
    return [retrieval("q", r, doc, 0, text, tokens=tokens) for r, (text, doc) in enumerate(texts, 1)]


def test_a_question_that_passed_is_not_diagnosed() -> None:
    found = diagnosed(at_rank(1))
    assert list(found) == ["control"]
    assert (found["control"]["status"], found["control"]["reason"], found["control"]["label"]) == ("not_applicable", "not_failed", "none")


def test_evidence_ranked_below_top_k_is_confirmed_by_a_larger_top_k() -> None:
    found = diagnosed(at_rank(3))
    assert set(found) == set(INTERVENTIONS)
    assert {(r["label"], r["why"], r["best_rank"]) for r in found.values()} == {("ranked_out", "relevant_ranked_out", 3)}
    assert {name: r["recovered"] for name, r in found.items()} == {
        "control": False, "gold_context": True, "larger_top_k": True, "larger_budget": False,
    }  # fmt: skip


def test_a_replay_that_changes_nothing_says_that_it_delivers_the_same_context() -> None:
    # Two of six passages are delivered in 20 of 100 tokens: a larger budget adds none, a larger top_k two.
    found = diagnosed(at_rank(6))
    assert [name for name, r in found.items() if "which delivers the same context" in r["detail"]] == ["larger_budget"]
    assert found["larger_budget"]["detail"].startswith("token budget 200 in place of 100, which delivers the same context: fails again")
    told = addresses.told(found["larger_budget"])
    assert told == "not recovered, which delivers the same context; implicated: ranked out (relevant ranked out)"


def test_evidence_that_the_budget_cut_is_confirmed_by_a_larger_budget() -> None:
    found = diagnosed(at_rank(2, tokens=60))
    assert found["control"]["label"] == "context_assembly_loss"
    assert found["control"]["why"] == "relevant_dropped_from_context"
    assert (found["larger_budget"]["recovered"], found["larger_top_k"]["recovered"]) == (True, False)


def test_evidence_that_was_never_retrieved_is_a_retrieval_miss() -> None:
    found = diagnosed(at_rank(9))
    assert (found["control"]["label"], found["control"]["why"], found["control"]["best_rank"]) == (
        "retrieval_miss", "relevant_not_retrieved", None,
    )  # fmt: skip
    assert found["gold_context"]["recovered"]


def test_a_reader_that_fails_with_gold_context_is_implicated_itself() -> None:
    found = diagnosed(at_rank(1), reads_badly)
    assert (found["control"]["label"], found["control"]["why"]) == ("generation_failure", "fails_with_gold_context")


def shared_words(query: str, passages: list[str]) -> list[float]:
    return [float("filter" in passage) for passage in passages]


def test_a_reranker_is_tried_on_the_recorded_ranking_and_confirms_what_was_ranked_out() -> None:
    found = diagnosed(at_rank(5), trials=Trials(rerankers={"words": shared_words, "none": lambda q, p: [0.0] * len(p)}))
    assert (found["control"]["label"], found["control"]["best_rank"]) == ("ranked_out", 5)
    # Twice top_k reaches rank 4; the reranker puts rank 5 first; equal scores keep the order recorded.
    assert {name: r["recovered"] for name, r in found.items()} == {
        "control": False, "gold_context": True, "larger_top_k": False, "larger_budget": False, "reranker=words": True, "reranker=none": False,
    }  # fmt: skip
    assert found["reranker=words"]["detail"] == (
        "the recorded ranking in the order of words: passes; implicated: ranked out; candidate experiment: a larger top_k or a reranker"
    )
    assert not diagnosed(at_rank(9), trials=Trials(rerankers={"words": shared_words}))["reranker=words"]["recovered"]


def test_a_limit_of_the_settings_is_tried_in_place_of_twice_the_systems_own() -> None:
    assert diagnosed(at_rank(5), trials=Trials(top_k=5))["larger_top_k"]["recovered"]
    assert diagnosed(at_rank(2, tokens=60), trials=Trials(budget=110))["larger_budget"]["recovered"] is False
    assert diagnosed(at_rank(2, tokens=60), trials=Trials(budget=120))["larger_budget"]["recovered"]
    assert diagnosed(at_rank(3), trials=Trials(top_k=2))["larger_top_k"]["reason"] == "not_diagnosable"


@pytest.mark.parametrize(
    ("score", "status", "reason"),
    [
        (lambda q, p: [1.0], "failed", "unusable_reply"),
        (lambda q, p: [float("nan")] * len(p), "failed", "non_finite_score"),
        (lambda q, p: 1 / 0, "failed", "crashed"),
        (Replay(None, "not_applicable", "not_installed"), "not_applicable", "not_installed"),
    ],
)
def test_a_reranker_that_gives_no_order_fails_its_own_replay_alone(score: Any, status: str, reason: str) -> None:
    found = diagnosed(at_rank(3), trials=Trials(rerankers={"r": score}))
    assert (found["reranker=r"]["status"], found["reranker=r"]["reason"], found["reranker=r"]["recovered"]) == (status, reason, None)
    assert found["larger_top_k"]["recovered"]


def test_evidence_that_a_filter_hid_is_filtered_out_where_the_product_filters() -> None:
    hidden = [complete("filter_exclusion", question_id="q", excluded_documents=["manual"])]
    found = diagnosed(at_rank(9), exclusion=hidden)["control"]
    assert (found["label"], found["why"]) == ("filtered_out", "relevant_filtered_out")
    assert "candidate experiment: a soft filter" in found["detail"]
    # A system of one's own filters out of sight.
    assert diagnosed(at_rank(9), exclusion=hidden, chunking=None)["control"]["label"] == "retrieval_miss"


def test_evidence_lost_in_ingestion_is_named_before_retrieval() -> None:
    lost = quoted("q", "manual", 0, WORDS, lost_at="parsed")
    lost |= {"start": None, "end": None}
    assert diagnosed(at_rank(9), labels=[lost])["control"]["label"] == "evidence_lost_in_ingestion"


def test_a_failure_that_does_not_come_back_implicates_nothing() -> None:
    found = diagnosed(at_rank(1), reads_well, first=reads_badly)
    assert (found["control"]["label"], found["control"]["recovered"]) == ("unstable", True)
    assert "another answer" in found["control"]["detail"]


def test_without_gold_context_a_failure_is_not_diagnosable_and_is_counted() -> None:
    found = diagnosed(at_rank(3), asked=question(reference_answer="every two years"))
    assert found["control"]["label"] == "not_diagnosable"
    assert (found["gold_context"]["status"], found["gold_context"]["reason"]) == ("not_applicable", "no_gold_context")
    assert found["larger_top_k"]["recovered"]


def test_an_answer_to_an_unanswerable_question_implicates_generation() -> None:
    found = diagnosed(at_rank(1), reads_badly, asked=question(answerable=False), labels=[])
    assert (found["control"]["label"], found["control"]["why"]) == ("generation_failure", "answered_unanswerable")
    assert {found[name]["reason"] for name in INTERVENTIONS[1:]} == {"unanswerable"}


def test_without_a_budget_there_is_none_to_enlarge() -> None:
    assert diagnosed(at_rank(3), token_budget=None)["larger_budget"]["reason"] == "not_diagnosable"


def test_a_question_without_verdict_is_left_alone() -> None:
    found = diagnosed(at_rank(1), asked=question())
    assert (found["control"]["status"], found["control"]["reason"]) == ("not_applicable", "no_gold_answer")


def test_a_failed_answer_is_diagnosed_too() -> None:
    def crashes(asked: Row, delivered: Row, spec: Row) -> Row:
        return answer(asked["question_id"], status="failed", reason="crashed")

    found = diagnosed(at_rank(1), reads_well, first=crashes)
    assert found["control"]["label"] == "unstable"
    again = diagnosed(at_rank(1), crashes)
    assert (again["control"]["status"], again["control"]["reason"], again["control"]["recovered"]) == ("failed", "crashed", None)
    assert again["control"]["label"] == "not_diagnosable"


def test_a_retriever_that_failed_leaves_only_the_gold_context_to_try() -> None:
    stopped = complete("system_retrievals", question_id="q", split="release", rank=0, status="failed", reason="timeout")

    def reads(asked: Row, delivered: Row, spec: Row) -> Row:
        if delivered["status"] != "ok":
            return answer(asked["question_id"], status="failed", reason="upstream_failed")
        return reads_well(asked, delivered, spec)

    found = diagnosed([stopped], reads)
    assert found["gold_context"]["recovered"]
    assert found["control"]["label"] == "retrieval_miss"


def test_results_have_an_identity_that_changes_with_them() -> None:
    first, again, other = diagnosed(at_rank(3)), diagnosed(at_rank(3)), diagnosed(at_rank(4))
    ids = {name: row["result_id"] for name, row in first.items()}
    assert ids == {name: row["result_id"] for name, row in again.items()}
    assert len(set(ids.values())) == len(ids)
    assert other["larger_top_k"]["result_id"] != ids["larger_top_k"]


@pytest.mark.parametrize("rank", [1, 3, 9])
def test_no_row_claims_a_cause(rank: int) -> None:
    for row in diagnosed(at_rank(rank)).values():
        assert "cause" not in f"{row['detail']} {row['label']} {row['why']}"


def test_an_unanswerable_question_that_cannot_be_replayed_is_not_diagnosable() -> None:
    def logged(asked: Row, delivered: Row, spec: Row) -> Row:
        return answer(asked["question_id"], status="failed", reason="not_diagnosable")

    found = diagnosed(at_rank(1), logged, question(answerable=False), labels=[])
    assert {(r["label"], r["why"]) for r in found.values()} == {("not_diagnosable", "not_diagnosable")}
