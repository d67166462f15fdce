"""Rows of `parse_quality`: how well one parser read each document, each document class and each stratum, and which evidence it lost.

What belongs here: which measure a document has, its row, and the figures of a class or stratum. What does not: the measures themselves
(`transcripts`, `structure`, `tables`), where a quotation stands (`evidence`), ceilings and gates (`scoring`).
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingestion import structure
from ingestion.parsers.elements import FURNITURE
from ingestion.rates import bounded_mean, pooled_rate
from ingestion.sources import STRATA
from ingestion.structure import Found
from ingestion.transcripts import Alignment, align_characters, align_words, costliest, normalise, reading_order

Rows = list[dict[str, Any]]

TEXT = ("cer", "wer", "order_tau", "length_ratio")
PARTS = ("headings_recall", "headings_precision", "lists_whole", "captions_kept", "footnotes_kept", "furniture_leak")
TABLES = ("teds", "teds_s", "table_content")
METRICS = ("parsed", *TEXT, *PARTS, *TABLES, "evidence_located")
"""Measures of one document; each has at least one row."""

PAGE_CER = "page_cer"
"""CER of one page, its errors attributed by the alignment of the whole document."""
LOST = "quotation_lost"
"""A quotation that was not located: its value is the similarity of the nearest text, which stands beside it."""

_KEPT = frozenset({"parsed", "headings_recall", "headings_precision", "lists_whole", "captions_kept", "footnotes_kept", "table_content"})
"""Shares of what was kept: value 1 - errors / units."""
_MOST_CASES = 5
_WORST = 3


@dataclass(frozen=True)
class QualityLimits:
    """Bounds on the exact comparisons, whose cost grows with the product of both sides: longest text, largest table."""

    characters: int = 400_000
    table_nodes: int = 500


def parse_quality(
    elements: Mapping[str, Rows],
    references: Rows,
    quotations: list[tuple[str, str]],
    *,
    policy: Mapping[str, str],
    strata: Mapping[str, str] | None = None,
    dpi: int | None = None,
    limits: QualityLimits | None = None,
) -> Rows:
    """Rows for every document of `elements` (doc_id -> its parsed_documents rows) that the parser declares, for every class, and for
    every stratum of STRATA, also those that no document names in `strata` (doc_id -> stratum, over the whole corpus).

    `references` are rows of reference_transcripts, `quotations` (doc_id, text) of golden evidence. Text is compared without running
    heads, page numbers and boilerplate, which a transcript does not hold; a page's reference is compared with that page. An
    empty reference counts as one unit, so that invented text shows. `dpi` is the resolution at which the parser draws pages. Rows are in
    order of (scope, doc_class, stratum, doc_id, metric, item).
    """
    limits = limits or QualityLimits()
    by_document: dict[str, Rows] = defaultdict(list)
    for reference in references:
        by_document[reference["doc_id"]].append(reference)
    quoted: dict[str, list[str]] = defaultdict(list)
    for doc_id, quotation in quotations:
        quoted[doc_id].append(quotation)
    rows: Rows = []
    for doc_id in sorted(elements):
        parsed = sorted(elements[doc_id], key=lambda row: row["order"])
        if not parsed or parsed[0]["status"] == "not_applicable":
            continue
        rows += _document(doc_id, parsed, by_document.get(doc_id, []), quoted.get(doc_id, []), policy, limits)
    for row in rows:
        row["stratum"] = (strata or {}).get(row["doc_id"], "")
    rows += [*class_rows(rows, policy), *stratum_rows(rows, policy, frozenset((strata or {}).values()))]
    ordered = sorted(rows, key=lambda row: tuple(row[name] for name in ("scope", "doc_class", "stratum", "doc_id", "metric", "item")))
    return [row | {"dpi": dpi} for row in ordered]


def policy_text(policy: Mapping[str, str]) -> str:
    """A normalisation policy on one line, as the table holds it."""
    return " ".join(f"{name}={policy[key]}" for name, key in (
        ("case", "case"), ("whitespace", "whitespace"), ("punctuation", "punctuation"), ("unicode", "unicode_form"),
    ))  # fmt: skip


def _blank(scope: str, doc_id: str, doc_class: str, policy: Mapping[str, str]) -> dict[str, Any]:
    return {
        "scope": scope,
        "doc_id": doc_id,
        "doc_class": doc_class,
        "stratum": "",
        "item": 0,
        "value": None,
        "lower": None,
        "upper": None,
        "errors": None,
        "units": None,
        "documents": None,
        "confusions": [],
        "expected": None,
        "found": None,
        "policy": policy_text(policy),
        "dpi": None,
        "status": "scored",
        "reason": None,
        "detail": None,
    }


# ---------------------------------------------------------------------------------------------------------- documents
def _document(doc_id: str, parsed: Rows, references: Rows, quotations: list[str], policy: Mapping[str, str], limits: QualityLimits) -> Rows:
    blank = _blank("document", doc_id, parsed[0]["doc_class"], policy)
    failed = parsed[0]["status"] == "failed"
    kinds: dict[str, Rows] = defaultdict(list)
    for reference in references:
        kinds[reference["kind"]].append(reference)
    rows: Rows
    if failed:
        loss = {"status": "failed", "reason": "parse_failed", "detail": f"{parsed[0]['reason']}: {parsed[0]['detail'] or ''}".rstrip(": ")}
        expected = [(metric, text["item"]) for text in kinds["text"] for metric in TEXT]
        expected += [(metric, table["item"]) for table in kinds["table"] for metric in TABLES]
        expected += [(metric, 0) for metric in PARTS if kinds[_REFERENCE_OF[metric]]]
        expected += [("evidence_located", 0)] if quotations else []
        rows = [blank | loss | {"metric": metric, "item": item} for metric, item in expected]
    else:
        rows = [blank | measure for measure in _measures(parsed, kinds, quotations, policy, limits)]
    rows.append(blank | {"metric": "parsed", "value": float(not failed), "errors": int(failed), "units": 1})
    present = {row["metric"] for row in rows}
    for metric in METRICS:
        if metric not in present:
            reason = "no_labels" if metric == "evidence_located" else "no_reference"
            rows.append(blank | {"metric": metric, "status": "not_applicable", "reason": reason})
    return rows


_REFERENCE_OF = {
    "headings_recall": "heading",
    "headings_precision": "heading",
    "lists_whole": "list",
    "captions_kept": "caption",
    "footnotes_kept": "footnote",
    "furniture_leak": "text",
}
"""Kind of reference that each measure of a part needs."""


def _measures(
    parsed: Rows, kinds: Mapping[str, Rows], quotations: list[str], policy: Mapping[str, str], limits: QualityLimits
) -> Iterable[dict[str, Any]]:
    for text in kinds["text"]:
        content = [row for row in parsed if text["page"] in (None, row["page"])]
        for measure in _text(text["text"], content, policy, limits, pages=text["page"] is None):
            yield {"item": text["item"]} | measure
    whole = "\n".join(text["text"] for text in kinds["text"])
    named = {kind: [part["text"] for part in kinds[kind]] for kind in ("heading", "list", "caption", "footnote")}
    found: dict[str, Found] = {}
    if named["heading"]:
        found["headings_recall"], found["headings_precision"] = structure.headings(named["heading"], parsed)
    if named["list"]:
        found["lists_whole"] = structure.lists(named["list"], parsed)
    for metric, kind in (("captions_kept", "caption"), ("footnotes_kept", "footnote")):
        if named[kind]:
            found[metric] = structure.apart(named[kind], parsed)
    if kinds["text"]:
        found["furniture_leak"] = structure.leaked(whole, parsed)
    for metric, each in found.items():
        yield {"metric": metric} | _share(metric, each)
    if kinds["table"]:
        yield from _tables([row["html"] for row in parsed if row["html"]], kinds["table"], limits)
    if quotations:
        yield from _located(quotations, parsed)


def _share(metric: str, found: Found) -> dict[str, Any]:
    if not found.units:
        return {"status": "not_applicable", "reason": "nothing_to_measure"}
    share = found.missed / found.units
    cases = "; ".join(repr(case[:80]) for case in found.cases[:_MOST_CASES])
    more = f" and {len(found.cases) - _MOST_CASES} more" if len(found.cases) > _MOST_CASES else ""
    return {
        "value": 1 - share if metric in _KEPT else share,
        "errors": found.missed,
        "units": found.units,
        "detail": f"{cases}{more}" if cases else None,
    }


def body(elements: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Elements without what repeats around the text."""
    return [row for row in elements if row["category"] not in FURNITURE and row["text"]]


