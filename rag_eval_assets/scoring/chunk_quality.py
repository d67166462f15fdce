"""What one way of chunking does to documents and to the evidence in them, before any retriever is asked.

What belongs here: what chunks cut, keep whole, repeat and can be traced to; how much besides the evidence an ideal retriever would
still have to deliver. What does not: cutting (`ingestion.chunking`) and what a retriever finds (`ranking`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingestion.evidence import covered, merge_spans
from rag_eval_assets.scoring.chunk_labels import labelled_cuts, labelled_paths
from rag_eval_assets.scoring.chunk_rows import Row, rate_of, row_of, share_of
from rag_eval_assets.scoring.chunk_structure import STRUCTURES, Chunks, Document, Span, folded, trimmed
from rag_eval_assets.scoring.intervals import bounded_mean
from rag_eval_assets.tables import OK
from rag_eval_assets.tables.groups import Groups

Places = Mapping[str, Sequence[Span]]
"""Spans by document."""

MEASURES = (
    "ancestry_path", "character_precision", "character_recall", "chunks_needed", "coherence", "cut_agreement", "cuts_sensible",
    "duplicated_text", "embedding_tokens", "evidence_whole", "iou", "lists_cut", "numbered_sections_cut", "parent_document",
    "parent_section", "precision_omega", "repeated_chunks", "sentences_cut", "tables_cut", "tokens_p5", "tokens_p50", "tokens_p95",
    "traceable", "truncated", "vector_bytes",
)  # fmt: skip
"""Every measure, by name."""

COSTS = ("embedding_tokens", "vector_bytes")
"""Measures of what an embedder costs over one chunking, scope embedder=NAME: tokens of its own tokenizer, bytes of float32."""

CONTEXT_COSTS = ("context_tokens", "context_cost")
"""The same of contexts that a language model writes; there for embedders whose every chunk has one, with its tokens and its cost."""


def chunk_quality(
    chunks: pa.Table,
    embeddings: pa.Table | None,
    documents: Iterable[Row],
    evidence: list[Row],
    labels: list[Row] | None = None,
    *,
    unavailable: str | None = None,
) -> list[Row]:
    """Rows of `chunk_quality`, sorted by measure and scope.

    `chunks` and `embeddings` are tables of one chunking, `documents` rows of `unique_documents`, `evidence` rows of
    `golden_evidence`, `labels` rows of `quality_labels`. Lengths are characters of the canonical text, overlap counts once. `documents` are
    read once; held are those that a label names, with their chunks, and the chunks of those that evidence stands in.

    - `precision_omega`, `iou`, `character_precision`, `character_recall`, `chunks_needed`: means over questions with located
      evidence, of every split; of a group's alternatives the one counts that this chunking serves most precisely. All but the
      first are those of the fewest chunks that hold what can be had. `evidence_whole`: located quotations that one chunk holds.
    - `tables_cut`, `lists_cut`, `numbered_sections_cut`: those that no chunk holds whole; `sentences_cut`: chunks that begin or
      end inside a sentence. `cuts_sensible` and `cut_agreement`: labels of kind cut (see `labelled_cuts`).
    - `traceable`: chunks whose document, span, page and section lead back to the source. `parent_document`, `parent_section`,
      `ancestry_path`: the chunks at labels of kind heading_path (see `labelled_paths`).
    - `duplicated_text`, `repeated_chunks`, `tokens_p5` to `tokens_p95`; by embedder `coherence` and `truncated`.

    What is delivered counts, so where chunks have parents, evidence, cuts and duplicated text are measured on these; the rest is
    measured on the chunks that are searched. Shares over a whole corpus have intervals with documents as the independent units, labels
    and quotations are counted one by one (exact binomial), percentiles have those of their order statistics; `chunks_needed`
    knows no upper bound and has none. Where documents could not be cut, `unavailable` is the reason, and every measure has it.
    """
    if unavailable:
        return [row_of(name, None, reason=unavailable) for name in MEASURES]
    columns = ["chunk_id", "doc_id", "ordinal", "start", "end", "text_sha256", "tokens", "section_path", "page"]
    order = [("doc_id", "ascending"), ("ordinal", "ascending")]
    cut = chunks.select([*columns, "parent_start", "parent_end"]).sort_by(order)
    judged: defaultdict[str, list[Row]] = defaultdict(list)
    for label in sorted(labels or (), key=lambda row: row["label_id"]):
        judged[label["kind"]].append(label)
    labelled = {label["doc_id"] for kind in ("cut", "heading_path") for label in judged[kind]}
    own, known, seen = Groups(cut, "doc_id"), {}, _Seen()
    for row in documents:
        document = Document.of(row)
        seen.see(row["doc_id"], own.get(row["doc_id"], ()), document)
        if row["doc_id"] in labelled:
            known[row["doc_id"]] = document
    for doc_id in sorted(own.keys() - seen.documents):
        seen.see(doc_id, own[doc_id], None)
    wanted = {*labelled, *(row["kept_doc_id"] for row in evidence)}
    held = {doc_id: own[doc_id] for doc_id in own if doc_id in wanted}
    index = defaultdict(lambda: Chunks.of(()), {doc_id: Chunks.of({_delivered(row) for row in rows}) for doc_id, rows in held.items()})
    measures = [
        *_of_evidence(index, evidence),
        *seen.measures(),
        *labelled_cuts(index, known, judged["cut"]),
        *labelled_paths([row for rows in held.values() for row in rows], known, judged["heading_path"]),
        _repeated(cut),
        *_token_lengths(cut),
        *_of_vectors(cut, embeddings, seen.sections(own)),
    ]
    return sorted(measures, key=lambda row: (row["measure"], row["scope"]))


def _delivered(row: Row) -> Span:
    """The span of a chunk's parent where it has one, its own otherwise."""
    return (row["start"], row["end"]) if row["parent_start"] is None else (row["parent_start"], row["parent_end"])


