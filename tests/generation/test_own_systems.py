"""Systems from outside: a class is called one question at a time, a log is read by line, and neither is ever re-ranked."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rag_eval_assets.generation import own_systems
from rag_eval_assets.generation.own_systems import Locator, OwnSystemError, declared, generate, load_system, read_log, retrieve
from rag_eval_assets.generation.protocol import Answer, Citation, Passage, SystemUnderTest
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import Row, context, passage, question

SPEC: Row = {"reader": "mine:Mine", "kind": "class"}
ASKED = question("q", text="How long?", entitlement='{"tenant": "a"}')


class Mine:
    index_version = "7"
    depth, top_k, token_budget = 10, 3, None

    def __init__(self, found: Any = (), reply: Any = "") -> None:
        self.found, self.reply = found, reply
        self.asked: list[Any] = []

    def retrieve(self, question: str, depth: int) -> Any:
        self.asked.append((question, depth))
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def generate(self, question: str, passages: Any) -> Any:
        self.asked.append([p.id for p in passages])
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def of(*ids: str, scores: Any = None) -> list[Passage]:
    return [Passage(name, "d", f"text {name}", None if scores is None else scores[n]) for n, name in enumerate(ids)]


def test_the_protocol_is_what_the_issue_of_a_class_offers() -> None:
    class Whole(Mine):
        def count_tokens(self, text: str) -> int:
            return len(text)

    assert isinstance(Whole(), SystemUnderTest)
    assert not isinstance(Mine(), SystemUnderTest)


def test_positions_are_recorded_as_returned_and_scores_rank_nothing() -> None:
    rows = retrieve(Mine(of("b", "a", "c", scores=[0.1, 0.9, 0.5])), ASKED, 2)
    assert [(r["rank"], r["chunk_id"], r["score"]) for r in rows] == [(1, "b", 0.1), (2, "a", 0.9)]
    assert set(rows[0]) == set(TABLES["system_retrievals"].columns) - {"work_key"}


@pytest.mark.parametrize(
    ("found", "status", "reason"),
    [
        (of("a", "b", "a"), "failed", "duplicate_ids"),
        (of("a", "b", scores=[1.0, math.nan]), "failed", "non_finite_score"),
        (of("a", "b", scores=[1.0, math.inf]), "failed", "non_finite_score"),
        (RuntimeError("index is closed"), "failed", "crashed"),
        ([{"id": "a"}], "failed", "crashed"),
        ([Passage("a", "d", None)], "failed", "crashed"),  # type: ignore[arg-type]
        (None, "failed", "crashed"),
        ([], "ok", "empty_ranking"),
    ],
)  # fmt: skip
def test_a_fault_is_the_questions_own(found: Any, status: str, reason: str) -> None:
    (row,) = retrieve(Mine(found), ASKED, 10)
    assert (row["rank"], row["status"], row["reason"], row["chunk_id"]) == (0, status, reason, None)


def test_a_class_that_asks_for_it_is_told_what_the_caller_may_read() -> None:
    class Told(Mine):
        def retrieve(self, question: str, depth: int, entitlement: Any = None) -> Any:
            self.asked.append(entitlement)
            return []

    system = Told()
    retrieve(system, ASKED, 5)
    assert system.asked == [{"tenant": "a"}]


def test_a_plain_text_cites_by_number_and_an_answer_by_position() -> None:
    delivered = context("q", [passage(0, "a", 0, "Two years."), passage(1, "b", 10, "Five years.")])
    plain = generate(Mine(reply="Five [2], see [9]."), ASKED, delivered, SPEC)
    assert [c["position"] for c in plain["citations"]] == [1, -1]
    reply = Answer("Five.", citations=[Citation(1, "Five years."), Citation(4)], prompt_tokens=3)
    typed = generate(Mine(reply=reply), ASKED, delivered, SPEC)
    assert [(c["position"], c["quotation"]) for c in typed["citations"]] == [(1, "Five years."), (-1, "[5]")]
    assert (typed["prompt_tokens"], typed["raw"]) == (3, "Five.")
    refused = generate(Mine(reply=Answer("no", refused=True)), ASKED, delivered, SPEC)
    assert (refused["refused"], refused["answer"], refused["raw"]) == (True, "", "no")
    crashed = generate(Mine(reply=RuntimeError("no quota")), ASKED, delivered, SPEC)
    assert (crashed["status"], crashed["reason"], crashed["detail"]) == ("failed", "crashed", "RuntimeError: no quota")


def test_settings_override_what_a_class_declares_and_a_budget_needs_its_count() -> None:
    assert declared(Mine(), "m:C", {}) == {"depth": 10, "top_k": 3, "token_budget": None, "index_version": "7"}
    assert declared(Mine(), "m:C", {"depth": 20, "top_k": 5}) == {"depth": 20, "top_k": 5, "token_budget": None, "index_version": "7"}
    with pytest.raises(OwnSystemError, match="a token budget needs count_tokens"):
        declared(Mine(), "m:C", {"token_budget": 100})
    with pytest.raises(OwnSystemError, match="top_k 11 is over depth 10"):
        declared(Mine(), "m:C", {"top_k": 11})
    with pytest.raises(OwnSystemError, match="depth is None"):
        declared(object(), "m:C", {})


def test_a_class_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "own_one.py").write_text(
        "class Bare:\n    pass\n\nclass Broken:\n    def __init__(self):\n        raise OSError('no index')\n"
    )
    for path, told in (("no_such_module:C", "ModuleNotFoundError"), ("own_one:Gone", "AttributeError"), ("own_one:Broken", "OSError: no index"),
                       ("own_one:Bare", "has no retrieve and no generate")):  # fmt: skip
        with pytest.raises(OwnSystemError, match=told):
            load_system(path, {}, tmp_path)


def test_a_passage_is_located_in_the_canonical_text_or_keeps_its_document_alone() -> None:
    text = "The heating element of the kettle is covered for five years. The lid is covered for two."
    place = Locator([{"doc_id": "w.md", "absorbed": ["copy.md"]}], {"w.md": text}).place

    def row(doc_id: str, words: str) -> Row:
        return {"rank": 1, "doc_id": doc_id, "text": words, "text_sha256": words, "start": None, "end": None, "similarity": None}

    exact = place(row("w.md", "The lid is covered for two."))
    assert (text[exact["start"] : exact["end"]], exact["similarity"]) == ("The lid is covered for two.", 1.0)
    near = place(row("w.md", "The heating elements of the kettle is covered for five years."))
    assert near["start"] == 0
    assert 0.85 <= near["similarity"] < 1
    merged = place(row("copy.md", "The lid is covered for two."))
    assert (merged["doc_id"], merged["start"]) == ("w.md", exact["start"])
    for lost in (place(row("w.md", "Nothing of the kind stands here at all.")), place(row("unknown.md", "The lid is covered for two."))):
        assert (lost["start"], lost["end"], lost["similarity"]) == (None, None, None)


# ----------------------------------------------------------------------------------------------------------------- logs
RANKING = {"id": "q1", "passages": [{"id": "p1", "document": "d", "text": "t", "score": 0.5, "tokens": 3}]}


@pytest.mark.parametrize(
    ("kind", "line", "told"),
    [
        ("retrievals", "{", "Expecting"),
        ("retrievals", "[]", "a line is an object with the question's id"),
        ("retrievals", '{"id": 3}', "a line is an object with the question's id"),
        ("retrievals", json.dumps({**RANKING, "rank": 1}), "'q1': unknown field rank; known: id, passages"),
        ("retrievals", json.dumps({"id": "q1", "passages": [{"id": "p", "document": "d"}]}), "'q1': passage 1: id, document and text"),
        ("retrievals", json.dumps({**RANKING, "passages": RANKING["passages"] * 2}), "'q1': names p1 twice"),
        ("retrievals", '{"id": "q1", "passages": [{"id": "p", "document": "d", "text": "t", "score": NaN}]}', "NaN is no number of JSON"),
        ("answers", '{"id": "q1"}', "'q1': has neither an answer nor refused"),
        ("answers", '{"id": "q1", "answer": "x", "cost": -1}', "'q1': cost is no number from 0"),
        ("answers", '{"id": "q1", "answer": "x", "citations": [1]}', "'q1': citations is a list of passage ids"),
    ],
)  # fmt: skip
def test_a_faulty_line_of_a_log_is_named_by_file_line_and_id(kind: str, line: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n" + line + "\n")
    with pytest.raises(OwnSystemError) as caught:
        read_log(path, kind)
    assert str(caught.value).startswith(f"{path}:2: {told}")


def test_an_id_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f"{json.dumps(RANKING)}\n{json.dumps(RANKING)}\n")
    with pytest.raises(OwnSystemError, match=r":2: 'q1': the id stands on an earlier line too"):
        read_log(path, "retrievals")


def test_logged_rankings_and_answers_become_rows_and_what_is_absent_is_missing() -> None:
    (row,) = own_systems.logged_ranking(ASKED, RANKING, 10)
    assert (row["rank"], row["chunk_id"], row["tokens"], row["score"], row["seconds"]) == (1, "p1", 3, 0.5, None)
    (none,) = own_systems.logged_ranking(ASKED, None, 10)
    assert (none["status"], none["reason"]) == ("missing", "missing_run")
    delivered = context("q", [passage(0, "a", 0, "Two years.")])
    name = delivered["passages"][0]["chunk_id"]
    line = {"id": "q", "answer": "Two.", "citations": [name, "gone"], "cost": 0.5, "seconds": 2.0}
    found = own_systems.logged_answer(ASKED, delivered, SPEC, line)
    assert [(c["position"], c["quotation"]) for c in found["citations"]] == [(0, ""), (-1, "gone")]
    assert (found["cost"], found["reply_seconds"]) == (0.5, 2.0)
    assert own_systems.logged_answer(ASKED, delivered, SPEC, None)["reason"] == "missing_run"


class Ends(Mine):
    def retrieve(self, question: str, depth: int) -> Any:
        raise SystemExit(5)

    def generate(self, question: str, passages: Any) -> Any:
        raise SystemExit(0)


def test_code_that_ends_the_process_fails_its_own_question(tmp_path: Path) -> None:
    ((row),) = retrieve(Ends(), ASKED, 2)
    assert (row["status"], row["reason"], row["detail"]) == ("failed", "crashed", "SystemExit: 5")
    given = generate(Ends(), ASKED, context("q", [passage(0, "a", 0, "Two years.")]), SPEC)
    assert (given["status"], given["reason"]) == ("failed", "crashed")
    (tmp_path / "ends_at_import.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(OwnSystemError, match="ends_at_import:Mine cannot be made: SystemExit: 0"):
        load_system("ends_at_import:Mine", {}, tmp_path)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Answer(None), "the answer is None, not text"),  # type: ignore[arg-type]
        ("", "the answer is empty and refused is not true"),
        ("half a character \ud800", "the answer is no Unicode text: surrogates not allowed at 17"),
        (Answer("yes", prompt_tokens="many"), "prompt_tokens is 'many', no whole number from 0"),  # type: ignore[arg-type]
    ],
)
def test_a_reply_that_is_no_answer_fails_its_question_with_the_reason(reply: Any, told: str) -> None:
    row = generate(Mine(reply=reply), ASKED, context("q", [passage(0, "a", 0, "Two years.")]), SPEC)
    assert (row["status"], row["reason"]) == ("failed", "crashed")
    assert told in row["detail"]


def test_a_passage_that_is_no_unicode_fails_its_question() -> None:
    ((row),) = retrieve(Mine([Passage("a", "d", "bad \ud800 text")]), ASKED, 2)
    assert (row["status"], row["reason"]) == ("failed", "crashed")
    assert "a passage's text is no Unicode text" in row["detail"]
