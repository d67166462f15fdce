"""The evidence funnel: how far the evidence of each question got, and the first step that lost it.

What belongs here: following spans from the corpus to the answer of one system. What does not: why a step lost it (`diagnosis` answers a
failed question again to see) and the loss in ingestion, which `golden_evidence` has found already.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.scoring.citations import cited_groups
from rag_eval_assets.scoring.relevance import WHOLE, Alternative, Group, Row, Span, alternative
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, OK, STAGES

Spans = Mapping[str, Sequence[Span]]
_STAGES = tuple(STAGES)
_UNSEEN: dict[str, bool | None] = dict.fromkeys(("chunked", "exact_search", "index_search"), True)
"""Stages of a system that is not built in happen out of sight: what its ranking lacks is lost at ranked."""
_CARRIED = ("exact_search", "index_search", "ranked", "in_context")


def evidence_funnel(
    questions: list[dict[str, Any]],
    evidence: list[dict[str, Any]],
    exclusion: list[dict[str, Any]],
    chunks: pa.Table,
    runs: pa.Table,
    spec: Row,
    retrievals: list[dict[str, Any]],
    contexts: list[dict[str, Any]],
    scores: list[dict[str, Any]],
    *,
    retrievers: Mapping[str, Mapping[str, Any]] | None = None,
    pass_metric: str = "correct",
) -> list[dict[str, Any]]:
    """Rows of evidence_funnel: one per question and evidence group, or relevant document where a question has no groups.

    A group is where its furthest alternative is. Evidence is whole in a chunk, a ranking or a context by the rule of `relevance`;
    spans that two chunks share count once found together, though no chunk holds them. `exact_search` reads the exact lane of the
    same embedder where the system's retriever is an approximate one (`retrievers` holds their parameters) and that lane ran, else the
    retriever itself; a system without chunking is followed from its ranking on.
    Where the pass metric does not apply, evidence in the context is not counted as lost. Rows whose retriever did
    not run are not_applicable or failed, with its reason.
    """
    groups = _groups(questions, evidence)
    documents = sorted({a.doc_id for found in groups.values() for g, _ in found for a in g.alternatives})
    lane = spec["retriever"]
    exact = _exact_lane(lane, retrievers or {}, set(runs["retriever"].unique().to_pylist()))
    found_exactly, found = _found(runs, exact, spec["depth"], documents), _found(runs, lane, spec["depth"], documents)
    ranked = _by_rank(retrievals)
    kept = {q: [span for rank, span in hits if rank <= spec["top_k"]] for q, hits in ranked.items()}
    delivered = {c["question_id"]: [(p["doc_id"], p["start"], p["end"]) for p in c["passages"]] for c in contexts}
    trail = {"exact_search": found_exactly, "index_search": found, "ranked": kept, "in_context": delivered}
    states = {r["question_id"]: (r["status"], r["reason"], r["detail"]) for r in retrievals if r["status"] != OK}
    excluded = {r["question_id"]: set(r["excluded_documents"] or ()) for r in exclusion}
    passed = {r["question_id"]: r for r in scores if r["metric"] == pass_metric}
    cited = {r["question_id"]: cited_groups(r) for r in scores if r["metric"] == "citation_gold_recall"}
    whole = _Chunks(chunks, documents)
    rows = []
    for question in sorted(questions, key=lambda q: q["question_id"]):
        name = question["question_id"]
        for group, entitled in groups.get(name, ()):
            flags = [
                _flags(a, mine, whole, excluded.get(name, set()), {s: spans.get(name, ()) for s, spans in trail.items()}, passed.get(name))
                | ({} if spec["chunking"] is not None else _UNSEEN)
                for a, mine in zip(group.alternatives, entitled, strict=True)
            ]
            reached = max((_walk(f) for f in flags), key=lambda r: r[0])
            status, reason, detail = states.get(name, (OK, None, None))
            spans = [span for _, span in ranked.get(name, ())]
            best = group.whole_at(spans)
            rows.append(
                {
                    "question_id": name,
                    "split": question["split"],
                    "group": group.name,
                    **_place(reached[0], status),
                    "cited": group.name in cited.get(name, set()),
                    "best_rank": ranked[name][best - 1][0] if best else None,
                    "status": status,
                    "reason": reason,
                    "detail": detail or reached[1],
                }
            )
    return rows


def _flags(
    own: Alternative, entitled: bool, chunks: _Chunks, excluded: set[str], trail: Mapping[str, Sequence[Span]], passed: Row | None
) -> dict[str, bool | None]:
    """Whether one alternative got past each stage; None where that cannot be known."""
    flags: dict[str, bool | None] = {}
    for stage in ("acquired", "parsed", "cleaned", "kept"):
        flags[stage] = own.lost_at is None or _STAGES.index(stage) < _STAGES.index(own.lost_at)
    carried = {stage: own.whole_at(trail[stage]) is not None for stage in _CARRIED}
    last = max((i for i, stage in enumerate(_CARRIED) if carried[stage]), default=-1)
    # What is found later was not lost before: two chunks may carry together what none holds alone.
    flags["chunked"] = chunks.hold(own) or last >= 0
    flags["eligible"] = entitled
    flags["filtered"] = own.doc_id not in excluded
    for i, stage in enumerate(_CARRIED):
        flags[stage] = carried[stage] or i < last
    flags["answered"] = None if passed is None or passed["status"] == NOT_APPLICABLE else passed["value"] == 1
    return flags


def _walk(flags: Mapping[str, bool | None]) -> tuple[int, str | None]:
    """Number of stages passed, and what a reader should know about it."""
    for count, stage in enumerate(_STAGES):
        if flags[stage] is None:
            return len(_STAGES) + 1, "whether it was answered is not known"
        if not flags[stage]:
            leaked = stage in ("eligible", "filtered") and flags["in_context"]
            return count, "delivered all the same" if leaked else None
    return len(_STAGES), None


def _place(count: int, status: str) -> dict[str, str | None]:
    if status == NOT_APPLICABLE:
        return dict.fromkeys(("furthest", "lost_at", "open_next"))
    if count > len(_STAGES):
        return {"furthest": "in_context", "lost_at": None, "open_next": None}
    lost = _STAGES[count] if count < len(_STAGES) else None
    return {"furthest": _STAGES[count - 1] if count else None, "lost_at": lost, "open_next": STAGES[lost] if lost else None}


def _groups(questions: list[dict[str, Any]], evidence: list[dict[str, Any]]) -> dict[str, list[tuple[Group, list[bool]]]]:
    answerable = {q["question_id"] for q in questions if q["answerable"]}
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in evidence:
        if row["grade"] > 0 and row["question_id"] in answerable:
            rows[row["question_id"]].append(row)
    found: dict[str, list[tuple[Group, list[bool]]]] = {}
    for question, own in rows.items():
        label = "evidence" if any(r["label"] == "evidence" for r in own) else "relevant"
        groups: dict[str, list[Row]] = defaultdict(list)
        for item in own:
            if item["label"] == label:
                groups[item["group"]].append(item)
        found[question] = [
            (Group(name, tuple(map(alternative, items))), [r["entitled"] for r in items])
            for name, items in sorted((n, sorted(g, key=lambda r: r["item"])) for n, g in groups.items())
        ]
    return found


def _exact_lane(lane: str, retrievers: Mapping[str, Mapping[str, Any]], ran: set[str]) -> str:
    own = retrievers.get(lane, {})
    if own.get("kind") != "dense" or own.get("index") != "hnsw":
        return lane
    exact = [
        name
        for name, other in sorted(retrievers.items())
        if other.get("kind") == "dense" and other.get("index") == "exact" and other.get("embedder") == own.get("embedder") and name in ran
    ]
    return exact[0] if exact else lane


def _found(runs: pa.Table, lane: str, depth: int, documents: list[str]) -> dict[str, list[Span]]:
    """Passages in the wanted documents that a lane finds within depth, in rank order, by question."""
    inside = pc.and_(pc.equal(runs["retriever"], lane), pc.and_(pc.greater(runs["rank"], 0), pc.less_equal(runs["rank"], depth)))
    wanted = pc.and_(inside, pc.is_in(runs["doc_id"], value_set=pa.array(documents, pa.string())))
    rows = runs.filter(wanted).select(["question_id", "rank", "doc_id", "start", "end", "status"]).to_pylist()
    return {q: [span for _, span in hits] for q, hits in _by_rank(rows).items()}


def _by_rank(rows: Iterable[Row]) -> dict[str, list[tuple[int, Span]]]:
    found: dict[str, list[tuple[int, Span]]] = defaultdict(list)
    for row in rows:
        if row["rank"] > 0 and row["status"] not in (FAILED, NOT_APPLICABLE):
            found[row["question_id"]].append((row["rank"], (row["doc_id"], row["start"], row["end"])))
    return {q: sorted(hits, key=lambda h: h[0]) for q, hits in found.items()}


class _Chunks:
    """Spans of the chunks of the documents that carry evidence."""

    def __init__(self, chunks: pa.Table, documents: list[str]) -> None:
        own = chunks.filter(pc.is_in(chunks["doc_id"], value_set=pa.array(documents, pa.string())))
        self.spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for doc_id, start, end in zip(*(own[c].to_pylist() for c in ("doc_id", "start", "end")), strict=True):
            self.spans[doc_id].append((start, end))

    def hold(self, own: Alternative) -> bool:
        """Whether one chunk alone holds this evidence."""
        spans = self.spans.get(own.doc_id, [])
        if not own.located:
            return own.by_document and bool(spans)
        return any(own.overlaps(*span) and own.cover([span]) >= WHOLE for span in spans)
