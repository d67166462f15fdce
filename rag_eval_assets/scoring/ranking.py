"""Ranking scores of every expected question, by document, by chunk and by evidence group, as trec_eval computes them.

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

Gains are linear in the grade and ideal rankings come from the labels, as in trec_eval (NIST) and ir_measures. A table of rankings is
scored at once, on arrays; sums run down each ranking as trec_eval's do, so that the values are its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.scoring.relevance import Labels, Span, read_labels
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK, SCORED, TABLES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Status = tuple[str, str | None]

SCHEMA = TABLES["retrieval_scores"].schema
"""Columns of the result with `by="retriever"`; without it the column `retriever` is left out."""


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
    ignored, and columns of ids may be dictionaries, which saves time. An empty ranking scores 0 with reason empty_ranking; a
    question without rows is missing; a ranking that names a chunk twice or holds a score that is not finite failed. Raises
    ValueError for bad cut-offs, and where a token budget is asked of hits without token counts.
    """
    if by not in (None, "retriever"):
        raise ValueError(f"rankings are told apart by 'retriever' or by nothing, not by {by!r}")
    wanted = measures(ks, token_budgets)
    questions = sorted(questions, key=lambda q: q["question_id"])
    ids = [q["question_id"] for q in questions]
    names = sorted(set(runs.column(by).unique().to_pylist())) if by else [""]
    rankings = _Rankings(runs, ids, names, by)
    of_question = read_labels(questions, evidence)
    labels = [of_question[question_id] for question_id in ids for _ in names]
    values = np.zeros((rankings.slots, len(wanted)))
    statuses: dict[str, list[Status]] = {}
    for unit, score in _SCORERS.items():
        statuses[unit] = [_status(own, unit, run) for own, run in zip(labels, rankings.statuses, strict=True)]
        # Only rankings without a repeated id are live, so each unit is counted once.
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
    lane_names, lane_of = np.unique(np.array(lanes, dtype=object).astype(str), return_inverse=True)
    question_of = np.unique(np.array(ids, dtype=object).astype(str), return_inverse=True)[1]
    ranks = runs.column("rank").to_numpy(zero_copy_only=False)
    reported = np.lexsort((ranks, question_of, lane_of))
    here, there = reported[:-1], reported[1:]
    equal = (lane_of[here] == lane_of[there]) & (question_of[here] == question_of[there]) & (scores[here] == scores[there])
    tied = np.unique(np.stack([lane_of[here[equal]], question_of[here[equal]]], axis=1), axis=0)
    ties = dict(zip(lane_names.tolist(), np.bincount(tied[:, 0], minlength=len(lane_names)).tolist(), strict=True))
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
        {"retriever": lane, "tied": ties[lane], "metric": metric, "k": k, **means[lane, metric, k]} for lane, metric, k in sorted(means)
    ]


class _Keys:
    """Rows that belong to (slot, name), found by binary search: names are codes into `names`, -1 for none."""

    def __init__(self, slot: Ints, code: Ints, names: pa.Array) -> None:
        self.code, self.names = code, names
        self._width = len(names) + 1
        # A row without a name takes a code of its own, which no wanted name has.
        keys = slot * self._width + np.where(code >= 0, code, len(names))
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def first(self) -> npt.NDArray[np.bool_]:
        """Whether each row is the first of its (slot, name); rows without a name are not."""
        found = self.code >= 0
        found[self._order[1:][self._repeats]] = False
        return found

    def repeated(self) -> Ints:
        """Slots that hold a name twice."""
        found: Ints = np.unique(self._sorted[1:][self._repeats & (self._sorted[1:] % self._width < len(self.names))] // self._width)
        return found

    @cached_property
    def _repeats(self) -> npt.NDArray[np.bool_]:
        same: npt.NDArray[np.bool_] = self._sorted[1:] == self._sorted[:-1]
        return same

    def rows(self, wanted: Iterable[tuple[int, str]]) -> tuple[Ints, Ints]:
        """Rows of the wanted (slot, name) pairs, and for each row the number of its pair; pair after pair, rows rising."""
        pairs = list(wanted)
        # The distinct names are looked up alone: most names are in no label, and become no Python string.
        known = {name: at for at, name in enumerate({name for _, name in pairs})}
        places = pc.index_in(pa.array(list(known), self.names.type), self.names).fill_null(-1).to_numpy(zero_copy_only=False)
        code = np.array([places[known[name]] for _, name in pairs], dtype=np.int64)
        keys = np.array([slot for slot, _ in pairs], dtype=np.int64) * self._width + code
        low = np.searchsorted(self._sorted, keys, "left")
        count = np.where(code >= 0, np.searchsorted(self._sorted, keys, "right") - low, 0)
        pair = np.repeat(np.arange(len(pairs)), count)
        return self._order[low[pair] + np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)], pair

    def name(self, row: int) -> str | None:
        return self.names[self.code[row]].as_py() if self.code[row] >= 0 else None


