"""Uses of Dagster's private modules beside its storage classes (`dagster_sqlite`), pinned to the version in pyproject.

What belongs here: reading the latest materialization of many partitions, freeing what a dead run held, runs in this process without
what nobody looks at. What does not: anything that Dagster's public interface offers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    INPUT_DATA_VERSION_TAG_PREFIX,
)
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.execute_in_process import core_execute_in_process, merge_run_tags
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.dagster_run import IN_PROGRESS_RUN_STATUSES
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.storage.dagster_sqlite import WarmEventLogStorage
from rag_eval_assets.storage.parquet import Footer

RUN_TAG = "rag_eval/run"
"""Tag of a materialization event: the run whose file it tells of, also when another process reported it."""


def instance_without_capture(home: str) -> dg.DagsterInstance:
    """The instance of a DAGSTER_HOME, for runs in this process, whose output is the terminal's.

    To capture it, Dagster would start four processes for each run and wait until they end.
    """
    nothing = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(home, overrides={"compute_logs": nothing}))


Run = Callable[[frozenset[dg.AssetKey], str | None, Mapping[str, str]], dg.ExecuteInProcessResult]


def runs_in_process(job: dg.JobDefinition, instance: dg.DagsterInstance, run_config: Mapping[str, Any]) -> Run:
    """`job.execute_in_process` of some of its assets, for a partition, with tags; a failure is told by the result, outputs are not kept.

    The part of the job that holds just these assets is made once, with the snapshots that Dagster stores of it. Dagster's own way makes
    it twice for every run.
    """
    whole = job.as_ephemeral_job(resource_defs={}, input_values={})

    @cache
    def part(assets: frozenset[dg.AssetKey]) -> dg.JobDefinition:
        made = whole.get_subset(asset_selection=assets)
        made.get_subset = lambda **_: made  # type: ignore[method-assign]  # what create_run asks of it: these assets again
        return made

    def run(assets: frozenset[dg.AssetKey], partition: str | None, tags: Mapping[str, str]) -> dg.ExecuteInProcessResult:
        return core_execute_in_process(
            job=InMemoryJob(job_def=part(assets)),
            run_config=run_config,
            instance=instance,
            output_capturing_enabled=False,
            raise_on_error=False,
            run_tags=merge_run_tags(
                job_def=job,
                partition_key=partition,
                tags=tags,
                asset_selection=sorted(assets, key=dg.AssetKey.to_user_string),
                instance=instance,
                run_config=run_config,
            ),
            asset_selection=assets,
        )

    return run


def keeps_events_in(instance: dg.DagsterInstance, folder: Path) -> bool:
    """Whether the instance keeps its runs and events in the SQLite files below `folder`, and nowhere else."""
    storage = instance.event_log_storage
    if not isinstance(storage, WarmEventLogStorage):
        return False
    return Path(storage.path_for_shard(INDEX_SHARD_NAME)).resolve() == (folder / "history" / "runs" / f"{INDEX_SHARD_NAME}.db").resolve()


def latest_event_ids(instance: dg.DagsterInstance, graph: Graph) -> dict[AssetPartition, int]:
    """Storage id of the latest materialization of every asset partition of the graph that has one."""
    found: dict[AssetPartition, int] = {}
    flat = [dg.AssetKey(name) for name in graph.assets if graph.assets[name].contract.family is None]
    for record in instance.get_asset_records(flat):
        latest = record.asset_entry.last_materialization_record
        if latest is not None:
            found[AssetPartition(record.asset_entry.asset_key.to_user_string())] = latest.storage_id
    for name, asset in graph.assets.items():
        if asset.contract.family is not None:
            ids = instance.event_log_storage.get_latest_storage_id_by_partition(
                dg.AssetKey(name), dg.DagsterEventType.ASSET_MATERIALIZATION
            )
            found.update({AssetPartition(name, key): storage_id for key, storage_id in ids.items()})
    return found


def event_facts(instance: dg.DagsterInstance, node: AssetPartition, storage_id: int) -> tuple[str, str]:
    """(run id, data version) that the materialization event with `storage_id` tells of."""
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey(node.asset), storage_ids=[storage_id]), limit=1
    ).records
    if not records or records[0].asset_materialization is None:
        return "", ""
    tags = records[0].asset_materialization.tags or {}
    return tags.get(RUN_TAG, ""), tags.get(DATA_VERSION_TAG, "")


def version_tags(footer: Footer) -> Mapping[str, str]:
    """Tags under which Dagster reads a footer's versions."""
    inputs = {f"{INPUT_DATA_VERSION_TAG_PREFIX}/{name}": version for name, version in footer.inputs.items() if "[" not in name}
    return {
        DATA_VERSION_TAG: footer.data_version,
        DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
        CODE_VERSION_TAG: footer.code_version,
        RUN_TAG: footer.run_id,
        **inputs,
    }


def unfinished_runs(instance: dg.DagsterInstance, tag: str) -> list[dg.DagsterRun]:
    """Runs that Dagster holds for unfinished and that carry `tag`; one whose process died before its start is among them."""
    runs = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED, *IN_PROGRESS_RUN_STATUSES]))
    return [run for run in runs if tag in run.tags]


def mark_failed(instance: dg.DagsterInstance, run: dg.DagsterRun, message: str) -> None:
    """Mark a dead run failed and free the pool slots it held."""
    instance.report_run_failed(run, message)
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
