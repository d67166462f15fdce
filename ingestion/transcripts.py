"""How well a parser read a document, against what a person checked: CER, WER, reading order, tables, evidence still there.

What belongs here: normalisation, error counts, order, and one row a measure for every document. What does not: TEDS itself
(`tables`), where a quotation stands (`evidence`), means over classes and gates (`scoring`).
"""

from __future__ import annotations

import itertools
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingestion.parsers.elements import FURNITURE

METRICS = ("cer", "wer", "order_tau", "length_ratio", "teds", "teds_s", "evidence_located")
"""Measures of one document; each has at least one row."""

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\w+", re.UNICODE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n")


@dataclass(frozen=True)
class QualityLimits:
    """Bounds on the exact comparisons, whose cost grows with the product of both sides: longest text, largest table."""

    characters: int = 400_000
    table_nodes: int = 500


def normalise(text: str, *, case: str, whitespace: str, punctuation: str, unicode_form: str) -> str:
    """Text under a normalisation policy: case keep|lower, whitespace keep|collapse, punctuation keep|remove, unicode_form NFC|NFKC.

    Punctuation is Unicode category P. Collapsed white space is one space, none at the ends. Raises ValueError for another word.
    """
    for name, value, allowed in (
        ("case", case, ("keep", "lower")),
        ("whitespace", whitespace, ("keep", "collapse")),
        ("punctuation", punctuation, ("keep", "remove")),
        ("unicode_form", unicode_form, ("NFC", "NFKC")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be {' or '.join(allowed)}, not {value!r}")
    text = unicodedata.normalize("NFKC" if unicode_form == "NFKC" else "NFC", text)
    if case == "lower":
        text = text.lower()
    if punctuation == "remove":
        text = "".join(character for character in text if not unicodedata.category(character).startswith("P"))
    return _SPACE.sub(" ", text).strip() if whitespace == "collapse" else text


def character_errors(reference: str, hypothesis: str) -> tuple[int, int]:
    """(edits, reference characters): the least insertions, deletions and substitutions of code points. CER is their quotient."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.distance(reference, hypothesis), len(reference)


def word_errors(reference: str, hypothesis: str) -> tuple[int, int]:
    """(edits, reference words), words being what white space parts. WER is their quotient."""
    from rapidfuzz.distance import Levenshtein

    words = reference.split()
    return Levenshtein.distance(words, hypothesis.split()), len(words)


def reading_order(reference: str, hypothesis: str) -> float | None:
    """Kendall's tau between the order of the reference's sentences and the order in which the hypothesis has them, -1 to 1.

    A sentence is matched by its words, and pairs of words, that stand exactly once on both sides; it is placed at the median of
    theirs in the hypothesis. None where fewer than two sentences match.
    """
    blocks = [_words(block) for block in _SENTENCE.split(reference)]
    target = _words(hypothesis)
    both = _singles([word for block in blocks for word in block]) & _singles(target)
    position = {term: i for i, term in _terms(target) if term in both}
    places = []
    for block in blocks:
        found = [position[term] for _, term in _terms(block) if term in position]
        if found:
            places.append(statistics.median(found))
    if len(places) < 2 or len(set(places)) < 2:
        return None
    from scipy.stats import kendalltau

    return float(kendalltau(range(len(places)), places).statistic)


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


def _terms(words: Sequence[str]) -> list[tuple[int, str]]:
    """Words and neighbouring pairs, each with the position of its first word."""
    return [*enumerate(words), *((i, f"{one} {two}") for i, (one, two) in enumerate(itertools.pairwise(words)))]


def _singles(words: Sequence[str]) -> set[str]:
    counts = Counter(term for _, term in _terms(words))
    return {term for term, count in counts.items() if count == 1}


# ---------------------------------------------------------------------------------------------------------- the table
def parse_quality(
    elements: Mapping[str, list[dict[str, Any]]],
    references: list[dict[str, Any]],
    quotations: list[tuple[str, str]],
    *,
    policy: Mapping[str, str],
    limits: QualityLimits | None = None,
) -> list[dict[str, Any]]:
    """Rows of `parse_quality` for every document of `elements` (doc_id -> its parsed_documents rows), not_applicable ones left out.

    `references` are rows of reference_transcripts, `quotations` (doc_id, text) of golden evidence. Text is compared without running
    heads, page numbers and boilerplate, which a transcript does not hold; a page's reference is compared with that page. An
    empty reference counts as one unit, so that invented text shows. Rows are in order of (doc_id, metric, item).
    """
    limits = limits or QualityLimits()
    by_document: dict[str, list[dict[str, Any]]] = {}
    for reference in references:
        by_document.setdefault(reference["doc_id"], []).append(reference)
    quoted: dict[str, list[str]] = {}
    for doc_id, quotation in quotations:
        quoted.setdefault(doc_id, []).append(quotation)
    rows: list[dict[str, Any]] = []
    for doc_id in sorted(elements):
        parsed = sorted(elements[doc_id], key=lambda row: row["order"])
        if not parsed or parsed[0]["status"] == "not_applicable":
            continue
        rows += _document(doc_id, parsed, by_document.get(doc_id, []), quoted.get(doc_id, []), policy, limits)
    return sorted(rows, key=lambda row: (row["doc_id"], row["metric"], row["item"]))


def _document(
    doc_id: str,
    parsed: list[dict[str, Any]],
    references: list[dict[str, Any]],
    quotations: list[str],
    policy: Mapping[str, str],
    limits: QualityLimits,
) -> list[dict[str, Any]]:
    blank = {
        "doc_id": doc_id,
        "doc_class": parsed[0]["doc_class"],
        "item": 0,
        "value": None,
        "errors": None,
        "units": None,
        "policy": policy_text(policy),
        "status": "scored",
        "reason": None,
        "detail": None,
    }
    failed = parsed[0]["status"] == "failed"
    loss = {"status": "failed", "reason": "parse_failed", "detail": f"{parsed[0]['reason']}: {parsed[0]['detail'] or ''}".rstrip(": ")}
    rows: list[dict[str, Any]] = []
    texts = [reference for reference in references if reference["kind"] == "text"]
    for reference in texts:
        if failed:
            rows += [blank | loss | {"metric": metric, "item": reference["item"]} for metric in METRICS[:4]]
        else:
            content = [row for row in parsed if reference["page"] in (None, row["page"])]
            rows += [
                blank | {"item": reference["item"]} | measure for measure in _text(reference["text"], body_text(content), policy, limits)
            ]
    tables = [reference for reference in references if reference["kind"] == "table"]
    if failed:
        rows += [blank | loss | {"metric": metric, "item": table["item"]} for table in tables for metric in ("teds", "teds_s")]
    elif tables:
        rows += [blank | measure for measure in _tables([row["html"] for row in parsed if row["html"]], tables, limits)]
    if quotations:
        rows.append(blank | (loss if failed else _located(quotations, parsed)) | {"metric": "evidence_located"})
    present = {row["metric"] for row in rows}
    for metric in METRICS:
        if metric not in present:
            reason = "no_labels" if metric == "evidence_located" else "no_reference"
            rows.append(blank | {"metric": metric, "status": "not_applicable", "reason": reason})
    return rows


def policy_text(policy: Mapping[str, str]) -> str:
    """A normalisation policy on one line, as the table holds it."""
    return " ".join(f"{name}={policy[key]}" for name, key in (
        ("case", "case"), ("whitespace", "whitespace"), ("punctuation", "punctuation"), ("unicode", "unicode_form"),
    ))  # fmt: skip


def body_text(elements: Sequence[Mapping[str, Any]]) -> str:
    """The text of elements without what repeats around it, paragraphs parted by an empty line."""
    return "\n\n".join(row["text"] for row in elements if row["category"] not in FURNITURE and row["text"])


def _text(reference: str, hypothesis: str, policy: Mapping[str, str], limits: QualityLimits) -> list[dict[str, Any]]:
    sides = [normalise(side, **policy) for side in (reference, hypothesis)]
    if max(len(side) for side in sides) > limits.characters:
        detail = f"{max(len(side) for side in sides)} characters, over the limit of {limits.characters}"
        return [{"metric": metric, "status": "failed", "reason": "too_large", "detail": detail} for metric in METRICS[:4]]
    rows: list[dict[str, Any]] = []
    for metric, count in (("cer", character_errors), ("wer", word_errors)):
        edits, units = count(*sides)
        note = None if units else "the reference is empty: counted as one unit"
        rows.append({"metric": metric, "value": edits / max(units, 1), "errors": edits, "units": units, "detail": note})
    tau = reading_order(reference, hypothesis)
    if tau is None:
        rows.append({"metric": "order_tau", "status": "not_applicable", "reason": "no_pairs", "detail": "fewer than two sentences match"})
    else:
        rows.append({"metric": "order_tau", "value": tau})
    expected, found = len(sides[0]), len(sides[1])
    rows.append({"metric": "length_ratio", "value": found / max(expected, 1), "units": expected, "detail": f"{found} characters"})
    return rows


def _tables(predicted: list[str], references: list[dict[str, Any]], limits: QualityLimits) -> list[dict[str, Any]]:
    """TEDS of each reference table with the parsed table it is paired with: the pairing of greatest likeness of text."""
    from ingestion.tables import TableTooLarge, teds

    partner = _pair([reference["text"] for reference in references], predicted)
    rows: list[dict[str, Any]] = []
    for reference, other in zip(references, partner, strict=True):
        for metric in ("teds", "teds_s"):
            row: dict[str, Any] = {"metric": metric, "item": reference["item"]}
            if other is None:
                row |= {"value": 0.0, "detail": "no parsed table is left to pair it with"}
            else:
                try:
                    value = teds(predicted[other], reference["html"], structure_only=metric == "teds_s", maximum_nodes=limits.table_nodes)
                    row |= {"value": value, "detail": f"paired with parsed table {other}"}
                except TableTooLarge as error:
                    row |= {"status": "failed", "reason": "too_large", "detail": str(error)}
            rows.append(row)
    return rows


def _pair(references: Sequence[str], predicted: Sequence[str]) -> list[int | None]:
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


def _located(quotations: Sequence[str], parsed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    from ingestion.evidence import locate

    text = "\n\n".join(row["text"] for row in parsed)
    distinct = sorted(set(quotations))
    lost = [quotation for quotation in distinct if locate(quotation, text) is None]
    detail = "; ".join(["not located", *(repr(quotation[:120]) for quotation in lost[:5])]) if lost else None
    return {"value": 1 - len(lost) / len(distinct), "errors": len(lost), "units": len(distinct), "detail": detail}
