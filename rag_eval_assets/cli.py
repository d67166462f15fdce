"""rag-eval: sync, status, inspect, sql, report, sample, subset, holes, baseline, compare, power, replies, import, export, verify, ui.

What belongs here: arguments, exit codes and what is printed. What does not: any work (each command is one call). Exit codes: 0 done,
1 a partition failed or a check found something, 2 bad input or a lock held by another, 3 a gate blocks, 130 interrupted.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column
from rich.table import Table as Grid
from typer.core import TyperGroup

from rag_eval_assets.__main__ import INTERRUPTED
from rag_eval_assets.settings import Folder
from rag_eval_assets.tables import TABLES


class Commands(TyperGroup):
    """The commands; an interrupt ends any of them with one word instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            err.print("interrupted")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Offline evaluation of retrieval-augmented generation. Exit codes: 0 done, 1 a partition failed or a check found "
    "something, 2 bad input or a lock held by another, 3 a gate blocks, 130 interrupted.",
)
baseline_app = typer.Typer(no_args_is_help=True, help="Named snapshots of a system's scores.")
import_app = typer.Typer(no_args_is_help=True, help="Turn other layouts into an evaluation folder.")
app.add_typer(baseline_app, name="baseline")
export_app = typer.Typer(no_args_is_help=True, help="Write rankings, labels and texts for other tools.")
app.add_typer(import_app, name="import")
app.add_typer(export_app, name="export")
out, err = Console(soft_wrap=True, highlight=False), Console(stderr=True, soft_wrap=True, highlight=False)
FAILED, BAD_INPUT, BLOCKED = 1, 2, 3
WIDE = 10_000  # columns of a pipe: a reason is one line, for grep


class Context:
    """The evaluation folder that the command works on."""

    folder: Folder


@app.callback()
def folder_option(
    context: typer.Context,
    data: Annotated[Path | None, typer.Option("--data", help="Evaluation folder; RAG_EVAL_DATA or the sample without it.")] = None,
) -> None:
    context.obj = Folder(data) if data else Folder.from_environment()


