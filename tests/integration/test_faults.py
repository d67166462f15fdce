"""Faults that production brings: full and read-only disks, clocks set back, files damaged by hand. Kills stand in test_kills.

Whatever happened, afterwards no file is torn, nothing false is fresh, and the next sync ends where an undisturbed one would.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_eval_assets.baselines import save_baseline
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.resources.responses import Reply, ResponseStore, beginning, keeping
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.staleness import evaluate
from rag_eval_assets.storage.state import write_cache, write_json
from rag_eval_assets.storage.sync import open_catalogue, open_instance, rescan_roots, storage_lock, sync
from rag_eval_assets.storage.verify import verify_tables
from rag_eval_assets.unwritable import GOES_ON, UnwritableError
from tests.disks import small_disk
from tests.integration.test_kills import agree, held, versions, write

PART = ("unique_documents",)
"""What these tests bring to fresh: a fault in the first tables of a wave shows what one in the last would."""
REPLY = Reply("yes", "stop", "m", 10, 2, 0.1, None, 0.5, 1, "2026-01-02")


@pytest.fixture(scope="module")
def undisturbed(synced_once: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Data versions after a document was changed and a sync went through."""
    folder = Folder(shutil.copytree(synced_once, tmp_path_factory.mktemp("undisturbed") / "small"))
    write(folder, "moved")
    assert sync(folder, select=PART).failed == {}
    return versions(folder)


def ends_as(folder: Folder, undisturbed: dict[str, str]) -> None:
    """A sync ends at the versions of the undisturbed one, Dagster agrees, its slots are free, and nothing is left to do."""
    report = sync(folder, select=PART)
    assert (report.failed, report.waiting) == ({}, [])
    assert versions(folder) == undisturbed
    assert agree(folder) == []
    assert {p.kind for p in verify_tables(folder)} <= {"unexplained"}  # what is below was not asked for
    assert held(folder) == ([], [])
    assert sync(folder, select=PART).runs == []


def test_a_disk_of_tables_that_is_full_is_one_error_and_freed_the_next_sync_ends_where_an_undisturbed_one_would(
    synced: Folder, undisturbed: dict[str, str]
) -> None:
    tables = Path(synced.tables)
    before = tables.rename(tables.with_name("before"))
    with small_disk(tables, before) as disk:
        write(synced, "moved")
        disk.leave(8)
        with pytest.raises(UnwritableError, match=rf"{tables}/[a-z_/0-9-]+\.parquet: the disk is full\. Free space there .*{GOES_ON}"):
            sync(synced, select=PART)
        assert list(tables.rglob("*.tmp")) == []
        assert {p.kind for p in verify_tables(synced)} <= {"unexplained", "foreign"}  # the filling is foreign
        disk.free()
        ends_as(synced, undisturbed)


