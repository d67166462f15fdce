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
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingestion.evidence import covered, merge_spans
from ingestion.quotations import locate
from ingestion.rates import clopper_pearson, pooled_rate
from ingestion.sentences import sentence_starts
from rag_eval_assets.scoring.intervals import bounded_mean
from rag_eval_assets.tables import NOT_APPLICABLE, OK, SCORED

Row = dict[str, Any]
Span = tuple[int, int]
Places = Mapping[str, Sequence[Span]]
"""Spans by document."""

MEASURES = (
    "ancestry_path", "character_precision", "character_recall", "chunks_needed", "coherence", "cut_agreement", "cuts_sensible",
    "duplicated_text", "embedding_tokens", "evidence_whole", "iou", "lists_cut", "numbered_sections_cut", "parent_document",
    "parent_section", "precision_omega", "repeated_chunks", "sentences_cut", "tables_cut", "tokens_p5", "tokens_p50", "tokens_p95",
    "traceable", "truncated", "vector_bytes",
)  # fmt: skip
"""Every measure, by name."""

PATH_STEP = " > "
"""Parts one heading of a labelled path from the next."""

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

    def end_at(self, position: int, text: str) -> bool:
        """Whether a chunk ends at `position`, white space apart, and the text goes on."""
        following = text[position:]
        gap = len(following) - len(following.lstrip())
        return gap < len(following) and any(position <= end <= position + gap for _, end in self.spans)

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

    @cached_property
    def sentences(self) -> _SentenceEdges:
        return _SentenceEdges(self)

    @cached_property
    def structures(self) -> dict[str, list[Span]]:
        return _structures(self)

    def may_end(self, position: int) -> bool:
        """Whether a chunk may end here and the next begin without cutting a table, list, numbered section or sentence."""
        inside = any(start < position < end for spans in self.structures.values() for start, end in spans)
        return not inside and self.sentences.ends_at(position)

    def path_of(self, row: Row) -> list[str]:
        """Headings over a chunk: those its row carries, with the headings it begins with."""
        leading = [e for e in self.elements if e["end"] > row["start"] and e["start"] < row["end"]]
        text = next((e for e in leading if e["category"] != "Title"), None)
        if text is None or not leading or leading[0] is text:
            return list(row["section_path"]) if text is not None else self.section(row["end"] - 1)
        return list(text["heading_path"] or ())

    def first_element(self, start: int) -> Mapping[str, Any] | None:
        """The element at `start`, or the next one; the last where none follows."""
        return self.elements[min(bisect_right(self.ends, start), len(self.elements) - 1)] if self.elements else None


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
      end inside a sentence. `cuts_sensible` and `cut_agreement`: labels of kind cut (see `_labelled_cuts`).
    - `traceable`: chunks whose document, span, page and section lead back to the source. `parent_document`, `parent_section`,
      `ancestry_path`: the chunks at labels of kind heading_path (see `_labelled_paths`).
    - `duplicated_text`, `repeated_chunks`, `tokens_p5` to `tokens_p95`; by embedder `coherence` and `truncated`.

    What is delivered counts, so where chunks have parents, evidence, cuts and duplicated text are measured on these; the rest is
    measured on the chunks that are searched. Shares over a whole corpus have intervals with documents as the independent units, labels
    and quotations are counted one by one (exact binomial), percentiles have those of their order statistics; `chunks_needed`
    knows no upper bound and has none. Where documents could not be cut, `unavailable` is the reason, and every measure has it.
    """
    if unavailable:
        return [_row(name, None, reason=unavailable) for name in MEASURES]
    columns = ["chunk_id", "doc_id", "ordinal", "start", "end", "text_sha256", "tokens", "section_path", "page"]
    cut = chunks.sort_by([("doc_id", "ascending"), ("ordinal", "ascending")])
    rows = cut.select([*columns, "parent_start", "parent_end"]).to_pylist()
    spans: defaultdict[str, set[Span]] = defaultdict(set)
    for row in rows:
        spans[row["doc_id"]].add(_delivered(row))
    index = defaultdict(lambda: _Chunks.of(()), {doc_id: _Chunks.of(found) for doc_id, found in spans.items()})
    known = {row["doc_id"]: _Document.of(row) for row in documents}
    judged: defaultdict[str, list[Row]] = defaultdict(list)
    for label in sorted(labels or (), key=lambda row: row["label_id"]):
        judged[label["kind"]].append(label)
    measures = [
        *_of_evidence(index, evidence),
        *_cuts(index, known),
        *_labelled_cuts(index, known, judged["cut"]),
        _traceable(rows, known),
        *_labelled_paths(rows, known, judged["heading_path"]),
        *_duplicates(rows, index),
        *_token_lengths(rows),
        *_of_vectors(rows, embeddings, known),
    ]
    return sorted(measures, key=lambda row: (row["measure"], row["scope"]))


def _delivered(row: Row) -> Span:
    """The span of a chunk's parent where it has one, its own otherwise."""
    return (row["start"], row["end"]) if row["parent_start"] is None else (row["parent_start"], row["parent_end"])


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


