"""Golden-set assets: questions, where their evidence stands, what they cover, and saved baselines.

What belongs here: which inputs each reads. What does not: reading and checking the files (`golden`), locating (`ingestion.evidence`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from ingestion import evidence
from rag_eval_assets import coverage, golden
from rag_eval_assets.assets._rows import Row, among, by, grouped
from rag_eval_assets.assets.corpus import scan_corpus
from rag_eval_assets.baselines import read_baselines
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.retrieval import filters
from rag_eval_assets.tables import OK


@table_asset(kinds=["json"])
def golden_questions(step: Step) -> Product:
    """The golden set: questions with reference answers, evidence, splits, slices, entitlement and filters."""
    documents = scan_corpus(step)
    fields = filters.filter_fields(documents)
    rows = golden.read_golden(step.folder.golden, {row["doc_id"] for row in documents}, fields)
    known = golden.slice_names(rows)
    unknown = [(("slices",), f"no question has {s!r}; known: {', '.join(known)}") for s in step.settings.slices if s not in known]
    told = f"known: {', '.join(sorted(fields))}"
    unknown += [(("filters",), f"no document has {f!r}; {told}") for f in step.settings.filters if f not in fields]
    if unknown:
        raise step.folder.settings_error(unknown)
    return Product(rows)


@table_asset(
    "golden_questions",
    "source_documents",
    "parsed_documents",
    "documents",
    "near_duplicates",
    kinds=["python"],
    columns={
        "parsed_documents": ("doc_id", "order", "text", "status"),
        "documents": ("doc_id", "doc_class", "text", "status"),
    },
    settings=lambda s, p: {"parser_of": dict(s.parser_of)},
    libraries=["rapidfuzz"],
)
def golden_evidence(
    step: Step,
    golden_questions: pa.Table,
    source_documents: pa.Table,
    parsed_documents: dict[str, pa.Table],
    documents: pa.Table,
    near_duplicates: pa.Table,
) -> Product:
    """Where every quotation of the golden set stands in the canonical text, or the step that lost it."""
    questions = golden_questions.to_pylist()
    named = {item["document"] for q in questions for item in [*(q["evidence"] or ()), *(q["relevant"] or ())]}
    verdicts = [row for row in among(near_duplicates, "doc_id", named).to_pylist() if row["row"] == "document"]
    texts = by(among(documents, "doc_id", {*named, *(row["other_doc_id"] for row in verdicts)}).to_pylist(), "doc_id")
    rows = evidence.trace(
        questions,
        by(among(source_documents, "doc_id", named).to_pylist(), "doc_id"),
        _parsed_texts(step.settings.parser_of, parsed_documents, [texts[doc_id] for doc_id in texts if doc_id in named]),
        texts,
        by(verdicts, "doc_id"),
        filters.entitled,
    )
    lost = sum(row["lost_at"] is not None for row in rows)
    return Product(rows, notes={"evidence_lost": lost})


def _parsed_texts(parser_of: Mapping[str, str], parsed: Mapping[str, pa.Table], documents: Iterable[Row]) -> dict[str, str]:
    """What the parser chosen for each of `documents` read in it."""
    chosen = grouped(documents, "doc_class")
    found: dict[str, list[str]] = {}
    for doc_class, own in chosen.items():
        if (table := parsed.get(parser_of.get(doc_class, ""))) is not None:
            for element in among(table, "doc_id", (row["doc_id"] for row in own)).to_pylist():
                if element["status"] == OK:
                    found.setdefault(element["doc_id"], []).append(element["text"])
    return {doc_id: "\n\n".join(parts) for doc_id, parts in found.items()}


@table_asset(
    "golden_questions",
    "golden_evidence",
    "documents",
    kinds=["python"],
    libraries=["rapidfuzz", "scipy"],
    columns={"documents": ("doc_id", "doc_class", "language")},
)
def golden_coverage(step: Step, golden_questions: pa.Table, golden_evidence: pa.Table, documents: pa.Table) -> Product:
    """What the golden set covers: cells of intent, class and language, leaks between splits, half-widths of intervals."""
    questions = golden_questions.to_pylist()
    return Product(coverage.golden_coverage(questions, golden_evidence.to_pylist(), by(documents.to_pylist(), "doc_id")))


@table_asset(kinds=["file"])
def baselines(step: Step) -> Product:
    """Saved score rows with the identities they were made under."""
    return Product(read_baselines(step.folder.baselines))