def test_a_disk_that_holds_all_and_is_full_is_told_by_the_command_and_freed_the_next_sync_goes_on(
    synced_once: Path, tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    with small_disk(tmp_path / "disk", synced_once) as disk:
        folder = Folder(disk.path)
        write(folder, "moved")
        disk.leave(150)
        command = [sys.executable, "-m", "rag_eval_assets", "--data", str(folder.path), "sync"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        told = done.stderr.splitlines()[-1]
        assert told.startswith(f"error {folder.state}")
        assert told.endswith(f": the disk is full. Free space there and sync again: {GOES_ON}.")
        disk.free()
        ends_as(folder, undisturbed)


def test_a_disk_that_is_read_only_is_one_error_and_what_only_reads_goes_on(
    synced_once: Path, tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    with small_disk(tmp_path / "disk", synced_once) as disk:
        folder = Folder(disk.path)
        write(folder, "moved")
        before = versions(folder)
        disk.writable(False)
        with pytest.raises(UnwritableError, match=rf"{folder.state}/sync\.lock: it is read-only\. Make it writable and sync again"):
            sync(folder, select=PART)
        assert versions(folder) == before
        assert verify_tables(folder) == []
        disk.writable(True)
        ends_as(folder, undisturbed)


def test_tables_that_are_read_only_stop_the_sync_before_anything_runs(synced: Folder, undisturbed: dict[str, str]) -> None:
    tables = Path(synced.tables)
    before = tables.rename(tables.with_name("before"))
    with small_disk(tables, before) as disk:
        write(synced, "moved")
        disk.writable(False)
        with pytest.raises(UnwritableError, match=rf"{tables}/owner\.json: it is read-only"):
            sync(synced, select=PART)
        disk.writable(True)
        ends_as(synced, undisturbed)


@pytest.mark.parametrize(("error", "why"), [
    (OSError(errno.EROFS, "read-only"), "it is read-only. Make it writable"),
    (PermissionError(errno.EACCES, "denied"), "this user may not write there. Give the right to"),
    (OSError(errno.ENOSPC, "full"), "the disk is full. Free space there"),
])  # fmt: skip
def test_what_commands_write_beside_the_tables_names_its_own_place_and_leaves_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, why: str
) -> None:
    def refused(*args: Any, **more: Any) -> Any:
        raise error

    folder = Folder(tmp_path)
    monkeypatch.setattr("os.replace", refused)
    monkeypatch.setattr("pathlib.Path.replace", refused)
    with pytest.raises(UnwritableError) as told:
        save_baseline(folder.baselines, "june", [])
    assert str(told.value) == f"{folder.baselines / 'june.parquet'}: {why} and try again."
    with pytest.raises(UnwritableError) as told:
        write_json(folder.stores / "diagnoses" / "a.json", {}, again="try again")
    assert str(told.value) == f"{folder.stores / 'diagnoses' / 'a.json'}: {why} and try again."
    write_cache(folder.state / "scan.json", {})  # a cache that cannot be written is no error
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    with pytest.raises(UnwritableError) as told, storage_lock(folder):
        pass
    assert str(told.value) == f"{folder.state / 'sync.lock'}: {why} and sync again: {GOES_ON}."


def test_a_response_store_on_a_full_disk_sends_nothing_and_loses_no_reply_that_it_had_kept(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = ResponseStore(disk.path / "responses.sqlite")
        store.write(keeping(store.write(beginning("kept", "http://endpoint", "m")), "kept", REPLY))
        in_flight = store.write(beginning("in flight", "http://endpoint", "m"))
        disk.leave(0)
        with pytest.raises(UnwritableError, match=rf"{store.path}: the disk is full"):  # before anything is sent and paid
            store.write(beginning("a key " * 10_000, "http://endpoint", "m"))
        with pytest.raises(UnwritableError, match=rf"{store.path}: the disk is full"):
            store.write(keeping(in_flight, "in flight", replace(REPLY, text="long " * 10_000)))
        store.close()
        again = ResponseStore(store.path)
        assert again.get_many(["kept", "in flight"]) == {"kept": REPLY}
        disk.free()
        again.write(keeping(in_flight, "in flight", REPLY))
        assert set(again.get_many(["kept", "in flight"])) == {"kept", "in flight"}
        assert len(again) == 2


def test_a_store_on_a_read_only_disk_names_its_place(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        disk.writable(False)
        with pytest.raises(UnwritableError, match=rf"{disk.path}/stores: it is read-only"):
            ResponseStore(disk.path / "stores" / "responses.sqlite").write(beginning("k", "http://endpoint", "m"))


def not_fresh(folder: Folder) -> set[str]:
    """What a sync would run first, as the files stand now."""
    graph, catalogue = Graph(folder), open_catalogue(folder)
    roots = {node: finished.data_version for node, finished in rescan_roots(graph, catalogue).items()}
    return {str(node) for node, status in evaluate(graph, catalogue, roots).items() if status.state != "fresh"}


def halve(one: Path, other: Path) -> set[Path]:
    one.write_bytes(one.read_bytes()[: one.stat().st_size // 2])
    return {one}


def empty(one: Path, other: Path) -> set[Path]:
    one.write_bytes(b"")
    return {one}


def swap(one: Path, other: Path) -> set[Path]:
    """Each keeps its own size and time of change."""
    one.rename(one.with_name("third"))
    other.rename(one)
    one.with_name("third").rename(other)
    return {one, other}


def copy_over(one: Path, other: Path) -> set[Path]:
    shutil.copy2(other, one)
    return {one}


def delete(one: Path, other: Path) -> set[Path]:
    one.unlink()
    return {one}


@pytest.mark.parametrize("harm", [halve, swap, delete, *(pytest.param(harm, marks=pytest.mark.torture) for harm in (empty, copy_over))])
def test_a_table_that_was_cut_emptied_swapped_copied_over_or_deleted_by_hand_is_not_fresh_and_is_made_again(
    synced: Folder, harm: Callable[[Path, Path], set[Path]]
) -> None:
    before = versions(synced)
    one, other = (Path(str(open_catalogue(synced).path(AssetPartition("chunks", key)))) for key in ("window-16-o0", "whole"))
    harmed = {f"chunks[{path.stem}]" for path in harm(one, other)}
    assert not_fresh(synced) == harmed
    assert {p.kind for p in verify_tables(synced)} == {"missing" if harm is delete else "torn"}
    report = sync(synced)
    assert {str(node) for node in report.materialized} == harmed  # it came out as it was, which stops the wave
    assert versions(synced) == before
    assert agree(synced) == []
    assert verify_tables(synced) == []
    assert sync(synced).runs == []


def test_a_byte_that_changed_under_the_same_size_and_time_is_found_by_verify_and_then_made_again(synced: Folder) -> None:
    path = Path(str(open_catalogue(synced).path(AssetPartition("chunks", "whole"))))
    before, state = versions(synced), path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert not_fresh(synced) == set()  # a disk that rots tells nobody: reading everything is what verify is for
    assert [p.kind for p in verify_tables(synced)] == ["torn"]
    assert not_fresh(synced) == {"chunks[whole]"}
    assert {str(node) for node in sync(synced).materialized} == {"chunks[whole]"}
    assert versions(synced) == before
    assert verify_tables(synced) == []


def test_older_versions_put_back_by_hand_are_stale_one_file_or_all_of_them(
    synced: Folder, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    tables, old = Path(synced.tables), tmp_path / "old"
    shutil.copytree(tables, old)
    write(synced, "moved")
    assert sync(synced, select=PART).failed == {}
    for name in ("documents.parquet", "source_documents.parquet"):
        shutil.copy2(old / name, tables / name)  # with the time of change that it had
        assert name.removesuffix(".parquet") in not_fresh(synced)
    ends_as(synced, undisturbed)
    shutil.rmtree(tables)
    shutil.copytree(old, tables)
    assert "source_documents" in not_fresh(synced)
    ends_as(synced, undisturbed)


def test_a_clock_that_was_ahead_and_was_set_back_makes_nothing_stale_and_nothing_false_fresh(
    synced_once: Path, tmp_path: Path, undisturbed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and events of ten years ahead; then the clock is right again."""
    import dagster._time

    folder = Folder(shutil.copytree(synced_once, tmp_path / "small"))
    ahead = timedelta(days=3650)
    calm = versions(folder)
    with monkeypatch.context() as patch:
        now, right = dagster._time._mockable_get_current_datetime, time.time
        patch.setattr(dagster._time, "_mockable_get_current_datetime", lambda: now() + ahead)
        patch.setattr(time, "time", lambda: right() + ahead.total_seconds())
        write(folder, "moved")
        assert sync(folder, select=PART).failed == {}
        instance = open_instance(folder)
        latest = instance.get_latest_materialization_event(dg.AssetKey("unique_documents"))
        instance.dispose()
    assert latest is not None
    assert latest.timestamp > time.time() + ahead.total_seconds() - 3600
    for path in (*folder.corpus.iterdir(), *Path(folder.tables).rglob("*.parquet")):
        os.utime(path, (time.time() + ahead.total_seconds(),) * 2)
    ends_as(folder, undisturbed)
    write(folder, "calm")  # its time is before that of the version it replaces
    assert "source_documents" in not_fresh(folder)
    ends_as(folder, calm)
