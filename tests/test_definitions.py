"""The code location as Dagster sees it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import dagster as dg
import pytest
import yaml

from rag_eval_assets.definitions import build_definitions
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue
from rag_eval_assets.tables import REASONS, STAGES, TABLES
from tests.small import small_folder

ROOT = Path(__file__).resolve().parents[1]
HEAVY = (
    "faiss",
    "numba",
    "onnxruntime",
    "unstructured",
    "pymupdf",
    "ragas",
    "ranx",
    "matplotlib",
    "rapidocr",
    "torch",
    "trafilatura",
    "readability",
    "justext",
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return Graph(small_folder(tmp_path_factory.mktemp("definitions") / "small"))


@pytest.fixture(scope="module")
def definitions(graph: Graph) -> dg.Definitions:
    return build_definitions(graph, open_catalogue(graph.folder))


def test_the_definitions_load_in_a_fresh_process_without_a_heavy_import() -> None:
    code = f"""
import json, sys
from rag_eval_assets.definitions import defs
import dagster as dg
dg.Definitions.validate_loadable(defs())
print(json.dumps(sorted(m for m in {HEAVY!r} if m in sys.modules)))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_status_needs_no_dagster() -> None:
    code = "import sys, rag_eval_assets.cli, rag_eval_assets.storage.sync, rag_eval_assets.assets; print('dagster' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_workspace_pyproject_and_dg_name_the_same_module() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    module = workspace["load_from"][0]["python_module"]["module_name"]
    assert module == pyproject["tool"]["dagster"]["module_name"] == pyproject["tool"]["dg"]["project"]["code_location_target_module"]


def test_the_workspace_file_validates(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "small")
    (folder.state / "dagster").mkdir(parents=True)
    import os

    from rag_eval_assets.storage.sync import dagster_home

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "dagster", "definitions", "validate", "-w", str(ROOT / "workspace.yaml")],
        env={**os.environ, **dagster_home(folder)}, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_instance_file_is_one_dagster_accepts_and_sends_no_telemetry(tmp_path: Path) -> None:
    from rag_eval_assets.storage.sync import open_instance

    instance = open_instance(small_folder(tmp_path / "small"))
    try:
        assert instance.telemetry_enabled is False
        assert instance.run_retries_enabled
        assert instance.get_settings("run_retries")["retry_on_asset_or_op_failure"] is False
        assert instance.run_monitoring_enabled
        assert instance.get_settings("run_monitoring")["free_slots_after_run_end_seconds"] > 0
        assert Path(instance.storage_directory()).is_relative_to(tmp_path)
    finally:
        instance.dispose()


def test_keys_groups_dependencies_checks_jobs_and_schedules_are_these(definitions: dg.Definitions, snapshot: object) -> None:
    repository = definitions.get_repository_def()
    nodes = repository.asset_graph.asset_nodes
    told = {
        "assets": {
            node.key.to_user_string(): {
                "group": node.group_name,
                "deps": sorted(k.to_user_string() for k in node.parent_keys),
                "partitions": sorted(node.partitions_def.get_partition_keys()) if node.partitions_def else None,
                "kinds": sorted(node.kinds),
                "owners": list(node.owners),
                "pools": sorted(node.pools or []),
            }
            for node in sorted(nodes, key=lambda n: n.key.to_user_string())
        },
        "checks": sorted(str(k.to_user_string()) for k in repository.asset_graph.asset_check_keys),
        "jobs": sorted(job.name for job in repository.get_all_jobs()),
        "schedules": {s.name: [s.cron_schedule, s.execution_timezone, s.job_name] for s in repository.schedule_defs},
        "sensors": sorted(s.name for s in repository.sensor_defs),
    }
    assert told == snapshot


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_asset_is_described_with_its_columns(definitions: dg.Definitions, name: str) -> None:
    node = definitions.get_repository_def().asset_graph.get(dg.AssetKey(name))
    assert node.description
    assert node.description.split("\n")[0].endswith(".")
    schema = node.metadata["dagster/column_schema"]
    assert [c.name for c in schema.columns] == TABLES[name].columns
    assert all(c.description for c in schema.columns)
    assert node.code_version


