"""Who may read what, what a filter lets through, and how much gold it costs: measured before the filter, never after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.retrieval.filters import (
    NoEligibleGold,
    entitled,
    exclusion_rate,
    filter_exclusion,
    passes,
)
from rag_eval_assets.retrieval.runs import RetrieverSpec, run_retrievers
from rag_eval_assets.tables import TABLES

Make = Callable[..., dict[str, Any]]
ACME = {"tenant": ["acme"]}


def _gold(question_id: str, doc_id: str | None, *, eligible: bool = True, entitled: bool = True, grade: int = 1) -> dict[str, Any]:
    return {"question_id": question_id, "kept_doc_id": doc_id, "grade": grade, "entitled": entitled, "eligible": eligible}


@pytest.fixture
def worked_documents(document: Make) -> list[dict[str, Any]]:
    places = [("d1", "acme", "en-US"), ("d2", "acme", "en-GB"), ("d3", "globex", "en-US")]
    places += [("d4", "acme", "en-US"), ("d5", "acme", "de-DE"), ("d6", "acme", "fr-FR")]
    return [document(doc_id, tenant=tenant, locale=locale) for doc_id, tenant, locale in places]


@pytest.fixture
def worked_questions(question: Make) -> list[dict[str, Any]]:
    filters = [("q1", {"locale": "en-US"}), ("q2", {"tenant": "acme"}), ("q3", {"locale": "en-US"}), ("q4", {"locale": "de-DE"})]
    return [question(question_id, "manual", entitlement=ACME, filter=wanted) for question_id, wanted in filters]


WORKED_GOLD = {"q1": "d2", "q2": "d4", "q3": "d6", "q4": "d5"}


def _invalid_recall(questions: list[dict[str, Any]], documents: list[dict[str, Any]]) -> float:
    """The evaluator to refute: gold is rebuilt from what the filter left, so what it excluded is never asked for."""
    import json

    found = wanted = 0
    for asked in questions:
        survivors = {d["doc_id"] for d in documents if d["tenant"] == "acme" and passes(json.loads(asked["filter"]), d)}
        rebuilt = {WORKED_GOLD[asked["question_id"]]} & survivors
        wanted += len(rebuilt)
        found += len(rebuilt & survivors)
    return found / wanted


def test_gold_rebuilt_after_filtering_says_all_is_well_and_the_product_says_half_is_lost(
    worked_questions: list[dict[str, Any]], worked_documents: list[dict[str, Any]], chunk_table: Callable[..., pa.Table]
) -> None:
    assert _invalid_recall(worked_questions, worked_documents) == 1.0

    rows = filter_exclusion(worked_questions, [_gold(*pair) for pair in WORKED_GOLD.items()], worked_documents)
    rate = exclusion_rate(rows)
    assert rate is not None
    assert (rate.questions, rate.eligible, rate.excluded, rate.rate) == (4, 4, 2, 0.5)
    assert [row["excluded_documents"] for row in rows] == [["d2"], [], ["d6"], []]
    assert [row["value"] for row in rows] == [1.0, 0.0, 1.0, 0.0]

    runs = run_retrievers(
        [RetrieverSpec("bm25", "bm25", {"k1": 1.2, "b": 0.75, "analyser": "plain"})],
        worked_questions,
        chunk_table([(document["doc_id"], "manual") for document in worked_documents]),
        None,
        worked_documents,
        todo={"bm25": list(WORKED_GOLD)},
        known=None,
        depth=10,
        embed_queries=lambda *_: None,
        threads=1,
    ).to_pylist()
    found = {question_id: {row["doc_id"] for row in runs if row["question_id"] == question_id} for question_id in WORKED_GOLD}
    recalls = [WORKED_GOLD[question_id] in documents for question_id, documents in found.items()]
    assert sum(recalls) / len(recalls) == 0.5
    assert not any("d3" in documents for documents in found.values()), "another tenant's document is never found"


def test_exclusion_rows_have_the_columns_and_order_of_the_contract(
    worked_questions: list[dict[str, Any]], worked_documents: list[dict[str, Any]]
) -> None:
    rows = filter_exclusion(worked_questions[::-1], [_gold("q1", "d2")], worked_documents)
    table = pa.Table.from_pylist(rows, schema=TABLES["filter_exclusion"].schema)
    assert table.column_names == list(rows[0])
    assert [row["question_id"] for row in rows] == ["q1", "q2", "q3", "q4"]
    assert (rows[0]["entitled_documents"], rows[0]["filtered_documents"]) == (5, 2)


def test_questions_that_cannot_be_measured_say_why(question: Make, document: Make) -> None:
    wanted = {"locale": "en-US"}
    questions = [
        question("labelled", filter=wanted),
        question("no filter"),
        question("empty filter", filter={}),
        question("no labels", filter=wanted),
        question("unanswerable", filter=wanted, answerable=False),
        question("foreign gold", filter=wanted),
        question("lost gold", filter=wanted),
        question("judged bad", filter=wanted),
    ]
    evidence = [
        _gold("labelled", "d1"),
        _gold("no filter", "d1"),
        _gold("foreign gold", "d1", entitled=False, eligible=False),
        _gold("lost gold", None, eligible=False),
        _gold("judged bad", "d1", grade=0),
    ]
    rows = {row["question_id"]: row for row in filter_exclusion(questions, evidence, [document("d1", locale="en-US")])}
    assert {name: (row["status"], row["reason"]) for name, row in rows.items()} == {
        "labelled": ("scored", None),
        "no filter": ("not_applicable", "no_filter"),
        "empty filter": ("not_applicable", "no_filter"),
        "no labels": ("not_applicable", "no_relevance_labels"),
        "unanswerable": ("not_applicable", "unanswerable"),
        "foreign gold": ("not_applicable", "not_entitled_gold_only"),
        "lost gold": ("not_applicable", "no_eligible_gold"),
        "judged bad": ("not_applicable", "no_relevance_labels"),
    }
    assert all(row["value"] is None for name, row in rows.items() if name != "labelled")


def test_no_filter_anywhere_is_no_rate_and_never_nought(question: Make, document: Make) -> None:
    rows = filter_exclusion([question("q1")], [_gold("q1", "d1")], [document("d1")])
    assert exclusion_rate(rows) is None
    assert exclusion_rate([]) is None


def test_filters_without_any_eligible_gold_fail_closed(question: Make, document: Make) -> None:
    questions = [question("q1", filter={"locale": "x"}), question("q2")]
    rows = filter_exclusion(questions, [_gold("q1", None, eligible=False)], [document("d1")])
    assert [(row["status"], row["reason"]) for row in rows] == [("missing", "no_eligible_gold"), ("not_applicable", "no_filter")]
    with pytest.raises(NoEligibleGold, match="'q1'"):
        exclusion_rate(rows)


def test_a_document_that_failed_is_nobodys_to_read(question: Make, document: Make) -> None:
    documents = [{**document("d1", locale="nl"), "status": "ok"}, {**document("d2", locale="nl"), "status": "failed"}]
    (row,) = filter_exclusion([question("q1", filter={"locale": "nl"})], [_gold("q1", "d1"), _gold("q1", "d2")], documents)
    assert (row["entitled_documents"], row["filtered_documents"], row["eligible_gold"]) == (1, 1, 1)


def test_several_evidence_rows_on_one_document_are_one_gold_document(question: Make, document: Make) -> None:
    evidence = [_gold("q1", "d1"), _gold("q1", "d1"), _gold("q1", "d2")]
    documents = [document("d1", locale="nl"), document("d2", locale="en")]
    (row,) = filter_exclusion([question("q1", filter={"locale": "nl"})], evidence, documents)
    assert (row["eligible_gold"], row["surviving_gold"], row["value"]) == (2, 1, 0.5)


@pytest.mark.parametrize(
    ("columns", "entitlement", "expected"),
    [
        ({}, {}, True),
        ({"tenant": "acme"}, {}, False),
        ({"tenant": "acme"}, {"tenant": ["acme", "globex"]}, True),
        ({"tenant": "acme"}, {"tenant": "acme"}, True),
        ({"tenant": "acme"}, {"tenant": ["globex"]}, False),
        ({"tenant": None}, {"tenant": ["globex"]}, True),
        ({"groups": ["hr"]}, {}, False),
        ({"groups": ["hr", "legal"]}, {"groups": ["legal"]}, True),
        ({"groups": ["hr"]}, {"groups": ["sales"]}, False),
        ({"jurisdiction": "NL"}, {}, False),
        ({"jurisdiction": "NL"}, {"jurisdiction": ["NL", "BE"]}, True),
        ({"jurisdiction": None}, {"jurisdiction": ["NL"]}, True),
        ({"publication_state": "draft"}, {}, False),
        ({"publication_state": "draft"}, {"publication_state": ["draft"]}, True),
        ({"publication_state": "published"}, {"publication_state": ["draft"]}, False),
        ({"tenant": "acme", "groups": ["hr"]}, {"tenant": ["acme"]}, False),
        ({"tenant": "acme", "groups": ["hr"]}, {"groups": ["hr"]}, False),
    ],
)
def test_a_caller_reads_a_document_only_if_every_condition_holds(
    document: Make, columns: dict[str, Any], entitlement: dict[str, Any], expected: bool
) -> None:
    assert entitled(entitlement, document("d", **columns)) is expected


def test_an_unknown_entitlement_field_is_no_open_door(document: Make) -> None:
    with pytest.raises(ValueError, match="no entitlement field 'tenants'"):
        entitled({"tenants": ["acme"]}, document("d"))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, True),
        ({}, True),
        ({"locale": "nl-NL"}, True),
        ({"locale": ["de-DE", "nl-NL"]}, True),
        ({"locale": []}, False),
        ({"version": "2"}, False),
        ({"groups": ["hr"]}, True),
        ({"product": "pump"}, True),
        ({"product": "pump", "locale": "de-DE"}, False),
        ({"year": 2024}, True),
        ({"year": "2024"}, False),
        ({"public": True}, True),
        ({"public": 1}, False),
        ({"absent": "x"}, False),
    ],
)
def test_a_filter_matches_where_every_field_holds_one_of_its_values(document: Make, wanted: dict[str, Any] | None, expected: bool) -> None:
    fields = {"product": "pump", "year": 2024, "public": True}
    assert passes(wanted, document("d", locale="nl-NL", groups=["hr", "it"], fields=fields)) is expected


def test_a_filter_on_a_field_that_no_document_has_is_an_error_that_names_it(question: Make, document: Make) -> None:
    documents = [document("d1", fields={"product": "pump"})]
    filter_exclusion([question("q1", filter={"product": "valve"})], [], documents)
    with pytest.raises(ValueError, match=r"question 'q7': filter names 'prodct'.*product"):
        filter_exclusion([question("q7", filter={"prodct": "pump"})], [], documents)
    with pytest.raises(ValueError, match=r"question 'q8': entitlement names 'team'"):
        filter_exclusion([question("q8", entitlement={"team": "a"})], [], documents)


VALUES = st.sampled_from(["a", "b", "c"])
SOME = st.lists(VALUES, unique=True)


@given(
    tenant=st.none() | VALUES, groups=SOME, jurisdiction=st.none() | VALUES,
    access=st.fixed_dictionaries({"tenant": SOME, "groups": SOME, "jurisdiction": SOME}), more=SOME,
)  # fmt: skip
def test_naming_more_never_takes_access_away(
    tenant: str | None, groups: list[str], jurisdiction: str | None, access: dict[str, list[str]], more: list[str]
) -> None:
    row = {"tenant": tenant, "groups": groups, "jurisdiction": jurisdiction, "publication_state": "published"}
    wider = {field: [*values, *more] for field, values in access.items()}
    assert not entitled(access, row) or entitled(wider, row)
