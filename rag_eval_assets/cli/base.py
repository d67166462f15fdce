"""What every command shares: the application and its groups, consoles, exit codes, the folder a command works on, errors in one line.

What does not belong here: any command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from rag_eval_assets.__main__ import INTERRUPTED
from rag_eval_assets.settings import Folder


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


def typed_errors() -> tuple[type[Exception], ...]:
    import duckdb

    from ingestion.labels import LabelError
    from ingestion.sources import CorpusError
    from rag_eval_assets.golden import GoldenError
    from rag_eval_assets.resources.responses import DamagedReplyError
    from rag_eval_assets.storage.dagster_damage import DamagedDatabaseError, UnreachableDatabaseError
    from rag_eval_assets.storage.owner import ForeignStateError
    from rag_eval_assets.storage.parquet import ContractError, TornFileError
    from rag_eval_assets.storage.sync import LockedError
    from rag_eval_assets.strict import SettingsError
    from rag_eval_assets.unwritable import UnwritableError

    return (
        CorpusError, LabelError, GoldenError, SettingsError, LockedError, ForeignStateError, TornFileError, ContractError,
        DamagedReplyError, DamagedDatabaseError, UnreachableDatabaseError, UnwritableError, OSError, LookupError, duckdb.Error,
    )  # fmt: skip


def told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error.args[0]) if isinstance(error, LookupError) and error.args else str(error)
