"""What filters hide, and whether they are right, against labels."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingestion.labels import LabelError
from rag_eval_assets.retrieval.filters import filter_exclusion, passes
from rag_eval_assets.scoring.filter_quality import filter_quality
from rag_eval_assets.tables import TABLES
from tests.scoring.builders import complete, question, relevant

LOCALES = {"a": "nl", "b": "nl", "c": "en", "d": "en"}


def document(doc_id: str) -> dict[str, Any]:
    return complete("documents", doc_id=doc_id, locale=LOCALES[doc_id], groups=[], publication_state="published", fields="{}", status="ok")


DOCUMENTS = [document(name) for name in LOCALES]
NL = json.dumps({"locale": "nl"})


def label(question_id: str, doc_id: str, value: str, annotator: str = "p") -> dict[str, Any]:
    own = {"kind": "predicate", "question_id": question_id, "doc_id": doc_id, "value": value, "annotator": annotator}
    return complete("quality_labels", label_id=f"{question_id}{doc_id}{annotator}", file="f.jsonl", line=3, **own)


def measured(
    questions: list[dict[str, Any]], gold: list[dict[str, Any]], labels: list[dict[str, Any]]
) -> dict[tuple[str, str], dict[str, Any]]:
    exclusion = filter_exclusion(questions, gold, DOCUMENTS)
    rows = filter_quality(exclusion, labels, gold, DOCUMENTS, passes=passes)
    return {(row["measure"], row["scope"]): row for row in rows}


def counts(row: dict[str, Any]) -> tuple[float, float]:
    return row["numerator"], row["denominator"]


ASKED = [question("q1", filter=NL), question("q2", filter=NL, split="development"), question("q3")]
GOLD = [relevant("q1", "a"), relevant("q1", "c"), relevant("q2", "c"), relevant("q3", "d")]


def test_false_exclusion_is_counted_over_all_by_split_by_field_and_by_document() -> None:
    """q1 loses c of {a, c}, q2 loses c of {c}; q3 has no filter."""
    rows = measured(ASKED, GOLD, [])
    assert counts(rows["false_exclusion", "all"]) == (2, 3)
    assert counts(rows["false_exclusion", "split=release"]) == (1, 2)
    assert counts(rows["false_exclusion", "split=development"]) == (1, 1)
    assert counts(rows["false_exclusion", "field=locale"]) == (2, 3)
    assert counts(rows["false_exclusion", "document=c"]) == (2, 2)
    assert ("false_exclusion", "document=a") not in rows


def test_predicate_precision_and_recall_are_those_of_the_labels() -> None:
    """Passing: a (yes), b (no). Hidden: c (yes, gold), d (no). Precision 1/2, recall 1/2, errors b and c, of which c hid gold."""
    labels = [label("q1", "a", "yes"), label("q1", "b", "no"), label("q1", "c", "yes"), label("q1", "d", "no")]
    rows = measured(ASKED, GOLD, labels)
    for scope in ("all", "field=locale"):
        assert counts(rows["predicate_precision", scope]) == (1, 2)
        assert counts(rows["predicate_recall", scope]) == (1, 2)
        assert counts(rows["errors_hiding_gold", scope]) == (1, 2)
    row = rows["predicate_precision", "all"]
    assert row["lower"] < row["value"] == 0.5 < row["upper"]


def test_an_error_on_a_document_that_is_no_gold_hid_none() -> None:
    rows = measured(ASKED, [relevant("q1", "a")], [label("q1", "c", "yes")])
    assert counts(rows["errors_hiding_gold", "all"]) == (0, 1)
    assert (rows["predicate_precision", "all"]["status"], rows["predicate_precision", "all"]["reason"]) == (
        "not_applicable",
        "nothing_to_measure",
    )


def test_pairs_that_people_disagree_on_are_left_out_and_told() -> None:
    labels = [label("q1", "a", "yes"), label("q1", "b", "yes"), label("q1", "b", "no", annotator="r")]
    row = measured(ASKED, GOLD, labels)["predicate_precision", "all"]
    assert (counts(row), row["detail"]) == ((1, 1), "1 labelled pairs are left out: people disagree on them")


def test_without_a_filter_no_rate_is_0() -> None:
    rows = measured([question("q3")], GOLD[3:], [])
    assert {(row["status"], row["reason"], row["value"]) for row in rows.values()} == {("not_applicable", "no_filter", None)}


def test_filters_without_labels_have_no_precision() -> None:
    row = measured(ASKED, GOLD, [])["predicate_recall", "all"]
    assert (row["status"], row["reason"], row["value"]) == ("not_applicable", "no_labels", None)


@pytest.mark.parametrize(("question_id", "fault"), [("q3", "has no filter"), ("q9", "is not in the golden set")])
def test_a_label_on_a_question_without_a_filter_is_one_clear_error(question_id: str, fault: str) -> None:
    with pytest.raises(LabelError, match=rf"labels/f.jsonl:3: question '{question_id}' {fault}"):
        measured(ASKED, GOLD, [label(question_id, "a", "yes")])


def test_rows_keep_the_contract_and_their_order_never_depends_on_input() -> None:
    labels = [label("q1", "a", "yes"), label("q2", "c", "yes")]
    exclusion = filter_exclusion(ASKED, GOLD, DOCUMENTS)
    rows = filter_quality(exclusion, labels, GOLD, DOCUMENTS, passes=passes)
    assert rows == filter_quality(exclusion[::-1], labels[::-1], GOLD[::-1], DOCUMENTS[::-1], passes=passes)
    assert all(set(row) == set(TABLES["filter_quality"].columns) for row in rows)
