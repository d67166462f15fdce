"""The daemon killed in the midst of a backfill, and started again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rag_eval_assets.graph import Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import sync
from rag_eval_assets.storage.verify import verify_tables
from tests.integration.server import Run, Server, wait_for
from tests.integration.test_kills import agree, held, versions
from tests.integration.test_postgres import CHUNKED, FOUR, bring_above
from tests.small import small_folder, write_settings


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_a_daemon_killed_in_a_backfill_goes_on_with_it_when_it_is_back_and_all_ends_as_undisturbed(synced: Folder, tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "backfilled", FOUR)
    keys = Graph(folder).families["chunking"]
    bring_above(folder, keys)
    first = Server(folder, tmp_path / "first.log")
    try:
        wait_for("loaded code location with healthy daemons", first.ready)
        mine = {"dagster/backfill": first.backfill(CHUNKED, keys)}
        wait_for("run at work", lambda: [run for run in first.runs(**mine) if run["status"] == "STARTED"])
        [daemon] = first.processes("dagster._daemon")
        os.kill(daemon.pid, signal.SIGKILL)
    finally:
        first.stop()

    second = Server(folder, tmp_path / "second.log")
    try:
        wait_for("loaded code location with healthy daemons", second.ready)

        def done() -> list[Run] | None:
            runs = second.runs(**mine)
            ended = {run["tags"]["dagster/partition"] for run in runs if run["status"] == "SUCCESS"}
            return runs if ended == set(keys) and not [r for r in runs if r["status"] not in ("SUCCESS", "FAILURE", "CANCELED")] else None

        runs = wait_for("end of the backfill", done, patience=1500)
        wait_for("free slots", lambda: held(folder)[0] == [])
    finally:
        assert second.stop() == []
    print(f"{len(keys)} partitions, {len(runs)} runs: {sorted(run['status'] for run in runs)}")
    assert held(folder) == ([], [])
    report = sync(folder)
    assert (report.failed, report.waiting) == ({}, [])
    assert agree(folder) == []
    assert verify_tables(folder) == []
    write_settings(synced.path, FOUR)
    undisturbed = Folder(synced.path)
    assert sync(undisturbed).failed == {}
    assert versions(folder) == versions(undisturbed)
