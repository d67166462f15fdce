"""Answer, citation and refusal scores: published definitions, known faults of other tools, and the pass rule."""

from __future__ import annotations

from typing import Any

import pytest

from rag_eval_assets.scoring import texts
from rag_eval_assets.scoring.agreement import rouge_l, states, token_f1
from rag_eval_assets.scoring.answers import score_answers
from rag_eval_assets.scoring.citations import cited_groups
from tests.scoring.builders import Row, answer, citation, context, evidence, passage, question, quoted

TEXT = "The filter is changed every two years. The fan is cleaned every spring."
FILTER = "The filter is changed every two years."
SOURCE = passage(0, "manual", 100, TEXT)


def scores(asked: Row, delivered: Row | None, given: Row | None, labels: list[Row] | None = None, require: bool = True) -> dict[str, Row]:
    contexts, answers = ([delivered] if delivered else []), ([given] if given else [])
    rows = score_answers([asked], contexts, answers, labels or [], require_citations=require)
    return {row["metric"]: row for row in rows}


def answered(text: str, reference: str, cited: bool = True, **more: Any) -> dict[str, Row]:
    citations = [citation(SOURCE)] if cited else []
    return scores(question(reference_answer=reference, **more), context("q", [SOURCE]), answer("q", text, citations))


def state(row: Row) -> tuple[str, str | None, float | None]:
    return row["status"], row["reason"], row["value"]


# ----------------------------------------------------------------------------------------------------- against references
def test_token_f1_is_squads() -> None:
    # Hand-worked: normal forms "cat sat on mat" and "cat sat" share 2 of 4 and 2 tokens.
    assert token_f1("The cat sat on the mat.", "a cat sat") == pytest.approx(2 * 2 / (4 + 2))
    assert token_f1("The U.S. in 1990!", "us in 1990") == 1
    assert token_f1("", "") == 1
    assert token_f1("", "word") == 0


def test_repeated_tokens_count_as_often_as_they_stand() -> None:
    assert token_f1("go go go", "go") == pytest.approx(2 * 1 / (3 + 1))


def test_rouge_l_follows_the_longest_common_subsequence() -> None:
    # Lin's example: LCS of "police killed the gunman" and "police kill the gunman" is 3 of 4 words on both sides.
    assert rouge_l("police kill the gunman", "police killed the gunman") == pytest.approx(0.75)
    assert rouge_l("the gunman kill police", "police killed the gunman") == pytest.approx(0.5)


def test_exact_match_and_contains_look_at_whole_tokens() -> None:
    assert answered("Two years. [1]", "two years")["exact_match"]["value"] == 1
    assert answered(f"{FILTER} [1]", "two years")["contains"]["value"] == 1
    assert answered("Within 100 days. [1]", "10 days")["contains"]["value"] == 0


def test_articles_are_those_of_the_questions_language() -> None:
    assert answered("de ketel [1]", "ketel", language="nl")["exact_match"]["value"] == 1
    assert answered("der Kessel [1]", "Kessel", language="de")["exact_match"]["value"] == 1


# ----------------------------------------------------------------------------------------------------------- the pass rule
def test_a_dropped_negation_fails_an_answer_that_looks_alike() -> None:
    found = answered("Paris was not founded in 1994. [1]", "Paris was founded in 1994.")
    assert found["token_f1"]["value"] > 0.9
    assert found["correct"]["value"] == 0
    assert "negated" in found["correct"]["explanation"]
    assert answered("Paris was founded in 1994. [1]", "Paris was not founded in 1994.")["correct"]["value"] == 0


def test_a_wrong_number_fails_an_answer_that_looks_alike() -> None:
    found = answered("The filter of the pump is changed every 3 years. [1]", "The filter of the pump is changed every 2 years.")
    assert found["token_f1"]["value"] > 0.6
    assert found["correct"]["value"] == 0
    assert "number 2" in found["correct"]["explanation"]


