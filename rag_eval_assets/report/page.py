"""The release report: one self-contained HTML page of what every table says.

What belongs here: putting the sections on the page. What does not: what a section shows (`sections`), how it looks
(`templates/`) and writing the page anywhere. The page loads nothing, runs nothing, names no time: the same rows give the same
bytes. Autoescaping is on for every template, and the page's own content security policy forbids scripts and all loading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from rag_eval_assets.report import facts, formats, pieces, sections
from rag_eval_assets.report.cleaning import cleaning
from rag_eval_assets.report.costs import costs
from rag_eval_assets.report.embedders import embedders
from rag_eval_assets.report.experiments import experiments
from rag_eval_assets.report.facts import Row
from rag_eval_assets.report.failures import failures
from rag_eval_assets.report.filters import filters
from rag_eval_assets.report.judges import judges
from rag_eval_assets.report.parsing import parse_failures, parsing
from rag_eval_assets.report.retrievers import retrievers

READS: dict[str, tuple[str, ...]] = {
    "system_specs": ("system", "chunking", "retriever", "reranker", "depth", "top_k", "token_budget", "reader"),
    "system_summary": (
        "metric", "k", "cutoff", "unit", "stage", "split", "slice", "slice_value", "mean", "lower", "upper", "observed", "if_failed_zero",
        "if_failed_one", "questions", "scored", "failed", "not_applicable", "missing", "supported", "method",
    ),
    "gate_results": (
        "gate", "scope", "value", "lower", "upper", "threshold", "direction", "questions", "coverage", "decision", "decision_reason",
        "starting_value", "detail",
    ),
    "chunk_sweep": (
        "chunking", "retriever", "metric", "k", "cutoff", "unit", "questions", "failed", "mean", "lower", "upper", "difference",
        "difference_lower", "difference_upper", "chunks", "index_tokens", "embedding_tokens",
        "vector_bytes", "verdict", "detail",
    ),
    "embedder_ranking": (
        "chunking", "language", "metric", "k", "retriever", "embedder", "place", "questions", "failed", "mean", "lower", "upper",
        "difference", "difference_lower", "difference_upper", "verdict", "warning",
    ),
    "retriever_comparison": (
        "retriever", "against", "split", "metric", "k", "cutoff", "unit", "measure", "questions", "failed", "missing", "mean",
        "against_mean", "difference", "lower", "upper", "unjudged", "against_unjudged", "model_tokens",
        "seconds_p50", "seconds_p95", "decision", "detail",
    ),
    "run_file_findings": ("retriever", "chunking", "file", "line", "finding", "severity", "count", "total", "share", "detail"),
    "filter_quality": ("measure", "scope", "value", "numerator", "denominator", "lower", "upper", "status", "reason"),
    "filter_decision": (
        "retriever", "against", "metric", "k", "boost", "questions", "gain", "lower", "upper", "recall_loss", "exclusion", "decision",
        "detail",
    ),
    "ann_recall": (
        "embedder", "index", "setting", "filtering", "selectivity", "k", "recall_mean", "recall_p5", "recall_by_id", "agreement",
        "ndcg_cost", "distance_computations", "bytes", "recommended", "status", "reason",
    ),
    "parse_quality": (
        "scope", "doc_id", "doc_class", "stratum", "metric", "item", "value", "lower", "upper", "errors", "units", "documents",
        "confusions", "expected", "found", "policy", "dpi", "status", "reason",
    ),
    "parsed_documents": ("doc_id", "doc_class", "status", "reason", "detail"),
    "documents": ("doc_id", "doc_class", "parser", "status", "reason", "detail"),
    "near_duplicates": ("row", "relation", "kept"),
    "cleaning_quality": ("measure", "scope", "value", "numerator", "denominator", "lower", "upper", "status", "reason", "detail"),
    "dedup_quality": (
        "permutations", "bands", "threshold", "labelled_pairs", "merged_quotations", "lost_quotations", "used", "status", "reason",
        *(f"{name}{end}" for name in ("precision", "recall", "false_merge_rate", "missed_merge_rate") for end in ("", "_lower", "_upper")),
    ),
    "golden_coverage": ("kind", "split", "intent", "doc_class", "language", "other", "questions", "value", "detail"),
    "label_holes": ("question_id", "split", "doc_id", "rank", "text"),
    "golden_questions": ("question_id", "text", "reference_answer", "answerable", "split", "language", "intent", "kinds"),
    "golden_evidence": (
        "question_id", "group", "doc_id", "kept_doc_id", "quotation", "start", "end", "match", "similarity", "lost_at", "found_text",
        "entitled",
    ),
    "evidence_funnel": (
        "question_id", "split", "group", "furthest", "lost_at", "open_next", "cited", "best_rank", "status", "reason", "detail",
    ),
    "contexts": ("question_id", "passages", "tokens", "cut_by_top_k", "cut_by_budget", "status", "reason"),
    "answers": ("question_id", "answer", "refused", "citations", "status", "reason", "detail"),
    "system_scores": ("question_id", "split", "metric", "value", "status", "reason", "explanation"),
    "diagnosis": ("question_id", "split", "intervention", "recovered", "label", "why", "reason"),
    "system_costs": (
        "split", "measure", "stage", "p50", "p95", "p99", "mean", "total", "run_p50", "run_p95", "run_p99", "run_mean", "run_total",
        "questions", "scored", "failed", "status",
    ),
    "replay_experiments": (
        "experiment", "point", "place", "as_it_is", "metric", "questions", "failed", "mean", "lower", "upper", "tokens", "paired",
        "difference", "difference_lower", "difference_upper", "changed", "generated", "reused", "status", "reason", "detail",
    ),
    "comparison": (
        "baseline", "role", "claim_name", "claim", "margin", "metric", "k", "cutoff", "unit", "split", "slice", "slice_value", "difference",
        "lower", "upper", "detectable", "paired", "missing", "excluded", "decision", "decision_reason", "what_changed", "status", "reason",
        "detail",
    ),
    "judge_audit": ("judge", "metric", "measure", "value", "lower", "upper", "labels", "may_gate", "status", "reason"),
    "preferences": ("judge", "candidate", "other", "split", "when_first", "when_second", "status"),
    "preference_summary": (
        "judge", "candidate", "other", "split", "measure", "value", "lower", "upper", "questions", "failed", "status", "reason",
    ),
    "corrected_rates": (
        "metric", "split", "method", "apparent", "questions", "sensitivity", "approved_labels", "specificity", "rejected_labels", "value",
        "lower", "upper", "status", "reason",
    ),
}  # fmt: skip
"""The tables the page reads, each with the columns it reads. Of parsed_documents rows that did not fail may be left out."""

_TEMPLATES = "templates"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rag_eval_assets.report", _TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plural"] = formats.plural
    return environment


def template_identity() -> str:
    """SHA-256 over the names and texts of the templates: they shape the page and are no Python module."""
    identity = hashlib.sha256()
    folder = files("rag_eval_assets.report") / _TEMPLATES
    for path in sorted(folder.iterdir(), key=lambda p: p.name):
        identity.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return identity.hexdigest()


def render(tables: Mapping[str, Mapping[str | None, Sequence[Row]]], *, name: str, pass_metric: str = "correct") -> str:
    """The page of the evaluation `name` from `tables`: asset -> partition (None without) -> rows as in `rag_eval_assets.tables`.

    A table that is missing or empty leaves its section saying so. `pass_metric` is the answer metric that says which questions
    failed. The page is about the release split where that was scored, and says which split it shows.
    """
    split = facts.headline_split(pieces.parts_of(tables, "system_summary").values())
    questions = [r for r in pieces.rows_of(tables, "golden_questions") if r["split"] == split]
    shown: dict[str, Any] = {
        "name": formats.label(name, 120),
        "split": split,
        "questions": len(questions),
        "unanswerable": sum(not r["answerable"] for r in questions),
        "documents": len({r["doc_id"] for r in pieces.rows_of(tables, "documents") if r["status"] == "ok"}),
        "pass_metric": formats.metric_name(pass_metric),
        "gates": sections.gates(tables),
        "scores": sections.scores(tables, split, pass_metric),
        "sweep": sections.sweep(tables),
        "retrievers": retrievers(tables),
        "embedders": embedders(tables),
        "filters": filters(tables),
        "index": sections.index(tables),
        "parsing": parsing(tables),
        "funnels": sections.funnels(tables, split),
        "experiments": experiments(tables),
        "costs": costs(tables, split),
        "judges": judges(tables, split),
        "baselines": sections.baselines(tables, split),
        "slices": sections.slices(tables, split, pass_metric),
        "golden": sections.golden(tables, split),
        "parse_failures": parse_failures(tables),
        "failures": failures(tables, split, pass_metric),
        "cleaning": cleaning(tables),
    }
    return _environment().get_template("page.html.j2").render(shown)
