"""Nothing changed: what a sync over many chunkings costs beyond imports, and in which part."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_eval_assets.storage.sync import sync
from tests.benchmarks.synthetic import PARSING, write_folder

WANTED = 2.0
"""Seconds beyond imports, for 48 chunkings."""
ROOT = Path(__file__).resolve().parents[2]


def settings(chunkings: int) -> dict[str, Any]:
    """BM25 alone, so that the folder is soon built."""
    return {
        "name": "no-change",
        **PARSING,
        "chunkings": [{"strategy": "window", "size": [32 + 8 * i for i in range(chunkings)], "overlap": 0}],
        "retrievers": {"bm25": {"kind": "bm25"}},
        "systems": {"lexical": {"chunking": "window-32-o0", "retriever": "bm25"}},
    }


_IN_A_FRESH_PROCESS = """
import json, sys, time
started = time.perf_counter()
import dagster, filelock, psutil, pydantic, upath
import rag_eval_assets.assets
from rag_eval_assets.storage import dagster_private, sync as module
from rag_eval_assets.settings import Folder
imported = time.perf_counter()
parts = {}

def timed(name):
    inner = getattr(module, name)
    def outer(*args, **kwargs):
        begin = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            parts[name] = parts.get(name, 0.0) + time.perf_counter() - begin
    setattr(module, name, outer)

for name in ("Graph", "rescan_roots", "open_instance", "repair", "evaluate", "plan"):
    timed(name)
begin = time.perf_counter()
report = module.sync(Folder(sys.argv[1]))
seconds = time.perf_counter() - begin
assert not (report.failed or report.repaired), report
print(json.dumps({"imports": imported - started, "seconds": seconds, "parts": parts, "runs": len(report.runs)}))
"""


@dataclass(frozen=True)
class Result:
    chunkings: int
    imports: float
    seconds: float
    """Of the sync, imports left out."""
    parts: dict[str, float]
    runs: int

    def lines(self) -> Iterator[str]:
        yield f"{self.chunkings} chunkings, nothing changed, a fresh process"
        yield f"imports           {self.imports:6.2f} s"
        yield f"sync beyond them  {self.seconds:6.2f} s  (wanted for 48: {WANTED:g} s or less), {self.runs} runs"
        for name, seconds in sorted(self.parts.items(), key=lambda item: -item[1]):
            yield f"  {name:15} {seconds:6.2f} s"
        yield f"  {'other':15} {self.seconds - sum(self.parts.values()):6.2f} s"


def measure(path: Path, chunkings: int = 48, files: int = 8, words: int = 300) -> Result:
    """Write the folder below `path`, sync it here, then twice in processes of their own; the second is measured."""
    folder = write_folder(path / "no-change", files, words, settings(chunkings))
    report = sync(folder)
    if report.failed:
        raise RuntimeError(f"partitions failed: {report.failed}")
    command = [sys.executable, "-W", "ignore", "-c", _IN_A_FRESH_PROCESS, str(folder.path)]
    for _ in range(2):  # the first finds the events of the run above and remembers that they agree with the files
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return Result(chunkings, **json.loads(done.stdout.splitlines()[-1]))
