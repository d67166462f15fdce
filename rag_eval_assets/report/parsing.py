"""The parsing sections of the page: how near each parser comes to the references, what it mistook, which evidence and files it lost.

What belongs here: those sections alone, under the rules of `sections`. What does not: the figures (rows of parse_quality as they stand).
"""

from __future__ import annotations

from collections.abc import Mapping

from ingestion.sources import STRATA
from rag_eval_assets.report import corpus_pictures, facts, formats
from rag_eval_assets.report.facts import Row, Rows
from rag_eval_assets.report.pieces import MOST_ROWS, QUOTED, Tables, Values, parts_of, picture, reason, rows_of
from rag_eval_assets.tables import FAILED, OK, SCORED

_PARTS = (
    ("headings_recall", "Headings found"),
    ("headings_precision", "Headings right"),
    ("lists_whole", "Lists whole"),
    ("captions_kept", "Captions"),
    ("footnotes_kept", "Footnotes"),
    ("table_content", "Table cells"),
    ("furniture_leak", "Pages with a leaked head"),
)
_SHORT = {"empty_stratum": "no file", "class_not_declared": "not read by it", "no_reference": "no reference"}
_MOST_CONFUSIONS = 5
_MOST_LOST = 50


def parsing(tables: Tables) -> Values:
    """Parse quality by class and parser under the stated policy, what was mistaken for what, and the evidence that was lost."""
    by_parser = parts_of(tables, "parse_quality")
    documents = rows_of(tables, "documents")
    chosen = {(r["doc_class"], r["parser"]) for r in documents if r["parser"]}
    after = facts.located_after(rows_of(tables, "golden_evidence"), documents)
    lines, parts, located, mistakes, lost = [], [], [], [], []
    for each in facts.parse_figures(by_parser):
        named = {"doc_class": each.group, "parser": each.parser, "chosen": (each.group, each.parser) in chosen}
        low_high = each.length_ratio
        lines.append(named | {
            "documents": formats.count(each.documents),
            "with_reference": formats.count(each.with_reference),
            "cer": formats.percent(each.value("cer")),
            "cer_interval": _interval(each.figures.get("cer")),
            "wer": formats.percent(each.value("wer")),
            "teds": formats.percent(each.value("teds")),
            "order": formats.fixed(each.value("order_tau")),
            "length_ratio": f"{formats.fixed(low_high[0])} to {formats.fixed(low_high[1])}" if low_high else formats.DASH,
            "failed": formats.count(each.figures["parsed"]["errors"] if "parsed" in each.figures else None),
        })  # fmt: skip
        if any(metric in each.figures for metric, _ in _PARTS):
            parts.append(named | {"values": [_part(each.figures.get(metric)) for metric, _ in _PARTS]})
        if row := each.figures.get("evidence_located"):
            stages = after.get((each.group, each.parser)) if named["chosen"] else None
            located.append(named | {
                "quotations": formats.count(row["units"]),
                "parsed": _part(row),
                "cleaned": formats.percent(stages[2] / stages[0]) if stages else formats.DASH,
                "kept": formats.percent(stages[3] / stages[0]) if stages else formats.DASH,
            })  # fmt: skip
        for confusion in (each.figures.get("cer") or {"confusions": []})["confusions"][:_MOST_CONFUSIONS]:
            mistakes.append(named | {side: formats.readable(confusion[side], 80) for side in ("expected", "found")} | {
                "count": formats.count(confusion["count"]), "edits": formats.count(confusion["edits"]),
            })  # fmt: skip
        for row in each.lost:
            lost.append(named | {
                "doc_id": formats.readable(row["doc_id"], QUOTED), "expected": formats.readable(row["expected"], QUOTED),
                "found": formats.readable(row["found"], QUOTED), "likeness": formats.percent(row["value"]),
            })  # fmt: skip
    policies = sorted({r["policy"] for rows in by_parser.values() for r in rows if r["policy"]})
    return {
        "lines": lines,
        "parts": parts,
        "part_names": [name for _, name in _PARTS],
        "located": located,
        "mistakes": mistakes,
        "lost": lost[:_MOST_LOST],
        "lost_more": max(len(lost) - _MOST_LOST, 0),
        "policies": policies,
        "strata": _strata(by_parser),
        "pictures": [
            picture(
                corpus_pictures.cer_by_class(by_parser), "Character error rate by class and parser",
                "Pooled over the characters of all references of a class; marks are its worst documents.",
            ),
            picture(
                corpus_pictures.cer_by_stratum(by_parser), "Character error rate by stratum and parser",
                "The same by stratum, for parsers that read files of it; strata without a file are listed in the table.",
            ),
            picture(
                corpus_pictures.teds_distribution(by_parser), "TEDS by class and parser", "A mark is a reference table, a bar the mean.",
            ),
        ],
    }  # fmt: skip