# ----------------------------------------------------------------------------------------------------------- evidence
def _of_evidence(index: Mapping[str, Chunks], evidence: list[Row]) -> list[Row]:
    questions: defaultdict[str, defaultdict[str, list[tuple[str, Span]]]] = defaultdict(lambda: defaultdict(list))
    quoted = 0
    for row in sorted(evidence, key=lambda e: (e["question_id"], e["label"], e["group"], e["item"])):
        quoted += row["quotation"] is not None
        if row["kept_doc_id"] is not None and row["start"] is not None:
            place = (row["kept_doc_id"], (row["start"], row["end"]))
            questions[row["question_id"]][row["group"]].append(place)
    if not questions:
        reason = "not_locatable" if quoted else "no_span_labels"
        names = ("precision_omega", "iou", "character_precision", "character_recall", "chunks_needed", "evidence_whole")
        return [row_of(name, None, reason=reason) for name in names]

    values: defaultdict[str, list[float]] = defaultdict(list)
    for groups in questions.values():
        gold: defaultdict[str, list[Span]] = defaultdict(list)
        for alternatives in groups.values():
            doc_id, span = max(alternatives, key=lambda a: _omega(index, {a[0]: [a[1]]})) if len(alternatives) > 1 else alternatives[0]
            gold[doc_id].append(span)
        best = {doc_id: index[doc_id].fewest(spans) for doc_id, spans in gold.items()}
        overlap = overlap_of(best, gold)
        values["precision_omega"].append(_omega(index, gold))
        values["iou"].append(overlap.iou)
        values["character_precision"].append(overlap.precision)
        values["character_recall"].append(overlap.recall)
        values["chunks_needed"].append(float(sum(map(len, best.values()))))

    rows = []
    for name, found in values.items():
        limits = bounded_mean(found) if name != "chunks_needed" else (None, None)
        row = row_of(name, float(np.mean(found)), numerator=float(np.sum(found)), denominator=float(len(found)))
        detail = f"standard deviation {np.std(found):.4f} over questions"
        rows.append(row | {"lower": limits[0], "upper": limits[1], "detail": detail})
    places = [place for groups in questions.values() for alternatives in groups.values() for place in alternatives]
    whole = sum(index[doc_id].holds_whole(span) for doc_id, span in places)
    lost = f"{quoted - len(places)} quotations were lost before chunking" if quoted > len(places) else None
    return [*rows, rate_of("evidence_whole", whole, len(places), reason="no_span_labels", detail=lost)]