def compared_text(elements: Sequence[Mapping[str, Any]], policy: Mapping[str, str]) -> tuple[str, list[int]]:
    """The text of body elements under a policy, paragraphs parted by an empty line, and where each element begins in it.

    Each element is normalised alone, which gives the same text as normalising their sum.
    """
    gap = " " if policy["whitespace"] == "collapse" else "\n\n"
    text, starts = "", []
    for row in elements:
        piece = normalise(row["text"], **policy)
        text += gap if text and piece else ""
        starts.append(len(text))
        text += piece
    return text, starts


def _text(reference: str, elements: Sequence[Mapping[str, Any]], policy: Mapping[str, str], limits: QualityLimits, *, pages: bool) -> Rows:
    content = body(elements)
    expected, (found, starts) = normalise(reference, **policy), compared_text(content, policy)
    if max(len(expected), len(found)) > limits.characters:
        detail = f"{max(len(expected), len(found))} characters, over the limit of {limits.characters}"
        return [{"metric": metric, "status": "failed", "reason": "too_large", "detail": detail} for metric in TEXT]
    rows: Rows = []
    aligned = {"cer": align_characters(expected, found), "wer": align_words(expected, found)}
    for metric, alignment in aligned.items():
        note = None if alignment.units else "the reference is empty: counted as one unit"
        listed = costliest([(c.expected, c.found, 1, c.edits) for c in alignment.changes])
        value = alignment.edits / max(alignment.units, 1)
        rows.append(
            {
                "metric": metric, "value": value, "errors": alignment.edits, "units": alignment.units, "confusions": listed, "detail": note,
            }
        )  # fmt: skip
    tau = reading_order(reference, "\n\n".join(row["text"] for row in content))
    if tau is None:
        rows.append({"metric": "order_tau", "status": "not_applicable", "reason": "no_pairs", "detail": "fewer than two sentences match"})
    else:
        rows.append({"metric": "order_tau", "value": tau})
    ratio = len(found) / max(len(expected), 1)
    rows.append({"metric": "length_ratio", "value": ratio, "errors": len(found), "units": len(expected)})
    on = [row["page"] for row in content]
    if pages and len(set(on) - {None}) > 1:
        for page, (errors, units) in errors_by(on, starts, aligned["cer"]).items():
            rows.append({"metric": PAGE_CER, "item": page, "value": errors / max(units, 1), "errors": errors, "units": units})
    return rows


