"""The rankings table: every wanted (retriever, question) pair run, or accounted for by one typed row.

What belongs here: predicates turned into masks, lanes run and fused, rankings turned into rows. What does not: how a lane
scores (`bm25`, `dense`, `fusion`), which pairs are wanted and which rows are kept from before (the caller).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.retrieval.bm25 import Bm25Index, analyse, analyse_known
from rag_eval_assets.retrieval.dense import ExactIndex, HnswIndex, Vectors
from rag_eval_assets.retrieval.filters import entitled, passes, predicate
from rag_eval_assets.retrieval.fusion import DuplicateIds, rrf
from rag_eval_assets.retrieval.ordering import Hits, Mask
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK, TABLES

if TYPE_CHECKING:
    from ingestion.minhash import ContentStore

KINDS = ("bm25", "dense", "rrf")
_TABLE = TABLES["retrieval_runs"].schema
SCHEMA = pa.schema([column for column in _TABLE if column.name != "work_key"])
"""Columns of a run as made here; the caller adds `work_key`."""
_CHUNK_COLUMNS = ("chunk_id", "text_sha256", "doc_id", "start", "end", "tokens")

Row = Mapping[str, Any]
EmbedQueries = Callable[[str, list[str]], Vectors | None]


@dataclass(frozen=True)
class RetrieverSpec:
    """A retriever: its name, its kind (bm25, dense or rrf) and its parameters under the names that settings give them."""

    name: str
    kind: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _NoRanking:
    """Why a pair has no ranking."""

    status: str
    reason: str
    detail: str | None = None


_Outcome = Hits | _NoRanking
_NO_EMBEDDER = _NoRanking(NOT_APPLICABLE, "no_embedder")


def run_retrievers(
    specs: Sequence[RetrieverSpec],
    questions: Sequence[Row],
    chunks: pa.Table,
    embeddings: pa.Table | None,
    documents: Sequence[Row],
    *,
    todo: Mapping[str, Sequence[str]],
    known: pa.Table | None,
    depth: int,
    embed_queries: EmbedQueries,
    threads: int,
    terms: ContentStore | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Rankings of exactly the pairs in `todo` (retriever to question ids), in the schema `SCHEMA`, in the table's order.

    `questions`, `chunks`, `embeddings` and `documents` are rows of golden_questions, chunks, chunk_embeddings and
    unique_documents. A ranking holds at most `depth` chunks that the question's caller may read and its filter lets through,
    both applied before ranking. Ties: score as float32 descending, then chunk id descending. `known` holds rankings made
    before, read where a fusion needs a lane that is not in `todo`. `embed_queries(embedder, texts)` gives unit vectors, or None
    where the embedder is not there. `threads` bounds the graph searches; matrix products use the threads of NumPy's BLAS. `terms`
    keeps the analysed chunks for the next call.

    A pair without hits has one row of rank 0: ok/empty_ranking where nothing was found, not_applicable/no_embedder where
    vectors are not there, failed with a reason where the question broke, missing/missing_run where a fusion's lane was not run.
    Every other question goes on. `detail` stands on a ranking's first row, `seconds` leaves the building of an index out.

    Raises ValueError for inputs that contradict each other: unknown or repeated names and ids, a chunk of an unknown document,
    a chunk without a vector of its present text, vectors of different widths.
    """
    by_name = _unique({spec.name: spec for spec in specs}, len(specs), "two retrievers have one name")
    by_id = _unique({question["question_id"]: question for question in questions}, len(questions), "two questions have one id")
    _check_todo(todo, by_name, by_id)
    wanted = {name: sorted(ids) for name, ids in sorted(todo.items()) if ids}

    corpus = _Corpus(chunks, documents)
    progress = _Progress(sum(map(len, wanted.values())), on_done)
    lanes = _Lanes(corpus, embeddings, embed_queries, by_id, depth, threads, terms, progress)
    outcomes: dict[str, dict[str, _Outcome]] = {}
    for name, ids in wanted.items():
        if by_name[name].kind != "rrf":
            outcomes[name] = lanes.run(by_name[name], ids)
    for name, ids in wanted.items():
        if by_name[name].kind == "rrf":
            before = _known_hits(known, by_name[name], ids, corpus, depth)
            outcomes[name] = _fuse(by_name[name], ids, outcomes, before, corpus, depth, progress)
    return _rows(outcomes, by_id, corpus)


