"""Means of a system's scores by split and slice, with intervals, counts and bounds.

What belongs here: which rows are in which denominator. What does not: a score (`ranking`, `answers`), an interval (`intervals`), a decision
(`gates`, `comparison`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingestion.rates import clustered_mean, method_of
from rag_eval_assets.scoring.clusters import question_clusters
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, SCORED

_KEYS = ("metric", "k", "cutoff", "unit", "stage")
_STATUSES = (SCORED, FAILED, NOT_APPLICABLE, MISSING)


def summarise(scores: pa.Table, questions: list[dict[str, Any]], slices: Sequence[str], minimum_support: int = 1) -> list[dict[str, Any]]:
    """Rows of system_summary from a table of system_scores: every measure, split and slice value.

    Slices are "all", "answerable", and the named columns or keys of `slices` of golden_questions; a question is in each value
    of a list. Ranking measures: the headline runs over scored, failed and missing rows, the last two counted 0. Others: over
    scored rows. not_applicable is in no denominator. Values lie between 0 and 1. `supported` marks means of at
    least `minimum_support` questions. Questions linked by gold documents are one cluster, and where a sample has two of one the interval
    is that of clusters.
    """
    questions = sorted(questions, key=lambda q: q["question_id"])
    place = {q["question_id"]: i for i, q in enumerate(questions)}
    members = _members(questions, slices)
    cluster_of = question_clusters(questions)
    clusters = np.array([place[cluster_of[q["question_id"]]] for q in questions], dtype=np.int64)
    columns = {name: scores.column(name).to_pylist() for name in (*_KEYS, "question_id", "status")}
    values = scores.column("value").fill_null(0.0).to_numpy(zero_copy_only=False)
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row, key in enumerate(zip(*(columns[name] for name in _KEYS), strict=True)):
        groups[key].append(row)
    rows = []
    for key in sorted(groups):
        status = np.full(len(questions), -1, dtype=np.int8)
        value = np.zeros(len(questions))
        for row in groups[key]:
            at = place.get(columns["question_id"][row])
            if at is not None:
                status[at] = _STATUSES.index(columns["status"][row])
                value[at] = values[row]
        for (split, name, slice_value), inside in members.items():
            found = _summary(value[inside], status[inside], clusters[inside], key[-1] == "ranking")
            where = {"split": split, "slice": name, "slice_value": slice_value}
            rows.append({**dict(zip(_KEYS, key, strict=True)), **where, **found, "supported": found["questions"] >= minimum_support})
    return rows


def slice_values(question: Mapping[str, Any], name: str) -> list[str]:
    """Values a question has in a slice: one, several for a list, none where it has none."""
    found = question.get(name)
    if found is None:
        found = json.loads(question.get("slices") or "{}").get(name)
    if found is None:
        return []
    several = found if isinstance(found, list | tuple) else [found]
    return sorted({str(v).lower() if isinstance(v, bool) else str(v) for v in several})


def _members(questions: list[dict[str, Any]], slices: Sequence[str]) -> dict[tuple[str, str, str], npt.NDArray[np.int64]]:
    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    names = sorted({*slices, "answerable"} - {"all"})
    for i, question in enumerate(questions):
        found[question["split"], "all", ""].append(i)
        for name in names:
            for value in slice_values(question, name):
                found[question["split"], name, value].append(i)
    return {key: np.array(found[key], dtype=np.int64) for key in sorted(found)}


def _summary(
    values: npt.NDArray[np.float64], status: npt.NDArray[np.int8], clusters: npt.NDArray[np.int64], ranking: bool
) -> dict[str, Any]:
    scored, failed, not_applicable, missing = (int((status == code).sum()) for code in range(len(_STATUSES)))
    seen = values[status == 0]
    lost = failed + missing
    counted = np.isin(status, [_STATUSES.index(s) for s in ((SCORED, FAILED, MISSING) if ranking else (SCORED,))])
    sample, groups = np.where(status == 0, values, 0.0)[counted], clusters[counted]
    repeated = len(np.unique(groups)) < groups.size
    lower, upper = clustered_mean(sample, groups.tolist()) if sample.size else (None, None)
    total = float(seen.sum())
    return {
        "mean": float(sample.mean()) if sample.size else None,
        "lower": lower,
        "upper": upper,
        "observed": float(seen.mean()) if scored else None,
        "if_failed_zero": total / (scored + lost) if scored + lost else None,
        "if_failed_one": (total + lost) / (scored + lost) if scored + lost else None,
        "questions": int(sample.size),
        "scored": scored,
        "failed": failed,
        "not_applicable": not_applicable,
        "missing": missing,
        "method": "clustered_betting" if repeated else method_of(sample),
    }
