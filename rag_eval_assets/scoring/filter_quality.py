"""How good relevance filters are: what gold they hide, and whether they pass what people say they should.

What belongs here: rates over `filter_exclusion` rows and over labels of kind predicate. What does not: the predicate itself
(`retrieval.filters`), and whether a filter should be hard (`filter_decision`). Entitlement is not looked at: it is no guess.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ingestion.labels import LabelError
from rag_eval_assets.scoring.intervals import clopper_pearson
from rag_eval_assets.tables import MISSING, NOT_APPLICABLE, OK, SCORED, SPLITS

Row = Mapping[str, Any]
Passes = Callable[[Mapping[str, Any], Row], bool]

ALL = "all"


def filter_quality(
    exclusion: Sequence[Row], labels: Iterable[Row], evidence: Iterable[Row], documents: Iterable[Row], *, passes: Passes
) -> list[dict[str, Any]]:
    """Rows of filter_quality from filter_exclusion, quality_labels, golden_evidence and documents; `passes` is the predicate.

    - false_exclusion: eligible gold documents that filters hide / all of them; scopes all, split=, field= (a field that the filter
      names) and document= (questions whose filter hides this document / those it is eligible gold of; only where one hides it).
    - predicate_precision: labelled documents that pass and should / that pass; predicate_recall: that pass and should / that should.
    - errors_hiding_gold: labelled documents on which the filter errs and hides eligible gold / on which it errs.

    Labels are (question, document) pairs; pairs on which people disagree are left out and counted in `detail`. Raises LabelError for a
    label on a question that is not there or has no filter. Without a filter anywhere every row is not_applicable.
    """
    filtered = {row["question_id"]: json.loads(row["filter"]) for row in exclusion if row["reason"] != "no_filter"}
    gold: dict[str, set[str]] = defaultdict(set)
    for item in evidence:
        if item["eligible"] and item["grade"] > 0 and item["kept_doc_id"] is not None:
            gold[item["question_id"]].add(item["kept_doc_id"])
    rows = _exclusion(exclusion, filtered, gold)
    by_id = {document["doc_id"]: document for document in documents if document.get("status", OK) == OK}
    said, split = _labels(labels, {row["question_id"] for row in exclusion}, filtered)
    rows += _predicate(said, split, filtered, gold, by_id, passes)
    return sorted(rows, key=lambda row: (row["measure"], row["scope"]))


def _exclusion(exclusion: Sequence[Row], filtered: Mapping[str, Row], gold: Mapping[str, set[str]]) -> list[dict[str, Any]]:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    times: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in exclusion:
        if row["status"] != SCORED:
            continue
        for scope in (ALL, f"split={row['split']}", *(f"field={name}" for name in filtered[row["question_id"]])):
            counts[scope][0] += len(row["excluded_documents"])
            counts[scope][1] += row["eligible_gold"]
        for doc_id in gold[row["question_id"]]:
            times[doc_id][0] += doc_id in row["excluded_documents"]
            times[doc_id][1] += 1
    scopes = [ALL, *(f"split={split}" for split in SPLITS if any(row["split"] == split for row in exclusion))]
    why = ("no_filter", NOT_APPLICABLE) if not filtered else ("no_eligible_gold", MISSING)
    rows = [_rate("false_exclusion", scope, counts[scope], why) for scope in dict.fromkeys([*scopes, *counts])]
    return rows + [_rate("false_exclusion", f"document={doc_id}", found, why) for doc_id, found in times.items() if found[0]]


def _labels(
    labels: Iterable[Row], known: set[str], filtered: Mapping[str, Row]
) -> tuple[dict[tuple[str, str], bool], set[tuple[str, str]]]:
    """What people say of each (question, document), and the pairs on which they disagree."""
    said: dict[tuple[str, str], set[bool]] = defaultdict(set)
    for label in labels:
        if label["kind"] != "predicate":
            continue
        question = label["question_id"]
        if question not in filtered:
            fault = "has no filter" if question in known else "is not in the golden set"
            raise LabelError(f"labels/{label['file']}:{label['line']}: question {question!r} {fault}; mend the id or remove the label")
        said[question, label["doc_id"]].add(label["value"] == "yes")
    return {pair: next(iter(found)) for pair, found in said.items() if len(found) == 1}, {p for p, found in said.items() if len(found) > 1}


def _predicate(
    said: Mapping[tuple[str, str], bool],
    disputed: set[tuple[str, str]],
    filtered: Mapping[str, Mapping[str, Any]],
    gold: Mapping[str, set[str]],
    documents: Mapping[str, Row],
    passes: Passes,
) -> list[dict[str, Any]]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(("right", "passed", "wanted", "errors", "hidden"), 0))
    for (question, doc_id), wanted in said.items():
        if doc_id not in documents:
            continue  # a document that gave no text is hidden from everyone, whatever the filter says
        found = passes(filtered[question], documents[doc_id])
        for scope in (ALL, *(f"field={name}" for name in filtered[question])):
            own = counts[scope]
            own["right"] += found and wanted
            own["passed"] += found
            own["wanted"] += wanted
            own["errors"] += found != wanted
            own["hidden"] += wanted and not found and doc_id in gold[question]
    why = ("no_labels", NOT_APPLICABLE) if filtered else ("no_filter", NOT_APPLICABLE)
    rows = []
    for scope, own in (counts or {ALL: dict.fromkeys(("right", "passed", "wanted", "errors", "hidden"), 0)}).items():
        nothing = ("nothing_to_measure", NOT_APPLICABLE) if scope in counts else why
        rows.append(_rate("predicate_precision", scope, (own["right"], own["passed"]), nothing))
        rows.append(_rate("predicate_recall", scope, (own["right"], own["wanted"]), nothing))
        rows.append(_rate("errors_hiding_gold", scope, (own["hidden"], own["errors"]), nothing))
    if disputed:
        for row in rows:
            row["detail"] = f"{len(disputed)} labelled pairs are left out: people disagree on them"
    return rows


def _rate(measure: str, scope: str, part: Sequence[int], why: tuple[str, str]) -> dict[str, Any]:
    count, of = part
    lower, upper = clopper_pearson(count, of) if of else (None, None)
    reason, status = why
    return {
        "measure": measure, "scope": scope, "value": count / of if of else None, "numerator": float(count), "denominator": float(of),
        "lower": lower, "upper": upper, "status": SCORED if of else status, "reason": None if of else reason, "detail": None,
    }  # fmt: skip
