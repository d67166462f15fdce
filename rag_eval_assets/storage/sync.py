"""`sync`: repair, rescan the roots, run the topmost stale level, look again, until nothing is stale.

What belongs here: the loop, the lock, the repair, what a person is told. What does not: what is stale (`staleness`), how one
partition is made (`produce`, Dagster).
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage import agreement
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.dagster_damage import telling_damage
from rag_eval_assets.storage.owner import check_owner, take_ownership
from rag_eval_assets.storage.parquet import ContractError, Footer, TornFileError
from rag_eval_assets.storage.produce import Finished, produce
from rag_eval_assets.storage.staleness import Group, Status, evaluate, plan
from rag_eval_assets.storage.state import read_json, write_cache, write_json
from rag_eval_assets.storage.versions import SourceTree
from rag_eval_assets.tables import TABLES
from rag_eval_assets.unwritable import UnwritableError, writing_to

if TYPE_CHECKING:
    import dagster as dg

    from rag_eval_assets.storage import dagster_private as private

PROCESS_TAG = "rag_eval/process"
SYNC_TAG = "rag_eval/sync"
ATTEMPTS = 3
"""A partition that is still not fresh after this many runs of one sync counts as failed: its inputs move, or it is not deterministic."""


class LockedError(RuntimeError):
    """Another sync holds this folder; names the holder."""


@dataclass(frozen=True)
class Outcome:
    """What became of one asset partition in a run."""

    node: AssetPartition
    result: str
    """materialized, failed or skipped (something above it in the run failed)."""
    rows: int = 0
    computed: int = 0
    changed: bool = False
    error: str = ""
    replies: Mapping[str, int] = field(default_factory=dict)
    """What became of the requests to a language model: reused from the store, asked, retried, failed."""


@dataclass(frozen=True)
class RunReport:
    run_id: str
    outcomes: tuple[Outcome, ...]


@dataclass
class SyncReport:
    """What a sync did. `failed` holds the first error of every partition that failed."""

    runs: list[RunReport] = field(default_factory=list)
    planned: list[tuple[AssetPartition, tuple[str, ...]]] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    failed: dict[AssetPartition, str] = field(default_factory=dict)
    waiting: list[AssetPartition] = field(default_factory=list)

    @property
    def materialized(self) -> dict[AssetPartition, Outcome]:
        return {o.node: o for run in self.runs for o in run.outcomes if o.result == "materialized"}


class Listener:
    """What a sync tells while it works; the CLI draws it, tests and schedules ignore it."""

    def repaired(self, message: str) -> None: ...

    def run_started(self, group: Group, statuses: Mapping[AssetPartition, Status]) -> None: ...

    def progress(self, node: AssetPartition, done: int, total: int) -> None: ...

    def run_ended(self, report: RunReport, seconds: float) -> None: ...


def open_catalogue(folder: Folder) -> Catalogue:
    """The tables of an evaluation folder. Raises ForeignStateError where the table root belongs to another one."""
    catalogue = Catalogue(folder.tables, folder.state / "state.json")
    check_owner(catalogue.root, folder)
    return catalogue


def process_identity() -> str:
    """host:pid:start of this process, so that a later one can tell a dead process from a reused pid."""
    import psutil

    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_alive(identity: str) -> bool:
    """Whether the process of `identity` runs; processes of other hosts count as alive."""
    import psutil

    host, pid, started = identity.rsplit(":", 2)
    if host != socket.gethostname():
        return True
    try:
        return bool(abs(psutil.Process(int(pid)).create_time() - float(started)) < 1)
    except (psutil.NoSuchProcess, ValueError):
        return False


@contextmanager
def storage_lock(folder: Folder, wait: bool = False) -> Iterator[None]:
    """Hold this folder's lock. The operating system drops it with the process, so a killed holder blocks nobody, whatever it left
    written about itself, and from whichever host."""
    holder = folder.state / "sync.holder.json"
    lock = FileLock(folder.state / "sync.lock")
    try:
        with writing_to(lock.lock_file):
            folder.state.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        facts = {"pid": "unknown", "host": "an unknown host", "since": "unknown", **read_json(holder)}
        raise LockedError(
            f"another sync holds {folder.path}: process {facts['pid']} on {facts['host']} since {facts['since']}. "
            "Wait for it, or pass --wait."
        ) from None
    try:
        write_json(holder, {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")})
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def rescan_roots(graph: Graph, catalogue: Catalogue) -> dict[AssetPartition, Finished]:
    """Read the roots' files and version what they say now. Raises the roots' own typed errors before anything runs."""
    return {node: produce(graph, catalogue, node) for node in graph.nodes() if TABLES[node.asset].root}


def dagster_home(folder: Folder) -> dict[str, str]:
    """Environment under which Dagster keeps everything of this evaluation folder in its state folder."""
    home = os.environ.get("DAGSTER_HOME") or str(Path(__file__).resolve().parents[2])
    return {
        "DAGSTER_HOME": home,
        "RAG_EVAL_DATA": str(folder.path),
        "RAG_EVAL_DAGSTER": str(folder.state / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }


def open_instance(folder: Folder) -> dg.DagsterInstance:
    """Dagster's instance of this evaluation folder, for runs in this process."""
    home = dagster_home(folder)
    os.environ.update(home)
    (folder.state / "dagster").mkdir(parents=True, exist_ok=True)
    from rag_eval_assets.storage import dagster_private as private

    return private.instance_without_capture(home["DAGSTER_HOME"])


