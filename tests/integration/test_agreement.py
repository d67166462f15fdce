"""What a sync remembers of Dagster's databases is no reason to overlook what was done to them since."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage import agreement
from rag_eval_assets.storage.sync import Listener, RunReport, open_instance, sync
from tests.integration.server import ROOT
from tests.integration.test_kills import agree
from tests.small import QUESTIONS, write_questions


def wipe(folder: Folder, asset: str) -> None:
    instance = open_instance(folder)
    try:
        instance.wipe_assets([dg.AssetKey(asset)])
    finally:
        instance.dispose()


def test_a_table_that_was_wiped_in_dagster_is_told_to_it_again(synced: Folder) -> None:
    assert sync(synced).repaired == []
    wipe(synced, "documents")
    report = sync(synced)
    assert report.runs == []
    assert [line.partition(":")[0] for line in report.repaired] == ["documents"]
    assert sync(synced).repaired == []


class Wiping(Listener):
    """Wipes an asset in Dagster, as a person at the UI may, when the first run of a sync has ended."""

    def __init__(self, folder: Folder) -> None:
        self.folder: Folder | None = folder

    def run_ended(self, report: RunReport, seconds: float) -> None:
        if self.folder is not None:
            wipe(self.folder, "source_documents")
            self.folder = None


def test_a_table_that_is_wiped_in_dagster_during_a_sync_is_told_to_it_at_its_end(synced: Folder) -> None:
    questions = [{**question, "intent": "other"} for question in QUESTIONS]
    write_questions(synced.path, questions)
    report = sync(synced, select=["golden_questions"], listener=Wiping(synced))
    assert [line.partition(":")[0] for line in report.repaired] == ["source_documents"]
    assert agree(synced) == []


def test_databases_in_another_place_are_looked_at_by_every_sync(synced: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    text = (ROOT / "dagster.yaml").read_text().replace("RAG_EVAL_DAGSTER", "ANOTHER_PLACE")
    (tmp_path / "home" / "dagster.yaml").write_text(text)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANOTHER_PLACE", str(tmp_path / "there"))
    assert sync(synced).repaired != []
    assert sync(synced).repaired == []
    monkeypatch.setenv("ANOTHER_PLACE", str(tmp_path / "moved"))
    assert sync(synced).repaired != []


def test_databases_that_cannot_be_looked_at_are_never_taken_for_unchanged(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text("{}")
    folder = Folder(tmp_path)
    folder.state.mkdir()
    agreement.remember(folder, str(tmp_path), {AssetPartition("documents"): None})
    assert not agreement.stands(folder, str(tmp_path), {})
