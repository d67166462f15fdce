"""Tables on S3, the instance on Postgres, batches on two Dask workers: the small graph ends as it does on one machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import sync
from tests.dask_cluster import dask_cluster
from tests.integration.conftest import CHANGES
from tests.integration.server import ROOT
from tests.integration.test_kills import agree, versions
from tests.object_store import BUCKET, ObjectStore
from tests.postgres import postgres
from tests.small import DOCUMENTS, small_folder


@pytest.mark.timeout(2400)
def test_s3_postgres_and_dask_end_at_the_data_versions_of_one_machine(
    store: ObjectStore, synced: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = versions(synced)
    with postgres(), dask_cluster(tmp_path / "logs") as cluster:
        (tmp_path / "home").mkdir()
        shutil.copy(ROOT / "docs" / "dagster.postgres.yaml", tmp_path / "home" / "dagster.yaml")
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
        changes = {**CHANGES, "storage": f"s3://{BUCKET}/tables", "workers": cluster.address}
        folder = small_folder(tmp_path / "many", changes)
        report = sync(folder)
        assert (report.failed, report.waiting) == ({}, [])
        assert {str(node): footer for node, footer in versions(folder).items()} == alone
        assert agree(folder) == []
        assert sync(folder).runs == []
        # One edited document costs one file's work there too.
        (folder.corpus / "warranty.md").write_text(DOCUMENTS["warranty.md"] + "\nThe switch is covered for one year.\n")
        again = {str(node): outcome.computed for node, outcome in sync(folder, select=["parsed_documents"]).materialized.items()}
        assert again["parsed_documents[unstructured]"] == 1
        assert "rag_eval_assets" in cluster.said()  # the client's name: the workers' scheduler was asked at all