def errors_by(labels: Sequence[Any], starts: Sequence[int], alignment: Alignment) -> dict[Any, tuple[int, int]]:
    """(edits, reference characters) of each label, `labels` and `starts` being those of the elements of the hypothesis.

    A change belongs to the element in which it begins; what was left out, to the one it should have followed. The sums are those of
    the alignment. Labels that are None are joined to the label before them.
    """
    owners: list[Any] = []
    for label in labels:
        owners.append(owners[-1] if label is None and owners else label)
    counts: dict[Any, list[int]] = {label: [0, 0] for label in owners}

    def add(start: int, edits: int, units: int) -> None:
        count = counts[owners[max(bisect_right(starts, start) - 1, 0)]]
        count[0] += edits
        count[1] += units

    for change in alignment.changes:
        add(change.start, change.edits, len(change.expected))
    for start, size in alignment.kept:
        edges = [start, *(s for s in starts[bisect_right(starts, start) : bisect_right(starts, start + size - 1)]), start + size]
        for left, right in itertools.pairwise(edges):
            add(left, 0, right - left)
    return {label: (edits, units) for label, (edits, units) in counts.items()}


@dataclass(frozen=True)
class MarkedPage:
    """A page with the errors in each of its elements: (box in points, edits, reference characters); `rate` is the page's CER."""

    doc_id: str
    page: int
    rate: float
    marks: tuple[tuple[tuple[float, ...], int, int], ...]


