"""Retrieval assets: filters, rankings, scores and the chunk sweep.

What belongs here: which (question, retriever) pairs are expected, what a ranking's row depends on, what run files are held against.
What does not: searching (`retrieval`), scoring (`scoring`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.assets._ranking import as_stated, gold_of, imported_of, ranked
from rag_eval_assets.assets._retrievers import (
    ASKED,
    PREDICATES,
    document_columns,
    retrievers_of,
    runs_libraries,
    runs_modules,
    runs_settings,
)
from rag_eval_assets.assets.corpus import scan_corpus
from rag_eval_assets.assets.embedding import embedders_of
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.partitions import parse_chunking
from rag_eval_assets.report import embedders as embedder_pictures
from rag_eval_assets.report import pictures
from rag_eval_assets.retrieval import filters, runs, soft_filter
from rag_eval_assets.retrieval.corpus import named_units
from rag_eval_assets.run_files import read_runs
from rag_eval_assets.run_findings import refuse_errors, told
from rag_eval_assets.run_findings import run_file_findings as findings_of
from rag_eval_assets.scoring import embedder_ranking as ranking_of_embedders
from rag_eval_assets.scoring import filter_decision as decided
from rag_eval_assets.scoring import filter_quality as quality
from rag_eval_assets.scoring import ranking, retrievers, sweep
from rag_eval_assets.settings import Settings
from rag_eval_assets.tables import SPLITS


@table_asset("golden_questions", "golden_evidence", "documents", kinds=["python"], columns={"documents": (*PREDICATES, "status")})
def filter_exclusion(step: Step, golden_questions: pa.Table, golden_evidence: pa.Table, documents: pa.Table) -> Product:
    """For every question: eligible gold, and how much of it the question's own filter excludes."""
    rows = filters.filter_exclusion(golden_questions.to_pylist(), golden_evidence.to_pylist(), documents.to_pylist())
    return Product(rows)


@table_asset(
    "filter_exclusion",
    "quality_labels",
    "golden_evidence",
    "documents",
    kinds=["python"],
    columns={
        "documents": (*PREDICATES, "status"),
        "golden_evidence": ("question_id", "kept_doc_id", "grade", "eligible"),
    },
    libraries=["scipy"],
)
def filter_quality(
    step: Step, filter_exclusion: pa.Table, quality_labels: pa.Table, golden_evidence: pa.Table, documents: pa.Table
) -> Product:
    """False exclusion by split, field and document; precision and recall of filters against labels, and gold lost to their errors."""
    exclusion, labels, evidence = (table.to_pylist() for table in (filter_exclusion, quality_labels, golden_evidence))
    return Product(quality.filter_quality(exclusion, labels, evidence, documents.to_pylist(), passes=filters.passes))


def _run_files(settings: Settings) -> dict[str, str]:
    return {name: r.path for name, r in settings.retrievers.items() if r.path is not None}


@table_asset(kinds=["file"], settings=lambda s, p: {"paths": _run_files(s)})
def imported_runs(step: Step) -> Product:
    """Rankings of retrievers that run elsewhere, as their files give them."""
    paths = _run_files(step.settings)
    return Product(read_runs(step.folder.path, paths, {row["doc_id"] for row in scan_corpus(step)} if paths else set()))


def _asked_splits(settings: Settings, chunking: str) -> Sequence[str]:
    """Splits whose questions are searched in a chunking: all where a system retrieves from it."""
    return SPLITS if any(system.chunking == chunking for system in settings.systems.values()) else (runs.TUNED_ON,)


def _findings(step: Step, hits: pa.Table, questions: pa.Table, chunks: Mapping[str, pa.Table], documents: pa.Table) -> list[dict[str, Any]]:
    """Findings on the run files whose chunking is in `chunks`."""
    chosen = {name: r.chunkings[0] for name, r in step.settings.retrievers.items() if r.path is not None and r.chunkings[0] in chunks}
    splits = dict(zip(*(questions[name].to_pylist() for name in ("question_id", "split")), strict=True))
    merged = documents.select(["doc_id", "absorbed"]).to_pylist() if chosen else []
    units = {key: named_units(*(chunks[key][name].to_pylist() for name in ("chunk_id", "doc_id")), merged) for key in chosen.values()}
    survivors = {name: row["doc_id"] for row in merged for name in (*row["absorbed"], row["doc_id"])}
    return findings_of(hits.to_pylist(), chosen, splits, partial(_asked_splits, step.settings), units.__getitem__, survivors)


