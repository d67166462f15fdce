"""Approximate indexes against exact search: what recall each setting keeps, under which filters, at what cost.

What belongs here: measuring settings on given vectors and queries, and naming the cheapest that is good enough. What does not:
the search that a retriever runs (`dense`, measured here as it stands). Costs that decide are counts (distance computations,
bytes); seconds are shown and decide nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_eval_assets.retrieval.dense import ExactIndex, HnswIndex, Vectors, faiss_threads, load_faiss, pair_scores
from rag_eval_assets.retrieval.ordering import Hits, Mask, best_first
from rag_eval_assets.tables import NOT_APPLICABLE, SCORED

TIE = 1e-6  # inner products this close to the last true neighbour's count as found
POINTS_PER_LIST = 39  # faiss's own minimum of training vectors for each IVF list
GRAPH_RECALL = 0.9  # below this recall of the M nearest at ef = ef_construction, a graph is badly connected

Searcher = Callable[[Mask | None], list[Hits]]


@dataclass(frozen=True)
class _Setting:
    """One index setting, ready to search: `search` runs all queries, `computations` reads what the last search cost a query."""

    index: str
    name: str
    search: Searcher
    computations: Callable[[], float]
    bytes: int
    build_seconds: float | None
    note: str | None = None


@dataclass(frozen=True)
class _Subset:
    """The vectors that a filter of one selectivity leaves, and what exact search finds among them."""

    selectivity: float
    mask: Mask | None
    available: int
    truth: list[Hits]
    gold: Mapping[int, Mapping[str, int]]


def measure(
    vectors: Vectors | None,
    doc_ids: Sequence[str],
    queries: Vectors | None,
    qrels: Mapping[int, Mapping[str, int]],
    *,
    embedder: str,
    k: int,
    grid: Mapping[str, Sequence[int]],
    selectivities: Sequence[float],
    minimum_recall: float,
    seed: int,
    threads: int,
    on_done: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Rows of `ann_recall` for one chunking and embedder: exact search, HNSW and IVF at every setting and selectivity.

    `vectors` (n, d) and `queries` (q, d) are float32 of unit length; `doc_ids` names each vector's document; `qrels` maps a
    query's row to {document: grade}. `grid` holds hnsw_m, hnsw_ef_construction, hnsw_ef_search, ivf_nlist, ivf_nprobe.

    - Recall of a query = true neighbours found / min(k, available). A neighbour within `TIE` of the last true one counts as
      found, since near-duplicates are equally right; `recall_by_id` forgives no tie.
    - A selectivity s keeps ceil(s * n) vectors, drawn once from `seed` and nested; 1 is always measured. The filter is applied
      within the search, and HNSW raises ef_search for it as the retriever does.
    - `ndcg_cost` = nDCG@k by document (first rank of each) of exact search minus that of the index, over queries that have a
      relevant document among the vectors kept. The same measure on both sides, so the cost may be negative.
    - `recommended` marks, at selectivity 1, the one setting with the fewest distance computations (then bytes) whose mean recall
      reaches `minimum_recall`; exact search is among the candidates.

    Graphs are built on one thread each, at most `threads` at a time, and searched on one: equal input gives equal rows but for
    seconds. An nlist that leaves fewer than 39 training vectors a list is lowered. One not_applicable row stands for no_embedder
    (no vectors or queries given), no_vectors (fewer than 2) and too_few_questions (no query). Raises ValueError for k < 1, a
    selectivity outside (0, 1] and vectors that are not finite.
    """
    if k < 1:
        raise ValueError(f"k {k} must be at least 1")
    if any(not 0 < s <= 1 for s in selectivities):
        raise ValueError(f"selectivities {list(selectivities)} must lie over 0 and up to 1")
    if vectors is None or queries is None:
        return [_not_applicable(embedder, k, "no_embedder")]
    if len(vectors) < 2:
        return [_not_applicable(embedder, k, "no_vectors")]
    if len(doc_ids) != len(vectors):
        raise ValueError(f"{len(vectors)} vectors and {len(doc_ids)} document ids")
    if not np.isfinite(vectors).all():
        raise ValueError(f"embedder {embedder!r}: {int((~np.isfinite(vectors).all(axis=1)).sum())} vectors are not finite")
    sound = np.flatnonzero(np.isfinite(queries).all(axis=1))
    if not len(sound):
        return [_not_applicable(embedder, k, "too_few_questions")]
    left_out = f"{len(queries) - len(sound)} queries without a finite vector left out" if len(sound) < len(queries) else None
    gold = {at: qrels[int(query)] for at, query in enumerate(sound) if int(query) in qrels}
    vectors, queries = np.ascontiguousarray(vectors, dtype=np.float32), np.ascontiguousarray(queries[sound], dtype=np.float32)

    exact = ExactIndex(vectors)
    subsets = [_subset(exact, doc_ids, queries, gold, selectivity, k, seed) for selectivity in sorted({1.0, *selectivities}, reverse=True)]
    total = len(subsets) * (1 + _count(grid, len(vectors)))
    rows: list[dict[str, Any]] = []
    for setting in _settings(vectors, queries, exact, k, grid, seed, threads):
        for subset in subsets:
            rows.append(_row(setting, subset, vectors, queries, doc_ids, k, embedder, left_out))
            if on_done is not None:
                on_done(len(rows), total)
    _recommend(rows, minimum_recall)
    return sorted(rows, key=lambda row: (row["embedder"], row["index"], row["setting"], row["selectivity"], row["k"]))


