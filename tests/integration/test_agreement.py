"""What a sync remembers of Dagster's databases is no reason to overlook what was done to them since."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage import agreement
from rag_eval_assets.storage.sync import open_instance, sync


def test_a_table_that_was_wiped_in_dagster_is_told_to_it_again(synced: Folder) -> None:
    assert sync(synced).repaired == []
    instance = open_instance(synced)
    try:
        instance.wipe_assets([dg.AssetKey("documents")])
    finally:
        instance.dispose()
    report = sync(synced)
    assert report.runs == []
    assert [line.partition(":")[0] for line in report.repaired] == ["documents"]
    assert sync(synced).repaired == []


def test_databases_that_cannot_be_looked_at_are_never_taken_for_unchanged(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text("{}")
    folder = Folder(tmp_path)
    folder.state.mkdir()
    agreement.remember(folder, str(tmp_path), {AssetPartition("documents"): None})
    assert not agreement.stands(folder, str(tmp_path), {})
