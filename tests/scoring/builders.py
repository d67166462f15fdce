"""Complete, plain rows of the tables that scoring reads, so that a test states only what it is about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_eval_assets.tables import TABLES

Row = dict[str, Any]


def complete(table: str, **given: Any) -> Row:
    unknown = set(given) - set(TABLES[table].columns)
    assert not unknown, f"{table} has no column {unknown}"
    return {name: given.get(name) for name in TABLES[table].columns}


def table(name: str, rows: Iterable[Mapping[str, Any]], without: Sequence[str] = ()) -> pa.Table:
    """Rows as a table of the contract's schema, nulls allowed everywhere."""
    kept = [f for f in TABLES[name].schema if f.name not in without]
    schema = pa.schema([pa.field(f.name, f.type) for f in kept])
    return pa.Table.from_pylist([{f.name: row.get(f.name) for f in kept} for row in rows], schema=schema)


def question(question_id: str = "q", *, split: str = "release", answerable: bool = True, language: str = "en", **more: Any) -> Row:
    defaults: Row = {
        "text": "?",
        "kinds": [],
        "slices": "{}",
        "relevant": [],
        "evidence": [],
        "entitlement": "{}",
        "nuggets": [],
        "intent": "x",
    }
    return complete(
        "golden_questions",
        **{**defaults, "question_id": question_id, "split": split, "answerable": answerable, "language": language, **more},
    )


def evidence(
    question_id: str, document: str, *, label: str = "evidence", group: str = "g1", item: int = 0, grade: int = 1, **more: Any
) -> Row:
    """A row of golden_evidence; with `quotation`, `start` and `end` a located span, without quotation a document."""
    defaults: Row = {"kept_doc_id": document, "entitled": True, "eligible": True, "status": "ok"}
    defaults["match"] = "exact" if more.get("quotation") else "document"
    return complete(
        "golden_evidence",
        **{
            **defaults,
            "question_id": question_id,
            "doc_id": document,
            "label": label,
            "group": group,
            "item": item,
            "grade": grade,
            **more,
        },
    )


def relevant(question_id: str, document: str, grade: int = 1, **more: Any) -> Row:
    return evidence(question_id, document, label="relevant", group=document, grade=grade, **more)


def quoted(question_id: str, document: str, start: int, quotation: str, **more: Any) -> Row:
    return evidence(question_id, document, start=start, end=start + len(quotation), quotation=quotation, similarity=1.0, **more)


def hit(question_id: str, rank: int, document: str, start: int = 0, end: int = 100, *, retriever: str = "bm25", **more: Any) -> Row:
    defaults: Row = {"chunk_id": f"{document}#{start}-{end}", "tokens": 100, "score": 1000.0 - rank, "status": "ok", "split": "release"}
    return complete(
        "retrieval_runs",
        **{
            **defaults,
            "question_id": question_id,
            "rank": rank,
            "doc_id": document,
            "start": start,
            "end": end,
            "retriever": retriever,
            **more,
        },
    )


def no_hit(question_id: str, status: str, reason: str, *, retriever: str = "bm25") -> Row:
    return complete("retrieval_runs", question_id=question_id, retriever=retriever, rank=0, status=status, reason=reason, split="release")


def runs(rows: Iterable[Row]) -> pa.Table:
    return table("retrieval_runs", rows, without=["work_key"])


def ranking(question_id: str, documents: Sequence[str], retriever: str = "bm25") -> list[Row]:
    """One chunk of each document, in the order given."""
    return [hit(question_id, rank, document, retriever=retriever) for rank, document in enumerate(documents, 1)]


def retrieval(question_id: str, rank: int, document: str, start: int, text: str, **more: Any) -> Row:
    end = start + len(text)
    defaults: Row = {
        "chunk_id": f"{document}#{start}-{end}",
        "tokens": len(text.split()),
        "score": 1.0 / rank,
        "status": "ok",
        "split": "release",
    }
    own: Row = {"question_id": question_id, "rank": rank, "doc_id": document, "start": start, "end": end, "text": text}
    return complete("system_retrievals", **{**defaults, **own, **more})


def passage(position: int, document: str, start: int, text: str, **more: Any) -> Row:
    end = start + len(text)
    own: Row = {"position": position, "rank": position + 1, "chunk_id": f"{document}#{start}-{end}", "doc_id": document}
    return {**own, "start": start, "end": end, "text": text, "tokens": len(text.split()), **more}


def context(question_id: str, passages: Sequence[Row], **more: Any) -> Row:
    digest = hashlib.sha256("\x1f".join(p["text"] for p in passages).encode()).hexdigest()
    own: Row = {
        "question_id": question_id,
        "split": "release",
        "passages": list(passages),
        "tokens": 0,
        "context_sha256": digest,
        "status": "ok",
    }
    return complete("contexts", **{**own, "cut_by_top_k": [], "cut_by_budget": [], "context_truncated": False, **more})


def citation(source: Row, quotation: str | None = None, **more: Any) -> Row:
    """A citation of a delivered passage: all of it, or the words quoted."""
    words = source["text"] if quotation is None else quotation
    start = source["start"] + source["text"].index(words)
    own: Row = {"position": source["position"], "chunk_id": source["chunk_id"], "doc_id": source["doc_id"]}
    return {**own, "start": start, "end": start + len(words), "quotation": words, **more}


def answer(question_id: str, text: str = "", citations: Sequence[Row] = (), *, refused: bool = False, **more: Any) -> Row:
    own: Row = {"question_id": question_id, "split": "release", "answer": text, "refused": refused, "citations": list(citations)}
    return complete("answers", **{**own, "reader": "extractive", "context_sha256": "", "status": "ok", **more})


def score(question_id: str, metric: str, value: float | None, *, status: str = "scored", reason: str | None = None, **more: Any) -> Row:
    own: Row = {"question_id": question_id, "metric": metric, "value": value, "status": status, "reason": reason, "split": "release"}
    return complete("system_scores", **{**own, "k": 0, "cutoff": "none", "unit": "question", "stage": "answer", **more})