def _listener() -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from rag_eval_assets.storage.sync import Listener, RunReport

    class Drawn(Listener):
        """One line a run, and a bar while a body reports progress (a line every ten seconds where there is no terminal)."""

        def __init__(self) -> None:
            self.bar: Progress | None = None
            self.task: Any = None
            self.node: Any = None
            self.last = time.monotonic()

        def repaired(self, message: str) -> None:
            err.print(f"repaired  {escape(message)}")

        def run_started(self, group: Any, statuses: Mapping[Any, Any]) -> None:
            self.last = time.monotonic()
            names = ", ".join(node.asset for node in group.nodes)
            err.print(f"run       {escape(f'[{group.partition}] ' if group.partition else '')}{escape(names)}")
            for node in group.nodes:
                if statuses[node].reasons != ("no file",):
                    err.print(f"          {escape(str(node))}: {escape('; '.join(statuses[node].reasons[:3]))}", style="dim")

        def progress(self, node: Any, done: int, total: int) -> None:
            if not err.is_terminal:
                if time.monotonic() - self.last >= 10:
                    self.last = time.monotonic()
                    err.print(f"          {escape(str(node))}: {done} of {total}")
                return
            if self.bar is None:
                self.bar = Progress(
                    TextColumn("          {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                    TimeRemainingColumn(), console=err, transient=True,
                )  # fmt: skip
                self.bar.start()
            if node != self.node:
                if self.task is not None:
                    self.bar.remove_task(self.task)
                self.node, self.task = node, self.bar.add_task(escape(str(node)), total=total)
            self.bar.update(self.task, completed=done, total=total)

        def run_ended(self, report: RunReport, seconds: float) -> None:
            if self.bar is not None:
                self.bar.stop()
                self.bar = self.task = self.node = None
            for outcome in report.outcomes:
                if outcome.result == "materialized":
                    what = f"{outcome.rows} rows, {outcome.computed} computed{'' if outcome.changed else ', unchanged'}"
                    if outcome.replies:
                        what += f"; replies: {', '.join(f'{count} {name}' for name, count in outcome.replies.items())}"
                    err.print(f"          {escape(str(outcome.node))}: {what}", style="dim")
                elif outcome.result == "failed":
                    err.print(f"[red]failed[/red]    {escape(str(outcome.node))}: {escape(outcome.error)}")
            err.print(f"          {seconds:.1f} s, run {report.run_id[:8]}", style="dim")

    return Drawn()


@app.command()
def sync(
    context: typer.Context,
    select: Annotated[list[str] | None, typer.Option(help="Assets to bring to fresh, with what is above them.")] = None,
    partition: Annotated[str | None, typer.Option(help="Only this chunking, parser or system, with what is above it.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is stale and why; run nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for another sync of this folder instead of refusing.")] = False,
) -> None:
    """Bring every asset partition to fresh, paying only for what changed."""
    from rag_eval_assets.storage.sync import sync as run

    listener = None if dry_run else _listener()
    try:
        report = run(context.obj, select=select or (), partition=partition, dry_run=dry_run, wait=wait, listener=listener)
    except KeyboardInterrupt:
        err.print("interrupted: what was written stays, the next sync goes on from there")
        raise typer.Exit(INTERRUPTED) from None
    if dry_run:
        for node, reasons in report.planned:
            out.print(f"{escape(str(node))}: {escape('; '.join(reasons))}")
        out.print(f"{len(report.planned)} asset partitions to run; more may follow when these change.")
        return
    if report.failed:
        for node in report.waiting:
            err.print(f"waiting   {escape(str(node))}: something above it failed", style="dim")
        err.print(f"[red]{len(report.failed)} asset partitions failed.[/red]")
        raise typer.Exit(FAILED)
    if not report.runs:
        out.print("Nothing is stale: no run started.")
    else:
        out.print(f"{len(report.materialized)} asset partitions materialized in {len(report.runs)} runs.")
    from rag_eval_assets.report.stories import losses

    for line in losses(context.obj):
        out.print(escape(line))
    _tell_gates(context.obj)


def _tell_gates(folder: Folder) -> None:
    """Print the gates and exit 3 when one blocks."""
    from rag_eval_assets.graph import AssetPartition
    from rag_eval_assets.report.export import export_report
    from rag_eval_assets.storage.sync import open_catalogue

    catalogue = open_catalogue(folder)
    if catalogue.footer(AssetPartition("release_report")) is not None:
        out.print(f"Report: {escape(str(export_report(folder)))}")
    if catalogue.footer(AssetPartition("gate_results")) is None:
        return
    rows = catalogue.read(AssetPartition("gate_results"))[0].to_pylist()
    for row in rows:
        style = {"PASS": "green", "FAIL": "red"}.get(row["decision"], "yellow")
        value = "none" if row["value"] is None else f"{row['value']:.4f}"
        bound = f"{row['direction'].replace('_', ' ')} {row['threshold']}"
        judged = f"{escape(row['gate'])} on {escape(row['scope'])}: {value}, {bound} ({row['decision_reason']})"
        out.print(f"[{style}]{row['decision']}[/{style}] {judged}")
    if any(row["decision"] != "PASS" for row in rows):
        raise typer.Exit(BLOCKED)


@app.command()
def status(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="A list of {asset, partition, state, reasons}.")] = False,
) -> None:
    """For each asset partition: fresh, missing, or stale and why."""
    from rag_eval_assets.graph import Graph
    from rag_eval_assets.storage.staleness import evaluate
    from rag_eval_assets.storage.sync import open_catalogue, rescan_roots

    graph, catalogue = Graph(context.obj), open_catalogue(context.obj)
    roots = {node: finished.data_version for node, finished in rescan_roots(graph, catalogue).items()}
    statuses = evaluate(graph, catalogue, roots)
    if context.obj.state.is_dir():
        catalogue.save()
    if as_json:
        rows = [{"asset": n.asset, "partition": n.partition, "state": s.state, "reasons": list(s.reasons)} for n, s in statuses.items()]
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    grid = Grid("asset", "partition", "state", Column("why", overflow="fold"), box=None, pad_edge=False)
    for node, found in statuses.items():
        style = {"fresh": "green", "missing": "red", "stale": "yellow"}[found.state]
        grid.add_row(node.asset, node.partition or "", f"[{style}]{found.state}[/{style}]", escape("; ".join(found.reasons)))
    (out if out.is_terminal else Console(width=WIDE, highlight=False)).print(grid, soft_wrap=False)
    counts = {state: sum(s.state == state for s in statuses.values()) for state in ("fresh", "missing", "stale")}
    out.print(", ".join(f"{n} {state}" for state, n in counts.items()))


@app.command()
def inspect(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="An asset, or the id of a question.")],
    partition: Annotated[str | None, typer.Argument(help="The asset's partition.")] = None,
) -> None:
    """Print an asset's lineage up to the source files, or the story of one question."""
    from rag_eval_assets.report.stories import lineage, question_story

    lines = lineage(context.obj, name, partition) if name in TABLES else question_story(context.obj, name)
    for line in lines:
        out.print(escape(line))


