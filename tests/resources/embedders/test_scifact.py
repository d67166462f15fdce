"""The default embedder on public data reaches what was published for its model."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from rag_eval_assets.resources.embedders import embed_texts, load_embedder
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.retrieval.dense import ExactIndex


@pytest.mark.reference
@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_scifact_with_whole_documents_and_exact_search_reaches_the_published_ndcg(shared: Path, tmp_path: Path) -> None:
    """Published for all-MiniLM-L6-v2: nDCG@10 .645. Scored by pytrec_eval, not by the code that scores rankings here."""
    import pytrec_eval

    folder = shared / "retrieval" / "scifact"
    embedder = load_embedder("minilm", "minilm", batch=8, threads=2)
    if embedder is None:
        pytest.skip("the minilm extra is not installed")
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    qrels: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)
    asked = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = [query for query in asked if query["_id"] in qrels]
    store = SqliteStore(os.environ.get("RAG_EVAL_TEST_VECTORS") or tmp_path / "vectors.sqlite")
    vectors = embed_texts([f"{d['title']} {d['text']}" for d in corpus], embedder, store)
    queries = embed_texts([q["text"] for q in asked], embedder, store, query=True)
    hits = ExactIndex(vectors).search(queries, [None] * len(queries), 100)
    run = {
        query["_id"]: {corpus[p]["_id"]: float(s) for p, s in zip(found.positions, found.scores, strict=True)}
        for query, found in zip(asked, hits, strict=True)
    }
    scores = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.100"}).evaluate(run).values()
    assert (len(corpus), len(asked)) == (5183, 300)
    assert np.mean([s["ndcg_cut_10"] for s in scores]) == pytest.approx(0.6468, abs=0.003)
    assert np.mean([s["recall_100"] for s in scores]) == pytest.approx(0.9217, abs=0.003)
