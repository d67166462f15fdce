"""Index assets: vectors, chunk quality, and what approximate search costs.

What belongs here: what a vector's row depends on and which questions an index is measured with. What does not: embedding
(`resources.embedders`), index building (`retrieval.ann`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.assets._models import model_limits
from rag_eval_assets.assets._rows import by, join
from rag_eval_assets.assets.embedding import (
    context_models,
    contexts,
    embedder_facts,
    embedder_is_there,
    embedders_in_use,
    shaped_by,
    text_embedding,
    uncut,
    vector_rows,
)
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.report import pictures
from rag_eval_assets.retrieval import ann
from rag_eval_assets.scoring import chunk_quality as quality
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.versions import work_key
from rag_eval_assets.tables import NOT_APPLICABLE, OK
from rag_eval_assets.tables.groups import rows_of


def _embedders(settings: Settings, chunking: str | None) -> dict[str, Any]:
    names = embedders_in_use(settings, chunking)
    return {
        "embedders": {name: embedder_facts(settings, name, query=False) for name in names},
        "there": {name: embedder_is_there(settings, name) for name in names},
        "limits": model_limits(settings, context_models(settings, chunking)),
    }


@table_asset(
    "chunks",
    "unique_documents",
    kinds=["onnx"],
    columns={
        "chunks": ("doc_id", "ordinal", "chunk_id", "start", "end", "text", "text_sha256", "section_path"),
        "unique_documents": ("doc_id", "title", "text", "text_sha256", "elements"),
    },
    settings=_embedders,
    pool="embed",
)
def chunk_embeddings(step: Step, chunks: pa.Table, unique_documents: pa.Table) -> Product:
    """One vector a chunk and embedder; a text that any chunking embedded before is not embedded again."""
    rows, named = chunks.to_pylist(), by(unique_documents.select(["doc_id", "title", "text_sha256"]).to_pylist(), "doc_id")
    wanted: dict[str, tuple[str, dict[str, Any]]] = {}
    for name in embedders_in_use(step.settings, step.partition):
        # Whether it is there is no part: a key that is away for a night costs no vector.
        chosen, facts = step.settings.embedders[name], embedder_facts(step.settings, name, query=False)
        for chunk in rows:
            key = work_key(step.code, name, facts, chunk["chunk_id"], *shaped_by(chosen, chunk, named[chunk["doc_id"]]))
            wanted[key] = (name, {**chunk, "work_key": key})
    kept, todo = step.reuse(wanted)
    before, counts = contexts(step, todo, named, unique_documents)
    made: list[dict[str, Any]] = []
    notes = {f"replies_{what}": count for what, count in sorted(counts.items())}
    for name in sorted({name for name, _ in todo}):
        found, used = vector_rows(step, name, [chunk for embedder, chunk in todo if embedder == name], before, unique_documents)
        made, notes = made + found, notes | used
    return Product(join(kept, made), computed=sum(row["status"] != NOT_APPLICABLE for row in made), notes=notes)


@table_asset(
    "chunks",
    "chunk_embeddings",
    "unique_documents",
    "golden_evidence",
    "quality_labels",
    kinds=["numpy"],
    columns={"unique_documents": ("doc_id", "text", "elements")},
    libraries=["numpy", "scipy"],
)
def chunk_quality(
    step: Step,
    chunks: pa.Table,
    chunk_embeddings: pa.Table,
    unique_documents: pa.Table,
    golden_evidence: pa.Table,
    quality_labels: pa.Table,
) -> Product:
    """What one chunking cuts and keeps: evidence whole, tables, lists and sentences cut, precision, IoU, coherence, traceability."""
    documents, evidence, labels = rows_of(unique_documents), golden_evidence.to_pylist(), quality_labels.to_pylist()
    return Product(quality.chunk_quality(chunks, chunk_embeddings, documents, evidence, labels, unavailable=uncut(step)))


def _ann(settings: Settings, chunking: str | None) -> dict[str, Any]:
    measured = chunking is None or chunking in settings.ann.chunkings or any(s.chunking == chunking for s in settings.systems.values())
    names = embedders_in_use(settings, chunking) if measured else []
    return {
        "measured": measured,
        "ann": settings.ann.model_dump(exclude={"chunkings"}) if measured else {},
        "seed": settings.seed,
        "queries": {name: embedder_facts(settings, name, query=True) for name in names},
        "there": {name: embedder_is_there(settings, name) for name in names},
    }


@table_asset(
    "chunk_embeddings",
    "unique_documents",
    "golden_questions",
    "golden_evidence",
    kinds=["faiss"],
    columns={
        "unique_documents": ("doc_id",),
        "golden_questions": ("question_id", "text"),
        "golden_evidence": ("question_id", "label", "group", "item", "kept_doc_id", "grade", "eligible"),
    },
    settings=_ann,
    libraries=["faiss-cpu", "numpy", "pytrec-eval-terrier"],
    pool="index",
)
def ann_recall(
    step: Step, chunk_embeddings: pa.Table, unique_documents: pa.Table, golden_questions: pa.Table, golden_evidence: pa.Table
) -> Product:
    """Recall of index settings against exact search, by filter selectivity and way of filtering, with what each costs."""
    if not _ann(step.settings, step.partition)["measured"]:
        unmeasured = embedders_in_use(step.settings, step.partition) or ["none"]
        return Product([ann.not_measured(name, step.settings.ann.k) for name in unmeasured])
    questions, rows = golden_questions.to_pylist(), []
    position = {q["question_id"]: i for i, q in enumerate(questions)}
    qrels: dict[int, dict[str, int]] = {}
    for e in golden_evidence.to_pylist():
        if e["eligible"] and e["kept_doc_id"] is not None:
            grades = qrels.setdefault(position[e["question_id"]], {})
            grades[e["kept_doc_id"]] = max(e["grade"], grades.get(e["kept_doc_id"], 0))
    embed_queries = text_embedding(step, query=True)
    for name in embedders_in_use(step.settings, step.partition):
        mine = chunk_embeddings.filter(pc.and_(pc.equal(chunk_embeddings["embedder"], name), pc.equal(chunk_embeddings["status"], OK)))
        queries = embed_queries(name, [q["text"] for q in questions]) if mine.num_rows else None
        rows += ann.measure(
            stacked(mine["vector"]) if mine.num_rows else None,
            [chunk_id.rpartition("#")[0] for chunk_id in mine["chunk_id"].to_pylist()],
            queries,
            qrels,
            embedder=name,
            k=step.settings.ann.k,
            grid=step.settings.ann.model_dump(exclude={"chunkings", "k", "selectivities", "oversample", "minimum_recall"}),
            selectivities=step.settings.ann.selectivities,
            oversample=step.settings.ann.oversample,
            minimum_recall=step.settings.ann.minimum_recall,
            seed=step.settings.seed,
            threads=step.settings.limits.threads,
            on_done=step.progress,
        )
    return Product(rows, pictures={"ann_pareto": pictures.ann_pareto({step.partition: rows})})


def stacked(column: pa.ChunkedArray) -> np.ndarray:
    """A list column of equal lengths as a float32 matrix (rows, dimension)."""
    array = column.combine_chunks()
    flat = np.asarray(array.flatten(), dtype=np.float32)
    return flat.reshape(len(array), -1)
