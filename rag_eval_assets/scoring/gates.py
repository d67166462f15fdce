"""Gates: a bound on one figure in each scope it is judged in, decided from counts, value and threshold.

What belongs here: reading each gate's figure off its table, and the decision with its reason code. What does not: the figures, and what a
failed gate does to a release (Dagster checks and the exit code mirror these rows).

The rule, in this order: coverage under the gate's minimum is FAIL (a figure of the items that happened to be scored proves nothing);
a value on the wrong side of the threshold is FAIL; fewer items than the gate's minimum is INSUFFICIENT_EVIDENCE; else PASS. The
decision stands on the value, the 95% interval stands beside it. A figure that is not there at all is FAIL. Whatever a judge without a
passing audit finds is INSUFFICIENT_EVIDENCE.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rag_eval_assets.scoring.comparison import DECLARED
from rag_eval_assets.scoring.costs import FIGURES, MEASURES, RUN_RATES, RUN_SECONDS
from rag_eval_assets.scoring.decisions import FAIL, INSUFFICIENT, PASS
from rag_eval_assets.scoring.intervals import bounded_mean
from rag_eval_assets.scoring.judged import judge_of
from rag_eval_assets.scoring.judges import audited_metric, may_gate
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, SCORED

Gate = Mapping[str, Any]
Row = Mapping[str, Any]
Tables = Mapping[str | None, pa.Table]

CORPUS = "corpus"
"""Scope of a figure that there is one of."""

_ANN_COLUMNS = {"recall": "recall_mean"}
"""Gate metrics that a column of ann_recall names in full."""

UNAUDITED = {"decision": INSUFFICIENT, "decision_reason": "judge_not_audited"}
"""What becomes of a decision on a figure of a judge that may report but not gate."""

ANN_METRICS = ("recall", "recall_mean", "recall_p5", "recall_by_id", "agreement", "ndcg_cost", "distance_computations", "bytes")
COST_METRICS = (
    *(f"{measure}_{figure}" for measure in (MEASURES | RUN_SECONDS) for figure in FIGURES),
    *(f"{measure}_mean" for measure in RUN_RATES),
)
EXCLUSION_METRICS = ("false_exclusion",)
DEDUP_METRICS = ("precision", "recall", "false_merge_rate", "missed_merge_rate", "evidence_loss")
"""What a gate may name of each source that has a figure a column. Times of this machine decide nothing but what a gate names of them."""


@dataclass(frozen=True)
class Figure:
    """One figure in one scope. `expected` items should have been scored and `scored` were; `why` says what a missing value means."""

    scope: str
    value: float | None
    scored: int
    expected: int
    lower: float | None = None
    upper: float | None = None
    why: str = "missing_run"
    detail: str | None = None


def judge_gates(gates: Mapping[str, Gate], tables: Mapping[str, Tables], audit: Sequence[Row] = ()) -> list[dict[str, Any]]:
    """Rows of gate_results: one per gate and scope, sorted. `audit` holds the rows of judge_audit.

    `gates` are settings by name; `tables` hold, by a gate's source, the tables by partition (None where there is one): system_summary
    and system_costs by system, ann_recall by chunking, filter_exclusion, parse_quality by parser, dedup_quality. A gate that finds no
    scope gives one FAIL row.
    """
    rows = []
    for name in sorted(gates):
        gate = gates[name]
        read = _READERS[gate["source"]]
        figures = sorted(read(gate, tables.get(gate["source"], {})), key=lambda f: f.scope)
        asked = set(gate["scope"])
        judged = [f for f in figures if not asked or asked & {f.scope, *f.scope.split("/")}]
        covered = {part for f in judged for part in (f.scope, *f.scope.split("/"))}
        judged += [Figure(scope, None, 0, 0) for scope in sorted(asked - covered)]
        decided = [_decide(name, gate, figure) for figure in judged or [Figure(CORPUS, None, 0, 0)]]
        rows += decided if _may_gate(gate["metric"], audit) else [{**row, **UNAUDITED} for row in decided]
    return rows


def judge_claims(claims: Mapping[str, Row], comparisons: Mapping[str | None, pa.Table], audit: Sequence[Row] = ()) -> list[dict[str, Any]]:
    """Rows of gate_results for the claims of a policy: the decisions of `comparison`, by system, one scope a system and baseline.

    A system without a baseline is not judged; where none has one, each claim is one row without evidence.
    """
    rows = []
    for system, table in sorted(comparisons.items(), key=str):
        for row in table.to_pylist():
            refused = row["role"] != DECLARED and row["metric"] == "all" and row["decision_reason"] != "no_baseline"
            for name in [row["claim_name"]] if row["role"] == DECLARED else claims if refused else ():
                rows.append(_claimed(name, claims[name], f"{system}/{row['baseline']}", row))
    judged = {row["gate"] for row in rows}
    nothing: Row = dict.fromkeys(("difference", "lower", "upper", "detail")) | {"paired": 0, "missing": 0, "excluded": 0}
    rows += [
        _claimed(name, claim, CORPUS, {**nothing, "decision": INSUFFICIENT, "decision_reason": "no_baseline"})
        for name, claim in claims.items()
        if name not in judged
    ]
    rows = [row if _may_gate(claims[row["gate"]]["metric"], audit) else {**row, **UNAUDITED} for row in rows]
    return sorted(rows, key=lambda r: (r["gate"], r["scope"]))


def _may_gate(metric: str, audit: Sequence[Row]) -> bool:
    """Whether no judge gives the metric, or one whose audit passed."""
    judge = judge_of(metric)
    return judge is None or (judge, audited_metric(metric)) in may_gate(audit)


def _claimed(name: str, claim: Row, scope: str, row: Row) -> dict[str, Any]:
    margin = claim["margin"] or 0.0
    threshold, direction = {
        "superiority": (margin, "at_least"),
        "non_inferiority": (-margin, "at_least"),
        "equivalence": (margin, "within"),
    }[claim["claim"]]
    expected = row["paired"] + row["missing"]
    return {
        "gate": name,
        "scope": scope,
        "value": row["difference"],
        "lower": row["lower"],
        "upper": row["upper"],
        "threshold": threshold,
        "direction": direction,
        "questions": row["paired"],
        "coverage": row["paired"] / expected if expected else None,
        "decision": row["decision"],
        "decision_reason": row["decision_reason"],
        "starting_value": False,
        "detail": row["detail"],
    }


def _decide(name: str, gate: Gate, figure: Figure) -> dict[str, Any]:
    at_least = gate["at_least"] is not None
    threshold = float(gate["at_least"] if at_least else gate["at_most"])
    coverage = figure.scored / figure.expected if figure.expected else None
    if figure.value is None and figure.expected == 0 and figure.why != "missing_run":
        decision, reason = INSUFFICIENT, figure.why
    elif coverage is not None and coverage < gate["minimum_coverage"]:
        decision, reason = FAIL, "coverage_short"
    elif figure.value is None:
        decision, reason = FAIL, figure.why
    elif figure.value < threshold if at_least else figure.value > threshold:
        decision, reason = FAIL, "misses_threshold"
    elif figure.scored < gate["minimum_questions"]:
        decision, reason = INSUFFICIENT, "too_few_questions"
    else:
        decision, reason = PASS, "meets_threshold"
    return {
        "gate": name,
        "scope": figure.scope,
        "value": figure.value,
        "lower": figure.lower,
        "upper": figure.upper,
        "threshold": threshold,
        "direction": "at_least" if at_least else "at_most",
        "questions": figure.scored,
        "coverage": coverage,
        "decision": decision,
        "decision_reason": reason,
        "starting_value": gate["starting_value"],
        "detail": figure.detail,
    }


def _summary(gate: Gate, tables: Tables) -> Iterator[Figure]:
    """The headline over all questions of the gate's split, one scope a system."""
    for system, table in sorted(tables.items(), key=str):
        own = [
            r
            for r in table.to_pylist()
            if (r["metric"], r["k"], r["unit"], r["split"], r["slice"]) == (gate["metric"], gate["k"], gate["unit"], gate["split"], "all")
        ]
        # A rank and a token budget of the same number are two rows: the rank is meant unless there is only the budget.
        own.sort(key=lambda r: r["cutoff"] == "tokens")
        if not own:
            yield Figure(str(system), None, 0, 0)
            continue
        row = own[0]
        expected = row["scored"] + row["failed"] + row["missing"]
        why = "missing_run" if expected or not row["not_applicable"] else "not_applicable"
        lost = f"{row['failed']} failed, {row['missing']} missing" if expected > row["scored"] else None
        yield Figure(str(system), row["mean"], row["scored"], expected, row["lower"], row["upper"], why, lost)