def _rate(measure: str, numerator: int, denominator: int, *, reason: str, **more: Any) -> Row:
    """A share of things that are independent of each other, with its exact interval; not_applicable with `reason` where there are none."""
    row = _counted(measure, numerator, denominator, reason, more)
    if denominator:
        row["lower"], row["upper"] = clopper_pearson(numerator, denominator)
    return row


def _share(measure: str, counts: Mapping[str, tuple[int, int]], *, reason: str = "nothing_to_measure", **more: Any) -> Row:
    """A share of things that come together in documents, from (counted, of how many) by document, with its interval over these."""
    numerator, denominator = (sum(pair[part] for pair in counts.values()) for part in (0, 1))
    row = _counted(measure, numerator, denominator, reason, more)
    if denominator:
        pairs = [counts[doc_id] for doc_id in sorted(counts)]
        _, row["lower"], row["upper"] = pooled_rate([true for true, _ in pairs], [every for _, every in pairs])
    return row


def _counted(measure: str, numerator: int, denominator: int, reason: str, more: Mapping[str, Any]) -> Row:
    counts: Row = {"numerator": float(numerator), "denominator": float(denominator)}
    if not denominator:
        return _row(measure, None, reason=reason, **counts, **more)
    return _row(measure, numerator / denominator, **counts, **more)


