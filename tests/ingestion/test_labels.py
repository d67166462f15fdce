"""Hand-made references and labels: read as the folders lay them out, refused with file, line and mend where they cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingestion.labels import KINDS, LabelError, read_labels, read_references
from rag_eval_assets.tables import TABLES

DOCUMENTS = ["a.pdf", "b/c.html", "a.pdf.p2"]


def put(folder: Path, name: str, content: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def test_references_of_documents_pages_and_tables_are_told_apart(tmp_path: Path) -> None:
    put(tmp_path, "text/a.pdf.txt", "\ufeffWhole.\r\nText")
    put(tmp_path, "text/b/c.html.p3.txt", "Page three.")
    put(tmp_path, "tables/b/c.html.t0.html", "<table><tr><td>Lid</td><td>10.00</td></tr></table>")
    put(tmp_path, ".hidden/x", "")
    rows = read_references(tmp_path, DOCUMENTS)
    assert all(set(row) == set(TABLES["reference_transcripts"].columns) for row in rows)
    assert [(row["doc_id"], row["kind"], row["item"], row["page"], row["text"]) for row in rows] == [
        ("a.pdf", "text", 0, None, "Whole.\nText"),
        ("b/c.html", "table", 0, None, "Lid 10.00"),
        ("b/c.html", "text", 3, 3, "Page three."),
    ]
    assert rows[1]["html"] == "<table><tr><td>Lid</td><td>10.00</td></tr></table>"
    assert rows[2]["file"] == "text/b/c.html.p3.txt"


def test_a_marked_transcript_gives_its_text_and_its_parts(tmp_path: Path) -> None:
    put(tmp_path, "text/a.pdf.md", "# Lid\n\n## Care\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    rows = read_references(tmp_path, DOCUMENTS)
    assert all(set(row) == set(TABLES["reference_transcripts"].columns) for row in rows)
    assert [(row["kind"], row["item"], row["level"], row["text"]) for row in rows] == [
        ("heading", 0, 1, "Lid"), ("heading", 1, 2, "Care"), ("table", 0, None, "a b\n1 2"), ("text", 0, None, "Lid\n\nCare\n\na b\n1 2"),
    ]  # fmt: skip
    put(tmp_path, "text/a.pdf.txt", "Lid")
    with pytest.raises(LabelError, match=r"a\.pdf\.txt: stands for the same item as text/a\.pdf\.md"):
        read_references(tmp_path, DOCUMENTS)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text/gone.pdf.txt", "x", "references/text/gone.pdf.txt: names no document of the corpus ('gone.pdf')"),
        ("text/b/c.html.p0.txt", "x", "references/text/b/c.html.p0.txt: pages count from 1"),
        ("text/a.pdf.p2.txt", "x", "references/text/a.pdf.p2.txt: stands for the document 'a.pdf.p2' and for a page of 'a.pdf'"),
        ("tables/a.pdf.t1.html", "<p>none</p>", "references/tables/a.pdf.t1.html: holds no <table>"),
        ("tables/a.pdf.html", "<table></table>", "references/tables/a.pdf.html: names no document"),
        ("notes.txt", "x", "references/notes.txt: is no text/<document>"),
    ],
)
def test_a_reference_that_fits_nothing_is_an_error_that_names_it(tmp_path: Path, name: str, content: str, message: str) -> None:
    folder = tmp_path / "references"
    put(folder, name, content)
    with pytest.raises(LabelError) as caught:
        read_references(folder, DOCUMENTS)
    assert str(caught.value).startswith(message)


def test_two_references_of_one_item_are_an_error_that_names_both(tmp_path: Path) -> None:
    put(tmp_path, "text/a.pdf.p1.txt", "x")
    put(tmp_path, "text/a.pdf.p01.txt", "x")
    with pytest.raises(LabelError, match=r"a\.pdf\.p1\.txt.*a\.pdf\.p01\.txt"):
        read_references(tmp_path, DOCUMENTS)


def test_absent_folders_hold_nothing(tmp_path: Path) -> None:
    assert read_references(tmp_path / "references", DOCUMENTS) == []
    assert read_labels(tmp_path / "labels", DOCUMENTS) == []


GOOD: dict[str, dict[str, Any]] = {
    "boilerplate": {"quotation": "Home | Products", "value": "yes"},
    "language": {"value": "nl"},
    "pii": {"quotation": "jan@example.org", "value": "email"},
    "duplicate": {"other_document": "b/c.html", "value": "no"},
    "cut": {"quotation": "a sentence", "value": "no"},
    "judgment": {"question": "q1", "answer": "Two moons.", "value": "supported", "annotator": "kim"},
    "title": {"value": "Pump care"},
    "heading": {"quotation": "After winter", "value": "2"},
    "heading_path": {"quotation": "Rinse it with clean water.", "value": "Pump care > After winter"},
    "entity": {"quotation": "Jan Vos", "value": "person", "occurrence": 2, "source": "tool"},
    "relation": {"quotation": "Jan Vos", "other_quotation": "Brinkhal", "value": "works_for"},
    "predicate": {"question": "q1", "value": "no"},
    "preference": {"question": "q1", "answer": "Two moons.", "other_answer": "Two.", "value": "tie"},
}


def lines(*labels: dict[str, Any]) -> str:
    return "\n".join(json.dumps(label) for label in labels)


def test_labels_of_every_kind_become_rows_in_order_of_their_hash(tmp_path: Path) -> None:
    assert set(GOOD) == set(KINDS)
    put(tmp_path, "all.jsonl", lines(*({"kind": kind, "document": "a.pdf", **rest} for kind, rest in GOOD.items())) + "\n\n")
    nothing = [{"kind": kind, "document": "b/c.html", "value": "none"} for kind in ("pii", "entity", "relation")]
    put(tmp_path, "none.jsonl", lines(*nothing))
    rows = read_labels(tmp_path, DOCUMENTS)
    assert len(rows) == 16
    assert all(set(row) == set(TABLES["quality_labels"].columns) for row in rows)
    assert [row["label_id"] for row in rows] == sorted(row["label_id"] for row in rows)
    judgment = next(row for row in rows if row["kind"] == "judgment")
    assert (judgment["question_id"], judgment["answer"], judgment["annotator"], judgment["file"], judgment["line"]) == (
        "q1", "Two moons.", "kim", "all.jsonl", 6,
    )  # fmt: skip


def test_an_id_depends_on_the_content_alone_and_a_pair_reads_the_same_both_ways(tmp_path: Path) -> None:
    put(
        tmp_path / "one",
        "x.jsonl",
        "\n\n" + lines({"kind": "duplicate", "document": "a.pdf", "other_document": "b/c.html", "value": "yes"}),
    )
    put(tmp_path / "two", "y.jsonl", lines({"value": "yes", "kind": "duplicate", "other_document": "a.pdf", "document": "b/c.html"}))
    (one,), (two,) = read_labels(tmp_path / "one", DOCUMENTS), read_labels(tmp_path / "two", DOCUMENTS)
    assert one["label_id"] == two["label_id"]
    assert (one["doc_id"], one["other_doc_id"]) == (two["doc_id"], two["other_doc_id"]) == ("a.pdf", "b/c.html")
    assert (one["line"], two["line"]) == (3, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "no JSON"),
        ("[1]", "must be one object"),
        ('{"kind": "language", "document": "a.pdf", "value": "nl", "value": "de"}', "field 'value' stands twice"),
        ('{"kind": "language", "document": "a.pdf", "value": "nl", "note": "x"}', "unknown field 'note'"),
        ('{"kind": "language", "document": "a.pdf", "value": 3}', "field 'value' must be text"),
        ('{"kind": "language", "document": "a.pdf", "value": " "}', "field 'value' is empty"),
        ('{"kind": "tone", "document": "a.pdf", "value": "x"}', "kind 'tone' is not known"),
        ('{"kind": "language", "document": "a.pdf", "value": "dutch"}', "value 'dutch' is no ISO 639-1 code"),
        ('{"kind": "language", "document": "gone.pdf", "value": "nl"}', "document 'gone.pdf' is not in the corpus"),
        ('{"kind": "pii", "document": "a.pdf", "value": "email"}', "a label of kind 'pii' needs the field 'quotation'"),
        ('{"kind": "duplicate", "document": "a.pdf", "value": "yes"}', "a label of kind 'duplicate' needs the field 'other_document'"),
        ('{"kind": "duplicate", "document": "a.pdf", "other_document": "a.pdf", "value": "yes"}', "pairs document 'a.pdf' with itself"),
        ('{"kind": "cut", "document": "a.pdf", "quotation": "x", "value": "maybe"}', "value 'maybe' of kind 'cut' must be one of yes, no"),
        ('{"kind": "heading", "document": "a.pdf", "quotation": "x", "value": "h2"}', "value 'h2' of kind 'heading' must be one of 1, 2"),
        ('{"kind": "heading_path", "document": "a.pdf", "value": "A > B"}', "a label of kind 'heading_path' needs the field 'quotation'"),
        (
            '{"kind": "relation", "document": "a.pdf", "quotation": "x", "value": "r"}',
            "a label of kind 'relation' needs the field 'other_q",
        ),
        ('{"kind": "entity", "document": "a.pdf", "quotation": "x", "value": "t", "occurrence": 0}', "field 'occurrence' must be a whole"),
        (
            '{"kind": "entity", "document": "a.pdf", "quotation": "x", "value": "t", "occurrence": "2"}',
            "field 'occurrence' must be a whole",
        ),
        ('{"kind": "pii", "document": "a.pdf", "quotation": "x", "value": "t", "source": "tool"}', "field 'source' means nothing for kind"),
        (
            '{"kind": "entity", "document": "a.pdf", "quotation": "x", "value": "t", "source": "tool", "annotator": "kim"}',
            "a label is a person's (annotator) or a tool's prediction (source)",
        ),
        (
            '{"kind": "cut", "document": "a.pdf", "quotation": "x", "value": "no", "other_document": "b/c.html"}',
            "field 'other_document' means nothing",
        ),
    ],
)
def test_a_bad_label_is_an_error_that_names_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    folder = tmp_path / "labels"
    put(folder, "x.jsonl", lines({"kind": "language", "document": "a.pdf", "value": "nl"}) + "\n" + line)
    with pytest.raises(LabelError) as caught:
        read_labels(folder, DOCUMENTS)
    assert str(caught.value).startswith(f"labels/x.jsonl:2: {message}")


def test_repeated_and_contradicting_labels_are_errors_unless_annotators_differ(tmp_path: Path) -> None:
    label = {"kind": "cut", "document": "a.pdf", "quotation": "x", "value": "no"}
    put(tmp_path, "x.jsonl", lines(label, label, label | {"value": "yes"}, label | {"value": "yes", "annotator": "kim"}))
    with pytest.raises(LabelError) as caught:
        read_labels(tmp_path, DOCUMENTS)
    told = str(caught.value).splitlines()
    assert len(told) == 2
    assert "x.jsonl:2: repeats the label at" in told[0]
    assert "x.jsonl:3: says 'yes' of what" in told[1]


def test_one_pair_may_stand_in_several_relations_and_a_prediction_is_no_second_verdict(tmp_path: Path) -> None:
    relation = {"kind": "relation", "document": "a.pdf", "quotation": "Jan Vos", "other_quotation": "Brinkhal", "value": "owns"}
    put(tmp_path, "x.jsonl", lines(relation, relation | {"value": "leads"}))
    put(tmp_path / "predictions", "tool.jsonl", lines(relation | {"source": "tool"}))
    rows = read_labels(tmp_path, DOCUMENTS)
    assert sorted((row["value"], row["source"], row["file"]) for row in rows if row["value"] == "leads" or row["source"]) == [
        ("leads", None, "x.jsonl"),
        ("owns", "tool", "predictions/tool.jsonl"),
    ]


def test_a_label_nested_without_a_bottom_is_an_error_of_its_line(tmp_path: Path) -> None:
    put(tmp_path, "more.jsonl", '{"kind": ' + "[" * 100_000 + "\n")
    with pytest.raises(LabelError, match=r"more\.jsonl:1: is nested too deeply"):
        read_labels(tmp_path, DOCUMENTS)