def _omega(index: Mapping[str, Chunks], gold: Places) -> float:
    """PrecisionOmega (Smith and Troynikov 2024, "Evaluating chunking strategies for retrieval"): precision at full recall.

    Characters of evidence over those of all chunks that hold any of it, evidence that no chunk holds added below.
    """
    touched = {doc_id: [chunk for span in spans for chunk in index[doc_id].touching(span)] for doc_id, spans in gold.items()}
    return overlap_of(touched, gold).iou


class Overlap(NamedTuple):
    """What delivered spans and evidence share, in characters, each counted once."""

    recall: float
    precision: float
    iou: float


def overlap_of(delivered: Places, gold: Places) -> Overlap:
    """Shared characters over those of the evidence, over those delivered, and over those of both (Smith and Troynikov 2024, who call
    them token-wise). Nothing delivered has precision 0; there must be evidence.
    """
    held = _shared(gold, delivered)
    given, asked = _length(delivered), _length(gold)
    return Overlap(held / asked, held / given if given else 0.0, held / (given + asked - held))


def _length(places: Places) -> int:
    return sum(end - start for spans in places.values() for start, end in merge_spans(spans))


def _shared(gold: Places, chunks: Places) -> int:
    """Characters of `gold` that lie in `chunks`."""
    return sum(covered(span, chunks.get(doc_id, ())) for doc_id, spans in gold.items() for span in merge_spans(spans))


# ---------------------------------------------------------------------------------------------------------- documents
APART, WITHIN, BORDER = 0, 1, 2
"""How a chunk meets the next one of its document: not at all, inside a section, at the border of two."""


class _Seen:
    """What is counted of chunks document by document, so that neither texts nor chunks are held."""

    def __init__(self) -> None:
        self.documents: set[str] = set()
        self._cuts: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in (*STRUCTURES, "sentences_cut")}
        self._written: dict[str, tuple[int, int]] = {}
        self._resolved: dict[str, tuple[int, int]] = {}
        self._failing: Counter[str] = Counter()
        self._strays: dict[str, str] = {}
        self._sections: dict[str, npt.NDArray[np.int8]] = {}

    def see(self, doc_id: str, rows: Sequence[Row], document: Document | None) -> None:
        """Count the chunks of one document in order, which may not be there."""
        self.documents.add(doc_id)
        chunks = Chunks.of({_delivered(row) for row in rows})
        if document is not None:
            self._see_cuts(doc_id, chunks, document)
        if rows:
            total = sum(end - start for start, end in chunks.spans)
            self._written[doc_id] = (total - _length({doc_id: chunks.spans}), total)
            fields = [_unresolved(row, document) for row in rows]
            self._resolved[doc_id] = (fields.count(None), len(fields))
            self._failing.update(field for field in fields if field)
            if stray := next((f"{row['chunk_id']} ({field})" for row, field in zip(rows, fields, strict=True) if field), None):
                self._strays[doc_id] = stray
            self._sections[doc_id] = np.array([*(_meeting(pair, document) for pair in pairwise(rows)), APART], np.int8)

    def _see_cuts(self, doc_id: str, chunks: Chunks, document: Document) -> None:
        found = {name: [not chunks.holds_whole(span) for span in spans] for name, spans in document.structures.items()}
        tight, edges = (trimmed(document.text, span) for span in chunks.spans), document.sentences
        found["sentences_cut"] = [not (edges.starts_at(start) and edges.ends_at(end)) for start, end in tight]
        for name, cuts in found.items():
            if cuts:
                self._cuts[name][doc_id] = (sum(cuts), len(cuts))

    def measures(self) -> list[Row]:
        counts = ", ".join(f"{field} {count}" for field, count in sorted(self._failing.items()))
        first = self._strays[min(self._strays)] if self._strays else None
        return [
            *(share_of(name, found) for name, found in self._cuts.items()),
            share_of("duplicated_text", self._written),
            share_of("traceable", self._resolved, detail=f"not resolved: {counts}; first: {first}" if first else None),
        ]

    def sections(self, order: Iterable[str]) -> npt.NDArray[np.int8]:
        """How each chunk meets the next one, documents in `order`."""
        return np.concatenate([np.empty(0, np.int8), *(self._sections[doc_id] for doc_id in order)])


