"""A relevance filter as a boost: what passes is lifted, what does not pass stays in the ranking.

What belongs here: the ranking under a boost, made of the rankings with the filter and without it. What does not: entitlement, which is
hard in both of them, and whether a boost is the better choice (`scoring.filter_decision`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa

from rag_eval_assets.retrieval.fusion import rrf
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK

RRF_K = 60

Hits = dict[str, dict[str, Any]]
"""Rows of a ranking, best first, by the name of what is delivered."""


def boosted(hard: pa.Table, none: pa.Table, boost: float, depth: int) -> pa.Table:
    """Rankings with the filter as a boost, for every (retriever, question) of `none`, in the columns and the order of its rows.

    `hard` and `none` hold rows of retrieval_runs of the same questions, with the filter and without it. A passage's score is
    1 / (60 + rank in none) + boost / (60 + rank in hard): ranks, so that it means the same for scores on any scale. A boost of 0 is no
    filter; a large one puts everything that passes first. Where either side has no ranking the boosted one has none, for its reason.
    """
    sides = [_by_ranking(table) for table in (hard, none)]
    rows: list[dict[str, Any]] = []
    for key in sorted(sides[1]):
        rankings, broken = zip(*(side.get(key, ({}, {"status": MISSING, "reason": "missing_run"})) for side in sides), strict=True)
        failures = [found for found in broken if found is not None]
        blank = dict.fromkeys(none.schema.names) | {"retriever": key[0], "question_id": key[1], "rank": 0}
        if failures:
            first = min(failures, key=lambda found: (FAILED, MISSING, NOT_APPLICABLE).index(found["status"]))
            rows.append(blank | {"status": first["status"], "reason": first["reason"]})
            continue
        fused = rrf([list(ranking) for ranking in rankings], RRF_K, [boost, 1.0])[:depth]
        hits = rankings[0] | rankings[1]
        rows += [hits[name] | {"rank": rank, "score": score} for rank, (name, score) in enumerate(fused, start=1)]
        if not fused:
            rows.append(blank | {"status": OK, "reason": "empty_ranking"})
    return pa.table({f.name: pa.array([row[f.name] for row in rows], _plain(f.type)) for f in none.schema})


def _by_ranking(table: pa.Table) -> dict[tuple[str, str], tuple[Hits, dict[str, Any] | None]]:
    """Hits of each (retriever, question), and the row that says why there is no ranking."""
    found: dict[tuple[str, str], tuple[Hits, dict[str, Any] | None]] = {}
    own: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        own[row["retriever"], row["question_id"]].append(row)
    for key, rows in own.items():
        hits = {
            # A parent may be found at another chunk on either side: what is delivered is one passage.
            f"{row['doc_id']}#{row['start']}-{row['end']}": row
            for row in sorted(rows, key=lambda row: row["rank"])
            if row["rank"] > 0
        }
        found[key] = hits, next((row for row in rows if row["status"] != OK), None)
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
