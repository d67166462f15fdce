"""Kill -9 at random moments and at chosen places of a sync: no torn file, and the next sync ends where an undisturbed one would."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

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

PART = ("retrieval_scores",)
"""What a sync is asked for where its first tables show what all would: sixteen files instead of sixty."""


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


PLACES = ("at any moment", "before a rename", "after a rename", "before an event", "after an event")
"""Where a sync is killed: by the clock over its whole run, or by itself around what must not come apart."""


def work(path: Path, select: Sequence[str], place: str, count: int, told: Connection) -> None:
    """A sync in a session of its own, which ends itself where `place` comes for the `count`-th time; tells how often each came."""
    from rag_eval_assets.storage.dagster_sqlite import WarmEventLogStorage

    os.setsid()
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    seen = dict.fromkeys(PLACES, 0)

    def pass_by(here: str) -> None:
        seen[here] += 1
        if here == place and seen[here] == count:
            os.killpg(0, signal.SIGKILL)

    def watched(what: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            pass_by(f"before {what}")
            found = original(*args, **more)
            pass_by(f"after {what}")
            return found

        return call

    os.replace = watched("a rename", os.replace)
    WarmEventLogStorage.store_event = watched("an event", WarmEventLogStorage.store_event)  # type: ignore[method-assign]
    told.send(None)
    report = sync(Folder(path), select=select)
    told.send((len(report.failed), seen))


def begin(folder: Folder, select: Sequence[str], place: str = "", count: int = 0) -> tuple[Any, Connection]:
    """The process of such a sync, forked from one that has imported everything, and its end of the line."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.integration.test_kills", "rag_eval_assets.definitions", "rag_eval_assets.storage.dagster_sqlite"]
    )
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(folder.path, select, place, count, theirs))
    process.start()
    theirs.close()
    mine.recv()
    return process, mine


def kill_often(synced_once: Path, tmp_path: Path, kills: int, select: Sequence[str] = ()) -> None:
    undisturbed: dict[str, dict[str, str]] = {}
    often: dict[str, int] = {}
    whole = 0.0
    for name in TEXTS:
        folder = Folder(shutil.copytree(synced_once, tmp_path / name / "small"))
        write(folder, name)
        process, line = begin(folder, select)
        started = time.monotonic()
        failed, seen = line.recv()
        process.join()
        assert failed == 0
        undisturbed[name] = versions(folder)
        whole = max(whole, time.monotonic() - started)
        often = seen  # of the last one, which has something to do
    assert undisturbed["calm"] != undisturbed["moved"]

    folder = Folder(shutil.copytree(synced_once, tmp_path / "killed" / "small"))
    draw = random.Random(20261130)
    hits: Counter[str] = Counter()
    for number in range(kills):
        name, place = ("moved", "calm")[number % 2], PLACES[number % len(PLACES)]
        write(folder, name)
        process, line = begin(folder, select, place, draw.randint(1, max(1, often[place])))
        if place == "at any moment":
            process.join(draw.uniform(0, whole))
            if process.is_alive():
                os.killpg(process.pid, signal.SIGKILL)
        process.join()
        hits[place] += process.exitcode == -signal.SIGKILL
        line.close()
        assert [p for p in verify_tables(folder) if p.kind == "torn"] == []
        report = sync(folder, select=select)
        assert report.failed == {}
        assert versions(folder) == undisturbed[name], f"kill {number}"
        assert agree(folder) == [], f"kill {number}"
        assert held(folder) == ([], []), f"kill {number}"
        assert sync(folder, select=select).runs == []
    print(f"{hits.total()} of {kills} kills hit a sync at work: {', '.join(f'{hits[place]} {place}' for place in PLACES)}")
    assert all(hits[place] for place in PLACES[1:kills])


def held(folder: Folder) -> tuple[list[str], list[str]]:
    """Pools with a slot that is taken, and runs that Dagster holds for unfinished."""
    instance = open_instance(folder)
    try:
        storage = instance.event_log_storage
        pools = [key for key in storage.get_concurrency_keys() if storage.get_concurrency_info(key).active_slot_count]
        return sorted(pools), [run.run_id for run in instance.get_runs() if not run.is_finished]
    finally:
        instance.dispose()


def test_a_killed_sync_leaves_whole_files_and_the_next_one_ends_where_an_undisturbed_one_would(synced_once: Path, tmp_path: Path) -> None:
    kill_often(synced_once, tmp_path, 5, PART)


@pytest.mark.torture
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("share", "select"), [(1, PART), (10, ())], ids=["first tables", "all tables"])
def test_many_kills(synced_once: Path, tmp_path: Path, share: int, select: Sequence[str]) -> None:
    """A tenth of them in syncs of everything, which take many times as long."""
    kill_often(synced_once, tmp_path, max(1, int(os.environ.get("RAG_EVAL_KILLS", "200")) // share), select)


def test_an_interrupted_sync_says_so_and_the_next_one_goes_on(synced: Folder) -> None:
    write(synced, "moved")
    command = [sys.executable, "-m", "rag_eval_assets", "--data", str(synced.path), "sync", "--select", *PART]
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
    assert sync(synced, select=PART).failed == {}
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
