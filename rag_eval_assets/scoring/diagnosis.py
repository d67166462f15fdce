"""Failed questions answered again under one changed condition at a time, and the step that this implicates.

What belongs here: which replays are made of a failed question and how their outcomes are read. What does not: retrieval (a replay
reuses the stored ranking and calls no retriever) and following evidence (`funnel`). A label says which step is implicated for
the questions observed; it claims no cause and nothing about other questions.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rag_eval_assets.scoring.answers import score_answers
from rag_eval_assets.scoring.relevance import Labels, Row, Span, read_labels
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, OK, SCORED

INTERVENTIONS = ("control", "gold_context", "larger_top_k", "larger_budget")

ENLARGED = 2
"""Factor by which larger_top_k and larger_budget enlarge the one limit they change."""

NOT_FAILED = "none"
"""Label of a question that did not fail."""

_WHY = {
    "relevant_lost_in_ingestion": "evidence_lost_in_ingestion",
    "relevant_not_retrieved": "retrieval_miss",
    "relevant_ranked_out": "ranked_out",
    "relevant_dropped_from_context": "context_assembly_loss",
    "fails_with_evidence_in_context": "generation_failure",
}
"""What was observed of a question's evidence, by how early it was lost, and the step that implicates if gold context recovers it."""

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
) -> list[dict[str, Any]]:
    """Rows of diagnosis: a control row for every question, and every intervention for those that failed.

    A question failed if `pass_metric` scored it below 1 or could not be scored though it should. `read` (question, context, spec) answers
    and `assemble` (system_retrievals, spec) delivers, as the system did. The control answers the stored context again: if that passes, the
    failure is unstable and nothing is implicated. A failed question without `gold_context` is not diagnosable; its other replays are
    shown all the same.
    """
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
        replays = _replays(question, spec, ranked[name], context, evidence, read, assemble, pass_metric)
        observed, best = _observe(own, ranked[name], spec["top_k"], context)
        label, why = _implicate(question, replays, observed)
        first = answer_of.get(name)
        for intervention, replay in replays.items():
            detail = _detail(intervention, replay, label, spec, question, first)
            rows.append(_row(question, intervention, replay, label, why, best, detail))
    return rows


def _replays(
    question: dict[str, Any],
    spec: dict[str, Any],
    ranked: list[dict[str, Any]],
    context: dict[str, Any] | None,
    evidence: list[dict[str, Any]],
    read: Read,
    assemble: Assemble,
    pass_metric: str,
) -> dict[str, Replay]:
    own_evidence = [e for e in evidence if e["question_id"] == question["question_id"]]

    def replay(delivered: dict[str, Any] | None) -> Replay:
        if delivered is None:
            return Replay(None, FAILED, "upstream_failed")
        answer = read(question, delivered, spec)
        scored = score_answers([question], [delivered], [answer], own_evidence, require_citations=spec["require_citations"])
        row = next(r for r in scored if r["metric"] == pass_metric)
        recovered = row["value"] == 1 if row["status"] == SCORED else None
        reason = None if row["status"] == SCORED else row["reason"]
        return Replay(recovered, row["status"], reason, delivered["context_sha256"], answer["answer"])

    def delivered_under(**changed: Any) -> dict[str, Any] | None:
        return next(iter(assemble(ranked, {**spec, **changed})), None)

    found = {"control": replay(context)}
    if not question["answerable"]:
        return found | {name: Replay(None, NOT_APPLICABLE, "unanswerable") for name in INTERVENTIONS[1:]}
    gold = question["gold_context"]
    found["gold_context"] = replay(_gold(question)) if gold else Replay(None, NOT_APPLICABLE, "no_gold_context")
    found["larger_top_k"] = replay(delivered_under(top_k=ENLARGED * spec["top_k"]))
    budget = spec["token_budget"]
    without = Replay(None, NOT_APPLICABLE, "not_diagnosable")
    found["larger_budget"] = without if budget is None else replay(delivered_under(token_budget=ENLARGED * budget))
    return found


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


def _observe(labels: Labels, ranked: list[dict[str, Any]], top_k: int, context: Row | None) -> tuple[str | None, int | None]:
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
    if replays["larger_top_k"].recovered:
        return "ranked_out", "recovered_by_larger_top_k"
    if replays["larger_budget"].recovered:
        return "context_assembly_loss", "recovered_by_larger_budget"
    return "not_diagnosable", "no_span_labels"


def _detail(intervention: str, replay: Replay, label: str, spec: Row, question: Row, first: Row | None) -> str | None:
    condition = {
        "control": "the stored context, answered again",
        "gold_context": "the gold context alone",
        "larger_top_k": f"top_k {ENLARGED * spec['top_k']} in place of {spec['top_k']}",
        "larger_budget": f"token budget {ENLARGED * (spec['token_budget'] or 0)} in place of {spec['token_budget']}",
    }[intervention]
    if replay.recovered is None:
        return f"{condition}: not replayed, or no verdict"
    text = f"{condition}: {'passes' if replay.recovered else 'fails again'}"
    if intervention == "control" and first is not None and first["status"] == OK:
        text += ", same answer" if first["answer"] == replay.answer else ", another answer"
    if label == "retrieval_miss" and question.get("filter"):
        text += "; the question has a filter, see filter_exclusion"
    return f"{text}; implicated: {label.replace('_', ' ')}" if label not in ("not_diagnosable", "unstable") else text


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
