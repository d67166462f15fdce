"""The cleaning section of the page: what cleaning kept and lost, and near-duplicates against labelled pairs.

What belongs here: that section alone, under the rules of `sections`. What does not: the figures (rows of cleaning_quality and
dedup_quality as they stand).
"""

from __future__ import annotations

from collections import Counter

from rag_eval_assets.report import corpus_pictures, formats
from rag_eval_assets.report.facts import Row
from rag_eval_assets.report.pieces import QUOTED, Tables, Values, mark, picture, reason, rows_of
from rag_eval_assets.tables import SCORED


def cleaning(tables: Tables) -> Values:
    """Cleaning measures, and near-duplicate detection over its sweep with the setting in force."""
    rows = rows_of(tables, "dedup_quality")
    measures = rows_of(tables, "cleaning_quality")
    whole = [r for r in measures if r["scope"] == "all" or r["scope"].startswith(("parser=", "type="))]
    verdicts = Counter((r["relation"], r["kept"]) for r in rows_of(tables, "near_duplicates") if r["row"] == "document")
    return {
        "measures": [_cleaning_line(r) for r in whole],
        "more_measures": [_cleaning_line(r) for r in measures if r not in whole],
        "sweep": [_dedup_line(r) for r in sorted(rows, key=lambda r: (r["permutations"], r["bands"], r["threshold"]))],
        "verdicts": [(relation, "kept" if kept else "dropped", formats.count(n)) for (relation, kept), n in sorted(verdicts.items())],
        "picture": picture(
            corpus_pictures.dedup_curve(rows), "Near-duplicate detection by threshold",
            "Precision falls when different documents are merged, recall when copies stay. A line joins the points of one setting in order "
            "of the threshold; the ring marks the setting in force.",
        ),
    }  # fmt: skip


def _cleaning_line(row: Row) -> Values:
    share = formats.is_share(row["measure"], row["value"], row["lower"], row["upper"])
    scored = row["status"] == SCORED
    return {
        "measure": row["measure"].replace("_", " "),
        "scope": formats.label(row["scope"], 80),
        "value": formats.measured(row["value"], share) if scored else formats.DASH,
        "interval": formats.interval(row["lower"], row["upper"], share) if scored else "",
        "mark": mark(row["value"], row["lower"], row["upper"]) if share and scored else None,
        "counts": f"{formats.plain(row['numerator'])} of {formats.plain(row['denominator'])}" if row["denominator"] is not None else "",
        "note": formats.readable(row["detail"], QUOTED) if scored else reason(row["reason"]),
    }


def _dedup_line(row: Row) -> Values:
    def cell(name: str) -> str:
        said = formats.percent(row[name])
        limits = formats.interval(row[f"{name}_lower"], row[f"{name}_upper"])
        return f"{said} {limits}" if limits else said

    return {
        "permutations": row["permutations"], "bands": row["bands"], "threshold": f"{row['threshold']:g}",
        "pairs": formats.count(row["labelled_pairs"]), "used": row["used"],
        "cells": [cell(n) for n in ("precision", "recall", "false_merge_rate", "missed_merge_rate")],
        "lost": f"{formats.count(row['lost_quotations'])} of {formats.count(row['merged_quotations'])}" if row["merged_quotations"] else "",
        "note": "" if row["status"] == SCORED else reason(row["reason"]),
    }  # fmt: skip
