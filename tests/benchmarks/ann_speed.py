"""HNSW as the retriever runs it against exact search, and against hnswlib at equal recall, in one run on one thread.

The vectors are synthetic and clustered, as those of an embedder are: points around random centres, scaled to unit length, from a
stated seed. Queries are drawn the same way. hnswlib is an optional competitor: where it is absent, the lines say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from rag_eval_assets.retrieval.dense import ExactIndex, HnswIndex, faiss_threads

Vectors = npt.NDArray[np.float32]
SEED = 7
WIDTH = 384
WANTED_RECALL = 0.95
M, EF_CONSTRUCTION = 16, 100
EFFORTS = (16, 32, 64, 96, 128, 192, 256, 384, 512)
K = 10
PASSES = 3  # the fastest counts: other work on the machine only ever adds


def clustered(count: int, rng: np.random.Generator, centres: Vectors) -> Vectors:
    """`count` unit vectors around `centres`, each coordinate spread as widely as those of the centres are."""
    spread = rng.standard_normal((count, centres.shape[1]), dtype=np.float32)
    made: Vectors = centres[rng.integers(0, len(centres), count)] + spread
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@dataclass(frozen=True)
class Point:
    """One effort: recall of the ten nearest, seconds a query."""

    effort: int
    recall: float
    seconds: float


@dataclass(frozen=True)
class Result:
    count: int
    queries: int
    exact_batch: float
    exact_single: float
    build: dict[str, float]
    points: dict[str, list[Point]] = field(default_factory=dict)
    batches: dict[str, float] = field(default_factory=dict)
    """Seconds a query where all queries are asked at once, at the effort that reaches the recall wanted."""

    def reached(self, name: str) -> Point | None:
        """The least effort whose recall is high enough."""
        return next((p for p in self.points.get(name, ()) if p.recall >= WANTED_RECALL), None)

    def lines(self) -> Iterator[str]:
        yield f"{self.count:,} x {WIDTH} clustered vectors (seed {SEED}), {self.queries} queries, m {M}, ef_construction {EF_CONSTRUCTION}"
        own = self.reached("ours")
        if own is None:
            yield f"no effort reaches recall {WANTED_RECALL}: {self.points['ours']}"
            return
        yield f"HNSW at ef_search {own.effort}: recall@{K} {own.recall:.3f}, {own.seconds * 1e6:.0f} us a query"
        for name, seconds in (("one by one", self.exact_single), ("in a batch", self.exact_batch)):
            yield f"exact search {name}: {seconds * 1e6:.0f} us a query, {seconds / own.seconds:.1f} times HNSW's"
        other = self.reached("hnswlib")
        if "hnswlib" not in self.points:
            yield "hnswlib: not installed"
        elif other is not None:
            yield (
                f"hnswlib at ef {other.effort}: recall@{K} {other.recall:.3f}, {other.seconds * 1e6:.0f} us a query, "
                f"{other.seconds / own.seconds:.2f} times ours; build {self.build['hnswlib'] / self.build['ours']:.2f} times ours"
            )
        if set(self.batches) == {"ours", "hnswlib"}:
            ours, theirs = self.batches["ours"], self.batches["hnswlib"]
            yield f"all queries at once: ours {ours * 1e6:.0f} us a query, hnswlib {theirs * 1e6:.0f} us, {theirs / ours:.2f} times ours"
        if "ours" in self.batches:
            yield f"exact search in a batch: {self.exact_batch / self.batches['ours']:.1f} times HNSW's in a batch"
        for name, points in self.points.items():
            yield f"{name}: " + ", ".join(f"ef {p.effort} {p.recall:.3f} {p.seconds * 1e6:.0f} us" for p in points)


def _climb(search: Callable[[Vectors, int], Sequence[int]], queries: Vectors, truth: list[set[int]]) -> list[Point]:
    points = []
    for effort in EFFORTS:
        laps = []
        for _ in range(PASSES):
            started = time.perf_counter()
            found = [search(query, effort) for query in queries]
            laps.append((time.perf_counter() - started) / len(queries))
        recall = float(np.mean([len(true.intersection(hits)) / len(true) for true, hits in zip(truth, found, strict=True)]))
        points.append(Point(effort, recall, min(laps)))
        if recall >= WANTED_RECALL:
            break
    return points


def _together(search: Callable[[int], object], effort: int, queries: int) -> float:
    laps = []
    for _ in range(PASSES):
        started = time.perf_counter()
        search(effort)
        laps.append((time.perf_counter() - started) / queries)
    return min(laps)


def measure(count: int, queries: int = 200) -> Result:
    """Build and search both graphs on the same vectors, and exact search beside them. BLAS threads are the caller's to bound."""
    rng = np.random.default_rng(SEED)
    centres = rng.standard_normal((max(8, count // 200), WIDTH), dtype=np.float32)
    vectors, asked = clustered(count, rng, centres), clustered(queries, rng, centres)
    exact = ExactIndex(vectors)
    started = time.perf_counter()
    found = exact.search(asked, [None] * queries, K)
    batch = (time.perf_counter() - started) / queries
    truth = [set(hits.positions.tolist()) for hits in found]
    started = time.perf_counter()
    for query in asked[: min(50, queries)]:
        exact.search(query[None, :], [None], K)
    single = (time.perf_counter() - started) / min(50, queries)
    build, points, batches = {}, {}, {}
    with faiss_threads(1):
        started = time.perf_counter()
        graph = HnswIndex(vectors, m=M, ef_construction=EF_CONSTRUCTION)
        build["ours"] = time.perf_counter() - started
        points["ours"] = _climb(lambda q, ef: graph.search(q[None, :], None, K, ef_search=ef)[0].positions.tolist(), asked, truth)
        batches["ours"] = _together(lambda ef: graph.search(asked, None, K, ef_search=ef), points["ours"][-1].effort, queries)
    if find_spec("hnswlib"):
        import hnswlib

        started = time.perf_counter()
        other = hnswlib.Index(space="ip", dim=WIDTH)
        other.init_index(max_elements=count, M=M, ef_construction=EF_CONSTRUCTION, random_seed=SEED)
        other.add_items(vectors, num_threads=1)
        build["hnswlib"] = time.perf_counter() - started

        def search(query: Vectors, effort: int) -> list[int]:
            other.set_ef(effort)
            labels: list[int] = other.knn_query(query, k=K, num_threads=1)[0][0].tolist()
            return labels

        def at_once(effort: int) -> None:
            other.set_ef(effort)
            other.knn_query(asked, k=K, num_threads=1)

        points["hnswlib"] = _climb(search, asked, truth)
        batches["hnswlib"] = _together(at_once, points["hnswlib"][-1].effort, queries)
    return Result(count, queries, batch, single, build, points, batches)
