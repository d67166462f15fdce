"""Which documents a caller may read, which a relevance filter lets through, and how much gold a filter excludes.

What belongs here: the two predicates and false exclusion. What does not: search (masks made from these are applied before any
ranking) and the verdict on an exclusion rate (`scoring`). Entitlement is about access and shapes denominators: gold that a
caller may not read was never to be found. A filter is a guess about relevance and shapes none: gold it excludes counts as lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rag_eval_assets.tables import MISSING, NOT_APPLICABLE, OK, SCORED

ENTITLEMENT_FIELDS = ("tenant", "groups", "jurisdiction", "publication_state")
DEFAULT_STATES = ("published",)
FILTER_COLUMNS = (
    "doc_id",
    "doc_class",
    "language",
    "tenant",
    "groups",
    "jurisdiction",
    "publication_state",
    "locale",
    "version",
    "version_of",
    "published",
)
"""Columns of a document that a filter may name; any other name is looked up in the document's `fields`."""

Row = Mapping[str, Any]


class NoEligibleGold(ValueError):
    """Filters are set, but no question has gold that its caller may read: there is nothing to measure exclusion on."""


@dataclass(frozen=True, slots=True)
class ExclusionRate:
    """False exclusion over questions with a filter and eligible gold."""

    questions: int
    eligible: int
    excluded: int

    @property
    def rate(self) -> float:
        """Excluded eligible gold documents / eligible gold documents."""
        return self.excluded / self.eligible


def entitled(entitlement: Mapping[str, Any], document: Row) -> bool:
    """Whether the caller may read the document: all four conditions hold.

    `entitlement` is {tenant, groups, jurisdiction, publication_state}, each a value or a list of values, each optional.

    - tenant: the document has none (it is everyone's), or one that the caller names. A caller who names no tenant reads only
      documents without one; the same holds for jurisdiction.
    - groups: the document lists none (everyone of its tenant), or at least one that the caller names.
    - jurisdiction: the document has none (it holds everywhere), or one that the caller names.
    - publication_state: one that the caller names; a caller who names none reads published documents only.

    Raises ValueError for a field that is none of the four.
    """
    unknown = sorted(set(entitlement) - set(ENTITLEMENT_FIELDS))
    if unknown:
        raise ValueError(f"no entitlement field {unknown[0]!r}; known: {', '.join(ENTITLEMENT_FIELDS)}")
    tenant, jurisdiction = document.get("tenant"), document.get("jurisdiction")
    groups = document.get("groups") or ()
    return (
        (tenant is None or tenant in _values(entitlement.get("tenant")))
        and (not groups or not set(groups).isdisjoint(_values(entitlement.get("groups"))))
        and (jurisdiction is None or jurisdiction in _values(entitlement.get("jurisdiction")))
        and document.get("publication_state", "published") in (_values(entitlement.get("publication_state")) or DEFAULT_STATES)
    )


def passes(filter: Mapping[str, Any] | None, document: Row) -> bool:
    """Whether the document matches the filter {field: value or list of values}: every field holds one of its values.

    A field is one of `FILTER_COLUMNS` or a name in the document's `fields`. A field with several values (groups) matches where
    they share one. A document without the field never matches. No filter and an empty one match everything.
    """
    return all(_field_matches(document, field, _values(wanted)) for field, wanted in (filter or {}).items())


def filter_fields(documents: Iterable[Row]) -> frozenset[str]:
    """Fields that a filter may name: the columns of a document, and whatever its `fields` hold."""
    return frozenset(FILTER_COLUMNS).union(field for document in documents for field in _fields(document.get("fields")))


def check_filters(questions: Iterable[Row], documents: Iterable[Row]) -> None:
    """Raise ValueError naming question and field where an entitlement or filter names a field that no document can have."""
    known = filter_fields(documents)
    for question in questions:
        for field in predicate(question["filter"]):
            if field not in known:
                raise ValueError(
                    f"question {question['question_id']!r}: filter names {field!r}, which no document has; "
                    f"known: {', '.join(sorted(known))}"
                )
        for field in predicate(question["entitlement"]):
            if field not in ENTITLEMENT_FIELDS:
                raise ValueError(
                    f"question {question['question_id']!r}: entitlement names {field!r}; known: {', '.join(ENTITLEMENT_FIELDS)}"
                )