def worst_page(elements: Mapping[str, Rows], references: Rows, rows: Rows, policy: Mapping[str, str]) -> MarkedPage | None:
    """The page with the highest CER among `rows` (of parse_quality) whose elements have boxes, with its errors told by element."""
    paged = [row for row in rows if row["metric"] == PAGE_CER or (row["metric"] == "cer" and row["scope"] == "document")]
    for row in sorted(paged, key=lambda row: (-(row["value"] or 0.0), row["doc_id"], row["metric"], row["item"])):
        if not row["errors"]:
            return None
        parsed = sorted(elements[row["doc_id"]], key=lambda element: element["order"])
        wanted = row["item"] if row["metric"] == "cer" else 0
        gold = next((r for r in references if (r["doc_id"], r["kind"], r["item"]) == (row["doc_id"], "text", wanted)), None)
        pages = {element["page"] for element in parsed} - {None}
        page = row["item"] or (min(pages) if len(pages) == 1 else None)
        if gold is None or page is None:
            continue
        content = body([element for element in parsed if gold["page"] in (None, element["page"])])
        found, starts = compared_text(content, policy)
        told = errors_by(list(range(len(content))), starts, align_characters(normalise(gold["text"], **policy), found))
        marks = [
            (tuple(element["box"]), *told[i])
            for i, element in enumerate(content)
            if element["page"] == page and element["box"] and told[i][0]
        ]
        if marks:
            return MarkedPage(row["doc_id"], page, row["value"], tuple(marks))
    return None


def _tables(predicted: list[str], references: Rows, limits: QualityLimits) -> Rows:
    """TEDS and cells of each reference table with the parsed table it is paired with: the pairing of greatest likeness of text."""
    from ingestion.tables import TableTooLarge, teds

    partner = pair_tables([reference["text"] for reference in references], predicted)
    rows: Rows = []
    for reference, other in zip(references, partner, strict=True):
        item = {"item": reference["item"]}
        paired = "no parsed table is left to pair it with" if other is None else f"paired with parsed table {other}"
        for metric in ("teds", "teds_s"):
            row: dict[str, Any] = {"metric": metric, "value": 0.0, "detail": paired}
            if other is not None:
                try:
                    # A parser that tells no head from a body may still have read the table whole.
                    row["value"] = teds(
                        predicted[other],
                        reference["html"],
                        structure_only=metric == "teds_s",
                        sections=False,
                        maximum_nodes=limits.table_nodes,
                    )
                except TableTooLarge as error:
                    row |= {"value": None, "status": "failed", "reason": "too_large", "detail": str(error)}
            rows.append(item | row)
        found = structure.cells(reference["html"], None if other is None else predicted[other])
        rows.append(item | {"metric": "table_content"} | _share("table_content", found))
    return rows


def pair_tables(references: Sequence[str], predicted: Sequence[str]) -> list[int | None]:
    """For each reference table (as text) the position of the parsed table (as HTML) it is paired with, by greatest likeness in all."""
    from rapidfuzz.distance import Indel
    from scipy.optimize import linear_sum_assignment

    from ingestion.parsers.html_tables import table_text

    partner: list[int | None] = [None] * len(references)
    if predicted:
        texts = [table_text(markup) or "" for markup in predicted]
        likeness = [[Indel.normalized_similarity(reference, text) for text in texts] for reference in references]
        for i, j in zip(*linear_sum_assignment(likeness, maximize=True), strict=True):
            partner[int(i)] = int(j)
    return partner


def _located(quotations: Sequence[str], parsed: Sequence[Mapping[str, Any]]) -> Rows:
    """The share of quotations located in the parsed text, and a row for each that is not: it and the nearest text side by side."""
    from ingestion.quotations import closest, locate

    text = "\n\n".join(row["text"] for row in parsed)
    distinct = sorted(set(quotations))
    lost = [quotation for quotation in distinct if locate(quotation, text) is None]
    rows: Rows = [{"metric": "evidence_located", "value": 1 - len(lost) / len(distinct), "errors": len(lost), "units": len(distinct)}]
    for item, quotation in enumerate(lost):
        near = closest(quotation, text)
        found = text[near.start : near.end] if near else None
        rows.append({"metric": LOST, "item": item, "value": near.similarity if near else 0.0, "expected": quotation, "found": found})
    return rows


# -------------------------------------------------------------------------------------------------- classes and strata
def class_rows(rows: Rows, policy: Mapping[str, str]) -> Rows:
    """A row for each (class, measure) over the rows of its documents."""
    return [
        _blank("class", "", doc_class, policy) | {"metric": metric} | _figure(metric, measures)
        for doc_class, measures in _by(rows, "doc_class").items()
        for metric in METRICS
        if metric in measures
    ]