def test_a_negated_short_answer_fails() -> None:
    assert states("Glycol is not allowed here.", "allowed") == "negated"
    assert states("Glycol is allowed here.", "allowed") is None
    assert states("Returns are not accepted after 30 days.", "30 days") is None


def test_a_sentence_elsewhere_in_the_answer_may_negate_something_else() -> None:
    assert states("The filter is changed every two years. It must not be washed.", "The filter is changed every two years") is None


def test_numbers_agree_whatever_marks_their_thousands_and_decimals() -> None:
    assert texts.numbers("1.000 or 1,000") == {1000}
    assert texts.numbers("9,95 and 9.95") == {9.95}
    assert texts.numbers("1.234,5 and 0.125") == {1234.5, 0.125}
    assert texts.numbers("thirty days, twee jaar, drei Wochen") == {30, 2, 3}
    assert states("It takes 30 days.", "thirty days") is None


def test_a_paraphrase_within_the_words_passes_and_another_entity_does_not_contain_them() -> None:
    assert answered("Every two years the filter is changed. [1]", FILTER)["correct"]["value"] == 1
    assert answered("The fan belt lasts two seasons. [1]", FILTER)["correct"]["value"] == 0


def test_vital_nuggets_decide_where_they_all_stand() -> None:
    nuggets = [{"text": "every two years", "vital": True}, {"text": "in spring", "vital": False}]
    found = answered(f"{FILTER} [1]", "biennially", nuggets=nuggets)
    assert found["nuggets_vital"]["value"] == 1
    assert found["correct"]["value"] == 1
    lacking = answered("The fan is cleaned every spring. [1]", "biennially", nuggets=nuggets)
    assert lacking["nuggets_vital"]["value"] == 0
    assert lacking["correct"]["value"] == 0


def test_a_required_citation_must_be_there_and_valid() -> None:
    asked, delivered = question(reference_answer="two years"), context("q", [SOURCE])
    invented = {**citation(SOURCE), "position": 4}
    for citations, require, passes in (([], True, 0), ([], False, 1), ([invented], True, 0), ([citation(SOURCE)], True, 1)):
        found = scores(asked, delivered, answer("q", FILTER, citations), require=require)
        assert found["correct"]["value"] == passes


def test_without_reference_and_nuggets_there_is_no_verdict() -> None:
    found = scores(question(), context("q", [SOURCE]), answer("q", FILTER))
    assert state(found["correct"]) == ("not_applicable", "no_gold_answer", None)
    assert state(found["token_f1"]) == ("not_applicable", "no_gold_answer", None)


# ---------------------------------------------------------------------------------------------------------------- refusals
def test_a_refusal_is_scored_both_ways_and_is_never_undefined() -> None:
    refusal = answer("q", refused=True)
    wrong = scores(question(reference_answer="two years"), context("q", [SOURCE]), refusal)
    assert state(wrong["correct"]) == ("scored", "refused", 0)
    assert state(wrong["token_f1"]) == ("scored", "refused", 0)
    assert state(wrong["refusal_correct"]) == ("scored", "refused", 0)
    assert state(wrong["groundedness_lexical"]) == ("not_applicable", "refused", None)
    right = scores(question(answerable=False), context("q", [SOURCE]), refusal)
    assert state(right["correct"]) == ("scored", None, 1)
    assert state(right["refusal_correct"]) == ("scored", None, 1)
    assert state(right["token_f1"]) == ("not_applicable", "unanswerable", None)


def test_an_answer_to_what_the_corpus_does_not_hold_is_wrong() -> None:
    found = scores(question(answerable=False), context("q", [SOURCE]), answer("q", FILTER, [citation(SOURCE)]))
    assert found["correct"]["value"] == found["refusal_correct"]["value"] == 0


