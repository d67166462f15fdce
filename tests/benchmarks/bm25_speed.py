"""BM25 queries, one thread: the product's index against rank_bm25's loop and against bm25s alone, on the same terms, in one run.

All get the same analysed texts and questions and give their best hundred. Zipf-distributed words stand for a corpus, so that nothing
has to be fetched. rank_bm25 is optional and says when it is not installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

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
    rank_bm25: float | None

    def lines(self) -> list[str]:
        told = [
            f"{self.documents} documents, {DEPTH} hits, one thread: {self.ours:.0f} questions/s",
            f"bm25s alone: {self.bm25s_alone:.0f}/s, overhead {self.bm25s_alone / self.ours:.2f} (wanted at most {OVERHEAD_WANTED})",
        ]
        if self.rank_bm25 is None:
            return [*told, "rank_bm25: not installed"]
        return [
            *told,
            f"rank_bm25: {self.rank_bm25:.1f}/s, {self.ours / self.rank_bm25:.0f} times (wanted at least {RANK_BM25_WANTED:.0f})",
        ]


def _words(rows: int, width: int, seed: int) -> list[list[str]]:
    drawn = np.minimum(np.random.default_rng(seed).zipf(1.25, size=(rows, width)) + 20, 30_000)
    return [[f"w{n}" for n in row] for row in drawn]


def _rate(ask: Callable[[list[str]], object], questions: list[list[str]]) -> float:
    started = time.perf_counter()
    for question in questions:
        ask(question)
    return len(questions) / (time.perf_counter() - started)


def measure(documents: int, questions: int = 300) -> Bm25Speed:
    """Rates over the same questions; ours and bm25s in turn, best of each, since the machine may be busy."""
    import bm25s

    terms, asked = _words(documents, 120, 1), _words(questions, 10, 2)
    index = Bm25Index(terms, k1=1.2, b=0.75)
    alone = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    alone.index(terms, show_progress=False)

    def ask_bm25s(question: list[str]) -> object:
        return alone.retrieve([question], k=DEPTH, show_progress=False, n_threads=0)

    def ask_ours(question: list[str]) -> object:
        return index.search(question, None, DEPTH)

    for question in asked[:20]:
        theirs = ask_bm25s(question).scores[0]  # type: ignore[attr-defined]
        ours = index.search(question, None, DEPTH).scores
        assert np.allclose(ours, theirs[: len(ours)], rtol=1e-5)
    rates = [(_rate(ask_ours, asked), _rate(ask_bm25s, asked)) for _ in range(_ROUNDS)]
    loop = None
    if find_spec("rank_bm25") is not None:
        from rank_bm25 import BM25Okapi

        okapi = BM25Okapi(terms, k1=1.2, b=0.75)
        loop = _rate(lambda question: np.argsort(okapi.get_scores(question))[::-1][:DEPTH], asked[:30])
    return Bm25Speed(documents, max(r[0] for r in rates), max(r[1] for r in rates), loop)
