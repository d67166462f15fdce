"""Retrieval assets: filters, rankings, scores and the chunk sweep.

What belongs here: which (question, retriever) pairs are expected and what a ranking's row depends on. What does not: searching
(`retrieval`), scoring (`scoring`).
"""

from __future__ import annotations

import importlib
import json
import unicodedata
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.assets._models import model_limits
from rag_eval_assets.assets._rerankers import open_reranker
from rag_eval_assets.assets._rows import with_column
from rag_eval_assets.assets.corpus import scan_corpus
from rag_eval_assets.assets.embedding import embedder_facts, embedder_is_there, embedders_in_use, embedders_of, text_embedding, uncut
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.partitions import parse_chunking
from rag_eval_assets.report import embedders as embedder_pictures
from rag_eval_assets.report import pictures
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.retrieval import filters, runs, soft_filter
from rag_eval_assets.retrieval.ordering import NoRanking
from rag_eval_assets.retrieval.queries import PROMPTS, Written
from rag_eval_assets.run_files import read_runs
from rag_eval_assets.scoring import embedder_ranking as ranked
from rag_eval_assets.scoring import filter_decision as decided
from rag_eval_assets.scoring import filter_quality as quality
from rag_eval_assets.scoring import ranking, retrievers, sweep
from rag_eval_assets.scoring.chunk_quality import COSTS
from rag_eval_assets.scoring.relevance import read_labels
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.versions import SourceTree, digest, library_version, work_key
from rag_eval_assets.tables import NOT_APPLICABLE

IDENTITY = ["chunk_id", "text_sha256", "tokens", "parent_start", "parent_end", "parent_tokens"]
"""What of a chunk shapes a ranking."""

PREDICATES = (*filters.FILTER_COLUMNS, "fields")
ASKED = ("question_id", "text", "split", "language", "entitlement", "filter")
"""Columns of a question that a search depends on; its labels are read where a fusion is tuned, of development alone."""


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


def retrievers_of(settings: Settings, chunking: str | None) -> dict[str, dict[str, Any]]:
    """Parameters of the retrievers that run on a chunking, by name; a reranker's and what tunes a fusion stand in them whole."""
    found = {}
    for name, retriever in settings.retrievers.items():
        if chunking is None or retriever.runs_on(chunking):
            found[name] = retriever.parameters
            if retriever.kind == "convex":
                found[name]["tune_k"] = settings.sweep.k
            elif retriever.model is not None:
                found[name]["endpoint"] = settings.models[retriever.model].identity
                found[name]["prompt"] = retriever.prompt or PROMPTS[retriever.kind]
            elif retriever.reranker is not None:
                found[name]["reranker"] = {"name": retriever.reranker, **settings.rerankers[retriever.reranker].model_dump()}
    return found


def _run_files(settings: Settings) -> dict[str, str]:
    return {name: r.path for name, r in settings.retrievers.items() if r.path is not None}


@table_asset(kinds=["file"], settings=lambda s, p: {"paths": _run_files(s)})
def imported_runs(step: Step) -> Product:
    """Rankings of retrievers that run elsewhere, as their files give them."""
    paths = _run_files(step.settings)
    return Product(read_runs(step.folder.path, paths, {row["doc_id"] for row in scan_corpus(step)} if paths else set()))


def _runs_settings(settings: Settings, chunking: str | None) -> dict[str, Any]:
    names = embedders_in_use(settings, chunking)
    return {
        "retrievers": retrievers_of(settings, chunking),
        "queries": {name: embedder_facts(settings, name, query=True) for name in names},
        "there": {name: embedder_is_there(settings, name) for name in names},
        "depth": settings.scoring.depth,
        "every_split": any(system.chunking == chunking for system in settings.systems.values()),
        "limits": model_limits(settings, _writers(settings, chunking)),
    }


def _writers(settings: Settings, chunking: str | None) -> list[str]:
    """Models that write queries for retrievers of a chunking."""
    return [r.model for r in settings.retrievers.values() if r.model is not None and (chunking is None or r.runs_on(chunking))]


WRITING = "rag_eval_assets.assets._writing"
"""The module that has queries written, named so that it is loaded, and rows depend on it, where a retriever wants it."""


