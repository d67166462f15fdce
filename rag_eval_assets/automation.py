"""Jobs, the nightly schedule and the reconcile sensor.

What belongs here: when things run. What does not: what runs (`storage.sync` decides from footers).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from rag_eval_assets.checks import check_name
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.progress import Paced
from rag_eval_assets.settings import Folder, Settings
from rag_eval_assets.storage.versions import digest
from rag_eval_assets.tables import TABLES

TICK_TAG = "rag_eval/tick"
SCHEDULED_TAG = ".dagster/scheduled_execution_time"
"""Where Dagster's scheduler writes the time of a run's tick; the leading dot hides it in the UI."""
ATTEMPTS = 3
JOBS = {
    "corpus_and_golden": "The unpartitioned tables of corpus and golden set, computed again whether stale or not.",
    "parsers": "The tables of the parsers chosen.",
    "chunkings": "Chunks, embeddings, index and retrieval of the chunkings chosen.",
    "systems": "Contexts, answers, scores and findings of the systems chosen.",
}
"""One job for each partition family and one for the unpartitioned groups above them: a run holds one family at most."""


@dg.op(description="Bring every asset partition to fresh, as `rag-eval sync` does, and write the report.")
def sync_everything(context: dg.OpExecutionContext) -> None:
    """Run the sync in this process; its runs carry the tick. Fails when a partition failed, not when a gate did."""
    from rag_eval_assets.report.export import export_report
    from rag_eval_assets.storage.sync import Listener, sync

    class Logged(Listener):
        def __init__(self) -> None:
            self.paced = Paced(context.log.info)

        def progress(self, node: AssetPartition, done: int, total: int) -> None:
            self.paced(node, done, total)

    folder = Folder.from_environment()
    tick = context.run.tags.get(SCHEDULED_TAG) or context.run.tags.get(TICK_TAG) or context.run_id
    # A person's sync must not cost the night.
    report = sync(folder, wait=True, instance=context.instance, tags={TICK_TAG: tick}, listener=Logged())
    context.log.info(f"{len(report.materialized)} asset partitions materialized in {len(report.runs)} runs")
    if report.failed:
        raise dg.Failure("\n".join(f"{node}: {error}" for node, error in sorted(report.failed.items())), allow_retries=False)
    context.log.info(f"report: {export_report(folder)}")


@dg.job(name="nightly", description="The full golden-set run: everything stale, then the report.")
def nightly_job() -> None:
    sync_everything()


def jobs(graph: Graph) -> list[Any]:
    """The nightly job, the jobs of JOBS, and one that reads every file whole."""
    by_family: dict[str, list[str]] = {job: [] for job in JOBS}
    for name in graph.order:
        family = TABLES[name].family
        if family is not None:
            by_family[f"{family}s"].append(name)
        elif TABLES[name].group in ("corpus", "golden"):
            by_family["corpus_and_golden"].append(name)
    named = [dg.define_asset_job(job, dg.AssetSelection.assets(*names), description=JOBS[job]) for job, names in by_family.items()]
    checks = dg.define_asset_job(
        "verify_files",
        dg.AssetSelection.all_asset_checks() - _gates(graph),
        description="Reads every file whole, as `rag-eval verify` does.",
    )
    return [nightly_job, *named, checks]


def _gates(graph: Graph) -> dg.AssetSelection:
    return dg.AssetSelection.checks(*(dg.AssetCheckKey(dg.AssetKey("gate_results"), check_name(gate)) for gate in graph.settings.gates))


def nightly_schedule(settings: Settings) -> dg.ScheduleDefinition:
    """The nightly job at the hour and in the time zone of settings; stopped until a person starts it."""
    return dg.ScheduleDefinition(
        name="nightly",
        job=nightly_job,
        cron_schedule=settings.nightly.cron,
        execution_timezone=settings.nightly.timezone,
        description="Runs the full golden set every night.",
    )


def reconcile_sensor(graph: Graph) -> dg.SensorDefinition:
    """Asks the daemon for the runs that a sync would start now, for deployments whose launcher runs them elsewhere."""

    @dg.sensor(
        name="reconcile",
        asset_selection=dg.AssetSelection.all(),
        minimum_interval_seconds=30,
        description="Requests the topmost stale asset partitions; one request for each state of their inputs, again only after a run died.",
    )
    def reconcile(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        from rag_eval_assets.storage.staleness import evaluate, plan
        from rag_eval_assets.storage.sync import open_catalogue, rescan_roots

        catalogue = open_catalogue(graph.folder)
        roots = {node: finished.data_version for node, finished in rescan_roots(graph, catalogue).items()}
        statuses = evaluate(graph, catalogue, roots)
        catalogue.save()
        groups = plan(graph, statuses)
        if not groups:
            yield dg.SkipReason("every asset partition is fresh")
        for group in groups:
            names = [node.asset for node in group.nodes]
            inputs = {str(u): _version(statuses, u) for n in group.nodes for u in graph.upstream(n) if u not in group.nodes}
            codes = [graph.code_version(node).hash for node in group.nodes]
            state = digest(names, group.partition, codes, inputs, [roots.get(node) for node in group.nodes])
            attempt = _attempt(context.instance, state)
            if attempt is None:
                continue
            yield dg.RunRequest(
                run_key=f"{'+'.join(names)}:{group.partition or ''}:{state}:{attempt}",
                asset_selection=[dg.AssetKey(name) for name in names],
                partition_key=group.partition,
                tags={"rag_eval/state": state},
            )

    return reconcile


def _version(statuses: Mapping[AssetPartition, Any], node: AssetPartition) -> str:
    footer = getattr(statuses[node], "footer", None)
    return footer.data_version if footer else ""


def _attempt(instance: dg.DagsterInstance, state: str) -> int | None:
    """Number of the next attempt for this state; None while one is under way, after a typed failure, or after ATTEMPTS deaths."""
    runs = instance.get_runs(dg.RunsFilter(tags={"rag_eval/state": state}))
    if any(not run.is_finished for run in runs):
        return None
    failed = [run for run in runs if run.status == dg.DagsterRunStatus.FAILURE]
    if len(failed) >= ATTEMPTS or any(instance.get_run_stats(run.run_id).steps_failed for run in failed):
        return None
    return len(runs)
