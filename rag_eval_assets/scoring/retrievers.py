"""Retrievers by themselves and against those they are built on, split by split.

What belongs here: means with what stands behind them (failed and missing questions, ties, unjudged hits, what models read), paired
differences and the verdict on a gain, under limits set before looking. What does not: a score (`ranking`), chunkings compared (`sweep`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.scoring.intervals import bounded_mean, paired_difference
from rag_eval_assets.scoring.ranking import tie_spread
from rag_eval_assets.scoring.relevance import Labels, read_labels
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, SCORED

Row = dict[str, Any]
Measure = tuple[str, int, str, str]
"""Metric, k, what k counts, unit."""

GAIN, LOSS, UNDECIDED = "gain", "loss", "undecided"
KEEP, DROP = "keep", "drop"
_FUSIONS = ("rrf", "weighted", "convex")
_WRITTEN = ("rewrite", "multi_query", "hyde")
_COMPARED = ("nDCG", "R", "RR", "AP", "P")


@dataclass(frozen=True)
class Limits:
    """What decides, set before looking: the measure by document, the least gain, and the tokens models may read for a question."""

    metric: str
    k: int
    minimum: float
    model_tokens: int | None


def measure_name(metric: str, k: int, cutoff: str) -> str:
    """A measure as ir_measures writes it: nDCG@10, RR, R@5; a token budget is named as one."""
    return metric if not k else f"{metric}@{k}" if cutoff == "rank" else f"{metric}@{k} tokens"


def retriever_comparison(
    runs: pa.Table, scores: pa.Table, questions: list[Row], evidence: list[Row], *, ks: Sequence[int], limits: Limits
) -> list[Row]:
    """Rows of retriever_comparison from retrieval_runs and retrieval_scores of one chunking.

    A retriever by itself (`against` empty) has every measure; against each retriever it is built on, those of `_COMPARED`. Failed and
    missing questions count 0, on both sides of a pair. A gain is one whose 95% interval lies over the least gain, a loss one whose
    interval lies under 0. The deciding measure carries the decision: keep a gain within the budget of tokens, drop a loss or a gain
    over the budget. A fusion is not judged on the questions it was tuned on.
    """
    scored = _scores(scores)
    facts = _facts(runs)
    labels = read_labels(questions, evidence)
    unjudged = _unjudged(runs, labels, {q["question_id"]: q["split"] for q in questions}, ks)
    rows: list[Row] = []
    for split in sorted({key[1] for key in scored}):
        spread = _spread(runs, questions, evidence, split, ks)
        for (retriever, own_split, measure), own in sorted(scored.items()):
            if own_split != split or retriever not in facts:
                continue
            row = _alone(retriever, split, measure, own, facts[retriever], limits)
            tied = spread.get((retriever, measure[0], measure[1])) if measure[3] == "document" and measure[2] != "tokens" else None
            if tied is not None and own.values:
                share = own.scored / len(own.values)  # a failed question is 0 in any order
                row |= {"lowest": tied["lowest"] * share, "highest": tied["highest"] * share, "tied": tied["tied"]}
            if measure[2:] == ("rank", "document"):
                row["unjudged"] = unjudged.get((retriever, split, measure[1]))
            rows.append(row)
            if measure[0] in _COMPARED and measure[3] != "chunk":
                for lane in facts[retriever].lanes:
                    other = scored.get((lane, split, measure), _Scores())
                    rows.append(_against(row, lane, own, other, facts[retriever], limits, unjudged.get((lane, split, measure[1]))))
    return rows


@dataclass
class _Scores:
    """Values by question, failed and missing ones 0."""

    values: dict[str, float] = field(default_factory=dict)
    scored: int = 0
    failed: int = 0
    missing: int = 0
    reason: str | None = None


@dataclass
class _Facts:
    """What a retriever's rows state of it."""

    parameters: str
    kind: str
    lanes: tuple[str, ...]
    tuned_on: str | None
    model_tokens: float
    model_cost: float | None
    seconds: list[float]


def _scores(table: pa.Table) -> dict[tuple[str, str, Measure], _Scores]:
    found: dict[tuple[str, str, Measure], _Scores] = defaultdict(_Scores)
    names = ("retriever", "split", "metric", "k", "cutoff", "unit", "question_id", "value", "status", "reason")
    for lane, split, metric, k, cutoff, unit, question, value, status, reason in zip(*(table[n].to_pylist() for n in names), strict=True):
        own = found[lane, split, (metric, k, cutoff, unit)]
        if status == NOT_APPLICABLE:
            own.reason = own.reason or reason
            continue
        own.values[question] = value if status == SCORED else 0.0
        own.scored += status == SCORED
        own.failed += status == FAILED
        own.missing += status == MISSING
    return dict(found)


def _facts(runs: pa.Table) -> dict[str, _Facts]:
    found = {}
    names = sorted(set(runs["retriever"].unique().to_pylist()))
    own_of = {name: runs.filter(pc.equal(runs["retriever"], name)) for name in names}
    stated_of = {name: json.loads(own["parameters"][0].as_py()) for name, own in own_of.items()}
    for retriever, own in own_of.items():
        parameters, stated = own["parameters"][0].as_py(), stated_of[retriever]
        first = own.filter(pc.less_equal(own["rank"], 1))
        tokens, cost = pc.mean(first["model_tokens"]).as_py() or 0.0, pc.mean(first["model_cost"]).as_py()
        if stated["kind"] == "rerank":
            # The candidates are the leading hits of the lane and of the reranking alike.
            head = own.filter(pc.less_equal(own["rank"], stated["depth"]))
            tokens = (pc.sum(head["tokens"]).as_py() or 0) / max(1, first.num_rows)
        seconds = [s for s in first["seconds"].to_pylist() if s is not None]
        tuned = stated.get("tuned_on")
        of = tuple(stated.get("of", ()))
        if stated["kind"] in _WRITTEN:  # a model has to beat the expansion that needs none
            of += tuple(name for name, other in stated_of.items() if other["kind"] == "rm3")
        found[retriever] = _Facts(parameters, stated["kind"], of, tuned["split"] if tuned else None, tokens, cost, seconds)
    return found


