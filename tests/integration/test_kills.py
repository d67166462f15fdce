"""Kill -9 at random moments during a sync: no torn file, and the next sync ends where an undisturbed one would."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag_eval_assets.graph import Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage import dagster_private as private
from rag_eval_assets.storage.sync import open_catalogue, open_instance, sync
from rag_eval_assets.storage.verify import verify_tables
from tests.small import DOCUMENTS

TEXTS = {
    "calm": DOCUMENTS["warranty.md"],
    "moved": DOCUMENTS["warranty.md"] + "\nThe switch is covered for one year, the base for three.\n",
}


def versions(folder: Folder) -> dict[str, str]:
    graph, catalogue = Graph(folder), open_catalogue(folder)
    return {str(node): footer.data_version for node in graph.nodes() if (footer := catalogue.footer(node)) is not None}


def write(folder: Folder, name: str) -> None:
    (folder.corpus / "warranty.md").write_text(TEXTS[name])


def agree(folder: Folder) -> list[str]:
    """Asset partitions whose latest event in Dagster is not that of the file."""
    graph, catalogue, instance = Graph(folder), open_catalogue(folder), open_instance(folder)
    try:
        events = private.latest_event_ids(instance, graph)
        return [
            str(node)
            for node in graph.nodes()
            if (footer := catalogue.footer(node)) is not None
            and (node not in events or private.event_facts(instance, node, events[node]) != (footer.run_id, footer.data_version))
        ]
    finally:
        instance.dispose()


def kill_often(synced_once: Path, tmp_path: Path, kills: int) -> None:
    undisturbed = {}
    for name in TEXTS:
        folder = Folder(shutil.copytree(synced_once, tmp_path / name / "small"))
        write(folder, name)
        started = time.monotonic()
        assert sync(folder).failed == {}
        undisturbed[name] = versions(folder)
        warm = time.monotonic() - started
    assert undisturbed["calm"] != undisturbed["moved"]

    folder = Folder(shutil.copytree(synced_once, tmp_path / "killed" / "small"))
    draw = random.Random(20261130)
    hits = 0
    for number in range(kills):
        name = ("moved", "calm")[number % 2]
        write(folder, name)
        process = subprocess.Popen(
            [sys.executable, "-m", "rag_eval_assets", "--data", str(folder.path), "sync"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stderr is not None
        process.stderr.readline()  # the first run has begun
        time.sleep(draw.uniform(0, warm))
        hits += process.poll() is None
        with contextlib.suppress(ProcessLookupError):  # it was done
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert [p for p in verify_tables(folder) if p.kind == "torn"] == []
        report = sync(folder)
        assert report.failed == {}
        assert versions(folder) == undisturbed[name], f"kill {number}"
        assert agree(folder) == [], f"kill {number}"
        assert sync(folder).runs == []
    print(f"{hits} of {kills} kills hit a sync at work")
    assert hits > 0


def test_a_killed_sync_leaves_whole_files_and_the_next_one_ends_where_an_undisturbed_one_would(synced_once: Path, tmp_path: Path) -> None:
    kill_often(synced_once, tmp_path, 5)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_many_kills(synced_once: Path, tmp_path: Path) -> None:
    kill_often(synced_once, tmp_path, int(os.environ.get("RAG_EVAL_KILLS", "50")))


def test_an_interrupted_sync_says_so_and_the_next_one_goes_on(synced: Folder) -> None:
    write(synced, "moved")
    command = [sys.executable, "-m", "rag_eval_assets", "--data", str(synced.path), "sync"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell's background job ignores interrupts
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    assert process.wait() == 130, said
    assert "interrupted: " in said
    assert sync(synced).failed == {}
    assert agree(synced) == []


def test_a_kill_between_rename_and_event_is_told_to_dagster_by_the_next_sync(synced: Folder) -> None:
    """The file is there with its footer, the event is not: nothing runs again, Dagster learns of the file."""
    graph, catalogue = Graph(synced), open_catalogue(synced)
    from dataclasses import replace

    from rag_eval_assets.graph import AssetPartition

    node = AssetPartition("chunks", "whole")
    table, footer = catalogue.read(node)
    catalogue.write(node, table, replace(footer, run_id="00000000-killed"))
    catalogue.save()
    assert agree(synced) == ["chunks[whole]"]
    report = sync(synced)
    assert report.runs == []
    assert len(report.repaired) == 1
    assert "chunks[whole]" in report.repaired[0]
    assert agree(synced) == []
    assert sync(synced).repaired == []
    assert graph.partitions("chunks")


def test_a_run_of_a_dead_process_is_marked_failed_and_its_slots_are_freed(synced: Folder) -> None:
    import dagster as dg

    from rag_eval_assets.storage.sync import PROCESS_TAG, process_identity

    host, pid, started = process_identity().rsplit(":", 2)
    instance = open_instance(synced)
    try:
        run = dg.DagsterRun(
            job_name="__ASSET_JOB", tags={PROCESS_TAG: f"{host}:{pid}:{float(started) - 1000}"}, status=dg.DagsterRunStatus.STARTED
        )
        instance.add_run(run)
        instance.event_log_storage.set_concurrency_slots("parse", 1)
        instance.event_log_storage.claim_concurrency_slot("parse", run.run_id, "parsed_documents")
        assert instance.event_log_storage.get_concurrency_info("parse").active_slot_count == 1
    finally:
        instance.dispose()
    report = sync(synced)
    assert "marked failed" in report.repaired[0]
    instance = open_instance(synced)
    try:
        found = instance.get_run_by_id(run.run_id)
        assert found is not None
        assert found.status == dg.DagsterRunStatus.FAILURE
        assert instance.event_log_storage.get_concurrency_info("parse").active_slot_count == 0
    finally:
        instance.dispose()
