"""Retrievers as settings name them: their parameters, and what rankings by them are declared to depend on.

What belongs here: settings, columns, modules and libraries of the assets that rank. What does not: ranking (`_ranking`).
"""

from __future__ import annotations

from typing import Any

from rag_eval_assets.assets._models import model_limits
from rag_eval_assets.assets.embedding import embedder_facts, embedder_is_there, embedders_in_use
from rag_eval_assets.partitions import parse_chunking
from rag_eval_assets.retrieval import filters
from rag_eval_assets.retrieval.queries import PROMPTS
from rag_eval_assets.settings import Settings

PREDICATES = (*filters.FILTER_COLUMNS, "fields")
ASKED = ("question_id", "text", "split", "language", "entitlement", "filter")
"""Columns of a question that a search depends on; its labels are read where a fusion is tuned, of development alone."""


def retrievers_of(settings: Settings, chunking: str | None) -> dict[str, dict[str, Any]]:
    """Parameters of the retrievers that run on a chunking, by name; a reranker's and what tunes a fusion stand in them whole."""
    found = {}
    for name, retriever in settings.retrievers.items():
        if chunking is None or retriever.runs_on(chunking):
            found[name] = retriever.parameters
            if retriever.kind == "convex":
                found[name]["tune_k"] = settings.sweep.k
            elif retriever.model is not None:
                found[name]["endpoint"] = settings.models[retriever.model].identity
                found[name]["prompt"] = retriever.prompt or PROMPTS[retriever.kind]
            elif retriever.reranker is not None:
                found[name]["reranker"] = {"name": retriever.reranker, **settings.rerankers[retriever.reranker].model_dump()}
    return found


def runs_settings(settings: Settings, chunking: str | None) -> dict[str, Any]:
    names = embedders_in_use(settings, chunking)
    return {
        "retrievers": retrievers_of(settings, chunking),
        "queries": {name: embedder_facts(settings, name, query=True) for name in names},
        "there": {name: embedder_is_there(settings, name) for name in names},
        "depth": settings.scoring.depth,
        "every_split": any(system.chunking == chunking for system in settings.systems.values()),
        "limits": model_limits(settings, _writers(settings, chunking)),
    }


def _writers(settings: Settings, chunking: str | None) -> list[str]:
    """Models that write queries for retrievers of a chunking."""
    return [r.model for r in settings.retrievers.values() if r.model is not None and (chunking is None or r.runs_on(chunking))]


WRITING = "rag_eval_assets.assets._writing"
"""The module that has queries written, named so that it is loaded, and rows depend on it, where a retriever wants it."""


def runs_modules(settings: Settings, chunking: str | None) -> list[str]:
    return [WRITING] if chunking and _writers(settings, chunking) else []


def document_columns(settings: Settings, chunking: str | None) -> tuple[str, ...]:
    """Columns of unique_documents that rankings are made from; texts only where a reranker reads parents, which are pieces of them."""
    parents = chunking is None or bool(parse_chunking(chunking).parent)
    reranked = any(r.reranker is not None and (chunking is None or r.runs_on(chunking)) for r in settings.retrievers.values())
    return (*PREDICATES, "absorbed", *(["text"] if parents and reranked else ()))


def runs_libraries(settings: Settings, _: str | None) -> list[str]:
    models = ["sentence-transformers"] if any(r.kind == "cross_encoder" for r in settings.rerankers.values()) else []
    return ["bm25s", "PyStemmer", "faiss-cpu", "numpy", *models]
