"""Dagster's instance on a real Postgres server: a backfill of chunkings with four runs at once. The small graph: test_many_machines."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.dagster_damage import UnreachableDatabaseError
from rag_eval_assets.storage.sync import Listener, open_instance, sync
from rag_eval_assets.storage.verify import verify_tables
from tests.integration.conftest import CHANGES
from tests.integration.server import ROOT, Server, wait_for
from tests.integration.test_kills import agree, held, versions
from tests.postgres import PASSWORD, Postgres, postgres
from tests.small import small_folder, write_settings

CHUNKED = ("chunks", "chunk_embeddings", "retrieval_runs", "retrieval_scores")
FOUR = {**CHANGES, "chunkings": [{"strategy": "window", "size": [16, 24, 32], "overlap": [0]}, {"strategy": "whole"}]}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Postgres]:
    """A server, and the DAGSTER_HOME that the documentation tells to make."""
    with postgres() as running:
        (tmp_path / "home").mkdir()
        shutil.copy(ROOT / "docs" / "dagster.postgres.yaml", tmp_path / "home" / "dagster.yaml")
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("DAGSTER_GRPC_TIMEOUT_SECONDS", "600")  # four runs that start at once share the cores with other tests
        yield running


def test_both_instances_differ_in_storage_and_concurrency_alone() -> None:
    mine, default = (yaml.safe_load((ROOT / name).read_text()) for name in ("docs/dagster.postgres.yaml", "dagster.yaml"))
    assert mine.pop("storage") != default.pop("storage")
    assert mine["concurrency"].pop("runs") == {"max_concurrent_runs": 4}
    assert default["concurrency"].pop("runs") == {"max_concurrent_runs": 2}
    assert mine == default


def _most_at_once(stats: list[Any]) -> int:
    """Runs between their launch and their end, at the fullest moment."""
    moments = sorted([(run.launch_time, 1) for run in stats] + [(run.end_time, -1) for run in stats])
    return max(accumulate(change for _, change in moments))


def bring_above(folder: Folder, keys: Sequence[str]) -> None:
    """Sync what the backfilled assets read and what has no partitions."""
    graph = Graph(folder)
    above = {u.asset for name in CHUNKED for key in keys for u in graph.upstream(AssetPartition(name, key)) if u.partition is None}
    assert sync(folder, select=sorted(above)).failed == {}


@pytest.mark.timeout(2400)
def test_a_backfill_with_four_runs_at_once_ends_at_the_data_versions_of_sqlite_and_leaves_a_sync_nothing_to_do(
    server: Postgres, synced: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_folder(tmp_path / "on-postgres", FOUR)
    keys = Graph(folder).families["chunking"]
    bring_above(folder, keys)

    ui = Server(folder, tmp_path / "ui.log")
    try:
        wait_for("loaded code location with healthy daemons", ui.ready)
        mine = {"dagster/backfill": ui.backfill(CHUNKED, keys)}
        runs = wait_for("run of each partition", lambda: r if len(r := ui.runs(**mine)) == len(keys) else None)
        for run in runs:
            ui.succeeded(run["runId"])
    finally:
        assert ui.stop() == []
    instance = open_instance(folder)
    try:
        assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        assert _most_at_once([instance.get_run_stats(run["runId"]) for run in runs]) == 4
        for pool in instance.event_log_storage.get_concurrency_keys():
            assert instance.event_log_storage.get_concurrency_info(pool).active_slot_count == 0
    finally:
        instance.dispose()

    assert sync(folder, select=CHUNKED).runs == []
    assert agree(folder) == []
    on_postgres = versions(folder)
    monkeypatch.delenv("DAGSTER_HOME")
    write_settings(synced.path, FOUR)
    on_sqlite = Folder(synced.path)
    wanted = sync(on_sqlite, select=CHUNKED)
    assert wanted.failed == {}
    assert wanted.materialized
    made = {str(node) for node in Graph(on_sqlite).nodes() if node.asset in CHUNKED}
    assert {node: version for node, version in versions(on_sqlite).items() if node in made} == {node: on_postgres[node] for node in made}
    # The password stands in no file of the folder.
    assert [path for path in folder.path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()] == []


def test_a_sync_that_cannot_reach_its_postgres_ends_with_an_error_and_a_killed_server_that_is_back_costs_nothing(
    server: Postgres, tmp_path: Path
) -> None:
    folder = small_folder(tmp_path / "small")
    assert sync(folder, select=["source_documents"]).failed == {}
    server.stop()
    with pytest.raises(UnreachableDatabaseError, match=r"Postgres does not answer \(.*refused.*\)\. Start it"):
        sync(folder)
    server.start()
    assert sync(folder, select=["golden_questions"]).failed == {}
    assert agree(folder) == []


class Killer(Listener):
    """Ends the server while a file is parsed, in the middle of a run."""

    def __init__(self, server: Postgres) -> None:
        self.server: Postgres | None = server

    def progress(self, node: AssetPartition, done: int, total: int) -> None:
        if node.asset == "parsed_documents" and self.server is not None:
            self.server.kill()
            self.server = None


def test_a_server_that_is_killed_in_the_middle_of_a_run_is_one_error_and_back_the_next_sync_ends_where_an_undisturbed_one_does(
    server: Postgres, synced: Folder, tmp_path: Path
) -> None:
    folder = small_folder(tmp_path / "on-postgres", CHANGES)
    with pytest.raises(UnreachableDatabaseError, match=r"Postgres does not answer \(.+\)\. Start it"):
        sync(folder, select=["unique_documents"], listener=Killer(server))
    assert {p.kind for p in verify_tables(folder)} == {"missing"}
    server.start()
    assert sync(folder, select=["unique_documents"]).failed == {}
    assert (agree(folder), held(folder)) == ([], ([], []))
    assert versions(folder).items() <= versions(synced).items()
    assert "unique_documents" in versions(folder)
