"""Whether stored rankings hold a document that their question's caller may not read, counted anew from the tables.

What belongs here: the count, made by no mask and no cache of a search. What does not: the predicate (`filters.entitled`), and what a
search does with a hit that is not permitted (`runs` fails the question).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.retrieval.filters import entitled, predicate

RANKINGS = ("retrieval_runs", "unfiltered_runs", "system_retrievals")
"""Tables of rankings, each row of a rank over 0 a hit in a document."""


@dataclass(frozen=True)
class Entitlement:
    """Hits of a table of rankings: those compared, those that their caller may not read with some (question, document) pairs of them,
    and those of a question or document that is not there any more, or of a passage that stands in none."""

    compared: int
    violations: int
    examples: tuple[tuple[str, str], ...]
    unknown: int


def verify_entitlement(
    rankings: pa.Table, questions: Iterable[Mapping[str, Any]], documents: Iterable[Mapping[str, Any]], examples: int = 5
) -> Entitlement:
    """Compare every hit of `rankings` (question_id, rank, doc_id) with the entitlement of its question and the fields of its document.

    `questions` hold question_id and entitlement, `documents` the columns that `entitled` reads; no filter and no label plays a part.
    """
    access = {q["question_id"]: q["entitlement"] for q in questions}
    by_id = {d["doc_id"]: d for d in documents}
    hits = rankings.filter(pc.greater(rankings["rank"], 0)).group_by(["question_id", "doc_id"]).aggregate([([], "count_all")])
    readable: dict[tuple[str, str], bool] = {}
    compared = violations = unknown = 0
    found: list[tuple[str, str]] = []
    for question, doc_id, count in zip(*(hits[name].to_pylist() for name in ("question_id", "doc_id", "count_all")), strict=True):
        if question not in access or doc_id not in by_id:
            unknown += count
            continue
        compared += count
        key = (access[question], doc_id)
        if key not in readable:
            readable[key] = entitled(predicate(key[0]), by_id[doc_id])
        if not readable[key]:
            violations += count
            found.append((question, doc_id))
    return Entitlement(compared, violations, tuple(sorted(found)[:examples]), unknown)
