"""What is exported scores the same under trec_eval, reads back, and imports again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytrec_eval

from rag_eval_assets.exporting import ExportError, export_beir, export_trec
from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.importing import import_beir
from rag_eval_assets.run_files import read_runs
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue, sync
from tests.integration.conftest import CHANGES
from tests.small import DOCUMENTS, write_settings


def _read(path: Path, item: int, value: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        parts = line.split()
        found.setdefault(parts[0], {})[parts[item]] = float(parts[value])
    return found


def test_trec_eval_gives_the_scores_of_the_tables_on_what_is_exported(synced: Folder, tmp_path: Path) -> None:
    catalogue = open_catalogue(synced)
    told = export_trec(synced, catalogue, tmp_path / "out")
    assert told == {"runs": 6, "qrels": 2}
    run = _read(tmp_path / "out" / "whole.bm25.release.trec", 2, 4)
    qrels = {q: {d: int(g) for d, g in own.items()} for q, own in _read(tmp_path / "out" / "qrels.release.txt", 2, 3).items()}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_5"}).evaluate(run)
    ours = {
        row["question_id"]: row["value"]
        for row in catalogue.read(AssetPartition("retrieval_scores", "whole"))[0].to_pylist()
        if (row["retriever"], row["metric"], row["k"], row["unit"], row["split"]) == ("bm25", "nDCG", 5, "document", "release")
        and row["value"] is not None
    }
    assert {q: own["ndcg_cut_5"] for q, own in theirs.items()} == pytest.approx({q: ours[q] for q in theirs})
    assert len(theirs) == len(ours) == 3
    with pytest.raises(ExportError, match="not empty"):
        export_trec(synced, catalogue, tmp_path / "out")


def test_an_exported_run_reads_back_as_a_retriever_with_the_same_scores(synced: Folder, tmp_path: Path) -> None:
    export_trec(synced, open_catalogue(synced), synced.path / "runs", "chunk")
    file = "runs/window-16-o0.bm25.release.trec"
    assert read_runs(synced.path, {"again": file}, set(DOCUMENTS))
    again = {"kind": "run_file", "path": file, "chunkings": ["window-16-o0"]}
    write_settings(synced.path, {**CHANGES, "retrievers": {**CHANGES["retrievers"], "again": again}})
    folder = Folder(synced.path)
    assert sync(folder, select=["retriever_comparison"]).failed == {}
    rows = open_catalogue(folder).read(AssetPartition("retriever_comparison", "window-16-o0"))[0].to_pylist()
    mean = {(r["retriever"], r["split"], r["measure"], r["unit"]): r["mean"] for r in rows if r["against"] == ""}
    assert mean["again", "release", "nDCG@5", "document"] == mean["bm25", "release", "nDCG@5", "document"] > 0
    missing = {(r["retriever"], r["split"]): r["missing"] for r in rows if (r["measure"], r["unit"]) == ("nDCG@5", "document")}
    assert missing["again", "development"] == 5


def test_an_exported_beir_folder_imports_again_with_the_same_labels(synced: Folder, tmp_path: Path) -> None:
    told = export_beir(open_catalogue(synced), tmp_path / "beir")
    assert told == {"documents": 6, "queries": 8, "labels_on_documents_not_there": 0}
    assert (tmp_path / "beir" / "qrels" / "test.tsv").read_text().splitlines()[1] == "q6\tshipping.md\t1"
    counts = import_beir(tmp_path / "beir", tmp_path / "back")
    assert (counts["documents"], counts["release"], counts["development"]) == (6, 3, 5)
    lines = [json.loads(line) for line in (tmp_path / "back" / "golden" / "release.jsonl").read_text().splitlines()]
    assert lines[0]["relevant"] == [{"document": "shipping.md.txt", "grade": 1}]


def test_nothing_synced_is_one_clear_error(tmp_path: Path) -> None:
    write_settings(tmp_path)
    folder = Folder(tmp_path)
    with pytest.raises(ExportError, match="golden_questions has no file; run 'rag-eval sync' first"):
        export_beir(open_catalogue(folder), tmp_path / "beir")
    assert not (tmp_path / "beir").exists()
