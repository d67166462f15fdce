"""Index settings built and ready to be measured: exact, HNSW and IVF, whole or quantised, each beside a second build.

What belongs here: how a setting is built, searched and what a search costs in counts. What does not: recall and what is recommended
(`ann`). Graphs of whole vectors are the retriever's own (`dense`), so what is measured is what is used. Quantised indexes keep the order
of their own approximate scores: scoring them again would need the vectors they do without.
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

from rag_eval_assets.retrieval.dense import ExactIndex, HnswIndex, Vectors, faiss_threads, load_faiss, pair_scores
from rag_eval_assets.retrieval.ordering import Hits, Mask, Positions, Scores, best_first

POINTS_PER_LIST = 39  # faiss's own minimum of training vectors for each centre of a k-means
LEAST_BITS = 4  # codes of fewer bits keep 8 centres or less a part: no one would ship that
GRAPH_RECALL = 0.9  # below this recall of the M nearest at ef = ef_construction, a graph is badly connected

Grid = Mapping[str, Sequence[Any]]
Search = Callable[[Vectors, Mask | None, int], Hits]
"""One query (d), a mask or None, a depth -> the best that the index finds."""


@dataclass(frozen=True)
class Setting:
    """One index setting, ready to search.

    `again` searches a second build from the same vectors (another order of insertion, another seed), None where building draws
    nothing at random. `counted` reads the distance computations since `reset`. `rung` is (what is held equal, effort) of a setting whose
    effort alone rises. A setting that the vectors are too few for has no `search` and says why in `note`.
    """

    index: str
    name: str
    search: Search | None
    again: Search | None = None
    reset: Callable[[], None] = lambda: None
    counted: Callable[[], float] | None = None
    bytes: int = 0
    build_seconds: float | None = None
    note: str | None = None
    rung: tuple[str, int] | None = None


def count_settings(grid: Grid, count: int) -> int:
    """How many settings `settings` gives for `count` vectors."""
    efforts = len(set(grid.get("hnsw_ef_search", ())))
    graphs = len(_graphs(grid)) + ("hnsw" in grid.get("sq8", ()) and bool(_graphs(grid)))
    probes = sum(len(found) for found, _ in _lists(grid, count).values())
    coded = ("ivf" in grid.get("sq8", ())) + (len(set(grid.get("pq_m", ()))) if _bits(count) >= LEAST_BITS else 0)
    untrained = len(set(grid.get("pq_m", ()))) if probes and _bits(count) < LEAST_BITS else 0
    return 1 + ("flat" in grid.get("sq8", ())) + graphs * efforts + probes * (1 + coded) + untrained


def settings(vectors: Vectors, queries: Vectors, exact: ExactIndex, grid: Grid, seed: int, threads: int) -> Iterator[Setting]:
    """Every setting of the grid for unit `vectors` (n, d), one after another: an index is let go once the next one is asked for.

    `grid` holds hnsw_m, hnsw_ef_construction, hnsw_ef_search, ivf_nlist (empty: 4 sqrt n), ivf_nprobe, sq8 (kinds that are also
    measured with 8 bits a number: flat, hnsw at its largest m and ef_construction, ivf) and pq_m (bytes a vector of IVF with product
    quantisation). `queries` (q, d) test how well a graph is connected.
    """
    coded = set(grid.get("sq8", ()))
    yield _flat(vectors, exact)
    if "flat" in coded:
        yield _flat_sq8(vectors)
    graphs, efforts = _graphs(grid), sorted(set(grid.get("hnsw_ef_search", ())))
    for at, (m, ef) in enumerate(graphs):
        yield from _hnsw(vectors, queries, exact, m, ef, efforts, threads, sq8=False)
        if "hnsw" in coded and at == len(graphs) - 1:
            yield from _hnsw(vectors, queries, exact, m, ef, efforts, threads, sq8=True)
    kinds: list[tuple[str, int]] = [
        ("", 0),
        *([("sq8", 0)] if "ivf" in coded else ()),
        *(("pq", m) for m in sorted(set(grid.get("pq_m", ())))),
    ]
    lists = _lists(grid, len(vectors))
    for coding, m in kinds if lists else ():
        if coding == "pq" and _bits(len(vectors)) < LEAST_BITS:
            wanted = POINTS_PER_LIST * 2**LEAST_BITS
            yield Setting(
                "ivf_pq", f"pq{m}", None, note=f"product quantisation trains on {wanted} vectors at least; {len(vectors)} are there"
            )
            continue
        for nlist, (probes, asked) in lists.items():
            yield from _ivf(vectors, nlist, probes, asked, seed, coding, m)


def _graphs(grid: Grid) -> list[tuple[int, int]]:
    return sorted(product(set(grid.get("hnsw_m", ())), set(grid.get("hnsw_ef_construction", ()))))


def _lists(grid: Grid, count: int) -> dict[int, tuple[list[int], int]]:
    """Lists in effect -> (probes in effect, largest number of lists asked for)."""
    most = max(1, count // POINTS_PER_LIST)
    lists: dict[int, tuple[list[int], int]] = {}
    if not grid.get("ivf_nprobe"):
        return lists
    for asked in sorted(set(grid.get("ivf_nlist") or (round(4 * math.sqrt(count)),))):
        nlist = min(asked, most)
        lists[nlist] = sorted({min(probes, nlist) for probes in grid["ivf_nprobe"]}), asked
    return lists


def _bits(count: int) -> int:
    """Bits of a product code that `count` vectors can train, 8 at most."""
    return min(8, int(math.log2(count / POINTS_PER_LIST))) if count > POINTS_PER_LIST else 0


def _flat(vectors: Vectors, exact: ExactIndex) -> Setting:
    faiss = load_faiss()
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    compared = _Compared(len(vectors))

    def search(query: Vectors, mask: Mask | None, depth: int) -> Hits:
        compared.add(mask)
        return exact.search(query[None, :], [mask], depth)[0]

    return Setting("flat", "exact", search, None, compared.reset, lambda: compared.total, len(faiss.serialize_index(index)))


def _flat_sq8(vectors: Vectors) -> Setting:
    faiss = load_faiss()
    started = time.perf_counter()
    index = faiss.IndexScalarQuantizer(vectors.shape[1], faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    seconds = time.perf_counter() - started
    compared = _Compared(len(vectors))

    def search(query: Vectors, mask: Mask | None, depth: int) -> Hits:
        compared.add(mask)
        return _found(index, vectors, query, mask, depth, faiss.SearchParameters, {}, rescored=False)

    return Setting("flat_sq8", "sq8", search, None, compared.reset, lambda: compared.total, len(faiss.serialize_index(index)), seconds)


class _Compared:
    """Distance computations of an index that compares a query with everything its filter leaves."""

    def __init__(self, count: int) -> None:
        self.count, self.total = count, 0

    def add(self, mask: Mask | None) -> None:
        self.total += self.count if mask is None else int(np.count_nonzero(mask))

    def reset(self) -> None:
        self.total = 0


def _hnsw(
    vectors: Vectors, queries: Vectors, exact: ExactIndex, m: int, ef_construction: int, efforts: Sequence[int], threads: int, *, sq8: bool
) -> Iterator[Setting]:
    faiss = load_faiss()
    backwards = np.ascontiguousarray(vectors[::-1])
    kind = _CodedGraph if sq8 else HnswIndex

    def built(rows: Vectors) -> tuple[HnswIndex, float]:
        started = time.perf_counter()
        return kind(rows, m=m, ef_construction=ef_construction), time.perf_counter() - started

    with ThreadPoolExecutor(min(2, threads)) as pool:
        (graph, seconds), (twin, _) = pool.map(built, (vectors, backwards))
    size, wanted = len(faiss.serialize_index(graph.index)), min(m, len(vectors))
    nearest = exact.search(queries, [None] * len(queries), wanted)
    reached = graph.search(queries, None, wanted, ef_search=ef_construction)
    recall = float(np.mean([len(np.intersect1d(t.positions, r.positions)) / wanted for t, r in zip(nearest, reached, strict=True)]))
    note = f"recall of the {m} nearest at ef {ef_construction} is {recall:.3f}: the graph is badly connected, raise m or ef_construction"
    for effort in efforts:

        def search(query: Vectors, mask: Mask | None, depth: int, effort: int = effort) -> Hits:
            return graph.search(query[None, :], mask, depth, ef_search=effort)[0]

        def again(query: Vectors, mask: Mask | None, depth: int, effort: int = effort) -> Hits:
            (hits,) = twin.search(query[None, :], None if mask is None else mask[::-1], depth, ef_search=effort)
            return Hits(len(vectors) - 1 - hits.positions, hits.scores, hits.detail, hits.seconds)

        held = f"m{m}-efc{ef_construction}"
        yield Setting(
            "hnsw_sq8" if sq8 else "hnsw",
            f"{held}-efs{effort}",
            search,
            again,
            faiss.cvar.hnsw_stats.reset,
            lambda: faiss.cvar.hnsw_stats.ndis,
            size,
            seconds,
            note if recall < GRAPH_RECALL else None,
            (held, effort),
        )


class _CodedGraph(HnswIndex):
    """The retriever's graph over vectors of 8 bits a number, in the order of its own scores."""

    def _empty(self, width: int, m: int) -> Any:
        faiss = load_faiss()
        return faiss.IndexHNSWSQ(width, faiss.ScalarQuantizer.QT_8bit, m, faiss.METRIC_INNER_PRODUCT)

    def _ordered(self, query: Vectors, positions: Positions, rough: Scores, depth: int, slack: float) -> tuple[Positions, Scores]:
        return positions[:depth], pair_scores(query, self.vectors[positions[:depth]])


