"""Generation assets: systems under test, their rankings, contexts, answers and scores.

What belongs here: which part of a system each stage depends on, so that a changed prompt calls no retriever. What does not:
assembling, reading (`generation`) and judging (`scoring`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets import coverage
from rag_eval_assets.assets._answering import ASKED, answer, answer_keys, builtin_spec, reader_limits
from rag_eval_assets.assets._external import call_limits, external_rankings, external_spec
from rag_eval_assets.assets._judging import (
    judge_answers,
    judge_settings,
    judged_work,
    open_judge,
    open_scorer,
    pair_cases,
    pair_id,
    pairs_of,
    prefer,
)
from rag_eval_assets.assets._retrievers import retrievers_of
from rag_eval_assets.assets._rows import by, join
from rag_eval_assets.assets.retrieval import _scoring
from rag_eval_assets.generation import context, rankings
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.report import judges as drawings
from rag_eval_assets.retrieval.filters import FILTER_COLUMNS
from rag_eval_assets.scoring import answers as answer_metrics
from rag_eval_assets.scoring import entailment, judges, preference, ranking
from rag_eval_assets.scoring.judging import Open
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.versions import digest
from rag_eval_assets.tables.groups import Values

RETRIEVAL_PART = ("system", "kind", "chunking", "retriever", "reranker", "depth", "index_version")
CONTEXT_PART = ("top_k", "token_budget", "ordering")


def resolve_system(folder: Folder, name: str) -> dict[str, Any]:
    """One system of evaluation.yaml as a row of system_specs. Raises SettingsError for a class or a log that cannot be used."""
    settings = folder.settings
    system = settings.systems[name]
    spec = {"system": name, "kind": system.kind, "reranker": None, "require_citations": system.require_citations}
    if system.kind == "builtin":
        spec |= builtin_spec(settings, name)
        retriever = retrievers_of(settings, system.chunking)[str(system.retriever)]
    else:
        spec |= external_spec(folder, name)
        retriever = {"parameters": spec["parameters"]}
    # Where a class or a log is one, its version is that of its answers too.
    apart = (*RETRIEVAL_PART, *CONTEXT_PART)
    return {
        **spec,
        "retrieval_sha256": digest({k: spec[k] for k in RETRIEVAL_PART}, retriever),
        "answer_sha256": digest({k: v for k, v in spec.items() if k not in apart}, spec["index_version"]),
    }


@table_asset(kinds=["yaml"])
def system_specs(step: Step) -> Product:
    """One system under test, every parameter resolved."""
    return Product([resolve_system(step.folder, step.partition)])


@table_asset(
    "system_specs",
    "golden_questions",
    "retrieval_runs",
    "unique_documents",
    kinds=["python"],
    columns={
        "golden_questions": ("question_id", "split", "text", "entitlement"),
        "unique_documents": (*FILTER_COLUMNS, "text", "absorbed"),
        "system_specs": (*RETRIEVAL_PART, "retrieval_sha256"),
    },
    settings=call_limits,
)
def system_retrievals(
    step: Step, system_specs: pa.Table, golden_questions: pa.Table, retrieval_runs: pa.Table, unique_documents: pa.Table
) -> Product:
    """The ranking this system works from, for every question, at its depth."""
    spec, questions = system_specs.to_pylist()[0], golden_questions.to_pylist()
    if spec["kind"] != "builtin":
        rows, asked = external_rankings(step, spec, questions, unique_documents)
        return Product(rows, computed=asked)
    return Product(rankings.system_rankings(spec, questions, retrieval_runs, Values(unique_documents, "doc_id", "text")))


@table_asset(
    "system_retrievals",
    "golden_questions",
    "golden_evidence",
    kinds=["python"],
    columns={
        "system_retrievals": ("question_id", "rank", "doc_id", "text"),
        "golden_questions": ("question_id", "split", "answerable"),
        "golden_evidence": ("question_id", "doc_id", "kept_doc_id"),
    },
)
def label_holes(step: Step, system_retrievals: pa.Table, golden_questions: pa.Table, golden_evidence: pa.Table) -> Product:
    """Documents among the first ten of each ranking that nobody judged: a recall that does not count them may be wrong either way."""
    return Product(coverage.label_holes(golden_questions.to_pylist(), golden_evidence.to_pylist(), system_retrievals.to_pylist()))


@table_asset("system_specs", "system_retrievals", kinds=["python"], columns={"system_specs": CONTEXT_PART})
def contexts(step: Step, system_specs: pa.Table, system_retrievals: pa.Table) -> Product:
    """What is delivered to the reader: the first top_k passages within the token budget, and what was cut."""
    return Product(context.assemble(system_retrievals.to_pylist(), system_specs.to_pylist()[0]))


@table_asset(
    "system_specs",
    "contexts",
    "golden_questions",
    kinds=["python"],
    columns={"golden_questions": ASKED},
    settings=reader_limits,
    libraries=["PyStemmer"],
    pool="answer",
)
def answers(step: Step, system_specs: pa.Table, contexts: pa.Table, golden_questions: pa.Table) -> Product:
    """The system's answer to every question with its citations; only questions whose context changed are answered again."""
    spec, delivered = system_specs.to_pylist()[0], by(contexts.to_pylist(), "question_id")
    wanted = answer_keys(step, spec, [(question, delivered[question["question_id"]]) for question in golden_questions.to_pylist()])
    kept, todo = step.reuse(wanted)
    keys = {question["question_id"]: key for key, (question, _) in wanted.items()}
    counts: Counter[str] = Counter()
    made = answer(step, spec, todo, counts)
    rows = [{**row, "work_key": keys[row["question_id"]]} for row in made]
    return Product(join(kept, rows), computed=len(rows), notes={f"replies_{what}": count for what, count in sorted(counts.items())})


