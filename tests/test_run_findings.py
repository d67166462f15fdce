"""A run file that names what is not there is told of: how much, where, and what to write in its place."""

from __future__ import annotations

from typing import Any

import pytest

from rag_eval_assets.run_files import RunFileError
from rag_eval_assets.run_findings import refuse_errors, run_file_findings, told

SPLITS = {"q1": "development", "q2": "development", "q3": "release"}
CHUNKS = {"a.md#0-10", "a.md#10-20", "b.md", "copy.md"}
SURVIVORS = {"a.md": "a.md", "b.md": "b.md", "c.md": "c.md", "copy.md": "b.md", "twin.md": "a.md"}


def hit(question: str, line: int, item: str | None, rank: int = 1) -> dict[str, Any]:
    return {"retriever": "theirs", "question_id": question, "rank": rank, "item": item, "score": None, "file": "theirs.trec", "line": line}


def findings(*hits: dict[str, Any], chunks: set[str] = CHUNKS, asked: tuple[str, ...] = ("development",)) -> dict[str, dict[str, Any]]:
    rows = run_file_findings(hits, {"theirs": "window-16-o0"}, SPLITS, lambda chunking: asked, lambda chunking: chunks, SURVIVORS)
    assert {(row["retriever"], row["chunking"], row["file"]) for row in rows} <= {("theirs", "window-16-o0", "theirs.trec")}
    return {row["finding"]: row for row in rows}


def test_a_file_in_which_everything_is_known_is_told_of_with_no_word() -> None:
    assert findings(hit("q1", 1, "a.md#0-10"), hit("q1", 2, "b.md", 2), hit("q2", 3, None)) == {}


def test_whole_documents_in_a_cut_chunking_are_an_error_with_place_share_and_mend() -> None:
    found = findings(hit("q2", 4, "c.md"), hit("q1", 2, "a.md"), hit("q1", 3, "c.md", 2))
    row = found["unknown_unit"]
    assert (row["severity"], row["line"], row["count"], row["total"], row["share"]) == ("error", 2, 3, 3, 1.0)
    assert row["first"] == ["a.md", "c.md"]
    with pytest.raises(RunFileError) as caught:
        refuse_errors(list(found.values()))
    said = "theirs.trec:2: retriever 'theirs': 3 of 3 hits stand for no chunk of window-16-o0: 'a.md', 'c.md'; their questions fail and "
    assert str(caught.value) == said + "count 0; let 'chunkings' be whole, or write ids of its chunks"


def test_chunks_of_another_chunking_beside_known_ones_are_a_warning_that_names_five() -> None:
    strange = [hit("q1", line, f"a.md#0-{line}", line) for line in range(2, 9)]
    row = findings(hit("q1", 1, "a.md#0-10"), *strange, hit("q2", 9, "b.md"))["unknown_unit"]
    assert (row["severity"], row["line"], row["count"], row["total"]) == ("warning", 2, 7, 9)
    assert row["first"] == [f"a.md#0-{line}" for line in range(2, 7)]
    assert "and 2 more; their questions fail and count 0; let 'chunkings' be the chunking that they were cut by" in told(row)
    refuse_errors([row])


def test_where_most_hits_fit_the_lines_are_to_be_mended_and_not_the_chunking() -> None:
    row = findings(hit("q1", 1, "a.md#0-10"), hit("q1", 2, "a.md#0-9", 2), hit("q2", 3, "b.md"))["unknown_unit"]
    assert (row["severity"], row["count"], row["total"]) == ("warning", 1, 3)
    assert told(row).endswith("'a.md#0-9'; their questions fail and count 0; correct or remove these lines")


def test_a_chunking_without_chunks_is_no_fault_of_the_file() -> None:
    assert findings(hit("q1", 1, "a.md"), hit("q2", 2, "b.md"), chunks=set()) == {}


