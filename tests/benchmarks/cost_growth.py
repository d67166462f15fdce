"""How the cost of chunks, BM25, vectors and a graph grows with the corpus: each step at 1, 4 and 16 times its size.

Every step runs in a process of its own on one thread, and counts processor time, so that other work on the machine weighs little; its
peak memory is read from /proc, so Linux only. Texts are synthetic prose. Vectors of the embedder are real where it is installed; the
graph is built over synthetic clustered vectors, because real ones of its size would take hours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rag_eval_assets.resources.embedders import unavailable

ROOT = Path(__file__).resolve().parents[2]
TIMES = (1, 4, 16)
WANTED = 1.1
STEPS = {"chunks": ("documents", 200), "bm25": ("chunks", 1_000), "embeddings": ("chunks", 40), "ann": ("vectors", 2_000)}
"""What each step's size counts, and its smallest size."""

_IN_A_FRESH_PROCESS = """
import json, re, sys, time
from pathlib import Path
from tests.benchmarks import cost_growth

def megabytes(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

work = cost_growth.prepared(sys.argv[1], int(sys.argv[2]))
before, started = megabytes("VmRSS"), time.process_time()
done = work()
print(json.dumps({"seconds": time.process_time() - started, "before": before, "peak": megabytes("VmHWM"), "made": done}))
"""


def prepared(step: str, size: int):  # type: ignore[no-untyped-def]
    """The step's work on a corpus of `size`, its inputs and models ready; it returns how much it made."""
    from tests.benchmarks.synthetic import sentences

    if step == "chunks":
        from ingestion.chunking import Chunking, chunk_document
        from ingestion.tokenizers import load_tokenizer

        texts, tokenizer = ["\n\n".join(sentences(n, 800)) for n in range(size)], load_tokenizer("cl100k_base")
        documents = [{"doc_id": str(n), "text": text, "elements": []} for n, text in enumerate(texts)]
        recursive = Chunking("recursive", 256, 32)
        return lambda: len([row for d in documents for row in chunk_document(d, tokenizer.spans(d["text"]), recursive)])
    if step == "bm25":
        from rag_eval_assets.retrieval.bm25 import Bm25Index, analyse

        texts = [" ".join(sentences(n, 200)) for n in range(size)]
        analyse(texts[:1], ["en"], "by_language")
        return lambda: len(Bm25Index(analyse(texts, ["en"] * size, "by_language"), k1=1.2, b=0.75).search(["water"], None, 10).positions)
    if step == "embeddings":
        from rag_eval_assets.resources.embedders import load_embedder

        embedder = load_embedder("minilm", "minilm", batch=8, threads=1)
        texts = [" ".join(sentences(n, 120)) for n in range(size)]
        embedder.embed(texts[:1])
        return lambda: len(embedder.embed(texts))
    from rag_eval_assets.retrieval.dense import HnswIndex, load_faiss
    from tests.benchmarks.ann_speed import WIDTH, clustered

    rng = np.random.default_rng(7)
    vectors = clustered(size, rng, rng.standard_normal((64, WIDTH), dtype=np.float32))
    load_faiss()
    return lambda: HnswIndex(vectors, m=16, ef_construction=100).index.ntotal


@dataclass(frozen=True)
class Run:
    """Processor seconds; memory in MiB when the work began, and at most."""

    size: int
    seconds: float
    before: float
    peak: float
    made: int


@dataclass(frozen=True)
class Result:
    runs: dict[str, list[Run]]

    def exponent(self, step: str) -> float:
        """Slope of log seconds over log size, least squares."""
        sizes, seconds = zip(*((run.size, run.seconds) for run in self.runs[step]), strict=True)
        return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])

    def lines(self) -> Iterator[str]:
        if "embeddings" not in self.runs:
            yield "embeddings: not installed"
        for step, runs in self.runs.items():
            yield f"{step}: cost grows as size to the {self.exponent(step):.2f}  (wanted: {WANTED} or less)"
            for run in runs:
                yield (
                    f"  {run.size:>6} {STEPS[step][0]}: {run.seconds / runs[0].seconds:6.1f} times the smallest, "
                    f"peak {run.peak:.0f} MiB, {run.peak - run.before:.0f} of it the work's"
                )


def measure(scale: float = 1.0) -> Result:
    """Run every step at every size; `scale` shrinks or enlarges the smallest sizes."""
    alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TOKENIZERS_PARALLELISM", "RAYON_NUM_THREADS"), "1")
    runs: dict[str, list[Run]] = {}
    for step, (_, smallest) in STEPS.items():
        if step == "embeddings" and unavailable("minilm"):
            continue
        for times in TIMES:
            size = max(2, round(smallest * scale)) * times
            command = [sys.executable, "-W", "ignore", "-c", _IN_A_FRESH_PROCESS, step, str(size)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, **alone})
            runs.setdefault(step, []).append(Run(size, **json.loads(done.stdout.splitlines()[-1])))
    return Result(runs)