@app.command()
def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="SQL over the tables; partitioned ones have a column 'partition'.")],
    form: Annotated[
        Literal["table", "csv", "json"], typer.Option("--format", help="table is cut to a screen; csv and json are whole.")
    ] = "table",
) -> None:
    """Run one DuckDB query with every asset as a view."""
    from rag_eval_assets.report.rows import FORMATS
    from rag_eval_assets.storage.views import ask

    found, absent = ask(context.obj, query)
    for node in absent:
        err.print(f"{escape(str(node))} has no file, so it gives no rows: run 'rag-eval sync'")
    if found is None:
        return
    if form == "table":
        found.show(max_width=200, max_rows=200)
        return
    for line in FORMATS[form](found.columns, found.fetchall()):
        sys.stdout.write(line)


@app.command()
def verify(context: typer.Context) -> None:
    """Read every file whole and name what is torn, foreign or missing, with the mend."""
    from rag_eval_assets.storage.verify import verify_tables

    problems = verify_tables(context.obj)
    for problem in problems:
        out.print(escape(f"{problem.kind}: {problem.what}. {problem.mend}"))
    if problems:
        raise typer.Exit(FAILED)
    out.print("Every file is whole, and everything the graph expects is there.")


@app.command()
def report(context: typer.Context, to: Annotated[Path | None, typer.Option(help="Where to write the page.")] = None) -> None:
    """Write the report of the last sync as one HTML file."""
    from rag_eval_assets.report.export import export_report

    out.print(escape(str(export_report(context.obj, to))))


