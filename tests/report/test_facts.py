"""Selecting and counting rows for pictures and sections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.report import facts

Row = dict[str, Any]
Maker = Callable[..., Row]


def test_the_funnel_counts_what_each_stage_left_and_lost(row: Maker) -> None:
    lost = ["parsed", "ranked", "ranked", "answered", None, None]
    rows = [
        row("evidence_funnel", question_id=str(i), status="ok", lost_at=s, furthest=None if s else "answered") for i, s in enumerate(lost)
    ]
    rows += [row("evidence_funnel", question_id="u", status="not_applicable", reason="unanswerable")]
    stages, others = facts.funnel_stages(rows)
    assert [(s.name, s.reached, s.lost) for s in stages] == [
        ("acquired", 6, 0), ("parsed", 5, 1), ("cleaned", 5, 0), ("kept", 5, 0), ("chunked", 5, 0), ("eligible", 5, 0),
        ("filtered", 5, 0), ("exact_search", 5, 0), ("index_search", 5, 0), ("ranked", 3, 2), ("in_context", 3, 0), ("answered", 2, 1),
    ]  # fmt: skip
    assert others == {("not_applicable", "unanswerable"): 1}
    assert {s.name: s.open_next for s in stages}["ranked"] == "system_retrievals"


def test_evidence_of_which_no_answer_is_due_counts_neither_as_answered_nor_as_lost(row: Maker) -> None:
    ends = [("in_context", None), ("answered", None), ("in_context", "answered")]
    rows = [row("evidence_funnel", question_id=str(i), status="ok", furthest=f, lost_at=lost) for i, (f, lost) in enumerate(ends)]
    *_, context, answered = facts.funnel_stages(rows)[0]
    assert (context.reached, context.lost, context.unknown) == (3, 0, 0)
    assert (answered.reached, answered.lost, answered.unknown) == (1, 1, 1)


def test_a_stage_that_is_not_of_the_closed_list_is_an_error(row: Maker) -> None:
    with pytest.raises(KeyError):
        facts.funnel_stages([row("evidence_funnel", status="ok", lost_at="mislaid")])


def test_parse_figures_are_the_classs_rows_with_the_extremes_of_its_documents(row: Maker) -> None:
    shared = {"doc_class": "scan", "status": "scored"}
    rows = [
        row("parse_quality", scope="class", metric="cer", value=0.0132, documents=2, **shared),
        row("parse_quality", scope="document", doc_id="long", metric="cer", value=0.01, **shared),
        row("parse_quality", scope="document", doc_id="short", metric="cer", value=0.30, **shared),
        row("parse_quality", scope="document", doc_id="long", metric="length_ratio", value=0.98, **shared),
        row("parse_quality", scope="document", doc_id="short", metric="length_ratio", value=1.2, **shared),
        row("parse_quality", scope="document", doc_id="none", doc_class="scan", metric="cer", status="failed", reason="parse_failed"),
    ]
    (figures,) = facts.parse_figures({"ocr": rows})
    assert (figures.value("cer"), figures.value("wer"), figures.each_cer) == (0.0132, None, (0.01, 0.30))
    assert (figures.documents, figures.with_reference, figures.length_ratio) == (3, 2, (0.98, 1.2))


def test_quotations_are_counted_once_and_leave_at_the_first_step_that_lost_them(row: Maker) -> None:
    documents = [
        row("documents", doc_id="a", doc_class="pdf", parser="pymupdf"),
        row("documents", doc_id="b", doc_class="pdf", parser=None),
    ]
    lost_at = {"q1": None, "q2": "parsed", "q3": "cleaned", "q4": "kept", "q5": None}
    evidence = [row("golden_evidence", doc_id="a", quotation=q, lost_at=at) for q, at in lost_at.items()]
    evidence += [
        row("golden_evidence", doc_id="a", quotation="q5", lost_at="kept"),  # another question, for whose caller the copy was lost
        row("golden_evidence", doc_id="a", quotation=None),
        row("golden_evidence", doc_id="b", quotation="q6"),
    ]
    assert facts.located_after(evidence, documents) == {("pdf", "pymupdf"): (5, 4, 3, 1)}


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20)), min_size=1))
def test_the_pareto_front_holds_exactly_what_no_other_point_beats(points: list[tuple[int, int]]) -> None:
    front = facts.pareto((float(c), float(r)) for c, r in points)
    beaten = {p for p in points if any((c <= p[0] and r >= p[1]) and (c, r) != p for c, r in points)}
    assert {(int(c), int(r)) for c, r in front} == set(points) - beaten


def test_the_deciding_measure_of_a_sweep_is_the_one_with_verdicts(row: Maker) -> None:
    rows = [
        row("chunk_sweep", metric="nDCG", k=10, cutoff="rank", unit="document", chunking="page"),
        row("chunk_sweep", metric="R", k=1000, cutoff="tokens", unit="group", chunking="page", verdict="undecided"),
    ]
    measure, own = facts.deciding(rows)
    assert measure == facts.Measure("R", 1000, "tokens", "group")
    assert [r["metric"] for r in own] == ["R"]
    assert facts.deciding(rows[:1])[0] == facts.Measure("nDCG", 10, "rank", "document")
    assert facts.deciding([]) == (None, [])


@pytest.mark.parametrize(
    ("key", "series"),
    [("recursive-512-o64", "recursive, 12% overlap"), ("window-256-o0", "window, 0% overlap"), ("page", "page"), ("Odd key!", "Odd key!")],
)
def test_chunkings_of_one_strategy_and_overlap_share_a_line(key: str, series: str) -> None:
    assert facts.chunking_series(key) == series


def test_the_page_is_about_release_where_it_was_scored_and_else_about_the_first_split_that_was(row: Maker) -> None:
    def rows(*splits: str) -> list[Row]:
        return [row("system_summary", split=s, questions=3) for s in splits]

    assert facts.headline_split([rows("development", "release")]) == "release"
    assert facts.headline_split([rows("monitoring"), rows("development")]) == "development"
    assert facts.headline_split([[row("system_summary", split="development", questions=0)]]) == "release"


def test_headlines_take_one_cut_off_and_leave_out_what_applies_to_no_question(row: Maker) -> None:
    def summary(metric: str, k: int, cutoff: str, unit: str, questions: int = 9, **more: Any) -> Row:
        shared = {"split": "release", "slice": "all", "stage": "ranking"}
        return row("system_summary", metric=metric, k=k, cutoff=cutoff, unit=unit, questions=questions, **shared | more)

    rows = [
        summary("nDCG", 5, "rank", "document"), summary("nDCG", 10, "rank", "document"), summary("nDCG", 20, "rank", "document"),
        summary("RR", 10, "rank", "document"), summary("RR", 0, "none", "document"), summary("AP", 0, "none", "document"),
        summary("R", 10, "rank", "chunk"), summary("R", 500, "tokens", "group"), summary("P", 10, "rank", "document"),
        summary("faithfulness", 0, "none", "question", 0, stage="answer", not_applicable=9),
        summary("token_f1", 0, "none", "question", 0, stage="answer", failed=9),
        summary("nDCG", 10, "rank", "document", slice="language"), summary("nDCG", 10, "rank", "document", split="development"),
    ]  # fmt: skip
    assert [(r["metric"], r["k"]) for r in facts.headline(rows, "release")] == [("nDCG", 10), ("RR", 10), ("AP", 0), ("token_f1", 0)]


def test_a_question_fails_below_one_and_without_a_value_where_one_was_due(row: Maker) -> None:
    def score(qid: str, value: float | None, status: str, split: str = "release", metric: str = "correct") -> Row:
        return row("system_scores", question_id=qid, metric=metric, split=split, value=value, status=status)

    scores = [
        score("right", 1.0, "scored"), score("wrong", 0.0, "scored"), score("half", 0.5, "scored"), score("broken", None, "failed"),
        score("gone", None, "missing"), score("none", None, "not_applicable"), score("other", 0.0, "scored", split="development"),
        score("right", 0.0, "scored", metric="token_f1"),
    ]  # fmt: skip
    assert facts.failed_questions(scores, [], [], "release", "correct") == (["broken", "gone", "half", "wrong"], "score")


def test_without_a_pass_metric_the_diagnosis_says_which_questions_failed(row: Maker) -> None:
    diagnosis = [
        row("diagnosis", question_id="a", split="release", status="scored", label="retrieval_miss"),
        row("diagnosis", question_id="b", split="release", status="not_applicable", reason="not_failed", label="none"),
        row("diagnosis", question_id="c", split="release", status="not_applicable", reason="no_gold_answer", label="none"),
    ]
    assert facts.failed_questions([], diagnosis, [], "release", "correct") == (["a"], "diagnosis")


def test_where_no_answer_can_be_checked_questions_whose_evidence_missed_the_context_are_told(row: Maker) -> None:
    scores = [row("system_scores", question_id=q, split="release", metric="correct", status="not_applicable") for q in "abc"]
    lost = {"a": "exact_search", "b": "answered", "c": None}
    funnel = [row("evidence_funnel", question_id=q, split="release", status="ok", lost_at=stage) for q, stage in lost.items()]
    assert facts.failed_questions(scores, [], funnel, "release", "correct") == (["a"], "funnel")
