"""Quality rows of documents and classes: what is compared with what, what is counted, and what is named. Cases worked by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.parse_quality import METRICS, QualityLimits, compared_text, errors_by, parse_quality
from ingestion.transcripts import align_characters, normalise
from rag_eval_assets.settings import Transcripts
from rag_eval_assets.tables import REASONS, TABLES

POLICY = {"case": "keep", "whitespace": "collapse", "punctuation": "keep", "unicode_form": "NFC"}
REFERENCE, HYPOTHESIS = "Mars has two moons, Phobos and Deimos.", "Mars has two m00ns, Phobos and Deirnos."


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
        "level": None,
        "text": text,
        "html": html,
        "file": "f",
    }


def measured(rows: list[dict[str, Any]], scope: str = "document") -> dict[tuple[str, int], dict[str, Any]]:
    """Rows of a scope by (metric, item), each checked against the contract of the table."""
    found = {}
    for row in (row for row in rows if row["scope"] == scope):
        assert set(row) == set(TABLES["parse_quality"].columns)
        assert row["reason"] is None or row["reason"] in REASONS
        assert (row["value"] is not None) == (row["status"] == "scored")
        assert row["value"] is None or math.isfinite(row["value"])
        found[row["metric"], row["item"]] = row
    assert len(found) == sum(row["scope"] == scope for row in rows)
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
    assert {metric for (metric, _), row in rows.items() if row["status"] != "not_applicable"} == {"parsed"}
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
    unmarked = {"headings_recall", "headings_precision", "lists_whole", "captions_kept", "footnotes_kept"}
    assert {metric for (metric, _), row in rows.items() if row["status"] != "failed"} == {"parsed", *unmarked}
    assert rows["parsed", 0]["value"] == 0.0
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
    lost = rows["quotation_lost", 0]
    assert lost["expected"] == "The lid is guaranteed for seven years."


def test_a_garbled_quotation_stands_beside_what_was_read() -> None:
    garbled = "Before that. The l1d is guaranteed f0r seven ycars. After that."
    rows = measured(
        parse_quality({"a.pdf": [element(0, garbled)]}, [], [("a.pdf", "The lid is guaranteed for seven years.")], policy=POLICY)
    )
    assert rows["quotation_lost", 0]["found"] == "The l1d is guaranteed f0r seven ycars."
    assert rows["quotation_lost", 0]["value"] == pytest.approx(1 - 6 / 76)  # three letters exchanged: six indels of 76 characters


def test_a_text_over_the_limit_is_a_typed_failure_not_an_hour() -> None:
    rows = measured(
        parse_quality({"a.pdf": [element(0, "x" * 50)]}, [reference("x")], [], policy=POLICY, limits=QualityLimits(characters=40))
    )
    assert (rows["cer", 0]["status"], rows["cer", 0]["reason"]) == ("failed", "too_large")


# ------------------------------------------------------------------------------------------------------------- pages
def test_errors_of_a_whole_transcript_are_told_by_page() -> None:
    pages = ["The first page reads well.", "The sec0nd page d0es not.", "The third is missing its"]
    gold = "The first page reads well.\n\nThe second page does not.\n\nThe third is missing its end."
    rows = measured(
        parse_quality({"a.pdf": [element(i, text, page=i + 1) for i, text in enumerate(pages)]}, [reference(gold)], [], policy=POLICY)
    )
    told = {item: (row["errors"], row["units"]) for (metric, item), row in rows.items() if metric == "page_cer"}
    # The blank between two pages belongs to the page before it, so page 1 has 26 + 1 characters.
    assert told == {1: (0, 27), 2: (2, 26), 3: (5, 29)}
    assert rows["cer", 0]["errors"] == 7
    assert rows["cer", 0]["units"] == 82


@given(
    st.lists(st.text("ab. \u00e9\u0301", max_size=8), max_size=6),
    st.sampled_from(["keep", "collapse"]),
    st.sampled_from(["keep", "remove"]),
)
def test_normalising_element_by_element_gives_the_text_of_their_sum(texts: list[str], whitespace: str, punctuation: str) -> None:
    policy = POLICY | {"whitespace": whitespace, "punctuation": punctuation}
    joined, starts = compared_text([{"text": text} for text in texts], policy)
    pieces = [normalise(text, **policy) for text in texts]
    assert all(joined[start : start + len(piece)] == piece for start, piece in zip(starts, pieces, strict=True))
    gap = " " if whitespace == "collapse" else "\n\n"
    assert joined == gap.join(piece for piece in pieces if piece)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.text("abc ", min_size=1, max_size=9)), min_size=1, max_size=6), st.text("abc ", max_size=40)
)
def test_errors_told_by_page_add_up_to_those_of_the_document(elements: list[tuple[int, str]], gold: str) -> None:
    text, starts = compared_text([{"text": text} for _, text in elements], POLICY)
    alignment = align_characters(normalise(gold, **POLICY), text)
    told = errors_by([page for page, _ in elements], starts, alignment)
    assert sum(errors for errors, _ in told.values()) == alignment.edits
    assert sum(units for _, units in told.values()) == alignment.units


# ----------------------------------------------------------------------------------------------------------- classes
def two_scans() -> list[dict[str, Any]]:
    long, short = "a" * 90 + " " + "b" * 9, "cccccccccc"
    pages = {"a.pdf": [element(0, long)], "b.pdf": [element(0, "cccccccxxx") | {"doc_id": "b.pdf"}]}
    gold = [reference(long), reference(short) | {"doc_id": "b.pdf"}]
    return parse_quality(pages, gold, [("b.pdf", "dddddddddddd")], policy=POLICY)


def test_a_class_pools_errors_over_characters_and_its_interval_takes_documents_as_units() -> None:
    row = measured(two_scans(), "class")["cer", 0]
    assert (row["errors"], row["units"], row["documents"]) == (3, 110, 2)
    assert row["value"] == pytest.approx(3 / 110)  # the mean over documents would be .15
    assert 0 <= row["lower"] < row["value"] < row["upper"] <= 1
    assert row["upper"] > 0.5  # two documents prove next to nothing, however many characters they have
    assert row["confusions"] == [{"expected": "ccc", "found": "xxx", "count": 1, "edits": 3}]


def test_a_class_names_its_worst_documents_and_the_evidence_lost_there() -> None:
    row = measured(two_scans(), "class")["cer", 0]
    assert row["detail"] == "worst: b.pdf 30.0%. 1 quotations lost: b.pdf 'dddddddddddd'"


def test_a_document_with_whole_and_page_transcripts_counts_once_in_its_class() -> None:
    gold = [reference(REFERENCE), reference(REFERENCE, 1)]
    rows = parse_quality({"a.pdf": [element(0, HYPOTHESIS)]}, gold, [], policy=POLICY)
    assert measured(rows, "class")["cer", 0]["units"] == 38
    assert measured(rows)["cer", 1]["units"] == 38


def test_a_class_without_references_says_so_and_one_that_failed_too() -> None:
    rows = parse_quality({"a.pdf": [element(0, "text")]}, [], [], policy=POLICY)
    assert {(r["status"], r["reason"]) for r in measured(rows, "class").values() if r["metric"] != "parsed"} == {
        ("not_applicable", "no_reference"), ("not_applicable", "no_labels"),
    }  # fmt: skip
    failure = element(0, "", status="failed", reason="corrupt", category=None, page=None)
    rows = parse_quality({"a.pdf": [failure]}, [reference("Some text.")], [], policy=POLICY)
    assert measured(rows, "class")["cer", 0]["status"] == "failed"


# ----------------------------------------------------------------------------------------------------------- strata
STRATA_NAMES = ["clean_scan", "photo", "tables", "multilingual", "mathematics", "handwriting"]


def strata(rows: list[dict[str, Any]], metric: str = "cer") -> dict[str, dict[str, Any]]:
    return {row["stratum"]: row for row in rows if row["scope"] == "stratum" and row["metric"] == metric}


def test_a_stratum_pools_its_documents_over_classes_and_an_empty_one_is_shown_empty() -> None:
    long, short = "a" * 90 + " " + "b" * 9, "cccccccccc"
    pages = {
        "a.pdf": [element(0, long)],
        "b.png": [element(0, "cccccccxxx", doc_id="b.png", doc_class="scan")],
        "c.png": [element(0, "no stratum", doc_id="c.png", doc_class="scan")],
        "d.png": [element(0, "no reference", doc_id="d.png", doc_class="scan")],
    }
    gold = [reference(long), reference(short) | {"doc_id": "b.png"}, reference("other words") | {"doc_id": "c.png"}]
    named = {"a.pdf": "photo", "b.png": "photo", "d.png": "tables", "elsewhere.md": "multilingual"}
    rows = parse_quality(pages, gold, [], policy=POLICY, strata=named, dpi=200)
    found = strata(rows)
    assert list(found) == sorted(STRATA_NAMES)
    photo = found["photo"]
    assert (photo["errors"], photo["units"], photo["documents"]) == (3, 110, 2)
    assert photo["value"] == pytest.approx(3 / 110)
    assert photo["lower"] < photo["value"] < photo["upper"]
    reasons = {name: (row["status"], row["reason"]) for name, row in found.items() if name != "photo"}
    assert reasons == {
        "clean_scan": ("not_applicable", "empty_stratum"), "handwriting": ("not_applicable", "empty_stratum"),
        "mathematics": ("not_applicable", "empty_stratum"), "multilingual": ("not_applicable", "class_not_declared"),
        "tables": ("not_applicable", "no_reference"),
    }  # fmt: skip
    assert strata(rows, "parsed")["tables"]["value"] == 1.0
    assert {row["dpi"] for row in rows} == {200}
    assert {row["doc_id"]: row["stratum"] for row in rows if row["scope"] == "document"} == {
        "a.pdf": "photo", "b.png": "photo", "c.png": "", "d.png": "tables",
    }  # fmt: skip


def test_every_measure_of_every_stratum_has_a_row_and_keys_stay_unique() -> None:
    rows = parse_quality({"a.pdf": [element(0, REFERENCE)]}, [reference(REFERENCE)], [], policy=POLICY)
    assert {(row["stratum"], row["metric"]) for row in rows if row["scope"] == "stratum"} == {(s, m) for s in STRATA_NAMES for m in METRICS}
    keys = [tuple(row[name] for name in TABLES["parse_quality"].key) for row in rows]
    assert keys == sorted(set(keys))