@table_asset(
    "imported_runs",
    "golden_questions",
    "chunks",
    "unique_documents",
    kinds=["python"],
    columns={
        "golden_questions": ("question_id", "split"),
        "chunks": ("chunk_id", "doc_id"),
        "unique_documents": ("doc_id", "absorbed"),
    },
    settings=lambda s, p: {name: [r.chunkings[0], _asked_splits(s, r.chunkings[0])] for name, r in s.retrievers.items() if r.path},
)
def run_file_findings(
    step: Step, imported_runs: pa.Table, golden_questions: pa.Table, chunks: dict[str, pa.Table], unique_documents: pa.Table
) -> Product:
    """What run files name that is not there or was merged away: questions, chunks, documents; and questions that they lack."""
    rows = _findings(step, imported_runs, golden_questions, chunks, unique_documents)
    return Product(rows, notes={f"{row['retriever']}_{row['finding']}": told(row) for row in rows})


@table_asset(
    "chunks",
    "chunk_embeddings",
    "unique_documents",
    "golden_questions",
    "golden_evidence",
    "imported_runs",
    kinds=["bm25s", "faiss"],
    columns={
        "unique_documents": document_columns,
        "golden_questions": (*ASKED, "answerable", "relevant"),
    },
    settings=runs_settings,
    libraries=runs_libraries,
    modules=runs_modules,
    pool="retrieve",
)
def retrieval_runs(
    step: Step,
    chunks: pa.Table,
    chunk_embeddings: pa.Table,
    unique_documents: pa.Table,
    golden_questions: pa.Table,
    golden_evidence: pa.Table,
    imported_runs: pa.Table,
) -> Product:
    """What every retriever finds for every question in this chunking; release questions only where a system retrieves from it."""
    refuse_errors(_findings(step, imported_runs, golden_questions, {step.partition: chunks}, unique_documents))
    chosen = runs_settings(step.settings, step.partition)
    splits = _asked_splits(step.settings, step.partition)
    questions = [q for q in golden_questions.to_pylist() if q["split"] in splits]
    gold = gold_of(chosen["retrievers"], questions, golden_evidence)
    return ranked(step, chosen["retrievers"], questions, chunks, chunk_embeddings, unique_documents, gold, imported_of(imported_runs))


@table_asset(
    "chunks",
    "chunk_embeddings",
    "unique_documents",
    "golden_questions",
    "retrieval_runs",
    kinds=["bm25s", "faiss"],
    columns={
        "unique_documents": document_columns,
        "golden_questions": ASKED,
        "retrieval_runs": ("retriever", "parameters"),
    },
    settings=runs_settings,
    libraries=runs_libraries,
    modules=runs_modules,
    pool="retrieve",
)
def unfiltered_runs(
    step: Step,
    chunks: pa.Table,
    chunk_embeddings: pa.Table,
    unique_documents: pa.Table,
    golden_questions: pa.Table,
    retrieval_runs: pa.Table,
) -> Product:
    """Questions with a relevance filter searched without it, entitlement as ever, in chunkings that systems retrieve from."""
    chosen = runs_settings(step.settings, step.partition)
    filtered = [{**q, "filter": None} for q in filters.with_filter(golden_questions.to_pylist())]
    specs = as_stated(chosen["retrievers"], retrieval_runs)
    return ranked(step, specs, filtered if chosen["every_split"] else [], chunks, chunk_embeddings, unique_documents)


def _scoring(settings: Settings, _: str | None) -> dict[str, Any]:
    return {"ks": list(settings.scoring.ks), "token_budgets": list(settings.scoring.token_budgets)}


@table_asset("retrieval_runs", "golden_questions", "golden_evidence", kinds=["numpy"], settings=_scoring, libraries=["numpy"])
def retrieval_scores(step: Step, retrieval_runs: pa.Table, golden_questions: pa.Table, golden_evidence: pa.Table) -> Product:
    """Ranking metrics of every question and retriever: by document, chunk and evidence group, at ranks and at token budgets."""
    questions, evidence = _asked(retrieval_runs, golden_questions), _asked(retrieval_runs, golden_evidence)
    return Product(
        ranking.score_rankings(
            retrieval_runs,
            questions,
            evidence,
            ks=step.settings.scoring.ks,
            token_budgets=step.settings.scoring.token_budgets,
            by="retriever",
        )
    )


def _decision(settings: Settings, chunking: str | None) -> dict[str, Any]:
    return {
        "limits": settings.filter_decision.model_dump(),
        "retrievers": retrievers_of(settings, chunking),
        "used": any(system.chunking == chunking for system in settings.systems.values()),
        "depth": settings.scoring.depth,
    }


RANKED = ("question_id", "retriever", "rank", "chunk_id", "doc_id", "start", "end", "tokens", "score", "status", "reason")


