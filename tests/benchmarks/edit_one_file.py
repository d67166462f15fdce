"""One file of many is edited: what the next sync costs beside the first, and that it did one file's work.

Both parsers have half of the corpus. The edited file is Markdown, whose parser is the slower one to start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import SyncReport, open_catalogue, open_instance, sync
from tests.benchmarks.synthetic import PARSING, write_document, write_folder

WANTED = 30
"""The incremental sync takes at most one part in so many of the full one."""
WORDS = 1_500
SETTINGS: dict[str, Any] = {
    "name": "edit-one-file",
    **PARSING,
    "chunkings": [
        {"strategy": "window", "size": 256, "overlap": 0},
        {"strategy": "recursive", "size": 512, "overlap": 0},
        {"strategy": "structural", "size": 512},
        {"strategy": "whole"},
    ],
    "retrievers": {
        "bm25": {"kind": "bm25"},
        "dense": {"kind": "dense"},
        "hybrid": {"kind": "rrf", "of": ["bm25", "dense"]},
    },
    "systems": {
        "hybrid": {"chunking": "recursive-512-o0", "retriever": "hybrid"},
        "lexical": {"chunking": "window-256-o0", "retriever": "bm25"},
    },
    "gates": {"recall": {"source": "system_summary", "metric": "R", "k": 10, "at_least": 0.5, "starting_value": True}},
}


@dataclass(frozen=True)
class Step:
    """One asset partition in the incremental sync."""

    node: AssetPartition
    seconds: float
    rows: int
    computed: int


@dataclass(frozen=True)
class Result:
    files: int
    edited: str
    full: float
    incremental: float
    steps: list[Step]
    """Of the incremental sync."""
    chunks_of_edited: dict[str, int]
    """Chunks that the edited document has now, by chunking."""
    new_vectors: int
    runs_after: int
    """Runs of a third sync, which has nothing to do."""

    def computed(self, asset: str) -> dict[str | None, int]:
        """Units of work of one asset, by partition."""
        return {step.node.partition: step.computed for step in self.steps if step.node.asset == asset}

    def lines(self) -> Iterator[str]:
        yield f"{self.files} files, {self.edited} edited"
        yield f"full sync         {self.full:9.1f} s"
        yield f"incremental sync  {self.incremental:9.1f} s  in this process, everything imported"
        yield f"ratio             1/{self.full / self.incremental:.1f}  (wanted: 1/{WANTED} or less)"
        for asset in ("parsed_documents", "documents", "chunks", "chunk_embeddings"):
            yield f"{asset:18}" + ", ".join(f"{key or ''} {n}".strip() for key, n in self.computed(asset).items()) + " computed"
        yield "chunks it has     " + ", ".join(f"{key} {n}" for key, n in self.chunks_of_edited.items())
        yield f"new vectors       {self.new_vectors}"
        yield f"third sync        {self.runs_after} runs"
        yield ""
        yield f"{'seconds':>8} {'rows':>8} {'computed':>9}  incremental sync, by asset partition"
        for step in sorted(self.steps, key=lambda step: -step.seconds):
            yield f"{step.seconds:8.2f} {step.rows:8} {step.computed:9}  {step.node}"
        inside = sum(step.seconds for step in self.steps)
        yield f"{self.incremental - inside:8.2f} {'':18}  outside of the steps: rescan, versions, Dagster's runs and events"


def _timed(folder: Folder) -> tuple[SyncReport, float]:
    started = time.perf_counter()
    report = sync(folder)
    seconds = time.perf_counter() - started
    if report.failed:
        raise RuntimeError(f"partitions failed: {report.failed}")
    return report, seconds


def _steps(folder: Folder, report: SyncReport) -> list[Step]:
    instance = open_instance(folder)
    try:
        seconds = {
            (run.run_id, stats.step_key): stats.end_time - stats.start_time
            for run in report.runs
            for stats in instance.get_run_step_stats(run.run_id)
        }
    finally:
        instance.dispose()
    return [Step(o.node, seconds[run.run_id, o.node.asset], o.rows, o.computed) for run in report.runs for o in run.outcomes]


def measure(path: Path, files: int, words: int = WORDS) -> Result:
    """Write the folder below `path`, sync it, edit one file, sync again and again."""
    folder = write_folder(path / "edit-one-file", files, words, SETTINGS)
    _, full = _timed(folder)
    vectors = SqliteStore(next(folder.stores.glob("vectors-*.sqlite")))
    before = len(vectors)
    number = files // 2 // 4 * 4
    edited = write_document(folder, number, words, edited=True)
    report, incremental = _timed(folder)
    catalogue = open_catalogue(folder)
    chunks = {
        key: catalogue.read(AssetPartition("chunks", key), ["doc_id"])[0]["doc_id"].to_pylist().count(edited)
        for key in ("window-256-o0", "recursive-512-o0", "structural-512", "whole")
    }
    after, _ = _timed(folder)
    return Result(files, edited, full, incremental, _steps(folder, report), chunks, len(vectors) - before, len(after.runs))
