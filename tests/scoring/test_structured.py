"""Structured answers: their form, and their words, apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rag_eval_assets.scoring.answers import score_answers
from rag_eval_assets.scoring.structured import schema_conformance, schema_problems, vocabulary_conformance
from tests.scoring.builders import answer, context, passage, question

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["covered", "not covered"]},
        "months": {"type": ["integer", "null"], "minimum": 1},
        "parts": {"type": "array", "items": {"type": "string", "enum": ["pump", "fan"]}, "minItems": 1},
        "note": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
    },
    "required": ["verdict", "parts"],
    "additionalProperties": False,
}
GOOD: dict[str, Any] = {"verdict": "covered", "months": 24, "parts": ["pump", "fan"], "note": "fine"}


def test_an_answer_in_the_form_of_the_schema_conforms() -> None:
    assert list(schema_problems(SCHEMA)) == []
    for value in (GOOD, {**GOOD, "months": None}, {**GOOD, "months": 24.0}):
        assert schema_conformance(json.dumps(value), SCHEMA).value == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"months": "24"}, "answer.months is no integer or null"),
        ({"months": True}, "answer.months is no integer or null"),
        ({"months": 0}, "answer.months is 0"),
        ({"parts": []}, "answer.parts has 0 items"),
        ({"parts": ["pump", 3]}, "answer.parts[1] is no string"),
        ({"note": "too long"}, "answer.note has 8 characters"),
        ({"note": "A"}, "answer.note does not match"),
        ({"more": 1}, "answer has 'more'"),
    ],
)
def test_what_is_wrong_with_the_form_is_named(change: dict[str, Any], told: str) -> None:
    found = schema_conformance(json.dumps({**GOOD, **change}), SCHEMA)
    assert found.value == 0
    assert told in str(found.explanation)


def test_prose_around_json_and_a_missing_field_do_not_conform() -> None:
    for text in (f"Here it is: {json.dumps(GOOD)}", "", "[1, 2]", '{"verdict": "covered"}'):
        assert schema_conformance(text, SCHEMA).value == 0


def test_words_are_counted_apart_from_form() -> None:
    text = json.dumps({**GOOD, "verdict": "perhaps"})
    assert schema_conformance(text, SCHEMA).value == 1
    # verdict, pump, fan: two of three.
    assert vocabulary_conformance(text, SCHEMA).value == pytest.approx(2 / 3)
    assert vocabulary_conformance("{}", SCHEMA).reason == vocabulary_conformance("prose", SCHEMA).reason == "no_claims"


def test_answers_are_measured_by_a_schema_only_where_there_is_one() -> None:
    source = passage(0, "manual", 0, "The pump is covered.")

    def found(text: str, schema: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
        rows = score_answers([question(reference_answer="x")], [context("q", [source])], [answer("q", text, **more)], [],
                             require_citations=False, answer_schema=schema)  # fmt: skip
        return {row["metric"]: (row["value"], row["reason"]) for row in rows}

    assert found(json.dumps(GOOD), SCHEMA)["schema_conformance"] == (1, None)
    assert "schema_conformance" not in found(json.dumps(GOOD), None)
    assert found("", SCHEMA, refused=True)["vocabulary_conformance"] == (None, "refused")


def test_an_answer_nested_without_a_bottom_is_no_json_and_ends_nothing() -> None:
    for bomb in ("[" * 100_000, '{"a":' * 100_000):
        assert schema_conformance(bomb, SCHEMA).value == 0
        assert vocabulary_conformance(bomb, SCHEMA).reason == "no_claims"
