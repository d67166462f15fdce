"""Dagster's databases through engines that stay: what one storage writes, Dagster's own reads, and the other way round."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.dagster_sqlite import RUN_ENGINES, WarmEventLogStorage, WarmRunStorage, WarmScheduleStorage, WarmSqliteStorage
from rag_eval_assets.storage.sync import open_instance

Opened = Callable[[type[DagsterSqliteStorage]], dg.DagsterInstance]


@dg.asset
def parsed() -> dg.MaterializeResult:
    return dg.MaterializeResult(data_version=dg.DataVersion("v1"), metadata={"rows": 3})


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Instances over the same databases, with the storage of the class asked for."""
    instances: list[dg.DagsterInstance] = []

    def instance(storage: type[DagsterSqliteStorage]) -> dg.DagsterInstance:
        named = {"module": storage.__module__, "class": storage.__name__, "config": {"base_dir": str(tmp_path)}}
        instances.append(dg.DagsterInstance.from_config(_home(tmp_path, named)))
        return instances[-1]

    yield instance
    for each in instances:
        each.dispose()


def _home(path: Path, storage: dict[str, object]) -> str:
    import yaml

    home = path / f"home-{storage['class']}"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text(yaml.safe_dump({"storage": {"custom": storage}, "telemetry": {"enabled": False}}))
    return str(home)


def _told(instance: dg.DagsterInstance, run_id: str) -> list[tuple[str, str | None, str]]:
    return [
        (record.event_log_entry.dagster_event_type.value, record.event_log_entry.step_key, record.event_log_entry.message)
        for record in instance.get_records_for_run(run_id, limit=1_000).records
        if record.event_log_entry.dagster_event_type
    ]


@pytest.mark.parametrize("writer", [WarmSqliteStorage, DagsterSqliteStorage])
def test_what_one_storage_writes_the_other_reads(opened: Opened, writer: type[DagsterSqliteStorage]) -> None:
    reader = ({WarmSqliteStorage, DagsterSqliteStorage} - {writer}).pop()
    written, read = opened(writer), opened(reader)
    runs = [dg.materialize([parsed], instance=written).run_id for _ in range(2)]
    for run_id in runs:
        assert _told(read, run_id) == _told(written, run_id)
        assert "STEP_SUCCESS" in [kind for kind, _, _ in _told(read, run_id)]
    assert {run.run_id: run.status for run in read.get_runs()} == dict.fromkeys(runs, dg.DagsterRunStatus.SUCCESS)
    latest = read.get_latest_materialization_event(dg.AssetKey("parsed"))
    assert latest is not None
    assert latest.run_id == runs[-1]
    later = dg.materialize([parsed], instance=read).run_id
    assert written.get_latest_materialization_event(dg.AssetKey("parsed")).run_id == later  # type: ignore[union-attr]


def test_a_copied_run_database_has_the_schema_and_revision_of_one_that_dagster_migrated(opened: Opened, tmp_path: Path) -> None:
    def described(run_id: str) -> tuple[list[tuple[str, str]], list[tuple[str]], str, int]:
        connection = sqlite3.connect(tmp_path / "history" / "runs" / f"{run_id}.db")
        schema = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        revision = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        return (
            schema,
            revision,
            connection.execute("PRAGMA journal_mode").fetchone()[0],
            connection.execute("SELECT min(id) FROM event_logs").fetchone()[0],
        )

    warm = opened(WarmSqliteStorage)
    first, copied = (dg.materialize([parsed], instance=warm).run_id for _ in range(2))
    migrated = dg.materialize([parsed], instance=opened(DagsterSqliteStorage)).run_id
    assert described(first) == described(copied) == described(migrated)


def test_a_watcher_of_a_run_hears_of_events_while_its_writer_keeps_the_database_open(opened: Opened) -> None:
    watching, writing = opened(DagsterSqliteStorage), opened(WarmSqliteStorage)
    heard, succeeded = [], threading.Event()

    def hear(event: dg.EventLogEntry, _: str) -> None:
        heard.append(event.dagster_event_type)
        if event.dagster_event_type == dg.DagsterEventType.RUN_SUCCESS:
            succeeded.set()

    job = dg.Definitions(assets=[parsed]).resolve_implicit_global_asset_job_def()
    run = writing.create_run_for_job(job)
    watching.watch_event_logs(run.run_id, None, hear)
    writing.report_engine_event("still open", run)
    writing.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, job.name), run.run_id)
    assert succeeded.wait(20), heard


def test_a_run_database_that_another_process_makes_meanwhile_is_kept(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = dg.materialize([parsed], instance=opened(DagsterSqliteStorage)).run_id
    warm = opened(WarmSqliteStorage)
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.stem != theirs and exists(path))
    assert "PIPELINE_SUCCESS" in [kind for kind, _, _ in _told(warm, theirs)]
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_file_system_without_links_has_run_databases_all_the_same(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    warm = opened(WarmSqliteStorage)
    assert all("PIPELINE_SUCCESS" in [kind for kind, _, _ in _told(warm, dg.materialize([parsed], instance=warm).run_id)] for _ in range(2))


def test_a_state_folder_that_was_replaced_is_read_anew(opened: Opened, tmp_path: Path) -> None:
    watching = opened(WarmSqliteStorage)
    old = dg.materialize([parsed], instance=watching).run_id
    (tmp_path / "history").rename(tmp_path / "away")
    new = dg.materialize([parsed], instance=opened(DagsterSqliteStorage)).run_id
    assert [run.run_id for run in watching.get_runs()] == [new]
    latest = watching.get_latest_materialization_event(dg.AssetKey("parsed"))
    assert latest is not None
    assert latest.run_id == new != old


def test_engines_of_old_runs_are_let_go(opened: Opened) -> None:
    warm = opened(WarmSqliteStorage)
    runs = [dg.materialize([parsed], instance=warm).run_id for _ in range(RUN_ENGINES + 3)]
    assert set(warm.event_log_storage._engines) == {"index", *runs[-RUN_ENGINES:]}  # type: ignore[attr-defined]
    assert all(_told(warm, run_id) for run_id in runs)


def _write_and_die(home: str, run_ids: multiprocessing.SimpleQueue[str]) -> None:
    run_ids.put(dg.materialize([parsed], instance=dg.DagsterInstance.from_config(home)).run_id)
    os._exit(9)


def test_a_killed_process_loses_no_event(opened: Opened, tmp_path: Path) -> None:
    opened(WarmSqliteStorage)
    context = multiprocessing.get_context("spawn")
    run_ids = context.SimpleQueue()
    process = context.Process(target=_write_and_die, args=(str(tmp_path / "home-WarmSqliteStorage"), run_ids))
    process.start()
    run_id = run_ids.get()
    process.join()
    assert process.exitcode == 9
    kinds = [kind for kind, _, _ in _told(opened(DagsterSqliteStorage), run_id)]
    assert kinds[-1] == "PIPELINE_SUCCESS"
    assert "ASSET_MATERIALIZATION" in kinds


def test_the_project_s_instance_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "RAG_EVAL_DATA", "RAG_EVAL_DAGSTER", "DAGSTER_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "")
    instance = open_instance(Folder(tmp_path))
    try:
        used = (instance.run_storage, instance.event_log_storage, instance.schedule_storage)
        assert [type(storage) for storage in used] == [WarmRunStorage, WarmEventLogStorage, WarmScheduleStorage]
    finally:
        instance.dispose()
