"""Retrievers that are built on other retrievers' rankings: fusions, and reranking of one lane's leading hits.

What belongs here: where a lane's ranking comes from, what becomes of a question whose lane is broken, and what a combination states of
itself. What does not: the arithmetic of fusion (`fusion`), models that score passages (`resources.rerankers`), searches (`runs`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.retrieval.corpus import Corpus, Row
from rag_eval_assets.retrieval.fusion import DuplicateIds, Tuned, rrf, tune, weighted_sum
from rag_eval_assets.retrieval.ordering import Hits, NoRanking, Outcome, best_first
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK

TUNED_ON = "development"


class Reranker(Protocol):
    """Scores passages for a query: one number each, higher is better, in the order given."""

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]: ...


LoadReranker = Callable[[str], Reranker | NoRanking]
Fuse = Callable[[list[list[tuple[str, float]]]], list[tuple[str, float]]]
"""From rankings of (passage, score), best first, to one."""


class Combiner:
    """Runs combinations over rankings made now (`fresh`) or before (`known`, rows of retrieval_runs)."""

    def __init__(
        self,
        corpus: Corpus,
        questions: Mapping[str, Row],
        known: pa.Table | None,
        depth: int,
        gold: Mapping[str, Mapping[str, int]],
        rerankers: LoadReranker | None,
        add: Callable[[], None],
    ) -> None:
        self.corpus, self.questions, self.known, self.depth = corpus, questions, known, depth
        self.gold, self.rerankers, self.add = gold, rerankers, add

    def run(
        self, kind: str, parameters: Mapping[str, Any], ids: Sequence[str], fresh: Mapping[str, Mapping[str, Outcome]]
    ) -> tuple[dict[str, Outcome], dict[str, Any]]:
        """Outcome of each question, and the parameters to state: those given, and what was tuned."""
        lanes = tuple(parameters["of"])
        labelled = sorted(q for q in self.gold if q in self.questions and self.questions[q]["split"] == TUNED_ON)
        before = self._known_hits(lanes, {*ids, *(labelled if kind == "convex" else ())})
        missing = NoRanking(MISSING, "missing_run")

        def found(question: str) -> dict[str, Outcome]:
            return {lane: fresh.get(lane, {}).get(question) or before.get((lane, question)) or missing for lane in lanes}

        told = dict(parameters)
        if kind == "rerank":
            one = self._reranking(parameters)
        elif kind == "rrf":
            one = self._fusing(by_rank(parameters["rrf_k"]))
        else:
            how = parameters["normalisation"]
            if kind == "convex":
                tuned = self._tuned(parameters, {q: found(q) for q in labelled})
                weights: Sequence[float] = tuned.weights
                told |= {"weights": list(tuned.weights), "tuned_on": {"split": TUNED_ON, "questions": tuned.questions}}
                told["tuned_on"] |= {"metric": f"nDCG@{parameters['tune_k']}", "value": tuned.value, "points": tuned.points}
            else:
                weights = parameters["weights"]
            one = self._fusing(lambda rankings: weighted_sum(rankings, weights, how))
        outcomes: dict[str, Outcome] = {}
        for question in ids:
            own = found(question)
            broken = {lane: outcome for lane, outcome in own.items() if isinstance(outcome, NoRanking)}
            if broken:
                outcomes[question] = _of_broken_lanes(broken)
            else:
                outcomes[question] = one(question, [hits for hits in own.values() if isinstance(hits, Hits)])
            self.add()
        return outcomes, told

    # ------------------------------------------------------------------------------------------------------- fusion
    def _fusing(self, fuse: Fuse) -> _Combine:
        return lambda question, lanes: fused(self.corpus, lanes, fuse, self.depth)

    def _tuned(self, parameters: Mapping[str, Any], found: Mapping[str, Mapping[str, Outcome]]) -> Tuned:
        whole = {q: [hits for hits in own.values() if isinstance(hits, Hits)] for q, own in found.items()}
        lanes = len(parameters["of"])
        rankings = {q: [_scored(self.corpus, hits) for hits in own] for q, own in whole.items() if len(own) == lanes}
        named = {chunk for question in rankings.values() for ranking in question for chunk, _ in ranking}
        owners = self.corpus.table["doc_id"]
        unit_of = {chunk: owners[self.corpus.position[chunk]].as_py() for chunk in named}
        return tune(
            rankings, self.gold, unit_of, lanes=lanes, steps=parameters["steps"], how=parameters["normalisation"], k=parameters["tune_k"]
        )

    # --------------------------------------------------------------------------------------------------- reranking
    def _reranking(self, parameters: Mapping[str, Any]) -> _Combine:
        name = parameters["reranker"]["name"]
        opened = self.rerankers(name) if self.rerankers else NoRanking(NOT_APPLICABLE, "no_reranker")

        def one(question: str, lanes: Sequence[Hits]) -> Outcome:
            if isinstance(opened, NoRanking):
                return opened
            (hits,) = lanes
            head = hits.positions[: parameters["depth"]]
            texts = self.corpus.delivered_texts(head)
            started = time.perf_counter()
            try:
                scores = np.asarray(opened.score(self.questions[question]["text"], texts) if texts else [], dtype=np.float32)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a model that breaks on one question must not cost the others
                reason = "timeout" if isinstance(error, TimeoutError) else "crashed"
                return NoRanking(FAILED, reason, f"reranker {name}: {type(error).__name__}: {error}")
            if scores.shape != head.shape:
                return NoRanking(FAILED, "unusable_reply", f"reranker {name}: {scores.size} scores for {head.size} passages")
            if not np.isfinite(scores).all():
                return NoRanking(FAILED, "non_finite_score", f"reranker {name}: a score is not finite")
            first, own = best_first(head, scores, len(head)) if len(head) else (head, scores)
            # What was not reranked stays below in its own order, without a score on the reranker's scale.
            rest = hits.positions[len(head) :]
            positions, scores = np.concatenate([first, rest]), np.concatenate([own, np.full(len(rest), np.nan, dtype=np.float32)])
            return Hits(positions[: self.depth], scores[: self.depth], seconds=time.perf_counter() - started)

        return one

    # ------------------------------------------------------------------------------------------------------- lanes
    def _known_hits(self, lanes: Sequence[str], ids: Iterable[str]) -> dict[tuple[str, str], Outcome]:
        """Outcomes of lanes that stand in `known`, by (lane, question)."""
        known = self.known
        if known is None:
            return {}
        wanted_lanes = pa.array(lanes, type=known.schema.field("retriever").type)
        wanted = pa.array(sorted(ids), type=known.schema.field("question_id").type)
        rows = known.filter(pc.and_(pc.is_in(known["retriever"], wanted_lanes), pc.is_in(known["question_id"], wanted)))
        rows = rows.sort_by([("retriever", "ascending"), ("question_id", "ascending"), ("rank", "ascending")])
        shas = self.corpus.table["text_sha256"].to_pylist() if rows.num_rows else []
        outcomes: dict[tuple[str, str], Outcome] = {}
        hits: dict[tuple[str, str], list[tuple[int, float]]] = {}
        names = ("retriever", "question_id", "rank", "chunk_id", "text_sha256", "score", "status", "reason")
        for lane, question, rank, chunk, sha, score, status, reason in zip(*(rows[name].to_pylist() for name in names), strict=True):
            if status != OK:
                outcomes[lane, question] = NoRanking(status, reason)
            elif rank == 0:
                hits.setdefault((lane, question), [])
            else:
                at = self.corpus.position.get(chunk)
                if at is None or shas[at] != sha:
                    raise ValueError(f"retriever {lane!r}, question {question!r}: the known ranking names {chunk!r} of another text")
                hits.setdefault((lane, question), []).append((at, np.nan if score is None else score))
        for key, found in hits.items():
            kept = found[: self.depth]
            outcomes[key] = Hits(_column(kept, 0, np.int64), _column(kept, 1, np.float32))
        return outcomes


_Combine = Callable[[str, Sequence[Hits]], Outcome]


def fused(corpus: Corpus, lanes: Sequence[Hits], fuse: Fuse, depth: int) -> Outcome:
    """One ranking of several over one question's passages, at most `depth` hits, each at the chunk of it that ranks best."""
    started = time.perf_counter()
    try:
        found = fuse([_scored(corpus, hits) for hits in lanes])[:depth]
    except DuplicateIds as error:
        return NoRanking(FAILED, "duplicate_ids", str(error))
    except ValueError as error:
        return NoRanking(FAILED, "non_finite_score", str(error))
    best = corpus.passages.best([hits.positions for hits in lanes])
    return Hits(
        np.array([best[corpus.position[chunk]] for chunk, _ in found], dtype=np.int64),
        np.array([score for _, score in found], dtype=np.float32),
        seconds=time.perf_counter() - started,
    )


def by_rank(k: int) -> Fuse:
    """Reciprocal rank fusion with its constant."""
    return lambda rankings: rrf([[chunk for chunk, _ in ranking] for ranking in rankings], k)


def _scored(corpus: Corpus, hits: Hits) -> list[tuple[str, float]]:
    passages = corpus.passages.of[hits.positions]
    return [(corpus.ids[at], float(score)) for at, score in zip(passages, hits.scores, strict=True)]


def _column(rows: Sequence[tuple[int, float]], at: int, kind: Any) -> npt.NDArray[Any]:
    return np.array([row[at] for row in rows], dtype=kind)


def _of_broken_lanes(broken: Mapping[str, NoRanking]) -> NoRanking:
    """What a combination says of lanes without a ranking: failed before missing before not applicable."""
    for status, reason in ((FAILED, "upstream_failed"), (MISSING, "missing_run"), (NOT_APPLICABLE, "no_embedder")):
        lanes = [lane for lane, outcome in broken.items() if outcome.status == status]
        if lanes:
            return NoRanking(status, reason, f"lane {', '.join(f'{lane}: {broken[lane].reason}' for lane in lanes)}")
    raise AssertionError(f"no status of {broken} is a failure")
