"""Relevance filters on the page: what they hide, whether they are right, and whether they may be hard.

What belongs here: rows of filter_quality and filter_decision as they are shown. What does not: how they come about (`scoring`).
"""

from __future__ import annotations

from rag_eval_assets.report import formats
from rag_eval_assets.report.pieces import MOST_ROWS, Tables, Values, measure_of, parts_of, reason, rows_of
from rag_eval_assets.tables import SCORED

_MEASURES = {
    "false_exclusion": "false exclusion",
    "predicate_precision": "predicate precision",
    "predicate_recall": "predicate recall",
    "errors_hiding_gold": "predicate errors that hide gold",
}
_LOOKS = {"hard": "good", "soft": "unsure"}


def filters(tables: Tables) -> Values:
    """Rates over all filters, documents hidden most, and the decision of each chunking and retriever; empty where nothing is filtered."""
    quality = [r for r in rows_of(tables, "filter_quality") if r["reason"] != "no_filter"]
    rates = [
        {
            "name": _MEASURES.get(r["measure"], formats.readable(r["measure"])),
            "scope": r["scope"].replace("=", " "),
            "value": formats.measured(r["value"], True) if r["status"] == SCORED else reason(r["reason"]),
            "interval": formats.interval(r["lower"], r["upper"], True) if r["status"] == SCORED else "",
            "counts": f"{formats.fixed(r['numerator'], 0)} of {formats.fixed(r['denominator'], 0)}",
        }
        for r in sorted(quality, key=lambda r: (_MEASURES.get(r["measure"], ""), r["scope"]))
        if r["scope"] == "all" or r["scope"].startswith("split=")
    ]
    hidden = sorted(
        (r for r in quality if r["scope"].startswith("document=")),
        key=lambda r: (-r["numerator"] if formats.is_number(r["numerator"]) else 0, r["scope"]),
    )
    decisions = [
        {
            "chunking": str(chunking),
            "retriever": r["retriever"],
            "measure": measure_of({"metric": r["metric"], "k": r["k"], "cutoff": "rank", "unit": "document"}),
            "boost": formats.plain(r["boost"]),
            "gain": formats.difference(r["gain"], True),
            "gain_interval": formats.difference_interval(r["lower"], r["upper"], True),
            "loss": formats.difference(r["recall_loss"], True),
            "exclusion": formats.measured(r["exclusion"], True),
            "questions": formats.count(r["questions"]),
            "decision": r["decision"],
            "look": _LOOKS.get(r["decision"], "plain"),
            "why": r["detail"] or "",
        }
        for chunking, rows in sorted(parts_of(tables, "filter_decision").items(), key=lambda item: str(item[0]))
        for r in rows
        if r["decision"]
    ]
    return {
        "rates": rates,
        "hidden": [
            {
                "document": r["scope"].removeprefix("document="),
                "times": formats.fixed(r["numerator"], 0),
                "of": formats.fixed(r["denominator"], 0),
            }
            for r in hidden[:MOST_ROWS]
        ],
        "decisions": decisions,
    }
