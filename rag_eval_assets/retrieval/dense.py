"""Search over unit vectors by inner product: exact, and approximate through a faiss HNSW graph.

What belongs here: vectors in, ranked positions out, predicates applied before or within the search. What does not: where
vectors come from (`resources`) and how good an approximate index is (`ann`). A score is one number for one (query, chunk) pair,
whatever batch, thread count, mask or index found it: candidates are found fast and then scored again in one fixed way.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_eval_assets.retrieval.ordering import Hits, Mask, Positions, Scores, best_first

Vectors = npt.NDArray[np.float32]

BLOCK_NUMBERS = 16_000_000  # scores held at once by exact search: 64 MB


def pair_scores(query: Vectors, rows: Vectors) -> Scores:
    """Inner products of one query (d) with rows (n, d), float32, each computed by itself.

    A matrix product rounds differently with the shape of its batch. Products of float32 are exact in float64 and each row is
    summed alone, so the result depends on the pair only.
    """
    products = rows.astype(np.float64) * query.astype(np.float64)
    scores: Scores = products.sum(axis=1).astype(np.float32)
    return scores


def largest_norm(vectors: Vectors) -> float:
    """Length of the longest row."""
    return math.sqrt(np.einsum("nd,nd->n", vectors, vectors).max(initial=0.0))


def slacks(queries: Vectors, largest: float) -> list[float]:
    """For each query (q, d) twice the bound on the rounding error of a float32 inner product with a vector no longer than `largest`:
    who is this close below a cut may belong above it.
    """
    found: list[float] = (np.linalg.norm(queries, axis=1) * (queries.shape[1] * float(np.finfo(np.float32).eps) * largest)).tolist()
    return found


class ExactIndex:
    """Every eligible vector is compared; nothing is approximate."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self._largest = largest_norm(self.vectors)

    def search(self, queries: Vectors, eligible: Sequence[Mask | None], depth: int) -> list[Hits]:
        """The best `depth` eligible vectors of each query (q, d); `eligible` holds a mask (n) or None for all, one a query."""
        count = len(self.vectors)
        if not count or not len(queries):
            nothing = Hits(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))
            return [nothing] * len(queries)
        block = max(1, BLOCK_NUMBERS // count)
        hits = []
        for start in range(0, len(queries), block):
            part = queries[start : start + block]
            started = time.perf_counter()
            rough = part @ self.vectors.T
            shared = (time.perf_counter() - started) / len(part)
            slack = slacks(part, self._largest)
            for query, scores, mask, close in zip(part, rough, eligible[start : start + block], slack, strict=True):
                started = time.perf_counter()
                near = _near_the_top(scores, mask, depth, close)
                positions, exact = best_first(near, pair_scores(query, self.vectors[near]), depth)
                hits.append(Hits(positions, exact, seconds=shared + time.perf_counter() - started))
        return hits


def _near_the_top(scores: Scores, mask: Mask | None, depth: int, slack: float) -> Positions:
    """Positions of eligible scores that could be among the best `depth` once rounding is taken away."""
    positions = np.arange(len(scores)) if mask is None else np.flatnonzero(mask)
    if len(positions) <= depth:
        return positions
    found = scores[positions]
    cut = np.partition(found, len(found) - depth)[len(found) - depth]
    near: Positions = positions[found >= cut - slack]
    return near


class HnswIndex:
    """A faiss HNSW graph (Malkov and Yashunin 2018).

    Built on one thread, and faiss draws its levels from a fixed seed: equal vectors in equal order give an equal graph.
    """

    def __init__(self, vectors: Vectors, *, m: int, ef_construction: int) -> None:
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self._largest = largest_norm(self.vectors)
        self.index = self._empty(self.vectors.shape[1], m)
        self.index.hnsw.efConstruction = ef_construction
        with faiss_threads(1):
            if not self.index.is_trained:
                self.index.train(self.vectors)
            self.index.add(self.vectors)

    def _empty(self, width: int, m: int) -> Any:
        faiss = load_faiss()
        return faiss.IndexHNSWFlat(width, m, faiss.METRIC_INNER_PRODUCT)

    def _ordered(self, query: Vectors, positions: Positions, rough: Scores, depth: int, slack: float) -> tuple[Positions, Scores]:
        """The first `depth` of what the graph found, best first by its own `rough` scores; only what rounding may lift is scored again."""
        if len(rough) > depth:
            positions = positions[: int(np.count_nonzero(rough >= rough[depth - 1] - slack))]
        return best_first(positions, pair_scores(query, self.vectors[positions]), depth)

    def search(self, queries: Vectors, eligible: Mask | None, depth: int, *, ef_search: int) -> list[Hits]:
        """The best `depth` of the eligible vectors that the graph finds for each query (q, d), whatever other queries stand beside it.

        The mask is applied within the search. The graph is walked past vectors that it hides, so `ef_search` is raised in
        proportion (to `ef_search` / share of eligible vectors, at most all of them); `detail` states the value used.
        """
        faiss = load_faiss()
        started = time.perf_counter()
        count = len(self.vectors)
        open_to_query = count if eligible is None else int(np.count_nonzero(eligible))
        if open_to_query == 0:
            return [Hits(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32), "no eligible vector")] * len(queries)
        wanted = min(open_to_query, max(depth, ef_search))
        effort = min(count, math.ceil(max(ef_search, wanted) * count / open_to_query))
        parameters: dict[str, Any] = {"efSearch": effort}
        detail = None
        if eligible is not None and open_to_query < count:
            parameters["sel"] = faiss.IDSelectorBitmap(np.packbits(eligible, bitorder="little"))
            detail = f"ef_search {effort} with {open_to_query} of {count} vectors eligible"
        rough, found = self.index.search(queries, wanted, params=faiss.SearchParametersHNSW(**parameters))
        sizes = (found >= 0).sum(axis=1).tolist()  # what the graph did not find stands last, as -1
        slack = slacks(queries, self._largest)
        shared = (time.perf_counter() - started) / len(queries)
        hits = []
        for query, near, scores, size, close in zip(queries, found, rough, sizes, slack, strict=True):
            started = time.perf_counter()
            positions, exact = self._ordered(query, near[:size], scores[:size], depth, close)
            hits.append(Hits(positions, exact, detail, shared + time.perf_counter() - started))
        return hits


def load_faiss() -> Any:
    """The faiss module, untyped: its own stubs know neither its selectors nor its search parameters."""
    import faiss

    return faiss


@contextlib.contextmanager
def faiss_threads(count: int) -> Iterator[None]:
    """Bound faiss's threads within the block and restore them after it."""
    faiss = load_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