def _strata(by_parser: Mapping[str, Rows]) -> Values:
    """A line for each parser, a cell for each stratum with a file: its CER with interval and documents, else the reason there is none."""
    found = {(r["stratum"], p): r for p, rows in by_parser.items() for r in rows if (r["scope"], r["metric"]) == ("stratum", "cer")}
    resolution = {parser: next((r["dpi"] for r in rows if r["dpi"]), None) for parser, rows in by_parser.items()}
    named = {stratum for (stratum, _), row in found.items() if row["reason"] != "empty_stratum"}
    return {
        "columns": [(stratum.replace("_", " "), holds) for stratum, holds in STRATA.items() if stratum in named],
        "empty": [stratum.replace("_", " ") for stratum in STRATA if stratum not in named],
        "lines": [
            {
                "parser": parser,
                "dpi": f"{dpi} dpi" if dpi else "",
                "cells": [_stratum_cell(found.get((stratum, parser))) for stratum in STRATA if stratum in named],
            }
            for parser, dpi in resolution.items()
            if found
        ],
        "resolutions": sorted({dpi for dpi in resolution.values() if dpi}),
    }


def _stratum_cell(row: Row | None) -> Values:
    if row is None or row["status"] != SCORED:
        return {"value": formats.DASH, "about": _SHORT.get(row["reason"], reason(row["reason"])) if row else "not measured"}
    return {"value": formats.percent(row["value"]), "about": f"{_interval(row)}, {formats.plural(row['documents'] or 0, 'document')}"}


def _interval(row: Row | None) -> str:
    return formats.interval(row["lower"], row["upper"]) if row else ""


def _part(row: Row | None) -> tuple[str, str]:
    """A share and the counts behind it."""
    if row is None or row["units"] is None or row["errors"] is None:
        return formats.DASH, ""
    counted = row["errors"] if row["metric"] == "furniture_leak" else row["units"] - row["errors"]
    return formats.percent(row["value"]), f"{formats.count(counted)} of {formats.count(row['units'])}"


def parse_failures(tables: Tables) -> Values:
    """Files that a parser could not read, and documents that never reached canonical text."""
    lines = []
    documents = {r["doc_id"]: r for r in rows_of(tables, "documents") if r["status"] != OK}
    told: set[str] = set()
    for parser, rows in parts_of(tables, "parsed_documents").items():
        for row in rows:
            if row["status"] == FAILED:
                mine = documents.get(row["doc_id"])
                lines.append(_failed_file(row, parser, mine is not None and mine["parser"] in (parser, None)))
                told.add(row["doc_id"])
    lines += [_failed_file(row, row["parser"] or formats.DASH, True) for doc_id, row in documents.items() if doc_id not in told]
    lines.sort(key=lambda line: (not line["lost"], line["doc_id"], line["parser"]))
    return {
        "lines": lines[:MOST_ROWS],
        "more": max(0, len(lines) - MOST_ROWS),
        "lost": sum(line["lost"] for line in lines),
        "total": len(lines),
        "parsed": bool(tables.get("documents")),
    }


def _failed_file(row: Row, parser: str, lost: bool) -> Values:
    return {
        "doc_id": formats.readable(row["doc_id"]), "doc_class": row["doc_class"], "parser": parser, "lost": lost,
        "reason": reason(row["reason"]), "detail": formats.readable(row["detail"], QUOTED),
    }  # fmt: skip
