"""The reconcile sensor: what it asks the daemon for, and when it asks again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.plan.objects import StepFailureData

from rag_eval_assets.automation import ATTEMPTS, reconcile_sensor
from rag_eval_assets.definitions import build_definitions
from rag_eval_assets.graph import Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue
from tests.small import DOCUMENTS, small_folder

FAILURE, STARTED, SUCCESS = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return small_folder(tmp_path / "small")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def tick(folder: Folder, instance: dg.DagsterInstance) -> dict[str, dg.RunRequest]:
    """Requests of one evaluation by their run key."""
    asked = list(reconcile_sensor(Graph(Folder(folder.path)))(dg.build_sensor_context(instance=instance)))
    return {str(found.run_key): found for found in asked if isinstance(found, dg.RunRequest)}


def the_one(requests: dict[str, dg.RunRequest], asset: str) -> tuple[str, dg.RunRequest]:
    return next((key, found) for key, found in requests.items() if dg.AssetKey(asset) in (found.asset_selection or []))


def ended(instance: dg.DagsterInstance, request: dg.RunRequest, status: dg.DagsterRunStatus, *, typed: bool = False) -> None:
    """A run of this request that came to `status`; a typed one through the failure of a step."""
    run = dg.DagsterRun(job_name="__ASSET_JOB", tags=dict(request.tags), status=status)
    instance.add_run(run)
    if typed:
        event = dg.DagsterEvent("STEP_FAILURE", run.job_name, step_key="source_documents", event_specific_data=StepFailureData(None, None))
        instance.report_dagster_event(event, run.run_id)


def test_an_empty_folder_asks_for_its_roots_one_run_a_partition_and_the_same_again_until_they_have_run(
    folder: Folder, instance: dg.DagsterInstance
) -> None:
    first = tick(folder, instance)
    key, request = the_one(first, "source_documents")
    assert {"golden_questions", "reference_transcripts"} <= {asset.to_user_string() for asset in request.asset_selection or []}
    assert request.partition_key is None
    assert {found.partition_key for found in first.values()} == {None, "first", "second"}
    assert tick(folder, instance).keys() == first.keys()  # Dagster drops a request whose key it knows
    graph = Graph(folder)
    job = build_definitions(graph, open_catalogue(folder)).resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, asset_selection=request.asset_selection, tags=dict(request.tags)).success
    second = tick(folder, instance)
    assert key not in second
    assert the_one(second, "parsed_documents")[1].partition_key == "unstructured"


def test_a_run_under_way_and_a_typed_failure_are_not_asked_for_again_but_changed_files_are(
    folder: Folder, instance: dg.DagsterInstance
) -> None:
    key, request = the_one(tick(folder, instance), "source_documents")
    ended(instance, request, STARTED)
    assert key not in tick(folder, instance)
    other = dg.DagsterInstance.ephemeral()
    ended(other, request, FAILURE, typed=True)
    assert not [k for k, r in tick(folder, other).items() if dg.AssetKey("source_documents") in (r.asset_selection or [])]
    (folder.corpus / "warranty.md").write_text(DOCUMENTS["warranty.md"] + "\nThe switch is covered for one year.\n")
    again, _ = the_one(tick(folder, other), "source_documents")
    assert again != key
    other.dispose()


def test_a_run_that_died_is_asked_for_again_under_a_new_key_at_most_three_times_in_all(
    folder: Folder, instance: dg.DagsterInstance
) -> None:
    keys = []
    for _ in range(ATTEMPTS):
        key, request = the_one(tick(folder, instance), "source_documents")
        keys.append(key)
        ended(instance, request, FAILURE)
    assert [key.rsplit(":", 1)[1] for key in keys] == ["0", "1", "2"]
    assert len({key.rsplit(":", 1)[0] for key in keys}) == 1
    assert not [r for r in tick(folder, instance).values() if dg.AssetKey("source_documents") in (r.asset_selection or [])]


def test_a_file_that_was_deleted_after_its_run_is_asked_for_again(folder: Folder, instance: dg.DagsterInstance) -> None:
    key, request = the_one(tick(folder, instance), "source_documents")
    ended(instance, request, SUCCESS)
    again, _ = the_one(tick(folder, instance), "source_documents")
    assert again.rsplit(":", 1)[1] == "1"
    assert again != key
