"""Tables of chunks, their vectors and quality, and of the index measured against exact search."""

from __future__ import annotations

import pyarrow as pa

from rag_eval_assets.tables.columns import CONTENT, DETAIL, DOC_ID, MEASURE, SCORE, WORK_KEY, boolean, f64, i32, i64, string, strings
from rag_eval_assets.tables.contract import col, table

# A column a line reads better than a bracket a line.
# fmt: off
CHUNKS = (
    table("chunks", "chunks", "a chunk", ("doc_id", "ordinal"), [
        col("chunk_id", string, "doc_id#start-end, a name inside one version."),
        DOC_ID,
        col("ordinal", i32, "Position among the document's chunks, from 0."),
        col("start", i32, "Start in the canonical text."),
        col("end", i32, "End in the canonical text."),
        col("text", string, "Canonical text [start, end)."),
        col("text_sha256", string, "SHA-256 of the chunk's text."),
        col("tokens", i32, "Tokens of the named tokenizer."),
        col("section_path", strings, "Headings above the chunk's first element."),
        col("page", i32, "Page of the chunk's first element.", null=True),
        col("parent_start", i32, "Start of the parent, which is delivered where this chunk is found; null for a chunk without.", null=True),
        col("parent_end", i32, "End of the parent.", null=True),
        col("parent_tokens", i32, "Tokens of the parent.", null=True),
        WORK_KEY,
    ], "chunking"),
    table("chunk_embeddings", "index", "a vector", ("chunk_id", "embedder"), [
        col("chunk_id", string, "Chunk."),
        col("text_sha256", string, "SHA-256 of the chunk's text."),
        col("embedder", string, "Embedder."),
        col("vector", pa.list_(pa.float32()), "Unit-length vector; null where there is none.", null=True, role="vector"),
        col("tokens", i32, "Tokens of the embedder's own tokenizer before truncation, prefix included; null where it is "
            "not known.", null=True),
        col("truncated", boolean, "Whether the text was longer than the embedder sees.", null=True),
        col("context", string, "What stood before the chunk when it was embedded: headings, or what a model wrote; null for nothing.",
            null=True),
        col("context_tokens", i32, "Tokens of prompt and reply of a written context; null where none was written, or none are counted.",
            null=True),
        col("context_cost", f64, "Cost of a written context by the prices set; null where none is known.", null=True),
        *CONTENT, DETAIL,
        col("work_key", string, "Hash of model, text and code behind the vector, for which it stands in the data version."),
    ], "chunking"),
    table("chunk_quality", "index", "a measure of one chunking", ("measure", "scope"), MEASURE, "chunking"),
    table("ann_recall", "index", "an index setting at one selectivity",
            ("embedder", "index", "setting", "filtering", "selectivity", "k"), [
        col("embedder", string, "Embedder."),
        col("index", string, "flat, hnsw or ivf; with _sq8 (8 bits a number) or _pq (product quantisation) where it is quantised."),
        col("setting", string, "Readable setting, such as m16-efc100-efs64."),
        col("filtering", string, "none, pre (filter within the search) or post (search deeper without it, then drop what it hides)."),
        col("selectivity", f64, "Share of the vectors that the filter leaves, 0 to 1."),
        col("k", i32, "Neighbours asked for."),
        col("queries", i32, "Queries measured."),
        col("recall_mean", f64, "Mean over queries of |found and true| / min(k, available), ties in distance count as found.", null=True),
        col("recall_p5", f64, "5th percentile over queries.", null=True),
        col("recall_by_id", f64, "Mean recall by id, ties not forgiven.", null=True),
        col("agreement", f64, "Mean share of the first k that a second build finds too (other order of insertion, or "
            "other seed).", null=True),
        col("ndcg_cost", f64, "nDCG@k by document of exact search minus that of the index.", null=True),
        col("distance_computations", f64, "Mean distance computations a query.", null=True),
        col("bytes", i64, "Bytes of the serialised index.", null=True),
        col("recommended", boolean, "Cheapest setting by distance computations that reaches the recall wanted."),
        col("queries_per_second", f64, "Queries per second, one after another.", null=True, role="volatile"),
        *(col(f"latency_p{p}", f64, f"{p}th percentile of a query's milliseconds.", null=True, role="volatile") for p in (50, 95, 99)),
        col("build_seconds", f64, "Build time in seconds.", null=True, role="volatile"),
        *SCORE, DETAIL,
    ], "chunking"),
)
