"""The invalidation matrix: touch one thing, and exactly these asset partitions run, with this many units of work."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_eval_assets.definitions import build_definitions
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.snapshots import save_snapshot
from rag_eval_assets.storage.sync import SyncReport, open_catalogue, sync
from rag_eval_assets.storage.versions import SourceTree
from rag_eval_assets.tables import TABLES
from tests.integration.conftest import CHANGES
from tests.small import DOCUMENTS, QUESTIONS, SETTINGS, question, write_questions, write_settings

SYSTEM = {
    "system_retrievals",
    "label_holes",
    "contexts",
    "answers",
    "judged_scores",
    "system_scores",
    "evidence_funnel",
    "diagnosis",
    "replayed_answers",
    "replay_experiments",
    "system_summary",
    "system_costs",
    "corrected_rates",
    "comparison",
}
CHUNKING = {"chunks", "chunk_embeddings", "chunk_quality", "ann_recall", "retrieval_runs", "retrieval_scores", "retriever_comparison",
            "unfiltered_runs", "filter_decision"}  # fmt: skip


def of(partition: str, *names: str) -> set[str]:
    return {f"{name}[{partition}]" for name in names}


def ran(report: SyncReport) -> set[str]:
    assert report.failed == {}
    assert report.waiting == []
    return {str(node) for node in report.materialized}


def computed(report: SyncReport, name: str) -> int:
    return {str(node): outcome.computed for node, outcome in report.materialized.items()}[name]


def unchanged(report: SyncReport) -> set[str]:
    return {str(node) for node, outcome in report.materialized.items() if not outcome.changed}


def more(*values: object) -> list[Any]:
    """Further cases of what others show, for `make torture`."""
    return [pytest.param(value, marks=pytest.mark.torture) for value in values]


def settings(folder: Folder, **changes: object) -> Folder:
    write_settings(folder.path, {**CHANGES, **changes})
    return Folder(folder.path)


def again(folder: Folder, source: SourceTree | None = None, select: Sequence[str] = ()) -> SyncReport:
    """Sync, and make sure that a second one has nothing to do. `select` is the lowest a test looks at, where that is not everything."""
    report = sync(folder, source=source, select=select)
    assert sync(folder, source=source, select=select).runs == []
    return report


def test_nothing_runs_where_nothing_changed(synced: Folder) -> None:
    report = sync(synced)
    assert (report.runs, report.repaired, report.failed) == ([], [], {})


def test_dagster_is_imported_only_where_its_databases_or_the_tables_are_not_as_the_last_sync_left_them(synced: Folder) -> None:
    code = (
        "import sys; from rag_eval_assets.settings import Folder; from rag_eval_assets.storage.sync import sync;"
        "report = sync(Folder(sys.argv[1])); print(len(report.runs), len(report.repaired), 'dagster' in sys.modules)"
    )

    def told() -> str:
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(synced.path)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert told() == "0 0 False"
    history = synced.state / "dagster" / "history"
    for database in (history / "runs.db", history / "runs" / "index.db"):
        os.utime(database)
        assert told() == "0 0 True"
        assert told() == "0 0 False"
    Path(synced.tables, "chunks", "whole.parquet").unlink()
    assert told().endswith(" 0 True")
    assert told() == "0 0 False"


def test_dagster_gives_whoever_asks_the_table_of_an_asset_partition(synced: Folder) -> None:
    catalogue = open_catalogue(synced)
    definitions = build_definitions(Graph(synced), catalogue)
    with dg.DagsterInstance.ephemeral() as instance:
        chunks = definitions.load_asset_value("chunks", partition_key="whole", instance=instance)
        questions = definitions.load_asset_value("golden_questions", instance=instance)
    assert chunks.equals(catalogue.read(AssetPartition("chunks", "whole"))[0])
    assert questions.equals(catalogue.read(AssetPartition("golden_questions"))[0])


def test_a_touched_file_with_the_same_content_runs_nothing(synced: Folder) -> None:
    path = synced.corpus / "returns.md"
    path.write_text(path.read_text())
    assert ran(again(synced)) == set()


def test_where_work_is_done_makes_nothing_stale(synced: Folder) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed; the lock has it")
    assert ran(again(settings(synced, workers="tcp://127.0.0.1:9"))) == set()  # nobody is asked where nothing is to be done


def test_an_edited_document_is_parsed_cut_and_embedded_alone(synced: Folder) -> None:
    (synced.corpus / "warranty.md").write_text(DOCUMENTS["warranty.md"] + "\nThe switch is covered for one year.\n")
    report = again(synced)
    for name in ("parsed_documents[unstructured]", "documents"):
        assert computed(report, name) == 1
    assert computed(report, "chunk_embeddings[whole]") == 1
    kept = sum(1 for node in report.materialized if str(node) == "chunks[window-16-o0]")
    assert kept == 1
    assert computed(report, "chunks[whole]") == 1
    assert {"source_documents", "parsed_documents[unstructured]", "documents", "unique_documents"} <= ran(report)
    assert ran(report).isdisjoint({"golden_questions", "quality_labels", "baselines", "reference_transcripts", "judge_audit",
                                   "system_specs[first]", "system_specs[second]"})  # fmt: skip
    assert {"chunks[whole]", "chunks[window-16-o0]", "retrieval_runs[whole]", "retrieval_runs[window-16-o0]"} <= ran(report)


def test_an_added_document_costs_its_own_work_alone(synced: Folder) -> None:
    (synced.corpus / "cleaning.md").write_text("# Cleaning\n\nWipe the outside with a damp cloth. Never use a scouring pad.\n")
    report = again(synced, select=["chunk_embeddings"])
    assert computed(report, "parsed_documents[unstructured]") == 1
    assert computed(report, "documents") == 1
    assert computed(report, "chunk_embeddings[whole]") == 1


def test_a_deleted_document_costs_no_parsing_and_no_embedding(synced: Folder) -> None:
    write_questions(synced.path, [q for q in QUESTIONS if q["id"] != "q7"])
    (synced.corpus / "safety.txt").unlink()
    report = again(synced, select=["chunk_embeddings"])
    assert computed(report, "parsed_documents[unstructured]") == 0
    assert computed(report, "documents") == 0
    assert computed(report, "chunks[whole]") == 0
    assert computed(report, "chunk_embeddings[whole]") == 0


def test_a_deleted_document_that_a_question_names_is_one_clear_error_before_anything_runs(synced: Folder) -> None:
    (synced.corpus / "safety.txt").unlink()
    with pytest.raises(ValueError, match=r"golden/questions.jsonl:7: question 'q7'.*safety.txt"):
        sync(synced)


def test_an_edited_question_is_searched_and_answered_alone(synced: Folder) -> None:
    questions = copy.deepcopy(QUESTIONS)
    questions[0]["question"] = "Within how many days may a customer return an unused kettle?"
    write_questions(synced.path, questions)
    report = again(synced, select=["answers"])
    assert ran(report) >= {"golden_questions", "retrieval_runs[whole]", "retrieval_runs[window-16-o0]", "answers[first]"}
    assert ran(report).isdisjoint({"source_documents", "parsed_documents[unstructured]", "documents", "unique_documents",
                                   "chunks[whole]", "chunk_embeddings[whole]", "system_specs[first]"})  # fmt: skip
    assert computed(report, "retrieval_runs[window-16-o0]") == 1
    assert computed(report, "retrieval_runs[whole]") == 2
    assert computed(report, "answers[first]") == 1


def test_an_edited_quotation_searches_and_answers_nothing_again(synced: Folder) -> None:
    questions = copy.deepcopy(QUESTIONS)
    questions[2]["evidence"][0]["quotation"] = "covered for five years"
    write_questions(synced.path, questions)
    report = again(synced, select=["retrieval_scores", "system_scores"])
    assert {"golden_questions", "golden_evidence", "retrieval_scores[whole]", "system_scores[first]"} <= ran(report)
    for node, outcome in report.materialized.items():
        if node.asset in ("retrieval_runs", "answers"):
            assert (outcome.computed, outcome.changed) == (0, False)
    assert "golden_evidence" not in unchanged(report)
    assert ran(report).isdisjoint({"chunks[whole]", "documents", "chunk_embeddings[whole]"})


def test_an_added_chunking_runs_its_own_partition_and_the_sweep_and_a_removed_one_the_sweep_alone(synced: Folder) -> None:
    folder = settings(synced, chunkings=[*SETTINGS["chunkings"], {"strategy": "page"}])
    report = again(folder)
    assert ran(report) == of("page", *CHUNKING) | {"chunk_sweep", "embedder_ranking", "gate_results", "release_report"}
    assert "gate_results" in unchanged(report)
    report = again(settings(synced))
    assert ran(report) == {"chunk_sweep", "embedder_ranking", "gate_results", "release_report"}


def test_an_added_retriever_computes_its_own_rows_alone(synced: Folder) -> None:
    folder = settings(synced, retrievers={**CHANGES["retrievers"], "other": {"kind": "bm25", "k1": 0.9}})
    report = again(folder, select=["system_scores"])
    assert computed(report, "retrieval_runs[window-16-o0]") == len(QUESTIONS)
    assert computed(report, "retrieval_runs[whole]") == len(QUESTIONS)
    assert "system_retrievals[first]" in unchanged(report)
    assert ran(report).isdisjoint({"chunks[whole]", "answers[first]", "contexts[first]", "system_scores[first]"})


def test_a_changed_prompt_runs_only_that_system(synced: Folder) -> None:
    systems = copy.deepcopy(SETTINGS["systems"])
    systems["first"]["prompt"] = "Quote the passages. Cite them as [n]."
    report = again(settings(synced, systems=systems))
    assert {n for n in ran(report) if n.endswith("[second]")} == set()
    assert computed(report, "answers[first]") == len(QUESTIONS)
    assert {n for n in ran(report) if not n.endswith("[first]")} <= {"gate_results", "release_report"}
    assert ran(report).isdisjoint({"retrieval_runs[whole]", "retrieval_runs[window-16-o0]"})
    assert {"system_retrievals[first]", "contexts[first]"} <= unchanged(report)


def test_a_changed_top_k_calls_no_retriever_and_leaves_equal_contexts_alone(synced: Folder) -> None:
    systems = copy.deepcopy(SETTINGS["systems"])
    systems["second"]["top_k"] = 1
    report = again(settings(synced, systems=systems), select=["answers"])
    assert not [n for n in ran(report) if n.startswith("retrieval_runs")]
    assert computed(report, "answers[second]") <= len(QUESTIONS)
    assert {n for n in ran(report) if n.endswith("[first]")} == set()


def test_experiments_are_off_until_a_system_is_named_and_then_run_alone(synced: Folder) -> None:
    table, _ = open_catalogue(synced).read(AssetPartition("replay_experiments", "first"))
    assert table.num_rows == 0
    folder = settings(synced, experiments={"first": {"top_k": [1, 5], "order": True}})
    report = again(folder)
    assert ran(report) == {"replayed_answers[first]", "replay_experiments[first]", "release_report"}
    table, _ = open_catalogue(folder).read(AssetPartition("replay_experiments", "first"))
    rows = {(r["experiment"], r["point"]): r for r in table.to_pylist()}
    assert {e for e, _ in rows} == {"top_k", "ordering", "gold_place"}
    assert (rows["top_k", "3"]["as_it_is"], rows["top_k", "3"]["reused"]) == (True, 5)
    assert computed(report, "replayed_answers[first]") == sum(r["generated"] for r in rows.values()) > 0


def test_a_saved_baseline_runs_the_comparison_and_what_reads_it(synced: Folder) -> None:
    save_snapshot(synced, "june", "first")
    report = again(synced)
    assert ran(report) == {"baselines", "comparison[first]", "comparison[second]", "gate_results", "release_report"}
    assert unchanged(report) >= {"comparison[second]", "gate_results"}


def test_a_changed_comment_in_a_pure_module_runs_nothing(synced: Folder) -> None:
    path = SourceTree().root / "ingestion" / "chunking" / "window.py"
    source = SourceTree(overrides={"ingestion.chunking.window": path.read_text() + "\n# One more comment.\n"})
    assert ran(again(synced, source)) == set()


def test_changed_code_of_a_chunking_strategy_runs_only_its_partitions(synced: Folder) -> None:
    path = SourceTree().root / "ingestion" / "chunking" / "window.py"
    source = SourceTree(overrides={"ingestion.chunking.window": path.read_text() + "\nNEW = 1\n"})
    report = again(synced, source)
    assert ran(report) == {"chunks[window-16-o0]"}


def test_changed_code_with_equal_output_runs_nothing_below(synced: Folder) -> None:
    path = SourceTree().root / "ingestion" / "cleaning.py"
    source = SourceTree(overrides={"ingestion.cleaning": path.read_text() + "\nNEW = 1\n"})
    report = again(synced, source)
    assert "documents" in ran(report)
    assert ran(report) == unchanged(report)
    assert not [n for n in ran(report) if n.startswith(("chunks", "retrieval", "unique"))]


@pytest.mark.parametrize("name", ["documents", "answers/first", *more("chunks/whole", "release_report")])
def test_a_deleted_file_runs_its_own_partition_alone(synced: Folder, name: str) -> None:
    Path(synced.tables, f"{name}.parquet").unlink()
    report = again(synced)
    asset, _, partition = name.partition("/")
    assert ran(report) == unchanged(report) | (ran(report) - unchanged(report)) == {f"{asset}[{partition}]" if partition else asset}


@pytest.mark.parametrize("place", [0.3, 0.99, *more(0.01, 0.6)])
def test_a_flipped_byte_runs_its_own_partition_alone(synced: Folder, place: float) -> None:
    path = Path(synced.tables, "chunks", "whole.parquet")
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 0x55
    path.write_bytes(bytes(data))
    assert ran(again(synced)) == {"chunks[whole]"}


def test_every_volatile_column_may_change_and_nothing_below_runs(synced: Folder) -> None:
    """Decisions never rest on a timing: perturb every volatile column in place, keep the versions, and nothing is stale."""
    import pyarrow as pa

    from rag_eval_assets.storage.staleness import evaluate
    from rag_eval_assets.storage.sync import Graph, open_catalogue

    graph, catalogue = Graph(synced), open_catalogue(synced)
    touched = 0
    for node in graph.nodes():
        volatile = [n for n in TABLES[node.asset].columns if TABLES[node.asset].role(n) == "volatile" and n != "html"]
        if volatile:
            table, footer = catalogue.read(node)
            for name in volatile:
                index, field = table.column_names.index(name), table.schema.field(name)
                value = 7 if pa.types.is_integer(field.type) else "asked" if pa.types.is_string(field.type) else 123.25
                table = table.set_column(index, field, pa.array([value] * table.num_rows, field.type))
            catalogue.write(node, table, footer)
            touched += 1
    catalogue.save()
    assert touched > 5
    assert {s.state for s in evaluate(graph, catalogue, {}).values()} == {"fresh"}
    report = sync(synced)
    assert ran(report) == set()


def test_the_sweep_notices_one_change_among_120_chunkings(tmp_path: Path) -> None:
    """More than Dagster's own limit of 99 partitions on a fan-in edge."""
    from dataclasses import replace

    from rag_eval_assets.graph import AssetPartition, Graph
    from rag_eval_assets.storage.catalogue import Catalogue
    from rag_eval_assets.storage.parquet import Footer, bare_schema
    from rag_eval_assets.storage.staleness import status_of
    from tests.small import small_folder

    folder = small_folder(
        tmp_path / "e", {"chunkings": [{"strategy": "window", "size": list(range(16, 135)), "overlap": 0}, {"strategy": "whole"}]}
    )
    graph, catalogue = Graph(folder), Catalogue(folder.tables, folder.state / "state.json")
    sweep = AssetPartition("chunk_sweep")
    inputs = graph.upstream(sweep)
    assert len(graph.partitions("chunks")) == 120

    def put(node: AssetPartition, version: str, **more: object) -> None:
        footer = Footer(node.asset, node.partition, "run", "code", version, 0, 0, {}, {})
        catalogue.write(node, bare_schema(TABLES[node.asset]).empty_table(), replace(footer, **more))

    for node in inputs:
        put(node, "v1")
    put(sweep, "v1", code_version=graph.code_version(sweep).hash, inputs={str(n): "v1" for n in inputs})
    assert status_of(graph, catalogue, sweep, {}).state == "fresh"
    put(inputs[77], "v2")
    status = status_of(graph, catalogue, sweep, {})
    assert status.state == "stale"
    assert status.reasons == (f"input: {inputs[77]} changed (v1 -> v2)",)