def _swept(catalogue: Catalogue) -> list[str]:
    left = catalogue.sweep_temporaries()
    return [f"{left} unfinished file(s) removed"] if left else []


class _Dagster:
    """Dagster's instance, opened where it is needed: its import takes as long as all else of a sync that finds nothing to do."""

    def __init__(self, folder: Folder, graph: Graph, catalogue: Catalogue, instance: dg.DagsterInstance | None) -> None:
        self.folder, self.graph, self.catalogue = folder, graph, catalogue
        self.home = dagster_home(folder)["DAGSTER_HOME"]
        self.given = instance is not None
        self._instance = instance

    @property
    def instance(self) -> dg.DagsterInstance:
        if self._instance is None:
            self._instance = open_instance(self.folder)
        return self._instance

    def repaired(self) -> list[str]:
        """What was mended so that Dagster and the files agree; nothing is opened where the last sync left both as they are."""
        if not self.given and agreement.stands(self.folder, self.home, _footers(self.graph, self.catalogue)):
            return []
        memory = self.folder.state / "acknowledged.json"
        acknowledged: dict[str, Any] = read_json(memory)
        before = dict(acknowledged)
        mended = repair(self.graph, self.catalogue, self.instance, acknowledged)
        if acknowledged != before:
            write_cache(memory, acknowledged)
        return mended

    def close(self, agreed: bool) -> None:
        """Close what was opened here; where Dagster then knows every table and no run is open, the next sync is told so."""
        if self.given or self._instance is None:
            return
        from rag_eval_assets.storage import dagster_private as private

        agreed = (
            agreed
            and private.keeps_events_in(self._instance, self.folder.state / "dagster")
            and not private.unfinished_runs(self._instance, PROCESS_TAG)
        )
        self._instance.dispose()
        if agreed:
            agreement.remember(self.folder, self.home, _footers(self.graph, self.catalogue))


def repair(graph: Graph, catalogue: Catalogue, instance: dg.DagsterInstance, acknowledged: dict[str, list[Any]]) -> list[str]:
    """Make Dagster and the files agree again; what was mended, a sentence each.

    Runs of dead processes are marked failed and their slots freed. A file whose (run, data version) is not Dagster's latest event is
    reported as a runless materialization with the footer's facts. `acknowledged` remembers agreements: asset partition -> [event,
    run, data version].
    """
    import dagster as dg

    from rag_eval_assets.storage import dagster_private as private

    mended: list[str] = []
    for run in private.unfinished_runs(instance, PROCESS_TAG):
        identity = run.tags[PROCESS_TAG]
        # One of this process is over as well: the lock is ours, and a disk that was full kept Dagster from writing its end.
        if identity == process_identity() or not is_alive(identity):
            private.mark_failed(instance, run, f"process {run.tags[PROCESS_TAG]} is gone; found by sync")
            mended.append(f"run {run.run_id[:8]} was left by a dead process: marked failed, its slots freed")
    events = private.latest_event_ids(instance, graph)
    for node, footer in _footers(graph, catalogue).items():
        if footer is None:
            acknowledged.pop(str(node), None)
            continue
        event = events.get(node)
        agreed = [event, footer.run_id, footer.data_version]
        if event is not None and acknowledged.get(str(node)) == agreed:
            continue
        if event is None or private.event_facts(instance, node, event) != (footer.run_id, footer.data_version):
            instance.report_runless_asset_event(
                dg.AssetMaterialization(
                    node.asset,
                    partition=node.partition,
                    description="Reported from the file's footer: the event of its run is not Dagster's latest.",
                    metadata={"dagster/uri": dg.MetadataValue.path(str(catalogue.path(node))), "rows": footer.rows},
                    tags=dict(private.version_tags(footer)),
                )
            )
            mended.append(f"{node}: Dagster did not know the file of run {footer.run_id[:8]}; reported")
            continue
        acknowledged[str(node)] = agreed
    return mended


