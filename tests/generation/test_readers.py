"""The extractive reader quotes exactly, cites what it quotes, refuses below its threshold, and reads nothing but its context."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_assets.generation.readers import extract, read
from rag_eval_assets.scoring.answers import score_answers
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import Row, context, passage, question

MANUAL = (
    "Maintenance\n\nThe filter of the pump is changed every two years. The fan is cleaned each spring, e.g. with a soft brush. "
    "Call Dr. Visser if it rattles.\n\nPart | Number | Price\nFilter | KT-311 | 9.95\nLid | KT-204 | 4.50"
)
STAFF = "Opening hours\n\nThe canteen serves lunch from 12:00 to 13:30. Guests pay at the till."


def spec(threshold: float = 0.35, sentences: int = 2, **more: Any) -> Row:
    parameters = {"kind": "extractive", "sentences": sentences, "threshold": threshold, **more}
    return {"reader": "extractive", "parameters": json.dumps(parameters)}


def answered(text: str, *passages: Row, language: str = "en", **more: Any) -> Row:
    delivered = passages or (passage(0, "staff", 0, STAFF), passage(1, "manual", 500, MANUAL))
    row = read(question(text=text, language=language), context("q", delivered), spec(**more))
    assert set(row) == set(TABLES["answers"].columns) - {"work_key"}
    return row


def test_the_sentence_that_holds_the_questions_words_is_quoted_and_cited() -> None:
    row = answered("How often is the pump filter changed?", sentences=1)
    assert row["answer"] == "The filter of the pump is changed every two years. [2]"
    (cited,) = row["citations"]
    assert (cited["position"], cited["chunk_id"]) == (1, f"manual#500-{500 + len(MANUAL)}")
    assert MANUAL[cited["start"] - 500 : cited["end"] - 500] == cited["quotation"] == "The filter of the pump is changed every two years."
    assert (row["status"], row["refused"], row["reason"]) == ("ok", False, None)


def test_a_question_the_context_does_not_answer_is_refused() -> None:
    row = answered("Which bank finances the new warehouse in Leeds?")
    assert (row["status"], row["refused"], row["answer"], row["citations"]) == ("ok", True, "", [])
    assert row["raw"] == "The passages do not hold the answer."


@pytest.mark.parametrize(("language", "start"), [("nl", "Het antwoord"), ("de", "Die Passagen"), ("fr", "The passages")])
def test_refusals_speak_the_questions_language(language: str, start: str) -> None:
    assert answered("Quux frobnicate?", language=language)["raw"].startswith(start)


def test_the_threshold_decides_between_answer_and_refusal() -> None:
    asked = "Which pump filter does Mrs Jansen prefer on Sundays?"
    assert answered(asked, threshold=0.9)["refused"]
    assert not answered(asked, threshold=0.1)["refused"]


@pytest.mark.parametrize(
    ("language", "text", "asked", "expected"),
    [
        (
            "nl",
            "De opzegtermijn bedraagt drie maanden. Het kantoor sluit om vijf uur.",
            "Hoe lang is de termijn om op te zeggen?",
            "drie maanden",
        ),
        ("de", "Die Kündigungsfrist beträgt drei Monate. Das Büro schließt um fünf.", "Wie lange beträgt die Frist?", "drei Monate"),
        ("en", "Batteries are charged overnight. The office closes at five.", "When is a battery charged?", "overnight"),
    ],
)
def test_stems_and_compounds_of_the_questions_language_match(language: str, text: str, asked: str, expected: str) -> None:
    assert expected in answered(asked, passage(0, "d", 0, text), language=language, sentences=1)["answer"]


def test_abbreviations_and_decimals_do_not_end_a_sentence() -> None:
    row = answered("With what is the fan cleaned?", sentences=1)
    assert row["citations"][0]["quotation"] == "The fan is cleaned each spring, e.g. with a soft brush."


def test_a_table_row_answers_and_its_header_does_not() -> None:
    row = answered("What is the part number and price of the lid?", sentences=1)
    assert row["citations"][0]["quotation"] == "Lid | KT-204 | 4.50"


def test_a_heading_answers_nothing_but_lends_its_words() -> None:
    text = "Returns of kettles\n\nThey are accepted within 30 days.\n\nWarranty of kettles\n\nIt runs for five years."
    row = answered("How long is the warranty of kettles?", passage(0, "d", 0, text), sentences=1)
    assert row["answer"] == "It runs for five years. [1]"


def test_a_second_sentence_is_added_only_for_what_the_first_lacks() -> None:
    text = "The pump weighs 12 kg. The pump weighs 12 kg with water. The lid costs 4 euro."
    both = answered("What does the pump weigh and what does the lid cost?", passage(0, "d", 0, text), threshold=0.2)
    assert {c["quotation"] for c in both["citations"]} == {"The pump weighs 12 kg.", "The lid costs 4 euro."}
    assert len(answered("What does the pump weigh?", passage(0, "d", 0, text), threshold=0.2)["citations"]) == 1


@pytest.mark.parametrize(
    ("language", "text", "asked", "expected"),
    [
        ("en", "The red pump hums when warm. The red pump runs on 230 V.", "On which voltage does the red pump run?", "230 V"),
        ("en", "The stored noise of the fan is soft. The noise of the fan is 51 dB.", "How loud is the noise of the fan?", "51 dB"),
        ("nl", "Het water in het vat is helder. Het water in het vat is 65 graden.", "Hoe warm is het water in het vat?", "65 graden"),
        ("de", "Der Filter im Keller ist blau. Der Filter im Keller wiegt drei Kilo.", "Wie schwer ist der Filter im Keller?", "drei Kilo"),
    ],
)
def test_a_question_for_an_amount_prefers_a_sentence_with_a_number(language: str, text: str, asked: str, expected: str) -> None:
    assert expected in answered(asked, passage(0, "d", 0, text), language=language, sentences=1, threshold=0.1)["answer"]


def test_a_number_that_the_question_says_itself_is_no_amount() -> None:
    text = "The filter of the Otter 9 sits low. The filter of the Otter 9 lasts 24 months."
    row = answered("How long may the filter of the Otter 9 stay?", passage(0, "d", 0, text), sentences=1, threshold=0.1)
    assert row["answer"] == "The filter of the Otter 9 lasts 24 months. [1]"


def test_how_with_a_verb_asks_for_a_way_and_not_for_a_number() -> None:
    text = "Open the valve with the key. Open the valve 14 times."
    assert answered("How do I open the valve?", passage(0, "d", 0, text), sentences=1)["answer"] == "Open the valve with the key. [1]"


@pytest.mark.parametrize(
    ("language", "text", "asked", "expected"),
    [
        ("en", "The pumps are repaired quickly. In Leeds the pumps are repaired by Jo Marsh.", "Who repaired the pumps in Leeds?", "Marsh"),
        ("nl", "De pomp wordt snel hersteld. De pomp is door Sanne Vos hersteld.", "Wie herstelt de pomp?", "Sanne Vos"),
    ],
)
def test_a_question_for_a_person_prefers_a_sentence_with_a_name(language: str, text: str, asked: str, expected: str) -> None:
    assert expected in answered(asked, passage(0, "d", 0, text), language=language, sentences=1, threshold=0.1)["answer"]


def test_a_question_in_the_text_is_not_quoted_but_heads_its_answer() -> None:
    text = "Is the boiler bled often enough in summer?\n\nOnce a year is plenty.\n\nThe lid is blue."
    row = answered("How often must the boiler be bled?", passage(0, "d", 0, text), sentences=1)
    assert row["answer"] == "Once a year is plenty. [1]"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"status": "failed", "reason": "upstream_failed"}, ("failed", "upstream_failed", False)),
        ({"status": "missing", "reason": "missing_run"}, ("failed", "upstream_failed", False)),
        ({"status": "not_applicable", "reason": "no_embedder"}, ("not_applicable", "no_embedder", False)),
        ({"status": "ok", "reason": "empty_context"}, ("ok", "empty_context", True)),
    ],
)
def test_a_context_without_passages_gives_a_typed_answer(state: Row, expected: tuple[str, str, bool]) -> None:
    row = read(question(text="What?"), context("q", [], **state), spec())
    assert (row["status"], row["reason"], row["refused"]) == expected
    assert row["answer"] == ""


def test_a_passage_without_offsets_is_cited_without_them() -> None:
    row = answered("How often is the pump filter changed?", passage(0, "d", 0, MANUAL) | {"start": None, "end": None})
    assert row["citations"][0]["start"] is None
    assert row["citations"][0]["quotation"] in MANUAL


def test_a_reader_that_is_not_built_in_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'oracle' is not built in"):
        read(question(text="What?"), context("q", []), spec(kind="oracle"))


def test_an_answer_depends_on_its_question_and_context_alone() -> None:
    first = answered("How often is the pump filter changed?")
    answered("Where do guests pay?", passage(0, "staff", 0, STAFF * 20))
    again = answered("How often is the pump filter changed?")
    assert {k: v for k, v in first.items() if k != "seconds"} == {k: v for k, v in again.items() if k != "seconds"}


def test_every_answer_is_grounded_and_its_citations_hold() -> None:
    asked = question(text="How often is the pump filter changed?", reference_answer="every two years")
    delivered = context("q", [passage(0, "staff", 0, STAFF), passage(1, "manual", 500, MANUAL)])
    found = {
        r["metric"]: r["value"] for r in score_answers([asked], [delivered], [read(asked, delivered, spec())], [], require_citations=True)
    }
    assert found["groundedness_lexical"] == found["citation_validity"] == found["citation_completeness"] == found["correct"] == 1


texts = st.text(st.sampled_from("ab .!?\n|-•1,ÄßéX[]"), max_size=200)


@settings(deadline=None, max_examples=150)
@given(texts, texts, st.sampled_from(["en", "nl", "de", "xx"]))
def test_quotations_are_exact_spans_of_any_text(asked: str, text: str, language: str) -> None:
    for sentence in extract(asked, [passage(0, "d", 40, text)], language, 3, 0.0):
        assert text[sentence.start : sentence.end] == sentence.text
        assert sentence.citation["start"] == 40 + sentence.start
        assert 0 <= sentence.support <= 1
