"""Approximate indexes against exact search: what recall each setting keeps, under which filters, at what cost.

What belongs here: measuring settings on given vectors and queries, and naming the cheapest that is good enough. What does not:
building and searching them (`ann_indexes`). Costs that decide are counts (distance computations, bytes); seconds are shown and decide
nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_eval_assets.retrieval.ann_indexes import Grid, Search, Setting, count_settings, settings
from rag_eval_assets.retrieval.dense import ExactIndex, Vectors, faiss_threads
from rag_eval_assets.retrieval.ordering import Hits, Mask
from rag_eval_assets.tables import NOT_APPLICABLE, SCORED

TIE = 1e-6  # inner products this close to the last true neighbour's count as found
STOPPED_RISING = 0.001  # mean recall that the next effort must add for effort to be worth raising further

NO_FILTER, PRE, POST = "none", "pre", "post"


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
    grid: Grid,
    selectivities: Sequence[float],
    oversample: int,
    minimum_recall: float,
    seed: int,
    threads: int,
    on_done: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Rows of `ann_recall` for one chunking and embedder: exact search and every index setting, by selectivity and way of filtering.

    `vectors` (n, d) and `queries` (q, d) are float32 of unit length; `doc_ids` names each vector's document; `qrels` maps a
    query's row to {document: grade}. `grid` is described at `ann_indexes.settings`.

    - Recall of a query = true neighbours found / min(k, available). A neighbour within `TIE` of the last true one counts as
      found, since near-duplicates are equally right; `recall_by_id` forgives no tie.
    - A selectivity s keeps ceil(s * n) vectors, drawn once from `seed` and nested; 1 is always measured. `pre` applies the filter within
      the search, for which HNSW raises ef_search as the retriever does; `post` searches k * `oversample` without a filter and drops what
      it hides.
    - `ndcg_cost` = nDCG@k by document (first rank of each) of exact search minus that of the index, over queries that have a
      relevant document among the vectors kept. The same measure on both sides, so the cost may be negative.
    - `agreement` = shared ids / min(k, available) between this index and one built from another order of insertion (HNSW) or with the next
      seed (IVF), mean over queries.
    - `recommended` marks, at selectivity 1, the one setting with the fewest distance computations (then bytes) whose mean recall
      reaches `minimum_recall`; exact search is among the candidates.

    Every index is built and searched on one thread, queries one by one: equal input gives equal rows but for seconds. One
    not_applicable row stands for no_embedder (no vectors or queries given), no_vectors (fewer than 2, or too few for one kind of
    index) and too_few_questions (no query). Raises ValueError for k or oversample under 1, a selectivity outside (0, 1] and vectors
    that are not finite.
    """
    if k < 1 or oversample < 1:
        raise ValueError(f"k {k} and oversample {oversample} must be at least 1")
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
    total = count_settings(grid, len(vectors))
    rows: list[dict[str, Any]] = []
    rungs: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    with faiss_threads(1):
        for done, setting in enumerate(settings(vectors, queries, exact, grid, seed, threads), 1):
            if setting.search is None:
                rows.append(
                    {**_not_applicable(embedder, k, "no_vectors"), "index": setting.index, "setting": setting.name, "detail": setting.note}
                )
            else:
                own = _measured(setting, setting.search, subsets, queries, doc_ids, k, oversample, embedder, left_out)
                rows += own
                if setting.rung:
                    rungs[setting.index, setting.rung[0]].append((setting.rung[1], own[0]))
            if on_done is not None:
                on_done(done, total)
    for ladder in rungs.values():
        _still_rising(ladder)
    _recommend(rows, minimum_recall)
    return sorted(rows, key=lambda row: (row["embedder"], row["index"], row["setting"], row["filtering"], row["selectivity"], row["k"]))


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