def _ivf(vectors: Vectors, nlist: int, probes: Sequence[int], asked: int, seed: int, coding: str, m: int) -> Iterator[Setting]:
    faiss = load_faiss()
    started = time.perf_counter()
    index, held = _trained(vectors, nlist, seed, coding, m)
    seconds, size = time.perf_counter() - started, len(faiss.serialize_index(index))
    twin, _ = _trained(vectors, nlist, seed + 1, coding, m)
    kind = faiss.IVFPQSearchParameters if coding == "pq" else faiss.SearchParametersIVF
    notes = []
    if asked > nlist:
        notes.append(f"nlist {asked} lowered to {nlist}: training wants {POINTS_PER_LIST} vectors a list")
    elif not 4 * math.sqrt(len(vectors)) - 1 <= nlist <= 16 * math.sqrt(len(vectors)) + 1:
        notes.append(f"nlist {nlist} lies outside 4 to 16 times the square root of {len(vectors)} vectors")
    if len(vectors) < POINTS_PER_LIST:
        notes.append(f"its one list is trained on {len(vectors)} vectors of the {POINTS_PER_LIST} that a list wants")
    if coding == "pq":
        notes.append(held)
    for probe in probes:

        def search(query: Vectors, mask: Mask | None, depth: int, probe: int = probe) -> Hits:
            return _found(index, vectors, query, mask, depth, kind, {"nprobe": probe}, rescored=not coding)

        def again(query: Vectors, mask: Mask | None, depth: int, probe: int = probe) -> Hits:
            return _found(twin, vectors, query, mask, depth, kind, {"nprobe": probe}, rescored=not coding)

        yield Setting(
            f"ivf_{coding}" if coding else "ivf",
            (f"pq{m}-" if coding == "pq" else "") + f"nlist{nlist}-nprobe{probe}",
            search,
            again,
            faiss.cvar.indexIVF_stats.reset,
            # A query is compared with every list's centre before it is compared with the vectors of the lists probed.
            lambda: faiss.cvar.indexIVF_stats.nq * nlist + faiss.cvar.indexIVF_stats.ndis,
            size,
            seconds,
            "; ".join(notes) or None,
        )


