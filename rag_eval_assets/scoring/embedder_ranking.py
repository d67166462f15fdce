"""Embedders ranked per language by what exact search with their vectors finds, with paired intervals.

What belongs here: which scores may be set side by side, and how far the difference carries. What does not: scoring a ranking
(`ranking`) and choosing a chunking (`sweep`). No figure here is pooled over languages: what holds for English says nothing for Dutch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.scoring.intervals import bounded_mean, paired_difference
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, SCORED

SPLIT = "development"
ENOUGH = 200
"""Questions under which a ranking is told with a warning."""

BEST = "best"
WORSE = "worse"
NOT_SHOWN = "not_shown_worse"
NO_SCORE = "no_score"

_METRICS = ("nDCG", "R")


def embedder_ranking(
    scores: Mapping[str, pa.Table], questions: Iterable[Mapping[str, Any]], retrievers: Mapping[str, Mapping[str, Any]], *, k: int
) -> list[dict[str, Any]]:
    """Rows of embedder_ranking from tables of retrieval_scores by chunking, rows of golden_questions and retriever parameters.

    Only retrievers of kind dense with exact search are ranked: an index in between would be measured too. For each chunking,
    language and measure (nDCG and R at `k` by document, development questions) the best mean comes first; a failed or missing question
    counts 0. The difference to the best is paired by question, its interval 95%: `worse` where it lies below 0, `not_shown_worse` else.
    """
    embedder_of = {name: p["embedder"] for name, p in retrievers.items() if p["kind"] == "dense" and p["index"] == "exact"}
    language_of = {q["question_id"]: q["language"] for q in questions if q["split"] == SPLIT}
    rows = []
    for chunking, table in sorted(scores.items()):
        for (metric, language), by_retriever in sorted(_read(table, embedder_of, language_of, k).items()):
            rows += _ranked(chunking, language, metric, k, by_retriever, embedder_of)
    return rows


_Found = dict[str, dict[str, tuple[float | None, str]]]


def _read(table: pa.Table, embedder_of: Mapping[str, str], language_of: Mapping[str, str], k: int) -> dict[tuple[str, str], _Found]:
    """Value and status of each question by (metric, language), then by retriever."""
    wanted = pc.and_(pc.and_(pc.equal(table["cutoff"], "rank"), pc.equal(table["unit"], "document")), pc.equal(table["k"], k))
    table = table.filter(pc.and_(wanted, pc.is_in(table["retriever"], pa.array(sorted(embedder_of), pa.string()))))
    found: dict[tuple[str, str], _Found] = defaultdict(lambda: defaultdict(dict))
    columns = (table[name].to_pylist() for name in ("retriever", "metric", "question_id", "value", "status"))
    for retriever, metric, question, value, status in zip(*columns, strict=True):
        if metric in _METRICS and question in language_of:
            found[metric, language_of[question]][retriever][question] = (value, status)
    return found


def _ranked(
    chunking: str, language: str, metric: str, k: int, by_retriever: _Found, embedder_of: Mapping[str, str]
) -> list[dict[str, Any]]:
    values = {retriever: _values(found) for retriever, found in by_retriever.items()}
    means = {retriever: float(np.mean(list(own.values()))) for retriever, own in values.items() if own}
    order = sorted(means, key=lambda retriever: (-means[retriever], retriever))
    best = order[0] if order else None
    rows = []
    for place, retriever in enumerate([*order, *sorted(set(values) - set(means))], 1):
        own = values[retriever]
        lower, upper = bounded_mean(list(own.values())) if own else (None, None)
        # The best differs from itself by nothing, and no interval is about that.
        shared = sorted(own.keys() & values[best].keys()) if best is not None and retriever != best else []
        a, b = (np.array([side[question] for question in shared]) for side in (own, values[best or retriever]))
        low, high = paired_difference(a, b) if shared else (None, None)
        rows.append({
            "chunking": chunking,
            "language": language,
            "metric": metric,
            "k": k,
            "split": SPLIT,
            "protocol": f"exact search over chunks of {chunking}, {metric}@{k} by document, failed and missing questions count 0",
            "retriever": retriever,
            "embedder": embedder_of[retriever],
            "place": place if own else None,
            "questions": len(own),
            "failed": sum(status in (FAILED, MISSING) for _, status in by_retriever[retriever].values()),
            "mean": means.get(retriever),
            "lower": lower,
            "upper": upper,
            "best": best if retriever != best else None,
            "paired": len(shared),
            "difference": float((a - b).mean()) if shared else None,
            "difference_lower": low,
            "difference_upper": high,
            "verdict": _verdict(retriever == best, bool(own), high),
            "warning": _warning(len(own), language),
            "status": SCORED if own else NOT_APPLICABLE,
            "reason": None if own else "no_embedder",
        })  # fmt: skip
    return rows


def _values(found: Mapping[str, tuple[float | None, str]]) -> dict[str, float]:
    scored = {question: value for question, (value, status) in found.items() if status == SCORED and value is not None}
    return scored | {question: 0.0 for question, (_, status) in found.items() if status in (FAILED, MISSING)}


def _verdict(is_best: bool, scored: bool, upper: float | None) -> str:
    if is_best:
        return BEST
    if not scored:
        return NO_SCORE
    return WORSE if upper is not None and upper < 0 else NOT_SHOWN


def _warning(questions: int, language: str) -> str | None:
    if not 0 < questions < ENOUGH:
        return None
    return f"{questions} questions in {language}; under {ENOUGH} an order may be chance"