def _costs(gate: Gate, tables: Tables) -> Iterator[Figure]:
    """A percentile, mean or total that was recorded with the replies of the gate's split, one scope a system."""
    measure, _, figure = gate["metric"].rpartition("_")
    for system, table in sorted(tables.items(), key=str):
        row = next((r for r in table.to_pylist() if (r["measure"], r["split"]) == (measure, gate["split"])), None)
        if row is None:
            yield Figure(str(system), None, 0, 0)
        else:
            # A system that records nothing, such as a reader in this process or a first run of what it might have kept, has nothing to
            # be judged.
            expected, why = (row["questions"], "missing_run") if row["scored"] else (0, "not_applicable")
            yield Figure(str(system), row[figure], row["scored"], expected, why=why)


def _ann(gate: Gate, tables: Tables) -> Iterator[Figure]:
    """For each chunking and embedder the worst figure over selectivities of the setting in force, filters within the search.

    The setting in force is the recommended one; where none reaches the recall wanted, the one that comes closest without a filter.
    """
    named = str(gate["metric"])
    metric = _ANN_COLUMNS.get(named, named)
    for chunking, table in sorted(tables.items(), key=str):
        points: dict[str, list[Row]] = defaultdict(list)
        for row in table.to_pylist():
            if row["index"] != "flat" and row["filtering"] != "post" and row["k"] == (gate["k"] or row["k"]):
                points[row["embedder"]].append(row)
        for embedder, rows in sorted(points.items()):
            plain = [r for r in rows if r["filtering"] == "none" and r["status"] == SCORED]
            best = min(plain, key=lambda r: (not r["recommended"], -r["recall_mean"], r["index"], r["setting"]), default=rows[0])
            # A second build is compared without a filter alone.
            own = [r for r in rows if (r["index"], r["setting"]) == (best["index"], best["setting"]) and r[metric] is not None] or [best]
            worst = (min if gate["at_least"] is not None else max)(own, key=lambda r: (r[metric] or 0.0, r["selectivity"]))
            scored, queries = worst["status"] == SCORED, worst["queries"] or 0
            why = "not_applicable" if worst["status"] == NOT_APPLICABLE else "missing_run"
            yield Figure(
                f"{chunking}/{embedder}",
                worst[metric] if scored else None,
                queries if scored else 0,
                0 if why == "not_applicable" else max(1, queries),
                why=why,
                detail=f"{worst['index']} {worst['setting']} at selectivity {worst['selectivity']:g}" if scored else worst["reason"],
            )


