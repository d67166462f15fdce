"""The chunks asset: one partition a chunking.

What belongs here: what a chunk's row depends on. What does not: where to cut (`ingestion.chunking`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from ingestion import tokenizers
from ingestion.chunking import STRATEGIES, Embed, chunk_document
from rag_eval_assets.assets._rows import Row, joined, row_digests
from rag_eval_assets.assets.embedding import embedder_facts, embedder_is_there, open_embedder, uncut, vectors
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.partitions import parse_chunking
from rag_eval_assets.report import corpus_pictures
from rag_eval_assets.resources.embedders import embed_texts
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.versions import work_key
from rag_eval_assets.tables.groups import rows_of


def _cutting(settings: Settings, chunking: str | None) -> dict[str, Any]:
    embedder = parse_chunking(chunking).embedder if chunking else None
    there = (
        {"embedder": embedder_facts(settings, embedder, query=False), "there": embedder_is_there(settings, embedder)} if embedder else {}
    )
    return {"tokenizer": tokenizers.tokenizer_identity(settings.tokenizer), **there}


@table_asset(
    "unique_documents",
    kinds=["python"],
    columns={"unique_documents": ("doc_id", "text", "text_sha256", "elements")},
    settings=_cutting,
    modules=lambda s, p: [STRATEGIES[parse_chunking(p).strategy].module] if p else [],
)
def chunks(step: Step, unique_documents: pa.Table) -> Product:
    """The chunks of one chunking, each an exact span of the canonical text; none where it needs an embedder that is not there."""
    chunking, name = parse_chunking(step.partition), step.settings.tokenizer
    embedder = open_embedder(step, chunking.embedder) if chunking.embedder else None
    if reason := uncut(step):
        return Product([], computed=0, notes={"not_applicable": reason})
    identity = [
        tokenizers.tokenizer_identity(name),
        *([embedder_facts(step.settings, chunking.embedder, query=False)] if chunking.embedder else ()),
    ]
    embed = partial(embed_texts, embedder=embedder, store=vectors(step, chunking.embedder)) if embedder else None
    named = unique_documents.select(["doc_id", "text_sha256"]).to_pylist()
    # Only documents to cut become Python objects: their elements are most of the table.
    elements = row_digests(unique_documents["elements"])
    wanted = {
        work_key(step.code, identity, step.partition, d["doc_id"], d["text_sha256"], digest): at
        for at, (d, digest) in enumerate(zip(named, elements, strict=True))
    }
    kept, todo = step.reuse(wanted)
    keys = {named[at]["doc_id"]: key for key, at in wanted.items()}

    def made() -> Iterator[Row]:
        for done, document in enumerate(rows_of(unique_documents, todo), 1):
            for row in cut(document, step.partition, name, embed):
                yield {**row, "work_key": keys[document["doc_id"]]}
            step.progress(done, len(todo))

    table = joined(kept, made())
    lengths = corpus_pictures.token_lengths(rows_of(table.select(["tokens"]), batch=4096))
    return Product(table, computed=table.num_rows - kept.num_rows, pictures={"token_lengths": lengths})


def cut(document: dict[str, Any], key: str, tokenizer: str, embed: Embed | None = None) -> list[dict[str, Any]]:
    """The chunks of one row of unique_documents under a chunking key, without `work_key`."""
    tokens = tokenizers.cached_spans(tokenizer, document["text_sha256"], document["text"])
    return chunk_document(document, tokens, parse_chunking(key), embed=embed)
