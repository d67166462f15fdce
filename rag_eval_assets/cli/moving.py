"""Commands that write folders and files for others: subset, synthesize, import, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from rag_eval_assets.cli.base import app, err, export_app, import_app, out


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
