"""rag-eval, a module for each group of commands: syncing, reading, deciding, moving.

What belongs in this package: arguments, exit codes and what is printed. What does not: any work (each command is one call). Exit codes: 0
done, 1 a partition failed or a check found something, 2 bad input or a lock held by another, 3 a gate blocks, 130 interrupted.
"""

from __future__ import annotations

import atexit
import traceback

from rich.markup import escape

from rag_eval_assets.cli import deciding, moving, reading, syncing  # noqa: F401  they add their commands to the application
from rag_eval_assets.cli.base import BAD_INPUT, FAILED, app, err, told, typed_errors


def run() -> int:
    """Run the command; its exit code. Typed errors and those of files become one message and exit code 2."""
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:  # noqa: BLE001 - an unknown one is shown whole, and its process ends like any other
        if not isinstance(error, typed_errors()):
            traceback.print_exc()
            return FAILED
        err.print(f"[red]error[/red] {escape(told(error))}")
        return BAD_INPUT
    finally:
        atexit._run_exitfuncs()
    return 0
