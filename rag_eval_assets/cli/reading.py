"""Commands that show what the last sync made: inspect, sql, report, sample, holes, replies."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from rag_eval_assets.cli.base import WIDE, app, err, out
from rag_eval_assets.tables import TABLES


@app.command()
def inspect(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="An asset, or the id of a question, a document, a chunk, a gate or a result of a diagnosis.")],
    partition: Annotated[str | None, typer.Argument(help="The asset's partition.")] = None,
) -> None:
    """Print an asset's lineage up to the source files, or what is known of one question, document, chunk, gate or result."""
    from rag_eval_assets.diagnoses import kept_results
    from rag_eval_assets.report.addresses import addressed
    from rag_eval_assets.report.stories import lineage

    known = lineage(context.obj, name, partition) if name in TABLES else addressed(context.obj, name, kept_results(context.obj))
    for line in known:
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
def holes(
    context: typer.Context,
    system: Annotated[str | None, typer.Argument(help="A system; every one without it.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Documents of each ranking that are looked at.")] = 10,
) -> None:
    """List documents that rankings hold high up and that nobody judged: labels to add before trusting a comparison."""
    from rag_eval_assets.report.stories import label_holes

    for line in label_holes(context.obj, system, depth):
        out.print(escape(line))


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
