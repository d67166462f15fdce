"""What one way of chunking does to documents and to the evidence in them, before any retriever is asked.

What belongs here: what chunks cut, keep whole, repeat and can be traced to; how much besides the evidence an ideal retriever would
still have to deliver. What does not: cutting (`ingestion.chunking`) and what a retriever finds (`ranking`).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingestion.evidence import covered, merge_spans
from ingestion.rates import clopper_pearson
from rag_eval_assets.scoring.intervals import bounded_mean
from rag_eval_assets.tables import NOT_APPLICABLE, OK, SCORED

Row = dict[str, Any]
Span = tuple[int, int]
Places = Mapping[str, Sequence[Span]]
"""Spans by document."""

_SENTENCE_END = re.compile(r"[.!?\u2026]['\"\u2019\u201d\u00bb)\]]*+(?=\s)|[\u3002\uff01\uff1f]|\n(?=[^\S\n]*\n)")
_ROW_END = re.compile(r"\n")
_NUMBERED_HEADING = re.compile(r"(?:\u00a7\s*)?\d+(?:\.\d+)*[.)]?\s+\S")
_NUMBERED_CLAUSE = re.compile(r"\d+(?:\.\d+)+[.)]?\s+\S")


COSTS = ("embedding_tokens", "vector_bytes")
"""Measures of what an embedder costs over one chunking, scope embedder=NAME: tokens of its own tokenizer, bytes of float32."""


@dataclass(frozen=True)
class _Chunks:
    """The chunks of one document: [start, end), ascending, and for each start the furthest end reached so far."""

    spans: list[Span]
    starts: list[int]
    reach: list[int]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> _Chunks:
        ordered = sorted(spans)
        return cls(ordered, [s for s, _ in ordered], np.maximum.accumulate([e for _, e in ordered]).tolist() if ordered else [])

    def touching(self, span: Span) -> list[Span]:
        """Chunks that hold any character of `span`."""
        first = bisect_right(self.reach, span[0])
        last = bisect_right(self.starts, span[1] - 1)
        return [chunk for chunk in self.spans[first:last] if chunk[1] > span[0]]

    def holds_whole(self, span: Span) -> bool:
        """Whether one chunk holds all of `span`."""
        position = bisect_right(self.starts, span[0]) - 1
        return position >= 0 and self.reach[position] >= span[1]

    def fewest(self, spans: Iterable[Span]) -> list[Span]:
        """The smallest set of chunks that holds every character of `spans` that any chunk holds."""
        chosen: list[Span] = []
        for start, end in merge_spans(spans):
            position = max(start, chosen[-1][1]) if chosen else start
            while position < end:
                near = self.touching((position, end))
                if not near:
                    break
                position = max(position, near[0][0])
                chosen.append(max((chunk for chunk in near if chunk[0] <= position), key=lambda chunk: chunk[1]))
                position = chosen[-1][1]
        return chosen


@dataclass(frozen=True)
class _Document:
    text: str
    elements: list[Mapping[str, Any]]
    ends: list[int]
    headings: list[tuple[int, str]]
    paged: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Document:
        elements = sorted(row["elements"] or (), key=lambda e: (e["start"], e["end"], e["order"]))
        text = row["text"]
        headings = [(e["start"], _folded(text[e["start"] : e["end"]])) for e in elements if e["category"] == "Title"]
        return cls(text, elements, [e["end"] for e in elements], headings, any(e["page"] is not None for e in elements))

    def section(self, position: int) -> list[str]:
        """Headings over the element at `position`, itself among them where it is one."""
        element = self.first_element(position)
        if element is None:
            return []
        own = [self.text[element["start"] : element["end"]]] if element["category"] == "Title" else []
        return [*(element["heading_path"] or ()), *own]

    def sha256(self, start: int, end: int) -> str:
        return hashlib.sha256(self.text[start:end].encode("utf-8", "surrogatepass")).hexdigest()

    def first_element(self, start: int) -> Mapping[str, Any] | None:
        """The element at `start`, or the next one; the last where none follows."""
        return self.elements[min(bisect_right(self.ends, start), len(self.elements) - 1)] if self.elements else None


def chunk_quality(chunks: pa.Table, embeddings: pa.Table | None, documents: list[Row], evidence: list[Row]) -> list[Row]:
    """Rows of `chunk_quality`, sorted by measure and scope.

    `chunks` and `embeddings` are tables of one chunking, `documents` rows of `unique_documents`, `evidence` rows of
    `golden_evidence`. Lengths are characters of the canonical text, overlap counts once. Measures of evidence
    (`precision_omega`, `iou`, `character_recall`, `chunks_needed`) are means over questions with located evidence, of every split;
    of a group's alternatives the one counts that this chunking serves most precisely. Without located evidence they are
    not_applicable. Cuts and traceability count every table, list, numbered section and chunk there is, so they carry no
    interval.
    """
    columns = ["chunk_id", "doc_id", "ordinal", "start", "end", "text_sha256", "tokens", "section_path", "page"]
    cut = chunks.sort_by([("doc_id", "ascending"), ("ordinal", "ascending")])
    rows = cut.select(columns).to_pylist()
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    for row in rows:
        spans[row["doc_id"]].append((row["start"], row["end"]))
    index = defaultdict(lambda: _Chunks.of(()), {doc_id: _Chunks.of(found) for doc_id, found in spans.items()})
    known = {row["doc_id"]: _Document.of(row) for row in documents}
    measures = [
        *_of_evidence(index, evidence),
        *_cuts(index, known),
        _traceable(rows, known),
        *_sizes(rows, index),
        *_of_vectors(rows, embeddings, known),
    ]
    return sorted(measures, key=lambda row: (row["measure"], row["scope"]))


def _row(measure: str, value: float | None, *, scope: str = "all", reason: str | None = None, **more: Any) -> Row:
    blank = dict.fromkeys(("numerator", "denominator", "lower", "upper"))
    status = SCORED if value is not None else NOT_APPLICABLE
    return {
        "measure": measure,
        "scope": scope,
        "value": value,
        **blank,
        "status": status,
        "reason": reason,
        "detail": None,
        **more,
    }


def _share(measure: str, numerator: int, denominator: int, *, reason: str, interval: bool = False, **more: Any) -> Row:
    """A share of counted things; not_applicable with `reason` where there are none."""
    if not denominator:
        return _row(measure, None, numerator=0.0, denominator=0.0, reason=reason, **more)
    row = _row(measure, numerator / denominator, numerator=float(numerator), denominator=float(denominator), **more)
    if interval:
        row["lower"], row["upper"] = clopper_pearson(numerator, denominator)
    return row


# ----------------------------------------------------------------------------------------------------------- evidence
def _of_evidence(index: Mapping[str, _Chunks], evidence: list[Row]) -> list[Row]:
    questions: defaultdict[str, defaultdict[str, list[tuple[str, Span]]]] = defaultdict(lambda: defaultdict(list))
    quoted = 0
    for row in sorted(evidence, key=lambda e: (e["question_id"], e["label"], e["group"], e["item"])):
        quoted += row["quotation"] is not None
        if row["kept_doc_id"] is not None and row["start"] is not None:
            place = (row["kept_doc_id"], (row["start"], row["end"]))
            questions[row["question_id"]][row["group"]].append(place)
    if not questions:
        reason = "not_locatable" if quoted else "no_span_labels"
        names = ("precision_omega", "iou", "character_recall", "chunks_needed", "evidence_whole")
        return [_row(name, None, reason=reason) for name in names]

    values: dict[str, list[float]] = {"precision_omega": [], "iou": [], "character_recall": [], "chunks_needed": []}
    for groups in questions.values():
        gold: defaultdict[str, list[Span]] = defaultdict(list)
        for alternatives in groups.values():
            doc_id, span = max(alternatives, key=lambda a: _omega(index, {a[0]: [a[1]]})) if len(alternatives) > 1 else alternatives[0]
            gold[doc_id].append(span)
        best = {doc_id: index[doc_id].fewest(spans) for doc_id, spans in gold.items()}
        held = _shared(gold, best)
        asked = _length(gold)
        values["precision_omega"].append(_omega(index, gold))
        values["iou"].append(held / (_length(best) + asked - held))
        values["character_recall"].append(held / asked)
        values["chunks_needed"].append(float(sum(map(len, best.values()))))

    rows = []
    for name, found in values.items():
        limits = bounded_mean(found) if name != "chunks_needed" else (None, None)
        row = _row(name, float(np.mean(found)), numerator=float(np.sum(found)), denominator=float(len(found)))
        detail = f"standard deviation {np.std(found):.4f} over questions"
        rows.append(row | {"lower": limits[0], "upper": limits[1], "detail": detail})
    places = [place for groups in questions.values() for alternatives in groups.values() for place in alternatives]
    whole = sum(index[doc_id].holds_whole(span) for doc_id, span in places)
    lost = f"{quoted - len(places)} quotations were lost before chunking" if quoted > len(places) else None
    return [*rows, _share("evidence_whole", whole, len(places), interval=True, reason="no_span_labels", detail=lost)]


def _omega(index: Mapping[str, _Chunks], gold: Places) -> float:
    """PrecisionOmega (Smith and Troynikov 2024, "Evaluating chunking strategies for retrieval"): precision at full recall.

    Characters of evidence over those of all chunks that hold any of it, evidence that no chunk holds added below.
    """
    touched = {doc_id: [chunk for span in spans for chunk in index[doc_id].touching(span)] for doc_id, spans in gold.items()}
    held = _shared(gold, touched)
    return held / (_length(touched) + _length(gold) - held)


def _length(places: Places) -> int:
    return sum(end - start for spans in places.values() for start, end in merge_spans(spans))


def _shared(gold: Places, chunks: Places) -> int:
    """Characters of `gold` that lie in `chunks`."""
    return sum(covered(span, chunks[doc_id]) for doc_id, spans in gold.items() for span in merge_spans(spans))


# --------------------------------------------------------------------------------------------------------------- cuts
def _cuts(index: Mapping[str, _Chunks], documents: Mapping[str, _Document]) -> list[Row]:
    found: dict[str, list[bool]] = {"tables_cut": [], "lists_cut": [], "numbered_sections_cut": [], "sentences_cut": []}
    for doc_id, document in documents.items():
        chunks = index[doc_id]
        for measure, spans in _structures(document).items():
            found[measure] += [not chunks.holds_whole(span) for span in spans]
        edges = _SentenceEdges(document)
        trimmed = (_trimmed(document.text, span) for span in chunks.spans)
        found["sentences_cut"] += [not (edges.starts_at(start) and edges.ends_at(end)) for start, end in trimmed]
    return [_share(name, sum(cuts), len(cuts), reason="nothing_to_measure") for name, cuts in found.items()]


def _structures(document: _Document) -> dict[str, list[Span]]:
    """Spans that a chunk should hold whole: tables, runs of list items, numbered sections (a heading with its own text, a clause)."""
    tables: list[Span] = []
    lists: list[Span] = []
    numbered: list[Span] = []
    section: int | None = None
    before = None
    for element in document.elements:
        start, end = span = _trimmed(document.text, (element["start"], element["end"]))
        category, text = element["category"], document.text[start:end]
        if category == "Table":
            tables.append(span)
        if category == "ListItem":
            lists.append((lists.pop()[0] if before == "ListItem" else start, end))
        if category == "Title":
            section = len(numbered) if _NUMBERED_HEADING.match(text) else None
            if section is not None:
                numbered.append(span)
        elif section is not None:
            numbered[section] = (numbered[section][0], end)
        elif category != "ListItem" and _NUMBERED_CLAUSE.match(text):
            numbered.append(span)
        before = category
    return {"tables_cut": tables, "lists_cut": lists, "numbered_sections_cut": numbered}


class _SentenceEdges:
    """Where a chunk may start and end without cutting a sentence: at sentences, elements, and the rows of tables.

    Only the elements in which a chunk starts or ends are looked into.
    """

    def __init__(self, document: _Document) -> None:
        self._text = document.text
        self._areas = [(e["start"], e["end"], e["category"]) for e in document.elements] or [(0, len(document.text), "Text")]
        self._firsts = [area[0] for area in self._areas]
        self._longest = max(end - start for start, end, _ in self._areas)
        self._known: dict[int, tuple[set[int], set[int]]] = {}

    def starts_at(self, position: int) -> bool:
        return any(position in self._edges(at)[0] for at in self._around(position))

    def ends_at(self, position: int) -> bool:
        return any(position in self._edges(at)[1] for at in self._around(position))

    def _around(self, position: int) -> Iterator[int]:
        """Areas that hold a position or touch it."""
        at = bisect_right(self._firsts, position)
        while at > 0 and self._firsts[at - 1] >= position - self._longest:
            at -= 1
            if position <= self._areas[at][1]:
                yield at

    def _edges(self, at: int) -> tuple[set[int], set[int]]:
        if at not in self._known:
            first, last, category = self._areas[at]
            pattern = _ROW_END if category == "Table" else _SENTENCE_END
            inner = (match.end() for match in pattern.finditer(self._text, first, last))
            spans = [_trimmed(self._text, span) for span in pairwise([first, *inner, last])]
            self._known[at] = {start for start, _ in spans}, {end for _, end in spans}
        return self._known[at]


def _trimmed(text: str, span: Span) -> Span:
    piece = text[span[0] : span[1]]
    start = span[0] + len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


# ------------------------------------------------------------------------------------------------------- traceability
def _traceable(rows: list[Row], documents: Mapping[str, _Document]) -> Row:
    failing: Counter[str] = Counter()
    first: str | None = None
    for row in rows:
        field = _unresolved(row, documents.get(row["doc_id"]))
        if field is not None:
            failing[field] += 1
            first = first or f"{row['chunk_id']} ({field})"
    counts = ", ".join(f"{field} {count}" for field, count in sorted(failing.items()))
    detail = f"not resolved: {counts}; first: {first}" if failing else None
    return _share("traceable", len(rows) - failing.total(), len(rows), reason="nothing_to_measure", detail=detail)


def _unresolved(row: Row, document: _Document | None) -> str | None:
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
    if list(row["section_path"]) != path or any(_folded(heading) not in above for heading in path):
        return "section_path"
    return None


def _folded(heading: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", heading).split()).casefold()


# -------------------------------------------------------------------------------------------------------------- sizes
def _sizes(rows: list[Row], index: Mapping[str, _Chunks]) -> list[Row]:
    tokens = np.array([row["tokens"] for row in rows])
    written = sum(row["end"] - row["start"] for row in rows)
    distinct = sum(_length({doc_id: chunks.spans}) for doc_id, chunks in index.items())
    texts = Counter(row["text_sha256"] for row in rows)
    repeated = sum(count for count in texts.values() if count > 1)
    found = [
        _share("duplicated_text", written - distinct, written, reason="nothing_to_measure"),
        _share("repeated_chunks", repeated, len(rows), reason="nothing_to_measure"),
    ]
    for percent in (5, 50, 95):
        value = float(np.percentile(tokens, percent, method="inverted_cdf")) if rows else None
        reason = None if rows else "nothing_to_measure"
        found.append(_row(f"tokens_p{percent}", value, denominator=float(len(rows)), reason=reason))
    return found


# ------------------------------------------------------------------------------------------------------------ vectors
def _of_vectors(rows: list[Row], embeddings: pa.Table | None, documents: Mapping[str, _Document]) -> list[Row]:
    """Per embedder: coherence, the share of chunks longer than it sees, the tokens it read, and the bytes of its vectors.

    Coherence is the mean cosine of neighbouring chunks that meet inside a section minus that of neighbours that meet at the
    border of two: above 0 where a section holds together more than sections beside each other do.
    """
    there = None if embeddings is None else embeddings.filter(pc.equal(embeddings["status"], OK))
    if there is None or there.num_rows == 0:
        return [_row(name, None, reason="no_embedder") for name in ("coherence", "truncated", *COSTS)]
    found = []
    for embedder in sorted(pc.unique(there["embedder"]).to_pylist()):
        mine = there.filter(pc.equal(there["embedder"], embedder))
        scope = f"embedder={embedder}"
        cut_short = pc.sum(pc.cast(mine["truncated"], pa.int64())).as_py() or 0
        found.append(_share("truncated", cut_short, mine.num_rows, scope=scope, reason="nothing_to_measure"))
        vectors = _matrix(mine["vector"])
        read = pc.sum(mine["tokens"]).as_py() or 0
        found += [_row(name, float(cost), scope=scope) for name, cost in zip(COSTS, (read, vectors.nbytes), strict=True)]
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
            found.append(_row("coherence", None, scope=scope, reason="nothing_to_measure"))
            continue
        within, across = (_mean_cosine(vectors, pairs[same]) for same in (True, False))
        detail = f"inside a section {within:.4f} ({len(pairs[True])} pairs), at a border {across:.4f} ({len(pairs[False])} pairs)"
        found.append(_row("coherence", within - across, scope=scope, detail=detail))
    return found


def _matrix(column: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    """A list column of equal lengths as (rows, dimension)."""
    lists = column.combine_chunks()
    return np.asarray(lists.flatten(), dtype=np.float32).reshape(len(lists), -1)


def _mean_cosine(vectors: npt.NDArray[np.float32], pairs: list[tuple[int, int]]) -> float:
    """Mean dot product of unit vectors, in blocks so that memory stays small."""
    left, right = np.array(pairs).T
    blocks = (slice(i, i + 4096) for i in range(0, len(pairs), 4096))
    total = sum(float(np.einsum("ij,ij->", vectors[left[b]], vectors[right[b]], dtype=np.float64)) for b in blocks)
    return total / len(pairs)
