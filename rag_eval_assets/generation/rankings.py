"""The ranking a system works from: its retriever's hits, cut to its depth, with their texts.

What belongs here: taking one system's view of `retrieval_runs`. What does not: searching (`retrieval`) and what reaches the reader
(`context`).
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.tables import FAILED, MISSING, OK

Row = Mapping[str, Any]

_HIT = ("chunk_id", "doc_id", "start", "end", "text", "text_sha256", "tokens", "score")


def system_rankings(spec: Row, questions: list[dict[str, Any]], runs: pa.Table, documents: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows of system_retrievals: hits of `spec["retriever"]` at ranks up to `spec["depth"]`, by question and rank.

    Every question has a row: a failed or empty ranking keeps its row of rank 0, a question without rows is missing, and a ranking
    that names a chunk twice or scores it with NaN or infinity is failed. `documents` holds canonical texts by document, of which a
    passage is a span; KeyError names a document that it lacks.
    """
    inside = pc.and_(pc.equal(runs["retriever"], spec["retriever"]), pc.less_equal(runs["rank"], spec["depth"]))
    columns = [c for c in runs.column_names if c not in ("work_key", "split", "retriever")]
    found: dict[str, list[Row]] = defaultdict(list)
    for row in runs.filter(inside).select(columns).to_pylist():
        found[row["question_id"]].append(row)
    rows = []
    for question in sorted(questions, key=lambda q: q["question_id"]):
        hits = sorted(found.get(question["question_id"], ()), key=lambda r: r["rank"])
        fault = _fault(hits)
        if fault:
            rows.append(_row(spec, question, 0, None, *fault))
            continue
        for hit in hits:
            passage = _passage(documents[hit["doc_id"]][hit["start"] : hit["end"]]) if hit["rank"] > 0 else {"text": None}
            rows.append(_row(spec, question, hit["rank"], {**hit, **passage}, hit["status"], hit["reason"], hit["detail"]))
    return rows


def _passage(text: str) -> dict[str, str]:
    return {"text": text, "text_sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}


def _fault(hits: list[Row]) -> tuple[str, str, str | None] | None:
    if not hits:
        return MISSING, "missing_run", None
    named = [h["chunk_id"] for h in hits if h["status"] == OK and h["rank"] > 0]
    doubled = sorted({c for c in named if named.count(c) > 1}) if len(set(named)) < len(named) else []
    if doubled:
        return FAILED, "duplicate_ids", ", ".join(doubled)
    if any(h["score"] is not None and not math.isfinite(h["score"]) for h in hits):
        return FAILED, "non_finite_score", None
    return None


def _row(spec: Row, question: Row, rank: int, hit: Row | None, status: str, reason: str | None, detail: str | None) -> dict[str, Any]:
    return {
        "question_id": question["question_id"],
        "split": question["split"],
        "rank": rank,
        **{name: hit[name] if hit else None for name in _HIT},
        "status": status,
        "reason": reason,
        "detail": detail,
        "similarity": None,
        "seconds": hit["seconds"] if hit else None,
        "origin": None,
        "work_key": spec["retrieval_sha256"],
    }