def _subset(
    exact: ExactIndex,
    doc_ids: Sequence[str],
    queries: Vectors,
    gold: Mapping[int, Mapping[str, int]],
    selectivity: float,
    k: int,
    seed: int,
) -> _Subset:
    count = len(exact.vectors)
    available = math.ceil(selectivity * count)
    mask: Mask | None = None
    if available < count:
        mask = np.zeros(count, dtype=np.bool_)
        mask[np.random.default_rng(seed).permutation(count)[:available]] = True
    kept = set(doc_ids) if mask is None else {doc_ids[at] for at in np.flatnonzero(mask).tolist()}
    eligible = {query: {doc: grade for doc, grade in grades.items() if doc in kept} for query, grades in gold.items()}
    return _Subset(
        selectivity,
        mask,
        available,
        exact.search(queries, [mask] * len(queries), k),
        {query: grades for query, grades in eligible.items() if any(grade > 0 for grade in grades.values())},
    )


def _hnsw_grid(grid: Mapping[str, Sequence[int]]) -> list[tuple[int, int]]:
    return sorted(product(set(grid.get("hnsw_m", ())), set(grid.get("hnsw_ef_construction", ()))))


def _ivf_grid(grid: Mapping[str, Sequence[int]], count: int) -> dict[int, tuple[list[int], int]]:
    """Lists in effect -> (probes in effect, largest number of lists asked for)."""
    most = max(1, count // POINTS_PER_LIST)
    lists: dict[int, tuple[list[int], int]] = {}
    if not grid.get("ivf_nprobe"):
        return lists
    for asked in sorted(set(grid.get("ivf_nlist") or (round(4 * math.sqrt(count)),))):
        nlist = min(asked, most)
        lists[nlist] = sorted({min(probes, nlist) for probes in grid["ivf_nprobe"]}), asked
    return lists


def _count(grid: Mapping[str, Sequence[int]], count: int) -> int:
    graphs = len(_hnsw_grid(grid)) * len(set(grid.get("hnsw_ef_search", ())))
    return graphs + sum(len(probes) for probes, _ in _ivf_grid(grid, count).values())


def _settings(
    vectors: Vectors, queries: Vectors, exact: ExactIndex, k: int, grid: Mapping[str, Sequence[int]], seed: int, threads: int
) -> Iterator[_Setting]:
    yield _flat(vectors, queries, exact, k)
    graphs = _hnsw_grid(grid)
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(graphs), threads):
            part = graphs[start : start + threads]
            for (m, ef), (graph, seconds) in zip(part, pool.map(lambda at: _built(vectors, *at), part), strict=True):
                yield from _hnsw(graph, seconds, queries, exact, k, m, ef, sorted(set(grid.get("hnsw_ef_search", ()))))
    for nlist, (probes, asked) in _ivf_grid(grid, len(vectors)).items():
        yield from _ivf(vectors, queries, k, nlist, probes, asked, seed)


