"""The whole small graph with its tables on S3, against a real S3 API server."""

from __future__ import annotations

import time
from pathlib import Path

from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import sync
from rag_eval_assets.storage.verify import verify_tables
from rag_eval_assets.storage.views import ask
from tests.integration.conftest import CHANGES
from tests.integration.test_kills import versions
from tests.object_store import BUCKET, ObjectStore, Request
from tests.small import DOCUMENTS, small_folder


def test_the_whole_graph_on_s3_ends_at_the_data_versions_of_the_local_one_and_a_sync_with_nothing_stale_reads_footers_alone(
    store: ObjectStore, synced: Folder, tmp_path: Path
) -> None:
    local, remote = synced, small_folder(tmp_path / "remote", {**CHANGES, "storage": f"s3://{BUCKET}/tables"})
    report = sync(remote)
    assert (report.failed, report.waiting) == ({}, [])
    assert versions(remote) == versions(local)
    assert None not in versions(local).values()
    puts = [r.key for r in store.requests if r.method == "PUT"]
    assert len(puts) == len(set(puts)) == len(versions(local)) + 1  # the marker that says whose tables they are
    assert store.listings == []
    assert {r.method for r in store.requests} == {"GET", "PUT", "HEAD"}

    store.requests.clear()
    assert sync(remote).runs == []
    tables = [r for r in store.requests if r.key.endswith(".parquet")]
    assert {r.method for r in tables} == {"HEAD"}
    (remote.state / "state.json").unlink()
    store.requests.clear()
    most, under_way = 0, 0

    def count(request: Request) -> None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.01)
        under_way -= 1

    store.trouble = count
    assert sync(remote).runs == []
    read = [r for r in store.requests if r.key.endswith(".parquet") and r.method == "GET"]
    assert len(read) == len(versions(local))
    assert all(r.range for r in read)
    assert most >= 4
    assert store.listings == []

    (remote.corpus / "warranty.md").write_text(DOCUMENTS["warranty.md"] + "\nThe switch is covered for one year.\n")
    (local.corpus / "warranty.md").write_text(DOCUMENTS["warranty.md"] + "\nThe switch is covered for one year.\n")
    assert sync(remote, select=["documents"]).failed == sync(local, select=["documents"]).failed == {}
    assert versions(remote) == versions(local)
    rows, absent = ask(remote, "select count(*) from documents")
    assert rows is not None
    assert (rows.fetchall(), absent) == ([(len(DOCUMENTS),)], [])
    assert {problem.kind for problem in verify_tables(remote)} == {"unexplained"}  # what is below documents was not asked for
