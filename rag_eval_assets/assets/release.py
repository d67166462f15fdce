"""Release assets: where evidence was lost, what was implicated, the summary, the comparison, the gates and the report.

What belongs here: which tables each decision reads. What does not: deciding (`scoring`), drawing (`report`).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.assets._answering import ASKED
from rag_eval_assets.assets._replaying import (
    answered_anew,
    diagnosed_anew,
    experiment_settings,
    experimented,
    replay_libraries,
    replay_settings,
    tried_settings,
)
from rag_eval_assets.assets._rows import join
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.report import experiments, judges, page, pictures
from rag_eval_assets.retrieval.passages import delivered
from rag_eval_assets.scoring import comparison as comparing
from rag_eval_assets.scoring import corrected, costs, funnel, gates, preference
from rag_eval_assets.scoring import slices as slicing
from rag_eval_assets.scoring import summary as summarising
from rag_eval_assets.scoring.costs import MEASURES
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.versions import SourceTree, digest
from rag_eval_assets.tables import TABLES

GOLDEN_IDENTITY = (
    "question_id", "text", "split", "reference_answer", "answerable", "relevant", "evidence", "nuggets", "entitlement", "filter",
)  # fmt: skip


SLICED = ("intent", "language", "kinds", "session", "file", "slices")
"""Further columns that hold slices."""


@table_asset(
    "system_specs",
    "golden_questions",
    "golden_evidence",
    "filter_exclusion",
    "chunks",
    "retrieval_runs",
    "system_retrievals",
    "contexts",
    "system_scores",
    kinds=["python"],
    columns={
        "chunks": ("doc_id", "start", "end", "parent_start", "parent_end"),
        "golden_questions": ("question_id", "split", "answerable"),
    },
    settings=lambda s, p: {"pass_metric": s.scoring.pass_metric, "retrievers": {n: r.parameters for n, r in s.retrievers.items()}},
)
def evidence_funnel(
    step: Step,
    system_specs: pa.Table,
    golden_questions: pa.Table,
    golden_evidence: pa.Table,
    filter_exclusion: pa.Table,
    chunks: pa.Table,
    retrieval_runs: pa.Table,
    system_retrievals: pa.Table,
    contexts: pa.Table,
    system_scores: pa.Table,
) -> Product:
    """For every evidence group the furthest stage it reached and the stage that lost it, with the table to open next."""
    rows = funnel.evidence_funnel(
        golden_questions.to_pylist(),
        golden_evidence.to_pylist(),
        filter_exclusion.to_pylist(),
        delivered(chunks),
        retrieval_runs,
        system_specs.to_pylist()[0],
        system_retrievals.to_pylist(),
        contexts.to_pylist(),
        system_scores.to_pylist(),
        retrievers={name: r.parameters for name, r in step.settings.retrievers.items()},
        pass_metric=step.settings.scoring.pass_metric,
    )
    return Product(rows, pictures={"funnel": pictures.funnel(rows)})


@table_asset(
    "system_specs",
    "system_retrievals",
    "contexts",
    "answers",
    "system_scores",
    "golden_questions",
    "golden_evidence",
    "filter_exclusion",
    kinds=["python"],
    columns={
        "filter_exclusion": ("question_id", "excluded_documents"),
        "golden_questions": (*ASKED, "answerable", "reference_answer", "relevant", "nuggets", "gold_context"),
    },
    settings=replay_settings,
    libraries=lambda s, p: replay_libraries(s),
)
def diagnosis(step: Step, **tables: pa.Table) -> Product:
    """Failed questions answered again with gold context, larger limits or a reranker, beside a control; which step is implicated."""
    kept, made, questions = diagnosed_anew(step, tables)
    return Product(join(kept, made), computed=questions)


@table_asset(
    "system_specs",
    "system_retrievals",
    "contexts",
    "answers",
    "golden_questions",
    "golden_evidence",
    kinds=["python"],
    settings=tried_settings,
    libraries=["PyStemmer"],
    pool="answer",
)
def replayed_answers(step: Step, **tables: pa.Table) -> Product:
    """Answers from the contexts that experiments try and the system did not answer; no rows unless settings ask for experiments."""
    kept, made, counts = answered_anew(step, tables)
    return Product(join(kept, made), computed=len(made), notes={f"replies_{what}": count for what, count in sorted(counts.items())})


@table_asset(
    "system_specs",
    "system_retrievals",
    "contexts",
    "answers",
    "replayed_answers",
    "golden_questions",
    "golden_evidence",
    kinds=["python"],
    settings=experiment_settings,
)
def replay_experiments(step: Step, **tables: pa.Table) -> Product:
    """What answers gain or lose by another top_k, token budget or order of the recorded passages; no rows unless settings ask for it."""
    rows = experimented(step, tables)
    return Product(rows, pictures={"experiments": experiments.curves(rows)} if rows else {})


@table_asset(
    "system_scores",
    "golden_questions",
    "golden_evidence",
    "unique_documents",
    kinds=["numpy"],
    columns={"unique_documents": ("doc_id", "doc_class")},
    settings=lambda s, p: {"slices": list(s.slices), "minimum_support": s.minimum_support},
    libraries=["scipy"],
)
def system_summary(
    step: Step, system_scores: pa.Table, golden_questions: pa.Table, golden_evidence: pa.Table, unique_documents: pa.Table
) -> Product:
    """Every metric by split and slice: headline with interval, observed mean, bounds and counts."""
    questions = slicing.derived(golden_questions.to_pylist(), system_scores, golden_evidence.to_pylist(), unique_documents.to_pylist())
    rows = summarising.summarise(system_scores, questions, step.settings.slices, step.settings.minimum_support)
    return Product(rows, pictures={"scores": pictures.scores_with_intervals(rows)})


@table_asset(
    "system_specs",
    "system_scores",
    "source_documents",
    "golden_questions",
    "baselines",
    kinds=["numpy"],
    columns={"source_documents": ("doc_id", "sha256"), "golden_questions": (*GOLDEN_IDENTITY, *SLICED)},
    settings=lambda s, p: (
        {**treatments(s, str(p)), "judges": s.judge_parameters, "policy": s.claims.model_dump() if s.claims else None} if p else {}
    ),
    libraries=["scipy"],
)
def comparison(
    step: Step,
    system_specs: pa.Table,
    system_scores: pa.Table,
    source_documents: pa.Table,
    golden_questions: pa.Table,
    baselines: pa.Table,
) -> Product:
    """Paired differences to the saved baselines of this system, with a decision or the evidence that is missing."""
    spec = system_specs.to_pylist()[0]
    mine = baselines.filter(pc.equal(baselines["system"], step.partition)).to_pylist()
    policy = step.settings.claims.model_dump() if step.settings.claims else None
    made_under = identities(spec, source_documents, golden_questions, step.settings, policy)
    return Product(comparing.compare(system_scores.to_pylist(), mine, golden_questions.to_pylist(), made_under, policy))


def treatments(settings: Settings, system: str) -> dict[str, Any]:
    """Settings beside its spec that shape what a system finds: they may differ between candidate and baseline, and are listed."""
    chosen = settings.retrievers.get(settings.systems[system].retriever)
    lanes = {name: settings.retrievers[name].parameters for name in chosen.of} if chosen else {}
    parts = {name: part.model_dump(mode="json") for name, part in (("cleaning", settings.cleaning), ("dedup", settings.dedup))}
    return {
        "index": {"retriever": chosen.parameters if chosen else None, **lanes},
        "parsers": {name: settings.parsers[name].model_dump(mode="json") for name in sorted(set(settings.parser_of.values()))},
        **parts,
    }


def identities(
    spec: dict[str, Any],
    source_documents: pa.Table,
    golden_questions: pa.Table,
    settings: Settings,
    policy: dict[str, Any] | None,
) -> dict[str, Any]:
    """What must match between a candidate and its baseline, and under `spec` the treatments, which may differ."""
    return {
        "corpus": digest(source_documents.select(["doc_id", "sha256"]).to_pylist()),
        "questions": digest(golden_questions.select(["question_id", "text", "split"]).to_pylist()),
        "labels": digest(golden_questions.select(list(GOLDEN_IDENTITY)).to_pylist()),
        "policy": digest(policy) if policy else None,
        "scorer": digest(
            SourceTree().closure(["rag_eval_assets.scoring.answers", "rag_eval_assets.scoring.ranking"]), settings.answer_schema
        ),
        "judge": digest(settings.judge_parameters),
        "aggregation": comparing.AGGREGATION,
        "spec": {k: v for k, v in spec.items() if not k.endswith("_sha256")} | treatments(settings, spec["system"]),
    }


@table_asset(
    "preferences",
    "judge_audit",
    kinds=["python"],
    columns={"judge_audit": ("judge", "metric", "measure", "value")},
    libraries=["scipy"],
)
def preference_summary(step: Step, preferences: pa.Table, judge_audit: pa.Table) -> Product:
    """How often each judge prefers one system's answers to another's, in each order, and how far the order decides."""
    compared = preferences.to_pylist()
    rows = preference.preference_summary(compared, judge_audit.to_pylist())
    bars = {
        f"preferences, {split}": judges.preference_bars(*([r for r in each if r["split"] == split] for each in (compared, rows)))
        for split in sorted({r["split"] for r in rows})
    }
    return Product(rows, pictures=bars)


@table_asset(
    "system_scores",
    "judge_audit",
    kinds=["python"],
    columns={"system_scores": ("metric", "split", "value", "status"), "judge_audit": ("judge", "metric", "measure", "value", "labels")},
)
def corrected_rates(step: Step, system_scores: pa.Table, judge_audit: pa.Table) -> Product:
    """What each judge approves of this system, corrected for the errors that its audit found, with an interval."""
    judged = system_scores.filter(pc.match_substring(system_scores["metric"], "@"))
    rows = corrected.corrected_rates(judged.to_pylist(), judge_audit.to_pylist())
    return Product(rows, pictures={"corrected_rates": judges.corrected_intervals({"": rows})} if rows else {})


@table_asset(
    "system_specs",
    "system_retrievals",
    "answers",
    kinds=["python"],
    columns={
        "system_retrievals": ("question_id", "split", "status", "seconds", "origin"),
        "answers": ("split", "status", "attempts", "seconds", "origin", *MEASURES),
    },
    settings=lambda s, p: {"gated": costs.gated_measures({name: gate.model_dump() for name, gate in s.gates.items()})},
)
def system_costs(step: Step, **tables: pa.Table) -> Product:
    """Percentiles of time, tokens and money of a system's answers, as recorded; a changed system is read anew, whatever it finds."""
    gated = costs.gated_measures({name: gate.model_dump() for name, gate in step.settings.gates.items()})
    return Product(costs.system_costs(tables["answers"].to_pylist(), tables["system_retrievals"].to_pylist(), gated))