def test_refusals_after_a_retrieval_miss_are_told_from_those_with_the_evidence_there() -> None:
    labels = [quoted("q", "manual", 100, FILTER)]
    asked, refusal = question(reference_answer="two years"), answer("q", refused=True)
    there = scores(asked, context("q", [SOURCE]), refusal, labels)
    missed = scores(asked, context("q", [passage(0, "other", 0, "Nothing here.")]), refusal, labels)
    assert "delivered" in there["refusal_correct"]["explanation"]
    assert "miss" in missed["refusal_correct"]["explanation"]


def test_refusals_are_measured_by_what_the_corpus_answers_and_by_what_was_delivered() -> None:
    labels = [quoted("q", "manual", 100, FILTER)]
    refusal, given = answer("q", refused=True), answer("q", FILTER)
    delivered, elsewhere = context("q", [SOURCE]), context("q", [passage(0, "other", 0, "Nothing here.")])
    names = ("refusal_precision", "refusal_recall", "refusal_after_miss", "answered_with_evidence")
    wanted = {
        # corpus answers it, evidence delivered, refused: value or why there is none
        (True, True, True): (0, "answerable", "evidence_delivered", 0),
        (True, True, False): ("not_refused", "answerable", "evidence_delivered", 1),
        (True, False, True): (0, "answerable", 1, "evidence_not_delivered"),
        (True, False, False): ("not_refused", "answerable", 0, "evidence_not_delivered"),
        (False, False, True): (1, 1, "unanswerable", "unanswerable"),
        (False, False, False): ("not_refused", 0, "unanswerable", "unanswerable"),
    }
    for (answerable, there, refused), expected in wanted.items():
        asked = question(reference_answer="two years" if answerable else None, answerable=answerable)
        found = scores(asked, delivered if there else elsewhere, refusal if refused else given, labels if answerable else [])
        shown = tuple(row["reason"] if row["value"] is None else row["value"] for row in (found[name] for name in names))
        assert shown == expected, (answerable, there, refused)


# ------------------------------------------------------------------------------------------------- agreement, by its kinds
def test_each_kind_of_disagreement_is_a_metric_of_its_own() -> None:
    kinds = ("numbers_agree", "dates_agree", "negation_agrees", "quantifiers_agree")
    for text, reference, wanted in (
        ("It lasts 3 years.", "It lasts 2 years.", (0, None, None, None)),
        ("It opened on 3 May 2020.", "It opened on 3 March 2020.", (None, 0, None, None)),
        ("Paris was not founded in 1994.", "Paris was founded in 1994.", (1, None, 0, None)),
        ("All parts are covered.", "Only parts are covered.", (None, None, None, 0)),
        ("Only 2 parts opened on 3 March 2020.", "Only 2 parts opened on 2020-03-03.", (1, 1, None, 1)),
    ):
        found = answered(text, reference)
        assert tuple(found[kind]["value"] for kind in kinds) == wanted
        assert all(found[k]["reason"] == "nothing_to_compare" for k in kinds if found[k]["value"] is None)


def test_a_refusal_disagrees_in_no_kind() -> None:
    found = scores(question(reference_answer="Only 2 parts, not 3."), context("q", [SOURCE]), answer("q", refused=True))
    for kind in ("numbers_agree", "negation_agrees", "quantifiers_agree"):
        assert state(found[kind]) == ("not_applicable", "refused", None)


def test_okay_facts_are_counted_apart_from_vital_ones() -> None:
    nuggets = [{"text": "every two years", "vital": True}, {"text": "every spring", "vital": False}, {"text": "in autumn", "vital": False}]
    found = answered(f"{TEXT} [1]", "biennially", nuggets=nuggets)
    assert (found["nuggets_vital"]["value"], found["nuggets_okay"]["value"]) == (1, 0.5)
    assert state(answered(FILTER, "x", nuggets=nuggets[:1])["nuggets_okay"]) == ("not_applicable", "no_labels", None)


