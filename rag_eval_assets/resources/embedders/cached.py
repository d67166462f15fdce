"""Vectors of texts, each computed once: what is in the store is used, what is missing is computed and kept.

What belongs here: keys of vectors and the order of work. What does not: models, and chunks that share one pass (`late`). A vector
store is a cache; deleting it costs time only. Vectors are kept as float32, little endian.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rag_eval_assets.resources.embedders.protocol import Embedder, EmbeddingFailed, Progress, Vectors

if TYPE_CHECKING:
    from ingestion.minhash import ContentStore

DURABLE_TEXTS = 64  # texts embedded between two writes of the store: about two seconds of work that a kill may cost


def text_sha256(text: str) -> str:
    """SHA-256 of the UTF-8 text; lone surrogates are kept as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def vector_key(identity: str, prefix: str, *what: str) -> str:
    """Key of one vector in a store: what made it, the prefix, and the hash of its text (of a chunk pooled late: see `late`)."""
    return hashlib.sha256("\x1f".join((identity, prefix, *what)).encode()).hexdigest()


def packed(vector: Vectors) -> bytes:
    return vector.astype("<f4").tobytes()


def unpacked(blob: bytes, dimension: int | None) -> Vectors | None:
    """The vector in a blob; None where the blob was not written by `packed` for this dimension: computed again rather than trusted."""
    if not blob or len(blob) % 4 or (dimension is not None and len(blob) != 4 * dimension):
        return None
    return np.frombuffer(blob, dtype="<f4").astype(np.float32)


def embed_texts(
    texts: Sequence[str],
    embedder: Embedder,
    store: ContentStore | None,
    on_done: Progress | None = None,
    *,
    query: bool = False,
    failures: dict[str, EmbeddingFailed] | None = None,
    elsewhere: Callable[[Sequence[list[str]]], Iterator[list[Vectors]]] | None = None,
) -> Vectors:
    """Vectors of `texts` in their order, float32 (len(texts), dimension); each distinct text is embedded at most once.

    Vectors found in `store` are used; the rest are computed longest first and written every `DURABLE_TEXTS` texts, so that a
    killed run goes on where it stopped. `on_done` counts distinct texts. A non-finite vector is returned as it is and never stored.

    Where `failures` is given, a text that the model refuses is put there with why, its row is NaN, and the others go on; after a
    lasting failure nothing more is asked of the model. Without it EmbeddingFailed is raised. `elsewhere` embeds batches of texts on other
    machines, with the model that `embedder` is; a failure is raised there.
    """
    hashes = [text_sha256(text) for text in texts]
    text_of = dict(zip(hashes, texts, strict=True))
    prefix = embedder.prefix(query=query)
    key_of = {sha: vector_key(embedder.identity, prefix, sha) for sha in text_of}
    stored = store.get_many(list(key_of.values())) if store is not None else {}
    vector_of: dict[str, Vectors] = {}
    for sha, key in key_of.items():
        vector = unpacked(stored.get(key, b""), embedder.dimension)
        if vector is not None:
            vector_of[sha] = vector
    missing = sorted((sha for sha in text_of if sha not in vector_of), key=lambda sha: (-len(text_of[sha]), sha))
    if on_done is not None and text_of:
        on_done(len(vector_of), len(text_of))
    parts = [[(sha, text_of[sha]) for sha in missing[start : start + DURABLE_TEXTS]] for start in range(0, len(missing), DURABLE_TEXTS)]
    if elsewhere is None:
        each = (_embedded(part, embedder, query, failures) for part in parts)
    else:
        found = elsewhere([[text for _, text in part] for part in parts])
        each = ([(sha, row) for (sha, _), row in zip(part, rows, strict=True)] for part, rows in zip(parts, found, strict=True))
    done = len(vector_of)
    for part, pairs in zip(parts, each, strict=True):
        made = dict(pairs)
        vector_of.update(made)
        done += len(part)
        if store is not None:
            store.put_many({key_of[sha]: packed(row) for sha, row in made.items() if np.isfinite(row).all()})
        if on_done is not None:
            on_done(done, len(text_of))
    width = next((len(row) for row in vector_of.values()), embedder.dimension or 0)
    nothing = np.full(width, np.nan, dtype=np.float32)
    return np.stack([vector_of.get(sha, nothing) for sha in hashes]) if texts else np.empty((0, width), dtype=np.float32)


def _embedded(
    part: Sequence[tuple[str, str]], embedder: Embedder, query: bool, failures: dict[str, EmbeddingFailed] | None
) -> list[tuple[str, Vectors]]:
    """Hash and vector of those texts of `part` that the model embeds; the others go to `failures`."""
    if failures is not None and (last := next((f for f in failures.values() if f.lasting), None)):
        failures.update({text: last for _, text in part})
        return []
    try:
        return list(zip([sha for sha, _ in part], embedder.embed([text for _, text in part], query=query), strict=True))
    except EmbeddingFailed as error:
        if failures is None:
            raise
        if error.lasting or len(part) == 1:
            failures.update({text: error for _, text in part})
            return []
    # One text that the model refuses must not cost the others of its batch.
    return [found for each in part for found in _embedded([each], embedder, query, failures)]
