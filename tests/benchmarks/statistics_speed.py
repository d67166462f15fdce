"""Means with intervals, and paired decisions against a baseline, for many questions, metrics and slices, each in one call.

Every metric is claimed in the policy and shown in every slice, so that each (metric, slice) pair is weighed.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rag_eval_assets.scoring.comparison import compare
from rag_eval_assets.scoring.summary import summarise
from rag_eval_assets.tables import TABLES

WANTED = 5.0
"""Seconds of both calls together, at most."""
_FIELDS = 4
Row = dict[str, Any]


@dataclass(frozen=True)
class StatisticsSpeed:
    """Seconds (elapsed, of processor) of each call, imports apart, with the rows it gave."""

    questions: int
    metrics: int
    slices: int
    summary: tuple[float, float, int]
    comparison: tuple[float, float, int]

    def lines(self) -> list[str]:
        total, cpu = (self.summary[i] + self.comparison[i] for i in (0, 1))
        return [
            f"{self.questions} questions x {self.metrics} metrics x {self.slices} slices: summary {self.summary[0]:.2f} s "
            f"({self.summary[2]} rows), comparison {self.comparison[0]:.2f} s ({self.comparison[2]} rows), "
            f"together {total:.2f} s, {cpu:.2f} s of processor (wanted at most {WANTED:g})"
        ]


def _questions(number: int, slices: int, rng: np.random.Generator) -> list[Row]:
    values = slices // _FIELDS
    blank = {field.name: None for field in TABLES["golden_questions"].schema}
    found = []
    for n in range(number):
        own = {f"field{f}": str(rng.integers(values)) for f in range(_FIELDS)}
        labels = [{"document": f"d{rng.integers(number)}", "grade": 1, "chunk": None}]
        more = {"split": "release", "answerable": True, "slices": json.dumps(own), "relevant": labels, "evidence": [], "nuggets": []}
        found.append({**blank, "question_id": f"q{n:05}", **more})
    return found


def _scores(questions: list[Row], metrics: int, rng: np.random.Generator) -> list[Row]:
    """A third of the metrics are rates, the others means of bounded scores; one question in fifty failed."""
    rows = []
    for m in range(metrics):
        values = rng.random(len(questions))
        for question, value in zip(questions, values > 0.3 if m % 3 == 0 else values, strict=True):
            failed = rng.random() < 0.02
            rows.append({
                "question_id": question["question_id"], "split": "release", "metric": f"metric{m:02}", "k": 0, "cutoff": "none",
                "unit": "question", "value": None if failed else float(value), "status": "failed" if failed else "scored",
                "reason": "timeout" if failed else None, "stage": "answer", "explanation": None,
            })  # fmt: skip
    return rows


def _timed(rows: Any) -> tuple[float, float, int]:
    elapsed, processor = time.perf_counter(), time.process_time()
    found = rows()
    return time.perf_counter() - elapsed, time.process_time() - processor, len(found)


def measure(questions: int = 1_000, metrics: int = 12, slices: int = 20) -> StatisticsSpeed:
    """Both calls once on drawn scores. `slices` are values of four fields; a first call on little loads what is imported late."""
    rng = np.random.default_rng(11)
    names = tuple(f"field{f}" for f in range(_FIELDS))
    claims = {
        f"m{m}": {"metric": f"metric{m:02}", "k": 0, "cutoff": "none", "unit": "question", "claim": "non_inferiority", "margin": 0.02}
        for m in range(metrics)
    }
    policy = {
        "confidence": 0.95, "split": "release", "claims": claims, "maximum_excluded": 0.1,
        "exploratory": {"margin": 0.02, "slices": names, "minimum_support": 20},
    }  # fmt: skip

    def calls(number: int) -> tuple[tuple[float, float, int], tuple[float, float, int]]:
        asked = _questions(number, slices, rng)
        now, before = _scores(asked, metrics, rng), _scores(asked, metrics, rng)
        saved = [{**row, "baseline": "june", "system": "s", "identities": "{}"} for row in before]
        schema = TABLES["system_scores"].schema
        table = pa.Table.from_pylist(now, schema=pa.schema([schema.field(name) for name in now[0]]))
        return _timed(lambda: summarise(table, asked, names)), _timed(lambda: compare(now, saved, asked, {}, policy))

    calls(40)
    summary, comparison = calls(questions)
    return StatisticsSpeed(questions, metrics, slices, summary, comparison)