def _flat(vectors: Vectors, queries: Vectors, exact: ExactIndex, k: int) -> _Setting:
    faiss = load_faiss()
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    compared = [0.0]

    def search(mask: Mask | None) -> list[Hits]:
        compared[0] = float(len(vectors) if mask is None else np.count_nonzero(mask))
        return exact.search(queries, [mask] * len(queries), k)

    return _Setting("flat", "exact", search, lambda: compared[0], len(faiss.serialize_index(index)), None)


def _built(vectors: Vectors, m: int, ef_construction: int) -> tuple[HnswIndex, float]:
    started = time.perf_counter()
    return HnswIndex(vectors, m=m, ef_construction=ef_construction), time.perf_counter() - started


def _hnsw(
    graph: HnswIndex,
    seconds: float,
    queries: Vectors,
    exact: ExactIndex,
    k: int,
    m: int,
    ef_construction: int,
    efforts: Sequence[int],
) -> Iterator[_Setting]:
    faiss = load_faiss()
    size = len(faiss.serialize_index(graph.index))
    nearest = exact.search(queries, [None] * len(queries), m)
    reached = [graph.search(query, None, m, ef_search=ef_construction) for query in queries]
    wanted = min(m, len(graph.vectors))
    recall = float(np.mean([_found(true, hits, wanted) for true, hits in zip(nearest, reached, strict=True)]))
    note = f"recall of the {m} nearest at ef {ef_construction} is {recall:.3f}: the graph is badly connected, raise m or ef_construction"
    for effort in efforts:

        def search(mask: Mask | None, effort: int = effort) -> list[Hits]:
            faiss.cvar.hnsw_stats.reset()
            return [graph.search(query, mask, k, ef_search=effort) for query in queries]

        yield _Setting(
            "hnsw",
            f"m{m}-efc{ef_construction}-efs{effort}",
            search,
            lambda: faiss.cvar.hnsw_stats.ndis / len(queries),
            size,
            seconds,
            note if recall < GRAPH_RECALL else None,
        )


def _ivf(vectors: Vectors, queries: Vectors, k: int, nlist: int, probes: Sequence[int], asked: int, seed: int) -> Iterator[_Setting]:
    faiss = load_faiss()
    started = time.perf_counter()
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], nlist, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = seed
    index.cp.spherical = True
    with faiss_threads(1):
        index.train(vectors)
        index.add(vectors)
    seconds, size = time.perf_counter() - started, len(faiss.serialize_index(index))
    note = f"nlist {asked} lowered to {nlist}: training wants {POINTS_PER_LIST} vectors a list" if asked > nlist else None
    for probe in probes:

        def search(mask: Mask | None, probe: int = probe) -> list[Hits]:
            faiss.cvar.indexIVF_stats.reset()
            parameters: dict[str, Any] = {"nprobe": probe}
            if mask is not None:
                parameters["sel"] = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
            begun = time.perf_counter()
            with faiss_threads(1):
                _, found = index.search(queries, k, params=faiss.SearchParametersIVF(**parameters))
            shared = (time.perf_counter() - begun) / len(queries)
            hits = []
            for query, row in zip(queries, found, strict=True):
                near = row[row >= 0].astype(np.int64)
                hits.append(Hits(*best_first(near, pair_scores(query, vectors[near]), k), seconds=shared))
            return hits

        yield _Setting(
            "ivf",
            f"nlist{nlist}-nprobe{probe}",
            search,
            # A query is compared with every list's centre before it is compared with the vectors of the lists probed.
            lambda: nlist + faiss.cvar.indexIVF_stats.ndis / len(queries),
            size,
            seconds,
            note,
        )