class _Progress:
    def __init__(self, total: int, on_done: Callable[[int, int], None] | None) -> None:
        self.total, self.done, self.on_done = total, 0, on_done

    def add(self, count: int = 1) -> None:
        self.done += count
        if self.on_done is not None:
            self.on_done(self.done, self.total)


class _Corpus:
    """Chunks numbered in ascending order of their ids, and who may see them."""

    def __init__(self, chunks: pa.Table, documents: Sequence[Row]) -> None:
        self.table = chunks.take(pc.sort_indices(chunks, sort_keys=[("chunk_id", "ascending")])).combine_chunks()
        self.ids: list[str] = self.table["chunk_id"].to_pylist()
        self.position = _unique({chunk: at for at, chunk in enumerate(self.ids)}, len(self.ids), "two chunks have one id")
        self.documents = documents
        number = _unique({row["doc_id"]: at for at, row in enumerate(documents)}, len(documents), "two documents have one id")
        owners = self.table["doc_id"].to_pylist()
        unknown = sorted(set(owners) - set(number))
        if unknown:
            raise ValueError(f"{len(unknown)} documents have chunks and no row in unique_documents, {unknown[0]!r} among them")
        self._owner = np.array([number[owner] for owner in owners], dtype=np.int64)
        self._open: dict[tuple[str, str | None], npt.NDArray[np.bool_]] = {}

    def languages(self) -> list[str]:
        return [self.documents[at]["language"] for at in self._owner]

    def mask(self, question: Row) -> Mask | None:
        """Chunks that the question's caller may read and its filter lets through; None for all of them."""
        key = (question["entitlement"], question["filter"])
        if key not in self._open:
            access, wanted = predicate(key[0]), predicate(key[1])
            self._open[key] = np.array([entitled(access, row) and passes(wanted, row) for row in self.documents], dtype=np.bool_)
        visible = self._open[key]
        return None if visible.all() else visible[self._owner]