def _footers(graph: Graph, catalogue: Catalogue) -> dict[AssetPartition, Footer | None]:
    """The footer of every asset partition; None where there is no whole file."""
    found: dict[AssetPartition, Footer | None] = {}
    with catalogue.one_look(graph.nodes()):
        for node in graph.nodes():
            try:
                found[node] = catalogue.footer(node)
            except (TornFileError, ContractError):
                found[node] = None
    return found


def selection(graph: Graph, select: Sequence[str], partition: str | None) -> Callable[[AssetPartition], bool]:
    """The asset partitions named, with everything above them. Raises LookupError that lists what there is."""
    unknown = [name for name in select if name not in graph.assets]
    if unknown:
        raise LookupError(f"no asset {', '.join(unknown)}; known: {', '.join(graph.assets)}")
    keys = {key for family in graph.families.values() for key in family}
    if partition is not None and partition not in keys:
        raise LookupError(f"no partition {partition!r}; known: {', '.join(sorted(keys))}")
    if not select and partition is None:
        return lambda node: True
    wanted: set[AssetPartition] = set()
    todo = [
        node
        for node in graph.nodes()
        if (not select or node.asset in select) and (partition is None or node.partition in ((None, partition) if select else (partition,)))
    ]
    for name in select:
        if not any(node.asset == name for node in todo):
            raise LookupError(f"{name} has no partition {partition!r}; it has {', '.join(map(str, graph.partitions(name)))}")
    while todo:
        node = todo.pop()
        if node not in wanted:
            wanted.add(node)
            todo.extend(graph.upstream(node))
    return wanted.__contains__


def sync(
    folder: Folder,
    *,
    select: Sequence[str] = (),
    partition: str | None = None,
    dry_run: bool = False,
    wait: bool = False,
    instance: dg.DagsterInstance | None = None,
    source: SourceTree | None = None,
    listener: Listener | None = None,
    tags: Mapping[str, str] | None = None,
) -> SyncReport:
    """Bring every selected asset partition to fresh, paying only for what changed.

    A failed partition stops only what is below it. A sync with nothing to do starts no run. Raises LockedError, ForeignStateError,
    and the typed errors of settings, corpus, golden set and labels before anything runs; DamagedDatabaseError where Dagster's
    database cannot be read; UnreachableDatabaseError where its Postgres is gone; UnwritableError where a disk is full or
    read-only, at once, for nothing that follows could be kept.
    """
    listener = listener or Listener()
    graph = Graph(folder, source)
    report = SyncReport()
    with telling_damage(folder.state / "dagster"), storage_lock(folder, wait), _rare_collections():
        catalogue = open_catalogue(folder)
        chosen = selection(graph, select, partition)
        roots = {node: finished.data_version for node, finished in rescan_roots(graph, catalogue).items()}
        if dry_run:
            statuses = evaluate(graph, catalogue, roots)
            report.planned = [(n, s.reasons) for n, s in statuses.items() if s.state != "fresh" and chosen(n)]
            return report
        take_ownership(catalogue.root, folder)
        report.repaired = _swept(catalogue)
        dagster, agreed = _Dagster(folder, graph, catalogue, instance), False
        try:
            report.repaired += dagster.repaired()
            for message in report.repaired:
                listener.repaired(message)
            with _kept_interrupts() as check:
                _run_until_fresh(graph, catalogue, dagster, roots, chosen, report, listener, tags or {}, check)
            # Others write to Dagster's databases as well, and what they did since the first look would be taken for agreed.
            meanwhile = dagster.repaired() if report.runs else []
            for message in meanwhile:
                listener.repaired(message)
            report.repaired += meanwhile
            agreed = not report.failed
        finally:
            catalogue.save()
            graph.source.remember()
            dagster.close(agreed)
    return report