def test_a_new_question_keeps_the_work_of_the_others(synced: Folder) -> None:
    write_questions(
        synced.path, [*QUESTIONS, question(10, "How long is the lid covered?", "two years", "warranty.md", "covered for two years")]
    )
    report = again(synced, select=["answers"])
    assert computed(report, "answers[first]") == 1
    assert json.loads((synced.state / "scan.json").read_text()).keys() == set(DOCUMENTS)


def test_a_raised_limit_tries_again_what_failed_for_it_and_nothing_else(synced: Folder) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    from rag_eval_assets.storage.parquet import enforce
    from rag_eval_assets.storage.versions import data_version

    catalogue, node = open_catalogue(synced), AssetPartition("parsed_documents", "unstructured")
    table, footer = catalogue.read(node)
    late = table.filter(pc.equal(table["doc_id"], "safety.txt")).slice(0, 1).to_pylist()[0]
    late |= {"status": "failed", "reason": "timeout", "text": "", "category": None}
    rest = table.filter(pc.not_equal(table["doc_id"], "safety.txt")).to_pylist()
    contract = TABLES["parsed_documents"]
    slow = enforce(pa.table({f.name: pa.array([r[f.name] for r in [*rest, late]], f.type) for f in contract.schema}), contract)
    from dataclasses import replace

    catalogue.write(node, slow, replace(footer, data_version=data_version(slow, contract), rows=slow.num_rows))
    catalogue.save()
    assert sync(synced, select=["documents"]).failed == {}
    report = again(settings(synced, limits={"workers": 1, "file_seconds": 200}), select=["documents"])
    assert computed(report, "parsed_documents[unstructured]") == 1


