"""Failed questions answered again under one changed condition at a time, and the step that this implicates.

What belongs here: which replays are made of a failed question and how their outcomes are read. What does not: retrieval (a replay
reuses the stored ranking and calls no retriever) and following evidence (`funnel`). A label says which step is implicated for
the questions observed; it claims no cause and nothing about other questions.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rag_eval_assets.scoring.answers import score_answers
from rag_eval_assets.scoring.relevance import Labels, Row, Span, read_labels
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, OK, SCORED, WHOLE_LOG

INTERVENTIONS = ("control", "gold_context", "larger_top_k", "larger_budget")
"""What is tried of every failed question; beside these, `reranker=NAME` for each reranker named."""

ENLARGED = 2
"""Factor by which larger_top_k and larger_budget enlarge the one limit they change, where settings name no limit."""

NOT_FAILED = "none"
"""Label of a question that did not fail."""

_WHY = {
    "relevant_lost_in_ingestion": "evidence_lost_in_ingestion",
    "relevant_filtered_out": "filtered_out",
    "relevant_not_retrieved": "retrieval_miss",
    "relevant_ranked_out": "ranked_out",
    "relevant_dropped_from_context": "context_assembly_loss",
    "fails_with_evidence_in_context": "generation_failure",
}
"""What was observed of a question's evidence, by how early it was lost, and the step that implicates if gold context recovers it."""

SAME_CONTEXT = "which delivers the same context"
"""Said of a replay whose change reached nothing: all was delivered before, or in this order."""

EXPERIMENTS = {
    "evidence_lost_in_ingestion": "another parser or cleaning rule, see parse_quality",
    "filtered_out": "a soft filter, see filter_decision",
    "retrieval_miss": "another retriever, expansion or chunking, see retriever_comparison and chunk_sweep",
    "ranked_out": "a larger top_k or a reranker",
    "context_assembly_loss": "a larger token budget or shorter chunks",
    "generation_failure": "another prompt or model",
    "unstable": "the same question repeated",
}
"""Label -> the candidate experiment; a replay of failed questions proposes it, all questions decide it."""

