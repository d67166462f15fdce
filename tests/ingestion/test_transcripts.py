"""Error rates, order and the quality table, against published figures, another implementation and hand-worked cases."""

from __future__ import annotations

import math
from typing import Any

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.transcripts import METRICS, QualityLimits, character_errors, normalise, parse_quality, reading_order, word_errors
from rag_eval_assets.settings import Transcripts
from rag_eval_assets.tables import REASONS, TABLES

POLICY = {"case": "keep", "whitespace": "collapse", "punctuation": "keep", "unicode_form": "NFC"}
REFERENCE, HYPOTHESIS = "Mars has two moons, Phobos and Deimos.", "Mars has two m00ns, Phobos and Deirnos."


def test_the_published_pair_has_its_published_rates() -> None:
    edits, characters = character_errors(REFERENCE, HYPOTHESIS)
    wrong, words = word_errors(REFERENCE, HYPOTHESIS)
    assert (edits, characters, wrong, words) == (4, 38, 2, 7)
    assert round(edits / characters, 3) == 0.105
    assert round(wrong / words, 3) == 0.286


@given(st.text("abc ", min_size=1).filter(str.strip), st.text("abc ", min_size=1).filter(str.strip))
def test_rates_are_those_of_jiwer(reference: str, hypothesis: str) -> None:
    reference, hypothesis = (normalise(side, **POLICY) for side in (reference, hypothesis))
    edits, characters = character_errors(reference, hypothesis)
    wrong, words = word_errors(reference, hypothesis)
    assert math.isclose(edits / characters, jiwer.cer(reference, hypothesis))
    assert math.isclose(wrong / words, jiwer.wer(reference, hypothesis))


@given(st.text())
def test_a_text_has_no_errors_against_itself_under_any_policy(text: str) -> None:
    for case in ("keep", "lower"):
        for form in ("NFC", "NFKC"):
            side = normalise(text, case=case, whitespace="collapse", punctuation="remove", unicode_form=form)
            assert character_errors(side, side)[0] == word_errors(side, side)[0] == 0


def test_each_part_of_a_policy_does_what_it_says_and_no_more() -> None:
    text = "  Größe:\u00a0\uff11\uff10 ﬁt, e\u0301t\u00e9!\n"
    assert normalise(text, **POLICY) == "Größe: \uff11\uff10 ﬁt, été!"
    assert normalise(text, **(POLICY | {"unicode_form": "NFKC"})) == "Größe: 10 fit, été!"
    assert normalise(text, **(POLICY | {"case": "lower"})) == "größe: \uff11\uff10 ﬁt, été!"
    assert normalise(text, **(POLICY | {"punctuation": "remove"})) == "Größe \uff11\uff10 ﬁt été"
    assert normalise("a  b", **(POLICY | {"whitespace": "keep"})) == "a  b"
    with pytest.raises(ValueError, match="case must be keep or lower"):
        normalise(text, **(POLICY | {"case": "upper"}))


ORDERED = "The first rule concerns kettles. The second covers toasters. A third one binds ovens. Finally, mixers follow."


def test_order_is_one_for_the_same_order_minus_one_for_the_reverse_and_none_without_a_pair() -> None:
    sentences = ORDERED.split(". ")
    assert reading_order(ORDERED, ORDERED) == 1.0
    assert reading_order(ORDERED, ". ".join(reversed(sentences))) == -1.0
    assert reading_order(ORDERED, "Nothing of the kind") is None
    assert reading_order("One sentence only.", "One sentence only.") is None


def test_one_exchange_of_neighbours_costs_one_pair_of_six() -> None:
    one, two, three, four = ORDERED.split(". ")
    assert reading_order(ORDERED, ". ".join([one, three, two, four])) == pytest.approx(1 - 2 * 1 / 6)


def test_columns_read_across_show_in_the_order_though_every_word_is_there() -> None:
    left = ["alpha one is here.", "beta two stands below.", "gamma three ends it."]
    right = ["delta four opens.", "epsilon five goes on.", "zeta six closes."]
    across = " ".join(f"{one} {two}" for one, two in zip(left, right, strict=True))
    tau = reading_order(" ".join(left + right), across)
    assert tau == pytest.approx(1 - 2 * 3 / 15)  # three of fifteen pairs change places


def element(
    order: int, text: str, category: str = "NarrativeText", page: int | None = 1, html: str | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "doc_id": "a.pdf", "order": order, "page": page, "category": category, "heading_level": None, "heading_path": [], "text": text,
        "html": html, "box": None, "doc_class": "pdf", "source_sha256": "0", "status": "ok", "reason": None, "detail": None, "seconds": 0.1,
    } | more  # fmt: skip


def reference(text: str, page: int | None = None, html: str | None = None, item: int | None = None) -> dict[str, Any]:
    kind = "table" if html else "text"
    return {
        "doc_id": "a.pdf",
        "kind": kind,
        "item": item if item is not None else page or 0,
        "page": page,
        "text": text,
        "html": html,
        "file": "f",
    }