def test_an_edited_import_is_read_again_alone(synced: Folder) -> None:
    parsers = {**SETTINGS["parsers"], "vlm": {"kind": "imported", "classes": ["markdown"]}}
    folder = settings(synced, parsers=parsers)
    for name in ("returns.md", "warranty.md"):
        (folder.corpus / f"{name}.pages.vlm.txt").write_text(f"What a model read in {name}.")
    first = again(folder)
    assert computed(first, "parsed_documents[vlm]") == sum(name.endswith(".md") for name in DOCUMENTS)
    (folder.corpus / "returns.md.pages.vlm.txt").write_text("What a better model read.")
    report = again(folder)
    assert computed(report, "parsed_documents[vlm]") == 1
    assert computed(report, "parsed_documents[unstructured]") == 0
    assert {"source_documents", "parsed_documents[vlm]", "parse_quality[vlm]"} <= ran(report)
    assert not ran(report) & {"near_duplicates", "unique_documents", "chunks[whole]", "parse_quality[unstructured]"}
    assert unchanged(report) >= {"parsed_documents[unstructured]", "documents"}


def test_a_stratum_moves_the_figures_by_stratum_and_no_file_is_read_again(synced: Folder) -> None:
    (synced.corpus / "returns.md.meta.yaml").write_text("stratum: multilingual\n")
    report = again(synced)
    assert computed(report, "parsed_documents[unstructured]") == 0
    assert {"source_documents", "parsed_documents[unstructured]", "parse_quality[unstructured]"} <= ran(report)
    assert not ran(report) & {"near_duplicates", "chunks[whole]", "answers[first]"}
    assert computed(report, "documents") == 0
    measured, _ = open_catalogue(synced).read(AssetPartition("parse_quality", "unstructured"))
    assert {row["stratum"] for row in measured.to_pylist() if row["doc_id"] == "returns.md"} == {"multilingual"}