# ------------------------------------------------------------------------------------------------------------ groundedness
def test_names_that_neither_passages_nor_question_hold_are_flagged() -> None:
    asked = question(text="Who sells the filter in Utrecht?", reference_answer="x")
    for text, flagged in (
        ("It is sold by Jansen Brothers.", 1),
        ("It is sold in Utrecht.", 0),
        ("Filters are changed every two years.", 0),
    ):
        assert scores(asked, context("q", [SOURCE]), answer("q", text))["unseen_entity_flag"]["value"] == flagged
    empty = scores(asked, context("q", []), answer("q", "It is sold by Jansen."))
    assert state(empty["unseen_entity_flag"]) == ("not_applicable", "empty_context", None)


def test_groundedness_over_an_empty_context_is_undefined_and_not_perfect() -> None:
    found = scores(question(reference_answer="x"), context("q", [], reason="empty_context"), answer("q", "Made up entirely."))
    assert state(found["groundedness_lexical"]) == ("not_applicable", "empty_context", None)
    assert state(found["citation_coverage"]) == ("not_applicable", "empty_context", None)


def test_groundedness_reads_what_was_delivered_and_not_the_gold() -> None:
    asked = question(reference_answer="x", gold_context="Badgers hibernate underground.")
    found = scores(asked, context("q", [SOURCE]), answer("q", "Badgers hibernate underground."))
    assert found["groundedness_lexical"]["value"] == 0
    assert "badger" in found["groundedness_lexical"]["explanation"]


def test_an_answer_without_a_word_makes_no_claim() -> None:
    found = scores(question(reference_answer="x"), context("q", [SOURCE]), answer("q", "..."))
    assert state(found["groundedness_lexical"]) == ("not_applicable", "no_claims", None)
    assert state(found["citation_completeness"]) == ("not_applicable", "no_claims", None)


# --------------------------------------------------------------------------------------------------------------- citations
def with_citations(*citations: Row, text: str = FILTER, labels: list[Row] | None = None) -> dict[str, Row]:
    delivered = context("q", [SOURCE, passage(1, "other", 0, "Something else.")])
    return scores(question(reference_answer="two years"), delivered, answer("q", text, citations), labels)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"position": -1}, "no delivered passage"),
        ({"position": 7}, "no delivered passage"),
        ({"chunk_id": "manual#0-5"}, "another passage"),
        ({"doc_id": "other"}, "another passage"),
        ({"quotation": "The filter lasts forever."}, "does not say"),
        ({"start": 0, "end": 20}, "outside"),
    ],
)
def test_an_invented_citation_costs_validity_and_says_why(change: Row, fault: str) -> None:
    found = with_citations(citation(SOURCE), {**citation(SOURCE, FILTER), **change})
    assert found["citation_validity"]["value"] == 0.5
    assert fault in found["citation_validity"]["explanation"]


def test_citations_said_twice_count_once() -> None:
    found = with_citations(citation(SOURCE, FILTER), citation(SOURCE, FILTER), {**citation(SOURCE, FILTER), "position": -1})
    assert found["citation_validity"]["value"] == 0.5


def test_validity_without_citations_is_undefined_and_coverage_is_nothing() -> None:
    found = with_citations()
    assert state(found["citation_validity"]) == ("not_applicable", "no_citations", None)
    assert found["citation_coverage"]["value"] == 0


def test_coverage_counts_distinct_delivered_chunks() -> None:
    assert with_citations(citation(SOURCE), citation(SOURCE, FILTER))["citation_coverage"]["value"] == 0.5


def test_completeness_is_the_share_of_claims_with_a_citation_that_resolves() -> None:
    found = with_citations(citation(SOURCE, FILTER), text=f"{FILTER} [1] The fan is blue. [2]")
    assert found["citation_completeness"]["value"] == 0.5
    assert "The fan is blue" in found["citation_completeness"]["explanation"]


def test_completeness_merges_equal_claims() -> None:
    found = with_citations(citation(SOURCE, FILTER), text=f"{FILTER} [1] {FILTER} [1] The fan is blue.")
    assert found["citation_completeness"]["value"] == 0.5