def predicate(text: str | None) -> dict[str, Any]:
    """The predicate written in a question's `entitlement` or `filter` column; empty for null."""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def with_filter(questions: Iterable[Row]) -> list[Row]:
    """Questions that have a relevance filter."""
    return [question for question in questions if predicate(question["filter"])]


def filter_exclusion(questions: Sequence[Row], evidence: Iterable[Row], documents: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows of `filter_exclusion`, one for each question, sorted by its id.

    `evidence` are golden_evidence rows; `documents` are rows of documents or unique_documents, failed ones do not count. Gold is
    every document that carries evidence of a grade over 0 and is eligible (entitled and in the kept corpus); it is taken before
    the filter, so that excluded gold stays in the denominator. Where filters are set but not one question has eligible gold,
    their rows are `missing`: a gate on them fails closed. Raises ValueError that names question and field for a predicate on an
    unknown field.
    """
    check_filters(questions, documents)
    documents = [document for document in documents if document.get("status", OK) == OK]
    by_id = {document["doc_id"]: document for document in documents}
    labels: dict[str, list[Row]] = {}
    for row in evidence:
        if row["grade"] > 0:
            labels.setdefault(row["question_id"], []).append(row)
    survivors: dict[tuple[str, str | None], tuple[int, frozenset[str]]] = {}
    rows = []
    for question in sorted(questions, key=lambda question: question["question_id"]):
        key = (question["entitlement"], question["filter"])
        if key not in survivors:
            access, wanted = predicate(key[0]), predicate(key[1])
            readable = [document for document in documents if entitled(access, document)]
            survivors[key] = len(readable), frozenset(d["doc_id"] for d in readable if passes(wanted, d))
        readable_count, past = survivors[key]
        gold_rows = labels.get(question["question_id"], [])
        gold = {row["kept_doc_id"] for row in gold_rows if row["eligible"] and row["kept_doc_id"] in by_id}
        excluded = sorted(gold - past)
        reason = _why_unmeasured(question, gold_rows, gold)
        rows.append(
            {
                "question_id": question["question_id"],
                "split": question["split"],
                "entitlement": question["entitlement"],
                "filter": question["filter"],
                "entitled_documents": readable_count,
                "filtered_documents": len(past),
                "eligible_gold": len(gold),
                "surviving_gold": len(gold) - len(excluded),
                "excluded_documents": excluded,
                "value": None if reason else len(excluded) / len(gold),
                "status": NOT_APPLICABLE if reason else SCORED,
                "reason": reason,
            }
        )
    filtered = [row for row in rows if row["reason"] != "no_filter"]
    if filtered and not any(row["eligible_gold"] for row in filtered):
        for row in filtered:
            row["status"] = MISSING
    return rows


def exclusion_rate(rows: Iterable[Row]) -> ExclusionRate | None:
    """False exclusion over `filter_exclusion` rows; None where no question has a filter, which is never a rate of 0.

    Raises NoEligibleGold where filters are set but no filtered question has eligible gold.
    """
    rows = list(rows)
    scored = [row for row in rows if row["status"] == SCORED]
    if scored:
        return ExclusionRate(
            len(scored), sum(row["eligible_gold"] for row in scored), sum(len(row["excluded_documents"]) for row in scored)
        )
    filtered = [row["question_id"] for row in rows if row["reason"] != "no_filter"]
    if filtered:
        raise NoEligibleGold(f"{len(filtered)} questions have a filter and none has eligible gold, {filtered[0]!r} among them")
    return None


def _why_unmeasured(question: Row, gold_rows: Sequence[Row], gold: set[str]) -> str | None:
    if not predicate(question["filter"]):
        return "no_filter"
    if gold:
        return None
    if not gold_rows:
        return "no_relevance_labels" if question["answerable"] else "unanswerable"
    return "no_eligible_gold" if any(row["entitled"] for row in gold_rows) else "not_entitled_gold_only"


def _values(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)


def _field_matches(document: Row, field: str, wanted: Sequence[Any]) -> bool:
    found = document.get(field) if field in FILTER_COLUMNS else _fields(document.get("fields")).get(field)
    # Types are compared too: JSON's true is not 1.
    return any(type(have) is type(want) and have == want for have in _values(found) for want in wanted)


@lru_cache(maxsize=65536)
def _fields(text: str | None) -> Mapping[str, Any]:
    return json.loads(text) if text else {}
