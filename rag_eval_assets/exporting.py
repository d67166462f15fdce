"""An evaluation folder's rankings, labels, questions and texts in other people's formats: TREC runs and qrels, BEIR folders.

What belongs here: which tables are read and which files are written. What does not: the lines themselves (`run_files`) and reading such
files back (`run_files`, `importing`).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.golden import GoldenError
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.run_files import Hit, collapsed, trec_qrels, trec_run
from rag_eval_assets.scoring.relevance import read_labels
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.tables import OK
from rag_eval_assets.tables.groups import rows_of

BEIR_SPLITS = {"release": "test", "development": "dev"}
"""Our splits under BEIR's names; others keep their own."""


class ExportError(GoldenError):
    """An export that cannot be made, with the mend."""


def export_trec(folder: Folder, catalogue: Catalogue, target: Path, unit: str = "document") -> dict[str, int]:
    """Write `<chunking>.<retriever>.<split>.trec` for every ranking and `qrels.<split>.txt`, by document; what was written, counted.

    By document, chunks collapse to the first rank of their document, as the scores do, so trec_eval with -c gives the same figures; unit
    `chunk` writes chunk ids, which `run_file` reads back. A question that failed, is missing or found nothing has no line. Qrels hold
    what the question's caller may read. Raises ExportError where the target is not empty or a table is not there.
    """
    questions, grades = _labels(catalogue)
    written = {"runs": 0, "qrels": 0}
    with _Unfinished(target) as place:
        for node in Graph(folder).nodes():
            if node.asset != "retrieval_runs" or catalogue.footer(node) is None:
                continue
            table = catalogue.read(node)[0]
            hits = table.filter(pc.and_(pc.equal(table["status"], OK), pc.greater(table["rank"], 0)))
            hits = hits.sort_by([("retriever", "ascending"), ("question_id", "ascending"), ("rank", "ascending")])
            names = ("retriever", "split", "question_id", f"{'doc' if unit == 'document' else 'chunk'}_id", "score")
            runs: dict[tuple[str, str], dict[str, list[Hit]]] = {}
            for retriever, split, question, item, score in zip(*(hits[name].to_pylist() for name in names), strict=True):
                runs.setdefault((retriever, split), {}).setdefault(question, []).append((item, score))
            for (retriever, split), found in sorted(runs.items()):
                tag = f"{node.partition}.{retriever}"
                rankings = {question: collapsed(own) for question, own in found.items()}
                _write(place / f"{tag}.{split}.trec", trec_run(rankings, tag))
                written["runs"] += 1
        if not written["runs"]:
            raise ExportError("retrieval_runs has no file; run 'rag-eval sync' first")
        for split in sorted({q["split"] for q in questions}):
            own_grades = {
                q["question_id"]: grades[q["question_id"]] for q in questions if q["split"] == split and q["question_id"] in grades
            }
            if own_grades:
                _write(place / f"qrels.{split}.txt", trec_qrels(own_grades))
                written["qrels"] += 1
    return written


def export_beir(catalogue: Catalogue, target: Path) -> dict[str, int]:
    """Write corpus.jsonl (surviving documents, canonical text), queries.jsonl and qrels/{test,dev,...}.tsv; what was written, counted.

    Only questions with a label on a document their caller may read are written. Raises ExportError as `export_trec` does.
    """
    questions, grades = _labels(catalogue)
    asked = [q for q in questions if q["question_id"] in grades]
    documents = _table(catalogue, "unique_documents", ("doc_id", "title", "text"))
    there = set(documents["doc_id"].to_pylist())
    lost = 0
    with _Unfinished(target) as place:
        (place / "qrels").mkdir()
        _write(
            place / "corpus.jsonl", (_json({"_id": d["doc_id"], "title": d["title"] or "", "text": d["text"]}) for d in rows_of(documents))
        )
        _write(place / "queries.jsonl", (_json({"_id": q["question_id"], "text": q["text"]}) for q in asked))
        for split in sorted({q["split"] for q in asked}):
            lines = ["query-id\tcorpus-id\tscore\n"]
            for question in (q["question_id"] for q in asked if q["split"] == split):
                for doc_id, grade in sorted(grades[question].items()):
                    lost += doc_id not in there
                    if doc_id in there:
                        lines.append(f"{question}\t{doc_id}\t{grade}\n")
            _write(place / "qrels" / f"{BEIR_SPLITS.get(split, split)}.tsv", lines)
    return {"documents": documents.num_rows, "queries": len(asked), "labels_on_documents_not_there": lost}


def _labels(catalogue: Catalogue) -> tuple[list[dict[str, Any]], dict[str, Mapping[str, int]]]:
    """Questions in the order of their ids, and grades by document of those that have a label."""
    questions = sorted(_rows(catalogue, "golden_questions"), key=lambda q: q["question_id"])
    labels = read_labels(questions, _rows(catalogue, "golden_evidence"))
    return questions, {q: own.documents for q, own in labels.items() if own.unlabelled is None}


def _table(catalogue: Catalogue, asset: str, columns: tuple[str, ...] | None = None) -> pa.Table:
    node = AssetPartition(asset)
    if catalogue.footer(node) is None:
        raise ExportError(f"{asset} has no file; run 'rag-eval sync' first")
    return catalogue.read(node, columns)[0]


def _rows(catalogue: Catalogue, asset: str) -> list[dict[str, Any]]:
    return list(_table(catalogue, asset).to_pylist())


def _json(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


class _Unfinished:
    """A folder that appears under its name when all of it is written, and not at all where that fails."""

    def __init__(self, target: Path) -> None:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ExportError(f"{target}: is there already and not empty; name a new folder")
        self.target = target
        self.place = target.with_name(f".{target.name}.{os.getpid()}.unfinished")

    def __enter__(self) -> Path:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        return self.place

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            if self.target.exists():
                self.target.rmdir()
            self.place.replace(self.target)
        else:
            shutil.rmtree(self.place, ignore_errors=True)