class _Rankings:
    """Rankings as arrays: one slot a (question, ranking), hits in rank order."""

    def __init__(self, runs: pa.Table, ids: list[str], names: list[str], by: str | None) -> None:
        self.slots = len(ids) * len(names)
        question = _codes(runs, "question_id", ids)
        lane = _codes(runs, by, names) if by else np.zeros(runs.num_rows, dtype=np.int64)
        slot = np.where(question >= 0, question * len(names) + lane, -1)
        rank = runs.column("rank").to_numpy().astype(np.int64)
        hit = (slot >= 0) & (rank > 0)

        self.statuses: list[Status] = [(MISSING, "missing_run")] * self.slots
        without = np.flatnonzero((slot >= 0) & (rank <= 0))
        told = runs.select(["status", "reason"]).take(pa.array(without))
        for row, status, reason in zip(without, *(told.column(n).to_pylist() for n in ("status", "reason")), strict=True):
            self.statuses[slot[row]] = (status, reason) if status != OK else (SCORED, "empty_ranking")
        for s in np.flatnonzero(np.bincount(slot[hit], minlength=self.slots)):
            self.statuses[s] = (SCORED, None)

        order = np.flatnonzero(hit)
        # Tables are kept in this order, and to see that costs a hundredth of sorting.
        place = slot[order] * (int(rank.max(initial=0)) + 1) + rank[order]
        if bool((place[1:] < place[:-1]).any()):
            order = order[np.argsort(place, kind="stable")]
        self.slot = slot[order]
        self.bounds = np.searchsorted(self.slot, np.arange(self.slots + 1))
        self.chunks, self.documents = (_Keys(self.slot, *_encode(runs, n, order)) for n in ("chunk_id", "doc_id"))
        self.start, self.end, self.tokens = (_numbers(runs, n)[order] for n in ("start", "end", "tokens"))
        given = runs.column("score").is_valid().to_numpy()[order]
        scores = runs.column("score").to_numpy()[order]
        for s in np.unique(self.slot[given & ~np.isfinite(scores)]):
            self.statuses[s] = (FAILED, "non_finite_score")
        for s in self.chunks.repeated():
            self.statuses[s] = (FAILED, "duplicate_ids")

    def places_of_documents(self, wanted: Iterable[tuple[int, str]]) -> tuple[Ints, Ints, Ints]:
        """The wanted (slot, document) pairs in rankings collapsed to first ranks: number of the pair, its first row, its place from 0."""
        first = self.documents.first()
        rows, pair = self.documents.rows(wanted)
        kept = first[rows]
        before = np.concatenate([[0], np.cumsum(first)])
        return pair[kept], rows[kept], before[rows[kept]] - before[self.bounds[self.slot[rows[kept]]]]

    def hits(
        self, documents: Iterable[tuple[int, str]], chunks: Iterable[tuple[int, str]] = ()
    ) -> dict[int, list[tuple[int, str | None, Span]]]:
        """Hits in the wanted documents or with the wanted chunk ids: (place from 0, chunk id, passage), by slot."""
        rows = np.unique(np.concatenate([self.documents.rows(documents)[0], self.chunks.rows(chunks)[0]]))
        found: dict[int, list[tuple[int, str | None, Span]]] = defaultdict(list)
        for row in rows:
            slot, start, end = int(self.slot[row]), int(self.start[row]), int(self.end[row])
            span = (self.documents.name(row) or "", start if start >= 0 else None, end if end >= 0 else None)
            found[slot].append((int(row - self.bounds[slot]), self.chunks.name(row), span))
        return found

    def tokens_through(self, rows: Ints) -> Ints:
        """Tokens of the leading chunks of each row's ranking, the row's own included. ValueError where a hit's are not known."""
        if bool((self.tokens < 0).any()):
            raise ValueError("a token budget needs the tokens of every hit, and a hit has none")
        spent = np.concatenate([[0], np.cumsum(self.tokens)])
        found: Ints = spent[rows + 1] - spent[self.bounds[self.slot[rows]]]
        return found


