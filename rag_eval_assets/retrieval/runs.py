"""The rankings table: every wanted (retriever, question) pair run, or accounted for by one typed row.

What belongs here: which retrievers run in which order, searches run, rankings turned into rows. What does not: how a search
scores (`bm25`, `dense`, `expansion`), what is built on searches (`combined`), which pairs are wanted and kept (the caller).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.retrieval import queries
from rag_eval_assets.retrieval.bm25 import Bm25Index, analyse, analyse_known
from rag_eval_assets.retrieval.combined import TUNED_ON, Combiner, LoadReranker, by_rank, fused
from rag_eval_assets.retrieval.corpus import Corpus, Row, unique
from rag_eval_assets.retrieval.dense import ExactIndex, HnswIndex, Vectors, faiss_threads
from rag_eval_assets.retrieval.expansion import rm3
from rag_eval_assets.retrieval.ordering import Hits, Mask, NoRanking, Outcome
from rag_eval_assets.retrieval.passages import delivered
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK, TABLES

if TYPE_CHECKING:
    from ingestion.minhash import ContentStore

__all__ = ["KINDS", "SCHEMA", "TUNED_ON", "Imported", "RetrieverSpec", "run_retrievers"]

SEARCHES = ("bm25", "rm3", "dense", "run_file", *queries.KINDS)
FUSIONS = ("rrf", "weighted", "convex")
KINDS = (*SEARCHES, *FUSIONS, "rerank")
_TABLE = TABLES["retrieval_runs"].schema
SCHEMA = pa.schema([column for column in _TABLE if column.name != "work_key"])
"""Columns of a run as made here; the caller adds `work_key`."""
_CHUNK_COLUMNS = ("chunk_id", "text_sha256", "doc_id", "start", "end", "tokens")

Imported = Sequence[tuple[str, float | None]]
"""A ranking made elsewhere, best first: chunk or document ids with the scores given."""

EmbedTexts = Callable[[str, list[str]], Vectors | None]


@dataclass(frozen=True)
class RetrieverSpec:
    """A retriever: its name, its kind and its parameters under the names that settings give them."""

    name: str
    kind: str
    parameters: Mapping[str, Any]


_NO_EMBEDDER = NoRanking(NOT_APPLICABLE, "no_embedder")
_NOT_WRITTEN = queries.Written(failure=NoRanking(MISSING, "missing_run", "nothing was asked of a model for this question"))


def run_retrievers(
    specs: Sequence[RetrieverSpec],
    questions: Sequence[Row],
    chunks: pa.Table,
    embeddings: pa.Table | None,
    documents: Sequence[Row],
    texts: Mapping[str, str] | None = None,
    *,
    todo: Mapping[str, Sequence[str]],
    known: pa.Table | None,
    depth: int,
    embed_queries: EmbedTexts,
    threads: int,
    embed_passages: EmbedTexts | None = None,
    written: Mapping[tuple[str, str], queries.Written] | None = None,
    terms: ContentStore | None = None,
    imported: Mapping[tuple[str, str], Imported] | None = None,
    gold: Mapping[str, Mapping[str, int]] | None = None,
    rerankers: LoadReranker | None = None,
    unavailable: str | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Rankings of exactly the pairs in `todo` (retriever to question ids), in the schema `SCHEMA`, in the table's order.

    `questions`, `chunks`, `embeddings` and `documents` are rows of golden_questions, chunks, chunk_embeddings and
    unique_documents; `texts` canonical texts by document, which a reranker of chunks with parents needs. A ranking holds at most
    `depth` chunks that the question's caller may read and its filter lets through, both applied before ranking; a parent stands once for
    its chunks, at the best of them. Ties: score as float32 descending, then chunk id descending. `known` holds rankings made before, read
    where a fusion needs a lane that is not in `todo`. `embed_queries(embedder, texts)` gives unit vectors, or None where the embedder is
    not there; `embed_passages` the same of passages. `written` holds what a model wrote by (retriever, question). `threads` bounds the
    graph searches; matrix products use the threads of NumPy's BLAS. `terms` keeps the analysed chunks for the next call. `imported` holds
    the rankings of retrievers of kind run_file by (retriever, question).
    `gold` are grades by document of the questions that a convex fusion may be tuned on; `rerankers(name)` opens a reranker, or says
    why there is none. `unavailable` is the reason why there are no chunks to search, which then every pair has for its own.

    A retriever is a search (bm25, rm3, dense, run_file), a bm25 or dense search by what a model wrote (rewrite in place of the question,
    multi_query beside it, fused by rank, hyde as passages that expand it or whose vectors join its own), a fusion of searches (rrf,
    weighted, convex), or a reranking of either. `parameters` says on every row what shaped the ranking, tuned weights included.

    A pair without hits has one row of rank 0: ok/empty_ranking where nothing was found, not_applicable/no_embedder where
    vectors are not there, failed with a reason where the question broke, missing/missing_run where a fusion's lane was not run.
    Every other question goes on. `detail` stands on a ranking's first row, `seconds` leaves the building of an index out.

    Raises ValueError for inputs that contradict each other: unknown or repeated names and ids, a chunk of an unknown document,
    a chunk without a vector of its present text, vectors of different widths.
    """
    by_name = unique({spec.name: spec for spec in specs}, len(specs), "two retrievers have one name")
    by_id = unique({question["question_id"]: question for question in questions}, len(questions), "two questions have one id")
    _check_todo(todo, by_name, by_id)
    wanted = {name: sorted(ids) for name, ids in sorted(todo.items()) if ids}

    corpus = Corpus(chunks, documents, texts)
    progress = _Progress(sum(map(len, wanted.values())), on_done)
    embeds = (embed_queries, embed_passages or (lambda embedder, texts: None))
    lanes = _Lanes(corpus, embeddings, *embeds, by_id, depth, threads, terms, progress, by_name, imported or {}, written or {})
    combiner = Combiner(corpus, by_id, known, depth, gold or {}, rerankers, progress.add)
    outcomes: dict[str, dict[str, Outcome]] = {}
    stated: dict[str, str] = {}
    for stage in (SEARCHES, FUSIONS, ("rerank",)):  # a stage builds on those before it
        for name, ids in wanted.items():
            spec = by_name[name]
            if spec.kind not in stage:
                continue
            if unavailable:
                outcomes[name], told = dict.fromkeys(ids, NoRanking(NOT_APPLICABLE, unavailable)), dict(spec.parameters)
            elif stage is SEARCHES:
                outcomes[name], told = lanes.run(spec, ids), dict(spec.parameters)
            else:
                outcomes[name], told = combiner.run(spec.kind, spec.parameters, ids, outcomes)
            outcomes[name] = {i: _permitted(outcome, by_id[i], corpus) for i, outcome in outcomes[name].items()}
            stated[name] = json.dumps({**told, "kind": spec.kind}, sort_keys=True, ensure_ascii=False)
    return _rows(outcomes, by_id, corpus, stated, written or {})


