"""Run files are read whole or refused by file, line and id, and what is written reads back the same and scores the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytrec_eval

from rag_eval_assets.run_files import RunFileError, collapsed, read_runs, trec_id, trec_qrels, trec_run

DOCUMENTS = {"d1.txt", "d2.txt", "d3.txt", "a b/50% off.md"}


def read(tmp_path: Path, text: str, name: str = "mine.trec") -> list[tuple[str, int, str | None, float | None]]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return [(r["question_id"], r["rank"], r["item"], r["score"]) for r in read_runs(tmp_path, {"mine": name}, DOCUMENTS)]


def complaint(tmp_path: Path, text: str, name: str = "mine.trec") -> str:
    with pytest.raises(RunFileError) as caught:
        read(tmp_path, text, name)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_a_trec_run_is_ordered_by_its_ranks_and_ids_resolve(tmp_path: Path) -> None:
    text = "q1 Q0 d2 2 9.5 tag\nq1 Q0 d1.txt#0-12 1 0.5 tag\nq2 Q0 a%20b/50%25%20off.md 0 1e-3 tag\n\n"
    assert read(tmp_path, text) == [("q1", 1, "d1.txt#0-12", 0.5), ("q1", 2, "d2.txt", 9.5), ("q2", 1, "a b/50% off.md", 0.001)]


def test_json_lines_are_ordered_as_written_and_an_empty_ranking_is_one(tmp_path: Path) -> None:
    text = '{"question": "q1", "hits": [{"id": "d3.txt"}, {"id": "d1", "score": 2}]}\n{"question": "q2", "hits": []}\n'
    assert read(tmp_path, text, "mine.jsonl") == [("q1", 1, "d3.txt", None), ("q1", 2, "d1.txt", 2.0), ("q2", 0, None, None)]


def test_documents_that_the_corpus_lacks_are_read_as_they_stand(tmp_path: Path) -> None:
    text = "q1 Q0 d9 1 2.5 t\nq1 Q0 e%20f.md#0-9 2 2.0 t\nq1 Q0 d1 3 1.0 t\n"
    assert read(tmp_path, text) == [("q1", 1, "d9", 2.5), ("q1", 2, "e f.md#0-9", 2.0), ("q1", 3, "d1.txt", 1.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 Q0 d1 1 2.0 t\nq1 Q0 d1 2 1.0 t\n", "mine.trec:2: question 'q1': 'd1' is there twice; keep one"),
        ("q1 Q0 d1 1 2.0 t\nq1 Q0 d1.txt 2 1.0 t\n", "mine.trec:2: question 'q1': 'd1.txt' is there twice; keep one"),
        ("q1 Q0 d1 1 nan t\n", "mine.trec:1: question 'q1': the score of 'd1' is not finite; give a number"),
        ("q1 Q0 d1 1 inf t\n", "mine.trec:1: question 'q1': the score of 'd1' is not finite; give a number"),
        ("q1 Q0 d%209 1 2.0 t\nq1 Q0 d%209 2 1.0 t\n", "mine.trec:2: question 'q1': 'd%209' is there twice; keep one"),
        ("q1 Q0 d1 1 2.0 t\nq1 Q0 d2 1 1.0 t\n", "mine.trec:2: question 'q1': rank 1 is there twice; the rank rules"),
        ("q1 Q0 d1 1 high t\n", "mine.trec:1: question 'q1': score 'high' is no number"),
        ("q1 d1 1 2.0\n", "mine.trec:1: not 'question Q0 id rank score tag'"),
    ],
)
def test_a_bad_trec_line_is_refused_by_file_line_and_id(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "mine.jsonl:1: no JSON"),
        ('{"question": "q1", "hits": [{"id": "d\\ud800"}]}', "mine.jsonl:1: no JSON: 'utf-8' codec can't encode character"),
        ('{"question": "q1", "hits": [], "more": 1}', "mine.jsonl:1: not {"),
        ('{"question": "q1", "hits": []}\n{"question": "q1", "hits": []}', "mine.jsonl:2: question 'q1' has a line above; keep one"),
        ('{"question": "q1", "hits": [{"id": "d1", "score": true}]}', "mine.jsonl:1: question 'q1': hit 1 is not"),
        ('{"question": "q1", "hits": [{"id": "d1", "score": NaN}]}', "the score of 'd1' is not finite"),
        ('{"question": "q1", "hits": [{"id": "d1", "score": 1' + "0" * 400 + "}]}", "the score of 'd1' is not finite"),
        ('{"question": "q1", "hits": [{"id": "d1"}, {"id": "d1"}]}', "mine.jsonl:1: question 'q1': 'd1' is there twice"),
    ],
)
def test_a_bad_json_line_is_refused_by_file_line_and_id(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(tmp_path, text, "mine.jsonl")


def test_a_file_that_is_not_there_or_not_utf_8_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="no such file; retriever 'mine' names it"):
        read_runs(tmp_path, {"mine": "absent.trec"}, DOCUMENTS)
    for name in ("empty.trec", "empty.jsonl"):
        (tmp_path / name).touch()
        with pytest.raises(RunFileError, match=rf"{name}: no ranking in it; export it anew, or remove retriever 'mine'"):
            read_runs(tmp_path, {"mine": name}, DOCUMENTS)
    (tmp_path / "latin.trec").write_bytes("q1 Q0 d1 1 2.0 té\n".encode("latin-1"))
    with pytest.raises(RunFileError, match=r"latin\.trec:1: not UTF-8"):
        read_runs(tmp_path, {"mine": "latin.trec"}, DOCUMENTS)


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    rankings = {"q 1": [("d2.txt", 2.5), ("a b/50% off.md", 2.5), ("d1.txt", -1.0)]}
    assert read(tmp_path, "".join(trec_run(rankings, "ours"))) == [
        ("q 1", rank, item, score) for rank, (item, score) in enumerate(rankings["q 1"], 1)
    ]


@pytest.mark.parametrize("hits", [[("b", 1.0), ("a", 1.0)], [("a", 1.0), ("b", 1.0)], [("a", 0.5), ("b", 0.9)], [("a", 1.0), ("b", None)]])
def test_trec_eval_sees_the_order_that_was_meant(hits: list[tuple[str, float | None]]) -> None:
    run: dict[str, dict[str, float]] = {}
    for line in trec_run({"q": hits}, "ours"):
        question, _, item, _, score, _ = line.split()
        run.setdefault(question, {})[item] = float(score)
    for gold in ("a", "b"):
        found = pytrec_eval.RelevanceEvaluator({"q": {gold: 1}}, {"recip_rank"}).evaluate(run)["q"]["recip_rank"]
        assert found == 1 / (1 + [item for item, _ in hits].index(gold))


def test_qrels_and_collapse() -> None:
    assert list(trec_qrels({"q2": {"d1": 0}, "q1": {"d2": 1, "d 1": 2}})) == ["q1 0 d%201 2\n", "q1 0 d2 1\n", "q2 0 d1 0\n"]
    assert collapsed([("a", 3.0), ("b", 2.0), ("a", 1.0)]) == [("a", 3.0), ("b", 2.0)]
    assert trec_id("a\u2028b%") == "a%E2%80%A8b%25"
