"""Four ranking metrics for every question, from disk, each side in a fresh process: ours from Parquet, pytrec_eval's from JSON.

Both read run and labels, score nDCG@10, R@100, AP and RR, and end with one value for each question and metric; the values are then
compared. Ours makes all its measures of all units meanwhile, for there is no way to ask for four, and reads ids as Parquet keeps
them, in dictionaries.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_assets.tables import TABLES

WANTED = 1.2
"""Times as slow as pytrec_eval, at most."""
_ROUNDS = 3

_AGREE = 1e-9
_METRICS = {("nDCG", 10): "ndcg_cut_10", ("R", 100): "recall_100", ("AP", 0): "map", ("RR", 0): "recip_rank"}

_OURS = """
import sys
import pyarrow.parquet as pq
from rag_eval_assets.scoring.ranking import score_rankings
ids = ["question_id", "chunk_id", "doc_id"]
runs = pq.ParquetFile(f"{sys.argv[1]}/runs.parquet", read_dictionary=ids).read()
questions, evidence = (pq.ParquetFile(f"{sys.argv[1]}/{name}.parquet").read().to_pylist() for name in ("questions", "evidence"))
found = score_rankings(runs, questions, evidence, ks=(10, 100), token_budgets=(), by=None)
"""
_THEIRS = """
import json, sys
import pytrec_eval
run, qrels = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("run", "qrels"))
found = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.100", "map", "recip_rank"}).evaluate(run)
"""
_TELL_OURS = """
import json
print(json.dumps([[r["question_id"], r["metric"], r["k"], r["value"]] for r in found.to_pylist() if r["unit"] == "document"]))
"""
_TELL_THEIRS = """
print(json.dumps(found))
"""


class Seconds(NamedTuple):
    """Of one whole process: on the clock, and of the processor, which a busy machine disturbs less."""

    clock: float
    processor: float


@dataclass(frozen=True)
class MetricsSpeed:
    """Least seconds of each side, over some rounds in turn, and the largest difference between two values."""

    questions: int
    depth: int
    ours: Seconds
    theirs: Seconds
    difference: float

    def lines(self) -> list[str]:
        ratios = [mine / other for mine, other in zip(self.ours, self.theirs, strict=True)]
        return [
            f"{self.questions} questions x {self.depth} documents, all values within {self.difference:.0e} of pytrec_eval's:",
            f"clock: ours {self.ours.clock:.2f} s, pytrec_eval from JSON {self.theirs.clock:.2f} s, ratio {ratios[0]:.2f}",
            f"processor: ours {self.ours.processor:.2f} s, pytrec_eval from JSON {self.theirs.processor:.2f} s, ratio {ratios[1]:.2f}",
            f"(wanted at most {WANTED})",
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


def _seconds(code: str, folder: Path) -> Seconds:
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Seconds(time.perf_counter() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _difference(folder: Path) -> float:
    """The largest difference between two values of the four metrics; AssertionError where a value is missing or differs."""
    told = [
        json.loads(subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, text=True).stdout)
        for code in (_OURS + _TELL_OURS, _THEIRS + _TELL_THEIRS)
    ]
    ours = {(question, _METRICS[metric, k]): value for question, metric, k, value in told[0] if (metric, k) in _METRICS}
    theirs = {(question, name): value for question, own in told[1].items() for name, value in own.items()}
    assert ours.keys() == theirs.keys()
    worst = max(abs(value - theirs[key]) for key, value in ours.items())
    assert worst <= _AGREE
    return worst


def measure(scratch: Path, questions: int, depth: int = 100) -> MetricsSpeed:
    """Both sides in turn on files written once."""
    _write(scratch, questions, depth)
    rounds = [(_seconds(_OURS, scratch), _seconds(_THEIRS, scratch)) for _ in range(_ROUNDS)]
    least = [Seconds(*(min(own[side][kind] for own in rounds) for kind in range(2))) for side in range(2)]
    return MetricsSpeed(questions, depth, least[0], least[1], _difference(scratch))
