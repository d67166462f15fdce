"""The golden set: what its errors name, what its rows hold, what coverage finds; baselines on disk."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_eval_assets.baselines import read_baselines, save_baseline
from rag_eval_assets.coverage import golden_coverage, half_width, label_holes
from rag_eval_assets.golden import LINE_BYTES, GoldenError, Question, json_schema, move_to_development, read_golden
from rag_eval_assets.tables import TABLES

GOOD: dict[str, Any] = {
    "id": "q1",
    "question": "How long is the warranty?",
    "split": "release",
    "evidence": [{"group": "g", "document": "warranty.md", "quotation": "two years"}],
}


def write(folder: Path, *lines: Any, name: str = "release.jsonl") -> Path:
    """A golden folder with one file; lines are bytes, text or objects."""
    folder.mkdir(exist_ok=True)
    parts = [line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode() for line in lines]
    (folder / name).write_bytes(b"".join(part + b"\n" for part in parts))
    return folder


def complaint(folder: Path, doc_ids: set[str] | None = None) -> list[str]:
    """Lines of the error, each without the folder."""
    with pytest.raises(GoldenError) as caught:
        read_golden(folder, doc_ids)
    return [line.replace(f"{folder}/", "") for line in str(caught.value).splitlines()]


# ------------------------------------------------------------------------------------------------------------- rows
def test_a_question_becomes_a_row_of_the_table(tmp_path: Path) -> None:
    full = GOOD | {
        "reference_answer": "Two years",
        "language": "nl",
        "intent": "lookup",
        "kinds": ["negation", "lookup"],
        "slices": {"z": 1, "a": "x"},
        "relevant": [{"document": "warranty.md", "grade": 2}],
        "gold_context": "...",
        "entitlement": {"tenant": ["acme"], "groups": ["b", "a"]},
        "filter": {"locale": "nl-NL", "version": ["2", "3"]},
        "nuggets": [{"text": "two years"}],
        "session": "s1",
    }
    rows = read_golden(write(tmp_path / "golden", b"", full), {"warranty.md"})
    assert pa.Table.from_pylist(rows, schema=TABLES["golden_questions"].schema).to_pylist() == rows
    assert rows == [
        {
            "question_id": "q1",
            "text": "How long is the warranty?",
            "reference_answer": "Two years",
            "answerable": True,
            "split": "release",
            "language": "nl",
            "intent": "lookup",
            "kinds": ["lookup", "negation"],
            "slices": '{"a":"x","z":1}',
            "relevant": [{"document": "warranty.md", "chunk": None, "grade": 2}],
            "evidence": [{"group": "g", "document": "warranty.md", "quotation": "two years", "grade": 1}],
            "gold_context": "...",
            "entitlement": '{"groups":["a","b"],"jurisdiction":[],"publication_state":["published"],"tenant":["acme"]}',
            "filter": '{"locale":["nl-NL"],"version":["2","3"]}',
            "nuggets": [{"text": "two years", "vital": True}],
            "session": "s1",
            "file": "release.jsonl",
            "line": 2,
        }
    ]


def test_rows_are_sorted_by_id_whatever_the_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "golden", GOOD | {"id": "b"}, GOOD | {"id": "c"}, name="z.jsonl")
    write(folder, GOOD | {"id": "d"}, GOOD | {"id": "a"}, name="a.jsonl")
    assert [row["question_id"] for row in read_golden(folder)] == ["a", "b", "c", "d"]


def test_document_ids_are_compared_in_composed_form(tmp_path: Path) -> None:
    decomposed = GOOD | {"evidence": [{"group": "g", "document": "gara\u0302ntie.md"}]}
    rows = read_golden(write(tmp_path / "golden", decomposed), {"gar\u00e2ntie.md"})
    assert rows[0]["evidence"][0]["document"] == "gar\u00e2ntie.md"


def test_a_byte_order_mark_blank_lines_and_line_separators_in_text_are_no_fault(tmp_path: Path) -> None:
    text = json.dumps(GOOD | {"question": "one\u2028two\u0085three"}, ensure_ascii=False)
    (row,) = read_golden(write(tmp_path / "golden", b"\xef\xbb\xbf" + text.encode() + b"\r", b"   ", b""))
    assert row["text"] == "one\u2028two\u0085three"


# ------------------------------------------------------------------------------------------------------------ errors
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"id": "q1",',
            "release.jsonl:1: no JSON: Expecting property name enclosed in double quotes at column 13; one object a line",
        ),
        ("[1, 2]", "release.jsonl:1: no JSON object; a question is {...}"),
        (b'{"id": "\xff"}', "release.jsonl:1: byte 9 is no UTF-8; save the file as UTF-8"),
        ('{"id": "q1", "id": "q2"}', "release.jsonl:1: field 'id' stands twice in one object; keep one"),
        ('{"grade": NaN}', "release.jsonl:1: NaN is no JSON value; leave the field out"),
        ('{"a": ' + "9" * 5000 + "}", "release.jsonl:1: a number has too many digits"),
        ('{"a": ' + "[" * 100_000, "release.jsonl:1: nested too deeply; a question is nested 8 deep at most"),
        ('{"a": ' + "[" * 20 + "]" * 20 + "}", "release.jsonl:1: nested too deeply; a question is nested 8 deep at most"),
        (b" " * (LINE_BYTES + 7) + b"{}", "release.jsonl:1: the line is over 4 MiB; a question takes a few kilobytes"),
    ],
)
def test_a_line_that_is_no_question_is_named(tmp_path: Path, line: str | bytes, message: str) -> None:
    (found,) = complaint(write(tmp_path / "golden", line))
    assert found.startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"split": "test"},
            "split: is \"test\", should be 'development', 'release', 'calibration' or 'monitoring'; wanted: development",
        ),
        ({"reference_answer": 27}, "reference_answer: is 27, should be a valid string; wanted: A right answer, as text."),
        ({"answerable": "no"}, 'answerable: is "no", should be a valid boolean; wanted: true, or false'),
        ({"question": "  "}, 'question: is "  ": it is blank; wanted: The question, as text.'),
        ({"language": "English"}, 'language: is "English", string should match pattern'),
        ({"queston": "?"}, "queston: is no known field; known here: id, question, reference_answer,"),
        (
            {"entitlement": {"teanant": ["a"]}},
            "entitlement.teanant: is no known field; known here: tenant, groups, jurisdiction,",
        ),
        (
            {"entitlement": {"tenant": "acme"}},
            'entitlement.tenant: is "acme", should be a valid list; wanted: A list of tenants',
        ),
        (
            {"filter": {"locale": {"not": "nl"}}},
            "filter.locale: is an object, should be a valid string; wanted: Relevance filter",
        ),
        ({"filter": {"locale": []}}, "filter.locale: is a list, should be a valid string; wanted: Relevance filter"),
        ({"evidence": [{"group": "g"}]}, "evidence[0].document: is missing; wanted: Id of a document of the corpus."),
        (
            {"evidence": [{"group": "g", "document": "a", "grade": -1}]},
            "evidence[0].grade: is -1, should be greater than or equal to 0",
        ),
        ({"relevant": [{"document": "a", "grade": 1.0}]}, "relevant[0].grade: is 1.0, should be a valid integer"),
        ({"relevant": [{"document": "a", "grade": True}]}, "relevant[0].grade: is true, should be a valid integer"),
        ({"relevant": [{"document": "a"}] * 2}, "relevant[1]: the same label stands at relevant[0]; keep one"),
        ({"evidence": GOOD["evidence"] * 2}, "evidence[1]: the same label stands at evidence[0]; keep one"),
        (
            {"answerable": False},
            "answerable: is false, but a label has a grade over 0; set the grade to 0, or answerable to true",
        ),
        ({"evidence": []}, "evidence: is missing, and so is all else to score by; add evidence, relevant or reference_answer,"),
    ],
)
def test_a_bad_field_is_named_with_line_question_and_mend(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (found,) = complaint(write(tmp_path / "golden", GOOD | {"id": "other"}, GOOD | change))
    assert found.startswith(f"release.jsonl:2: question 'q1': {message}")


def test_all_problems_of_all_files_are_told_at_once_and_the_rest_counted(tmp_path: Path) -> None:
    folder = write(tmp_path / "golden", "{", GOOD | {"split": "x", "language": "X"}, name="a.jsonl")
    write(folder, *[GOOD | {"id": f"n{i}", "intent": 5} for i in range(60)], name="b.jsonl")
    found = complaint(folder)
    assert [line.split(": ")[0] for line in found[:4]] == ["a.jsonl:1", "a.jsonl:2", "a.jsonl:2", "b.jsonl:1"]
    assert found[50:] == ["and 13 more"]


def test_an_id_that_stands_twice_names_both_lines(tmp_path: Path) -> None:
    folder = write(tmp_path / "golden", GOOD, name="a.jsonl")
    write(folder, GOOD | {"id": "x"}, GOOD, name="b.jsonl")
    assert complaint(folder) == ["b.jsonl:2: question 'q1': id: stands at a.jsonl:1 too; give each question its own id"]


def test_a_document_outside_the_corpus_is_an_error_that_suggests_one_inside(tmp_path: Path) -> None:
    folder = write(tmp_path / "golden", GOOD)
    assert complaint(folder, {"warranty.html", "a"}) == [
        "release.jsonl:1: question 'q1': evidence[0].document: \"warranty.md\" is no document of the corpus; did you mean 'warranty.html'?"
    ]
    assert complaint(folder, set())[0].endswith("write the id of a file below corpus/")
    assert len(read_golden(folder, None)) == 1


def test_unanswerable_questions_may_carry_labels_of_grade_nought_only(tmp_path: Path) -> None:
    question = GOOD | {"answerable": False, "evidence": [], "relevant": [{"document": "a", "grade": 0}]}
    assert read_golden(write(tmp_path / "golden", question))[0]["relevant"][0]["grade"] == 0


def test_fresh_traffic_may_have_no_labels_yet(tmp_path: Path) -> None:
    assert read_golden(write(tmp_path / "golden", GOOD | {"split": "monitoring", "evidence": []}))[0]["evidence"] == []


def test_a_folder_that_holds_no_questions_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="No such file or directory; a golden set is a folder"):
        read_golden(tmp_path / "golden")
    (tmp_path / "golden").mkdir()
    with pytest.raises(GoldenError, match=r"holds no \.jsonl file"):
        read_golden(tmp_path / "golden")


@pytest.mark.parametrize("name", ["release/", "a.jsonl/", "more.json", "MORE.JSONL", "notes.txt"])
def test_what_would_be_left_out_of_a_golden_set_without_a_word_is_an_error(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "golden", GOOD)
    (folder / ".notes.swp").write_text("hidden")
    assert len(read_golden(folder)) == 1
    (folder / name).mkdir() if name.endswith("/") else (folder / name).write_text("{}")
    mend = "questions stand in .jsonl files directly in this folder; move, rename or remove it"
    assert complaint(folder) == [f"{name.rstrip('/')}: {mend}"]


def test_a_filter_on_a_field_that_no_document_has_is_told_with_its_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "golden", GOOD | {"filter": {"product": "pump"}}, GOOD | {"id": "q2", "filter": {"prodct": "pump"}})
    with pytest.raises(GoldenError) as caught:
        read_golden(folder, None, {"product", "locale"})
    told = "release.jsonl:2: question 'q2': filter.prodct: is a field that no document has; known: locale, product"
    assert str(caught.value) == f"{folder}/{told}"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from([*Question.model_fields, "group", "document", "tenant", "grade", "x"])
questions = st.dictionaries(fields, json_values | st.lists(st.dictionaries(fields, json_values, max_size=4), max_size=3), max_size=8)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    line=st.binary(max_size=200)
    | st.builds(json.dumps, json_values).map(str.encode)
    | st.builds(lambda change: json.dumps(GOOD | change).encode(), questions)
)
def test_whatever_stands_in_a_file_only_a_golden_error_escapes(tmp_path: Path, line: bytes) -> None:
    folder = write(tmp_path / "golden", line.replace(b"\n", b" "))
    told = None
    try:
        rows = read_golden(folder, {"warranty.md"})
    except GoldenError as error:
        told = str(error)
    if told is not None:
        assert "release.jsonl:1: " in told.encode().decode()
    else:
        pa.Table.from_pylist(rows, schema=TABLES["golden_questions"].schema).validate(full=True)


def test_every_field_of_the_json_schema_is_described() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["id", "question", "split"]
    for model in (schema, *schema["$defs"].values()):
        assert model["description"]
        assert all(field.get("description") for field in model["properties"].values())
    assert set(schema["properties"]) == {
        "id", "question", "reference_answer", "answerable", "split", "language", "intent", "kinds", "slices", "relevant", "evidence",
        "gold_context", "entitlement", "filter", "nuggets", "session",
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- coverage
def question(identifier: str, split: str, text: str = "", intent: str = "lookup", session: str | None = None) -> dict[str, Any]:
    return {
        "question_id": identifier,
        "split": split,
        "text": text or identifier,
        "intent": intent,
        "language": "en",
        "session": session,
    }


def label(identifier: str, doc_id: str, grade: int = 1, kept: str | None = None) -> dict[str, Any]:
    return {"question_id": identifier, "doc_id": doc_id, "kept_doc_id": kept, "grade": grade}


DOCUMENTS = {name: {"doc_id": name, "doc_class": name.split(".")[1]} for name in ("a.pdf", "b.pdf", "c.html")}


def coverage(kind: str, questions: list[dict[str, Any]], labels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = golden_coverage(questions, labels, DOCUMENTS)
    table = pa.Table.from_pylist(rows, schema=TABLES["golden_coverage"].schema)
    keys = list(zip(*(table[name].to_pylist() for name in TABLES["golden_coverage"].key), strict=True))
    assert keys == sorted(set(keys))
    return [row for row in rows if row["kind"] == kind]


def test_cells_count_questions_and_show_the_empty_ones() -> None:
    found = coverage(
        "cell",
        [question("q1", "release"), question("q2", "development", intent="policy"), question("q3", "release")],
        [label("q1", "a.pdf"), label("q1", "c.html"), label("q2", "b.pdf")],
    )
    cells = {(row["split"], row["intent"], row["doc_class"]): row["questions"] for row in found}
    assert len(cells) == 2 * 2 * 3
    assert {key for key, count in cells.items() if count} == {
        ("release", "lookup", "pdf"), ("release", "lookup", "html"), ("release", "lookup", "none"), ("development", "policy", "pdf"),
    }  # fmt: skip


def test_documents_and_sessions_shared_between_splits_are_leaks() -> None:
    found = coverage(
        "split_leak",
        [question("q1", "release", session="s"), question("q2", "development"), question("q3", "monitoring", session="s")],
        [label("q1", "a.pdf"), label("q2", "copy.pdf", kept="a.pdf"), label("q3", "a.pdf", grade=0)],
    )
    assert [(row["split"], row["other"], row["questions"], row["detail"]) for row in found] == [
        ("development+release", "document a.pdf", 2, "development: q2; release: q1"),
        ("monitoring+release", "session s", 2, "monitoring: q3; release: q1"),
    ]


def test_questions_asked_again_in_another_split_are_found() -> None:
    found = coverage(
        "duplicate_question",
        [
            question("q1", "release", "How long is the warranty of the kettle?"),
            question("q2", "development", "how long is the warranty of the kettle"),
            question("q3", "release", "How long is the warranty of the Otter 5 kettle?"),
            question("q4", "development", "How long is the warranty of the Otter 7 kettle?"),
            question("q5", "release", "how long is the warranty of the kettle"),
            question("q6", "development", "Where is the filter?"),
        ],
        [],
    )
    assert [(row["split"], row["other"], row["value"]) for row in found] == [
        ("development+release", "q2 | q1", 1.0),
        ("development+release", "q2 | q5", 1.0),
    ]


def test_two_hundred_questions_at_point_eight_know_a_rate_to_five_and_a_half_points() -> None:
    assert half_width(200) == pytest.approx(0.0554, abs=5e-5)
    assert half_width(0) is None
    assert half_width(1) <= 1  # type: ignore[operator]


def test_half_widths_count_labelled_questions_for_ranking_and_all_for_answers() -> None:
    found = coverage("half_width", [question("q1", "release"), question("q2", "release", intent="policy")], [label("q1", "a.pdf")])
    counts = {(row["intent"], row["doc_class"], row["other"]): (row["questions"], row["value"]) for row in found}
    wide = pytest.approx(1.96 * math.sqrt(0.16), rel=1e-3)
    assert counts["*", "*", "answer metrics"] == (2, pytest.approx(1.96 * math.sqrt(0.08), rel=1e-3))
    assert counts["*", "*", "ranking metrics"] == (1, wide)
    assert counts["policy", "*", "ranking metrics"] == (0, None)
    assert counts["*", "pdf", "answer metrics"] == (1, wide)


# ------------------------------------------------------------------------------------------------------------ moving
def test_a_release_question_moves_to_development_and_the_other_lines_keep_their_bytes(tmp_path: Path) -> None:
    odd = b'{"question":"Odd   spacing?",  "id":"q2","split":"release","reference_answer":"x"}'
    folder = write(tmp_path / "golden", GOOD, odd, GOOD | {"id": "q3"})
    (folder / "development.jsonl").write_bytes(json.dumps(GOOD | {"id": "q4", "split": "development"}).encode())
    assert move_to_development(folder, "q1") == folder / "development.jsonl"
    assert {row["question_id"]: row["split"] for row in read_golden(folder)} == {
        "q1": "development", "q2": "release", "q3": "release", "q4": "development",
    }  # fmt: skip
    assert (folder / "release.jsonl").read_bytes().splitlines()[0] == odd
    assert sorted(path.name for path in folder.iterdir()) == ["development.jsonl", "release.jsonl"]


def test_a_question_in_a_file_of_another_name_changes_in_place(tmp_path: Path) -> None:
    folder = write(tmp_path / "golden", GOOD, GOOD | {"id": "q2"}, name="all.jsonl")
    assert move_to_development(folder, "q2") == folder / "all.jsonl"
    assert [(row["question_id"], row["split"], row["line"]) for row in read_golden(folder)] == [
        ("q1", "release", 1), ("q2", "development", 2),
    ]  # fmt: skip


def test_moving_an_unknown_question_or_one_of_development_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "golden", GOOD | {"split": "development"})
    with pytest.raises(LookupError, match="no question 'q7'"):
        move_to_development(folder, "q7")
    with pytest.raises(GoldenError, match="split: is development already"):
        move_to_development(folder, "q1")


# --------------------------------------------------------------------------------------------------------- baselines
def score(identifier: str, baseline: str = "first", value: float | None = 0.5) -> dict[str, Any]:
    return {
        "baseline": baseline, "system": "s", "question_id": identifier, "split": "release", "metric": "RR", "k": 0, "cutoff": "none",
        "unit": "document", "value": value, "status": "scored" if value is not None else "failed",
        "reason": None if value is not None else "timeout", "identities": "{}",
    }  # fmt: skip


def test_a_saved_baseline_is_read_back_in_the_order_of_its_key(tmp_path: Path) -> None:
    rows = [score("q2"), score("q1", value=None)]
    assert save_baseline(tmp_path / "baselines", "first", rows) == tmp_path / "baselines" / "first.parquet"
    save_baseline(tmp_path / "baselines", "another", [score("q1", "another")])
    assert read_baselines(tmp_path / "baselines") == [score("q1", "another"), score("q1", value=None), score("q2")]


def test_a_baseline_is_overwritten_only_when_that_is_asked_for(tmp_path: Path) -> None:
    save_baseline(tmp_path, "first", [score("q1")])
    with pytest.raises(FileExistsError, match=r"first\.parquet: baseline 'first' is there; choose another name, or pass --replace"):
        save_baseline(tmp_path, "first", [score("q2")])
    assert read_baselines(tmp_path) == [score("q1")]
    save_baseline(tmp_path, "first", [score("q2")], replace=True)
    assert read_baselines(tmp_path) == [score("q2")]


def test_no_baselines_folder_is_no_baselines(tmp_path: Path) -> None:
    assert read_baselines(tmp_path / "baselines") == []


@pytest.mark.parametrize("name", ["", "../x", "A", ".x", "a/b", "a" * 64])
def test_a_baseline_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(GoldenError, match="use lower case letters and digits"):
        save_baseline(tmp_path, name, [])


def test_broken_foreign_and_doubled_baselines_are_errors_that_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(GoldenError, match=r"bad\.parquet: no baseline"):
        read_baselines(tmp_path)
    (tmp_path / "bad.parquet").unlink()
    save_baseline(tmp_path, "first", [score("q1")]).rename(tmp_path / "second.parquet")
    with pytest.raises(GoldenError, match=r"second\.parquet: holds rows of baseline 'first'; name the file first\.parquet"):
        read_baselines(tmp_path)
    (tmp_path / "second.parquet").unlink()
    save_baseline(tmp_path, "first", [score("q1"), score("q1")])
    with pytest.raises(GoldenError, match=r"first\.parquet: question 'q1': stands twice"):
        read_baselines(tmp_path)


def test_rows_that_do_not_fit_the_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="rows do not fit the table"):
        save_baseline(tmp_path, "first", [score("q1") | {"value": "high"}])


# ------------------------------------------------------------------------------------------------------------- holes
def test_documents_that_no_label_names_are_holes_by_their_rank_among_documents() -> None:
    questions = [{"question_id": q, "split": "release", "answerable": q != "none"} for q in ("a", "bare", "none")]
    evidence = [
        {"question_id": "a", "doc_id": "gold", "kept_doc_id": "copy", "grade": 1},
        {"question_id": "a", "doc_id": "poor", "kept_doc_id": None, "grade": 0},
    ]
    found = ["x", "copy", "x", "poor", "y", "z"]
    rankings = [
        {"question_id": q, "rank": n, "doc_id": d, "text": f"passage {n}"} for q in ("a", "bare", "none") for n, d in enumerate(found, 1)
    ]
    rankings.append({"question_id": "a", "rank": 0, "doc_id": None, "text": None})
    assert label_holes(questions, evidence, rankings[::-1], depth=4) == [
        {"question_id": "a", "split": "release", "doc_id": "x", "rank": 1, "text": "passage 1"},
        {"question_id": "a", "split": "release", "doc_id": "y", "rank": 4, "text": "passage 5"},
    ]
