"""What one way of chunking does to documents and to the evidence in them, before any retriever is asked.

What belongs here: what chunks cut, keep whole, repeat and can be traced to; how much besides the evidence an ideal retriever would
still have to deliver. What does not: cutting (`ingestion.chunking`) and what a retriever finds (`ranking`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingestion.evidence import covered, merge_spans
from rag_eval_assets.scoring.chunk_labels import labelled_cuts, labelled_paths
from rag_eval_assets.scoring.chunk_rows import Row, rate_of, row_of, share_of, tally
from rag_eval_assets.scoring.chunk_structure import STRUCTURES, Chunks, Document, Span, folded, trimmed
from rag_eval_assets.scoring.intervals import bounded_mean
from rag_eval_assets.tables import OK

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
    documents: list[Row],
    evidence: list[Row],
    labels: list[Row] | None = None,
    *,
    unavailable: str | None = None,
) -> list[Row]:
    """Rows of `chunk_quality`, sorted by measure and scope.

    `chunks` and `embeddings` are tables of one chunking, `documents` rows of `unique_documents`, `evidence` rows of
    `golden_evidence`, `labels` rows of `quality_labels`. Lengths are characters of the canonical text, overlap counts once.

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
    cut = chunks.sort_by([("doc_id", "ascending"), ("ordinal", "ascending")])
    rows = cut.select([*columns, "parent_start", "parent_end"]).to_pylist()
    spans: defaultdict[str, set[Span]] = defaultdict(set)
    for row in rows:
        spans[row["doc_id"]].add(_delivered(row))
    index = defaultdict(lambda: Chunks.of(()), {doc_id: Chunks.of(found) for doc_id, found in spans.items()})
    known = {row["doc_id"]: Document.of(row) for row in documents}
    judged: defaultdict[str, list[Row]] = defaultdict(list)
    for label in sorted(labels or (), key=lambda row: row["label_id"]):
        judged[label["kind"]].append(label)
    measures = [
        *_of_evidence(index, evidence),
        *_cuts(index, known),
        *labelled_cuts(index, known, judged["cut"]),
        _traceable(rows, known),
        *labelled_paths(rows, known, judged["heading_path"]),
        *_duplicates(rows, index),
        *_token_lengths(rows),
        *_of_vectors(rows, embeddings, known),
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


# --------------------------------------------------------------------------------------------------------------- cuts
def _cuts(index: Mapping[str, Chunks], documents: Mapping[str, Document]) -> list[Row]:
    found: dict[str, list[tuple[str, bool]]] = {name: [] for name in (*STRUCTURES, "sentences_cut")}
    for doc_id, document in documents.items():
        chunks = index[doc_id]
        for measure, spans in document.structures.items():
            found[measure] += [(doc_id, not chunks.holds_whole(span)) for span in spans]
        tight = (trimmed(document.text, span) for span in chunks.spans)
        edges = document.sentences
        found["sentences_cut"] += [(doc_id, not (edges.starts_at(start) and edges.ends_at(end))) for start, end in tight]
    return [share_of(name, tally(cuts)) for name, cuts in found.items()]


# ------------------------------------------------------------------------------------------------------- traceability
def _traceable(rows: list[Row], documents: Mapping[str, Document]) -> Row:
    failing: Counter[str] = Counter()
    resolved: list[tuple[str, bool]] = []
    first: str | None = None
    for row in rows:
        field = _unresolved(row, documents.get(row["doc_id"]))
        if field is not None:
            failing[field] += 1
            first = first or f"{row['chunk_id']} ({field})"
        resolved.append((row["doc_id"], field is None))
    counts = ", ".join(f"{field} {count}" for field, count in sorted(failing.items()))
    detail = f"not resolved: {counts}; first: {first}" if failing else None
    return share_of("traceable", tally(resolved), detail=detail)


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
def _duplicates(rows: list[Row], index: Mapping[str, Chunks]) -> list[Row]:
    written = {doc_id: sum(end - start for start, end in chunks.spans) for doc_id, chunks in index.items() if chunks.spans}
    counts = {doc_id: (total - _length({doc_id: index[doc_id].spans}), total) for doc_id, total in written.items()}
    often = Counter(row["text_sha256"] for row in rows)
    repeated = tally((row["doc_id"], often[row["text_sha256"]] > 1) for row in rows)
    return [share_of("duplicated_text", counts), share_of("repeated_chunks", repeated)]


def _token_lengths(rows: list[Row]) -> list[Row]:
    """Percentiles of chunk lengths in tokens: lengths that occur, with the distribution-free interval of their order statistics."""
    from scipy.stats import binom

    tokens = np.sort([row["tokens"] for row in rows])
    found = []
    for percent in (5, 50, 95):
        if not rows:
            found.append(row_of(f"tokens_p{percent}", None, denominator=0.0, reason="nothing_to_measure"))
            continue
        low, high = (int(binom.ppf(tail, len(rows), percent / 100)) for tail in (0.025, 0.975))
        limits: Row = {"lower": float(tokens[max(low - 1, 0)]), "upper": float(tokens[min(high, len(rows) - 1)])}
        value = float(np.percentile(tokens, percent, method="inverted_cdf"))
        found.append(row_of(f"tokens_p{percent}", value, denominator=float(len(rows)), **limits))
    return found


# ------------------------------------------------------------------------------------------------------------ vectors
def _of_vectors(rows: list[Row], embeddings: pa.Table | None, documents: Mapping[str, Document]) -> list[Row]:
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
            owners = (chunk_id.rpartition("#")[0] for chunk_id in mine["chunk_id"].to_pylist())
            found.append(share_of("truncated", tally(zip(owners, mine["truncated"].to_pylist(), strict=True)), scope=scope))
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
        keys = zip(mine["chunk_id"].to_pylist(), mine["text_sha256"].to_pylist(), strict=True)
        position = {key: i for i, key in enumerate(keys)}
        pairs: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        for one, other in pairwise(rows):
            left = position.get((one["chunk_id"], one["text_sha256"]))
            right = position.get((other["chunk_id"], other["text_sha256"]))
            document = documents.get(one["doc_id"])
            if document is None or one["doc_id"] != other["doc_id"] or left is None or right is None:
                continue
            pairs[document.section(one["end"] - 1) == document.section(other["start"])].append((left, right))
        if not (pairs[True] and pairs[False]):
            found.append(row_of("coherence", None, scope=scope, reason="nothing_to_measure"))
            continue
        cosines = {same: _cosines(vectors, pairs[same]) for same in (True, False)}
        within, across = (float(cosines[same].mean()) for same in (True, False))
        # Each at 97.5%, so that both hold together at 95%.
        inside, border = (bounded_mean(cosines[same], -1.0, 1.0, 0.975) for same in (True, False))
        limits: Row = {"lower": inside[0] - border[1], "upper": inside[1] - border[0]}
        detail = f"inside a section {within:.4f} ({len(pairs[True])} pairs), at a border {across:.4f} ({len(pairs[False])} pairs)"
        found.append(row_of("coherence", within - across, scope=scope, detail=detail, **limits))
    return found


def _matrix(column: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    """A list column of equal lengths as (rows, dimension)."""
    lists = column.combine_chunks()
    return np.asarray(lists.flatten(), dtype=np.float32).reshape(len(lists), -1)


def _cosines(vectors: npt.NDArray[np.float32], pairs: list[tuple[int, int]]) -> npt.NDArray[np.float64]:
    """Dot products of pairs of unit vectors, in [-1, 1], in blocks so that memory stays small."""
    left, right = np.array(pairs).T
    blocks = (slice(i, i + 4096) for i in range(0, len(pairs), 4096))
    parts = [np.einsum("ij,ij->i", vectors[left[b]], vectors[right[b]], dtype=np.float64) for b in blocks]
    return np.asarray(np.concatenate(parts).clip(-1.0, 1.0), dtype=np.float64)