@table_asset(
    "system_summary",
    "system_costs",
    "ann_recall",
    "filter_exclusion",
    "parse_quality",
    "dedup_quality",
    "comparison",
    "judge_audit",
    kinds=["python"],
    settings=lambda s, p: {"gates": {name: gate.model_dump() for name, gate in s.gates.items()}, "claims": _claims(s)},
    libraries=["scipy"],
)
def gate_results(
    step: Step,
    system_summary: dict[str, pa.Table],
    system_costs: dict[str, pa.Table],
    ann_recall: dict[str, pa.Table],
    filter_exclusion: pa.Table,
    parse_quality: dict[str, pa.Table],
    dedup_quality: pa.Table,
    comparison: dict[str, pa.Table],
    judge_audit: pa.Table,
) -> Product:
    """Every gate of evaluation.yaml in every scope and every claim of the policy: value, interval, threshold, decision and its reason."""
    tables = {
        "system_summary": system_summary,
        "system_costs": system_costs,
        "ann_recall": ann_recall,
        "filter_exclusion": {None: filter_exclusion},
        "parse_quality": parse_quality,
        "dedup_quality": {None: dedup_quality},
    }
    audit = judge_audit.to_pylist()
    rows = gates.judge_gates({name: gate.model_dump() for name, gate in step.settings.gates.items()}, tables, audit)
    return Product(rows + gates.judge_claims(_claims(step.settings), comparison, audit))


