"""Slices that no one writes into a question: they follow from its labels, its caller, the documents and what was found.

What belongs here: a question's values in each derived slice. What does not: slices that the golden set names, and the means over them
(`summary`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.tables import DERIVED_SLICES, SCORED

Row = Mapping[str, Any]

NONE = "none"
_RANKS = ((1, "1"), (3, "2-3"), (5, "4-5"), (10, "6-10"))
_MANY = 4


def derived(questions: Iterable[Row], scores: pa.Table, evidence: Iterable[Row], documents: Iterable[Row]) -> list[dict[str, Any]]:
    """The questions with a list of values for each of `DERIVED_SLICES`; a slice that the golden set itself names is left as it is.

    `scores` are rows of system_scores, `evidence` of golden_evidence, `documents` hold doc_id and doc_class. Only evidence of a
    grade over 0 in a kept document that the caller may read counts.
    """
    best = _best_ranks(scores)
    by_id = {document["doc_id"]: document for document in documents}
    gold: dict[str, list[Row]] = defaultdict(list)
    for item in evidence:
        if item["eligible"] and item["grade"] > 0 and item["kept_doc_id"] in by_id:
            gold[item["question_id"]].append(item)
    found = []
    for question in questions:
        own, named = gold[question["question_id"]], json.loads(question.get("slices") or "{}")
        relevant = {item["kept_doc_id"] for item in own}
        access = json.loads(question["entitlement"] or "{}").get("tenant") or []
        values: dict[str, list[str]] = {
            "doc_class": sorted({by_id[doc_id]["doc_class"] for doc_id in relevant}),
            "tenant": sorted(map(str, access if isinstance(access, list) else [access])) or [NONE],
            "relevant_documents": [str(len(relevant)) if len(relevant) < _MANY else f"{_MANY} or more"] if relevant else [],
            "relevant_position": [_rank(best[question["question_id"]])] if question["question_id"] in best else [],
            "evidence_position": sorted({_third(item) for item in own if item["start"] is not None}),
        }
        found.append({**question, **{name: values[name] for name in DERIVED_SLICES if name not in named}})
    return found


def _best_ranks(scores: pa.Table) -> dict[str, int | None]:
    """Best rank of a relevant document of each question whose ranking was scored; None where the ranking holds none."""
    wanted = pc.and_(pc.equal(scores["metric"], "RR"), pc.and_(pc.equal(scores["unit"], "document"), pc.equal(scores["k"], 0)))
    rows = scores.filter(pc.and_(wanted, pc.equal(scores["status"], SCORED)))
    pairs = zip(rows["question_id"].to_pylist(), rows["value"].to_pylist(), strict=True)
    return {question: round(1 / value) if value else None for question, value in pairs}


def _rank(rank: int | None) -> str:
    if rank is None:
        return NONE
    return next((name for most, name in _RANKS if rank <= most), "over 10")


def _third(item: Row) -> str:
    """Where the middle of the quotation lies in its document."""
    middle = (item["start"] + item["end"]) / 2
    return ("beginning", "middle", "end")[min(2, int(3 * middle / max(1, item["document_characters"])))]