def _exclusion(gate: Gate, tables: Tables) -> Iterator[Figure]:
    """Mean over the split's questions with a filter of the share of their eligible gold that the filter excluded."""
    for table in tables.values():
        rows = [r for r in table.to_pylist() if r["split"] == gate["split"]]
        yield _mean(CORPUS, rows, "no_filter" if any(r["reason"] == "no_filter" for r in rows) else "not_applicable")


def _parsing(gate: Gate, tables: Tables) -> Iterator[Figure]:
    """One scope a parser and document class: the class's figure, with its worst pages and lost evidence named.

    A length ratio is judged by the document that is farthest out: a doubled page does not make up for a lost one.
    """
    metric = gate["metric"]
    for parser, table in sorted(tables.items(), key=str):
        classes: dict[str, list[Row]] = defaultdict(list)
        for row in table.to_pylist():
            if row["metric"] == metric and row["scope"] != "stratum":
                classes[row["doc_class"]].append(row)
        for doc_class, rows in sorted(classes.items()):
            own = [r for r in rows if r["scope"] == "document"]
            figure = next(r for r in rows if r["scope"] == "class")
            scored = [r for r in own if r["status"] == SCORED]
            expected = _expected(own)
            if metric == "length_ratio" and scored:
                farthest = (min if gate["at_least"] is not None else max)(scored, key=lambda r: (r["value"], r["doc_id"]))
                figure = {**figure, "value": farthest["value"], "lower": None, "upper": None, "detail": farthest["doc_id"]}
            yield Figure(
                f"{parser}/{doc_class}", figure["value"], len(scored), expected, figure["lower"], figure["upper"],
                "missing_run" if expected else "not_applicable", figure["detail"],
            )  # fmt: skip


def _dedup(gate: Gate, tables: Tables) -> Iterator[Figure]:
    """The figure at the setting in force: of the labelled pairs, or of the quotations that a merge moved."""
    for table in tables.values():
        for row in table.to_pylist():
            if row["used"]:
                metric = gate["metric"]
                items = row["merged_quotations" if metric == "evidence_loss" else "labelled_pairs"]
                absent = row["status"] == NOT_APPLICABLE or (row["status"] == SCORED and not items)
                scored = items if row["status"] == SCORED else 0
                why, expected = ("not_applicable", 0) if absent else ("missing_run", max(1, items))
                yield Figure(CORPUS, row[metric], scored, expected, row[f"{metric}_lower"], row[f"{metric}_upper"], why)


_READERS = {
    "system_summary": _summary,
    "system_costs": _costs,
    "ann_recall": _ann,
    "filter_exclusion": _exclusion,
    "parse_quality": _parsing,
    "dedup_quality": _dedup,
}


def _mean(scope: str, rows: Iterable[Row], why: str) -> Figure:
    rows = list(rows)
    values = [r["value"] for r in rows if r["status"] == SCORED]
    expected = _expected(rows)
    if not values:
        return Figure(scope, None, 0, expected, why="missing_run" if expected or not rows else why)
    bounded = min(values) >= 0 and max(values) <= 1
    lower, upper = bounded_mean(values) if bounded else (None, None)
    return Figure(scope, math.fsum(values) / len(values), len(values), expected, lower, upper)


def _expected(rows: Iterable[Row]) -> int:
    return sum(r["status"] in (SCORED, FAILED, MISSING) for r in rows)
