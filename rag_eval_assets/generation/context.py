"""What is delivered to the reader: the first top_k passages, within the token budget, in the order a system asks for.

What belongs here: cutting and ordering a ranking. What does not: the ranking (`rankings`) and reading it (`readers`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rag_eval_assets.tables import FAILED, OK

ORDERINGS = ("best_first", "best_last", "both_ends")


def assemble(retrievals: list[dict[str, Any]], spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of contexts from rows of system_retrievals, one a question.

    Kept are the ranks up to `top_k`; then, from the first passage that would pass `token_budget` on, passages are dropped. `ordering`:
    best first, best last, or both_ends (the best at the two ends, the weakest in the middle). An empty ranking is delivered as an
    empty context, reason empty_context; a failed ranking gives a failed context, a missing or inapplicable one keeps its
    status. `context_sha256` covers names and texts of the passages in order. Raises ValueError for an unknown ordering, and for a
    budget over passages without token counts.
    """
    if spec["ordering"] not in ORDERINGS:
        raise ValueError(f"ordering {spec['ordering']!r} is none of {', '.join(ORDERINGS)}")
    ordered = sorted(retrievals, key=lambda r: (r["question_id"], r["rank"]))
    return [_context(list(rows), spec) for _, rows in groupby(ordered, key=lambda r: r["question_id"])]


def reorder(context: Mapping[str, Any], passages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A row of contexts with its passages in another order; its hash is that of the new order. ValueError for other passages."""
    if sorted(p["position"] for p in passages) != sorted(p["position"] for p in context["passages"]):
        raise ValueError(f"question {context['question_id']!r}: the passages are not those delivered, each once")
    delivered = [_passage(position, passage) for position, passage in enumerate(passages)]
    return {**context, "passages": delivered, "context_sha256": _identity(delivered)}


def _context(rows: list[dict[str, Any]], spec: Mapping[str, Any]) -> dict[str, Any]:
    hits = [r for r in rows if r["rank"] > 0 and r["status"] == OK]
    kept = [r for r in hits if r["rank"] <= spec["top_k"]]
    fitting = _within(kept, spec["token_budget"])
    delivered = [_passage(position, row) for position, row in enumerate(_order(fitting, spec["ordering"]))]
    status, reason = OK, None if delivered else "empty_context"
    if not hits and rows[0]["status"] != OK:
        status, reason = rows[0]["status"], rows[0]["reason"]
        if status == FAILED:
            reason = "upstream_failed"
    return {
        "question_id": rows[0]["question_id"],
        "split": rows[0]["split"],
        "passages": delivered,
        "tokens": None if any(p["tokens"] is None for p in delivered) else sum(p["tokens"] for p in delivered),
        "cut_by_top_k": [r["chunk_id"] for r in hits if r["rank"] > spec["top_k"]],
        "cut_by_budget": [r["chunk_id"] for r in kept[len(fitting) :]],
        "context_truncated": len(fitting) < len(kept),
        "context_sha256": _identity(delivered),
        "status": status,
        "reason": reason,
    }


def _within(rows: list[dict[str, Any]], budget: int | None) -> list[dict[str, Any]]:
    """Leading rows whose tokens fit the budget together."""
    if budget is None:
        return rows
    used = 0
    for count, row in enumerate(rows):
        if row["tokens"] is None:
            raise ValueError(f"question {row['question_id']!r}: {row['chunk_id']!r} has no token count, and a token budget needs one")
        used += row["tokens"]
        if used > budget:
            return rows[:count]
    return rows


def _order(rows: list[dict[str, Any]], ordering: str) -> list[dict[str, Any]]:
    if ordering == "best_last":
        return rows[::-1]
    if ordering == "both_ends":
        return rows[::2] + rows[1::2][::-1]
    return rows


def _passage(position: int, row: Mapping[str, Any]) -> dict[str, Any]:
    return {"position": position, **{name: row[name] for name in ("rank", "chunk_id", "doc_id", "start", "end", "text", "tokens")}}


def _identity(passages: list[dict[str, Any]]) -> str:
    # Names too, not texts alone: an answer's citations carry them, so a passage that moved must be read again.
    named = [[p["chunk_id"], p["doc_id"], p["start"], p["text"]] for p in passages]
    return hashlib.sha256(json.dumps(named, ensure_ascii=False).encode()).hexdigest()