def _meeting(pair: tuple[Row, Row], document: Document | None) -> int:
    if document is None:
        return APART
    one, other = pair
    return WITHIN if document.section(one["end"] - 1) == document.section(other["start"]) else BORDER


def _unresolved(row: Row, document: Document | None) -> str | None:
    """The first field of a chunk that does not lead back to its source; None where all do."""
    if document is None:
        return "doc_id"
    if not 0 <= row["start"] < row["end"] <= len(document.text) or document.sha256(row["start"], row["end"]) != row["text_sha256"]:
        return "span"
    element = document.first_element(row["start"])
    if document.paged and (row["page"] is None or element is None or row["page"] != element["page"]):
        return "page"
    path = [] if element is None else list(element["heading_path"] or ())
    above = {heading for start, heading in document.headings if start < row["end"]}
    if list(row["section_path"]) != path or any(folded(heading) not in above for heading in path):
        return "section_path"
    return None


# -------------------------------------------------------------------------------------------------------------- sizes
def _repeated(cut: pa.Table) -> Row:
    """The share of chunks whose text another chunk has too."""
    counts = cut["text_sha256"].value_counts()
    often = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    repeated = pa.table({"doc_id": cut["doc_id"], "repeated": pc.is_in(cut["text_sha256"], often).cast(pa.int64())})
    found = repeated.group_by("doc_id").aggregate([("repeated", "sum"), ("repeated", "count")])
    sums = zip(*(found[name].to_pylist() for name in ("doc_id", "repeated_sum", "repeated_count")), strict=True)
    return share_of("repeated_chunks", {doc_id: (true, every) for doc_id, true, every in sums})


def _token_lengths(cut: pa.Table) -> list[Row]:
    """Percentiles of chunk lengths in tokens: lengths that occur, with the distribution-free interval of their order statistics."""
    from scipy.stats import binom

    tokens = np.sort(cut["tokens"].to_numpy())
    found = []
    for percent in (5, 50, 95):
        if not len(tokens):
            found.append(row_of(f"tokens_p{percent}", None, denominator=0.0, reason="nothing_to_measure"))
            continue
        low, high = (int(binom.ppf(tail, len(tokens), percent / 100)) for tail in (0.025, 0.975))
        limits: Row = {"lower": float(tokens[max(low - 1, 0)]), "upper": float(tokens[min(high, len(tokens) - 1)])}
        value = float(np.percentile(tokens, percent, method="inverted_cdf"))
        found.append(row_of(f"tokens_p{percent}", value, denominator=float(len(tokens)), **limits))
    return found


