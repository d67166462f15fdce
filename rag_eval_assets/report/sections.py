"""The sections of the page: from rows to the texts, numbers and pictures that the templates lay out.

What belongs here: one function a section, returning plain values for its template. What does not: markup (templates), selections that
pictures share (`facts`), what sections share (`pieces`) and the sections with a module of their own (`parsing`, `cleaning`,
`failures`). Every text of a document, a question or an answer is cut and cleaned of control characters here and escaped by the
templates; nothing here returns markup.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from rag_eval_assets.report import facts, formats, pictures
from rag_eval_assets.report.facts import DECISIONS, Row, Rows
from rag_eval_assets.report.pieces import (
    ANSWERED,
    DECISION_LOOKS,
    DECISION_NAMES,
    MOST_ROWS,
    QUOTED,
    Tables,
    Values,
    decision,
    mark,
    measure_of,
    parts_of,
    picture,
    reason,
    rows_of,
    score,
)
from rag_eval_assets.tables import AS_LOGGED, NOT_APPLICABLE, OK, REASONS, SCORED, SPLITS

_MOST_SLICES = 40
_VERDICT_LOOKS = {"recommended": "good", "best": "good", "non_inferior": "plain", "inferior": "plain", "undecided": "unsure"}


# ------------------------------------------------------------------------------------------------------------- verdict
def gates(tables: Tables) -> Values:
    """Decisions of the gates, worst first, and the verdict they add up to."""
    rows = sorted(
        rows_of(tables, "gate_results"),
        key=lambda r: (DECISIONS.index(r["decision"]) if r["decision"] in DECISIONS else 1, r["gate"], r["scope"]),
    )
    shown = []
    for row in rows:
        share = formats.is_share(row["gate"], row["value"], row["threshold"], row["lower"], row["upper"])
        digits = formats.telling_decimals(row["threshold"], [row["value"], row["lower"], row["upper"]])
        sign = "≥" if row["direction"] == "at_least" else "≤"
        shown.append({
            "gate": row["gate"].replace("_", " "),
            "scope": row["scope"],
            "decision": decision(row["decision"]),
            "value": formats.measured(row["value"], share, digits),
            "interval": formats.interval(row["lower"], row["upper"], share, digits),
            "mark": mark(row["value"], row["lower"], row["upper"], row["threshold"]) if share else None,
            "threshold": f"{sign} {formats.measured(row['threshold'], share)}",
            "judged": formats.count(row["questions"]),
            "coverage": formats.percent(row["coverage"]),
            "short": row["coverage"] is not None and row["coverage"] < 1,
            "reason": reason(row["decision_reason"]),
            "detail": formats.readable(row["detail"], QUOTED),
            "starting_value": row["starting_value"],
        })  # fmt: skip
    counts = Counter(row["decision"] for row in rows)
    worst = next((d for d in DECISIONS if counts[d]), None)
    return {
        "rows": shown,
        "verdict": {
            "look": DECISION_LOOKS[worst] if worst else "unsure",
            "headline": _headline(counts, worst),
            "counts": [(DECISION_NAMES[d], counts[d], DECISION_LOOKS[d]) for d in DECISIONS if counts[d]],
            "not_passed": [r for r, row in zip(shown, rows, strict=True) if row["decision"] != "PASS"][:6],
            "not_passed_more": max(0, counts["FAIL"] + counts["INSUFFICIENT_EVIDENCE"] - 6),
        },
        "starting_values": sum(bool(r["starting_value"]) for r in rows),
    }


def _headline(counts: Mapping[str, int], worst: str | None) -> str:
    total = sum(counts.values())
    if worst is None:
        return "No gate is set"
    if worst == "PASS":
        return f"All {formats.plural(total, 'gate')} passed" if total > 1 else "The gate passed"
    verb = {"FAIL": "failed", "INSUFFICIENT_EVIDENCE": "lack evidence"}[worst]
    if counts[worst] == 1 and worst != "FAIL":
        verb = "lacks evidence"
    return f"{counts[worst]:,} of {formats.plural(total, 'gate')} {verb}"


# -------------------------------------------------------------------------------------------------------------- scores
def scores(tables: Tables, split: str, pass_metric: str) -> Values:
    """Headline scores of every system with intervals and counts, and the full list behind them."""
    summaries = parts_of(tables, "system_summary")
    specs = parts_of(tables, "system_specs")
    cards = []
    for system in sorted({*summaries, *specs}):
        key = facts.key_measures(summaries.get(system, []), split, pass_metric)
        cards.append({"system": system, "spec": _spec(specs.get(system, [])), "tiles": [score(r) for r in key]})
    headline = {s: facts.headline(rows, split) for s, rows in summaries.items()}
    table = [
        {"measure": measure_of(next(iter(found.values()))), "stage": next(iter(found.values()))["stage"],
         "rows": [{"system": s, **score(r)} for s, r in sorted(found.items())]}
        for _, found in facts.in_score_order(headline)
    ]  # fmt: skip
    everything = [
        {"system": s, "rows": [{**score(r), "stage": r["stage"]} for r in facts.whole_split(rows, split)]} for s, rows in summaries.items()
    ]
    judges = rows_of(tables, "judge_audit")
    return {
        "cards": cards,
        "table": table,
        "everything": [e for e in everything if e["rows"]],
        "picture": picture(
            pictures.scores_with_intervals(summaries), "Headline scores by system",
            "Means with 95% intervals. To tell two systems apart, read the paired comparison below, not the gap between two means.",
        ),
        "judge_missing": bool(judges) and all(r["reason"] == "no_judge" for r in judges),
    }  # fmt: skip


def _spec(rows: Rows) -> list[tuple[str, str]]:
    if not rows:
        return []
    row = rows[0]
    reader = row["reader"]
    if reader == "extractive":
        reader = "extractive (lexical, no language model)"
    budget = f"{row['token_budget']:,} tokens" if row["token_budget"] is not None else "none"
    depth, top_k = (formats.setting(row[limit]) for limit in ("depth", "top_k"))
    top = AS_LOGGED if top_k == AS_LOGGED else f"top {top_k} {'' if depth == AS_LOGGED else 'of '}{depth}"
    return [
        ("Chunking", row["chunking"] or "its own"),
        ("Retriever", row["retriever"] + (f", reranked by {row['reranker']}" if row["reranker"] else "")),
        ("Passages", f"{top}, budget {budget}"),
        ("Reader", reader),
    ]


def slices(tables: Tables, split: str, pass_metric: str) -> list[Values]:
    """Key measures of every system by slice."""
    shown = []
    for system, rows in parts_of(tables, "system_summary").items():
        keys = [facts.measure_key(r) for r in facts.key_measures(rows, split, pass_metric)]
        own = [r for r in rows if r["split"] == split and r["slice"] != "all" and facts.measure_key(r) in keys]
        by_slice: dict[str, dict[str, dict[Any, Row]]] = defaultdict(lambda: defaultdict(dict))
        for row in own:
            by_slice[row["slice"]][row["slice_value"]][facts.measure_key(row)] = row
        groups = []
        for name, values in sorted(by_slice.items()):
            lines = [
                {"value": value, "cells": [score(found[k]) | {"thin": not found[k]["supported"]} if k in found else None for k in keys]}
                for value, found in sorted(values.items())
            ]  # fmt: skip
            groups.append({"slice": name, "lines": lines[:_MOST_SLICES], "more": max(0, len(lines) - _MOST_SLICES)})
        if groups:
            measures = [measure_of(dict(zip(("metric", "k", "cutoff", "unit"), k, strict=True))) for k in keys]
            shown.append({"system": system, "measures": measures, "groups": groups})
    return shown


def baselines(tables: Tables, split: str) -> list[Values]:
    """Paired differences of every system to its baselines: headline measures of the split, then all others."""
    shown = []
    for system, rows in parts_of(tables, "comparison").items():
        compared = [r for r in rows if r["status"] != NOT_APPLICABLE]
        first = [r for r in compared if r["split"] == split and facts.is_headline(r, facts.rank_cutoff(compared))]
        rest = [r for r in compared if r not in first]
        refused = [r for r in rows if r["status"] == NOT_APPLICABLE and r["metric"] == "all"]
        changed = sorted({(r["baseline"], r["what_changed"]) for r in compared if r["what_changed"] not in ("", "{}", "null")})
        shown.append({
            "system": system,
            "tables": [
                {"title": title, "folded": folded, "lines": [_compared(r) for r in some[:MOST_ROWS]], "more": max(0, len(some) - MOST_ROWS)}
                for title, some, folded in (
                    (f"{system} against its baselines, {split} split", _in_order(first), False),
                    (f"{system} against its baselines, every other measure and split", _in_order(rest), bool(first)),
                ) if some
            ],
            "changed": [(baseline, _changes(text)) for baseline, text in changed],
            "refused": [(r["baseline"], reason(r["reason"]), formats.readable(r["detail"], ANSWERED)) for r in refused],
        })  # fmt: skip
    return shown


def _in_order(rows: Rows) -> list[Row]:
    return sorted(rows, key=lambda r: (r["baseline"], r["role"], r["split"], *facts.measure_key(r), r["slice"], r["slice_value"]))


def _compared(row: Row) -> Values:
    share = formats.is_share(row["metric"], row["difference"], row["lower"], row["upper"])
    return {
        **measure_of(row),
        "baseline": row["baseline"],
        "split": row["split"] if row["slice"] == "all" else f"{row['split']}, {row['slice']} {row['slice_value']}",
        "difference": formats.difference(row["difference"], share),
        "interval": formats.difference_interval(row["lower"], row["upper"], share),
        "points": share,
        "paired": formats.count(row["paired"]),
        "missing": formats.count(row["missing"]),
        "decision": decision(row["decision"]),
        "reason": reason(row["decision_reason"]) if row["status"] == SCORED else reason(row["reason"]),
        "detail": formats.readable(_claim(row, share), QUOTED),
    }


def _claim(row: Row, share: bool) -> str:
    """What was asked of the pairs, and from where they would have told."""
    name = f"claim {row['claim_name']}, " if row["claim_name"] else ""
    asked = f"{row['role']}: {name}{row['claim'].replace('_', ' ')}, margin {formats.difference(row['margin'], share)}"
    excluded = f"; {row['excluded']} excluded" if row["excluded"] else ""
    detectable = "" if row["detectable"] is None else f"; decides from {formats.difference(row['detectable'], share)} off a bound"
    return asked + excluded + detectable + (f"; {row['detail']}" if row["detail"] else "")


def _changes(text: str) -> list[tuple[str, str]]:
    try:
        changed = json.loads(text)
    except ValueError:
        return [("", formats.readable(text, QUOTED))]
    if not isinstance(changed, dict):
        return [("", formats.readable(text, QUOTED))]
    said = []
    for name, value in sorted(changed.items()):
        pair = isinstance(value, list) and len(value) == 2
        words = [v if isinstance(v, str) else formats.setting(v) for v in (value if pair else [value])]
        said.append((name.replace("_", " "), formats.readable(" → ".join(words), QUOTED)))
    return said


# --------------------------------------------------------------------------------------------------------------- sweep
def sweep(tables: Tables) -> Values:
    """The chunk sweep on the deciding measure: curve, heat map, a table a retriever with what is recommended."""
    rows = rows_of(tables, "chunk_sweep")
    measure, own = facts.deciding(rows)
    if measure is None:
        return {"retrievers": []}
    retrievers = []
    for retriever in sorted({r["retriever"] for r in own}):
        mine = sorted(
            (r for r in own if r["retriever"] == retriever),
            key=lambda r: (-(r["mean"] if r["mean"] is not None else -1), r["chunking"]),
        )
        chosen = [r for r in mine if r["verdict"] == "recommended"]
        undecided = [r for r in mine if r["verdict"] == "undecided"]
        why = next((r["detail"] for r in [*chosen, *undecided] if r["detail"]), None)
        retrievers.append({
            "retriever": retriever,
            "recommended": [r["chunking"] for r in chosen],
            "undecided": bool(undecided) and not chosen,
            "why": REASONS.get(why or "") or formats.readable(why, QUOTED),
            "rows": [_sweep_line(r) for r in mine],
        })  # fmt: skip
    return {
        "measure": formats.measure_with_unit(measure.metric, measure.k, measure.cutoff, measure.unit),
        "retrievers": retrievers,
        "others": _other_measures(rows, measure),
        "curve": picture(
            pictures.sweep_curve(rows), "Chunk sweep: score against chunk length",
            "Development questions only. A line joins chunkings of one strategy and overlap; the ring marks the recommendation.",
        ),
        "grid": picture(
            pictures.sweep_grid(rows), "Chunk sweep: score by size and overlap",
            "Development questions only. Columns are sizes, lines strategies with their overlap; chunkings without a size are left out.",
        ),
        "heat_map": picture(
            pictures.sweep_heat_map(rows), "Chunk sweep: score by chunking and retriever", "The same means, best chunking first.",
        ),
    }  # fmt: skip


def _sweep_line(row: Row) -> Values:
    share = formats.is_share(row["metric"], row["mean"], row["lower"], row["upper"])
    length = facts.tokens_per_chunk(row)
    return {
        "chunking": row["chunking"],
        "value": formats.measured(row["mean"], share),
        "interval": formats.interval(row["lower"], row["upper"], share),
        "difference": formats.difference(row["difference"], share),
        "difference_interval": formats.difference_interval(row["difference_lower"], row["difference_upper"], share),
        "questions": formats.count(row["questions"]),
        "failed": formats.count(row["failed"]),
        "chunks": formats.count(row["chunks"]),
        "tokens": formats.count(row["index_tokens"]),
        "embedded": formats.count(row["embedding_tokens"]) if row["embedding_tokens"] is not None else formats.DASH,
        "megabytes": formats.plain(round(row["vector_bytes"] / 1e6, 2)) if row["vector_bytes"] is not None else formats.DASH,
        "length": formats.count(round(length)) if length else formats.DASH,
        "verdict": row["verdict"].replace("_", "-"),
        "look": _VERDICT_LOOKS.get(row["verdict"], "plain"),
    }


def _other_measures(rows: Rows, measure: facts.Measure) -> Values:
    """Other measures of the sweep at one cut-off and at equal delivered tokens: chunkings as lines, measures as columns."""
    k = facts.rank_cutoff(rows)
    value = {(r["retriever"], r["chunking"], facts.Measure(r["metric"], r["k"], r["cutoff"], r["unit"])): r["mean"] for r in rows}
    there = {m for _, _, m in value if m.metric in ("R", "nDCG", "RR") and (m.cutoff == "tokens" or m.k in (0, k))}
    wanted = sorted(there - {measure})[:9]
    chunkings: dict[str, set[str]] = defaultdict(set)
    for retriever, chunking, _ in value:
        chunkings[retriever].add(chunking)
    groups = [
        (retriever, [(c, [formats.measured(value.get((retriever, c, m)), True) for m in wanted]) for c in sorted(own)])
        for retriever, own in sorted(chunkings.items())
    ]
    measures = [measure_of({"metric": m.metric, "k": m.k, "cutoff": m.cutoff, "unit": m.unit}) for m in wanted]
    return {"measures": measures, "groups": groups}


# ----------------------------------------------------------------------------------------------------------------- ANN
def index(tables: Tables) -> Values:
    """Approximate indexes against exact search: the Pareto picture, the recommended settings, the whole grid."""
    by_chunking = parts_of(tables, "ann_recall")
    recommended, grid, unmeasured = [], [], Counter[tuple[str, str]]()
    for chunking, rows in by_chunking.items():
        scored = [r for r in rows if r["status"] == SCORED]
        for row in (r for r in rows if r["status"] != SCORED):
            what = chunking if row["index"] == "flat" else f"{chunking} {row['index']} {row['setting']}"
            unmeasured[what, reason(row["reason"])] += 1
        lines = [
            {"chunking": chunking, **_ann_line(r)}
            for r in sorted(scored, key=lambda r: (-r["selectivity"], r["filtering"] == "post", r["embedder"], r["index"], r["setting"]))
        ]
        grid += lines
        chosen = {line["key"] for line in lines if line["recommended"]}
        recommended += [line for line in lines if line["key"] in chosen]
        if lines and not chosen:
            recommended.append({"chunking": chunking, "none": True})
    return {
        "recommended": recommended,
        "grid": grid[:MOST_ROWS],
        "more": max(0, len(grid) - MOST_ROWS),
        "unmeasured": sorted(unmeasured),
        "picture": picture(
            pictures.ann_pareto(by_chunking), "ANN recall against distance computations",
            "Up and to the left is better. The grey line joins settings that no other beats; the ring marks the cheapest that reaches "
            "the recall wanted.",
        ),
    }  # fmt: skip


def _selectivity(row: Row) -> str:
    if row["filtering"] == "none":
        return "no filter"
    when = "within" if row["filtering"] == "pre" else "after"
    return f"filter leaves {formats.percent(row['selectivity'])}, {when} the search"


def _ann_line(row: Row) -> Values:
    return {
        "embedder": row["embedder"],
        "index": row["index"],
        "setting": row["setting"],
        "selectivity": _selectivity(row),
        "key": (row["embedder"], row["index"], row["setting"], row["k"]),
        "k": row["k"],
        "recall": formats.percent(row["recall_mean"]),
        "p5": formats.percent(row["recall_p5"]),
        "by_id": formats.percent(row["recall_by_id"]),
        "agreement": formats.percent(row["agreement"]),
        "ndcg_cost": formats.points(row["ndcg_cost"]),
        "work": formats.count(round(row["distance_computations"])) if formats.is_number(row["distance_computations"]) else formats.DASH,
        "megabytes": formats.plain(round(row["bytes"] / 1e6, 2)) if row["bytes"] is not None else formats.DASH,
        "recommended": row["recommended"],
        "none": False,
    }


# -------------------------------------------------------------------------------------------------------------- funnel
def funnels(tables: Tables, split: str) -> list[Values]:
    """The evidence funnel of every system: picture, counts, the table to open for what each stage lost."""
    shown = []
    for system, rows in parts_of(tables, "evidence_funnel").items():
        own = [r for r in rows if r["split"] == split]
        stages, others = facts.funnel_stages(own)
        total = stages[0].reached + stages[0].lost + stages[0].unknown if stages else 0
        checked = total - (stages[-1].unknown if stages else 0)
        followed = [r for r in own if r["status"] == OK]
        shown.append({
            "system": system,
            "total": formats.count(total),
            "answered": formats.percent(stages[-1].reached / checked) if checked else formats.DASH,
            "checked": formats.count(checked),
            "unknown": total - checked,
            "cited": formats.count(sum(bool(r["cited"]) for r in followed)),
            "stages": [
                {"name": facts.stage_name(s.name), "open_next": s.open_next, "reached": formats.count(s.reached), "lost": s.lost,
                 "unknown": s.unknown,
                 "share": formats.percent(s.reached / total)}
                for s in stages
            ],
            "others": [(formats.plural(n, "row"), status.replace("_", " "), reason(code)) for (status, code), n in others.items()],
            "picture": picture(
                pictures.funnel(own), f"Evidence funnel of {system}", "Evidence groups left after each stage; hatched: lost by it.",
            ),
        })  # fmt: skip
    return shown


# -------------------------------------------------------------------------------------------------------------- golden
def golden(tables: Tables, split: str) -> Values:
    """What the golden set covers: cells without questions, leaks between splits, how wide an interval it can give."""
    rows = rows_of(tables, "golden_coverage")
    questions = Counter(r["split"] for r in rows_of(tables, "golden_questions"))
    cells = [r for r in rows if r["kind"] == "cell" and "*" not in (r["intent"], r["doc_class"], r["language"])]
    summary = []
    for each in sorted({r["split"] for r in cells} | set(questions), key=lambda s: (SPLITS.index(s) if s in SPLITS else 9, s)):
        own = [r for r in cells if r["split"] == each]
        summary.append((each, formats.count(questions[each]), formats.count(len(own)), formats.count(sum(not r["questions"] for r in own))))
    mine = [r for r in cells if r["split"] == split]
    classes = sorted({r["doc_class"] for r in mine})
    count = {(r["intent"], r["language"], r["doc_class"]): r["questions"] for r in mine}
    grid = [
        {"intent": intent, "language": language, "counts": [count.get((intent, language, c)) for c in classes]}
        for intent, language in sorted({(r["intent"], r["language"]) for r in mine})
    ]  # fmt: skip
    findings = [
        {"kind": r["kind"].replace("_", " "), "where": r["split"], "what": formats.readable(r["other"], QUOTED),
         "detail": formats.readable(r["detail"], QUOTED), "similarity": formats.percent(r["value"]) if r["value"] is not None else ""}
        for r in rows if r["kind"] in ("split_leak", "duplicate_question")
    ]  # fmt: skip
    widths = [
        (r["split"], formats.metric_name(r["other"]), _cell_of(r), formats.count(r["questions"]), _points(r["value"]))
        for r in rows if r["kind"] == "half_width"
    ]  # fmt: skip
    holes = [
        {"system": system, "question": r["question_id"], "rank": formats.count(r["rank"]),
         "document": formats.readable(r["doc_id"], QUOTED), "text": formats.readable(r["text"], QUOTED)}
        for system, own in sorted(parts_of(tables, "label_holes").items())
        for r in sorted(own, key=lambda r: (r["rank"], r["question_id"], r["doc_id"])) if r["split"] == split
    ]  # fmt: skip
    return {
        "holes": holes[:MOST_ROWS],
        "holes_more": max(0, len(holes) - MOST_ROWS),
        "summary": summary,
        "classes": classes,
        "grid": grid[:MOST_ROWS],
        "grid_more": max(0, len(grid) - MOST_ROWS),
        "cells": len(mine),
        "empty": sum(not r["questions"] for r in mine),
        "findings": findings[:MOST_ROWS],
        "findings_more": max(0, len(findings) - MOST_ROWS),
        "widths": widths[:MOST_ROWS],
        "widths_more": max(0, len(widths) - MOST_ROWS),
    }


def _cell_of(row: Row) -> str:
    named = [f"{name.replace('_', ' ')} {row[name]}" for name in ("intent", "doc_class", "language") if row[name] not in ("*", "")]
    return ", ".join(named) or "all"


def _points(half_width: float | None) -> str:
    if half_width is None or not formats.is_number(half_width):
        return formats.DASH
    return f"± {formats.percent(half_width).rstrip('%')} points"