def _measured(
    setting: Setting,
    search: Search,
    subsets: Sequence[_Subset],
    queries: Vectors,
    doc_ids: Sequence[str],
    k: int,
    oversample: int,
    embedder: str,
    left_out: str | None,
) -> list[dict[str, Any]]:
    """Rows of one setting: without a filter first, then under every filter, applied within the search and after it."""

    def ran(mask: Mask | None, depth: int) -> tuple[list[Hits], float]:
        setting.reset()
        hits = [search(query, mask, depth) for query in queries]
        return hits, (setting.counted() if setting.counted else 0) / len(queries)

    def row(subset: _Subset, filtering: str, hits: Sequence[Hits], computations: float, agreement: float | None) -> dict[str, Any]:
        notes = (setting.note, next((found.detail for found in hits if found.detail), None), left_out)
        return {
            "embedder": embedder,
            "index": setting.index,
            "setting": setting.name,
            "filtering": filtering,
            "selectivity": subset.selectivity,
            "k": k,
            "queries": len(queries),
            **_recalls(subset, hits, k),
            "agreement": agreement,
            "ndcg_cost": _ndcg_cost(subset, hits, doc_ids, k),
            "distance_computations": computations,
            "bytes": setting.bytes,
            "recommended": False,
            **_speed([found.seconds for found in hits]),
            "build_seconds": setting.build_seconds,
            "status": SCORED,
            "reason": None,
            "detail": "; ".join(note for note in notes if note) or None,
        }

    whole, *filtered = subsets
    plain, work = ran(None, k)
    wanted = min(k, whole.available)
    agreement = None
    if setting.again is not None:
        twins = [setting.again(query, None, k) for query in queries]
        agreement = float(np.mean([len(np.intersect1d(a.positions, b.positions)) / wanted for a, b in zip(plain, twins, strict=True)]))
    rows = [row(whole, NO_FILTER, plain, work, agreement)]
    if filtered:
        deep, work = ran(None, k * oversample)
        for subset in filtered:
            rows.append(row(subset, PRE, *ran(subset.mask, k), None))
            rows.append(row(subset, POST, [_filtered(hits, subset.mask, k) for hits in deep], work, None))
    return rows


def _filtered(hits: Hits, mask: Mask | None, k: int) -> Hits:
    """What a filter leaves of a ranking made without it."""
    kept = slice(None) if mask is None else np.flatnonzero(mask[hits.positions])
    return Hits(hits.positions[kept][:k], hits.scores[kept][:k], hits.detail, hits.seconds)


def _recalls(subset: _Subset, hits: Sequence[Hits], k: int) -> dict[str, float]:
    wanted = min(k, subset.available)
    pairs = list(zip(subset.truth, hits, strict=True))
    recalls = np.array([_found(true, found, wanted) for true, found in pairs])
    by_id = [len(np.intersect1d(true.positions, found.positions)) / wanted for true, found in pairs]
    return {
        "recall_mean": float(recalls.mean()),
        "recall_p5": float(np.percentile(recalls, 5)),
        "recall_by_id": float(np.mean(by_id)),
    }


def _speed(seconds: Sequence[float]) -> dict[str, float | None]:
    """Queries per second and milliseconds a query at three percentiles; shown, never read."""
    total = math.fsum(seconds)
    names = ("latency_p50", "latency_p95", "latency_p99")
    found = (1000 * np.percentile(seconds, (50, 95, 99))).tolist()
    return {"queries_per_second": len(seconds) / total if total > 0 else None, **dict(zip(names, found, strict=True))}


def _still_rising(ladder: Sequence[tuple[int, dict[str, Any]]]) -> None:
    """Says on the row of the largest effort that a larger one would find more."""
    steps = [row for _, row in sorted(ladder, key=lambda step: step[0])]
    if len(steps) > 1 and steps[-1]["recall_mean"] - steps[-2]["recall_mean"] > STOPPED_RISING:
        note = "recall still rises at the largest ef_search measured: add a larger one"
        steps[-1]["detail"] = "; ".join(part for part in (steps[-1]["detail"], note) if part)


def _found(true: Hits, hits: Hits, wanted: int) -> float:
    """Share of the `wanted` true neighbours among the hits, ties with the last of them forgiven."""
    return int(np.count_nonzero(hits.scores[:wanted] >= true.scores[wanted - 1] - TIE)) / wanted


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
    able = [row for row in rows if row["filtering"] == NO_FILTER and row["status"] == SCORED and row["recall_mean"] >= minimum_recall]
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
        "filtering": NO_FILTER,
        "selectivity": 1.0,
        "k": k,
        "queries": 0,
        "recall_mean": None,
        "recall_p5": None,
        "recall_by_id": None,
        "agreement": None,
        "ndcg_cost": None,
        "distance_computations": None,
        "bytes": None,
        "recommended": False,
        "queries_per_second": None,
        "latency_p50": None,
        "latency_p95": None,
        "latency_p99": None,
        "build_seconds": None,
        "status": NOT_APPLICABLE,
        "reason": reason,
        "detail": None,
    }
