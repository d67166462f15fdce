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


class ExactIndex:
    """Every eligible vector is compared; nothing is approximate."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self._largest = float(np.linalg.norm(self.vectors, axis=1).max(initial=0.0))

    def search(self, queries: Vectors, eligible: Sequence[Mask | None], depth: int) -> list[Hits]:
        """The best `depth` eligible vectors of each query (q, d); `eligible` holds a mask (n) or None for all, one a query."""
        count, width = self.vectors.shape
        if not count or not len(queries):
            nothing = Hits(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))
            return [nothing] * len(queries)
        # Twice the bound on the rounding error of a float32 inner product: who is this close below the cut may belong above it.
        slack = width * float(np.finfo(np.float32).eps) * self._largest
        block = max(1, BLOCK_NUMBERS // count)
        hits = []
        for start in range(0, len(queries), block):
            part = queries[start : start + block]
            started = time.perf_counter()
            rough = part @ self.vectors.T
            shared = (time.perf_counter() - started) / len(part)
            for query, scores, mask in zip(part, rough, eligible[start : start + block], strict=True):
                started = time.perf_counter()
                near = _near_the_top(scores, mask, depth, slack * float(np.linalg.norm(query)))
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
        self.index = self._empty(self.vectors.shape[1], m)
        self.index.hnsw.efConstruction = ef_construction
        with faiss_threads(1):
            if not self.index.is_trained:
                self.index.train(self.vectors)
            self.index.add(self.vectors)

    def _empty(self, width: int, m: int) -> Any:
        faiss = load_faiss()
        return faiss.IndexHNSWFlat(width, m, faiss.METRIC_INNER_PRODUCT)

    def _ordered(self, query: Vectors, positions: Positions, depth: int) -> tuple[Positions, Scores]:
        return best_first(positions, pair_scores(query, self.vectors[positions]), depth)

    def search(self, query: Vectors, eligible: Mask | None, depth: int, *, ef_search: int) -> Hits:
        """The best `depth` of the eligible vectors that the graph finds for one query (d).

        The mask is applied within the search. The graph is walked past vectors that it hides, so `ef_search` is raised in
        proportion (to `ef_search` / share of eligible vectors, at most all of them); `detail` states the value used.
        """
        faiss = load_faiss()
        started = time.perf_counter()
        count = len(self.vectors)
        open_to_query = count if eligible is None else int(np.count_nonzero(eligible))
        if open_to_query == 0:
            return Hits(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32), "no eligible vector")
        wanted = min(open_to_query, max(depth, ef_search))
        effort = min(count, math.ceil(max(ef_search, wanted) * count / open_to_query))
        parameters: dict[str, Any] = {"efSearch": effort}
        detail = None
        if eligible is not None and open_to_query < count:
            parameters["sel"] = faiss.IDSelectorBitmap(np.packbits(eligible, bitorder="little"))
            detail = f"ef_search {effort} with {open_to_query} of {count} vectors eligible"
        _, found = self.index.search(query[None, :], wanted, params=faiss.SearchParametersHNSW(**parameters))
        positions, scores = self._ordered(query, found[0][found[0] >= 0].astype(np.int64), depth)
        return Hits(positions, scores, detail, time.perf_counter() - started)


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
