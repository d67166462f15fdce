"""What assets need of embedders: which are in use, what shapes their vectors, and rows of chunk_embeddings.

What belongs here: embedders as settings name them, their store, and the statuses of their rows. What does not: models
(`resources.embedders`) and which rows are wanted (`index`).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.graph import Step
from rag_eval_assets.partitions import chunking_keys, parse_chunking
from rag_eval_assets.resources import embedders
from rag_eval_assets.resources.embedders import Embedder, EmbeddingFailed, embed_batch, embed_texts, load_embedder
from rag_eval_assets.resources.embedders.protocol import Context
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.settings import Embedder as EmbedderSettings
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.versions import SourceTree, digest
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, OK

Row = dict[str, Any]


def embedders_in_use(settings: Settings, chunking: str | None = None) -> list[str]:
    """Embedders that a retriever of this chunking needs, in name order."""
    return sorted({r.embedder for r in settings.retrievers.values() if r.kind == "dense" and (chunking is None or r.runs_on(chunking))})


def embedders_of(settings: Settings, retriever: str) -> list[str]:
    """Embedders behind a retriever, through the lanes of a fusion, in name order."""
    chosen = settings.retrievers[retriever]
    lanes = {name for lane in chosen.of for name in embedders_of(settings, lane)}
    return sorted(lanes | ({chosen.embedder} if chosen.kind == "dense" else set()))


WRITTEN_CONTEXT = "rag_eval_assets.resources.embedders.written_context"
"""The module of `context: written`, named so that rows depend on it where it is used."""


@cache
def _writing_code() -> dict[str, str]:
    return SourceTree().closure([WRITTEN_CONTEXT])


def context_models(settings: Settings, chunking: str | None) -> list[str]:
    """Models that write contexts for embedders in use on a chunking."""
    chosen = (settings.embedders[name].context_model for name in embedders_in_use(settings, chunking))
    return sorted({model for model in chosen if model is not None})


@cache
def _code(kind: str, pooling: str) -> str:
    """Hash of the code that embedders of one sort alone reach: no other sort's rows depend on it."""
    return digest(SourceTree().closure([embedders.KINDS[kind], *([embedders.LATE] if pooling == "late" else [])]))


def embedder_facts(settings: Settings, name: str, *, query: bool) -> Row:
    """All that shapes the vectors an embedder gives for questions, or for chunks."""
    chosen = settings.embedders[name]
    facts = {
        "model": embedders.identity(chosen.kind, **chosen.options),
        "code": _code(chosen.kind, chosen.pooling),
        "prefix": embedders.prefixes(chosen.kind, **chosen.options)[not query],
    }
    shape: Row = {"context": chosen.context, "pooling": chosen.pooling, "stride": chosen.stride if chosen.pooling == "late" else None}
    if chosen.context_model is not None:
        shape["written"] = {
            "endpoint": settings.models[chosen.context_model].identity,
            "prompt": chosen.context_prompt or importlib.import_module(WRITTEN_CONTEXT).PROMPT,
            "window": chosen.context_window,
            "code": digest(_writing_code()),
        }
    return facts if query else facts | shape


def embedder_is_there(settings: Settings, name: str) -> bool:
    chosen = settings.embedders[name]
    return embedders.unavailable(chosen.kind, **chosen.options) is None


def _recipe(step: Step, name: str) -> Row:
    """Arguments of load_embedder."""
    chosen = step.settings.embedders[name]
    return {"name": name, "kind": chosen.kind, "batch": chosen.batch, "threads": step.settings.limits.threads, **chosen.options}


def open_embedder(step: Step, name: str) -> Embedder | None:
    return load_embedder(**_recipe(step, name))


def _elsewhere(step: Step, name: str) -> Callable[[Sequence[list[str]]], Iterator[list[np.ndarray]]] | None:
    """Embeds batches on the cluster where one is set; a model behind an endpoint is asked from here, where its key and its limits are."""
    if step.spread is None or step.settings.embedders[name].kind == "openai":
        return None
    return partial(step.spread, partial(embed_batch, recipe=json.dumps(_recipe(step, name)), query=False))


def uncut(step: Step) -> str | None:
    """Why this partition's documents could not be cut, as a reason of the closed list; None where they could."""
    needed = parse_chunking(step.partition).embedder
    return "no_embedder" if needed and open_embedder(step, needed) is None else None


