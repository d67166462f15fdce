"""Fusion on public data: both kinds against both of their lanes, question by question, with a paired interval.

The outcome that was found is what is asserted, whichever it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from rag_eval_assets.resources.embedders import embed_texts, load_embedder
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.retrieval.bm25 import Bm25Index, analyse
from rag_eval_assets.retrieval.dense import ExactIndex
from rag_eval_assets.retrieval.fusion import rrf, tune, weighted_sum
from rag_eval_assets.scoring.intervals import paired_difference
from tests.retrieval.test_bm25 import _read

VECTORS = "RAG_EVAL_TEST_VECTORS"
"""Environment variable: a file that keeps vectors from one run of the torture tests to the next."""
Lane = dict[str, list[tuple[str, float]]]


def lanes_of(folder: Path, language: str, store: SqliteStore) -> tuple[Lane, Lane, dict[str, dict[str, int]]]:
    """BM25's and the default embedder's best hundred for each judged question, and the judgments."""
    embedder = load_embedder("minilm", "minilm", batch=8, threads=2)
    if embedder is None:
        pytest.skip("the minilm extra is not installed")
    ids, texts, queries, qrels = _read(folder)
    asked = list(qrels)
    index = Bm25Index(analyse(texts, [language] * len(texts), "by_language"), k1=1.5, b=0.75)
    words = analyse([queries[query] for query in asked], [language] * len(asked), "by_language")
    sparse = [index.search(own, None, 100) for own in words]
    vectors = embed_texts(texts, embedder, store)
    dense = ExactIndex(vectors).search(embed_texts([queries[q] for q in asked], embedder, store, query=True), [None] * len(asked), 100)
    made = [
        {q: [(ids[p], float(s)) for p, s in zip(hits.positions, hits.scores, strict=True)] for q, hits in zip(asked, lane, strict=True)}
        for lane in (sparse, dense)
    ]
    return made[0], made[1], qrels


@dataclass(frozen=True)
class Fused:
    """The lanes of one set of questions, and both fusions of them: by rank, and by score with weights of every second question."""

    lanes: dict[str, Lane]
    rrf: Lane
    convex: Lane
    qrels: dict[str, dict[str, int]]
    asked: list[str]
    """Questions that the weights were not tuned on."""


def fused_on(folder: Path, scratch: Path) -> Fused:
    sparse, dense, qrels = lanes_of(folder, "en", SqliteStore(os.environ.get(VECTORS) or scratch / "vectors.sqlite"))
    tuning, asked = sorted(qrels)[::2], sorted(qrels)[1::2]
    unit_of = {doc: doc for lane in (sparse, dense) for ranking in lane.values() for doc, _ in ranking}
    pairs = {q: [sparse[q], dense[q]] for q in qrels}
    weights = tune({q: pairs[q] for q in tuning}, {q: qrels[q] for q in tuning}, unit_of, lanes=2, steps=10, how="min_max", k=10).weights
    by_rank = {q: rrf([[doc for doc, _ in lane] for lane in own]) for q, own in pairs.items()}
    by_score = {q: weighted_sum(own, weights, "min_max") for q, own in pairs.items()}
    return Fused({"bm25": sparse, "dense": dense}, by_rank, by_score, qrels, asked)


def measured(rankings: Lane, qrels: dict[str, dict[str, int]], asked: list[str]) -> list[float]:
    """nDCG@10 of each question of `asked`, by trec_eval's code."""
    import pytrec_eval

    run = {q: {doc: float(-place) for place, (doc, _) in enumerate(rankings[q])} for q in asked}
    scores = pytrec_eval.RelevanceEvaluator({q: qrels[q] for q in asked}, {"ndcg_cut.10"}).evaluate(run)
    return [scores[q]["ndcg_cut_10"] for q in asked]


@pytest.mark.reference
@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_fusion_of_bm25_and_the_default_embedder_on_english_questions(shared: Path, tmp_path: Path) -> None:
    """Weights are tuned on every second question and all rankings compared on the others."""
    made = fused_on(shared / "retrieval" / "xquad_en", tmp_path)
    found = {**made.lanes, "rrf": made.rrf, "convex": made.convex}
    values = {name: measured(rankings, made.qrels, made.asked) for name, rankings in found.items()}
    means = {name: round(sum(own) / len(own), 4) for name, own in values.items()}
    # Both fusions have the higher mean, and that is shown against the dense lane alone: BM25 leaves little to gain here.
    assert max(means["bm25"], means["dense"]) < means["rrf"] < means["convex"], means
    for fused in ("rrf", "convex"):
        lower, _ = paired_difference(values[fused], values["dense"])
        assert lower > 0, (fused, means)
        lower, upper = paired_difference(values[fused], values["bm25"])
        assert lower < 0 < upper, (fused, means)


@pytest.mark.reference
@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_fusion_on_scifact_beats_the_dense_lane_and_is_not_shown_to_beat_bm25(shared: Path, tmp_path: Path) -> None:
    """All 300 test questions by ranks alone, which tune nothing; by scores, the second half with weights of the first."""
    made = fused_on(shared / "retrieval" / "scifact", tmp_path)
    every = sorted(made.qrels)
    values = {"rrf": measured(made.rrf, made.qrels, every), "convex": measured(made.convex, made.qrels, made.asked)}
    for name, questions in (("rrf", every), ("convex", made.asked)):
        print(f"\n{name}: nDCG@10 {sum(values[name]) / len(questions):.4f} over {len(questions)} questions")
        for lane, shown in (("dense", True), ("bm25", False)):
            lower, upper = paired_difference(values[name], measured(made.lanes[lane], made.qrels, questions))
            print(f"  minus {lane}: [{lower:.4f}, {upper:.4f}]")
            assert (lower > 0) == shown
    assert sum(values["rrf"]) / len(every) == pytest.approx(0.7163, abs=0.003)
