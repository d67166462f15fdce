"""The sections of the page: from rows to the texts, numbers and pictures that the templates lay out.

What belongs here: one function a section, returning plain values for its template. What does not: markup (templates) and
selections that pictures share (`facts`). Every text of a document, a question or an answer is cut and cleaned of control
characters here and escaped by the templates; nothing here returns markup.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag_eval_assets.report import facts, formats, pictures
from rag_eval_assets.report.facts import DECISIONS, Row, Rows
from rag_eval_assets.tables import NOT_APPLICABLE, OK, REASONS, SCORED, SPLITS, STAGES

Values = dict[str, Any]
Tables = Mapping[str, Mapping[str | None, Rows]]

MOST_FAILURES = 200
MOST_ROWS = 200
QUOTED = 300
ANSWERED = 900
_MOST_PASSAGES = 10
_MOST_EVIDENCE = 8
_MOST_SLICES = 40

_DECISION_NAMES = {"PASS": "Pass", "FAIL": "Fail", "INSUFFICIENT_EVIDENCE": "Insufficient evidence"}
_DECISION_LOOKS = {"PASS": "good", "FAIL": "bad", "INSUFFICIENT_EVIDENCE": "unsure"}
_VERDICT_LOOKS = {"recommended": "good", "best": "good", "non_inferior": "plain", "inferior": "plain", "undecided": "unsure"}


# -------------------------------------------------------------------------------------------------------------- pieces
def rows_of(tables: Tables, name: str) -> list[Row]:
    """Rows of a table without partitions; none where the table is not there."""
    return [row for rows in tables.get(name, {}).values() for row in rows]


def parts_of(tables: Tables, name: str) -> dict[str, Rows]:
    """Rows of a partitioned table by partition, sorted."""
    return {key: tables[name][key] for key in sorted(k for k in tables.get(name, {}) if k is not None)}


def picture(svg: bytes, title: str, caption: str) -> Values:
    """An image with its text alternative and what a reader should see in it."""
    return {"uri": pictures.as_data_uri(svg), "title": title, "caption": caption}


def reason(code: str | None) -> str:
    """A reason code in words: of the closed list its description, of other lists the code itself."""
    return REASONS.get(code or "") or formats.readable((code or "").replace("_", " "))


def decision(code: str) -> Values:
    """A decision's name and look."""
    return {"name": _DECISION_NAMES.get(code, code), "look": _DECISION_LOOKS.get(code, "unsure")}


def mark(value: float | None, lower: float | None, upper: float | None, threshold: float | None = None) -> Values | None:
    """Places on a line from 0 to 100 for a small drawing of a share, its interval and a threshold; None without a share."""

    def place(share: float | None) -> float | None:
        return round(100 * min(max(share, 0.0), 1.0), 1) if share is not None and formats.is_number(share) else None

    at = place(value)
    return None if at is None else {"at": at, "low": place(lower), "high": place(upper), "threshold": place(threshold)}


def _measure(row: Row) -> Values:
    unit = "" if row["unit"] == "question" else f"by {row['unit']}"
    return {"name": formats.measure_name(row["metric"], row["k"], row["cutoff"]), "unit": unit, "metric": row["metric"]}