@dataclass
class _Lanes:
    """Runs the retrievers that search an index; analysed texts and query vectors are shared between them."""

    corpus: _Corpus
    embeddings: pa.Table | None
    embed_queries: EmbedQueries
    questions: Mapping[str, Row]
    depth: int
    threads: int
    terms: ContentStore | None
    progress: _Progress
    _terms: dict[str, list[list[str]]] = field(default_factory=dict)

    def run(self, spec: RetrieverSpec, ids: Sequence[str]) -> dict[str, _Outcome]:
        return self._bm25(spec, ids) if spec.kind == "bm25" else self._dense(spec, ids)

    def _bm25(self, spec: RetrieverSpec, ids: Sequence[str]) -> dict[str, _Outcome]:
        analyser = spec.parameters["analyser"]
        if analyser not in self._terms:
            texts, hashes = (self.corpus.table[name].to_pylist() for name in ("text", "text_sha256"))
            self._terms[analyser] = analyse_known(texts, hashes, self.corpus.languages(), analyser, self.terms)
        asked = [self.questions[i] for i in ids]
        queries = analyse([question["text"] for question in asked], [question["language"] for question in asked], analyser)
        index = Bm25Index(self._terms[analyser], k1=spec.parameters["k1"], b=spec.parameters["b"])
        outcomes: dict[str, _Outcome] = {}
        for question, query in zip(asked, queries, strict=True):
            outcomes[question["question_id"]] = index.search(query, self.corpus.mask(question), self.depth)
            self.progress.add()
        return outcomes

    def _dense(self, spec: RetrieverSpec, ids: Sequence[str]) -> dict[str, _Outcome]:
        embedder = spec.parameters["embedder"]
        stored = _chunk_vectors(self.embeddings, embedder, self.corpus)
        queries = self._query_vectors(embedder, [self.questions[i]["text"] for i in ids]) if stored is not None else None
        if stored is None or queries is None:
            self.progress.add(len(ids))
            return dict.fromkeys(ids, _NO_EMBEDDER)
        positions, vectors = stored
        outcomes: dict[str, _Outcome] = {}
        sound: dict[str, Vectors] = {}
        for i in ids:
            query = queries[self.questions[i]["text"]]
            if isinstance(query, _NoRanking):
                outcomes[i] = query
            elif not np.isfinite(query).all():
                outcomes[i] = _NoRanking(FAILED, "non_finite_score", f"embedder {embedder}: the question's vector is not finite")
            elif len(positions) and len(query) != vectors.shape[1]:
                raise ValueError(f"embedder {embedder!r}: queries are {len(query)} wide, chunks {vectors.shape[1]}")
            else:
                sound[i] = query
        self.progress.add(len(outcomes))
        for i, hits in self._search(spec, positions, vectors, sound):
            outcomes[i] = hits
            self.progress.add()
        return outcomes

    def _search(
        self, spec: RetrieverSpec, positions: npt.NDArray[np.int64], vectors: Vectors, queries: Mapping[str, Vectors]
    ) -> Iterable[tuple[str, Hits]]:
        if not queries:
            return
        without = len(self.corpus.ids) - len(positions)
        note = f"{without} chunks have no vector" if without else None

        def in_corpus(hits: Hits) -> Hits:
            detail = "; ".join(part for part in (hits.detail, note) if part) or None
            return Hits(positions[hits.positions], hits.scores, detail, hits.seconds)

        masks = (self.corpus.mask(self.questions[i]) for i in queries)
        eligible = [None if mask is None else mask[positions] for mask in masks]
        if spec.parameters["index"] == "hnsw" and len(positions):
            graph = HnswIndex(vectors, m=spec.parameters["m"], ef_construction=spec.parameters["ef_construction"])
            search = partial(graph.search, depth=self.depth, ef_search=spec.parameters["ef_search"])
            # faiss lets go of the interpreter while it searches, and map keeps the order of the questions.
            with ThreadPoolExecutor(self.threads) as pool:
                yield from zip(queries, map(in_corpus, pool.map(search, queries.values(), eligible)), strict=True)
        else:
            found = ExactIndex(vectors).search(np.stack(list(queries.values())), eligible, self.depth)
            for i, hits in zip(queries, found, strict=True):
                yield i, in_corpus(hits)

    def _query_vectors(self, embedder: str, texts: Sequence[str]) -> dict[str, Vectors | _NoRanking] | None:
        """Vector of each distinct text, or why it has none; None where the embedder is not there."""
        distinct = sorted(set(texts))
        try:
            vectors = self.embed_queries(embedder, distinct)
        except Exception:  # noqa: BLE001
            # One text that breaks the embedder must not cost the others: each is tried alone, and says why it failed.
            return {text: self._query_vector(embedder, text) for text in distinct}
        return None if vectors is None else dict(zip(distinct, vectors, strict=True))

    def _query_vector(self, embedder: str, text: str) -> Vectors | _NoRanking:
        try:
            vectors = self.embed_queries(embedder, [text])
        except Exception as error:  # noqa: BLE001
            return _NoRanking(FAILED, "crashed", f"embedder {embedder}: {type(error).__name__}: {error}")
        return _NO_EMBEDDER if vectors is None else vectors[0]


def _chunk_vectors(embeddings: pa.Table | None, embedder: str, corpus: _Corpus) -> tuple[npt.NDArray[np.int64], Vectors] | None:
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


def _fuse(
    spec: RetrieverSpec,
    ids: Sequence[str],
    fresh: Mapping[str, Mapping[str, _Outcome]],
    known: Mapping[tuple[str, str], _Outcome],
    corpus: _Corpus,
    depth: int,
    progress: _Progress,
) -> dict[str, _Outcome]:
    lanes, k = tuple(spec.parameters["of"]), spec.parameters["rrf_k"]
    missing = _NoRanking(MISSING, "missing_run")
    outcomes: dict[str, _Outcome] = {}
    for i in ids:
        started = time.perf_counter()
        found = {lane: fresh.get(lane, {}).get(i) or known.get((lane, i)) or missing for lane in lanes}
        broken = {lane: outcome for lane, outcome in found.items() if isinstance(outcome, _NoRanking)}
        if broken:
            outcomes[i] = _of_broken_lanes(broken)
        else:
            rankings = [[corpus.ids[at] for at in hits.positions] for hits in found.values() if isinstance(hits, Hits)]
            try:
                fused = rrf(rankings, k)[:depth]
            except DuplicateIds as error:
                outcomes[i] = _NoRanking(FAILED, "duplicate_ids", str(error))
            else:
                outcomes[i] = Hits(
                    np.array([corpus.position[chunk] for chunk, _ in fused], dtype=np.int64),
                    np.array([score for _, score in fused], dtype=np.float32),
                    seconds=time.perf_counter() - started,
                )
        progress.add()
    return outcomes