def _found(true: Hits, hits: Hits, wanted: int) -> float:
    """Share of the `wanted` true neighbours among the hits, ties with the last of them forgiven."""
    return int(np.count_nonzero(hits.scores[:wanted] >= true.scores[wanted - 1] - TIE)) / wanted


def _row(
    setting: _Setting,
    subset: _Subset,
    vectors: Vectors,
    queries: Vectors,
    doc_ids: Sequence[str],
    k: int,
    embedder: str,
    left_out: str | None,
) -> dict[str, Any]:
    hits = setting.search(subset.mask)
    computations = setting.computations()
    wanted = min(k, subset.available)
    pairs = list(zip(subset.truth, hits, strict=True))
    recalls = np.array([_found(true, found, wanted) for true, found in pairs])
    by_id = [len(np.intersect1d(true.positions, found.positions)) / wanted for true, found in pairs]
    seconds = sum(found.seconds for found in hits)
    notes = (setting.note, next((found.detail for found in hits if found.detail), None), left_out)
    return {
        "embedder": embedder,
        "index": setting.index,
        "setting": setting.name,
        "selectivity": subset.selectivity,
        "k": k,
        "queries": len(queries),
        "recall_mean": float(recalls.mean()),
        "recall_p5": float(np.percentile(recalls, 5)),
        "recall_by_id": float(np.mean(by_id)),
        "ndcg_cost": _ndcg_cost(subset, hits, doc_ids, k),
        "distance_computations": computations,
        "bytes": setting.bytes,
        "recommended": False,
        "queries_per_second": len(queries) / seconds if seconds > 0 else None,
        "build_seconds": setting.build_seconds,
        "status": SCORED,
        "reason": None,
        "detail": "; ".join(note for note in notes if note) or None,
    }


def _ndcg_cost(subset: _Subset, hits: Sequence[Hits], doc_ids: Sequence[str], k: int) -> float | None:
    if not subset.gold:
        return None
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator({str(query): dict(grades) for query, grades in subset.gold.items()}, {f"ndcg_cut.{k}"})

    def mean(rankings: Sequence[Hits]) -> float:
        runs = {str(query): _by_document(rankings[query].positions, doc_ids) for query in subset.gold}
        scored = evaluator.evaluate(runs)
        # An empty ranking is dropped by the library and counts 0 here.
        return math.fsum(found[f"ndcg_cut_{k}"] for found in scored.values()) / len(subset.gold)

    return mean(subset.truth) - mean(hits)


def _by_document(positions: npt.NDArray[np.int64], doc_ids: Sequence[str]) -> dict[str, float]:
    """Documents in order of their first chunk, scored so that the order is kept."""
    documents = list(dict.fromkeys(doc_ids[at] for at in positions))
    return {document: float(len(documents) - rank) for rank, document in enumerate(documents)}


def _recommend(rows: Sequence[dict[str, Any]], minimum_recall: float) -> None:
    able = [row for row in rows if row["selectivity"] == 1.0 and row["recall_mean"] >= minimum_recall]
    if able:
        cheapest = min(able, key=lambda row: (row["distance_computations"], row["bytes"], row["index"], row["setting"]))
        cheapest["recommended"] = True


def not_measured(embedder: str, k: int) -> dict[str, Any]:
    """The one row of a chunking that no system retrieves from and that settings do not name."""
    return _not_applicable(embedder, k, "not_used")


def _not_applicable(embedder: str, k: int, reason: str) -> dict[str, Any]:
    return {
        "embedder": embedder,
        "index": "flat",
        "setting": "exact",
        "selectivity": 1.0,
        "k": k,
        "queries": 0,
        "recall_mean": None,
        "recall_p5": None,
        "recall_by_id": None,
        "ndcg_cost": None,
        "distance_computations": None,
        "bytes": None,
        "recommended": False,
        "queries_per_second": None,
        "build_seconds": None,
        "status": NOT_APPLICABLE,
        "reason": reason,
        "detail": None,
    }