def _score(row: Row) -> Values:
    """A summary row as printed."""
    share = formats.is_share(row["metric"], row["mean"], row["lower"], row["upper"])
    low, high = row["if_failed_zero"], row["if_failed_one"]
    return {
        **_measure(row),
        "value": formats.measured(row["mean"], share),
        "interval": formats.interval(row["lower"], row["upper"], share),
        "mark": mark(row["mean"], row["lower"], row["upper"]) if share else None,
        "observed": formats.measured(row["observed"], share),
        "bounds": formats.interval(low, high, share),
        "counts": [formats.count(row[c]) for c in ("questions", "scored", "failed", "not_applicable", "missing")],
        "lost": bool(row["failed"] or row["missing"]),
        "method": row["method"],
    }


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
            "look": _DECISION_LOOKS[worst] if worst else "unsure",
            "headline": _headline(counts, worst),
            "counts": [(_DECISION_NAMES[d], counts[d], _DECISION_LOOKS[d]) for d in DECISIONS if counts[d]],
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
        cards.append({"system": system, "spec": _spec(specs.get(system, [])), "tiles": [_score(r) for r in key]})
    headline = {s: facts.headline(rows, split) for s, rows in summaries.items()}
    table = [
        {"measure": _measure(next(iter(found.values()))), "stage": next(iter(found.values()))["stage"],
         "rows": [{"system": s, **_score(r)} for s, r in sorted(found.items())]}
        for _, found in facts.in_score_order(headline)
    ]  # fmt: skip
    everything = [
        {"system": s, "rows": [{**_score(r), "stage": r["stage"]} for r in facts.whole_split(rows, split)]} for s, rows in summaries.items()
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
    return [
        ("Chunking", row["chunking"] or "its own"),
        ("Retriever", row["retriever"] + (f", reranked by {row['reranker']}" if row["reranker"] else "")),
        ("Passages", f"top {row['top_k']} of {row['depth']}, budget {budget}"),
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
                {"value": value, "cells": [_score(found[k]) if k in found else None for k in keys]}
                for value, found in sorted(values.items())
            ]  # fmt: skip
            groups.append({"slice": name, "lines": lines[:_MOST_SLICES], "more": max(0, len(lines) - _MOST_SLICES)})
        if groups:
            measures = [_measure(dict(zip(("metric", "k", "cutoff", "unit"), k, strict=True))) for k in keys]
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
    return sorted(rows, key=lambda r: (r["baseline"], r["split"], *facts.measure_key(r)))


def _compared(row: Row) -> Values:
    share = formats.is_share(row["metric"], row["difference"], row["lower"], row["upper"])
    return {
        **_measure(row),
        "baseline": row["baseline"],
        "split": row["split"],
        "difference": formats.difference(row["difference"], share),
        "interval": formats.difference_interval(row["lower"], row["upper"], share),
        "points": share,
        "paired": formats.count(row["paired"]),
        "missing": formats.count(row["missing"]),
        "decision": decision(row["decision"]),
        "reason": reason(row["decision_reason"]) if row["status"] == SCORED else reason(row["reason"]),
        "detail": formats.readable(row["detail"], QUOTED),
    }


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
        words = [v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in (value if pair else [value])]
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
    measures = [_measure({"metric": m.metric, "k": m.k, "cutoff": m.cutoff, "unit": m.unit}) for m in wanted]
    return {"measures": measures, "groups": groups}


# ----------------------------------------------------------------------------------------------------------------- ANN
def index(tables: Tables) -> Values:
    """Approximate indexes against exact search: the Pareto picture, the recommended settings, the whole grid."""
    by_chunking = parts_of(tables, "ann_recall")
    recommended, grid, unmeasured = [], [], Counter[tuple[str, str]]()
    for chunking, rows in by_chunking.items():
        scored = [r for r in rows if r["status"] == SCORED]
        for row in (r for r in rows if r["status"] != SCORED):
            unmeasured[chunking, reason(row["reason"])] += 1
        lines = [
            {"chunking": chunking, **_ann_line(r)}
            for r in sorted(scored, key=lambda r: (-r["selectivity"], r["embedder"], r["index"], r["setting"]))
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


def _selectivity(share: float) -> str:
    return "no filter" if share >= 1 else f"filter leaves {formats.percent(share)}"


def _ann_line(row: Row) -> Values:
    return {
        "embedder": row["embedder"],
        "index": row["index"],
        "setting": row["setting"],
        "selectivity": _selectivity(row["selectivity"]),
        "key": (row["embedder"], row["index"], row["setting"], row["k"]),
        "k": row["k"],
        "recall": formats.percent(row["recall_mean"]),
        "p5": formats.percent(row["recall_p5"]),
        "by_id": formats.percent(row["recall_by_id"]),
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
    return {
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


# ------------------------------------------------------------------------------------------------------------ failures
def failures(tables: Tables, split: str, pass_metric: str) -> list[Values]:
    """Every failed question of the split by system: what was asked, wanted, given, delivered, and where its evidence was lost."""
    questions = {r["question_id"]: r for r in rows_of(tables, "golden_questions")}
    evidence = _by_question(rows_of(tables, "golden_evidence"))
    shown = []
    systems = sorted({key for name in ("system_scores", "diagnosis", "evidence_funnel") for key in parts_of(tables, name)})
    for system in systems:
        part = {
            name: parts_of(tables, name).get(system, [])
            for name in ("system_scores", "diagnosis", "evidence_funnel", "contexts", "answers")
        }
        failed, says = facts.failed_questions(part["system_scores"], part["diagnosis"], part["evidence_funnel"], split, pass_metric)
        wanted = set(failed)
        by_question = {name: _by_question(r for r in rows if r["question_id"] in wanted) for name, rows in part.items()}
        told = []
        for qid in failed:
            found = {name: rows.get(qid, []) for name, rows in by_question.items()}
            told.append(_failure(qid, questions.get(qid), evidence.get(qid, []), found, pass_metric))
        told.sort(key=lambda f: (f["order"], f["id"]))
        lost = Counter(f["lost_at"] for f in told)
        asked = {
            r["question_id"]
            for r in part["system_scores"]
            if r["split"] == split and r["metric"] == pass_metric and r["status"] != NOT_APPLICABLE
        }
        shown.append({
            "system": system,
            "failed": len(told),
            "asked": len(asked) or None,
            "says": says,
            "by_stage": [(stage, n) for stage, n in sorted(lost.items(), key=lambda p: (-p[1], p[0]))],
            "items": told[:MOST_FAILURES],
            "more": max(0, len(told) - MOST_FAILURES),
        })  # fmt: skip
    return shown


def _by_question(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["question_id"]].append(row)
    return found


def _failure(qid: str, question: Row | None, evidence: Rows, found: Mapping[str, Rows], pass_metric: str) -> Values:
    lost = [r for r in found["evidence_funnel"] if r["status"] == OK and r["lost_at"]]
    order = list(STAGES)
    first = min((order.index(r["lost_at"]) for r in lost), default=order.index("answered"))
    answerable = question is None or question["answerable"]
    score = next((r for r in found["system_scores"] if r["metric"] == pass_metric), None)
    context = found["contexts"][0] if found["contexts"] else None
    spans = [(r["kept_doc_id"], r["start"], r["end"]) for r in evidence if r["kept_doc_id"]]
    return {
        "id": qid,
        "order": first,
        "lost_at": facts.stage_name(order[first]) if answerable else "refusal",
        "open_next": sorted({r["open_next"] for r in lost if r["open_next"]}) or ["system_scores"],
        "question": formats.readable(question["text"], ANSWERED) if question else "The question is not in the golden set.",
        "about": _about(question),
        "expected": _expected(question),
        "answer": _answer(found["answers"][0] if found["answers"] else None),
        "why": (formats.readable(score["explanation"], QUOTED) or reason(score["reason"])) if score else "",
        "diagnosis": _diagnosis(found["diagnosis"]),
        "groups": [
            {"group": r["group"], "lost_at": facts.stage_name(r["lost_at"]), "best_rank": r["best_rank"], "cited": r["cited"],
             "detail": formats.readable(r["detail"], QUOTED)}
            for r in found["evidence_funnel"] if r["status"] == OK
        ],
        "evidence": [_evidence(r) for r in evidence[:_MOST_EVIDENCE]],
        "evidence_more": max(0, len(evidence) - _MOST_EVIDENCE),
        "passages": _passages(context, spans),
        "delivered": _delivered(context),
    }  # fmt: skip


def _about(question: Row | None) -> list[str]:
    named = dict.fromkeys([question["language"], question["intent"], *question["kinds"]]) if question else ()
    return [formats.label(t, 60) for t in named if t]


def _expected(question: Row | None) -> str:
    if question is None:
        return formats.DASH
    if not question["answerable"]:
        return "A refusal: the corpus does not answer this question."
    return formats.readable(question["reference_answer"], ANSWERED) or "No reference answer is written down."


def _answer(row: Row | None) -> Values:
    if row is None:
        return {"text": "", "note": "There is no answer.", "citations": []}
    note = ""
    if row["status"] != OK:
        note = f"No answer: {reason(row['reason'])}" + (f" ({formats.readable(row['detail'], QUOTED)})" if row["detail"] else "")
    elif row["refused"]:
        note = "The system refused to answer."
    citations = [
        formats.readable(c["doc_id"], 120) + (f" [{c['position']}]" if c["position"] >= 0 else " (names no delivered passage)")
        if c["doc_id"] else "names no delivered passage"
        for c in row["citations"] or ()
    ]  # fmt: skip
    return {"text": formats.readable(row["answer"], ANSWERED), "note": note, "citations": list(dict.fromkeys(citations))}


def _diagnosis(rows: Rows) -> Values | None:
    told = [r for r in rows if r["label"] not in facts.NOT_IMPLICATED]
    if not told:
        return None
    results = {True: "recovered", False: "still failed"}
    tries = [
        (r["intervention"].replace("_", " "), results.get(r["recovered"]) or reason(r["reason"]) or "not tried")
        for r in sorted(told, key=lambda r: r["intervention"])
    ]
    whys = sorted({r["why"].replace("_", " ") for r in told if r["why"]})
    return {"label": ", ".join(sorted({r["label"].replace("_", " ") for r in told})), "why": ", ".join(whys), "tries": tries}


def _evidence(row: Row) -> Values:
    located = {
        "exact": "stands verbatim", "normalised": "stands after normalisation", "document": "whole document",
        "aligned": f"aligned at {formats.percent(row['similarity'])}",
    }.get(row["match"], "not located")  # fmt: skip
    moved = row["kept_doc_id"] and row["kept_doc_id"] != row["doc_id"]
    return {
        "group": row["group"],
        "document": formats.readable(row["doc_id"], 200),
        "moved_to": formats.readable(row["kept_doc_id"], 200) if moved else "",
        "quotation": formats.readable(row["quotation"], QUOTED),
        "located": located,
        "lost_at": facts.stage_name(row["lost_at"]),
        "found_text": formats.readable(row["found_text"], QUOTED) if row["lost_at"] or row["match"] == "aligned" else "",
        "entitled": row["entitled"],
    }


def _passages(context: Row | None, spans: Sequence[tuple[str, int | None, int | None]]) -> Values:
    passages = list(context["passages"] or ()) if context else []
    shown = []
    for p in passages[:_MOST_PASSAGES]:
        same = [(start, end) for document, start, end in spans if document == p["doc_id"]]
        holds = [s for s, e in same if s is not None and e is not None and s < (p["end"] or 0) and (p["start"] or 0) < e]
        shown.append({
            "position": p["position"], "rank": p["rank"], "document": formats.readable(p["doc_id"], 200),
            "text": formats.readable(p["text"], QUOTED), "gold": "gold passage" if holds else "gold document" if same else "",
        })  # fmt: skip
    return {"items": shown, "more": max(0, len(passages) - _MOST_PASSAGES)}


def _delivered(context: Row | None) -> str:
    if context is None:
        return "There is no context."
    if context["status"] != OK:
        return f"No context: {reason(context['reason'])}."
    cut = [
        formats.plural(len(context[name] or ()), "passage") + f" cut by {what}"
        for name, what in (("cut_by_budget", "the token budget"), ("cut_by_top_k", "top k")) if context[name]
    ]  # fmt: skip
    said = f"{formats.plural(len(context['passages'] or ()), 'passage')}, {formats.plural(context['tokens'], 'token')}"
    return ", ".join([said, *cut])


# ------------------------------------------------------------------------------------------------------------ cleaning
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
            pictures.dedup_curve(rows), "Near-duplicate detection by threshold",
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