def _trained(vectors: Vectors, nlist: int, seed: int, coding: str, m: int) -> tuple[Any, str]:
    """An IVF index filled, and what its codes are. Parts of a product code divide the dimension: `m` is lowered to one that does."""
    faiss = load_faiss()
    width, metric, held = vectors.shape[1], faiss.METRIC_INNER_PRODUCT, ""
    centres = faiss.IndexFlatIP(width)
    if coding == "pq":
        parts, bits = next(p for p in range(min(m, width), 0, -1) if width % p == 0), _bits(len(vectors))
        index = faiss.IndexIVFPQ(centres, width, nlist, parts, bits, metric)
        index.pq.cp.seed = seed
        held = f"{parts} codes of {bits} bits" + (f", {m} and 8 asked for" if (parts, bits) != (m, 8) else "")
    elif coding == "sq8":
        index = faiss.IndexIVFScalarQuantizer(centres, width, nlist, faiss.ScalarQuantizer.QT_8bit, metric)
    else:
        index = faiss.IndexIVFFlat(centres, width, nlist, metric)
    index.cp.seed = seed
    index.cp.spherical = True
    # Too few for one list is said in the row: faiss would say it on stderr.
    index.cp.min_points_per_centroid = min(POINTS_PER_LIST, len(vectors))
    with faiss_threads(1):
        index.train(vectors)
        index.add(vectors)
    return index, held


def _found(
    index: Any, vectors: Vectors, query: Vectors, mask: Mask | None, depth: int, kind: Any, parameters: dict[str, Any], *, rescored: bool
) -> Hits:
    faiss = load_faiss()
    started = time.perf_counter()
    if mask is not None:
        parameters = {**parameters, "sel": faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))}
    _, found = index.search(query[None, :], min(depth, len(vectors)), params=kind(**parameters))
    near = found[0][found[0] >= 0].astype(np.int64)
    scores = pair_scores(query, vectors[near])
    if rescored:
        near, scores = best_first(near, scores, depth)
    return Hits(near, scores, seconds=time.perf_counter() - started)