def _status(labels: Labels, unit: str, run: Status) -> Status:
    reason = {"document": labels.unlabelled, "chunk": labels.no_chunks, "group": labels.no_groups}[unit]
    return (NOT_APPLICABLE, reason) if reason else run


class _Scorer(Protocol):
    """Fills the columns of one unit in `values` for the slots in `live`."""

    def __call__(
        self, rankings: _Rankings, live: list[int], labels: Sequence[Labels], columns: Mapping[Measure, int], values: Floats
    ) -> None: ...


def _by_document(rankings: _Rankings, live: list[int], labels: Sequence[Labels], columns: Mapping[Measure, int], values: Floats) -> None:
    gold = [(s, doc, grade) for s in live for doc, grade in labels[s].documents.items() if grade > 0]
    pair, rows, places = rankings.places_of_documents((s, doc) for s, doc, _ in gold)
    slot, grades = (np.array([label[at] for label in gold], dtype=np.int64) for at in (0, 2))
    ideal = _Units.ideal(slot, grades)
    found = _Units.placed(slot[pair], places, grades[pair])
    _trec(found, ideal, {m: c for m, c in columns.items() if m.cutoff != "tokens"}, values)
    budgets = {m: column for m, column in columns.items() if m.cutoff == "tokens"}
    if not budgets:
        return
    spent = rankings.tokens_through(rows)
    best = ideal.gain(len(values))
    for measure, column in budgets.items():
        within = spent <= measure.k
        cut = _Units.placed(slot[pair][within], places[within], grades[pair][within])
        _divide(cut.gain(len(values)), best, values[:, column])


def _by_chunk(rankings: _Rankings, live: list[int], labels: Sequence[Labels], columns: Mapping[Measure, int], values: Floats) -> None:
    hits = rankings.hits(
        ((s, a.doc_id) for s in live for g in labels[s].groups for a in g.alternatives),
        ((s, chunk_id) for s in live for chunk_id in labels[s].chunks),
    )
    placed: list[tuple[int, int, int]] = []
    asked: list[tuple[int, int]] = []
    for slot, found in hits.items():
        grades = labels[slot].chunk_grades
        asked += [(slot, grade) for grade in grades.values()]
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
        placed += [(slot, place, grades[name]) for name, place in units.items()]
    _trec(_Units.placed(*_columns(placed, 3)), _Units.ideal(*_columns(asked, 2)), columns, values)


def _by_group(rankings: _Rankings, live: list[int], labels: Sequence[Labels], columns: Mapping[Measure, int], values: Floats) -> None:
    hits = rankings.hits((s, a.doc_id) for s in live for g in labels[s].groups for a in g.alternatives)
    whole: list[tuple[int, int]] = []
    for slot, found in hits.items():
        passages = [span for _, _, span in found]
        # A count of hits in the group's documents becomes a rank in the whole ranking.
        whole += [(slot, found[n - 1][0] + 1) for g in labels[slot].groups if (n := g.whole_at(passages)) is not None]
    slot_of, ranks = _columns(whole, 2)
    budgets = any(m.cutoff == "tokens" for m in columns)
    tokens = rankings.tokens_through(rankings.bounds[slot_of] + ranks - 1) if budgets else ranks
    groups = np.array([len(own.groups) for own in labels], dtype=np.int64)
    for measure, column in columns.items():
        reached = (ranks if measure.cutoff == "rank" else tokens) <= measure.k
        _divide(np.bincount(slot_of[reached], minlength=len(values)), groups, values[:, column])


