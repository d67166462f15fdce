"""What a system's answers cost: percentiles of time, tokens and money over the questions of a split, and how often a cache spared it.

What belongs here: reading what was recorded. What a reply recorded is content, not a timing of a run: making a row again from the response
store gives the same figure. Seconds of this machine and cache hits are of the run that made the rows; they stand in columns that no version
depends on, and become content where a gate names them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rag_eval_assets.scoring.relevance import Row
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, SCORED

MEASURES = {
    "reply_seconds": ("total", "s"),
    "first_token_seconds": ("first_token", "s"),
    "prompt_tokens": ("prompt", "tokens"),
    "completion_tokens": ("completion", "tokens"),
    "cost": ("query", "price table's currency"),
}
"""Columns of answers that hold a recorded figure: the stage they measure, and their unit."""

RUN_SECONDS = {"retrieval_seconds": ("retrieval", "s"), "generation_seconds": ("generation", "s")}
"""Seconds of the run that made a ranking, or an answer in this process."""

REUSE = {"answer_reuse": ("cache", "share"), "retrieval_reuse": ("cache", "share")}
RUN_RATES = {"reply_hits": ("cache", "share"), **REUSE}
"""Shares of the last run: replies that needed no call, and rows of answers and of rankings that were kept, where there was one to keep."""

RUN_MEASURES = RUN_SECONDS | RUN_RATES
PERCENTILES = (50, 95, 99)
FIGURES = (*(f"p{p}" for p in PERCENTILES), "mean", "total")
"""Figures of a measure; of a rate the last two alone."""


def system_costs(answers: Iterable[Row], retrievals: Iterable[Row] = (), gated: Collection[str] = ()) -> list[dict[str, Any]]:
    """Rows of system_costs: every measure in every split, over the rows of answers, or rankings of system_retrievals, that have it.

    A percentile is a figure that was observed: the smallest that at least p percent do not exceed (nearest rank). Answers whose reply
    failed or recorded nothing are counted beside; where none recorded anything the row is not_applicable, nothing_to_measure. `gated`
    names the measures of the run that gates judge.
    """
    by_split: dict[str, list[Row]] = defaultdict(list)
    for row in answers:
        by_split[row["split"]].append(row)
    # Every row of a ranking carries what is said of the whole.
    rankings = {row["question_id"]: row for row in retrievals}
    ranked: dict[str, list[Row]] = defaultdict(list)
    for row in rankings.values():
        ranked[row["split"]].append(row)
    rows = []
    for split, own in sorted(by_split.items()):
        rows += [_row(split, measure, kind, own, [a[measure] for a in own]) for measure, kind in MEASURES.items()]
        found = {
            "retrieval_seconds": (ranked[split], [r["seconds"] for r in ranked[split]]),
            "generation_seconds": (own, [a["seconds"] for a in own]),
            "reply_hits": (own, [None if a["attempts"] is None else a["origin"] not in ("asked", "first_asked") for a in own]),
            "answer_reuse": (own, _kept(own)),
            "retrieval_reuse": (ranked[split], _kept(ranked[split])),
        }
        for measure, kind in RUN_MEASURES.items():
            of, values = found[measure]
            run = _row(split, measure, kind, of, values)
            figures = {name: None if measure in RUN_RATES and name.startswith("p") else run[name] for name in FIGURES}
            if measure in gated:
                row = run | figures
            else:  # a run has earlier rows to keep or has none: without a gate that counts no more than the shares do
                counted = [None if row["origin"] is None else 0.0 for row in of] if measure in REUSE else values
                row = _row(split, measure, kind, of, counted) | dict.fromkeys(FIGURES)
            rows.append(row | {f"run_{name}": value for name, value in figures.items()})
    return rows


def _kept(rows: Iterable[Row]) -> list[bool | None]:
    """Whether each row was kept; None where no earlier row was there to keep, or nothing is known."""
    origins = [row["origin"] for row in rows]
    return [None if origin is None or origin.startswith("first_") else origin == "reused" for origin in origins]


def _row(split: str, measure: str, kind: tuple[str, str], rows: Sequence[Row], recorded: Iterable[float | None]) -> dict[str, Any]:
    values = sorted(float(value) for value in recorded if value is not None)
    asked = [row for row in rows if row["status"] != NOT_APPLICABLE]
    return {
        "split": split,
        "measure": measure,
        "stage": kind[0],
        "unit": kind[1],
        **{f"p{p}": nearest_rank(values, p) for p in PERCENTILES},
        "mean": math.fsum(values) / len(values) if values else None,
        "total": math.fsum(values) if values else None,
        **dict.fromkeys(f"run_{name}" for name in FIGURES),
        "questions": len(asked),
        "scored": len(values),
        "failed": sum(row["status"] == FAILED for row in asked),
        "status": SCORED if values else NOT_APPLICABLE,
        "reason": None if values else "nothing_to_measure",
    }


def gated_measures(gates: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Measures of the run that gates, settings by name, judge."""
    named = {str(gate["metric"]).rpartition("_")[0] for gate in gates.values() if gate["source"] == "system_costs"}
    return sorted(named & RUN_MEASURES.keys())


def nearest_rank(ordered: Sequence[float], percent: int) -> float | None:
    """The smallest of ascending values that at least `percent` of them do not exceed; None of none."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else None
