"""Rankings made elsewhere in a whole sync: what is unknown is told wherever a person looks, what is missing counts as trec_eval -c has it."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import pytrec_eval

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.report.stories import losses
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue, open_instance, sync
from tests.integration.conftest import CHANGES
from tests.small import QUESTIONS, write_settings

CHUNKING = "window-16-o0"


def with_run(folder: Folder, lines: list[str], chunking: str = CHUNKING) -> Folder:
    (folder.path / "theirs.trec").write_text("\n".join(lines) + "\n")
    theirs = {"kind": "run_file", "path": "theirs.trec", "chunkings": [chunking]}
    write_settings(folder.path, {**CHANGES, "retrievers": {**CHANGES["retrievers"], "theirs": theirs}})
    return Folder(folder.path)


def test_what_a_run_file_names_in_vain_is_told_in_rows_at_sync_in_metadata_and_in_the_report(synced: Folder) -> None:
    chunks = open_catalogue(synced).read(AssetPartition("chunks", CHUNKING))[0].to_pylist()
    returns = [row["chunk_id"] for row in chunks if row["doc_id"] == "returns.md"]
    assert len(returns) > 1
    ranked = [f"q1 Q0 {chunk} {rank} {-rank} theirs" for rank, chunk in enumerate(returns, 1)]
    folder = with_run(synced, [*ranked, "q2 Q0 returns.md 1 9.5 theirs", f"Q3 Q0 {returns[0]} 1 9.5 theirs"])
    assert sync(folder).failed == {}
    line = len(returns) + 1
    said = [
        "theirs.trec:1: retriever 'theirs': 7 of 9 questions have no ranking, are missing and count 0 (development 3 of 5, release 4 of 4): ",
        f"theirs.trec:{line}: retriever 'theirs': 1 of {line + 1} hits stand for no chunk of {CHUNKING}: 'returns.md'; ",
        f"theirs.trec:{line + 1}: retriever 'theirs': 1 of 3 questions are not in the golden set and count nowhere: 'Q3'; ",
    ]  # fmt: skip
    at_sync = list(losses(folder))
    assert [line for line in at_sync if line.startswith("theirs.trec:")] == sorted(line for line in at_sync if "theirs.trec:" in line)
    html = open_catalogue(folder).read(AssetPartition("release_report"))[0]["html"][0].as_py()
    with open_instance(folder) as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey("run_file_findings"))
    assert event is not None
    assert event.asset_materialization is not None
    noted = [str(value.value) for value in event.asset_materialization.metadata.values()]
    for sentence in said:
        assert [told for told in at_sync if told.startswith(sentence)]
        assert sentence.replace("'", "&#39;") in html
        assert [told for told in noted if told.startswith(sentence)]

    rows = open_catalogue(folder).read(AssetPartition("retrieval_runs", CHUNKING))[0].to_pylist()
    became = {r["question_id"]: (r["status"], r["reason"]) for r in rows if r["retriever"] == "theirs" and r["rank"] < 2}
    assert became["q1"] == ("ok", None)
    assert became["q2"] == ("failed", "unknown_unit")
    assert {became[q["id"]] for q in QUESTIONS if q["id"] not in ("q1", "q2")} == {("missing", "missing_run")}

    # trec_eval -c: the mean over every judged question, 0 for those the run lacks or whose ranking is unusable.
    judged = {q["id"]: {item["document"]: 1 for item in q["evidence"]} for q in QUESTIONS if q["split"] == "development"}
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut_5"}).evaluate({"q1": {"returns.md": 1.0}})
    expected = sum(found["ndcg_cut_5"] for found in theirs.values()) / len(judged)
    (own,) = [
        row
        for row in open_catalogue(folder).read(AssetPartition("retriever_comparison", CHUNKING))[0].to_pylist()
        if (row["retriever"], row["against"], row["split"], row["measure"], row["unit"]) == ("theirs", "", "development", "nDCG@5", "document")
    ]  # fmt: skip
    assert own["mean"] == pytest.approx(expected, abs=1e-9) == 0.2
    assert (own["questions"], own["failed"], own["missing"], own["observed"]) == (5, 1, 3, 1.0)


def test_a_run_over_whole_documents_stops_at_a_cut_chunking_with_its_mend(synced: Folder) -> None:
    folder = with_run(synced, ["q1 Q0 returns.md 1 9.5 theirs"])
    failed = sync(folder, select=["retrieval_scores"], partition=CHUNKING).failed
    assert list(failed) == [AssetPartition("retrieval_runs", CHUNKING)]
    told = failed[AssetPartition("retrieval_runs", CHUNKING)]
    assert "theirs.trec:1: retriever 'theirs': 1 of 1 hits stand for no chunk of window-16-o0: 'returns.md'; " in told
    assert "let 'chunkings' be whole" in told
    assert Path(folder.tables, "retrieval_runs", f"{CHUNKING}.parquet").exists()  # the table of before stays


def test_unknown_and_merged_documents_are_told_of_and_the_rest_of_the_file_is_scored(synced: Folder) -> None:
    (synced.path / "corpus" / "returns2.md").write_bytes((synced.path / "corpus" / "returns.md").read_bytes())
    lines = [
        "q1 Q0 returns2.md 1 2.5 theirs",
        "q2 Q0 gone.md 1 2.5 theirs",
        "q2 Q0 returns.md 2 1.5 theirs",
        "q3 Q0 warranty.md 1 2.5 theirs",
    ]
    folder = with_run(synced, lines, "whole")
    assert sync(folder).failed == {}
    told = [line for line in losses(folder) if line.startswith("theirs.trec:")]
    assert told[0].startswith("theirs.trec:1: retriever 'theirs': 1 of 4 hits are on documents that dedup merged into others: "
                              "'returns2.md' into 'returns.md'; each counts for the kept one, ")  # fmt: skip
    assert told[2].startswith("theirs.trec:2: retriever 'theirs': 1 of 4 hits stand for no chunk of whole: 'gone.md'; ")
    assert "add it to corpus/" in told[2]
    rows = open_catalogue(folder).read(AssetPartition("retrieval_runs", "whole"))[0].to_pylist()
    became = {r["question_id"]: (r["status"], r["reason"], r["doc_id"]) for r in rows if r["retriever"] == "theirs"}
    assert became["q1"] == ("ok", None, "returns.md")
    assert became["q2"] == ("failed", "unknown_unit", None)
    assert became["q3"] == ("ok", None, "warranty.md")


def test_a_run_over_documents_of_another_corpus_stops_its_own_chunking_alone(synced: Folder) -> None:
    folder = with_run(synced, ["q1 Q0 gone.md 1 9.5 theirs"])
    failed = sync(folder, select=["retrieval_runs"]).failed
    assert list(failed) == [AssetPartition("retrieval_runs", CHUNKING)]
    told = failed[AssetPartition("retrieval_runs", CHUNKING)]
    assert "theirs.trec:1: retriever 'theirs': 1 of 1 hits stand for no chunk of window-16-o0: 'gone.md'; " in told
    assert "add it to corpus/" in told
