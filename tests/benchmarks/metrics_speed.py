"""Four ranking metrics for every question, from disk, each side in a fresh process: ours from Parquet, pytrec_eval's from JSON.

Both read run and labels, score nDCG@10, R@100, AP and RR, and end with one value for each question and metric.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_assets.tables import TABLES

WANTED = 1.2
"""Times as slow as pytrec_eval, at most."""
_ROUNDS = 3

_OURS = """
import sys, pyarrow.parquet as pq
from rag_eval_assets.scoring.ranking import score_rankings
folder = sys.argv[1]
runs = pq.read_table(f"{folder}/runs.parquet")
questions = pq.read_table(f"{folder}/questions.parquet").to_pylist()
evidence = pq.read_table(f"{folder}/evidence.parquet").to_pylist()
found = score_rankings(runs, questions, evidence, ks=(10, 100), token_budgets=(), by=None)
assert found.num_rows
"""
_THEIRS = """
import json, sys, pytrec_eval
folder = sys.argv[1]
run, qrels = json.load(open(f"{folder}/run.json")), json.load(open(f"{folder}/qrels.json"))
found = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.100", "map", "recip_rank"}).evaluate(run)
assert len(found) == len(qrels)
"""


@dataclass(frozen=True)
class MetricsSpeed:
    """Seconds of each whole process, best of some rounds in turn."""

    questions: int
    depth: int
    ours: float
    theirs: float

    def lines(self) -> list[str]:
        ratio = self.ours / self.theirs
        return [
            f"{self.questions} questions x {self.depth} documents: ours {self.ours:.2f} s with every metric and unit, "
            f"pytrec_eval from JSON {self.theirs:.2f} s with four, ratio {ratio:.2f} (wanted at most {WANTED})"
        ]


def _write(folder: Path, questions: int, depth: int) -> None:
    rng = np.random.default_rng(5)
    ids = [f"q{n:05}" for n in range(questions)]
    documents = [[f"d{n}" for n in rng.choice(100_000, depth, replace=False)] for _ in ids]
    gold = {q: {own[int(at)]: 1 for at in rng.integers(0, depth, 3)} for q, own in zip(ids, documents, strict=True)}
    run = {q: {d: float(depth - at) for at, d in enumerate(own)} for q, own in zip(ids, documents, strict=True)}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "qrels.json").write_text(json.dumps(gold))
    flat = [d for own in documents for d in own]
    ranks = np.tile(np.arange(1, depth + 1), questions)
    columns = {
        "question_id": np.repeat(ids, depth), "split": ["release"] * len(flat), "rank": ranks, "chunk_id": [f"{d}#0-9" for d in flat],
        "doc_id": flat, "start": [0] * len(flat), "end": [9] * len(flat), "tokens": [3] * len(flat), "score": depth + 1.0 - ranks,
        "status": ["ok"] * len(flat), "reason": [None] * len(flat),
    }  # fmt: skip
    schema = TABLES["retrieval_runs"].schema
    pq.write_table(pa.table({n: pa.array(v, schema.field(n).type) for n, v in columns.items()}), folder / "runs.parquet")
    asked = [{"question_id": q, "split": "release", "answerable": True, "relevant": []} for q in ids]
    pq.write_table(pa.Table.from_pylist(asked), folder / "questions.parquet")
    labels = [
        {"question_id": q, "label": "relevant", "group": d, "item": 0, "doc_id": d, "kept_doc_id": d, "start": None, "end": None,
         "quotation": None, "grade": g, "entitled": True, "lost_at": None}
        for q, own in gold.items() for d, g in own.items()
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(labels), folder / "evidence.parquet")


def _seconds(code: str, folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    return time.perf_counter() - started


def measure(scratch: Path, questions: int, depth: int = 100) -> MetricsSpeed:
    """Both sides in turn on files written once."""
    _write(scratch, questions, depth)
    rounds = [(_seconds(_OURS, scratch), _seconds(_THEIRS, scratch)) for _ in range(_ROUNDS)]
    return MetricsSpeed(questions, depth, min(r[0] for r in rounds), min(r[1] for r in rounds))
