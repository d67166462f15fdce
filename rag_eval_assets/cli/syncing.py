"""Commands that bring tables to fresh and say whether they are: sync, status, verify, ui."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column
from rich.table import Table as Grid

from rag_eval_assets.__main__ import INTERRUPTED
from rag_eval_assets.cli.base import BLOCKED, FAILED, WIDE, app, err, out
from rag_eval_assets.settings import Folder


def _listener() -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from rag_eval_assets.progress import Paced
    from rag_eval_assets.storage.sync import Listener, RunReport

    class Drawn(Listener):
        """One line a run, and a bar while a body reports progress (without a terminal, lines with the time left)."""

        def __init__(self) -> None:
            self.bar: Progress | None = None
            self.task: Any = None
            self.node: Any = None
            self.paced = Paced(lambda line: err.print(f"          {escape(line)}"))

        def repaired(self, message: str) -> None:
            err.print(f"repaired  {escape(message)}")

        def run_started(self, group: Any, statuses: Mapping[Any, Any]) -> None:
            names = ", ".join(node.asset for node in group.nodes)
            err.print(f"run       {escape(f'[{group.partition}] ' if group.partition else '')}{escape(names)}")
            for node in group.nodes:
                if statuses[node].reasons != ("no file",):
                    err.print(f"          {escape(str(node))}: {escape('; '.join(statuses[node].reasons[:3]))}", style="dim")

        def progress(self, node: Any, done: int, total: int) -> None:
            if not err.is_terminal:
                self.paced(node, done, total)
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
def verify(context: typer.Context) -> None:
    """Read every file whole and name what is torn, foreign, missing or left over, with the mend."""
    from rag_eval_assets.storage.verify import verify_tables

    problems = verify_tables(context.obj)
    for problem in problems:
        out.print(escape(f"{problem.kind}: {problem.what}. {problem.mend}"))
    if not all(problem.harmless for problem in problems):
        raise typer.Exit(FAILED)
    out.print("Every file is whole, and everything the graph expects is there.")


@app.command()
def prune(
    context: typer.Context,
    delete: Annotated[bool, typer.Option("--delete", help="Remove what is listed; without it nothing is removed.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait for another sync of this folder.")] = False,
) -> None:
    """List what nothing points to any more: tables of removed partitions, temporary files, caches of older code. --delete removes it."""
    from rag_eval_assets import pruning

    found = pruning.prune(context.obj, wait) if delete else pruning.leftovers(context.obj)
    for left in found:
        out.print(escape(f"{left.kind}  {left.path}  {left.size} bytes"))
    size = sum(left.size for left in found)
    told = "removed" if delete else "can go: pass --delete"
    out.print(f"{len(found)} files of {size} bytes {told}" if found else "Nothing is left over.")


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
    workspace = Path(__file__).resolve().parents[2] / "workspace.yaml"
    # A shell's background job starts with interrupts ignored; Dagster would inherit that and ignore terminations as well.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    quiet = "ignore:Function `dev_command` is superseded"  # by `dg dev`, of a package that is not needed here
    command = [sys.executable, "-W", quiet, "-m", "dagster", "dev", "-w", str(workspace), "--host", host, "--port", str(port)]
    os.execv(command[0], command)
