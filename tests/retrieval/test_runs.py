"""Every wanted pair is in the rankings table exactly once: ranked by one rule, or with the reason why it is not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_eval_assets.retrieval.fusion import rrf, weighted_sum
from rag_eval_assets.retrieval.ordering import NoRanking
from rag_eval_assets.retrieval.runs import SCHEMA, RetrieverSpec, run_retrievers
from rag_eval_assets.tables import REASONS, TABLES

Make = Callable[..., dict[str, Any]]
BM25 = RetrieverSpec("bm25", "bm25", {"k1": 1.2, "b": 0.75, "analyser": "by_language"})
DENSE = RetrieverSpec("dense", "dense", {"embedder": "minilm", "index": "exact", "m": 8, "ef_construction": 40, "ef_search": 16})
HNSW = RetrieverSpec("hnsw", "dense", {**DENSE.parameters, "index": "hnsw"})
FUSED = RetrieverSpec("fused", "rrf", {"of": ("bm25", "dense"), "rrf_k": 60})
SPECS = [BM25, DENSE, HNSW, FUSED]
WIDTH = 8


def _vector(text: str) -> list[float]:
    """A bag of letters of unit length: near where texts share letters."""
    raw = [sum(ord(letter) % WIDTH == at for letter in text) + 0.01 for at in range(WIDTH)]
    length = math.sqrt(sum(x * x for x in raw))
    return [x / length for x in raw]


def _embed(embedder: str, texts: list[str]) -> np.ndarray:
    assert embedder == "minilm"
    return np.array([_vector(text) for text in texts], dtype=np.float32)


PAIRS = [
    ("pump.txt", "The pump leaks oil."),
    ("pump.txt", "Replace the seal of the pump."),
    ("valve.txt", "The valve sticks."),
    ("secret.txt", "The pump contract of Acme."),
    ("twin-a.txt", "Check the oil level."),
    ("twin-b.txt", "Check the oil level."),
    ("pomp.txt", "De pomp lekt olie."),
]


class World:
    """A small corpus, questions on it, and one call that runs retrievers over them."""

    def __init__(self, chunks: pa.Table, embeddings: pa.Table | None, documents: list[Any], questions: list[Any]) -> None:
        self.chunks, self.embeddings, self.documents, self.questions = chunks, embeddings, documents, questions

    def run(self, todo: Mapping[str, Sequence[str]], **changed: Any) -> list[dict[str, Any]]:
        return self.table(todo, **changed).to_pylist()

    def table(self, todo: Mapping[str, Sequence[str]], **changed: Any) -> pa.Table:
        arguments: dict[str, Any] = {"known": None, "depth": 10, "embed_queries": _embed, "threads": 2, "todo": todo, **changed}
        inputs = (arguments.pop(name, getattr(self, name)) for name in ("questions", "chunks", "embeddings", "documents"))
        return run_retrievers(arguments.pop("specs", SPECS), *inputs, **arguments)

    @property
    def everything(self) -> dict[str, list[str]]:
        return {spec.name: [question["question_id"] for question in self.questions] for spec in SPECS}


@pytest.fixture
def world(document: Make, question: Make, chunk_table: Callable[..., pa.Table], embedding_table: Callable[..., pa.Table]) -> World:
    chunks = chunk_table(PAIRS)
    documents = [
        document("pump.txt", locale="en-US"),
        document("valve.txt", locale="en-GB"),
        document("secret.txt", tenant="acme"),
        document("twin-a.txt"),
        document("twin-b.txt"),
        document("pomp.txt", language="nl", locale="nl-NL"),
    ]
    questions = [
        question("q-oil", "Where is the oil level?"),
        question("q-pump", "Which pump leaks?", split="development"),
        question("q-acme", "Which pump contract?", entitlement={"tenant": ["acme"]}),
        question("q-filtered", "Which pump?", filter={"locale": "en-GB"}),
        question("q-nobody", "Which pump?", filter={"locale": "nl-NL"}, entitlement={"publication_state": ["draft"]}),
        question("q-stop", "of the and"),
        question("q-dutch", "Welke pompen lekken?", language="nl"),
    ]
    return World(chunks, embedding_table(chunks, [_vector(text) for _, text in PAIRS]), documents, questions)


def _ranking(rows: list[dict[str, Any]], retriever: str, question: str) -> list[str]:
    return [row["chunk_id"] for row in rows if (row["retriever"], row["question_id"]) == (retriever, question)]


def _content(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_rows_keep_the_contract_and_hold_exactly_the_wanted_pairs(world: World) -> None:
    table = world.table(world.everything)
    assert [*table.schema] == [column for column in TABLES["retrieval_runs"].schema if column.name != "work_key"]
    table.validate(full=True)
    rows = table.to_pylist()
    keys = [(row["question_id"], row["retriever"], row["rank"]) for row in rows]
    assert keys == sorted(set(keys))
    assert {key[:2] for key in keys} == {(q, r) for r, ids in world.everything.items() for q in ids}
    chunks = {chunk["chunk_id"]: chunk for chunk in world.chunks.to_pylist()}
    for row in rows:
        if row["rank"]:
            assert all(row[name] == chunks[row["chunk_id"]][name] for name in ("text_sha256", "doc_id", "start", "end", "tokens"))
            assert (row["status"], row["reason"]) == ("ok", None)
            assert row["score"] == float(np.float32(row["score"]))
    assert {row["split"] for row in rows if row["question_id"] == "q-pump"} == {"development"}


def test_a_caller_never_meets_a_chunk_it_may_not_read(world: World) -> None:
    rows = world.run(world.everything)
    for retriever in ("bm25", "dense", "hnsw", "fused"):
        assert any("secret.txt" in chunk for chunk in _ranking(rows, retriever, "q-acme"))
        assert not any("secret.txt" in chunk for chunk in _ranking(rows, retriever, "q-pump"))


def test_a_filter_is_applied_before_ranking_so_that_the_depth_is_filled_from_what_it_leaves(world: World) -> None:
    rows = world.run({"dense": ["q-filtered"], "hnsw": ["q-filtered"]}, depth=1)
    assert _ranking(rows, "dense", "q-filtered") == ["valve.txt#0-17"]
    assert _ranking(rows, "hnsw", "q-filtered") == ["valve.txt#0-17"]
    (row,) = [row for row in rows if row["retriever"] == "hnsw"]
    assert "1 of 7 vectors eligible" in row["detail"]


def test_nothing_found_is_one_row_of_rank_nought(world: World) -> None:
    rows = [row for row in world.run(world.everything) if row["rank"] == 0]
    found = {(row["retriever"], row["question_id"]): row for row in rows}
    assert {("bm25", "q-nobody"), ("dense", "q-nobody"), ("fused", "q-nobody"), ("bm25", "q-stop")} <= set(found)
    for row in rows:
        assert (row["status"], row["reason"], row["chunk_id"], row["score"]) == ("ok", "empty_ranking", None, None)
    assert ("fused", "q-stop") not in found, "one lane without hits does not empty a fusion"


def test_ties_are_broken_by_chunk_id_descending_at_the_cut_too(world: World) -> None:
    for retriever in ("bm25", "dense", "hnsw"):
        rows = world.run({retriever: ["q-oil"]})
        twins = [chunk for chunk in _ranking(rows, retriever, "q-oil") if "twin" in chunk]
        assert twins == ["twin-b.txt#0-20", "twin-a.txt#0-20"]
        scores = {row["score"] for row in rows if row["chunk_id"] in twins}
        assert len(scores) == 1
    (first,) = world.run({"bm25": ["q-oil"]}, depth=1)
    assert first["chunk_id"] == "twin-b.txt#0-20"


def test_the_dutch_question_is_stemmed_in_dutch(world: World) -> None:
    assert _ranking(world.run({"bm25": ["q-dutch"]}), "bm25", "q-dutch") == ["pomp.txt#0-18"]


def test_fusion_is_rrf_of_its_lanes(world: World) -> None:
    rows = world.run(world.everything)
    lanes = [_ranking(rows, lane, "q-pump") for lane in ("bm25", "dense")]
    expected = rrf(lanes, 60)
    fused = [row for row in rows if (row["retriever"], row["question_id"]) == ("fused", "q-pump")]
    assert [row["chunk_id"] for row in fused] == [chunk for chunk, _ in expected]
    assert [row["score"] for row in fused] == pytest.approx([score for _, score in expected], rel=1e-6)


def test_fusion_from_rankings_kept_from_before_equals_fusion_from_fresh_ones(world: World) -> None:
    everything = world.table(world.everything)
    fresh = [row for row in everything.to_pylist() if row["retriever"] == "fused"]
    shuffled = everything.take(np.random.default_rng(0).permutation(everything.num_rows))
    again = world.run({"fused": world.everything["fused"]}, known=shuffled)
    assert _content(again) == _content(fresh)
    for depth in (1, 2, 3):
        shallow = world.run({"fused": world.everything["fused"]}, known=shuffled, depth=depth)
        together = world.run(world.everything, depth=depth)
        assert _content(shallow) == [row for row in _content(together) if row["retriever"] == "fused"]


def test_a_lane_that_was_never_run_makes_the_fusion_missing(world: World) -> None:
    (row,) = world.run({"fused": ["q-pump"]}, known=world.table({"bm25": ["q-pump"], "dense": ["q-oil"]}))
    assert (row["rank"], row["status"], row["reason"], row["detail"]) == (0, "missing", "missing_run", "lane dense: missing_run")


def test_a_known_ranking_that_names_a_chunk_twice_fails_that_question_alone(world: World) -> None:
    known = world.table({"bm25": ["q-pump", "q-oil"], "dense": ["q-pump", "q-oil"]})
    doubled = known.to_pylist()
    first = next(row for row in doubled if (row["question_id"], row["retriever"]) == ("q-pump", "dense"))
    doubled.append({**first, "rank": 99})
    rows = world.run({"fused": ["q-pump", "q-oil"]}, known=pa.Table.from_pylist(doubled, schema=known.schema), depth=100)
    (failed,) = [row for row in rows if row["question_id"] == "q-pump"]
    assert (failed["status"], failed["reason"]) == ("failed", "duplicate_ids")
    assert first["chunk_id"] in failed["detail"]
    assert all(row["status"] == "ok" for row in rows if row["question_id"] == "q-oil")


def test_a_known_ranking_over_another_text_is_refused(world: World) -> None:
    known = world.table({"bm25": ["q-pump"], "dense": ["q-pump"]}).to_pylist()
    stale = pa.Table.from_pylist([{**row, "text_sha256": "0" * 64} for row in known], schema=SCHEMA)
    with pytest.raises(ValueError, match="known ranking names"):
        world.run({"fused": ["q-pump"]}, known=stale)


@pytest.mark.parametrize("without", ["vectors", "rows of this embedder", "query embedder"])
def test_without_an_embedder_dense_and_fusion_do_not_apply_and_bm25_runs(world: World, without: str) -> None:
    changed: dict[str, Any] = {
        "vectors": {"embeddings": None},
        "rows of this embedder": {"embeddings": world.embeddings.slice(0, 0)},  # type: ignore[union-attr]
        "query embedder": {"embed_queries": lambda *_: None},
    }[without]
    rows = world.run(world.everything, **changed)
    for retriever in ("dense", "hnsw", "fused"):
        found = [row for row in rows if row["retriever"] == retriever]
        assert len(found) == len(world.questions)
        assert {(row["rank"], row["status"], row["reason"]) for row in found} == {(0, "not_applicable", "no_embedder")}
    assert len(_ranking(rows, "bm25", "q-pump")) > 1


def test_a_question_whose_vector_is_not_finite_fails_alone(world: World) -> None:
    def embed(embedder: str, texts: list[str]) -> np.ndarray:
        vectors = _embed(embedder, texts)
        vectors[[at for at, text in enumerate(texts) if "leaks" in text]] = np.nan
        return vectors

    rows = world.run(world.everything, embed_queries=embed)
    failed = {(row["retriever"], row["question_id"]): row["reason"] for row in rows if row["status"] == "failed"}
    assert failed == {
        ("dense", "q-pump"): "non_finite_score",
        ("hnsw", "q-pump"): "non_finite_score",
        ("fused", "q-pump"): "upstream_failed",
    }
    assert len(_ranking(rows, "dense", "q-oil")) == 6


def test_a_text_that_breaks_the_embedder_fails_alone_with_the_error_told(world: World) -> None:
    def embed(embedder: str, texts: list[str]) -> np.ndarray:
        if any("leaks" in text for text in texts):
            raise RuntimeError("tokenizer gave up")
        return _embed(embedder, texts)

    rows = world.run({"dense": ["q-pump", "q-oil"]}, embed_queries=embed)
    (failed,) = [row for row in rows if row["question_id"] == "q-pump"]
    assert (failed["status"], failed["reason"]) == ("failed", "crashed")
    assert "RuntimeError: tokenizer gave up" in failed["detail"]
    assert len(_ranking(rows, "dense", "q-oil")) == 6


def test_a_chunk_whose_vector_failed_is_left_out_and_told(world: World, embedding_table: Callable[..., pa.Table]) -> None:
    embeddings = embedding_table(world.chunks, [None, *(_vector(text) for _, text in PAIRS[1:])])
    rows = world.run({"dense": ["q-pump"]}, embeddings=embeddings)
    assert "pump.txt#0-19" not in _ranking(rows, "dense", "q-pump")
    assert [row["detail"] for row in rows] == ["1 chunks have no vector"] + [None] * (len(rows) - 1)


def test_a_chunk_without_a_row_of_its_present_text_is_an_error(world: World) -> None:
    assert world.embeddings is not None
    with pytest.raises(ValueError, match=r"has no vector of its present text"):
        world.run({"dense": ["q-pump"]}, embeddings=world.embeddings.slice(1))


def test_a_vector_that_is_not_finite_or_of_another_width_is_an_error(world: World, embedding_table: Callable[..., pa.Table]) -> None:
    good = [_vector(text) for _, text in PAIRS]
    with pytest.raises(ValueError, match=r"'pump\.txt#0-19' is not finite"):
        world.run({"dense": ["q-pump"]}, embeddings=embedding_table(world.chunks, [[math.inf] * WIDTH, *good[1:]]))
    with pytest.raises(ValueError, match="widths"):
        world.run({"dense": ["q-pump"]}, embeddings=embedding_table(world.chunks, [[1.0], *good[1:]]))
    with pytest.raises(ValueError, match="queries are 1 wide, chunks 8"):
        world.run({"dense": ["q-pump"]}, embed_queries=lambda _, texts: np.ones((len(texts), 1), dtype=np.float32))


def test_a_ranking_does_not_depend_on_what_is_asked_beside_it(world: World) -> None:
    together = _content(world.run(world.everything))
    apart: list[dict[str, Any]] = []
    for retriever, ids in world.everything.items():
        for question in ids:
            lanes = FUSED.parameters["of"] if retriever == "fused" else ()
            apart += world.run({retriever: [question]}, known=world.table({lane: [question] for lane in lanes}) if lanes else None)
    assert sorted(_content(apart), key=lambda row: (row["question_id"], row["retriever"], row["rank"])) == together


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])  # nothing changes the world
@given(seed=st.integers(0, 10_000), data=st.data())
def test_the_order_of_input_rows_never_matters_and_every_wanted_pair_is_answered(world: World, seed: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    todo = {spec.name: data.draw(st.lists(st.sampled_from(world.everything["bm25"]), unique=True)) for spec in SPECS}
    depth = data.draw(st.integers(1, 8))
    assert world.embeddings is not None
    shuffled = world.run(
        todo,
        depth=depth,
        specs=[SPECS[at] for at in rng.permutation(len(SPECS))],
        questions=[world.questions[at] for at in rng.permutation(len(world.questions))],
        documents=[world.documents[at] for at in rng.permutation(len(world.documents))],
        chunks=world.chunks.take(rng.permutation(world.chunks.num_rows)),
        embeddings=world.embeddings.take(rng.permutation(world.embeddings.num_rows)),
    )
    assert _content(shuffled) == _content(world.run(todo, depth=depth))
    assert {(row["retriever"], row["question_id"]) for row in shuffled} == {(name, i) for name, ids in todo.items() for i in ids}
    for name, ids in todo.items():
        for i in ids:
            ranks = [row["rank"] for row in shuffled if (row["retriever"], row["question_id"]) == (name, i)]
            assert ranks in ([0], list(range(1, len(ranks) + 1)))
            assert len(ranks) <= depth
    assert all(row["reason"] is None or row["reason"] in REASONS for row in shuffled)


def test_progress_counts_pairs(world: World) -> None:
    seen: list[tuple[int, int]] = []
    world.run(world.everything, on_done=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (28, 28)


def test_no_pair_wanted_is_an_empty_table_and_no_chunk_is_an_empty_ranking(world: World) -> None:
    assert world.table({}).schema == SCHEMA
    assert world.table({"bm25": []}).num_rows == 0
    rows = world.run(world.everything, chunks=world.chunks.slice(0, 0), embeddings=None)
    assert {(row["rank"], row["status"], row["reason"]) for row in rows} == {(0, "ok", "empty_ranking")}
    assert len(rows) == 28


def test_contradicting_inputs_are_refused_by_name(world: World, document: Make) -> None:
    with pytest.raises(ValueError, match="no retriever 'other'"):
        world.run({"other": ["q-pump"]})
    with pytest.raises(ValueError, match="no question 'q-none'"):
        world.run({"bm25": ["q-none"]})
    with pytest.raises(ValueError, match="asked for twice"):
        world.run({"bm25": ["q-pump", "q-pump"]})
    with pytest.raises(ValueError, match="two questions have one id"):
        world.run({"bm25": ["q-pump"]}, questions=world.questions * 2)
    with pytest.raises(ValueError, match="two chunks have one id"):
        world.run({"bm25": ["q-pump"]}, chunks=pa.concat_tables([world.chunks, world.chunks]))
    with pytest.raises(ValueError, match=r"no row in unique_documents, 'valve\.txt'"):
        world.run({"bm25": ["q-pump"]}, documents=[row for row in world.documents if row["doc_id"] != "valve.txt"])
    with pytest.raises(ValueError, match="no kind 'splade'"):
        world.run({"x": ["q-pump"]}, specs=[RetrieverSpec("x", "splade", {})])


def test_a_filter_on_a_field_that_only_documents_outside_the_index_have_finds_nothing(world: World, question: Make) -> None:
    strict = question("q-strict", "pump", filter={"colour": "red"})
    rows = world.run({"bm25": ["q-strict"]}, questions=[*world.questions, strict])
    assert [(row["rank"], row["status"], row["reason"]) for row in rows] == [(0, "ok", "empty_ranking")]


# ------------------------------------------------------------------------------------------------- combined retrievers
RM3 = RetrieverSpec("rm3", "rm3", {"of": ["bm25"], "fb_docs": 2, "fb_terms": 3, "original_weight": 0.5})
CONVEX = RetrieverSpec("convex", "convex", {"of": ["bm25", "dense"], "steps": 10, "normalisation": "min_max", "tune_k": 10})
WEIGHTED = RetrieverSpec("weighted", "weighted", {"of": ["bm25", "dense"], "weights": [0.3, 0.7], "normalisation": "min_max"})
GIVEN = RetrieverSpec("given", "run_file", {"path": "runs/mine.trec"})


def _reranked(of: str, depth: int = 2) -> RetrieverSpec:
    return RetrieverSpec("reranked", "rerank", {"of": [of], "depth": depth, "reranker": {"name": "ce", "device": "cpu", "batch": 16}})


class _Longest:
    """A pointwise scorer with a known answer: the longest passage wins."""

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        return [float(len(passage)) for passage in passages]


def test_every_row_states_what_shaped_its_ranking(world: World) -> None:
    rows = world.run({**world.everything, "rm3": ["q-oil"]}, specs=[*SPECS, RM3])
    stated = {row["retriever"]: json.loads(row["parameters"]) for row in rows}
    assert stated["bm25"] == {"kind": "bm25", "k1": 1.2, "b": 0.75, "analyser": "by_language"}
    assert stated["fused"] == {"kind": "rrf", "of": ["bm25", "dense"], "rrf_k": 60}
    assert stated["rm3"]["fb_docs"] == 2
    assert all(row["parameters"] for row in rows)


def test_a_weighted_fusion_is_the_weighted_sum_of_its_lanes(world: World) -> None:
    rows = world.run({**world.everything, "weighted": ["q-oil"]}, specs=[*SPECS, WEIGHTED])
    lanes = [[(r["chunk_id"], r["score"]) for r in rows if (r["retriever"], r["question_id"]) == (n, "q-oil")] for n in ("bm25", "dense")]
    fused = weighted_sum(lanes, [0.3, 0.7], "min_max")
    assert _ranking(rows, "weighted", "q-oil") == [chunk for chunk, _ in fused]


def test_convex_weights_are_tuned_on_development_alone_and_stated_with_their_grid(world: World) -> None:
    gold = {"q-pump": {"valve.txt": 1}, "q-oil": {"pump.txt": 1}}
    asked = {**world.everything, "convex": ["q-oil"]}
    rows = world.run(asked, specs=[*SPECS, CONVEX], gold=gold)
    stated = json.loads(next(row["parameters"] for row in rows if row["retriever"] == "convex"))
    assert (stated["steps"], stated["normalisation"]) == (10, "min_max")
    assert stated["tuned_on"].items() >= {"split": "development", "questions": 1, "metric": "nDCG@10", "points": 11}.items()
    # The labels of a release question change nothing, and neither does what is asked beside it: q-pump's lanes come from before.
    other = world.run(asked, specs=[*SPECS, CONVEX], gold={**gold, "q-oil": {"twin-a.txt": 1}})
    assert _content(other) == _content(rows)
    known = world.table(world.everything)
    kept = world.run({"convex": ["q-oil"]}, specs=[*SPECS, CONVEX], gold=gold, known=known)
    assert _content(kept) == [row for row in _content(rows) if row["retriever"] == "convex"]


def test_a_reranker_orders_the_leading_hits_and_leaves_the_rest_below(world: World) -> None:
    rows = world.run({**world.everything, "reranked": ["q-pump"]}, specs=[*SPECS, _reranked("dense")], rerankers=lambda name: _Longest())
    lane, found = _ranking(rows, "dense", "q-pump"), _ranking(rows, "reranked", "q-pump")
    length = {chunk["chunk_id"]: len(chunk["text"]) for chunk in world.chunks.to_pylist()}
    assert found == [*sorted(lane[:2], key=lambda chunk: -length[chunk]), *lane[2:]]
    scores = [row["score"] for row in rows if (row["retriever"], row["question_id"]) == ("reranked", "q-pump")]
    assert scores == [*sorted((float(length[chunk]) for chunk in lane[:2]), reverse=True), *[None] * len(lane[2:])]
    stated = json.loads(next(row["parameters"] for row in rows if row["retriever"] == "reranked"))
    assert (stated["depth"], stated["reranker"]) == (2, {"name": "ce", "device": "cpu", "batch": 16})


class _Broken:
    def __init__(self, scores: object) -> None:
        self.scores = scores

    def score(self, query: str, passages: Sequence[str]) -> Any:
        if isinstance(self.scores, Exception):
            raise self.scores
        return self.scores


@pytest.mark.parametrize(
    ("scores", "reason", "told"),
    [
        ([1.0], "unusable_reply", "1 scores for 2 passages"),
        ([1.0, math.nan], "non_finite_score", "not finite"),
        (TimeoutError("late"), "timeout", "late"),
        (RuntimeError("no memory"), "crashed", "RuntimeError: no memory"),
    ],
)
def test_a_reranker_that_breaks_fails_its_question_with_the_reason(world: World, scores: object, reason: str, told: str) -> None:
    specs = [*SPECS, _reranked("fused")]
    rows = world.run({**world.everything, "reranked": ["q-oil"]}, specs=specs, rerankers=lambda name: _Broken(scores))
    (row,) = [row for row in rows if row["retriever"] == "reranked"]
    assert (row["status"], row["reason"]) == ("failed", reason)
    assert told in row["detail"]


def test_a_reranker_that_is_not_there_does_not_apply(world: World) -> None:
    absent = NoRanking("not_applicable", "not_installed", "needs a library")
    rows = world.run({"bm25": ["q-oil"], "reranked": ["q-oil"]}, specs=[*SPECS, _reranked("bm25")], rerankers=lambda name: absent)
    (row,) = [row for row in rows if row["retriever"] == "reranked"]
    assert (row["status"], row["reason"], row["detail"]) == ("not_applicable", "not_installed", "needs a library")


def _given(world: World, hits: list[tuple[str, float | None]], question: str = "q-pump") -> list[dict[str, Any]]:
    return world.run({"given": [question]}, specs=[*SPECS, GIVEN], imported={("given", question): hits})


def test_a_ranking_made_elsewhere_keeps_its_own_order_by_chunk_or_by_whole_document(world: World) -> None:
    rows = _given(world, [("valve.txt", 0.1), ("pump.txt#19-48", 0.9), ("pomp.txt", None)])
    assert [row["chunk_id"] for row in rows] == ["valve.txt#0-17", "pump.txt#19-48", "pomp.txt#0-18"]
    assert [row["score"] for row in rows] == [pytest.approx(0.1), pytest.approx(0.9), None]


def test_a_merged_copy_stands_for_its_survivor_at_the_first_rank(world: World) -> None:
    world.documents = [{**d, "absorbed": ["old.txt"]} if d["doc_id"] == "valve.txt" else d for d in world.documents]
    rows = _given(world, [("old.txt", 3.0), ("pomp.txt", 2.0), ("valve.txt", 1.0)])
    assert [row["doc_id"] for row in rows] == ["valve.txt", "pomp.txt"]


@pytest.mark.parametrize(
    ("item", "reason", "told"),
    [
        ("pump.txt", "unknown_unit", "'pump.txt' is neither a chunk here nor a document that is one chunk"),
        ("pump.txt#0-5", "unknown_unit", "'pump.txt#0-5'"),
        ("secret.txt", "not_permitted", "may not read 'secret.txt#0-26'"),
    ],
)
def test_a_ranking_made_elsewhere_that_names_what_it_cannot_fails_that_question(world: World, item: str, reason: str, told: str) -> None:
    (row,) = _given(world, [(item, 1.0)])
    assert (row["status"], row["reason"]) == ("failed", reason)
    assert told in row["detail"]


def test_a_question_that_the_file_lacks_is_missing_and_hits_outside_its_filter_are_told(world: World) -> None:
    (row,) = world.run({"given": ["q-pump"]}, specs=[*SPECS, GIVEN])
    assert (row["status"], row["reason"]) == ("missing", "missing_run")
    first, _ = _given(world, [("pomp.txt", 2.0), ("valve.txt", 1.0)], "q-filtered")
    assert first["detail"] == "1 hits outside the question's filter"


def test_a_ranking_that_reaches_past_the_callers_entitlement_fails_whatever_let_it_through(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The masks are broken here on purpose: entitlement is asked of the documents once more, of every search and fusion."""
    monkeypatch.setattr("rag_eval_assets.retrieval.corpus.Corpus.mask", lambda *_: None)
    rows = world.run({name: ["q-pump"] for name in ("bm25", "dense", "hnsw", "fused")})
    assert {(row["retriever"], row["rank"], row["status"]) for row in rows} == {
        (name, 0, "failed") for name in ("bm25", "dense", "hnsw", "fused")
    }
    assert {row["reason"] for row in rows if row["retriever"] != "fused"} == {"not_permitted"}
    assert all("secret.txt" in row["detail"] for row in rows if row["retriever"] != "fused")
    (kept, *_) = world.run({"dense": ["q-acme"]})
    assert kept["status"] == "ok"