@app.command()
def sample(
    context: typer.Context,
    number: Annotated[int, typer.Argument(min=1, help="How many questions.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 7,
    system: Annotated[str | None, typer.Option(help="System whose answers are shown; the first without it.")] = None,
) -> None:
    """Print random questions with answer, context and sources, for reading by hand."""
    from rag_eval_assets.report.stories import reading_sample

    for line in reading_sample(context.obj, number, seed, system):
        out.print(escape(line))


@app.command()
def subset(
    context: typer.Context,
    target: Annotated[Path | None, typer.Option("--to", help="Folder to write; .rag_eval/pr of the evaluation folder without it.")] = None,
    number: Annotated[int, typer.Option(min=1, help="How many questions.")] = 50,
) -> None:
    """Write a folder of few questions over the same corpus and settings, for a quick look at a change; sync it with --data."""
    from rag_eval_assets.subset import write_subset

    written, splits = write_subset(context.obj, target, number)
    told = ", ".join(f"{count} {split}" for split, count in splits.items())
    err.print(escape(f"{sum(splits.values())} questions: {told}"))
    out.print(escape(str(written)))


@app.command()
def synthesize(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model of `models` that writes them.")],
    number: Annotated[int, typer.Option(min=1, help="How many passages to ask about.")] = 20,
    chunking: Annotated[str | None, typer.Option(help="Chunking drawn from; the first in use without it.")] = None,
) -> None:
    """Have a model write questions about drawn passages into golden/synthetic.jsonl: development, kind synthetic, to be read."""
    from rag_eval_assets.synthetic import write_synthetic

    written, counts = write_synthetic(context.obj, model, number, chunking)
    err.print(escape(", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "no passage could be drawn"))
    out.print(escape(str(written)))


@app.command()
def holes(
    context: typer.Context,
    system: Annotated[str | None, typer.Argument(help="A system; every one without it.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Documents of each ranking that are looked at.")] = 10,
) -> None:
    """List documents that rankings hold high up and that nobody judged: labels to add before trusting a comparison."""
    from rag_eval_assets.report.stories import label_holes

    for line in label_holes(context.obj, system, depth):
        out.print(escape(line))


@baseline_app.command("save")
def baseline_save(
    context: typer.Context,
    name: str,
    system: str,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a baseline of that name.")] = False,
    policy: Annotated[Path | None, typer.Option(help="Policy file it will be compared under; that of evaluation.yaml without it.")] = None,
) -> None:
    """Keep a system's scores under a name, to compare later candidates with."""
    from rag_eval_assets.snapshots import save_snapshot

    out.print(escape(str(save_snapshot(context.obj, name, system, policy=policy, replace=replace))))


@app.command()
def compare(
    context: typer.Context,
    candidate: Annotated[str, typer.Argument(help="A system of evaluation.yaml, scored by the last sync.")],
    baseline: Annotated[str, typer.Argument(help="A baseline, saved by `rag-eval baseline save`.")],
    policy: Annotated[Path | None, typer.Option(help="Policy file; that of evaluation.yaml without it.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here, a test case a claim.")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write every row as JSON here.")] = None,
) -> None:
    """Decide a policy's claims about a system against a baseline: exit code 0 all pass, 1 an error, 3 a claim blocks."""
    from rag_eval_assets.report import ci
    from rag_eval_assets.snapshots import compare_with_snapshot

    try:
        rows = compare_with_snapshot(context.obj, candidate, baseline, policy)
    except (*_typed_errors(), RuntimeError) as error:
        err.print(f"[red]error[/red] {escape(_told(error))}")
        raise typer.Exit(FAILED) from None
    for path, form in ((junit, ci.as_junit), (as_json, ci.as_json)):
        if path is not None:
            path.write_text(form(candidate, baseline, rows), encoding="utf-8")
    refused = next((row for row in rows if row["decision_reason"] == "incomparable" and row["metric"] == "all"), None)
    if refused is not None:
        err.print(f"[red]error[/red] {candidate} and {baseline} cannot be compared: {escape(str(refused['detail']))}")
        raise typer.Exit(FAILED)
    for row in rows:
        if row["role"] == "declared" or row["slice"] != "all":
            style = {"PASS": "green", "FAIL": "red"}.get(row["decision"], "yellow")
            out.print(f"[{style}]{row['decision']}[/{style}] {escape(ci.line(row))}")
    for name, (was, now) in json.loads(rows[0]["what_changed"]).items():
        out.print(escape(f"changed  {name}: {json.dumps(was, ensure_ascii=False)} -> {json.dumps(now, ensure_ascii=False)}"))
    out.print(f"{ci.verdict(rows)}: {candidate} against {baseline}")
    if ci.verdict(rows) != "PASS":
        raise typer.Exit(BLOCKED)


@app.command()
def power(
    margin: Annotated[float, typer.Option(help="Margin of non-inferiority, or gain to show, in points: .02.")],
    changed: Annotated[float, typer.Option(help="Share of questions whose verdict differs between candidate and baseline.")] = 0.1,
    difference: Annotated[float, typer.Option(help="True mean difference that is expected.")] = 0.0,
    claims: Annotated[int, typer.Option(min=1, help="Claims of the family.")] = 1,
    confidence: Annotated[float, typer.Option(help="Confidence of intervals.")] = 0.95,
    wanted: Annotated[float, typer.Option("--power", help="Probability with which the margin is to be shown.")] = 0.8,
    rate: Annotated[float, typer.Option(help="Rate whose own interval is also planned.")] = 0.8,
) -> None:
    """How many independent questions a margin needs."""
    from rag_eval_assets.scoring.hypotheses import questions_for_half_width, questions_for_margin

    try:
        paired = questions_for_margin(margin, changed=changed, difference=difference, confidence=confidence, power=wanted, family=claims)
        alone = questions_for_half_width(margin, rate=rate, confidence=confidence)
    except ValueError as error:
        err.print(f"[red]error[/red] {escape(str(error))}")
        raise typer.Exit(BAD_INPUT) from None

    def told(questions: int | None) -> str:
        return "no number of questions" if questions is None else f"{questions:,} questions"

    case = f"a true difference of {difference:g} and {changed:.0%} of the verdicts changed"
    tests = f"{claims} claim{'s' * (claims > 1)}, one-sided at {(1 - confidence) / 2:g}"
    out.print(f"{told(paired)}: show with probability {wanted:g} that a candidate is not worse by {margin:g}, at {case} ({tests})")
    out.print(f"{told(alone)}: the {confidence:.0%} interval of a rate of {rate:g} reaches {margin:g} to either side")
    out.print("Questions that share a gold document count as less than one each.")


@app.command()
def replies(
    context: typer.Context,
    calls: Annotated[bool, typer.Option("--calls", help="List the calls that may have been paid for nothing, one by one.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="{totals: [...], possibly_paid: [...]}.")] = False,
) -> None:
    """What language models replied and cost, by endpoint and model, and calls that may have been paid without a reply being kept."""
    from dataclasses import asdict

    from rag_eval_assets.resources.responses import RESPONSES, ResponseStore

    path = context.obj.stores / RESPONSES
    store = ResponseStore(path) if path.exists() else None
    totals, lost = (store.totals(), store.possibly_paid()) if store else ([], [])
    if as_json:
        typer.echo(json.dumps({"totals": [asdict(t) for t in totals], "possibly_paid": [asdict(c) for c in lost]}, indent=1))
        return
    grid = Grid("endpoint", "model", "replies", "prompt tokens", "completion tokens", "cost", "possibly paid", box=None, pad_edge=False)
    known = {(t.endpoint, t.model): t for t in totals}
    for where in sorted({*known, *((c.endpoint, c.model) for c in lost)}):
        t = known.get(where)
        counts = (t.replies, t.prompt_tokens, t.completion_tokens) if t else (0, 0, 0)
        cost = "" if t is None or not t.costed else f"{t.cost:.6g}" + (f" of {t.costed} replies" if t.costed < t.replies else "")
        grid.add_row(*map(escape, where), *map(str, counts), cost, str(sum((c.endpoint, c.model) == where for c in lost)))
    (out if out.is_terminal else Console(width=WIDE, highlight=False)).print(grid, soft_wrap=False)
    if calls:
        for call in lost:
            out.print(escape(f"{call.sent_at} {call.outcome} {call.model} at {call.endpoint}, key {call.key[:16]}"))
    out.print(f"{sum(t.replies for t in totals)} replies kept, {len(lost)} calls possibly paid without one")


@import_app.command("beir")
def import_beir(
    source: Annotated[Path, typer.Argument(help="Folder with corpus.jsonl, queries.jsonl and qrels/.")],
    target: Annotated[Path, typer.Argument(help="Evaluation folder to write.")],
) -> None:
    """Turn a BEIR folder into an evaluation folder."""
    from rag_eval_assets.importing import import_beir as run

    for key, value in run(source, target).items():
        out.print(f"{key}: {value}")


@export_app.command("trec")
def export_trec(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(help="Folder to write.")],
    unit: Annotated[Literal["document", "chunk"], typer.Option(help="What a run ranks; qrels are by document.")] = "document",
) -> None:
    """Write every ranking as a TREC run and the labels as qrels."""
    from rag_eval_assets.exporting import export_trec as run
    from rag_eval_assets.storage.sync import open_catalogue

    for key, value in run(context.obj, open_catalogue(context.obj), target, unit).items():
        out.print(f"{key}: {value}")


@export_app.command("beir")
def export_beir(context: typer.Context, target: Annotated[Path, typer.Argument(help="Folder to write.")]) -> None:
    """Write documents, questions and labels as a BEIR folder."""
    from rag_eval_assets.exporting import export_beir as run
    from rag_eval_assets.storage.sync import open_catalogue

    for key, value in run(open_catalogue(context.obj), target).items():
        out.print(f"{key}: {value}")


@app.command()
def ui(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to bind; loopback unless told.")] = "127.0.0.1",
    port: Annotated[int, typer.Option()] = 3000,
) -> None:
    """Open Dagster's UI and daemon on this evaluation folder."""
    from rag_eval_assets.storage.sync import dagster_home

    os.environ.update(dagster_home(context.obj))
    (context.obj.state / "dagster").mkdir(parents=True, exist_ok=True)
    workspace = Path(__file__).resolve().parents[1] / "workspace.yaml"
    # A shell's background job starts with interrupts ignored; Dagster would inherit that and ignore terminations as well.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    quiet = "ignore:Function `dev_command` is superseded"  # by `dg dev`, of a package that is not needed here
    command = [sys.executable, "-W", quiet, "-m", "dagster", "dev", "-w", str(workspace), "--host", host, "--port", str(port)]
    os.execv(command[0], command)


def _typed_errors() -> tuple[type[Exception], ...]:
    import duckdb

    from ingestion.labels import LabelError
    from ingestion.sources import CorpusError
    from rag_eval_assets.golden import GoldenError
    from rag_eval_assets.storage.dagster_damage import DamagedDatabaseError
    from rag_eval_assets.storage.owner import ForeignStateError
    from rag_eval_assets.storage.parquet import ContractError, TornFileError
    from rag_eval_assets.storage.sync import LockedError
    from rag_eval_assets.strict import SettingsError

    return (
        CorpusError, LabelError, GoldenError, SettingsError, LockedError, ForeignStateError, TornFileError, ContractError,
        DamagedDatabaseError, OSError, LookupError, duckdb.Error,
    )  # fmt: skip


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error.args[0]) if isinstance(error, LookupError) and error.args else str(error)


def run() -> int:
    """Run the command; its exit code. Typed errors and those of files become one message and exit code 2."""
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:  # noqa: BLE001 - an unknown one is shown whole, and its process ends like any other
        if not isinstance(error, _typed_errors()):
            traceback.print_exc()
            return FAILED
        err.print(f"[red]error[/red] {escape(_told(error))}")
        return BAD_INPUT
    finally:
        atexit._run_exitfuncs()
    return 0