# ------------------------------------------------------------------------------------------------------------ vectors
def _of_vectors(cut: pa.Table, embeddings: pa.Table | None, meetings: npt.NDArray[np.int8]) -> list[Row]:
    """Per embedder: coherence, the share of chunks longer than it sees, the tokens it read, and the bytes of its vectors.

    Coherence is the mean cosine of neighbouring chunks that meet inside a section minus that of neighbours that meet at the
    border of two: above 0 where a section holds together more than sections beside each other do.
    """
    there = None if embeddings is None else embeddings.filter(pc.equal(embeddings["status"], OK))
    if there is None or there.num_rows == 0:
        return [row_of(name, None, reason="no_embedder") for name in ("coherence", "truncated", *COSTS)]
    found = []
    for embedder in sorted(pc.unique(there["embedder"]).to_pylist()):
        mine = there.filter(pc.equal(there["embedder"], embedder))
        scope = f"embedder={embedder}"
        if mine["truncated"].null_count:
            found.append(row_of("truncated", None, scope=scope, reason="tokens_unknown"))
        else:
            found.append(share_of("truncated", _truncated(mine), scope=scope))
        vectors = _matrix(mine["vector"])
        # The sum of those that are known would be no number of this chunking.
        read = None if mine["tokens"].null_count else float(pc.sum(mine["tokens"]).as_py())
        found.append(row_of("embedding_tokens", read, scope=scope, reason="tokens_unknown" if read is None else None))
        found.append(row_of("vector_bytes", float(vectors.nbytes), scope=scope))
        found += [
            row_of(name, float(pc.sum(mine[name]).as_py()), denominator=float(mine.num_rows), scope=scope)
            for name in CONTEXT_COSTS
            if mine[name].null_count == 0
        ]
        at = _rows_of_chunks(cut, mine)
        near = np.flatnonzero((at[:-1] >= 0) & (at[1:] >= 0) & (meetings[:-1] != APART))
        pairs = {kind: np.stack([at[some], at[some + 1]]) for kind in (WITHIN, BORDER) for some in [near[meetings[near] == kind]]}
        if not (pairs[WITHIN].size and pairs[BORDER].size):
            found.append(row_of("coherence", None, scope=scope, reason="nothing_to_measure"))
            continue
        cosines = [_cosines(vectors, *pairs[kind]) for kind in (WITHIN, BORDER)]
        within, across = (float(each.mean()) for each in cosines)
        # Each at 97.5%, so that both hold together at 95%.
        inside, border = (bounded_mean(each, -1.0, 1.0, 0.975) for each in cosines)
        limits: Row = {"lower": inside[0] - border[1], "upper": inside[1] - border[0]}
        detail = f"inside a section {within:.4f} ({len(cosines[0])} pairs), at a border {across:.4f} ({len(cosines[1])} pairs)"
        found.append(row_of("coherence", within - across, scope=scope, detail=detail, **limits))
    return found


def _truncated(mine: pa.Table) -> dict[str, tuple[int, int]]:
    """(truncated, all) by document."""
    owner = pc.replace_substring_regex(mine["chunk_id"], pattern=r"#[^#]*$", replacement="")
    counts = pa.table({"doc_id": owner, "truncated": mine["truncated"].cast(pa.int64())}).group_by("doc_id")
    found = counts.aggregate([("truncated", "sum"), ("truncated", "count")])
    sums = zip(*(found[name].to_pylist() for name in ("doc_id", "truncated_sum", "truncated_count")), strict=True)
    return {doc_id: (true, every) for doc_id, true, every in sums}


def _rows_of_chunks(cut: pa.Table, mine: pa.Table) -> npt.NDArray[np.int64]:
    """For each chunk the row of `mine` with its id and text; -1 where there is none."""
    at = pc.index_in(cut["chunk_id"], mine["chunk_id"].combine_chunks())
    same = pc.equal(mine["text_sha256"].combine_chunks().take(at.combine_chunks()), cut["text_sha256"])
    found: npt.NDArray[np.int64] = pc.if_else(pc.fill_null(same, False), at, -1).cast(pa.int64()).to_numpy()
    return found


def _matrix(column: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    """A list column of equal lengths as (rows, dimension)."""
    lists = column.combine_chunks()
    return np.asarray(lists.flatten(), dtype=np.float32).reshape(len(lists), -1)


def _cosines(vectors: npt.NDArray[np.float32], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Dot products of pairs of unit vectors, in [-1, 1], in blocks so that memory stays small."""
    blocks = (slice(i, i + 4096) for i in range(0, len(left), 4096))
    parts = [np.einsum("ij,ij->i", vectors[left[b]], vectors[right[b]], dtype=np.float64) for b in blocks]
    return np.asarray(np.concatenate(parts).clip(-1.0, 1.0), dtype=np.float64)
