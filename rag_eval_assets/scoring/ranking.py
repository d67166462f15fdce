"""Ranking scores of every expected question, by document, by chunk and by evidence group, through trec_eval's own code.

What belongs here: turning rankings and labels into the units trec_eval counts, and the status of each score. What does not: the
order of a ranking (it was ranked before; ranks rule), labels (`relevance`) and means over questions (`summary`).

Units and what k counts:

- document: chunks collapse to the first rank of their document, k counts documents, or tokens of leading chunks: documents whose first
  chunk ends past the budget are not there, and the ideal ranking keeps them all. Gold documents carry their largest grade.
- chunk: a chunk is relevant to an evidence group if it covers at least half of the characters of one of its spans, or lies
  wholly inside it. Each group is credited once, at the first chunk relevant to it; a chunk that first finds several groups
  stands for each in turn, and one that only repeats found groups is collapsed, as repeats of a document are. So the ideal
  ranking comes from the labels alone, overlapping or small chunks neither gain nor lose, and k counts chunks so collapsed.
- group: a group is found once the union of the leading chunks holds at least 95% of the characters (white space apart) of one of
  its spans, or once its document is there where the alternative quotes nothing. k counts chunks, or tokens of leading chunks.

Gains are linear in the grade and ideal rankings come from the labels, as in trec_eval (NIST) and ir_measures.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_eval_assets.scoring.relevance import Labels, Span, read_labels
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK, SCORED, TABLES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Status = tuple[str, str | None]

SCHEMA = TABLES["retrieval_scores"].schema
"""Columns of the result with `by="retriever"`; without it the column `retriever` is left out."""

_TREC = {"R": "recall", "P": "P", "Success": "success", "nDCG": "ndcg_cut"}


class Measure(NamedTuple):
    """One measure: its metric as ir_measures names it, the cut-off (0 for none), what the cut-off counts, the unit."""

    metric: str
    k: int
    cutoff: str
    unit: str


def measures(ks: Sequence[int], token_budgets: Sequence[int]) -> list[Measure]:
    """Every measure that `score_rankings` gives, sorted. Raises ValueError for a cut-off that is not positive or stands twice."""
    for name, cuts in (("ks", ks), ("token_budgets", token_budgets)):
        if any(k <= 0 for k in cuts) or len(set(cuts)) != len(cuts):
            raise ValueError(f"{name}: cut-offs must be positive and differ from each other, not {list(cuts)}")
    found = [Measure(m, k, "rank", unit) for unit in ("document", "chunk") for m in ("R", "P", "Success", "RR", "nDCG") for k in ks]
    found += [Measure(m, 0, "none", unit) for unit in ("document", "chunk") for m in ("RR", "AP")]
    found += [Measure("R", k, "rank", "group") for k in ks]
    found += [Measure(m, budget, "tokens", unit) for m, unit in (("R", "group"), ("nDCG", "document")) for budget in token_budgets]
    return sorted(found)


def score_rankings(
    runs: pa.Table,
    questions: list[dict[str, Any]],
    evidence: list[dict[str, Any]],
    *,
    ks: Sequence[int],
    token_budgets: Sequence[int],
    by: str | None,
) -> pa.Table:
    """One row for every question of `questions`, ranking and measure: retrieval_scores, or its columns without `retriever`.

    `runs` holds rows of retrieval_runs (`by="retriever"`) or of system_retrievals (`by=None`); rows of other questions are
    ignored. An empty ranking scores 0 with reason empty_ranking; a question without rows is missing; a ranking that
    names a chunk twice or holds a score that is not finite failed. Raises ValueError for bad cut-offs, and where a token
    budget is asked of hits without token counts.
    """
    if by not in (None, "retriever"):
        raise ValueError(f"rankings are told apart by 'retriever' or by nothing, not by {by!r}")
    wanted = measures(ks, token_budgets)
    questions = sorted(questions, key=lambda q: q["question_id"])
    ids = [q["question_id"] for q in questions]
    names = sorted(set(runs.column(by).unique().to_pylist())) if by else [""]
    rankings = _Rankings(runs, ids, names, by)
    slots = rankings.slots
    of_question = read_labels(questions, evidence)
    labels = [of_question[question_id] for question_id in ids for _ in names]
    values = np.zeros((slots, len(wanted)))
    statuses: dict[str, list[Status]] = {}
    for unit, score in _SCORERS.items():
        statuses[unit] = [_status(own, unit, run) for own, run in zip(labels, rankings.statuses, strict=True)]
        # Only rankings without a repeated id are live, so trec_eval sees each unit once.
        live = [slot for slot, status in enumerate(statuses[unit]) if status == (SCORED, None)]
        score(rankings, live, labels, {m: i for i, m in enumerate(wanted) if m.unit == unit}, values)
    return _table(questions, names, wanted, statuses, values, by)


def tie_spread(
    runs: pa.Table, questions: list[dict[str, Any]], evidence: list[dict[str, Any]], *, ks: Sequence[int], by: str | None
) -> list[dict[str, Any]]:
    """Lowest, reported and highest mean by document over the orders of equal scores (float32), per ranking and measure.

    A row holds retriever, tied (questions with a tie), metric, k, lowest, mean, highest; means run over scored questions.
    """
    labels = read_labels(questions, evidence)
    scores = runs.column("score").to_numpy(zero_copy_only=False).astype(np.float32)
    ids, docs = runs.column("question_id").to_pylist(), runs.column("doc_id").to_pylist()
    lanes = runs.column(by).to_pylist() if by else [""] * len(ids)
    grades = np.array([labels[q].documents.get(d, 0) if q in labels else 0 for q, d in zip(ids, docs, strict=True)], dtype=np.int64)
    lane_of = np.unique(np.array(lanes, dtype=object).astype(str), return_inverse=True)[1]
    question_of = np.unique(np.array(ids, dtype=object).astype(str), return_inverse=True)[1]
    ranks = runs.column("rank").to_numpy(zero_copy_only=False)
    tied: dict[str, set[str]] = defaultdict(set)
    reported = np.lexsort((ranks, question_of, lane_of))
    for here, there in pairwise(reported):
        same = lane_of[here] == lane_of[there] and question_of[here] == question_of[there]
        if same and scores[here] == scores[there]:
            tied[lanes[here]].add(ids[here])
    tables = {}
    for name, sign in (("lowest", 1), ("mean", 0), ("highest", -1)):
        order = np.lexsort((ranks, sign * grades, -scores, question_of, lane_of)) if sign else reported
        new = np.empty(len(order), dtype=np.int32)
        new[order] = _positions(lane_of[order], question_of[order])
        shuffled = runs.set_column(runs.schema.get_field_index("rank"), "rank", pa.array(np.where(ranks == 0, 0, new), pa.int32()))
        tables[name] = score_rankings(shuffled, questions, evidence, ks=ks, token_budgets=(), by=by)
    means: dict[tuple[str, str, int], dict[str, float]] = defaultdict(dict)
    for name, table in tables.items():
        sums: dict[tuple[str, str, int], list[float]] = defaultdict(list)
        for row in table.to_pylist():
            if row["unit"] == "document" and row["status"] == SCORED:
                sums[row.get("retriever", ""), row["metric"], row["k"]].append(row["value"])
        for key, found in sums.items():
            means[key][name] = float(np.mean(found))
    return [
        {"retriever": lane, "tied": len(tied[lane]), "metric": metric, "k": k, **means[lane, metric, k]}
        for lane, metric, k in sorted(means)
    ]


class _Rankings:
    """Rankings as arrays: one slot a (question, ranking), hits in rank order."""

    def __init__(self, runs: pa.Table, ids: list[str], names: list[str], by: str | None) -> None:
        self.ids, self.names = ids, names
        self.slots = len(ids) * len(names)
        columns = ["question_id", "rank", "chunk_id", "doc_id", "start", "end", "tokens", "score", "status", "reason"]
        table = runs.select([*columns, *([by] if by else [])])
        question = _codes(table, "question_id", ids)
        lane = _codes(table, by, names) if by else np.zeros(table.num_rows, dtype=np.int64)
        slot = np.where(question >= 0, question * len(names) + lane, -1)
        rank = table.column("rank").to_numpy(zero_copy_only=False).astype(np.int64)
        hit = (slot >= 0) & (rank > 0)

        self.statuses: list[Status] = [(MISSING, "missing_run")] * self.slots
        status, reason = table.column("status").to_pylist(), table.column("reason").to_pylist()
        for row in np.flatnonzero((slot >= 0) & (rank <= 0)):
            self.statuses[slot[row]] = (status[row], reason[row]) if status[row] != OK else (SCORED, "empty_ranking")
        for s in np.unique(slot[hit]):
            self.statuses[s] = (SCORED, None)

        order = np.flatnonzero(hit)
        order = order[np.lexsort((rank[order], slot[order]))]
        self.slot = slot[order]
        self.bounds = np.searchsorted(self.slot, np.arange(self.slots + 1))
        hits = table.take(pa.array(order))
        self.chunk, self.chunk_ids = _encode(hits, "chunk_id")
        self.doc, self.doc_ids = _encode(hits, "doc_id")
        self.start, self.end = _numbers(hits, "start"), _numbers(hits, "end")
        self.tokens = _numbers(hits, "tokens")
        scores = hits.column("score").to_numpy(zero_copy_only=False).astype(np.float64)
        given = np.array(hits.column("score").is_valid().to_pylist(), dtype=np.bool_)
        for s in np.unique(self.slot[given & ~np.isfinite(scores)]):
            self.statuses[s] = (FAILED, "non_finite_score")
        for s in self._repeated():
            self.statuses[s] = (FAILED, "duplicate_ids")

    def _repeated(self) -> Ints:
        named = self.chunk >= 0
        pairs, counts = np.unique(self.slot[named] * (len(self.chunk_ids) + 1) + self.chunk[named], return_counts=True)
        return np.unique(pairs[counts > 1] // (len(self.chunk_ids) + 1))

    def question(self, slot: int) -> str:
        return self.ids[slot // len(self.names)]

    def places_of_documents(self, wanted: Iterable[tuple[int, str]]) -> dict[int, list[tuple[int, str]]]:
        """(Place from 0, document) of the wanted (slot, document) pairs in rankings collapsed to first ranks, by slot."""
        width = len(self.doc_ids) + 1
        named = self.slot[self.doc >= 0] * width + self.doc[self.doc >= 0]
        pairs, first = np.unique(named, return_index=True)
        collapsed = pairs[np.argsort(first)]
        starts = np.searchsorted(collapsed // width, np.arange(self.slots))
        found: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for place in np.flatnonzero(np.isin(collapsed, self._keys(wanted, self.doc_ids, width))):
            slot, doc = divmod(int(collapsed[place]), width)
            found[slot].append((int(place - starts[slot]), self.doc_ids[doc]))
        return found

    def hits(
        self, documents: Iterable[tuple[int, str]], chunks: Iterable[tuple[int, str]] = ()
    ) -> dict[int, list[tuple[int, str | None, Span]]]:
        """Hits in the wanted documents or with the wanted chunk ids: (place from 0, chunk id, passage), by slot."""
        by_doc, by_chunk = len(self.doc_ids) + 1, len(self.chunk_ids) + 1
        wanted = np.isin(self.slot * by_doc + self.doc, self._keys(documents, self.doc_ids, by_doc))
        wanted |= np.isin(self.slot * by_chunk + self.chunk, self._keys(chunks, self.chunk_ids, by_chunk))
        found: dict[int, list[tuple[int, str | None, Span]]] = defaultdict(list)
        for row in np.flatnonzero(wanted):
            slot, start, end = int(self.slot[row]), int(self.start[row]), int(self.end[row])
            doc_id = self.doc_ids[self.doc[row]] if self.doc[row] >= 0 else ""
            chunk_id = self.chunk_ids[self.chunk[row]] if self.chunk[row] >= 0 else None
            span = (doc_id, start if start >= 0 else None, end if end >= 0 else None)
            found[slot].append((int(row - self.bounds[slot]), chunk_id, span))
        return found

    def tokens_until(self, slot: int, count: int) -> int:
        first = self.bounds[slot]
        return int(self.tokens[first : first + count].sum())

    def tokens_until_documents(self, slot: int, documents: Sequence[str]) -> list[int]:
        """Tokens of the leading chunks up to and with the first chunk of each document, all of them in this ranking."""
        rows = slice(self.bounds[slot], self.bounds[slot + 1])
        spent = np.cumsum(self.tokens[rows])
        names = [self.doc_ids[code] if code >= 0 else None for code in self.doc[rows]]
        return [int(spent[names.index(document)]) for document in documents]

    def require_tokens(self) -> None:
        if bool((self.tokens < 0).any()):
            raise ValueError("a token budget needs the tokens of every hit, and a hit has none")

    @staticmethod
    def _keys(wanted: Iterable[tuple[int, str]], names: list[str], width: int) -> Ints:
        code = {name: i for i, name in enumerate(names)}
        return np.array([slot * width + code[name] for slot, name in wanted if name in code], dtype=np.int64)


def _status(labels: Labels, unit: str, run: Status) -> Status:
    reason = {"document": labels.unlabelled, "chunk": labels.no_chunks, "group": labels.no_groups}[unit]
    return (NOT_APPLICABLE, reason) if reason else run


class _Scorer(Protocol):
    """Fills the columns of one unit in `values` for the slots in `live`."""

    def __call__(
        self, rankings: _Rankings, live: list[int], labels: Sequence[Labels], columns: Mapping[Measure, int], values: Floats
    ) -> None: ...


def _by_document(rankings: _Rankings, live: list[int], labels: Sequence[Labels], columns: Mapping[Measure, int], values: Floats) -> None:
    placed = rankings.places_of_documents((s, doc) for s in live for doc, grade in labels[s].documents.items() if grade > 0)
    budgets = {m: column for m, column in columns.items() if m.cutoff == "tokens"}
    _trec(placed, {s: labels[s].documents for s in placed}, {m: c for m, c in columns.items() if m not in budgets}, values)
    if not budgets:
        return
    rankings.require_tokens()
    for slot, found in placed.items():
        grades = labels[slot].documents
        ideal = _dcg(enumerate(sorted((g for g in grades.values() if g > 0), reverse=True)))
        spent = rankings.tokens_until_documents(slot, [doc for _, doc in found])
        for measure, column in budgets.items():
            within = ((place, grades[doc]) for (place, doc), tokens in zip(found, spent, strict=True) if tokens <= measure.k)
            values[slot, column] = _dcg(within) / ideal


def _dcg(gains: Iterable[tuple[int, int]]) -> float:
    """Discounted gain of (place from 0, grade), linear in the grade as in trec_eval."""
    return math.fsum(grade / math.log2(place + 2) for place, grade in gains)


def _by_chunk(rankings: _Rankings, live: list[int], labels: Sequence[Labels], columns: Mapping[Measure, int], values: Floats) -> None:
    hits = rankings.hits(
        ((s, a.doc_id) for s in live for g in labels[s].groups for a in g.alternatives),
        ((s, chunk_id) for s in live for chunk_id in labels[s].chunks),
    )
    placed: dict[int, list[tuple[int, str]]] = {}
    for slot, found in hits.items():
        units: dict[str, int] = {}
        shift = 0
        for place, chunk_id, span in found:
            relevant = labels[slot].chunk_relevance(chunk_id, span)
            new = [name for name in relevant if name not in units]
            for name in new:
                units[name] = place + shift
                shift += 1
            # The chunk itself takes one place: its first group's, or none where it only repeats.
            shift -= bool(relevant)
        if units:
            placed[slot] = [(place, name) for name, place in units.items()]
    _trec(placed, {s: labels[s].chunk_grades for s in placed}, columns, values)


def _by_group(rankings: _Rankings, live: list[int], labels: Sequence[Labels], columns: Mapping[Measure, int], values: Floats) -> None:
    budgets = any(m.cutoff == "tokens" for m in columns)
    if budgets:
        rankings.require_tokens()
    hits = rankings.hits((s, a.doc_id) for s in live for g in labels[s].groups for a in g.alternatives)
    for slot, found in hits.items():
        groups, passages = labels[slot].groups, [span for _, _, span in found]
        # A count of hits in the group's documents becomes a rank in the whole ranking.
        ranks = [found[n - 1][0] + 1 for g in groups if (n := g.whole_at(passages)) is not None]
        tokens = [rankings.tokens_until(slot, rank) for rank in ranks] if budgets else []
        for measure, column in columns.items():
            reached = ranks if measure.cutoff == "rank" else tokens
            values[slot, column] = sum(n <= measure.k for n in reached) / len(groups)


_SCORERS: dict[str, _Scorer] = {"document": _by_document, "chunk": _by_chunk, "group": _by_group}


def _trec(
    placed: Mapping[int, list[tuple[int, str]]],
    grades: Mapping[int, Mapping[str, int]],
    columns: Mapping[Measure, int],
    values: Floats,
) -> None:
    """Fill `values` with trec_eval's measures of rankings given as (place from 0, labelled unit), tie-free.

    The unit at rank r of n gets the score n - r. Units without a label are stand-ins that hold their places, and none is needed
    below the last labelled one: no measure looks there.
    """
    import pytrec_eval

    cuts = ",".join(str(k) for k in sorted({m.k for m in columns if m.k}))
    names = {"recip_rank", "map", *(f"{trec}.{cuts}" for trec in _TREC.values() if cuts)}
    run, qrel = {}, {}
    for slot, units in placed.items():
        depth = max(place for place, _ in units) + 1
        # Own names throughout: trec_eval reads ids as C strings, so a user's id must not reach it.
        name_of = {unit: f"u{i}" for i, unit in enumerate(grades[slot])}
        ranked = [f"x{place}" for place in range(depth)]
        for place, unit in units:
            ranked[place] = name_of[unit]
        run[str(slot)] = {unit: float(depth - place) for place, unit in enumerate(ranked)}
        qrel[str(slot)] = {name_of[unit]: grade for unit, grade in grades[slot].items()}
    found = pytrec_eval.RelevanceEvaluator(qrel, names).evaluate(run)
    keys = [(m, column, f"{_TREC.get(m.metric)}_{m.k}") for m, column in columns.items()]
    for name, result in found.items():
        row, first = values[int(name)], result["recip_rank"]
        for measure, column, key in keys:
            if measure.metric == "AP":
                row[column] = result["map"]
            elif measure.metric == "RR":
                row[column] = first if not measure.k or first * measure.k >= 1 - 1e-12 else 0.0
            else:
                row[column] = result[key]


def _table(
    questions: list[dict[str, Any]],
    names: list[str],
    wanted: list[Measure],
    statuses: Mapping[str, list[Status]],
    values: Floats,
    by: str | None,
) -> pa.Table:
    slots, width = values.shape
    pairs = sorted({pair for unit in statuses.values() for pair in unit}, key=str)
    code = {pair: i for i, pair in enumerate(pairs)}
    coded = {unit: np.array([code[p] for p in found], dtype=np.int32) for unit, found in statuses.items()}
    status = np.stack([coded[m.unit] for m in wanted], axis=1).reshape(-1) if slots else np.zeros(0, dtype=np.int32)
    scored = np.array([pair[0] == SCORED for pair in pairs], dtype=np.bool_)[status] if slots else np.zeros(0, dtype=np.bool_)

    def spread(texts: Sequence[str | None], codes: npt.NDArray[np.int32]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(texts, pa.string())).cast(pa.string())

    of_slot = np.repeat(np.arange(slots, dtype=np.int32), width)
    of_measure = np.tile(np.arange(width, dtype=np.int32), slots)
    columns = {
        "question_id": spread([q["question_id"] for q in questions], of_slot // max(1, len(names))),
        "split": spread([q["split"] for q in questions], of_slot // max(1, len(names))),
        "retriever": spread(names, of_slot % max(1, len(names))),
        "metric": spread([m.metric for m in wanted], of_measure),
        "k": pa.array(np.tile(np.array([m.k for m in wanted], dtype=np.int32), slots), pa.int32()),
        "cutoff": spread([m.cutoff for m in wanted], of_measure),
        "unit": spread([m.unit for m in wanted], of_measure),
        "value": pa.array(values.reshape(-1), pa.float64(), mask=~scored),
        "status": spread([pair[0] for pair in pairs], status),
        "reason": spread([pair[1] for pair in pairs], status),
    }
    schema = pa.schema([f for f in SCHEMA if by or f.name != "retriever"])
    return pa.table({f.name: columns[f.name] for f in schema}, schema=schema)


def _codes(table: pa.Table, column: str, names: list[str]) -> Ints:
    """Position of each row's value in `names`; -1 for a value that is not there."""
    code = {name: i for i, name in enumerate(names)}
    indices, texts = _encode(table, column)
    return np.array([*(code.get(t, -1) for t in texts), -1], dtype=np.int64)[indices]


def _encode(table: pa.Table, column: str) -> tuple[Ints, list[str]]:
    encoded = table.column(column).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices, encoded.dictionary.to_pylist()


def _numbers(table: pa.Table, column: str) -> Ints:
    return np.asarray(table.column(column).fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _positions(*sorted_keys: Ints) -> Ints:
    """1, 2, 3, ... within each run of equal keys."""
    if not len(sorted_keys[0]):
        return np.zeros(0, dtype=np.int64)
    change = np.zeros(len(sorted_keys[0]), dtype=np.bool_)
    change[0] = True
    for key in sorted_keys:
        change[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(change)
    return np.arange(len(change)) - np.repeat(starts, np.diff(np.append(starts, len(change)))) + 1