def test_questions_that_the_golden_set_lacks_are_a_warning_and_an_error_where_none_is_known() -> None:
    some = findings(hit("q1", 1, "b.md"), hit("Q2", 2, "b.md"), hit("q2", 3, "b.md"))
    assert list(some) == ["unknown_question"]
    row = some["unknown_question"]
    assert (row["severity"], row["line"], row["count"], row["total"], row["first"]) == ("warning", 2, 1, 3, ["Q2"])
    assert "count nowhere: 'Q2'" in told(row)
    row = findings(hit("Q1", 1, "b.md"), hit("Q2", 2, "b.md"))["unknown_question"]
    with pytest.raises(RunFileError, match=r"theirs\.trec:1: retriever 'theirs': 2 of 2 questions are not in the golden set"):
        refuse_errors([row])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("development",), "1 of 2 questions have no ranking, are missing and count 0 (development 1 of 2): 'q2'"),
        (("development", "release"), "2 of 3 questions have no ranking, are missing and count 0 (development 1 of 2, release 1 of 1): 'q2', 'q3'"),
    ],
)  # fmt: skip
def test_questions_without_a_ranking_are_counted_by_split_and_only_where_they_are_searched(asked: tuple[str, ...], said: str) -> None:
    row = findings(hit("q1", 1, "b.md"), asked=asked)["missing_run"]
    assert row["severity"] == "warning"
    assert said in told(row)


def test_every_question_missing_is_no_error_since_a_file_may_hold_another_split() -> None:
    found = findings(hit("q3", 1, "b.md"))
    assert (found["missing_run"]["count"], found["missing_run"]["severity"]) == (2, "warning")


def test_hits_on_a_document_that_was_merged_into_another_are_a_warning_that_names_the_kept_one() -> None:
    copies = [hit("q1", 1, "a.md#0-10"), hit("q1", 2, "copy.md", 2), hit("q2", 3, "copy.md"), hit("q2", 4, "b.md", 2)]
    found = findings(*copies)
    assert list(found) == ["merged_unit"]
    row = found["merged_unit"]
    assert (row["severity"], row["line"], row["count"], row["total"], row["share"]) == ("warning", 2, 2, 4, 0.5)
    assert row["first"] == ["copy.md"]
    assert told(row) == (
        "theirs.trec:2: retriever 'theirs': 2 of 4 hits are on documents that dedup merged into others: 'copy.md' into 'b.md'; "
        "each counts for the kept one, at the first rank of either, so figures can differ from trec_eval's; write the id of the kept one"
    )
    refuse_errors(list(findings(hit("q1", 1, "copy.md"), hit("q2", 2, "copy.md")).values()))


def test_documents_that_the_corpus_lacks_are_unknown_units_with_a_mend_of_their_own() -> None:
    row = findings(hit("q1", 1, "b.md"), hit("q1", 2, "gone.md", 2), hit("q1", 3, "lost{}.md#0-9", 3), hit("q2", 4, "b.md"))["unknown_unit"]
    assert (row["severity"], row["line"], row["count"], row["total"], row["first"]) == ("warning", 2, 2, 4, ["gone.md", "lost{}.md#0-9"])
    mend = "2 are of no document with text, 'gone.md' first: add it to corpus/, or correct or remove the line"
    assert told(row).endswith(
        f"hits stand for no chunk of window-16-o0: 'gone.md', 'lost{{}}.md#0-9'; their questions fail and count 0; {mend}"
    )
    every = findings(hit("q1", 1, "gone.md"), hit("q2", 2, "lost.md"))["unknown_unit"]
    with pytest.raises(RunFileError, match=r"theirs\.trec:1: retriever 'theirs': 2 of 2 hits stand for no chunk"):
        refuse_errors([every])


def test_each_reason_why_units_are_unknown_has_its_mend() -> None:
    strange = [hit("q1", 1, "gone.md"), hit("q1", 2, "twin.md#0-10", 2), hit("q1", 3, "a.md#0-9", 3)]
    row = findings(*strange, hit("q2", 4, "b.md"))["unknown_unit"]
    assert told(row).split("count 0; ")[1].split("; ") == [
        "1 are of no document with text, 'gone.md' first: add it to corpus/, or correct or remove the line",
        "1 are chunks of a merged document, 'twin.md#0-10' first: write ids of chunks of 'a.md'",
        "correct or remove these lines",
    ]


def test_findings_stand_in_the_order_of_their_lines() -> None:
    rows = findings(hit("q1", 1, "b.md"), hit("Q2", 2, "b.md"), hit("q1", 3, "copy.md", 2), hit("q1", 4, "gone.md", 3))
    assert [(row["line"], row["finding"]) for row in rows.values()] == [
        (1, "missing_run"), (2, "unknown_question"), (3, "merged_unit"), (4, "unknown_unit"),
    ]  # fmt: skip
