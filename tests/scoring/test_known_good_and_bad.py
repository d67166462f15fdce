"""Every metric without a model tells a known-good answer from a known-bad one; a metric without such a pair fails here."""

from __future__ import annotations

import pytest

from rag_eval_assets.scoring.answers import METRICS, STRUCTURED, score_answers
from tests.scoring.builders import Row, answer, citation, context, passage, question, quoted

REFERENCE = "Only the filter was changed on 3 March 2020, after 2 years, and the fan was not cleaned."
SOURCE = passage(0, "manual", 0, f"{REFERENCE} Jansen sells it.")
OTHER = passage(1, "other", 0, "Parcels leave the warehouse before noon.")
SCHEMA = {"type": "object", "properties": {"part": {"enum": ["filter", "fan"]}}, "required": ["part"], "additionalProperties": False}
NUGGETS = [{"text": "after 2 years", "vital": True}, {"text": "the filter was changed", "vital": False}]

GOLD = [quoted("q", "manual", 0, REFERENCE)]
ASKED = question(text="What was done?", reference_answer=REFERENCE, nuggets=NUGGETS)
OUTSIDE = question(text="Who sells toasters?", answerable=False)
RIGHT = answer("q", f"{REFERENCE} [1]", [citation(SOURCE, REFERENCE)])
REFUSED = answer("q", refused=True)


def said(text: str) -> Row:
    return answer("q", f"{text} [1]", [citation(SOURCE)])


def cited(*citations: Row, text: str = REFERENCE) -> Row:
    return answer("q", text, citations)


INVENTED = {**citation(SOURCE), "position": 7}
NOWHERE = {**citation(SOURCE), "doc_id": "gone"}

PAIRS: dict[str, tuple[Row, Row, Row, Row]] = {
    # metric: question and good answer, question and bad answer
    "correct": (ASKED, RIGHT, ASKED, said("Only the filter was changed on 3 March 2020, after 5 years, and the fan was not cleaned.")),
    "exact_match": (ASKED, answer("q", REFERENCE), ASKED, answer("q", f"{REFERENCE} Perhaps.")),
    "contains": (ASKED, RIGHT, ASKED, said("The filter was changed.")),
    "token_f1": (ASKED, answer("q", REFERENCE), ASKED, answer("q", "Toasters.")),
    "rouge_l": (ASKED, answer("q", REFERENCE), ASKED, answer("q", "Toasters.")),
    "informative_f1": (ASKED, RIGHT, ASKED, said("What was done?")),
    "numbers_agree": (ASKED, RIGHT, ASKED, said(REFERENCE.replace("2 years", "3 years"))),
    "dates_agree": (ASKED, RIGHT, ASKED, said(REFERENCE.replace("March", "May"))),
    "negation_agrees": (ASKED, RIGHT, ASKED, said(REFERENCE.replace("was not", "was"))),
    "quantifiers_agree": (ASKED, RIGHT, ASKED, said(REFERENCE.removeprefix("Only "))),
    "nuggets_vital": (ASKED, RIGHT, ASKED, said("The filter was changed.")),
    "nuggets_okay": (ASKED, RIGHT, ASKED, said("It was after 2 years.")),
    "refusal_correct": (OUTSIDE, REFUSED, OUTSIDE, said("Jansen sells toasters.")),
    "refusal_precision": (OUTSIDE, REFUSED, ASKED, REFUSED),
    "refusal_recall": (OUTSIDE, REFUSED, OUTSIDE, said("Jansen sells toasters.")),
    "refusal_after_miss": (ASKED, REFUSED, ASKED, RIGHT),
    "answered_with_evidence": (ASKED, RIGHT, ASKED, REFUSED),
    "groundedness_lexical": (ASKED, RIGHT, ASKED, said("Badgers hibernate underground.")),
    # A flag: 0 is the good value.
    "unseen_entity_flag": (ASKED, said("It is sold by Brinkhal Brothers."), ASKED, RIGHT),
    "context_recall": (ASKED, RIGHT, ASKED, RIGHT),
    "citation_validity": (ASKED, RIGHT, ASKED, cited(INVENTED)),
    "citation_coverage": (ASKED, cited(citation(SOURCE), citation(OTHER)), ASKED, cited(INVENTED)),
    "citation_completeness": (ASKED, RIGHT, ASKED, answer("q", f"{REFERENCE} [9]", [INVENTED])),
    "citation_gold_precision": (ASKED, RIGHT, ASKED, cited(citation(OTHER))),
    "citation_gold_recall": (ASKED, RIGHT, ASKED, cited(citation(OTHER))),
    "citation_provenance": (ASKED, RIGHT, ASKED, cited(NOWHERE)),
    "schema_conformance": (ASKED, answer("q", '{"part": "filter"}'), ASKED, answer("q", 'The part: {"part": "filter"}')),
    "vocabulary_conformance": (ASKED, answer("q", '{"part": "fan"}'), ASKED, answer("q", '{"part": "lid"}')),
}
MISSED = {"refusal_after_miss": (False, False), "context_recall": (True, False)}
"""Whether the gold passage is delivered with the good answer and with the bad one, where it is not with both."""


def test_no_metric_is_without_a_pair() -> None:
    assert set(PAIRS) == {*METRICS, *STRUCTURED}


@pytest.mark.parametrize("metric", sorted(PAIRS))
def test_a_metric_tells_the_good_answer_from_the_bad_one(metric: str) -> None:
    values = []
    for at, there in enumerate(MISSED.get(metric, (True, True))):
        asked, given = PAIRS[metric][2 * at : 2 * at + 2]
        labels = GOLD if asked["answerable"] else []
        delivered = context("q", [SOURCE, OTHER] if there else [OTHER])
        rows = score_answers([asked], [delivered], [given], labels, require_citations=False, answer_schema=SCHEMA)
        (row,) = [r for r in rows if r["metric"] == metric]
        assert row["status"] == "scored", (metric, at, row["reason"])
        values.append(row["value"])
    good, bad = values
    assert good == pytest.approx(1.0)
    assert bad < 0.5
