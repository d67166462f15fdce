"""The chunks asset: one partition a chunking.

What belongs here: what a chunk's row depends on. What does not: where to cut (`ingestion.chunking`).
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from ingestion import tokenizers
from ingestion.chunking import STRATEGIES, chunk_document
from rag_eval_assets.assets._rows import join, row_digests
from rag_eval_assets.assets.index import EMBEDDER_LIBRARIES, open_embedder, uncut, vectors
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.partitions import parse_chunking
from rag_eval_assets.report import corpus_pictures
from rag_eval_assets.resources.embedders import embed_texts
from rag_eval_assets.storage.versions import work_key


@table_asset(
    "unique_documents",
    kinds=["python"],
    columns={"unique_documents": ("doc_id", "text", "text_sha256", "elements")},
    settings=lambda s, p: {"tokenizer": tokenizers.tokenizer_identity(s.tokenizer)},
    modules=lambda s, p: [STRATEGIES[parse_chunking(p).strategy].module] if p else [],
    libraries=lambda s, p: EMBEDDER_LIBRARIES if p and parse_chunking(p).embedder else (),
)
def chunks(step: Step, unique_documents: pa.Table) -> Product:
    """The chunks of one chunking, each an exact span of the canonical text; none where it needs an embedder that is not there."""
    chunking, name = parse_chunking(step.partition), step.settings.tokenizer
    embedder = open_embedder(step, chunking.embedder) if chunking.embedder else None
    if reason := uncut(step):
        return Product([], computed=0, notes={"not_applicable": reason})
    identity = [tokenizers.tokenizer_identity(name), *([embedder.identity] if embedder else ())]
    embed = partial(embed_texts, embedder=embedder, store=vectors(step)) if embedder else None
    named = unique_documents.select(["doc_id", "text_sha256"]).to_pylist()
    # Only documents to cut become Python objects: their elements are most of the table.
    elements = row_digests(unique_documents["elements"])
    wanted = {
        work_key(step.code, identity, step.partition, d["doc_id"], d["text_sha256"], digest): at
        for at, (d, digest) in enumerate(zip(named, elements, strict=True))
    }
    kept, todo = step.reuse(wanted)
    keys = {named[at]["doc_id"]: key for key, at in wanted.items()}
    rows = []
    for done, document in enumerate(unique_documents.take(pa.array(todo, pa.int64())).to_pylist(), 1):
        tokens = tokenizers.cached_spans(name, document["text_sha256"], document["text"])
        made = chunk_document(document, tokens, chunking, embed=embed)
        rows += [{**row, "work_key": keys[document["doc_id"]]} for row in made]
        step.progress(done, len(todo))
    table = join(kept, rows)
    return Product(
        table, computed=len(rows), pictures={"token_lengths": corpus_pictures.token_lengths(table.select(["tokens"]).to_pylist())}
    )