@table_asset(
    "contexts",
    "answers",
    "golden_questions",
    kinds=["ragas", "onnx"],
    columns={
        "golden_questions": ("question_id", "split", "text", "language", "answerable", "reference_answer"),
        "answers": ("question_id", "answer", "refused", "citations", "status", "reason", "detail"),
        "contexts": ("question_id", "passages", "context_sha256", "status", "reason"),
    },
    settings=lambda s, p: {**judge_settings(s), "scorers": s.scorer_parameters},
    libraries=lambda s, p: ["ragas", *(["onnxruntime", "tokenizers"] if s.scorers else [])],
    pool="answer",
)
def judged_scores(step: Step, contexts: pa.Table, answers: pa.Table, golden_questions: pa.Table) -> Product:
    """What judges and entailment scorers say of each answer; an unchanged answer, context and judge is not judged again."""
    questions, delivered, given = (
        golden_questions.to_pylist(),
        by(contexts.to_pylist(), "question_id"),
        by(answers.to_pylist(), "question_id"),
    )
    wanted = judged_work(step, questions, delivered, given)
    kept, todo = step.reuse(wanted)
    rows, counts = judge_answers(step, todo, questions, delivered, given)
    keys = {(question, metric): key for key, (question, metric) in wanted.items()}
    made = [{**row, "work_key": keys[row["question_id"], row["metric"]]} for row in rows]
    return Product(join(kept, made), computed=len(made), notes={f"replies_{what}": count for what, count in sorted(counts.items())})


@table_asset(
    "system_specs",
    "system_retrievals",
    "contexts",
    "answers",
    "golden_questions",
    "golden_evidence",
    "judged_scores",
    kinds=["numpy", "ragas"],
    settings=_scoring,
    libraries=["numpy", "rapidfuzz", "ragas"],
)
def system_scores(
    step: Step,
    system_specs: pa.Table,
    system_retrievals: pa.Table,
    contexts: pa.Table,
    answers: pa.Table,
    golden_questions: pa.Table,
    golden_evidence: pa.Table,
    judged_scores: pa.Table,
) -> Product:
    """Every metric of every question: ranking, context, answer and citations, each with its status."""
    questions, evidence = golden_questions.to_pylist(), golden_evidence.to_pylist()
    chosen = step.settings.scoring
    # Tokens are never guessed: a ranking from outside that does not count them is not scored at token budgets.
    uncounted = pc.sum(pc.and_(pc.greater(system_retrievals["rank"], 0), pc.is_null(system_retrievals["tokens"]))).as_py()
    budgets = () if uncounted else chosen.token_budgets
    ranked = ranking.score_rankings(system_retrievals, questions, evidence, ks=chosen.ks, token_budgets=budgets, by=None).to_pylist()
    rows, delivered, given = [], contexts.to_pylist(), answers.to_pylist()
    rows += answer_metrics.score_system(
        questions,
        delivered,
        given,
        evidence,
        require_citations=bool(system_specs["require_citations"][0].as_py()),
        answer_schema=step.settings.answer_schema,
    )
    rows += judged_scores.drop_columns("work_key").to_pylist()
    return Product([{**row, "stage": "ranking", "explanation": None} for row in ranked] + rows)


@table_asset(
    "answers",
    "golden_questions",
    kinds=["python"],
    columns={
        "golden_questions": ("question_id", "text", "split", "language", "answerable"),
        "answers": ("question_id", "answer", "refused", "status", "reason", "detail"),
    },
    settings=lambda s, p: {**judge_settings(s), "pairs": pairs_of(s)},
    pool="answer",
)
def preferences(step: Step, answers: dict[str, pa.Table], golden_questions: pa.Table) -> Product:
    """Which of two systems' answers each judge with pairs prefers, question by question, asked in both orders."""
    said = {system: by(table.to_pylist(), "question_id") for system, table in answers.items()}
    wanted = pair_cases(step, golden_questions.to_pylist(), said)
    kept, todo = step.reuse(wanted)
    rows, counts = prefer(step, todo)
    keys = {pair_id(case): key for key, case in wanted.items()}
    made = [{**row, "work_key": keys[pair_id(row)]} for row in rows]
    return Product(join(kept, made), computed=len(made), notes={f"replies_{what}": count for what, count in sorted(counts.items())})


@table_asset(
    "quality_labels",
    "golden_questions",
    kinds=["python"],
    columns={"golden_questions": ("question_id", "text")},
    settings=lambda s, p: {
        **judge_settings(s),
        "paired": sorted(pairs_of(s)),
        "scorers": {name: {**part, "threshold": s.scorers[name].threshold} for name, part in s.scorer_parameters.items()},
    },
    libraries=lambda s, p: ["scipy", "ragas", *(["onnxruntime", "tokenizers"] if s.scorers else [])],
    pool="answer",
)
def judge_audit(step: Step, quality_labels: pa.Table, golden_questions: pa.Table) -> Product:
    """Every configured judge against human labels; a judge without a passing audit may report but not gate."""
    labels, asked = quality_labels.to_pylist(), {q["question_id"]: q["text"] for q in golden_questions.to_pylist()}

    def opened(name: str) -> Open:
        return open_judge(step, name)[1]

    rows = judges.judge_audit(labels, step.settings.judge_parameters, opened)
    rows += preference.audit(labels, asked, pairs_of(step.settings), opened)
    for name, scorer in step.settings.scorers.items():
        rows += entailment.audit(labels, name, open_scorer(step, name), scorer.threshold)
    drawn = any(row["reason"] != "no_judge" for row in rows)
    return Product(rows, pictures={"audit": drawings.audit_rates(rows)} if drawn else {})