def vectors_file(settings: Settings, name: str) -> str:
    """The cache that holds an embedder's vectors: one for each state of the code that makes them."""
    chosen = settings.embedders[name]
    return f"vectors-{chosen.kind}-{_code(chosen.kind, chosen.pooling)[:8]}.sqlite"


def vectors(step: Step, name: str) -> SqliteStore:
    """Vectors by model and text, a cache that is safe to delete."""
    return SqliteStore(step.folder.stores / vectors_file(step.settings, name))


def text_embedding(step: Step, *, query: bool) -> Callable[[str, Sequence[str]], np.ndarray | None]:
    """Gives unit vectors of questions, or of passages, by an embedder's name; None where it is not there. Each is opened once."""
    opened = cache(lambda name: open_embedder(step, name))

    def embed(name: str, texts: Sequence[str]) -> np.ndarray | None:
        embedder = opened(name)
        return embed_texts(texts, embedder, vectors(step, name), query=query) if embedder else None

    return embed


def shaped_by(chosen: EmbedderSettings, chunk: Row, document: Row) -> list[Any]:
    """What of a chunk and its document a vector is made from, as hashes."""
    if chosen.pooling == "late":
        return [document["text_sha256"], chunk["start"], chunk["end"]]
    if chosen.context == "written":
        return [chunk["text_sha256"], document["text_sha256"], chunk["start"]]
    return [chunk["text_sha256"], digest(_headings(chunk, document)) if chosen.context == "heading_path" else None]


def _headings(chunk: Row, document: Row) -> list[str]:
    """The document's title and the headings above a chunk, outermost first; a title that is the first heading stands once."""
    path = [heading for heading in chunk["section_path"] if heading]
    return path if not document["title"] or document["title"] in path[:1] else [document["title"], *path]


def contexts(
    step: Step, chunks: Sequence[tuple[str, Row]], named: Mapping[str, Row], documents: pa.Table
) -> tuple[dict[tuple[str, str], Context], Mapping[str, int]]:
    """What stands before each (embedder, row of chunks), by embedder and chunk id: `Title > Heading > Heading`, what a model wrote of the
    document, or nothing; and what became of the requests. Of an embedder that is not there nothing is asked."""
    settings = step.settings
    found = {
        (name, c["chunk_id"]): Context(" > ".join(_headings(c, named[c["doc_id"]])))
        for name, c in chunks
        if settings.embedders[name].context == "heading_path"
    }
    to_write = [(name, c) for name, c in chunks if settings.embedders[name].context == "written" and embedder_is_there(settings, name)]
    if not to_write:
        return found, {}
    told = {
        name: {**embedder_facts(settings, name, query=False)["written"], "model": settings.embedders[name].context_model}
        for name in {name for name, _ in to_write}
    }
    wanted = {c["doc_id"] for _, c in to_write}
    own = documents.filter(pc.is_in(documents["doc_id"], pa.array(sorted(wanted), pa.string())))
    texts = dict(zip(own["doc_id"].to_pylist(), own["text"].to_pylist(), strict=True))
    # Named, not imported: rows depend on what writes contexts only where one is written.
    written, counts = importlib.import_module("rag_eval_assets.assets._contexts").write_contexts(step, told, to_write, texts)
    return found | written, counts


