"""Chunks are searched and their parents delivered: once each, at their best chunk, in every lane and fusion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rag_eval_assets.retrieval.ordering import Hits
from rag_eval_assets.retrieval.passages import Passages, delivered
from rag_eval_assets.retrieval.runs import SCHEMA, RetrieverSpec, run_retrievers

Row = dict[str, Any]
BM25 = RetrieverSpec("bm25", "bm25", {"analyser": "plain", "k1": 1.2, "b": 0.75})
PLAIN = RetrieverSpec("plain", "bm25", {"analyser": "plain", "k1": 2.0, "b": 0.0})
FUSED = RetrieverSpec("fused", "rrf", {"of": ["bm25", "plain"], "rrf_k": 60})
TEXTS = ["apple pear", "apple apple fig", "plum", "apple", "cherry apple fig plum", "kiwi"]


def with_parents(chunks: pa.Table, parents: Sequence[tuple[int, int, int] | None]) -> pa.Table:
    """`chunks` with (start, end, tokens) of the parent of each."""
    for part, name in enumerate(("parent_start", "parent_end", "parent_tokens")):
        values = pa.array([parent and parent[part] for parent in parents], pa.int32())
        chunks = chunks.set_column(chunks.column_names.index(name), name, values)
    return chunks


def ranked(
    chunks: pa.Table, specs: Sequence[RetrieverSpec], documents: list[Row], question: Row, *, depth: int = 10, **more: Any
) -> dict[str, list[Row]]:
    rows = run_retrievers(
        specs,
        [question],
        chunks,
        None,
        documents,
        depth=depth,
        embed_queries=lambda name, texts: None,
        threads=1,
        **{"known": None, "todo": {spec.name: [question["question_id"]] for spec in specs}, **more},
    ).to_pylist()
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["retriever"], []).append(row)
    return found


def case(
    chunk_table: Callable[[Sequence[tuple[str, str]]], pa.Table], document: Callable[..., Row], question: Callable[..., Row]
) -> tuple[pa.Table, list[Row], Row]:
    """Two documents of three chunks; the first two chunks of each have one parent."""
    chunks = chunk_table([(("a", "b")[i // 3], text) for i, text in enumerate(TEXTS)])
    parents = [(0, 100, 50), (0, 100, 50), (100, 200, 60), (0, 90, 40), (0, 90, 40), (90, 99, 5)]
    return with_parents(chunks, parents), [document("a"), document("b")], question("q", "apple")


def test_a_parent_is_delivered_once_at_the_rank_of_its_best_chunk(chunk_table: Any, document: Any, question: Any) -> None:
    chunks, documents, asked = case(chunk_table, document, question)
    plain = with_parents(chunks, [None] * 6)
    children = ranked(plain, [BM25], documents, asked)["bm25"]
    found = ranked(chunks, [BM25], documents, asked)["bm25"]
    parent_of = dict(
        zip(chunks["chunk_id"].to_pylist(), zip(*(chunks[n].to_pylist() for n in ("doc_id", "parent_start")), strict=True), strict=True)
    )
    first: dict[Any, str] = {}
    for row in children:
        first.setdefault(parent_of[row["chunk_id"]], row["chunk_id"])
    assert [row["chunk_id"] for row in found] == list(first.values())
    assert [row["rank"] for row in found] == [1, 2]
    assert {(row["doc_id"], row["start"], row["end"], row["tokens"]) for row in found} == {("a", 0, 100, 50), ("b", 0, 90, 40)}


def test_as_many_passages_are_found_as_are_asked_for(chunk_table: Any, document: Any, question: Any) -> None:
    chunks, documents, asked = case(chunk_table, document, question)
    # All four chunks that hold the word: the two best belong to one parent, and two passages are asked for.
    assert [row["rank"] for row in ranked(chunks, [PLAIN], documents, asked, depth=2)["plain"]] == [1, 2]


def test_a_fusion_fuses_parents_whichever_chunks_found_them(chunk_table: Any, document: Any, question: Any) -> None:
    chunks, documents, asked = case(chunk_table, document, question)
    found = ranked(chunks, [BM25, PLAIN, FUSED], documents, asked)
    lanes = [[(row["doc_id"], row["start"]) for row in found[lane]] for lane in ("bm25", "plain")]
    expected = {unit: sum(1 / (60 + lane.index(unit) + 1) for lane in lanes if unit in lane) for lane in lanes for unit in lane}
    got = {(row["doc_id"], row["start"]): row["score"] for row in found["fused"]}
    assert {unit: np.float32(score) for unit, score in expected.items()} == {unit: np.float32(score) for unit, score in got.items()}


def test_a_fusion_of_rankings_made_before_is_that_of_rankings_made_now(chunk_table: Any, document: Any, question: Any) -> None:
    chunks, documents, asked = case(chunk_table, document, question)
    specs = [BM25, PLAIN, FUSED]
    now = ranked(chunks, specs, documents, asked)
    known = pa.Table.from_pylist([*now["bm25"], *now["plain"]], schema=SCHEMA)
    later = ranked(chunks, specs, documents, asked, known=known, todo={"fused": ["q"]})
    assert [{**row, "seconds": 0} for row in later["fused"]] == [{**row, "seconds": 0} for row in now["fused"]]


def test_where_nothing_could_be_cut_every_pair_says_why(chunk_table: Any, document: Any, question: Any) -> None:
    chunks, documents, asked = case(chunk_table, document, question)
    found = ranked(chunks.slice(0, 0), [BM25, FUSED, PLAIN], documents, asked, unavailable="no_embedder")
    assert [(r["rank"], r["status"], r["reason"]) for rows in found.values() for r in rows] == [(0, "not_applicable", "no_embedder")] * 3


def test_delivered_spans_are_the_parents_or_the_chunks_own() -> None:
    columns: Mapping[str, list[int | None]] = {"start": [3, 5], "end": [4, 6], "parent_start": [0, None], "parent_end": [9, None]}
    assert delivered(pa.table(columns)).select(["start", "end"]).to_pylist() == [{"start": 0, "end": 9}, {"start": 5, "end": 6}]


def test_without_parents_a_ranking_is_left_alone(chunk_table: Any) -> None:
    passages = Passages(with_parents(chunk_table([("a", "x"), ("a", "y")]), [None, None]))
    hits = Hits(np.array([1, 0]), np.array([2, 1], dtype=np.float32))
    assert passages.depth(7) == 7
    assert passages.once(hits, 2).positions.tolist() == [1, 0]
    assert passages.once(hits, 1).scores.tolist() == [2.0]


def test_a_reranker_reads_the_parents_that_are_delivered(chunk_table: Any, document: Any, question: Any) -> None:
    chunks, documents, asked = case(chunk_table, document, question)
    texts = {name: "".join(chr(97 + (at + shift) % 26) for at in range(200)) for shift, name in enumerate("ab")}
    read: list[str] = []

    class Reader:
        def score(self, query: str, passages: Sequence[str]) -> list[float]:
            read.extend(passages)
            return [float(len(passage)) for passage in passages]

    rerank = RetrieverSpec("reranked", "rerank", {"of": ["bm25"], "reranker": {"name": "own"}, "depth": 10})
    found = ranked(chunks, [BM25, rerank], documents, asked, texts=texts, rerankers=lambda name: Reader())["reranked"]
    assert read == [texts[row["doc_id"]][row["start"] : row["end"]] for row in ranked(chunks, [BM25], documents, asked)["bm25"]]
    # The longer parent first, and nothing delivered but what was read.
    assert [(row["doc_id"], row["start"], row["end"], row["score"]) for row in found] == [("a", 0, 100, 100.0), ("b", 0, 90, 90.0)]
