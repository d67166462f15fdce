"""Generation assets: systems under test, their rankings, contexts, answers and scores.

What belongs here: which part of a system each stage depends on, so that a changed prompt calls no retriever. What does not:
assembling, reading (`generation`) and judging (`scoring`).
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.assets._answering import answer, builtin_spec, reader_limits
from rag_eval_assets.assets._external import external_rankings, external_spec
from rag_eval_assets.assets._judging import judge_settings, open_judge, open_vectors, pair_cases, pair_id, pairs_of, prefer
from rag_eval_assets.assets._rows import by, join
from rag_eval_assets.assets.retrieval import _scoring, retrievers_of
from rag_eval_assets.generation import context, rankings
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.scoring import answers as answer_metrics
from rag_eval_assets.scoring import judged, judges, preference, ranking
from rag_eval_assets.scoring.judging import Open
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.versions import digest, work_key

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
        "unique_documents": ("doc_id", "text", "absorbed"),
        "system_specs": (*RETRIEVAL_PART, "retrieval_sha256"),
    },
)
def system_retrievals(
    step: Step, system_specs: pa.Table, golden_questions: pa.Table, retrieval_runs: pa.Table, unique_documents: pa.Table
) -> Product:
    """The ranking this system works from, for every question, at its depth."""
    spec, questions = system_specs.to_pylist()[0], golden_questions.to_pylist()
    if spec["kind"] != "builtin":
        rows, asked = external_rankings(step, spec, questions, unique_documents.to_pylist())
        return Product(rows, computed=asked)
    text = dict(zip(unique_documents["doc_id"].to_pylist(), unique_documents["text"].to_pylist(), strict=True))
    return Product(rankings.system_rankings(spec, questions, retrieval_runs, text))


@table_asset("system_specs", "system_retrievals", kinds=["python"], columns={"system_specs": CONTEXT_PART})
def contexts(step: Step, system_specs: pa.Table, system_retrievals: pa.Table) -> Product:
    """What is delivered to the reader: the first top_k passages within the token budget, and what was cut."""
    return Product(context.assemble(system_retrievals.to_pylist(), system_specs.to_pylist()[0]))


@table_asset(
    "system_specs",
    "contexts",
    "golden_questions",
    kinds=["python"],
    columns={"golden_questions": ("question_id", "text", "split", "language")},
    settings=reader_limits,
    libraries=["PyStemmer"],
    pool="answer",
)
def answers(step: Step, system_specs: pa.Table, contexts: pa.Table, golden_questions: pa.Table) -> Product:
    """The system's answer to every question with its citations; only questions whose context changed are answered again."""
    spec, delivered = system_specs.to_pylist()[0], by(contexts.to_pylist(), "question_id")
    never = uuid.uuid4().hex if spec["kind"] == "class" and spec["index_version"] is None else None
    wanted = {}
    for question in golden_questions.to_pylist():
        found = delivered[question["question_id"]]
        wanted[work_key(step.code, spec["answer_sha256"], never, question, found["context_sha256"], found["status"])] = question
    kept, todo = step.reuse(wanted)
    keys = {q["question_id"]: key for key, q in wanted.items()}
    counts: Counter[str] = Counter()
    made = answer(step, spec, [(question, delivered[question["question_id"]]) for question in todo], counts)
    rows = [{**row, "work_key": keys[row["question_id"]]} for row in made]
    return Product(join(kept, rows), computed=len(rows), notes={f"replies_{what}": count for what, count in sorted(counts.items())})


@table_asset(
    "system_specs",
    "system_retrievals",
    "contexts",
    "answers",
    "golden_questions",
    "golden_evidence",
    kinds=["numpy", "ragas"],
    settings=lambda s, p: {**_scoring(s, p), "judges": s.judge_parameters},
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
    counts: Counter[str] = Counter()
    for name, judge in step.settings.judge_parameters.items():
        model, opened = open_judge(step, name)
        embed = open_vectors(step, name)
        rows += judged.judged_scores(
            questions, given, delivered, name=name, judge=judge, open_judge=opened, embed=embed, on_done=step.progress
        )
        counts.update(model.counts)
    notes = {f"replies_{what}": count for what, count in sorted(counts.items())}
    return Product([{**row, "stage": "ranking", "explanation": None} for row in ranked] + rows, notes=notes)


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
    settings=lambda s, p: {**judge_settings(s), "paired": sorted(pairs_of(s))},
    libraries=["scipy", "ragas"],
    pool="answer",
)
def judge_audit(step: Step, quality_labels: pa.Table, golden_questions: pa.Table) -> Product:
    """Every configured judge against human labels; a judge without a passing audit may report but not gate."""
    labels, asked = quality_labels.to_pylist(), {q["question_id"]: q["text"] for q in golden_questions.to_pylist()}

    def opened(name: str) -> Open:
        return open_judge(step, name)[1]

    rows = judges.judge_audit(labels, step.settings.judge_parameters, opened)
    return Product(rows + preference.audit(labels, asked, pairs_of(step.settings), opened))
