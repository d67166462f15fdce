"""Corpus assets: from the files of the corpus folder to the documents that are left after dedup.

What belongs here: which inputs and settings each reads. What does not: parsing, cleaning and dedup (`ingestion`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from ingestion import cleaning, dedup, labels, parsers, sources
from ingestion import parse_quality as quality
from rag_eval_assets.assets._rows import grouped, join
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.report import pictures
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.state import read_json, write_cache
from rag_eval_assets.storage.versions import work_key
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE, OK


def scan_corpus(step: Step) -> list[dict[str, Any]]:
    """Source rows of the folder; files whose size and mtime are known are not read again."""
    memory = step.folder.state / "scan.json"
    cache = read_json(memory)
    before = dict(cache)
    rules = [(rule.glob, rule.doc_class) for rule in step.settings.classes]
    rows = sources.scan(step.folder.corpus, rules, cache)
    if cache != before:
        write_cache(memory, cache)
    return rows


@table_asset(kinds=["file"], settings=lambda s, p: {"classes": [rule.model_dump() for rule in s.classes]})
def source_documents(step: Step) -> Product:
    """The files of the corpus folder: ids, hashes, media types, classes and metadata."""
    rows = scan_corpus(step)
    return Product(rows, notes={"bytes": sum(row["bytes"] for row in rows)})


@table_asset(kinds=["file"])
def reference_transcripts(step: Step) -> Product:
    """Hand-checked texts and tables that parsers are measured against."""
    return Product(labels.read_references(step.folder.references, {row["doc_id"] for row in scan_corpus(step)}))


@table_asset(kinds=["file"])
def quality_labels(step: Step) -> Product:
    """Human labels: boilerplate, language, personal data, duplicate pairs, cuts and judgments."""
    return Product(labels.read_labels(step.folder.labels, {row["doc_id"] for row in scan_corpus(step)}))


def _parser(settings: Settings, key: str | None) -> dict[str, Any]:
    limits = settings.limits.model_dump(include={"file_seconds", "file_megabytes", "source_megabytes", "pages"})
    return {**settings.parsers[key].model_dump(mode="json"), "limits": limits} if key else {}


@table_asset(
    "source_documents",
    kinds=["pymupdf", "unstructured"],
    settings=_parser,
    modules=lambda s, p: [parsers.PARSERS[s.parsers[p].kind].module] if p else [],
    libraries=lambda s, p: parsers.PARSERS[s.parsers[p].kind].libraries if p else (),
    pool="parse",
)
def parsed_documents(step: Step, source_documents: pa.Table) -> Product:
    """Every file as one parser reads it: elements in reading order, or a typed failure."""
    parser, limits = step.settings.parsers[step.partition], step.settings.limits
    shape = {"kind": parser.kind, **({"dpi": parser.dpi} if parser.kind == "ocr" else {})}
    files = source_documents.to_pylist()
    wanted = {}
    for f in files:
        parsed_as = shape if f["doc_class"] in parser.classes else None
        wanted[work_key(step.code, f["doc_id"], f["sha256"], f["doc_class"], f["media_type"], parsed_as)] = f
    kept, todo = step.reuse(wanted)
    path = partial(sources.file_of, step.folder.corpus)
    requests = [parsers.ParseRequest(f["doc_id"], path(f["path"]), f["media_type"], f["doc_class"], f["sha256"]) for f in todo]
    keys = {f["doc_id"]: key for key, f in wanted.items()}
    mine = [r for r in requests if r.doc_class in parser.classes]
    bounds = parsers.ParseLimits(limits.workers, limits.file_seconds, limits.file_megabytes, limits.source_megabytes, limits.pages)
    made = [parsers.not_applicable(r) for r in requests if r.doc_class not in parser.classes]
    made += parsers.parse_files(parser.kind, mine, bounds, dpi=parser.dpi, on_done=step.progress)
    rows = [{**row, "work_key": keys[row["doc_id"]]} for document in made for row in document]
    failed = sum(row["status"] == FAILED for row in rows)
    return Product(join(kept, rows), computed=len(mine), notes={"files_parsed": len(mine), "files_failed_now": failed})


@table_asset(
    "parsed_documents",
    "reference_transcripts",
    "golden_questions",
    kinds=["jiwer"],
    columns={"golden_questions": ("question_id", "evidence")},
    settings=lambda s, p: {"transcripts": s.transcripts.model_dump()},
    libraries=["jiwer", "rapidfuzz", "apted"],
)
def parse_quality(step: Step, parsed_documents: pa.Table, reference_transcripts: pa.Table, golden_questions: pa.Table) -> Product:
    """How well one parser reads: CER, WER, tables, order and length against references, and evidence still locatable."""
    quotations = sorted(
        {(e["document"], e["quotation"]) for q in golden_questions.to_pylist() for e in q["evidence"] or [] if e["quotation"]}
    )
    elements = grouped((e for e in parsed_documents.to_pylist() if e["status"] != NOT_APPLICABLE), "doc_id")
    policy = step.settings.transcripts
    rows = quality.parse_quality(elements, reference_transcripts.to_pylist(), quotations, policy=policy.model_dump())
    return Product(rows, pictures={"cer_by_class": pictures.cer_by_class({step.partition: rows})})


@table_asset(
    "source_documents",
    "parsed_documents",
    kinds=["python"],
    settings=lambda s, p: {"cleaning": s.cleaning.model_dump(mode="json"), "parser_of": dict(s.parser_of)},
    libraries=["py3langid"],
)
def documents(step: Step, source_documents: pa.Table, parsed_documents: dict[str, pa.Table]) -> Product:
    """Every document with its canonical text, its elements as spans of it, its language and what the checks saw."""
    policy = cleaning.CleaningPolicy(**step.settings.cleaning.model_dump())
    elements = {key: grouped(table.to_pylist(), "doc_id") for key, table in parsed_documents.items()}
    files, wanted = source_documents.to_pylist(), {}
    for source in files:
        parser = step.settings.parser_of.get(source["doc_class"], "")
        mine = elements.get(parser, {}).get(source["doc_id"], [])
        content = [{k: v for k, v in e.items() if k not in ("seconds", "work_key")} for e in mine]
        wanted[work_key(step.code, source, content, parser, step.settings.cleaning.model_dump(mode="json"))] = (source, mine, parser)
    kept, todo = step.reuse(wanted)
    keys = {unit[0]["doc_id"]: key for key, unit in wanted.items()}
    rows = []
    for done, (source, mine, parser) in enumerate(todo, 1):
        rows.append({**cleaning.clean_document(source, mine, parser, policy), "work_key": keys[source["doc_id"]]})
        step.progress(done, len(todo))
    return Product(join(kept, rows), computed=len(rows))


@table_asset("documents", "quality_labels", kinds=["python"])
def cleaning_quality(step: Step, documents: pa.Table, quality_labels: pa.Table) -> Product:
    """What cleaning removed and kept: boilerplate, normalisation, language and personal data, against labels where there are any."""
    return Product(cleaning.cleaning_quality(documents.to_pylist(), quality_labels.to_pylist()))


def _dedup_policy(step: Step) -> dedup.DedupPolicy:
    chosen = step.settings.dedup
    return dedup.DedupPolicy(chosen.shingle_length, chosen.permutations, chosen.threshold, chosen.versions)


def _dedup_settings(settings: Settings, _: str | None) -> dict[str, Any]:
    return {
        "dedup": settings.dedup.model_dump(include={"shingle_length", "permutations", "threshold", "versions"}),
        "filters": list(settings.filters),
    }


def _readable(documents: pa.Table) -> Sequence[dict[str, Any]]:
    return [row for row in documents.to_pylist() if row["status"] == OK]


def signatures(step: Step) -> SqliteStore:
    """MinHash signatures by text, a cache that is safe to delete."""
    return SqliteStore(step.folder.stores / "signatures.sqlite")


@table_asset(
    "documents",
    "golden_questions",
    kinds=["datasketch"],
    settings=_dedup_settings,
    libraries=["datasketch", "numpy"],
    columns={"golden_questions": ("question_id", "filter")},
)
def near_duplicates(step: Step, documents: pa.Table, golden_questions: pa.Table) -> Product:
    """Copies and versions: a verdict for every document and every verified pair. Nothing merges across a protected field."""
    filtered = {field for q in golden_questions.to_pylist() if q["filter"] for field in _fields(q["filter"])}
    protected = sorted({*step.settings.filters, *filtered})
    rows = dedup.near_duplicates(_readable(documents), _dedup_policy(step), protected, signatures(step), on_done=step.progress)
    return Product(rows, notes={"protected_fields": ", ".join(protected)})


def _fields(predicate: str) -> list[str]:
    import json

    return sorted(json.loads(predicate))


@table_asset(
    "near_duplicates",
    "documents",
    "quality_labels",
    kinds=["datasketch"],
    settings=lambda s, p: {"dedup": s.dedup.model_dump()},
    libraries=["datasketch", "numpy", "scipy"],
)
def dedup_quality(step: Step, near_duplicates: pa.Table, documents: pa.Table, quality_labels: pa.Table) -> Product:
    """Precision and recall of near-duplicate detection over permutations and thresholds, on labelled pairs."""
    chosen = step.settings.dedup
    rows = dedup.dedup_quality(
        _readable(documents),
        quality_labels.to_pylist(),
        _dedup_policy(step),
        chosen.sweep_permutations,
        chosen.sweep_thresholds,
        signatures(step),
    )
    return Product(rows, pictures={"dedup_curve": pictures.dedup_curve(rows)})


@table_asset("documents", "near_duplicates", kinds=["python"])
def unique_documents(step: Step, documents: pa.Table, near_duplicates: pa.Table) -> Product:
    """The documents that are left: what is chunked, indexed and searched."""
    verdicts = [row for row in near_duplicates.to_pylist() if row["row"] == "document"]
    rows = dedup.unique_documents(_readable(documents), verdicts)
    return Product(rows, notes={"dropped": len(verdicts) - len(rows)})