def _permitted(outcome: Outcome, question: Row, corpus: Corpus) -> Outcome:
    """The outcome itself, or a failure where it holds what the caller may not read: an invariant, verified past every mask and fusion."""
    if isinstance(outcome, NoRanking):
        return outcome
    outside = corpus.unreadable(question, outcome.positions)
    return NoRanking(FAILED, "not_permitted", f"the caller may not read {outside!r}") if outside else outcome


class _Progress:
    def __init__(self, total: int, on_done: Callable[[int, int], None] | None) -> None:
        self.total, self.done, self.on_done = total, 0, on_done

    def add(self, count: int = 1) -> None:
        self.done += count
        if self.on_done is not None:
            self.on_done(self.done, self.total)


@dataclass
class _Lanes:
    """Runs the retrievers that search an index; analysed texts and query vectors are shared between them."""

    corpus: Corpus
    embeddings: pa.Table | None
    embed_queries: EmbedTexts
    embed_passages: EmbedTexts
    questions: Mapping[str, Row]
    depth: int
    threads: int
    terms: ContentStore | None
    progress: _Progress
    specs: Mapping[str, RetrieverSpec]
    imported: Mapping[tuple[str, str], Imported]
    written: Mapping[tuple[str, str], queries.Written]
    _terms: dict[str, list[list[str]]] = field(default_factory=dict)
    _indexes: dict[tuple[str, float, float], Bm25Index] = field(default_factory=dict)

    def run(self, spec: RetrieverSpec, ids: Sequence[str]) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        for i, outcome in self._outcomes(spec, ids):
            outcomes[i] = outcome
            self.progress.add()
        return outcomes

    def _outcomes(self, spec: RetrieverSpec, ids: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
        if spec.kind == "run_file":  # in the order given; a hit that the question's caller may not read fails the question
            yield from ((i, self._placed(self.imported.get((spec.name, i)), self.questions[i])) for i in ids)
        elif spec.kind in queries.KINDS:
            yield from self._of_written(spec, ids)
        else:
            yield from ((ids[at], found) for at, found in self._search(spec, [(i, self.questions[i]["text"]) for i in ids]))

    def _search(self, spec: RetrieverSpec, asked: Sequence[tuple[str, str]]) -> Iterator[tuple[int, Outcome]]:
        """What a search finds for each (question, text): the number of the pair, and its outcome."""
        if spec.kind != "dense":
            yield from enumerate(self._lexical(spec, asked))
            return
        vectors = self._text_vectors(self.embed_queries, spec.parameters["embedder"], [text for _, text in asked])
        yield from self._dense(spec, [(i, vectors[text]) for i, text in asked])

    def _lexical(self, spec: RetrieverSpec, asked: Sequence[tuple[str, str]]) -> Iterator[Hits]:
        base = self.specs[spec.parameters["of"][0]].parameters if spec.kind == "rm3" else spec.parameters
        index = self._index(base["analyser"], base["k1"], base["b"])
        terms = analyse([text for _, text in asked], [self.questions[i]["language"] for i, _ in asked], base["analyser"])
        depth = self.corpus.passages.depth(self.depth)
        for (i, _), query in zip(asked, terms, strict=True):
            mask = self.corpus.mask(self.questions[i])
            hits = rm3(index, query, mask, depth, spec.parameters) if spec.kind == "rm3" else index.search(query, mask, depth)
            yield self.corpus.passages.once(hits, self.depth)

    def _index(self, analyser: str, k1: float, b: float) -> Bm25Index:
        if analyser not in self._terms:
            texts, hashes = (self.corpus.table[name].to_pylist() for name in ("text", "text_sha256"))
            self._terms[analyser] = analyse_known(texts, hashes, self.corpus.languages(), analyser, self.terms)
        if (analyser, k1, b) not in self._indexes:
            self._indexes[analyser, k1, b] = Bm25Index(self._terms[analyser], k1=k1, b=b)
        return self._indexes[analyser, k1, b]

    # ---------------------------------------------------------------------------------------------- queries of a model
    def _of_written(self, spec: RetrieverSpec, ids: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
        """Rankings by what a model wrote for each question; a question without it fails, and is never searched as it stands."""
        lane = self.specs[spec.parameters["of"][0]]
        whole: dict[str, queries.Written] = {}
        for i in ids:
            written = self.written.get((spec.name, i), _NOT_WRITTEN)
            if written.failure is not None:
                yield i, written.failure
            else:
                whole[i] = written
        found: dict[str, list[Outcome]] = {i: [] for i in whole}
        if spec.kind == "hyde" and lane.kind == "dense":
            asked = self._hypothetical(lane.parameters["embedder"], whole)
            for at, outcome in self._dense(lane, asked):
                found[asked[at][0]].append(outcome)
        else:
            texts = {i: queries.searched(self.questions[i]["text"], written.queries, spec.kind) for i, written in whole.items()}
            pairs = [(i, text) for i, own in texts.items() for text in own]
            for at, outcome in sorted(self._search(lane, pairs), key=lambda numbered: numbered[0]):
                found[pairs[at][0]].append(outcome)
        for i, outcomes in found.items():
            yield i, self._joined(spec, outcomes, whole[i].seconds)

    def _hypothetical(self, embedder: str, written: Mapping[str, queries.Written]) -> list[tuple[str, Vectors | NoRanking]]:
        """For each question the mean of its vector and those of its passages, embedded as passages, at length 1 (Gao, Ma, Lin, Callan
        2022, arXiv 2212.10496, equation 8)."""
        own = self._text_vectors(self.embed_queries, embedder, [self.questions[i]["text"] for i in written])
        passages = self._text_vectors(self.embed_passages, embedder, [text for w in written.values() for text in w.queries])
        made: list[tuple[str, Vectors | NoRanking]] = []
        for i, w in written.items():
            parts = [own[self.questions[i]["text"]], *(passages[text] for text in w.queries)]
            made.append((i, next((part for part in parts if isinstance(part, NoRanking)), None) or _mean(parts)))
        return made

    def _joined(self, spec: RetrieverSpec, found: Sequence[Outcome], seconds: float) -> Outcome:
        """One outcome of the searches made for a question; one of them that failed fails it."""
        hits = [outcome for outcome in found if isinstance(outcome, Hits)]
        broken = next((outcome for outcome in found if isinstance(outcome, NoRanking)), None)
        if broken is not None:
            return broken
        joined = fused(self.corpus, hits, by_rank(spec.parameters["rrf_k"]), self.depth) if spec.kind == "multi_query" else hits[0]
        if isinstance(joined, NoRanking):
            return joined
        searching = sum(outcome.seconds for outcome in hits) + (joined.seconds if joined is not hits[0] else 0.0)
        return replace(joined, seconds=seconds + searching)

    def _placed(self, given: Imported | None, question: Row) -> Outcome:
        if given is None:
            return NoRanking(MISSING, "missing_run")
        positions: dict[int, float] = {}
        unknown = [item for item, _ in given if self.corpus.named(item) is None]
        if unknown:
            told = f"{unknown[0]!r} is neither a chunk here nor a document that is one chunk; so are {len(unknown)} of {len(given)} hits"
            return NoRanking(FAILED, "unknown_unit", told)
        for item, score in given:
            at = self.corpus.named(item)
            assert at is not None
            # Copies that dedup merged stand for one chunk: its first rank counts.
            positions.setdefault(at, math.nan if score is None else score)
        found = np.fromiter(positions, dtype=np.int64, count=len(positions))
        passing = self.corpus.mask(question)
        outside = self.corpus.unreadable(question, found)
        if outside is not None:
            return NoRanking(FAILED, "not_permitted", f"the caller may not read {outside!r}")
        detail = None
        if passing is not None and not passing[found].all():
            # The filter is the user's own wish, and this ranking was made elsewhere: it is scored as it stands.
            detail = f"{int((~passing[found]).sum())} hits outside the question's filter"
        scores = np.array([positions[int(at)] for at in found], dtype=np.float32)
        return self.corpus.passages.once(Hits(found, scores, detail), self.depth)

    def _dense(self, spec: RetrieverSpec, asked: Sequence[tuple[str, Vectors | NoRanking]]) -> Iterator[tuple[int, Outcome]]:
        """What a dense search finds for each (question, vector): the number of the pair, and its outcome."""
        embedder = spec.parameters["embedder"]
        stored = _chunk_vectors(self.embeddings, embedder, self.corpus)
        if stored is None:
            yield from ((at, _NO_EMBEDDER) for at in range(len(asked)))
            return
        positions, vectors = stored
        sound: dict[int, Vectors] = {}
        for at, (_, query) in enumerate(asked):
            if isinstance(query, NoRanking):
                yield at, query
            elif not np.isfinite(query).all():
                yield at, NoRanking(FAILED, "non_finite_score", f"embedder {embedder}: the question's vector is not finite")
            elif len(positions) and len(query) != vectors.shape[1]:
                raise ValueError(f"embedder {embedder!r}: queries are {len(query)} wide, chunks {vectors.shape[1]}")
            else:
                sound[at] = query
        if sound:
            yield from self._near(spec, positions, vectors, sound, [self.corpus.mask(self.questions[asked[at][0]]) for at in sound])

    def _near(
        self,
        spec: RetrieverSpec,
        positions: npt.NDArray[np.int64],
        vectors: Vectors,
        asked: Mapping[int, Vectors],
        masks: Sequence[Mask | None],
    ) -> Iterator[tuple[int, Hits]]:
        without = len(self.corpus.ids) - len(positions)
        note = f"{without} chunks have no vector" if without else None

        def in_corpus(hits: Hits) -> Hits:
            detail = "; ".join(part for part in (hits.detail, note) if part) or None
            found = Hits(positions[hits.positions], hits.scores, detail, hits.seconds)
            return self.corpus.passages.once(found, self.depth)

        depth = self.corpus.passages.depth(self.depth)
        eligible = [None if mask is None else mask[positions] for mask in masks]
        if spec.parameters["index"] == "hnsw" and len(positions):
            graph = HnswIndex(vectors, m=spec.parameters["m"], ef_construction=spec.parameters["ef_construction"])
            together: dict[bytes | None, list[int]] = {}
            mask_of = dict(zip(asked, eligible, strict=True))
            for at, mask in mask_of.items():
                together.setdefault(None if mask is None else mask.tobytes(), []).append(at)
            for group in together.values():  # one call for all questions of one mask: faiss spreads them over its threads
                with faiss_threads(self.threads):
                    found = graph.search(
                        np.stack([asked[at] for at in group]), mask_of[group[0]], depth, ef_search=spec.parameters["ef_search"]
                    )
                yield from ((at, in_corpus(hits)) for at, hits in zip(group, found, strict=True))
        else:
            found = ExactIndex(vectors).search(np.stack(list(asked.values())), eligible, depth)
            yield from ((at, in_corpus(hits)) for at, hits in zip(asked, found, strict=True))

    def _text_vectors(self, embed: EmbedTexts, embedder: str, texts: Sequence[str]) -> dict[str, Vectors | NoRanking]:
        """Vector of each distinct text, or why it has none."""
        distinct = sorted(set(texts))
        try:
            vectors = embed(embedder, distinct) if distinct else np.empty((0, 0), dtype=np.float32)
        except Exception:  # noqa: BLE001
            # One text that breaks the embedder must not cost the others: each is tried alone, and says why it failed.
            return {text: self._text_vector(embed, embedder, text) for text in distinct}
        return dict.fromkeys(distinct, _NO_EMBEDDER) if vectors is None else dict(zip(distinct, vectors, strict=True))

    def _text_vector(self, embed: EmbedTexts, embedder: str, text: str) -> Vectors | NoRanking:
        try:
            vectors = embed(embedder, [text])
        except Exception as error:  # noqa: BLE001
            return NoRanking(FAILED, "crashed", f"embedder {embedder}: {type(error).__name__}: {error}")
        return _NO_EMBEDDER if vectors is None else vectors[0]


def _mean(vectors: Sequence[Any]) -> Vectors:
    mean = np.mean(vectors, axis=0, dtype=np.float64)
    unit: Vectors = np.asarray(mean / np.linalg.norm(mean), dtype=np.float32)
    return unit


def _chunk_vectors(embeddings: pa.Table | None, embedder: str, corpus: Corpus) -> tuple[npt.NDArray[np.int64], Vectors] | None:
    """Ascending positions of chunks and their vectors (n, d); None where the embedder made none.

    A chunk whose own vector failed is left out. Raises ValueError where a chunk has no row at all or a row of another text.
    """
    if not corpus.ids:
        return np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.float32)
    if embeddings is None:
        return None
    rows = embeddings.filter(pc.equal(embeddings["embedder"], embedder))
    sha_of = dict(zip(rows["chunk_id"].to_pylist(), rows["text_sha256"].to_pylist(), strict=True))
    good = rows.filter(pc.equal(rows["status"], OK))
    if not good.num_rows:
        return None
    for chunk, sha in zip(corpus.ids, corpus.table["text_sha256"].to_pylist(), strict=True):
        if sha_of.get(chunk) != sha:
            raise ValueError(f"embedder {embedder!r}: chunk {chunk!r} has no vector of its present text")
    good = good.filter(pc.is_in(good["chunk_id"], pa.array(corpus.ids, type=good.schema.field("chunk_id").type)))
    positions = np.array([corpus.position[chunk] for chunk in good["chunk_id"].to_pylist()], dtype=np.int64)
    column = good["vector"].combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    widths = set(pc.list_value_length(column).to_pylist())
    if len(widths) != 1:
        raise ValueError(f"embedder {embedder!r}: vectors have widths {sorted(map(str, widths))}")
    vectors = flat.reshape(len(positions), widths.pop())
    if not np.isfinite(vectors).all():
        broken = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise ValueError(f"embedder {embedder!r}: the vector of chunk {corpus.ids[positions[broken]]!r} is not finite")
    order = np.argsort(positions)
    return positions[order], vectors[order]


def _rows(
    outcomes: Mapping[str, Mapping[str, Outcome]],
    questions: Mapping[str, Row],
    corpus: Corpus,
    stated: Mapping[str, str],
    written: Mapping[tuple[str, str], queries.Written],
) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names if name not in _CHUNK_COLUMNS}
    positions: list[npt.NDArray[np.int64]] = []
    for question, retriever in sorted((question, retriever) for retriever, found in outcomes.items() for question in found):
        outcome = outcomes[retriever][question]
        if isinstance(outcome, Hits) and len(outcome.positions):
            count = len(outcome.positions)
            ranks, at = range(1, count + 1), outcome.positions
            # NaN stands for no score of its own: below the depth that was reranked, or none given in a file.
            scores = [None if math.isnan(score) else score for score in outcome.scores.astype(np.float64).tolist()]
            status, reason, seconds = OK, None, outcome.seconds
        else:
            count, ranks, scores, at = 1, range(1), [None], np.array([-1], dtype=np.int64)
            if isinstance(outcome, Hits):
                status, reason, seconds = OK, "empty_ranking", outcome.seconds
            else:
                status, reason, seconds = outcome.status, outcome.reason, None
        columns["question_id"] += [question] * count
        columns["split"] += [questions[question]["split"]] * count
        columns["retriever"] += [retriever] * count
        columns["parameters"] += [stated[retriever]] * count
        columns["rank"] += ranks
        columns["score"] += scores
        columns["status"] += [status] * count
        columns["reason"] += [reason] * count
        columns["detail"] += [outcome.detail, *[None] * (count - 1)]
        columns["seconds"] += [seconds] * count
        model = written.get((retriever, question), queries.Written())
        told = (list(model.queries) or None, model.tokens, model.cost)
        for name, value in zip(("queries", "model_tokens", "model_cost"), told, strict=True):
            columns[name] += [value, *[None] * (count - 1)]
        positions.append(at)
    taken = np.concatenate(positions) if positions else np.empty(0, dtype=np.int64)
    found_chunks = delivered(corpus.table).select(list(_CHUNK_COLUMNS)).take(pa.array(taken, mask=taken < 0))
    arrays = [
        found_chunks[column.name].cast(column.type) if column.name in _CHUNK_COLUMNS else pa.array(columns[column.name], column.type)
        for column in SCHEMA
    ]
    return pa.table(arrays, schema=SCHEMA)


def _check_todo(todo: Mapping[str, Sequence[str]], specs: Mapping[str, RetrieverSpec], questions: Mapping[str, Row]) -> None:
    for name, ids in todo.items():
        if name not in specs:
            raise ValueError(f"no retriever {name!r}; known: {', '.join(sorted(specs))}")
        if specs[name].kind not in KINDS:
            raise ValueError(f"retriever {name!r}: no kind {specs[name].kind!r}; known: {', '.join(KINDS)}")
        unknown = sorted(set(ids) - set(questions))
        if unknown:
            raise ValueError(f"retriever {name!r}: no question {unknown[0]!r}")
        if len(set(ids)) != len(ids):
            raise ValueError(f"retriever {name!r}: a question is asked for twice")