def stratum_rows(rows: Rows, policy: Mapping[str, str], named: Collection[str]) -> Rows:
    """A row for each (stratum, measure) over the rows of its documents. A stratum without any says why: no document of the corpus names it
    (`named` holds those that are), or the parser declares none of their classes."""
    by_stratum = _by(rows, "stratum")
    made: Rows = []
    for stratum in STRATA:
        measures = by_stratum.get(stratum, {})
        absent = {"status": "not_applicable", "reason": "class_not_declared" if stratum in named else "empty_stratum", "documents": 0}
        for metric in METRICS:
            figure = _figure(metric, measures) if metric in measures else absent
            made.append(_blank("stratum", "", "", policy) | {"stratum": stratum, "metric": metric} | figure)
    return made


def _by(rows: Rows, group: str) -> dict[str, dict[str, Rows]]:
    """Rows by a column, sorted, then by measure."""
    found: dict[str, dict[str, Rows]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row[group]][row["metric"]].append(row)
    return dict(sorted(found.items()))


def _figure(metric: str, rows: Mapping[str, Rows]) -> dict[str, Any]:
    """One measure over the documents of a class or stratum: pooled where it is errors over units, else the mean."""
    own = _without_doubles(rows[metric])
    scored = [row for row in own if row["status"] == "scored"]
    lost = sum(row["status"] == "failed" for row in own)
    if not scored:
        worst = next((row for row in own if row["status"] == "failed"), own[0])
        return {key: worst[key] for key in ("status", "reason", "detail")} | {"documents": 0}
    figure: dict[str, Any] = {"documents": len({row["doc_id"] for row in scored})}
    notes = [f"{lost} of {len(own)} failed"] if lost else []
    if metric == "length_ratio":
        errors, units = (sum(row[side] for row in scored) for side in ("errors", "units"))
        figure |= {"value": errors / max(units, 1), "errors": errors, "units": units}
    elif scored[0]["units"] is not None:
        documents = _by_document(scored)
        value, lower, upper = pooled_rate([e for e, _ in documents], [u for _, u in documents])
        if metric in _KEPT or metric == "evidence_located":
            value, lower, upper = 1 - value, 1 - upper, 1 - lower
        errors, units = (sum(row[side] for row in scored) for side in ("errors", "units"))
        figure |= {"value": value, "lower": lower, "upper": upper, "errors": errors, "units": units}
    else:
        values = [row["value"] for row in scored]
        low = -1.0 if metric == "order_tau" else 0.0
        lower, upper = bounded_mean(values, low, 1.0)
        figure |= {"value": math.fsum(values) / len(values), "lower": lower, "upper": upper}
    if metric in ("cer", "wer"):
        told = [(c["expected"], c["found"], c["count"], c["edits"]) for row in scored for c in row["confusions"]]
        figure["confusions"] = costliest(told)
        notes += [_worst([*scored, *(rows.get(PAGE_CER, []) if metric == "cer" else [])]), _losses(rows.get(LOST, []))]
    return figure | {"detail": ". ".join(filter(None, notes)) or None}


def _without_doubles(rows: Rows) -> Rows:
    """Rows of whole documents, and of pages where the document as a whole has no reference: no text counts twice."""
    whole = {row["doc_id"] for row in rows if row["metric"] in TEXT and row["item"] == 0}
    return [row for row in rows if row["metric"] not in TEXT or row["item"] == 0 or row["doc_id"] not in whole]


def _by_document(rows: Rows) -> list[tuple[int, int]]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        sums[row["doc_id"]][0] += row["errors"]
        sums[row["doc_id"]][1] += row["units"]
    return [(errors, units) for errors, units in sums.values()]


def _worst(rows: Rows) -> str:
    """The worst documents and pages by name, where anything is wrong in them; a document told by its pages is not told again."""
    paged = {row["doc_id"] for row in rows if row["metric"] == PAGE_CER}
    wrong = [row for row in rows if row["errors"] and not (row["doc_id"] in paged and row["metric"] != PAGE_CER)]
    wrong.sort(key=lambda row: (-row["value"], row["doc_id"], row["item"]))
    told = []
    for row in wrong[:_WORST]:
        page = f" page {row['item']}" if row["item"] else ""
        told.append(f"{row['doc_id']}{page} {100 * row['value']:.1f}%")
    return f"worst: {', '.join(told)}" if told else ""


def _losses(rows: Rows) -> str:
    if not rows:
        return ""
    told = [f"{row['doc_id']} {row['expected'][:60]!r}" for row in sorted(rows, key=lambda row: (row["doc_id"], row["item"]))]
    return f"{len(rows)} quotations lost: {', '.join(told[:_WORST])}{' and more' if len(told) > _WORST else ''}"