def vector_rows(
    step: Step,
    name: str,
    chunks: Sequence[Row],
    before: Mapping[tuple[str, str], Context],
    documents: pa.Table,
) -> tuple[list[Row], dict[str, int]]:
    """Rows of chunk_embeddings for rows of chunks that carry their `work_key`, and the tokens an endpoint says it read.

    `before` is what `contexts` gives; `documents` is unique_documents. A context stands on a line of its own before the chunk.
    """
    chosen, embedder = step.settings.embedders[name], open_embedder(step, name)
    given = [before.get((name, c["chunk_id"]), Context()) for c in chunks]
    base = [
        {k: c[k] for k in ("chunk_id", "text_sha256", "work_key")}
        | {"embedder": name, "context": g.text or None, "context_tokens": g.tokens, "context_cost": g.cost}
        for c, g in zip(chunks, given, strict=True)
    ]
    if embedder is None:
        why = embedders.unavailable(chosen.kind, **chosen.options)
        reason, detail = why or ("no_embedder", None)
        absent = {"vector": None, "tokens": None, "truncated": None, "status": NOT_APPLICABLE, "reason": reason, "detail": detail}
        # A key of its own: the row is made again as soon as the embedder is there.
        return [{**row, **absent, "work_key": digest(row["work_key"], reason)} for row in base], {}
    texts = [f"{g.text}\n{c['text']}" if g.text else c["text"] for c, g in zip(chunks, given, strict=True)]
    counts = embedder.count_tokens(texts) or [None] * len(texts)
    limit = None if chosen.pooling == "late" else embedder.limit
    failures: dict[str, EmbeddingFailed] = {}
    if chosen.pooling == "late":
        found = _late_vectors(step, name, embedder, chunks, documents)
    else:
        whole = [text for text, g in zip(texts, given, strict=True) if g.failure is None]
        elsewhere = _elsewhere(step, name)
        embedded = embed_texts(whole, embedder, vectors(step, name), on_done=step.progress, failures=failures, elsewhere=elsewhere)
        vector_of = dict(zip(whole, embedded, strict=True))
        found = [vector_of.get(text) for text in texts]
    made = []
    for row, g, text, vector, tokens in zip(base, given, texts, found, counts, strict=True):
        if g.failure is not None:
            made.append({**row, "tokens": None, "truncated": None, **_judged(None, g.failure)})
            continue
        over = None if tokens is None else limit is not None and tokens > limit
        made.append({**row, "tokens": tokens, "truncated": over, **_judged(vector, failures.get(text))})
    usage = getattr(embedder, "usage", {})
    return made, {f"{name}: {what}": tokens for what, tokens in sorted(usage.items())}


def _judged(vector: np.ndarray | None, failure: EmbeddingFailed | None) -> Row:
    """A vector's cell with its status: a text that was refused, or a vector that is none, is a typed row."""
    if failure is not None:
        return {"vector": None, "status": FAILED, "reason": failure.reason, "detail": failure.detail}
    if vector is None:
        return {"vector": None, "status": FAILED, "reason": "no_text", "detail": "no token of the model lies in the chunk"}
    if not np.isfinite(vector).all():
        return {"vector": None, "status": FAILED, "reason": "non_finite_score", "detail": None}
    return {"vector": vector, "status": OK, "reason": None, "detail": None}


# --------------------------------------------------------------------------------------------------------------- late
def _late_vectors(step: Step, name: str, embedder: Embedder, chunks: Sequence[Row], documents: pa.Table) -> list[np.ndarray | None]:
    """Vectors pooled from one pass over each document, which also keeps what every other chunking of this embedder will want."""
    late = importlib.import_module(embedders.LATE)
    spans: dict[str, list[tuple[int, int]]] = {}
    for c in chunks:
        spans.setdefault(c["doc_id"], []).append((c["start"], c["end"]))
    position = {doc_id: at for at, doc_id in enumerate(documents["doc_id"].to_pylist())}

    def document(doc_id: str) -> Row:
        row: Row = documents.slice(position[doc_id], 1).to_pylist()[0]
        return row

    hashes, texts = documents["text_sha256"], documents["text"]
    given = [
        late.LateDocument(
            texts[position[doc_id]].as_py(),
            hashes[position[doc_id]].as_py(),
            tuple(own),
            lambda doc_id=doc_id: _spans_elsewhere(step, name, document(doc_id)),
        )
        for doc_id, own in spans.items()
    ]
    stride = step.settings.embedders[name].stride
    found = late.embed_spans(given, embedder, vectors(step, name), stride=stride, on_done=step.progress)
    of = dict(zip(spans, found, strict=True))
    return [of[c["doc_id"]][c["start"], c["end"]] for c in chunks]


def _spans_elsewhere(step: Step, name: str, document: Row) -> list[tuple[int, int]]:
    """Spans that the other chunkings of this embedder cut a document into."""
    # Named, not imported: what is kept ahead shapes no row, so no row depends on the code that cuts.
    cut = importlib.import_module("rag_eval_assets.assets.chunks").cut
    keys = [key for key in chunking_keys(step.settings.chunkings) if key != step.partition]
    # A chunking that needs an embedder to cut is left to its own partition.
    used = [key for key in keys if name in embedders_in_use(step.settings, key) and not parse_chunking(key).embedder]
    return [(c["start"], c["end"]) for key in used for c in cut(document, key, step.settings.tokenizer)]