def _runs_modules(settings: Settings, chunking: str | None) -> list[str]:
    return [WRITING] if chunking and _writers(settings, chunking) else []


def _runs_libraries(settings: Settings, _: str | None) -> list[str]:
    models = ["sentence-transformers"] if any(r.kind == "cross_encoder" for r in settings.rerankers.values()) else []
    return ["bm25s", "PyStemmer", "faiss-cpu", "numpy", *models]


@table_asset(
    "chunks",
    "chunk_embeddings",
    "unique_documents",
    "golden_questions",
    "golden_evidence",
    "imported_runs",
    kinds=["bm25s", "faiss"],
    columns={
        "unique_documents": (*PREDICATES, "absorbed"),
        "golden_questions": (*ASKED, "answerable", "relevant"),
    },
    settings=_runs_settings,
    libraries=_runs_libraries,
    modules=_runs_modules,
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
    chosen = _runs_settings(step.settings, step.partition)
    questions = [q for q in golden_questions.to_pylist() if chosen["every_split"] or q["split"] == runs.TUNED_ON]
    gold = _gold(chosen["retrievers"], questions, golden_evidence)
    return _ranked(step, chosen["retrievers"], questions, chunks, chunk_embeddings, unique_documents, gold, _imported(imported_runs))


@table_asset(
    "chunks",
    "chunk_embeddings",
    "unique_documents",
    "golden_questions",
    "retrieval_runs",
    kinds=["bm25s", "faiss"],
    columns={
        "unique_documents": (*PREDICATES, "absorbed"),
        "golden_questions": ASKED,
        "retrieval_runs": ("retriever", "parameters"),
    },
    settings=_runs_settings,
    libraries=_runs_libraries,
    modules=_runs_modules,
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
    chosen = _runs_settings(step.settings, step.partition)
    filtered = [{**q, "filter": None} for q in golden_questions.to_pylist() if filters.predicate(q["filter"])]
    specs = _as_stated(chosen["retrievers"], retrieval_runs)
    return _ranked(step, specs, filtered if chosen["every_split"] else [], chunks, chunk_embeddings, unique_documents)


def _as_stated(retrievers: Mapping[str, dict[str, Any]], made: pa.Table) -> dict[str, dict[str, Any]]:
    """Retrievers that search here, tuned fusions with the weights that their rankings state: nothing is tuned twice."""
    pairs = made.group_by(["retriever", "parameters"]).aggregate([]).to_pylist()
    weights = {row["retriever"]: json.loads(row["parameters"]).get("weights") for row in pairs}
    elsewhere = decided.made_elsewhere(retrievers)
    return {
        name: {"kind": "weighted", "of": p["of"], "weights": weights[name], "normalisation": p["normalisation"]}
        if p["kind"] == "convex" and weights.get(name)
        else p
        for name, p in retrievers.items()
        if name not in elsewhere
    }


def _ranked(
    step: Step,
    specs: Mapping[str, dict[str, Any]],
    questions: list[dict[str, Any]],
    chunks: pa.Table,
    chunk_embeddings: pa.Table,
    unique_documents: pa.Table,
    gold: Mapping[str, Mapping[str, int]] | None = None,
    imported: Mapping[tuple[str, str], runs.Imported] | None = None,
) -> Product:
    """Rankings of every question by every retriever, those of the last table kept where nothing that shapes them changed."""
    if not questions:
        return Product(step.reuse({})[0], computed=0)
    chosen, documents = _runs_settings(step.settings, step.partition), unique_documents.to_pylist()
    gold, imported = gold or {}, imported or {}
    text = digest(chunks.select(IDENTITY).to_pydict(), documents)
    asked = {q["question_id"]: {name: q[name] for name in ASKED} for q in questions}
    tuning = [q for q in asked.values() if q["split"] == runs.TUNED_ON]
    dense = {name: digest(text, found) for name, found in _vectors_of(chosen, chunk_embeddings).items()}
    convex = digest(text, gold, tuning if gold else [])

    def made_of(name: str, question: str) -> list[Any]:
        """What one ranking depends on beside code, depth and question: through its lanes, those of its lanes."""
        p = specs[name]
        own = imported.get((name, question)) if p["kind"] == "run_file" else None
        index = dense[p["embedder"]] if p["kind"] == "dense" else convex if p["kind"] == "convex" else text
        return [name, p, index, own, [made_of(lane, question) for lane in p.get("of", ())]]

    wanted = {work_key(step.code, made_of(name, q), chosen["depth"], asked[q]): (name, q) for name in specs for q in asked}
    kept, todo = step.reuse(wanted)
    kept, again = _without_failed_lanes(kept)
    todo += again
    keys = {unit: key for key, unit in wanted.items()}
    written, counts = _written(step, specs, asked, todo)
    made = runs.run_retrievers(
        [runs.RetrieverSpec(name, p["kind"], p) for name, p in specs.items()],
        questions,
        chunks,
        chunk_embeddings,
        documents,
        todo={name: [q for n, q in todo if n == name] for name in specs},
        known=kept,
        depth=chosen["depth"],
        embed_queries=text_embedding(step, query=True),
        embed_passages=text_embedding(step, query=False),
        written=written,
        threads=step.settings.limits.threads,
        terms=SqliteStore(step.folder.stores / terms_file()),
        imported=imported,
        gold=gold,
        rerankers=lambda name: open_reranker(step.folder, name),
        unavailable=uncut(step),
        on_done=step.progress,
    )
    units = zip(made["retriever"].to_pylist(), made["question_id"].to_pylist(), strict=True)
    table = pa.concat_tables([kept, with_column(made, "work_key", [keys[u] for u in units], kept.schema)])
    return Product(table, computed=len(todo), notes={f"replies_{what}": count for what, count in sorted(counts.items())})


def _without_failed_lanes(kept: pa.Table) -> tuple[pa.Table, list[tuple[str, str]]]:
    """Rankings without those whose lane failed, and the pairs of these: the lane is tried again, so they are combined again."""
    failed = pc.fill_null(pc.equal(kept["reason"], "upstream_failed"), False)
    again = kept.filter(failed)
    pairs = zip(again["retriever"].to_pylist(), again["question_id"].to_pylist(), strict=True)
    return kept.filter(pc.invert(failed)), sorted(set(pairs))


def _written(
    step: Step, specs: Mapping[str, dict[str, Any]], asked: Mapping[str, dict[str, Any]], todo: list[tuple[str, str]]
) -> tuple[dict[tuple[str, str], Written], Mapping[str, int]]:
    """What models wrote for the pairs to run, each request through the response store. Where nothing can be searched nothing is asked."""
    there = _runs_settings(step.settings, step.partition)["there"]
    lanes = {name: specs[p["of"][0]] for name, p in specs.items() if "model" in p}
    searched = {name for name, lane in lanes.items() if there.get(lane.get("embedder"), True)}
    if uncut(step) or not lanes:
        return {}, {}
    absent = {(n, q): Written(failure=NoRanking(NOT_APPLICABLE, "no_embedder")) for n, q in todo if n in lanes and n not in searched}
    texts = {q: row["text"] for q, row in asked.items()}
    written, counts = importlib.import_module(WRITING).write_queries(step, specs, texts, [unit for unit in todo if unit[0] in searched])
    return absent | written, counts


def _gold(retrievers: Mapping[str, Mapping[str, Any]], questions: list[dict[str, Any]], evidence: pa.Table) -> dict[str, dict[str, int]]:
    """Grades by document of development questions, where a fusion is tuned on them; no label of another split is read."""
    if not any(p["kind"] == "convex" for p in retrievers.values()):
        return {}
    tuning = [q for q in questions if q["split"] == runs.TUNED_ON]
    ids = {q["question_id"] for q in tuning}
    labels = read_labels(tuning, [row for row in evidence.to_pylist() if row["question_id"] in ids])
    return {q: own.documents for q, own in labels.items() if own.unlabelled is None}


def _imported(table: pa.Table) -> dict[tuple[str, str], list[tuple[str, float | None]]]:
    found: dict[tuple[str, str], list[tuple[str, float | None]]] = {}
    for row in table.sort_by([("retriever", "ascending"), ("question_id", "ascending"), ("rank", "ascending")]).to_pylist():
        own = found.setdefault((row["retriever"], row["question_id"]), [])
        if row["item"] is not None:
            own.append((row["item"], row["score"]))
    return found


def _vectors_of(chosen: Mapping[str, Any], chunk_embeddings: pa.Table) -> dict[str, list[Any]]:
    """What the vectors of questions and of chunks were made from, by embedder: a new embedder searches nothing again for the others."""
    found = {name: [facts, chosen["there"][name]] for name, facts in chosen["queries"].items()}
    for embedder, key in zip(*(chunk_embeddings[column].to_pylist() for column in ("embedder", "work_key")), strict=True):
        found.get(embedder, []).append(key)
    return found


def terms_file() -> str:
    """The cache of analysed texts, safe to delete: one for each state of the code and the libraries that make them."""
    code = digest(
        SourceTree().module_hash("rag_eval_assets.retrieval.bm25"),
        library_version("bm25s"),
        library_version("PyStemmer"),
        unicodedata.unidata_version,
    )
    return f"terms-{code[:8]}.sqlite"


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


RANKED = ("question_id", "retriever", "rank", "chunk_id", "doc_id", "start", "end", "tokens", "score", "status", "reason")


@table_asset(
    "retrieval_runs",
    "unfiltered_runs",
    "filter_exclusion",
    "golden_questions",
    "golden_evidence",
    kinds=["numpy"],
    columns={"retrieval_runs": RANKED, "unfiltered_runs": RANKED},
    settings=lambda s, p: {
        "limits": s.filter_decision.model_dump(),
        "retrievers": retrievers_of(s, p),
        "used": any(system.chunking == p for system in s.systems.values()),
        "depth": s.scoring.depth,
    },
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
    used = any(system.chunking == step.partition for system in step.settings.systems.values())
    filtered = {q["question_id"] for q in golden_questions.to_pylist() if filters.predicate(q["filter"])} if used else set()
    hard = retrieval_runs.filter(pc.is_in(retrieval_runs["question_id"], pa.array(sorted(filtered), pa.string())))

    def soft(boost: float) -> pa.Table:
        return soft_filter.boosted(hard, unfiltered_runs, boost, step.settings.scoring.depth)

    rows = decided.filter_decision(
        decided.Rankings(hard, unfiltered_runs, soft),
        retrievers_of(step.settings, step.partition),
        [q for q in golden_questions.to_pylist() if q["question_id"] in filtered],
        [e for e in golden_evidence.to_pylist() if e["question_id"] in filtered],
        [e for e in filter_exclusion.to_pylist() if e["question_id"] in filtered],
        decided.Limits(**step.settings.filter_decision.model_dump()),
        unavailable=None if used else "not_used",
    )
    return Product(rows)


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
    sizes = {}
    for key, table in chunks.items():
        chunking = parse_chunking(key)
        tokens = pc.sum(table["tokens"]).as_py() or 0
        sizes[key] = {"chunks": table.num_rows, "index_tokens": tokens, "size": chunking.size, "overlap": chunking.overlap}
    chosen = step.settings.sweep
    rows = sweep.chunk_sweep(
        retrieval_scores,
        sizes,
        metric=chosen.metric,
        k=chosen.k,
        margin=chosen.margin,
        minimum_questions=chosen.minimum_questions,
        costs={key: _vector_costs(table) for key, table in chunk_quality.items()},
        embedders={name: embedders_of(step.settings, name) for name in step.settings.retrievers},
    )
    drawn = {"sweep_curve": pictures.sweep_curve(rows), "sweep_grid": pictures.sweep_grid(rows)}
    return Product(rows, pictures=drawn | {"sweep_heat_map": pictures.sweep_heat_map(rows)})


def _vector_costs(table: pa.Table) -> dict[str, tuple[int | None, int]]:
    """Embedder -> (tokens embedded, None where they are not known; bytes of vectors), read off chunk_quality."""
    value = {(r["scope"], r["measure"]): int(r["value"]) for r in table.to_pylist() if r["measure"] in COSTS and r["value"] is not None}
    tokens, size = COSTS
    return {scope.removeprefix("embedder="): (value.get((scope, tokens)), value[scope, size]) for scope, name in value if name == size}


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
    rows = ranked.embedder_ranking(retrieval_scores, questions, retrievers, k=step.settings.sweep.k)
    return Product(rows, pictures={"embedder_ranking": embedder_pictures.embedder_ranking(rows)})