def _tally(outcomes: Iterable[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """(true, all) by document."""
    found: dict[str, tuple[int, int]] = {}
    for doc_id, outcome in outcomes:
        true, every = found.get(doc_id, (0, 0))
        found[doc_id] = (true + outcome, every + 1)
    return found


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
        names = ("precision_omega", "iou", "character_precision", "character_recall", "chunks_needed", "evidence_whole")
        return [_row(name, None, reason=reason) for name in names]

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
        row = _row(name, float(np.mean(found)), numerator=float(np.sum(found)), denominator=float(len(found)))
        detail = f"standard deviation {np.std(found):.4f} over questions"
        rows.append(row | {"lower": limits[0], "upper": limits[1], "detail": detail})
    places = [place for groups in questions.values() for alternatives in groups.values() for place in alternatives]
    whole = sum(index[doc_id].holds_whole(span) for doc_id, span in places)
    lost = f"{quoted - len(places)} quotations were lost before chunking" if quoted > len(places) else None
    return [*rows, _rate("evidence_whole", whole, len(places), reason="no_span_labels", detail=lost)]


def _omega(index: Mapping[str, _Chunks], gold: Places) -> float:
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
def _cuts(index: Mapping[str, _Chunks], documents: Mapping[str, _Document]) -> list[Row]:
    found: dict[str, list[tuple[str, bool]]] = {name: [] for name in (*_STRUCTURES, "sentences_cut")}
    for doc_id, document in documents.items():
        chunks = index[doc_id]
        for measure, spans in document.structures.items():
            found[measure] += [(doc_id, not chunks.holds_whole(span)) for span in spans]
        trimmed = (_trimmed(document.text, span) for span in chunks.spans)
        edges = document.sentences
        found["sentences_cut"] += [(doc_id, not (edges.starts_at(start) and edges.ends_at(end))) for start, end in trimmed]
    return [_share(name, _tally(cuts)) for name, cuts in found.items()]


def _labelled_cuts(index: Mapping[str, _Chunks], documents: Mapping[str, _Document], labels: Sequence[Row]) -> list[Row]:
    """Places right after a quotation, of which people said whether a chunk may sensibly end there.

    `cuts_sensible`: of the labelled places where this chunking ends a chunk, those called sensible. `cut_agreement`: of all labelled
    places, those where the structural check, by which a cut is good that cuts no table, list, numbered section or sentence, says
    the same. A label whose quotation is not in a document is left out and counted.
    """
    sensible: list[bool] = []
    table: Counter[tuple[bool, bool]] = Counter()
    unwise: list[str] = []
    lost = 0
    for label in labels:
        document = documents.get(label["doc_id"])
        place = locate(label["quotation"], document.text) if document else None
        if document is None or place is None:
            lost += 1
            continue
        said = label["value"] == "yes"
        table[said, document.may_end(place.end)] += 1
        if index[label["doc_id"]].end_at(place.end, document.text):
            sensible.append(said)
            unwise += [] if said else [f"{label['doc_id']}: {' '.join(label['quotation'].split())[-40:]}"]
    reason = "no_labels" if not labels else "not_locatable" if lost == len(labels) else "nothing_to_measure"
    missing = f"{lost} labels could not be located" if lost else None
    listed = "not sensible: " + "; ".join(unwise[:10]) if unwise else None
    split = ", ".join(f"{_SAYS[said]} / {_SAYS[check]} {table[said, check]}" for said in (True, False) for check in (True, False))
    return [
        _rate("cuts_sensible", sum(sensible), len(sensible), reason=reason, detail=_joined(listed, missing)),
        _rate(
            "cut_agreement",
            table[True, True] + table[False, False],
            table.total(),
            reason=reason,
            detail=_joined(f"people / check: {split}" if table else None, missing),
        ),
    ]


def _joined(*parts: str | None) -> str | None:
    return ". ".join(part for part in parts if part) or None


_SAYS = {True: "sensible", False: "not sensible"}
_STRUCTURES = ("tables_cut", "lists_cut", "numbered_sections_cut")


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
            rows = (match.end() for match in _ROW_END.finditer(self._text, first, last))
            inner = rows if category == "Table" else sentence_starts(self._text, first, last)
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
    return _share("traceable", _tally(resolved), detail=detail)


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


def _labelled_paths(rows: list[Row], documents: Mapping[str, _Document], labels: Sequence[Row]) -> list[Row]:
    """Chunks that hold the beginning of a labelled passage, whose parents equal the labelled ones.

    `parent_document`: labelled passages that stand in a chunk of their document at all. Of the chunks there, `parent_section`: the
    innermost heading, and `ancestry_path`: all headings equal. A chunk's headings are those it carries and those it begins with.
    """
    of_document: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of_document[row["doc_id"]].append(row)
    there, chunks, section, path = 0, 0, 0, 0
    wrong: list[str] = []
    for label in labels:
        document = documents.get(label["doc_id"])
        place = locate(label["quotation"], document.text) if document else None
        if document is None or place is None:
            continue
        holding = [row for row in of_document[label["doc_id"]] if row["start"] <= place.start < row["end"]]
        there += bool(holding)
        wanted = [_folded(heading) for heading in label["value"].split(PATH_STEP)]
        for row in holding:
            found = [_folded(heading) for heading in document.path_of(row)]
            chunks += 1
            section += found[-1:] == wanted[-1:]
            path += found == wanted
            wrong += [] if found == wanted else [row["chunk_id"]]
    detail = f"differ: {', '.join(wrong[:10])}" if wrong else None
    reason = "nothing_to_measure" if labels else "no_labels"
    return [
        _rate("parent_document", there, len(labels), reason=reason),
        _rate("parent_section", section, chunks, reason=reason),
        _rate("ancestry_path", path, chunks, reason=reason, detail=detail),
    ]


def _folded(heading: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", heading).split()).casefold()


# -------------------------------------------------------------------------------------------------------------- sizes
def _duplicates(rows: list[Row], index: Mapping[str, _Chunks]) -> list[Row]:
    written = {doc_id: sum(end - start for start, end in chunks.spans) for doc_id, chunks in index.items() if chunks.spans}
    counts = {doc_id: (total - _length({doc_id: index[doc_id].spans}), total) for doc_id, total in written.items()}
    often = Counter(row["text_sha256"] for row in rows)
    repeated = _tally((row["doc_id"], often[row["text_sha256"]] > 1) for row in rows)
    return [_share("duplicated_text", counts), _share("repeated_chunks", repeated)]


def _token_lengths(rows: list[Row]) -> list[Row]:
    """Percentiles of chunk lengths in tokens: lengths that occur, with the distribution-free interval of their order statistics."""
    from scipy.stats import binom

    tokens = np.sort([row["tokens"] for row in rows])
    found = []
    for percent in (5, 50, 95):
        if not rows:
            found.append(_row(f"tokens_p{percent}", None, denominator=0.0, reason="nothing_to_measure"))
            continue
        low, high = (int(binom.ppf(tail, len(rows), percent / 100)) for tail in (0.025, 0.975))
        limits: Row = {"lower": float(tokens[max(low - 1, 0)]), "upper": float(tokens[min(high, len(rows) - 1)])}
        value = float(np.percentile(tokens, percent, method="inverted_cdf"))
        found.append(_row(f"tokens_p{percent}", value, denominator=float(len(rows)), **limits))
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
        owners = (chunk_id.rpartition("#")[0] for chunk_id in mine["chunk_id"].to_pylist())
        found.append(_share("truncated", _tally(zip(owners, map(bool, mine["truncated"].to_pylist()), strict=True)), scope=scope))
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
        cosines = {same: _cosines(vectors, pairs[same]) for same in (True, False)}
        within, across = (float(cosines[same].mean()) for same in (True, False))
        # Each at 97.5%, so that both hold together at 95%.
        inside, border = (bounded_mean(cosines[same], -1.0, 1.0, 0.975) for same in (True, False))
        limits: Row = {"lower": inside[0] - border[1], "upper": inside[1] - border[0]}
        detail = f"inside a section {within:.4f} ({len(pairs[True])} pairs), at a border {across:.4f} ({len(pairs[False])} pairs)"
        found.append(_row("coherence", within - across, scope=scope, detail=detail, **limits))
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
