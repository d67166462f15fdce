"""Rows of the tables that retrieval reads, complete and plain, so that a test states only what it is about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings

from rag_eval_assets.tables import TABLES

# First calls load libraries and the machine may be busy: time is no property of the code here.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

Row = dict[str, Any]


def _complete(table: str, row: Mapping[str, Any]) -> Row:
    return {name: row.get(name) for name in TABLES[table].columns}


@pytest.fixture
def document() -> Callable[..., Row]:
    def make(doc_id: str, *, fields: Mapping[str, Any] | None = None, **columns: Any) -> Row:
        defaults = {"doc_id": doc_id, "doc_class": "text", "language": "en", "groups": [], "publication_state": "published"}
        return _complete("unique_documents", {**defaults, "fields": json.dumps(fields or {}), **columns})

    return make


@pytest.fixture
def question() -> Callable[..., Row]:
    def make(
        question_id: str,
        text: str = "",
        *,
        entitlement: Mapping[str, Any] | None = None,
        filter: Mapping[str, Any] | None = None,
        **columns: Any,
    ) -> Row:
        defaults = {
            "question_id": question_id,
            "text": text,
            "answerable": True,
            "split": "release",
            "language": "en",
            "entitlement": json.dumps(entitlement or {}),
            "filter": None if filter is None else json.dumps(filter),
        }
        return _complete("golden_questions", {**defaults, **columns})

    return make


@pytest.fixture
def chunk_table() -> Callable[[Sequence[tuple[str, str]]], pa.Table]:
    """Chunks from (document, text) pairs; several of one document follow each other in it."""

    def make(pairs: Sequence[tuple[str, str]]) -> pa.Table:
        ends: dict[str, int] = {}
        ordinals: dict[str, int] = {}
        rows = []
        for doc_id, text in pairs:
            start = ends.get(doc_id, 0)
            end = ends[doc_id] = start + len(text)
            ordinal = ordinals[doc_id] = ordinals.get(doc_id, -1) + 1
            rows.append(
                {
                    "chunk_id": f"{doc_id}#{start}-{end}",
                    "doc_id": doc_id,
                    "ordinal": ordinal,
                    "start": start,
                    "end": end,
                    "text": text,
                    "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
                    "tokens": len(text.split()),
                    "section_path": [],
                    "page": None,
                    "work_key": "k",
                }
            )
        return pa.Table.from_pylist(rows, schema=TABLES["chunks"].schema)

    return make


@pytest.fixture
def embedding_table() -> Callable[..., pa.Table]:
    """Embeddings of a chunks table: one vector a chunk, None for a vector that failed."""

    def make(chunks: pa.Table, vectors: Sequence[Sequence[float] | None], embedder: str = "minilm") -> pa.Table:
        rows = [
            {
                "chunk_id": chunk["chunk_id"],
                "text_sha256": chunk["text_sha256"],
                "embedder": embedder,
                "vector": None if vector is None else list(vector),
                "tokens": 1,
                "truncated": False,
                "status": "failed" if vector is None else "ok",
                "reason": "non_finite_score" if vector is None else None,
                "work_key": "k",
            }
            for chunk, vector in zip(chunks.to_pylist(), vectors, strict=True)
        ]
        return pa.Table.from_pylist(rows, schema=TABLES["chunk_embeddings"].schema)

    return make