def _unjudged(
    runs: pa.Table, labels: Mapping[str, Labels], split_of: Mapping[str, str], ks: Sequence[int]
) -> dict[tuple[str, str, int], float]:
    """Mean share, over labelled questions with hits, of the first k documents that carry no label at all (1 - Judged@k of ir_measures)."""
    rankings: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    table = runs.filter(pc.greater(runs["rank"], 0)).sort_by([("rank", "ascending")])
    for retriever, question, doc_id in zip(*(table[n].to_pylist() for n in ("retriever", "question_id", "doc_id")), strict=True):
        rankings[retriever, question].setdefault(doc_id)
    shares: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for (retriever, question), documents in sorted(rankings.items()):
        own = labels.get(question)
        if own is None or own.unlabelled:
            continue
        unknown = np.cumsum([doc_id not in own.documents for doc_id in documents])
        for k in ks:
            counted = min(k, len(unknown))
            shares[retriever, split_of[question], k].append(float(unknown[counted - 1] / counted))
    return {key: float(np.mean(found)) for key, found in shares.items()}


def _spread(runs: pa.Table, questions: list[Row], evidence: list[Row], split: str, ks: Sequence[int]) -> dict[tuple[str, str, int], Row]:
    own = runs.filter(pc.equal(runs["split"], split))
    asked = [q for q in questions if q["split"] == split]
    return {(row["retriever"], row["metric"], row["k"]): row for row in tie_spread(own, asked, evidence, ks=ks, by="retriever")}


@lru_cache(maxsize=512)
def _interval(values: tuple[float, ...]) -> tuple[float, float]:
    """Many measures of one ranking have the same values (recall and success with one gold document), and an interval takes milliseconds."""
    return bounded_mean(values)


def _alone(retriever: str, split: str, measure: Measure, own: _Scores, facts: _Facts, limits: Limits) -> Row:
    metric, k, cutoff, unit = measure
    values = list(own.values.values())
    lower, upper = _interval(tuple(sorted(values))) if values else (None, None)
    p50, p95 = np.percentile(facts.seconds, [50, 95]).tolist() if facts.seconds else (None, None)
    return {
        "retriever": retriever, "against": "", "kind": facts.kind, "split": split,
        "metric": metric, "k": k, "cutoff": cutoff, "unit": unit, "measure": measure_name(metric, k, cutoff),
        "questions": len(values), "failed": own.failed, "missing": own.missing,
        "mean": float(np.mean(values)) if values else None,
        "observed": float(sum(values) / own.scored) if own.scored else None,
        "against_mean": None, "difference": None, "lower": lower, "upper": upper,
        "lowest": None, "highest": None, "tied": None, "unjudged": None, "against_unjudged": None,
        "model_tokens": facts.model_tokens, "model_cost": facts.model_cost, "minimum_gain": limits.minimum, "verdict": "", "decision": "",
        "parameters": facts.parameters, "seconds_p50": p50, "seconds_p95": p95,
        "detail": None if values else own.reason,
    }  # fmt: skip


def _against(alone: Row, lane: str, own: _Scores, other: _Scores, facts: _Facts, limits: Limits, unjudged: float | None) -> Row:
    shared = sorted(own.values.keys() & other.values.keys())
    a, b = (np.array([side.values[q] for q in shared]) for side in (own, other))
    lower, upper = paired_difference(a, b) if shared else (None, None)
    verdict = UNDECIDED
    if lower is not None and upper is not None:
        verdict = GAIN if lower > limits.minimum else LOSS if upper < 0 else UNDECIDED
    decides = (alone["metric"], alone["k"], alone["cutoff"], alone["unit"]) == (limits.metric, limits.k, "rank", "document")
    decision, why = _decided(verdict, alone, facts, limits) if decides else ("", [])
    if verdict == LOSS and facts.kind in _FUSIONS:
        why.append(f"the fusion loses to its lane {lane}")
    if not shared:
        why.append(own.reason or other.reason or "no question is scored on both sides")
    return {
        **alone,
        "against": lane,
        "questions": len(shared),
        "mean": float(a.mean()) if shared else None,
        "observed": None,
        "against_mean": float(b.mean()) if shared else None,
        "difference": float((a - b).mean()) if shared else None,
        "lower": lower,
        "upper": upper,
        "lowest": None,
        "highest": None,
        "tied": None,
        "against_unjudged": unjudged if alone["unjudged"] is not None else None,
        "verdict": verdict,
        "decision": decision,
        "detail": "; ".join(why) or None,
    }


def _decided(verdict: str, alone: Row, facts: _Facts, limits: Limits) -> tuple[str, list[str]]:
    if facts.tuned_on == alone["split"]:
        return UNDECIDED, ["tuned on these questions, so they do not judge it"]
    if verdict == LOSS:
        return DROP, []
    if verdict == UNDECIDED:
        return UNDECIDED, []
    if limits.model_tokens is not None and facts.model_tokens > limits.model_tokens:
        return DROP, [f"a model reads {facts.model_tokens:.0f} tokens for a question, {limits.model_tokens} are allowed"]
    return KEEP, []
