"""Rankings of one chunking: which pairs are made anew, by which searches, models and stores, and which are kept.

What belongs here: work keys and what a search is given. What does not: searching (`retrieval.runs`) and which pairs are expected (the
assets).
"""

from __future__ import annotations

import importlib
import json
import unicodedata
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.assets._rerankers import open_reranker
from rag_eval_assets.assets._retrievers import ASKED, PREDICATES, WRITING, runs_settings
from rag_eval_assets.assets._rows import with_column
from rag_eval_assets.assets.embedding import text_embedding, uncut
from rag_eval_assets.graph import Product, Step
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.retrieval import runs
from rag_eval_assets.retrieval.dependencies import Dependencies
from rag_eval_assets.retrieval.ordering import NoRanking
from rag_eval_assets.retrieval.queries import Written
from rag_eval_assets.scoring import filter_decision as decided
from rag_eval_assets.scoring.relevance import read_labels
from rag_eval_assets.storage.versions import SourceTree, digest, library_version, work_key
from rag_eval_assets.tables import NOT_APPLICABLE
from rag_eval_assets.tables.groups import Values

Unit = tuple[str, str]
"""A retriever and a question, by name and id."""

IDENTITY = ["chunk_id", "text_sha256", "tokens", "parent_start", "parent_end", "parent_tokens"]
"""What of a chunk shapes a ranking."""


def as_stated(retrievers: Mapping[str, dict[str, Any]], made: pa.Table) -> dict[str, dict[str, Any]]:
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


def ranked(
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
    chosen, documents = runs_settings(step.settings, step.partition), unique_documents.select([*PREDICATES, "absorbed"]).to_pylist()
    asked = {q["question_id"]: {name: q[name] for name in ASKED} for q in questions}
    depends = _dependencies(specs, chosen, chunks, chunk_embeddings, documents, asked, gold or {}, imported or {})
    keys = {(name, q): work_key(step.code, depends.of(name, q), chosen["depth"], asked[q]) for name in specs for q in asked}
    kept, todo = _to_rank(step, keys)
    written, counts = _written(step, specs, asked, todo)
    made = runs.run_retrievers(
        [runs.RetrieverSpec(name, p["kind"], p) for name, p in specs.items()],
        questions,
        chunks,
        chunk_embeddings,
        documents,
        _texts(unique_documents),
        todo={name: [q for n, q in todo if n == name] for name in specs},
        known=kept,
        depth=chosen["depth"],
        embed_queries=text_embedding(step, query=True),
        embed_passages=text_embedding(step, query=False),
        written=written,
        threads=step.settings.limits.threads,
        terms=SqliteStore(step.folder.stores / terms_file()),
        imported=depends.imported,
        gold=gold,
        rerankers=lambda name: open_reranker(step.folder, name),
        unavailable=uncut(step),
        on_done=step.progress,
    )
    units = zip(made["retriever"].to_pylist(), made["question_id"].to_pylist(), strict=True)
    table = pa.concat_tables([kept, with_column(made, "work_key", [keys[u] for u in units], kept.schema)])
    return Product(table, computed=len(todo), notes={f"replies_{what}": count for what, count in sorted(counts.items())})


def _dependencies(
    specs: Mapping[str, dict[str, Any]],
    chosen: Mapping[str, Any],
    chunks: pa.Table,
    chunk_embeddings: pa.Table,
    documents: list[dict[str, Any]],
    asked: Mapping[str, dict[str, Any]],
    gold: Mapping[str, Mapping[str, int]],
    imported: Mapping[tuple[str, str], runs.Imported],
) -> Dependencies:
    text = digest(chunks.select(IDENTITY).to_pydict(), documents)
    dense = {name: digest(text, found) for name, found in _vectors_of(chosen, chunk_embeddings).items()}
    tuning = [q for q in asked.values() if q["split"] == runs.TUNED_ON] if gold else []
    return Dependencies(specs, text, dense, digest(text, gold, tuning), imported)


def _to_rank(step: Step, keys: Mapping[Unit, str]) -> tuple[pa.Table, list[Unit]]:
    """Rankings that are kept, and the pairs to rank. One whose lane failed is not kept: the lane is tried again, so it is too."""
    kept, todo = step.reuse({key: unit for unit, key in keys.items()})
    failed = pc.fill_null(pc.equal(kept["reason"], "upstream_failed"), False)
    again = kept.filter(failed)
    pairs = zip(again["retriever"].to_pylist(), again["question_id"].to_pylist(), strict=True)
    return kept.filter(pc.invert(failed)), [*todo, *sorted(set(pairs))]


def _texts(unique_documents: pa.Table) -> Values | None:
    """Canonical texts by document, where they are read at all (see `document_columns`)."""
    return Values(unique_documents, "doc_id", "text") if "text" in unique_documents.column_names else None


def _written(
    step: Step, specs: Mapping[str, dict[str, Any]], asked: Mapping[str, dict[str, Any]], todo: list[Unit]
) -> tuple[dict[Unit, Written], Mapping[str, int]]:
    """What models wrote for the pairs to run, each request through the response store. Where nothing can be searched nothing is asked."""
    there = runs_settings(step.settings, step.partition)["there"]
    lanes = {name: specs[p["of"][0]] for name, p in specs.items() if "model" in p}
    searched = {name for name, lane in lanes.items() if there.get(lane.get("embedder"), True)}
    if uncut(step) or not lanes:
        return {}, {}
    absent = {(n, q): Written(failure=NoRanking(NOT_APPLICABLE, "no_embedder")) for n, q in todo if n in lanes and n not in searched}
    texts = {q: row["text"] for q, row in asked.items()}
    written, counts = importlib.import_module(WRITING).write_queries(step, specs, texts, [unit for unit in todo if unit[0] in searched])
    return absent | written, counts


def gold_of(retrievers: Mapping[str, Mapping[str, Any]], questions: list[dict[str, Any]], evidence: pa.Table) -> dict[str, dict[str, int]]:
    """Grades by document of development questions, where a fusion is tuned on them; no label of another split is read."""
    if not any(p["kind"] == "convex" for p in retrievers.values()):
        return {}
    tuning = [q for q in questions if q["split"] == runs.TUNED_ON]
    ids = {q["question_id"] for q in tuning}
    labels = read_labels(tuning, [row for row in evidence.to_pylist() if row["question_id"] in ids])
    return {q: own.documents for q, own in labels.items() if own.unlabelled is None}


def imported_of(table: pa.Table) -> dict[tuple[str, str], list[tuple[str, float | None]]]:
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