def test_citations_without_markers_cover_the_claims_they_quote() -> None:
    assert with_citations(citation(SOURCE, FILTER), text=FILTER)["citation_completeness"]["value"] == 1


def test_gold_precision_and_recall_compare_spans() -> None:
    labels = [quoted("q", "manual", 100, FILTER), quoted("q", "appendix", 0, "Elsewhere.", group="g2")]
    found = with_citations(citation(SOURCE, FILTER), citation(SOURCE, "The fan is cleaned every spring."), labels=labels)
    assert found["citation_gold_precision"]["value"] == 0.5
    assert found["citation_gold_recall"]["value"] == 0.5
    assert cited_groups(found["citation_gold_recall"]) == {"g1"}


def test_provenance_is_the_share_of_citations_that_lead_to_a_span_of_a_document() -> None:
    bare = {**passage(1, "other", 0, "Something else."), "start": None, "end": None}
    delivered = context("q", [SOURCE, bare])
    cited = [
        citation(SOURCE, FILTER),
        {**citation(passage(1, "other", 0, "Something else.")), "start": None, "end": None},
        {**citation(SOURCE), "position": 7},
    ]
    found = scores(question(reference_answer="x"), delivered, answer("q", FILTER, cited))["citation_provenance"]
    assert found["value"] == pytest.approx(1 / 3)
    assert "[2] names no span" in found["explanation"]


def test_gold_citations_of_document_labels_do_not_apply() -> None:
    found = with_citations(citation(SOURCE), labels=[evidence("q", "manual")])
    assert state(found["citation_gold_recall"]) == ("not_applicable", "no_span_labels", None)


# ----------------------------------------------------------------------------------------------------- context and statuses
def test_context_recall_counts_groups_whole_in_what_was_delivered() -> None:
    labels = [quoted("q", "manual", 100, FILTER), quoted("q", "appendix", 0, "Elsewhere.", group="g2")]
    assert with_citations(labels=labels)["context_recall"]["value"] == 0.5
    empty = scores(question(), context("q", []), answer("q", refused=True), labels)
    assert state(empty["context_recall"]) == ("scored", "empty_context", 0)


def test_two_overlapping_passages_carry_a_span_together() -> None:
    halves = [passage(0, "manual", 95, "x" * 25), passage(1, "manual", 115, "x" * 40)]
    found = scores(question(), context("q", halves), answer("q", "x"), [quoted("q", "manual", 100, FILTER)])
    assert found["context_recall"]["value"] == 1


def test_a_failed_answer_fails_its_scores_and_a_missing_one_is_missing() -> None:
    asked, delivered = question(reference_answer="x"), context("q", [SOURCE])
    failed = scores(asked, delivered, answer("q", status="failed", reason="timeout"), [quoted("q", "manual", 100, FILTER)])
    assert state(failed["correct"]) == ("failed", "timeout", None)
    assert failed["context_recall"]["value"] == 1
    missing = scores(asked, None, None)
    assert {state(row) for row in missing.values()} == {("missing", "missing_run", None)}


def test_every_question_has_every_metric_in_whatever_order_rows_come() -> None:
    questions = [question(f"q{i}", reference_answer="two years") for i in range(3)]
    contexts = [context(f"q{i}", [SOURCE]) for i in range(3)]
    answers = [answer(f"q{i}", FILTER, [citation(SOURCE)]) for i in range(2)]
    rows = score_answers(questions, contexts, answers, [], require_citations=True)
    assert rows == score_answers(questions[::-1], contexts[::-1], answers[::-1], [], require_citations=True)
    assert len(rows) == 3 * len({r["metric"] for r in rows})


def test_no_value_is_ever_outside_zero_and_one() -> None:
    odd = ["", "[1] [2] [99]", "no no no", "1.000,00.1", "…", "Ärger? [1]", "a" * 5000]
    for text in odd:
        for row in answered(text, "two years").values():
            assert row["value"] is None or 0 <= row["value"] <= 1