def measured(rows: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """Rows by (metric, item), each checked against the contract of the table."""
    found = {}
    for row in rows:
        assert set(row) == set(TABLES["parse_quality"].columns)
        assert row["reason"] is None or row["reason"] in REASONS
        assert (row["value"] is not None) == (row["status"] == "scored")
        assert row["value"] is None or math.isfinite(row["value"])
        found[row["metric"], row["item"]] = row
    assert len(found) == len(rows)
    return found


def test_a_document_is_compared_as_a_whole_and_page_by_page_without_its_running_heads() -> None:
    elements = [
        element(0, "Kettle manual", "Header"),
        element(1, REFERENCE),
        element(2, "Page two reads well.", page=2),
        element(3, "2", "PageNumber", 2),
    ]
    rows = measured(
        parse_quality(
            {"a.pdf": elements},
            [reference(f"{REFERENCE}\n\nPage two reads well."), reference("Page two reads well.", 2)],
            [],
            policy=POLICY,
        )
    )
    assert [rows[metric, 0]["value"] for metric in ("cer", "wer", "length_ratio")] == [0.0, 0.0, 1.0]
    assert rows["cer", 2]["value"] == 0.0
    assert rows["cer", 0]["units"] == len(REFERENCE) + 1 + 20
    assert rows["cer", 0]["policy"] == Transcripts().policy


def test_the_right_length_with_wrong_text_still_fails() -> None:
    gold = "The lid is covered for two years. The cord is covered for one year."
    doubled = "The lid is covered for two years. The lid is covered for two years."
    rows = measured(parse_quality({"a.pdf": [element(0, doubled)]}, [reference(gold)], [], policy=POLICY))
    assert rows["length_ratio", 0]["value"] == 1.0
    assert rows["cer", 0]["value"] > 0.1
    assert rows["wer", 0]["value"] == pytest.approx(3 / 14)


def test_invented_text_on_an_empty_page_shows() -> None:
    rows = measured(parse_quality({"a.pdf": [element(0, "noise")]}, [reference("", 1)], [], policy=POLICY))
    assert (rows["cer", 1]["value"], rows["cer", 1]["errors"], rows["cer", 1]["units"]) == (5.0, 5, 0)


def test_each_measure_has_a_row_whatever_is_missing() -> None:
    rows = measured(parse_quality({"a.pdf": [element(0, "text")]}, [], [], policy=POLICY))
    assert {metric for metric, _ in rows} == set(METRICS)
    assert {row["status"] for row in rows.values()} == {"not_applicable"}
    assert rows["cer", 0]["reason"] == "no_reference"
    assert rows["evidence_located", 0]["reason"] == "no_labels"


def test_a_failed_document_fails_its_measures_and_an_undeclared_one_has_none() -> None:
    failure = element(0, "", status="failed", reason="corrupt", detail="no header", category=None, page=None)
    table = "<table><tr><td>a</td></tr></table>"
    rows = measured(
        parse_quality(
            {"a.pdf": [failure], "b.pdf": [failure | {"doc_id": "b.pdf", "status": "not_applicable", "reason": "class_not_declared"}]},
            [reference("Some text."), reference("a", html=table, item=3)],
            [("a.pdf", "Some text.")],
            policy=POLICY,
        )
    )
    assert {row["doc_id"] for row in rows.values()} == {"a.pdf"}
    assert {row["status"] for row in rows.values()} == {"failed"}
    assert rows["teds", 3]["reason"] == "parse_failed"
    assert rows["evidence_located", 0]["detail"] == "corrupt: no header"


def test_tables_are_paired_by_their_text_not_by_their_number() -> None:
    lids, cords = (
        f"<table><tbody><tr><td>{name}</td><td>10.00</td></tr><tr><td>{name} large</td><td>20.00</td></tr></tbody></table>"
        for name in ("Lid", "Cord")
    )
    parsed = [
        element(0, "noise", "Table", html="<table><tr><td>Contents</td><td>3</td></tr></table>"),
        element(1, "c", "Table", html=cords),
        element(2, "l", "Table", html=lids),
    ]
    from ingestion.parsers.html_tables import table_text

    gold = [reference(table_text(lids) or "", html=lids, item=1), reference(table_text(cords) or "", html=cords, item=2)]
    rows = measured(parse_quality({"a.pdf": parsed}, gold, [], policy=POLICY))
    assert [rows[metric, item]["value"] for metric in ("teds", "teds_s") for item in (1, 2)] == [1.0] * 4
    rows = measured(parse_quality({"a.pdf": parsed[:1]}, gold[:1], [], policy=POLICY))
    assert 0 < rows["teds_s", 1]["value"] < 1
    rows = measured(parse_quality({"a.pdf": [element(0, "no table")]}, gold[:1], [], policy=POLICY))
    assert rows["teds", 1]["value"] == 0.0


def test_evidence_is_counted_once_and_what_is_lost_is_named() -> None:
    quotations = [("a.pdf", REFERENCE), ("a.pdf", REFERENCE), ("a.pdf", "The lid is guaranteed for seven years."), ("z.pdf", "elsewhere")]
    rows = measured(parse_quality({"a.pdf": [element(0, REFERENCE)]}, [], quotations, policy=POLICY))
    row = rows["evidence_located", 0]
    assert (row["value"], row["errors"], row["units"]) == (0.5, 1, 2)
    assert "seven years" in row["detail"]


def test_a_text_over_the_limit_is_a_typed_failure_not_an_hour() -> None:
    rows = measured(
        parse_quality({"a.pdf": [element(0, "x" * 50)]}, [reference("x")], [], policy=POLICY, limits=QualityLimits(characters=40))
    )
    assert (rows["cer", 0]["status"], rows["cer", 0]["reason"]) == ("failed", "too_large")