_SCORERS: dict[str, _Scorer] = {"document": _by_document, "chunk": _by_chunk, "group": _by_group}


class _Units(NamedTuple):
    """Relevant units of many rankings, each ranking's in the order of their places: slot, place from 0, grade."""

    slot: Ints
    place: Ints
    grade: Ints

    @classmethod
    def placed(cls, slot: Ints, place: Ints, grade: Ints) -> _Units:
        """Units as they stand in their rankings."""
        order = np.lexsort((place, slot))
        return cls(slot[order], place[order], grade[order])

    @classmethod
    def ideal(cls, slot: Ints, grade: Ints) -> _Units:
        """The best order of all labelled units: grades falling."""
        order = np.lexsort((-grade, slot))
        return cls(slot[order], _positions(slot[order]) - 1, grade[order])

    def cut(self, k: int) -> _Units:
        kept = self.place < k
        return _Units(self.slot[kept], self.place[kept], self.grade[kept])

    def number(self, slots: int) -> Ints:
        """Units of each ranking."""
        return np.bincount(self.slot, minlength=slots)

    def gain(self, slots: int) -> Floats:
        """Discounted gain of each ranking. bincount adds in order, as trec_eval does: equal rankings have equal sums."""
        discounts = np.array([math.log2(place + 2) for place in range(int(self.place.max(initial=0)) + 1)])
        return np.bincount(self.slot, self.grade / discounts[self.place], minlength=slots).astype(np.float64)


def _trec(found: _Units, gold: _Units, columns: Mapping[Measure, int], values: Floats) -> None:
    """Fill `values` with trec_eval's measures of relevant units as `found`, against all that are labelled; 0 where none is."""
    slots = len(values)
    relevant = gold.number(slots)
    nth = _positions(found.slot)
    top = nth == 1
    for measure, column in columns.items():
        own, k = values[:, column], measure.k
        if measure.metric == "AP":
            _divide(np.bincount(found.slot, nth / (found.place + 1), minlength=slots), relevant, own)
        elif measure.metric == "RR":
            reached = top & (found.place < k) if k else top
            own[found.slot[reached]] = 1 / (found.place[reached] + 1)
        elif measure.metric == "nDCG":
            _divide(found.cut(k).gain(slots), gold.cut(k).gain(slots), own)
        else:
            hits = found.cut(k).number(slots)
            if measure.metric == "R":
                _divide(hits, relevant, own)
            else:
                own[:] = hits / k if measure.metric == "P" else hits > 0


def _divide(above: npt.NDArray[Any], below: npt.NDArray[Any], out: Floats) -> None:
    np.divide(above, below, out=out, where=below > 0)


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> tuple[Ints, ...]:
    return tuple(np.array(rows, dtype=np.int64).reshape(-1, width).T)


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
    indices, texts = _encode(table, column)
    known = pc.index_in(texts, pa.array(names, texts.type)).fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(known, -1).astype(np.int64)[indices]


def _encode(table: pa.Table, column: str, rows: Ints | None = None) -> tuple[Ints, pa.Array]:
    """Codes of a column's values, of `rows` or of all, and the values by code; -1 for null."""
    encoded = table.column(column)
    if pa.types.is_dictionary(encoded.type):
        encoded = encoded.unify_dictionaries()
    encoded = encoded.combine_chunks().dictionary_encode()
    indices = (encoded.indices.fill_null(-1) if encoded.null_count else encoded.indices).to_numpy().astype(np.int64)
    return indices if rows is None else indices[rows], encoded.dictionary


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
