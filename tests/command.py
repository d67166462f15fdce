"""`rag-eval` as a person types it: in this process, or in one of its own where the process is what is tried."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from rag_eval_assets.settings import Folder


def rag_eval(folder: Folder, *words: str, code: int = 0) -> str:
    """What the command prints, errors last; it starts no interpreter, which would take two seconds of imports each time."""
    from rag_eval_assets import cli

    said, complained = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
        patch.setattr(sys, "argv", ["rag-eval", "--data", str(folder.path), *words])
        patch.setattr(cli.atexit, "_run_exitfuncs", lambda: None)
        ended = cli.run()
    told = said.getvalue() + complained.getvalue()
    assert ended == code, told
    return told


def rag_eval_process(folder: Folder, *words: str, code: int = 0) -> str:
    """The same from a process of its own."""
    command = [sys.executable, "-m", "rag_eval_assets", "--data", str(folder.path), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