def _of_broken_lanes(broken: Mapping[str, _NoRanking]) -> _NoRanking:
    """What a fusion says of lanes without a ranking: failed before missing before not applicable."""
    for status, reason in ((FAILED, "upstream_failed"), (MISSING, "missing_run"), (NOT_APPLICABLE, "no_embedder")):
        lanes = [lane for lane, outcome in broken.items() if outcome.status == status]
        if lanes:
            return _NoRanking(status, reason, f"lane {', '.join(f'{lane}: {broken[lane].reason}' for lane in lanes)}")
    raise AssertionError(f"no status of {broken} is a failure")


def _known_hits(
    known: pa.Table | None, spec: RetrieverSpec, ids: Sequence[str], corpus: _Corpus, depth: int
) -> dict[tuple[str, str], _Outcome]:
    """Outcomes of the fusion's lanes that stand in `known`, by (lane, question)."""
    if known is None:
        return {}
    lanes = pa.array(spec.parameters["of"], type=known.schema.field("retriever").type)
    wanted = pa.array(ids, type=known.schema.field("question_id").type)
    rows = known.filter(pc.and_(pc.is_in(known["retriever"], lanes), pc.is_in(known["question_id"], wanted)))
    rows = rows.sort_by([("retriever", "ascending"), ("question_id", "ascending"), ("rank", "ascending")])
    shas = corpus.table["text_sha256"].to_pylist()
    outcomes: dict[tuple[str, str], _Outcome] = {}
    hits: dict[tuple[str, str], list[int]] = {}
    names = ("retriever", "question_id", "rank", "chunk_id", "text_sha256", "status", "reason")
    for lane, question, rank, chunk, sha, status, reason in zip(*(rows[name].to_pylist() for name in names), strict=True):
        if status != OK:
            outcomes[lane, question] = _NoRanking(status, reason)
        elif rank == 0:
            hits.setdefault((lane, question), [])
        else:
            at = corpus.position.get(chunk)
            if at is None or shas[at] != sha:
                raise ValueError(f"retriever {lane!r}, question {question!r}: the known ranking names {chunk!r} of another text")
            hits.setdefault((lane, question), []).append(at)
    for key, positions in hits.items():
        outcomes[key] = Hits(np.array(positions[:depth], dtype=np.int64), np.empty(0, dtype=np.float32))
    return outcomes


def _rows(outcomes: Mapping[str, Mapping[str, _Outcome]], questions: Mapping[str, Row], corpus: _Corpus) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names if name not in _CHUNK_COLUMNS}
    positions: list[npt.NDArray[np.int64]] = []
    for question, retriever in sorted((question, retriever) for retriever, found in outcomes.items() for question in found):
        outcome = outcomes[retriever][question]
        if isinstance(outcome, Hits) and len(outcome.positions):
            count = len(outcome.positions)
            ranks, scores, at = range(1, count + 1), outcome.scores.astype(np.float64).tolist(), outcome.positions
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
        columns["rank"] += ranks
        columns["score"] += scores
        columns["status"] += [status] * count
        columns["reason"] += [reason] * count
        columns["detail"] += [outcome.detail, *[None] * (count - 1)]
        columns["seconds"] += [seconds] * count
        positions.append(at)
    taken = np.concatenate(positions) if positions else np.empty(0, dtype=np.int64)
    found_chunks = corpus.table.select(list(_CHUNK_COLUMNS)).take(pa.array(taken, mask=taken < 0))
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


def _unique(mapping: dict[str, Any], count: int, complaint: str) -> dict[str, Any]:
    if len(mapping) != count:
        raise ValueError(complaint)
    return mapping