def _claims(settings: Settings) -> dict[str, Any]:
    return {name: claim.model_dump() for name, claim in settings.claims.claims.items()} if settings.claims else {}


@table_asset(
    "gate_results",
    "system_specs",
    "system_summary",
    "evidence_funnel",
    "diagnosis",
    "replay_experiments",
    "system_costs",
    "comparison",
    "chunk_sweep",
    "embedder_ranking",
    "retriever_comparison",
    "run_file_findings",
    "filter_quality",
    "filter_decision",
    "ann_recall",
    "parse_quality",
    "cleaning_quality",
    "dedup_quality",
    "golden_coverage",
    "label_holes",
    "golden_questions",
    "golden_evidence",
    "filter_exclusion",
    "documents",
    "contexts",
    "answers",
    "system_scores",
    "judge_audit",
    "preferences",
    "preference_summary",
    "corrected_rates",
    kinds=["html"],
    columns=page.READS,
    settings=lambda s, p: {"name": s.name, "pass_metric": s.scoring.pass_metric, "templates": page.template_identity()},
    modules=lambda s, p: ["rag_eval_assets.report.page"],
    libraries=["matplotlib", "jinja2"],
)
def release_report(step: Step, **tables: pa.Table | dict[str, pa.Table]) -> Product:
    """One self-contained page: decisions, scores with intervals, sweep, index, parsing, funnel, and every failure with its evidence."""
    shown = {name: dict(table) if isinstance(table, dict) else {None: table} for name, table in tables.items()}
    rows = {name: {key: table.to_pylist() for key, table in parts.items()} for name, parts in shown.items()}
    html = page.render(rows, name=step.settings.name, pass_metric=step.settings.scoring.pass_metric)
    decisions = {row["decision"] for row in rows["gate_results"][None]}
    worst = next((d for d in ("FAIL", "INSUFFICIENT_EVIDENCE", "PASS") if d in decisions), "no gates")
    return Product([{"name": "report", "facts_sha256": facts(rows), "decision": worst, "html": html}])


def facts(rows: dict[str, dict[str | None, list[dict[str, Any]]]]) -> str:
    """Hash of everything the report shows except timings, so that the report's version is that of its facts."""

    def content(name: str, part: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{k: v for k, v in row.items() if TABLES[name].role(k) == "content"} for row in part]

    return digest({name: {str(key): content(name, part) for key, part in parts.items()} for name, parts in rows.items()})