@table_asset(
    "retrieval_runs",
    "unfiltered_runs",
    "filter_exclusion",
    "golden_questions",
    "golden_evidence",
    kinds=["numpy"],
    columns={"retrieval_runs": RANKED, "unfiltered_runs": RANKED},
    settings=_decision,
    libraries=["numpy", "scipy"],
)
def filter_decision(
    step: Step,
    retrieval_runs: pa.Table,
    unfiltered_runs: pa.Table,
    filter_exclusion: pa.Table,
    golden_questions: pa.Table,
    golden_evidence: pa.Table,
) -> Product:
    """Whether a relevance filter may be hard, by retriever: under it, without it and with it as a boost, on release questions."""
    chosen = _decision(step.settings, step.partition)
    questions = filters.with_filter(golden_questions.to_pylist()) if chosen["used"] else []
    soft = partial(soft_filter.boosted, depth=chosen["depth"])
    return Product(
        decided.filter_decision(
            decided.Rankings.of(questions, retrieval_runs, unfiltered_runs, soft),
            chosen["retrievers"],
            questions,
            golden_evidence.to_pylist(),
            filter_exclusion.to_pylist(),
            decided.Limits(**chosen["limits"]),
            unavailable=None if chosen["used"] else "not_used",
        )
    )


def _gain(settings: Settings, _: str | None) -> dict[str, Any]:
    return {
        "limits": {"metric": settings.sweep.metric, "k": settings.sweep.k, **settings.gain.model_dump()},
        "ks": list(settings.scoring.ks),
    }


@table_asset(
    "retrieval_runs",
    "retrieval_scores",
    "golden_questions",
    "golden_evidence",
    kinds=["numpy"],
    settings=_gain,
    libraries=["numpy", "scipy"],
)
def retriever_comparison(
    step: Step, retrieval_runs: pa.Table, retrieval_scores: pa.Table, golden_questions: pa.Table, golden_evidence: pa.Table
) -> Product:
    """Each retriever by itself and against those it is built on: means, ties, unjudged hits, paired gain, the decision."""
    chosen = _gain(step.settings, step.partition)
    questions, evidence = _asked(retrieval_runs, golden_questions), _asked(retrieval_runs, golden_evidence)
    limits = retrievers.Limits(**chosen["limits"])
    return Product(retrievers.retriever_comparison(retrieval_runs, retrieval_scores, questions, evidence, ks=chosen["ks"], limits=limits))


def _asked(runs_table: pa.Table, table: pa.Table) -> list[dict[str, Any]]:
    """Rows of `table` about questions that the runs were asked."""
    return table.filter(pc.is_in(table["question_id"], runs_table["question_id"].unique().cast(pa.string()))).to_pylist()


@table_asset(
    "retrieval_scores",
    "chunks",
    "chunk_quality",
    kinds=["numpy"],
    columns={"chunks": ("tokens",), "chunk_quality": ("measure", "scope", "value")},
    settings=lambda s, p: {
        "sweep": s.sweep.model_dump(),
        "embedders": {name: embedders_of(s, name) for name in s.retrievers},
        **_scoring(s, p),
    },
    libraries=["numpy", "scipy"],
)
def chunk_sweep(
    step: Step, retrieval_scores: dict[str, pa.Table], chunks: dict[str, pa.Table], chunk_quality: dict[str, pa.Table]
) -> Product:
    """Chunkings compared on development questions, at equal k and at equal delivered tokens, with the recommended one or undecided."""
    chosen = step.settings.sweep
    points = {key: (parsed.size, parsed.overlap) for key in chunks for parsed in [parse_chunking(key)]}
    rows = sweep.chunk_sweep(
        retrieval_scores,
        sweep.index_sizes(chunks, points),
        **chosen.model_dump(),
        costs={key: sweep.vector_costs(table) for key, table in chunk_quality.items()},
        embedders={name: embedders_of(step.settings, name) for name in step.settings.retrievers},
    )
    drawn = {"sweep_curve": pictures.sweep_curve(rows), "sweep_grid": pictures.sweep_grid(rows)}
    return Product(rows, pictures=drawn | {"sweep_heat_map": pictures.sweep_heat_map(rows)})


@table_asset(
    "retrieval_scores",
    "golden_questions",
    kinds=["numpy"],
    columns={
        "retrieval_scores": ("question_id", "retriever", "metric", "k", "cutoff", "unit", "value", "status"),
        "golden_questions": ("question_id", "split", "language"),
    },
    settings=lambda s, p: {"retrievers": retrievers_of(s, p), "k": s.sweep.k},
    libraries=["numpy", "scipy"],
)
def embedder_ranking(step: Step, retrieval_scores: dict[str, pa.Table], golden_questions: pa.Table) -> Product:
    """Embedders ranked for each chunking and language by exact search over their vectors, on development questions."""
    retrievers, questions = retrievers_of(step.settings, None), golden_questions.to_pylist()
    rows = ranking_of_embedders.embedder_ranking(retrieval_scores, questions, retrievers, k=step.settings.sweep.k)
    return Product(rows, pictures={"embedder_ranking": embedder_pictures.embedder_ranking(rows)})