@contextmanager
def _kept_interrupts() -> Iterator[Callable[[], None]]:
    """A function that raises KeyboardInterrupt when one came: Dagster drops those that meet it between two steps.

    Python writes every signal to the wake-up file, whichever handler Dagster has set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def check() -> None:
        try:
            came = os.read(reader, 4096)
        except BlockingIOError:
            return
        if signal.SIGINT in came:
            raise KeyboardInterrupt

    try:
        yield check
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect cyclic garbage seldom: walking all that is imported, again and again, is a twentieth of a short sync."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run_until_fresh(
    graph: Graph,
    catalogue: Catalogue,
    dagster: _Dagster,
    roots: Mapping[AssetPartition, str],
    chosen: Callable[[AssetPartition], bool],
    report: SyncReport,
    listener: Listener,
    tags: Mapping[str, str],
    check_interrupt: Callable[[], None],
) -> None:
    attempts: dict[AssetPartition, int] = {}
    run: private.Run | None = None
    identity = {PROCESS_TAG: process_identity(), SYNC_TAG: uuid.uuid4().hex[:12], **tags}
    while True:
        statuses = evaluate(graph, catalogue, roots)
        groups = plan(graph, statuses, report.failed.keys(), chosen)
        tired = [n for group in groups for n in group.nodes if attempts.get(n, 0) >= ATTEMPTS]
        if tired:
            report.failed.update(dict.fromkeys(tired, f"still not fresh after {ATTEMPTS} runs: its inputs or files keep changing"))
            continue
        if not groups:
            report.waiting = [n for n, s in statuses.items() if s.state != "fresh" and chosen(n) and n not in report.failed]
            return
        if run is None:
            from rag_eval_assets.definitions import build_definitions
            from rag_eval_assets.storage import dagster_private as private

            job = build_definitions(graph, catalogue, listener.progress).resolve_implicit_global_asset_job_def()
            run = private.runs_in_process(job, dagster.instance, {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}})
        for group in groups:
            started = time.perf_counter()
            listener.run_started(group, statuses)
            outcomes = _run(run, catalogue, group, statuses, identity)
            check_interrupt()
            report.runs.append(outcomes)
            for outcome in outcomes.outcomes:
                attempts[outcome.node] = attempts.get(outcome.node, 0) + 1
                if outcome.result == "failed":
                    report.failed[outcome.node] = outcome.error
            listener.run_ended(outcomes, time.perf_counter() - started)


def _run(
    run: private.Run,
    catalogue: Catalogue,
    group: Group,
    statuses: Mapping[AssetPartition, Status],
    tags: Mapping[str, str],
) -> RunReport:
    """One Dagster run in this process."""
    import dagster as dg

    result: Any = run(frozenset(dg.AssetKey(node.asset) for node in group.nodes), group.partition, tags)
    if any(e.event_specific_data.error.cls_name == "DagsterExecutionInterruptedError" for e in result.all_events if e.is_step_failure):
        raise KeyboardInterrupt
    for event in result.all_events:
        if event.is_step_failure and (told := _unwritable(event.event_specific_data.error)):
            raise UnwritableError(told)
    errors = {e.step_key: _first_line(e.event_specific_data.error) for e in result.all_events if e.is_step_failure}
    written = {e.asset_key.to_user_string(): _replies(e) for e in result.all_events if e.is_step_materialization and e.asset_key}
    outcomes = []
    for node in group.nodes:
        if node.asset in written:
            footer, before = catalogue.footer(node), statuses[node].footer
            assert footer is not None
            changed = before is None or before.data_version != footer.data_version
            outcomes.append(Outcome(node, "materialized", footer.rows, footer.computed, changed, replies=written[node.asset]))
        elif node.asset in errors:
            outcomes.append(Outcome(node, "failed", error=errors[node.asset]))
        else:
            outcomes.append(Outcome(node, "skipped"))
    return RunReport(result.run_id, tuple(outcomes))


def _replies(event: Any) -> dict[str, int]:
    """What a materialization notes of a language model's replies."""
    told = event.step_materialization_data.materialization.metadata
    return {name.removeprefix("replies_"): value.value for name, value in told.items() if name.startswith("replies_")}


def _unwritable(error: Any) -> str:
    """What a serialised error says of a place that cannot be written; empty where it is about something else."""
    while error is not None and error.cls_name != UnwritableError.__name__:
        error = error.cause
    return "" if error is None else str(error.message).partition(": ")[2].strip()


def _first_line(error: Any) -> str:
    """The innermost message of a serialised error: what a person has to read first."""
    while getattr(error, "cause", None) is not None:
        error = error.cause
    return str(getattr(error, "message", error)).strip()