def test_a_sync_has_gates_but_leaves_the_file_checks_to_the_ui(graph: Graph) -> None:
    built = build_definitions(graph, open_catalogue(graph.folder), lambda node, done, total: None)
    checks = built.get_repository_def().asset_graph.asset_check_keys
    assert {key.to_user_string() for key in checks} == {"gate_results:mrr"}


def test_columns_come_only_from_tables_that_hold_the_same_thing(definitions: dg.Definitions) -> None:
    metadata = definitions.get_repository_def().asset_graph.get(dg.AssetKey("chunks")).metadata
    sources = {
        column: [d.asset_key.to_user_string() for d in deps] for column, deps in metadata["dagster/column_lineage"].deps_by_column.items()
    }
    assert sources == {"doc_id": ["unique_documents"], "text": ["unique_documents"]}
    described = {column.name: column.description for column in metadata["dagster/column_schema"].columns}
    assert described["text"].endswith("From unique_documents.")
    assert described["text_sha256"] == TABLES["chunks"].description("text_sha256")


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_says_what_a_row_is_and_has_its_key_among_its_columns(name: str) -> None:
    table = TABLES[name]
    assert table.row
    assert set(table.key) <= set(table.columns)
    assert all(table.description(c).endswith(".") for c in table.columns)
    assert all(table.role(k) == "content" for k in table.key)


def test_the_funnel_names_tables_that_exist() -> None:
    assert set(STAGES.values()) <= set(TABLES)
    assert all(reason.replace("_", "").isalpha() for reason in REASONS)


def test_dagster_maps_partitions_as_the_graph_does(graph: Graph, definitions: dg.Definitions) -> None:
    asset_graph = definitions.get_repository_def().asset_graph
    from dagster._core.definitions.partitions.context import partition_loading_context

    with partition_loading_context():
        for name, asset in graph.assets.items():
            node = asset_graph.get(dg.AssetKey(name))
            for table in asset.inputs:
                parent = asset_graph.get(dg.AssetKey(table))
                if parent.partitions_def is None:
                    continue
                mapping = asset_graph.get_partition_mapping(node.key, parent.key)
                for partition in graph.partitions(name):
                    subset = node.partitions_def.subset_with_partition_keys([partition]) if partition else None
                    found = mapping.get_upstream_mapped_partitions_result_for_partitions(subset, node.partitions_def, parent.partitions_def)
                    expected = {p for p in graph.input_partitions(name, partition, table) if p}
                    assert set(found.partitions_subset.get_partition_keys()) == expected, (name, table, partition)


def test_data_flows_left_to_right(graph: Graph) -> None:
    order = ["corpus", "golden", "chunks", "index", "retrieval", "generation", "release"]
    for name, asset in graph.assets.items():
        for table in asset.inputs:
            if table == "golden_questions" and name in {"parse_quality", "near_duplicates", "dedup_quality"}:
                continue  # quotations to locate, and filter fields that must not be merged across
            assert order.index(TABLES[table].group) <= order.index(TABLES[name].group), (name, table)


def test_a_contract_breach_is_not_retried_and_nothing_lands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_eval_assets import graph as graphs

    folder = small_folder(tmp_path / "small")
    graph = Graph(folder)
    broken = graphs.TableAsset(**{**graph.assets["judge_audit"].__dict__, "body": lambda step, **tables: graphs.Product([{"judge": "x"}])})
    graph.code_version(AssetPartition("judge_audit"))
    graph.assets["judge_audit"] = broken
    built = build_definitions(graph, open_catalogue(folder))
    with dg.instance_for_test() as instance:
        result = built.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(name) for name in ("quality_labels", "golden_questions", "judge_audit")],
            raise_on_error=False,
        )
    assert not result.success
    failure = next(e for e in result.all_events if e.is_step_failure)
    assert failure.event_specific_data.user_failure_data is not None
    assert "lacks" in str(failure.event_specific_data.error)
    assert not Path(folder.tables, "judge_audit.parquet").exists()
    assert Path(folder.tables, "quality_labels.parquet").exists()


def test_the_sample_is_the_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_EVAL_DATA", raising=False)
    assert Folder.from_environment().path == ROOT / "data"
