"""BEIR folders become evaluation folders: which questions go where, what files hold, what errors name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_eval_assets.golden import GoldenError, read_golden
from rag_eval_assets.importing import ImportedDataError, import_beir
from rag_eval_assets.settings import Settings, read_settings
from rag_eval_assets.strict import SettingsError

CORPUS = [{"_id": f"d{i}", "title": f"Title {i}", "text": f"The text of number {i}."} for i in range(6)]
QUERIES = [{"_id": f"q{i}", "text": f"What is number {i}?"} for i in range(6)]
TEST = "query-id\tcorpus-id\tscore\nq0\td0\t2\nq0\td1\t0\n"
TRAIN = "query-id\tcorpus-id\tscore\nq1\td0\t1\nq1\td2\t1\nq2\td1\t1\nq3\td3\t1\n"


def beir(folder: Path, corpus: Any = CORPUS, queries: Any = QUERIES, **qrels: str) -> Path:
    """A BEIR folder; lines are objects or raw text."""
    (folder / "qrels").mkdir(parents=True)
    for name, lines in (("corpus", corpus), ("queries", queries)):
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    for name, content in (qrels or {"test": TEST, "train": TRAIN}).items():
        (folder / "qrels" / f"{name}.tsv").write_text(content, encoding="utf-8")
    return folder


def test_release_stays_whole_and_development_questions_that_share_a_gold_document_are_left_out(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert import_beir(beir(tmp_path / "beir"), target) == {
        "documents": 6, "release": 1, "development": 2, "development_left_out": 1, "queries_without_labels": 2,
    }  # fmt: skip
    rows = read_golden(target / "golden", {f"d{i}.txt" for i in range(6)})
    # q2 shares d1, which is no gold of q0: its grade is 0.
    assert [(row["question_id"], row["split"]) for row in rows] == [
        ("q0", "release"),
        ("q2", "development"),
        ("q3", "development"),
    ]
    assert [(label["document"], label["grade"]) for label in rows[0]["relevant"]] == [("d0.txt", 2), ("d1.txt", 0)]
    assert rows[0]["text"] == "What is number 0?"


def test_a_file_is_title_newline_text_unchanged(tmp_path: Path) -> None:
    corpus = [
        {"_id": "1", "title": "Über  Öle", "text": " two  spaces\r\nand\u2028lines ", "metadata": {}},
        {"_id": "2", "title": "", "text": "no title"},
        {"_id": "3", "text": "no title field"},
    ]
    import_beir(beir(tmp_path / "beir", corpus, test="q0\t1\t1\n"), tmp_path / "out")
    files = {path.name: path.read_bytes().decode() for path in (tmp_path / "out" / "corpus").iterdir()}
    assert files == {
        "1.txt": "Über  Öle\n two  spaces\r\nand\u2028lines ",
        "2.txt": "no title",
        "3.txt": "no title field",
    }


def test_document_ids_that_are_no_file_names_are_made_so_and_stay_apart(tmp_path: Path) -> None:
    ids = ["a/b", "../up", ".hidden", "x\x00y", "Case", "case", "é", "e\u0301", "long" * 90, "con:1", " sp ", "a%2Fb"]
    corpus = [{"_id": doc_id, "title": "t", "text": str(i)} for i, doc_id in enumerate(ids)]
    qrels = "".join(f"q0\t{doc_id}\t1\n" for doc_id in ids)
    import_beir(beir(tmp_path / "beir", corpus, test=qrels), tmp_path / "out")
    files = [path.name for path in (tmp_path / "out" / "corpus").iterdir()]
    assert len({name.casefold() for name in files}) == len(ids)
    assert {"a%2Fb.txt", "..%2Fup.txt"} & set(files) == {"a%2Fb.txt"}
    assert not any(name.startswith(".") or len(name.encode()) > 200 for name in files)
    (row,) = read_golden(tmp_path / "out" / "golden", set(files))
    assert {label["document"] for label in row["relevant"]} == set(files)


def test_the_settings_written_are_valid_and_keep_costly_search_to_whole_documents(tmp_path: Path) -> None:
    import_beir(beir(tmp_path / "beir"), tmp_path / "out")
    settings = read_settings(tmp_path / "out" / "evaluation.yaml")
    assert isinstance(settings, Settings)
    assert settings.retrievers["bm25"].parameters | {"k1": 0.9, "b": 0.4, "analyser": "english"} == settings.retrievers["bm25"].parameters
    assert [name for name, retriever in settings.retrievers.items() if not retriever.chunkings] == ["bm25"]
    assert {system.chunking for system in settings.systems.values()} == {"whole"}
    assert settings.dedup.threshold == 1.0


def test_the_language_of_the_corpus_is_that_of_its_questions(tmp_path: Path) -> None:
    text = "Die Wärmepumpe wird im Frühjahr von einem Fachmann gewartet, danach läuft sie wieder ein Jahr."
    corpus = [{"_id": "d0", "title": "Wartung der Anlage", "text": text}]
    import_beir(beir(tmp_path / "beir", corpus, test="q0\td0\t1\n"), tmp_path / "out")
    assert read_golden(tmp_path / "out" / "golden")[0]["language"] == "de"
    assert yaml.safe_load((tmp_path / "out" / "evaluation.yaml").read_text())["retrievers"]["bm25"]["analyser"] == "by_language"


def test_a_query_of_the_release_split_never_stands_in_development(tmp_path: Path) -> None:
    folder = beir(tmp_path / "beir", test="q0\td0\t1\n", dev="q1\td1\t1\n", train="q0\td3\t1\nq1\td2\t1\n")
    assert import_beir(folder, tmp_path / "out")["development"] == 1
    rows = {row["question_id"]: row for row in read_golden(tmp_path / "out" / "golden")}
    assert [label["document"] for label in rows["q0"]["relevant"]] == ["d0.txt"]
    assert [label["document"] for label in rows["q1"]["relevant"]] == ["d1.txt", "d2.txt"]


def test_grades_under_nought_count_as_not_relevant(tmp_path: Path) -> None:
    folder = beir(tmp_path / "beir", test="q0\td0\t1\nq0\td1\t-2\nq1\td2\t-1\n")
    assert import_beir(folder, tmp_path / "out")["release"] == 1
    (row,) = read_golden(tmp_path / "out" / "golden")
    assert [label["grade"] for label in row["relevant"]] == [1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpus": [*CORPUS, CORPUS[0]]}, "corpus.jsonl:7: _id 'd0' stands on line 1 too; keep one"),
        ({"corpus": ["{", *CORPUS]}, "corpus.jsonl:1: no JSON: "),
        ({"corpus": [{"title": "t", "text": "x"}, *CORPUS]}, "corpus.jsonl:1: _id is missing or no text; give the line an id"),
        ({"corpus": [{"_id": "d9", "title": "t"}, *CORPUS]}, "corpus.jsonl:1: 'd9': title or text is missing or no text"),
        ({"queries": [*QUERIES, {"_id": "q9", "text": " "}]}, "queries.jsonl:7: 'q9': title or text is missing or no text"),
        (
            {"test": "q0\td77\t1\n"},
            "qrels/test.tsv:1: query 'q0': document 'd77' is not in corpus.jsonl; add it or remove the line",
        ),
        ({"test": TEST + "q77\td1\t1\n"}, "qrels/test.tsv:4: query 'q77' is not in queries.jsonl; add it or remove the line"),
        ({"test": TEST + "q0\td0\t1\n"}, "qrels/test.tsv:4: query 'q0': document 'd0' has grade 2 above; keep one"),
        ({"test": TEST + "q0 d0 1\n"}, "qrels/test.tsv:4: not query-id, corpus-id and a whole number, separated by tabs"),
        ({"test": TEST + "q0\td0\t1.5\n"}, "qrels/test.tsv:4: not query-id, corpus-id and a whole number, separated by tabs"),
        ({"train": TRAIN}, "qrels/test.tsv: no such file; a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/test.tsv"),
    ],
)
def test_foreign_data_that_contradicts_itself_is_named_and_nothing_is_written(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = beir(tmp_path / "beir", **change)
    with pytest.raises(ImportedDataError) as caught:
        import_beir(folder, tmp_path / "out")
    assert str(caught.value).replace(f"{folder}/", "").startswith(message)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beir"]


def test_a_folder_that_holds_something_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    with pytest.raises(GoldenError, match="is there already and not empty; name a new folder"):
        import_beir(beir(tmp_path / "beir"), tmp_path / "out")
    (tmp_path / "out" / "mine.txt").unlink()
    import_beir(tmp_path / "beir", tmp_path / "out")
    assert (tmp_path / "out" / "evaluation.yaml").is_file()


def test_settings_of_ones_own_are_kept_as_they_are_and_checked(tmp_path: Path) -> None:
    import_beir(beir(tmp_path / "beir"), tmp_path / "out")
    mine = (tmp_path / "out" / "evaluation.yaml").read_text() + "# mine\n"
    import_beir(tmp_path / "beir", tmp_path / "second", mine)
    assert (tmp_path / "second" / "evaluation.yaml").read_text() == mine
    with pytest.raises(SettingsError, match=r"evaluation\.yaml:1: "):
        import_beir(tmp_path / "beir", tmp_path / "third", "nonsense: 1\n")
    assert not (tmp_path / "third").exists()


@pytest.mark.reference
def test_scifact_gives_300_release_and_537_development_questions(shared: Path, tmp_path: Path) -> None:
    target = tmp_path / "scifact"
    assert import_beir(shared / "retrieval" / "scifact", target) == {
        "documents": 5183, "release": 300, "development": 537, "development_left_out": 272, "queries_without_labels": 0,
    }  # fmt: skip
    rows = read_golden(target / "golden")
    assert sum(len(row["relevant"]) for row in rows if row["split"] == "release") == 339
    gold: dict[str, set[str]] = {"release": set(), "development": set()}
    for row in rows:
        gold[row["split"]] |= {label["document"] for label in row["relevant"]}
    assert not gold["release"] & gold["development"]
    assert len(list((target / "corpus").iterdir())) == 5183


@pytest.mark.reference
def test_the_canonical_text_of_an_imported_document_is_its_title_and_text_but_for_white_space(shared: Path, tmp_path: Path) -> None:
    from ingestion.cleaning import CleaningPolicy, clean_document
    from ingestion.parsers import ParseLimits, ParseRequest, parse_files
    from ingestion.sources import scan

    lines = (shared / "retrieval" / "scifact" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[::430]
    corpus = [json.loads(line) for line in lines]
    folder = beir(tmp_path / "beir", corpus, test=f"q0\t{corpus[0]['_id']}\t1\n")
    import_beir(folder, tmp_path / "out")
    sources = scan(tmp_path / "out" / "corpus")
    requests = [
        ParseRequest(s["doc_id"], tmp_path / "out" / "corpus" / s["path"], s["media_type"], s["doc_class"], s["sha256"]) for s in sources
    ]
    cleaning = read_settings(tmp_path / "out" / "evaluation.yaml").cleaning
    policy = CleaningPolicy(**cleaning.model_dump())
    parsed = parse_files("unstructured", requests, ParseLimits(workers=1))
    texts = {s["doc_id"]: clean_document(s, rows, "text", policy)["text"] for s, rows in zip(sources, parsed, strict=True)}
    for line in corpus:
        shown = f"{line['title']}\n{line['text']}".replace("\u00ad", "")  # cleaning leaves out what shows nothing
        assert texts[f"{line['_id']}.txt"].split() == shown.split()