Score = Callable[[str, list[str]], Sequence[float]]
"""A reranker: question and passages -> a number for each passage."""
Read = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], dict[str, Any]]
Assemble = Callable[[list[dict[str, Any]], dict[str, Any]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Replay:
    """Outcome of one replay; `recovered` is None where it was not made or failed."""

    recovered: bool | None
    status: str
    reason: str | None
    context_sha256: str | None = None
    answer: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Trials:
    """What is tried beside control and gold context: limits in place of twice the system's own, and rerankers of the recorded ranking.

    A reranker that could not be opened stands there as the replay that says why.
    """

    top_k: int | None = None
    budget: int | None = None
    rerankers: Mapping[str, Score | Replay] = field(default_factory=dict)

    def limits(self, spec: Row) -> tuple[int, int | None]:
        """The top_k and the token budget tried of a system."""
        budget = spec["token_budget"]
        return self.top_k or ENLARGED * spec["top_k"], None if budget is None else self.budget or ENLARGED * budget


@dataclass(frozen=True)
class _Run:
    """How a system is replayed."""

    spec: dict[str, Any]
    read: Read
    assemble: Assemble
    pass_metric: str
    trials: Trials


def diagnose(
    questions: list[dict[str, Any]],
    evidence: list[dict[str, Any]],
    spec: dict[str, Any],
    retrievals: list[dict[str, Any]],
    contexts: list[dict[str, Any]],
    answers: list[dict[str, Any]],
    scores: list[dict[str, Any]],
    read: Read,
    *,
    assemble: Assemble,
    pass_metric: str = "correct",
    exclusion: Iterable[Row] = (),
    trials: Trials | None = None,
) -> list[dict[str, Any]]:
    """Rows of diagnosis: a control row for every question, and every intervention for those that failed.

    A question failed if `pass_metric` scored it below 1 or could not be scored though it should. `read` (question, context, spec) answers
    and `assemble` (system_retrievals, spec) delivers, as the system did. The control answers the stored context again: if that passes, the
    failure is unstable and nothing is implicated. A failed question without `gold_context` is not diagnosable; its other replays are
    shown all the same. `exclusion` are rows of filter_exclusion: what the built-in retrievers were not allowed to find.
    """
    run = _Run(spec, read, assemble, pass_metric, trials or Trials())
    hidden = {r["question_id"]: set(r["excluded_documents"] or ()) for r in exclusion} if spec["chunking"] is not None else {}
    labels = read_labels(questions, evidence)
    ranked: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(retrievals, key=lambda r: (r["question_id"], r["rank"])):
        ranked[row["question_id"]].append(row)
    context_of = {c["question_id"]: c for c in contexts}
    answer_of = {a["question_id"]: a for a in answers}
    passed = {r["question_id"]: r for r in scores if r["metric"] == pass_metric}
    rows = []
    for question in sorted(questions, key=lambda q: q["question_id"]):
        name = question["question_id"]
        score = passed.get(name)
        if score is not None and (score["status"] == NOT_APPLICABLE or score["value"] == 1):
            reason = score["reason"] if score["status"] == NOT_APPLICABLE else "not_failed"
            replay = Replay(None, NOT_APPLICABLE, reason)
            rows.append(_row(question, "control", replay, NOT_FAILED, None, None, None))
            continue
        own, context = labels[name], context_of.get(name)
        replays = _replays(question, ranked[name], context, evidence, run)
        observed, best = _observe(own, ranked[name], spec["top_k"], context, hidden.get(name, set()))
        label, why = _implicate(question, replays, observed)
        first = answer_of.get(name)
        for intervention, replay in replays.items():
            again = intervention != "control" and replay.context_sha256 == replays["control"].context_sha256
            detail = _detail(intervention, replay, label, run, first, again)
            rows.append(_row(question, intervention, replay, label, why, best, detail))
    return rows


def _replays(
    question: dict[str, Any], ranked: list[dict[str, Any]], context: dict[str, Any] | None, evidence: list[dict[str, Any]], run: _Run
) -> dict[str, Replay]:
    own_evidence = [e for e in evidence if e["question_id"] == question["question_id"]]

    def replay(delivered: dict[str, Any] | None) -> Replay:
        if delivered is None:
            return Replay(None, FAILED, "upstream_failed")
        answer = run.read(question, delivered, run.spec)
        scored = score_answers([question], [delivered], [answer], own_evidence, require_citations=run.spec["require_citations"])
        row = next(r for r in scored if r["metric"] == run.pass_metric)
        recovered = row["value"] == 1 if row["status"] == SCORED else None
        reason = None if row["status"] == SCORED else row["reason"]
        return Replay(recovered, row["status"], reason, delivered["context_sha256"], answer["answer"])

    def delivered_under(rows: list[dict[str, Any]], **changed: Any) -> dict[str, Any] | None:
        return next(iter(run.assemble(rows, {**run.spec, **changed})), None)

    def reranked(score: Score | Replay) -> Replay:
        found = score if isinstance(score, Replay) else rerank(question["text"], ranked, score)
        return found if isinstance(found, Replay) else replay(delivered_under(found))

    names = [*INTERVENTIONS[1:], *map(reranker_name, run.trials.rerankers)]
    found = {"control": replay(context)}
    if not question["answerable"]:
        return found | {name: Replay(None, NOT_APPLICABLE, "unanswerable") for name in names}
    gold = question["gold_context"]
    found["gold_context"] = replay(_gold(question)) if gold else Replay(None, NOT_APPLICABLE, "no_gold_context")
    top_k, budget = run.trials.limits(run.spec)
    without = Replay(None, NOT_APPLICABLE, "not_diagnosable")
    found["larger_top_k"] = replay(delivered_under(ranked, top_k=top_k)) if top_k > run.spec["top_k"] else without
    larger = budget is not None and budget > run.spec["token_budget"]
    found["larger_budget"] = replay(delivered_under(ranked, token_budget=budget)) if larger else without
    return found | {reranker_name(name): reranked(score) for name, score in run.trials.rerankers.items()}


def reranker_name(name: str) -> str:
    """The intervention that a reranker is."""
    return f"reranker={name}"


def rerank(question: str, ranked: list[dict[str, Any]], score: Score) -> list[dict[str, Any]] | Replay:
    """The recorded ranking of one question in a reranker's order, or the replay that says why there is none.

    Equal scores (as float32) keep the order recorded. Nothing is retrieved: what the ranking lacks, no reranker finds.
    """
    hits = [row for row in ranked if row["rank"] > 0 and row["status"] == OK]
    if not hits:
        return ranked
    try:
        scores = np.asarray(score(question, [row["text"] for row in hits]), dtype=np.float32)
    except Exception as error:  # noqa: BLE001  a reranker that breaks on one question must not cost the others
        reason = "timeout" if isinstance(error, TimeoutError) else "crashed"
        return Replay(None, FAILED, reason, note=f"{type(error).__name__}: {error}")
    if scores.shape != (len(hits),):
        return Replay(None, FAILED, "unusable_reply", note=f"{scores.size} scores for {len(hits)} passages")
    if not np.isfinite(scores).all():
        return Replay(None, FAILED, "non_finite_score")
    order = np.argsort(-scores, kind="stable")
    return [{**hits[at], "rank": rank, "score": float(scores[at])} for rank, at in enumerate(order, 1)]


def _gold(question: Row) -> dict[str, Any]:
    """A context that holds the gold context and nothing else."""
    text = question["gold_context"]
    passage = {"position": 0, "rank": 1, "chunk_id": "gold_context", "doc_id": "", "start": None, "end": None, "text": text, "tokens": 0}
    return {
        "question_id": question["question_id"],
        "split": question["split"],
        "passages": [passage],
        "tokens": 0,
        "cut_by_top_k": [],
        "cut_by_budget": [],
        "context_truncated": False,
        "context_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "status": OK,
        "reason": None,
    }


def _observe(
    labels: Labels, ranked: list[dict[str, Any]], top_k: int, context: Row | None, hidden: set[str]
) -> tuple[str | None, int | None]:
    """Where the stored run lost its evidence first, over all groups, and the best rank of a relevant passage."""
    if not labels.groups:
        return None, None
    hits = [(r["rank"], (r["doc_id"], r["start"], r["end"])) for r in ranked if r["rank"] > 0 and r["status"] == OK]
    spans: list[Span] = [span for _, span in hits]
    delivered = [(p["doc_id"], p["start"], p["end"]) for p in (context or {}).get("passages") or ()]
    kept = [span for rank, span in hits if rank <= top_k]
    lost = set()
    for group in labels.groups:
        if group.whole_at(delivered) is not None:
            lost.add("fails_with_evidence_in_context")
        elif all(a.lost_at is not None for a in group.alternatives):
            lost.add("relevant_lost_in_ingestion")
        elif all(a.lost_at is not None or a.doc_id in hidden for a in group.alternatives):
            lost.add("relevant_filtered_out")
        elif group.whole_at(spans) is None:
            lost.add("relevant_not_retrieved")
        elif group.whole_at(kept) is None:
            lost.add("relevant_ranked_out")
        else:
            lost.add("relevant_dropped_from_context")
    best = next((rank for rank, span in hits if any(g.found_in(span) for g in labels.groups)), None)
    return next(why for why in _WHY if why in lost), best


def _implicate(question: Row, replays: Mapping[str, Replay], observed: str | None) -> tuple[str, str | None]:
    if replays["control"].recovered:
        return "unstable", "control_recovered"
    if not question["answerable"]:
        control = replays["control"]
        return ("not_diagnosable", control.reason) if control.recovered is None else ("generation_failure", "answered_unanswerable")
    gold = replays["gold_context"]
    if gold.recovered is None:
        return "not_diagnosable", observed or gold.reason
    if not gold.recovered:
        return "generation_failure", "fails_with_gold_context"
    if observed is not None:
        return _WHY[observed], observed
    reordered = [name for name in replays if name.startswith("reranker=")]
    if ranker := next((name for name in ("larger_top_k", *reordered) if replays[name].recovered), None):
        return "ranked_out", f"recovered_by_{ranker}"
    if replays["larger_budget"].recovered:
        return "context_assembly_loss", "recovered_by_larger_budget"
    return "not_diagnosable", "no_span_labels"


def _detail(intervention: str, replay: Replay, label: str, run: _Run, first: Row | None, again: bool) -> str | None:
    """A replay in a sentence; `again` where what it changed left the context as it was, so that it repeats the control."""
    (top_k, budget), own = run.trials.limits(run.spec), run.spec["top_k"]
    condition = {
        "control": "the stored context, answered again",
        "gold_context": "the gold context alone",
        "larger_top_k": "more than was logged" if own == WHOLE_LOG else f"top_k {top_k} in place of {own}",
        "larger_budget": f"token budget {budget} in place of {run.spec['token_budget']}",
    }.get(intervention, f"the recorded ranking in the order of {intervention.removeprefix('reranker=')}")
    if replay.recovered is None:
        text = f"{condition}: not replayed, or no verdict{f' ({replay.note})' if replay.note else ''}"
    else:
        text = f"{condition}{f', {SAME_CONTEXT}' if again else ''}: {'passes' if replay.recovered else 'fails again'}"
    if intervention == "control" and replay.recovered is not None and first is not None and first["status"] == OK:
        text += ", same answer" if first["answer"] == replay.answer else ", another answer"
    if label not in ("not_diagnosable", "unstable"):
        text += f"; implicated: {label.replace('_', ' ')}"
    return f"{text}; candidate experiment: {EXPERIMENTS[label]}" if label in EXPERIMENTS else text


def _row(
    question: Row, intervention: str, replay: Replay, label: str, why: str | None, best: int | None, detail: str | None
) -> dict[str, Any]:
    content = [question["question_id"], intervention, replay.context_sha256, replay.answer, replay.recovered, replay.status, replay.reason]
    return {
        "question_id": question["question_id"],
        "split": question["split"],
        "intervention": intervention,
        "recovered": replay.recovered,
        "label": label,
        "why": why,
        "best_rank": best,
        "result_id": hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32],
        "status": replay.status,
        "reason": replay.reason,
        "detail": detail,
    }
