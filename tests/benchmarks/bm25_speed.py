"""BM25 queries, one thread: the product's index against rank_bm25's loop and against bm25s alone, on the same terms, in one run.

All get the same analysed texts and questions and give their best hundred. The product and rank_bm25 are asked question by question, as
retrieval is; bm25s gets all questions in one call, its quickest way. Its compiled variant stands beside it where numba is installed: the
product does without, so that no process has to compile first. Zipf-distributed words stand for a corpus, so that nothing has
to be fetched. rank_bm25 is optional and says when it is not installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from rag_eval_assets.retrieval.bm25 import Bm25Index

RANK_BM25_WANTED = 100.0
"""Times as fast as rank_bm25, at least."""
OVERHEAD_WANTED = 1.2
"""Times as slow as bm25s alone, at most."""
DEPTH = 100
_ROUNDS = 5


@dataclass(frozen=True)
class Bm25Speed:
    """Questions a second of each, and whether the product's rankings have bm25s's scores."""

    documents: int
    ours: float
    bm25s_alone: float
    bm25s_compiled: float | None
    rank_bm25: float | None

    def lines(self) -> list[str]:
        told = [
            f"{self.documents} documents, {DEPTH} hits, one thread: {self.ours:.0f} questions/s",
            f"bm25s alone: {self.bm25s_alone:.0f}/s, overhead {self.bm25s_alone / self.ours:.2f} (wanted at most {OVERHEAD_WANTED})",
        ]
        if self.bm25s_compiled is not None:
            told.append(
                f"bm25s compiled by numba: {self.bm25s_compiled:.0f}/s, {self.bm25s_compiled / self.ours:.2f} times as fast as ours"
            )
        if self.rank_bm25 is None:
            return [*told, "rank_bm25: not installed"]
        return [
            *told,
            f"rank_bm25: {self.rank_bm25:.1f}/s, {self.ours / self.rank_bm25:.0f} times (wanted at least {RANK_BM25_WANTED:.0f})",
        ]


def _words(rows: int, width: int, seed: int) -> list[list[str]]:
    drawn = np.minimum(np.random.default_rng(seed).zipf(1.25, size=(rows, width)) + 20, 30_000)
    return [[f"w{n}" for n in row] for row in drawn]


def _rate(ask: Callable[[], object], questions: int) -> float:
    """Questions a second of the processor, which other work on the machine disturbs less than the clock."""
    started = time.process_time()
    ask()
    return questions / (time.process_time() - started)


def measure(documents: int, questions: int = 300) -> Bm25Speed:
    """Rates over the same questions, in turn, best of each."""
    import bm25s

    terms, asked = _words(documents, 120, 1), _words(questions, 10, 2)
    index = Bm25Index(terms, k1=1.2, b=0.75)

    def library(backend: str) -> Callable[[], Any]:
        alone = bm25s.BM25(k1=1.2, b=0.75, method="lucene", backend=backend)
        alone.index(terms, show_progress=False)
        return lambda: alone.retrieve(asked, k=DEPTH, show_progress=False, n_threads=0)

    sides: dict[str, Callable[[], Any]] = {
        "ours": lambda: [index.search(question, None, DEPTH).scores for question in asked],
        "bm25s": library("numpy"),
    }
    if find_spec("numba") is not None:
        sides["compiled"] = library("numba")
    first = {name: ask() for name, ask in sides.items()}  # compiles, too
    for name in sides.keys() - {"ours"}:
        for ours, theirs in zip(first["ours"], first[name].scores, strict=True):
            # bm25s fills up with documents that share no term, at 0.
            assert np.allclose(ours, theirs[: len(ours)], rtol=1e-5)
            assert not theirs[len(ours) :].any()
    rates = [{name: _rate(ask, questions) for name, ask in sides.items()} for _ in range(_ROUNDS)]
    best = {name: max(own[name] for own in rates) for name in sides}
    loop = None
    if find_spec("rank_bm25") is not None:
        from rank_bm25 import BM25Okapi

        okapi = BM25Okapi(terms, k1=1.2, b=0.75)
        loop = _rate(lambda: [np.argsort(okapi.get_scores(question))[::-1][:DEPTH] for question in asked[:30]], 30)
    return Bm25Speed(documents, best["ours"], best["bm25s"], best.get("compiled"), loop)
