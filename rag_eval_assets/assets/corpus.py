"""Corpus assets: from the files of the corpus folder to the documents that are left after dedup.

What belongs here: which inputs and settings each reads. What does not: parsing, cleaning and dedup (`ingestion`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingestion import cleaning, dedup, labels, parsers, sources
from ingestion.cleaning_quality import cleaning_quality as measure_cleaning
from ingestion.dedup_quality import dedup_quality as measure_dedup
from ingestion.parse_quality import MarkedPage, worst_page
from ingestion.parse_quality import parse_quality as measure_parser
from rag_eval_assets.assets._rows import Row, joined
from rag_eval_assets.graph import Product, Step, table_asset
from rag_eval_assets.report import corpus_pictures
from rag_eval_assets.report.page_images import marked_page
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.settings import Parser, Settings
from rag_eval_assets.storage.state import read_json, write_cache
from rag_eval_assets.storage.versions import work_key
from rag_eval_assets.tables import FAILED, OK, TABLES
from rag_eval_assets.tables.groups import TEXTS, Groups, Values, rows_of


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


def _importers(settings: Settings) -> dict[str, list[str]]:
    return {name: sorted(parser.classes) for name, parser in sorted(settings.parsers.items()) if parser.kind == "imported"}


@table_asset(kinds=["file"], settings=lambda s, p: {"classes": [rule.model_dump() for rule in s.classes], "importers": _importers(s)})
def source_documents(step: Step) -> Product:
    """The files of the corpus folder: ids, hashes, media types, classes and metadata."""
    rows = scan_corpus(step)
    sources.undeclared_imports(rows, _importers(step.settings))
    return Product(rows, notes={"bytes": sum(row["bytes"] for row in rows)})


@table_asset(kinds=["file"])
def reference_transcripts(step: Step) -> Product:
    """Hand-checked texts and tables that parsers are measured against."""
    return Product(labels.read_references(step.folder.references, {row["doc_id"] for row in scan_corpus(step)}))


@table_asset(kinds=["file"])
def quality_labels(step: Step) -> Product:
    """Human labels: boilerplate, language, personal data, duplicate pairs, cuts and judgments."""
    return Product(labels.read_labels(step.folder.labels, {row["doc_id"] for row in scan_corpus(step)}))


def _parser_options(parser: Parser) -> dict[str, Any]:
    """The settings that a parser's kind obeys."""
    return parser.model_dump(include=set(parsers.PARSERS[parser.kind].options))


def _parser_shape(parser: Parser) -> dict[str, Any]:
    """What shapes a parser's rows beside code and libraries."""
    options = _parser_options(parser)
    return {"kind": parser.kind, **options, **parsers.engine_facts(parser.kind, options)}


def _parser(settings: Settings, key: str | None) -> dict[str, Any]:
    if key is None:
        return {}
    limits = settings.limits.model_dump(include={"file_seconds", "file_megabytes", "source_megabytes", "pages"})
    return {**_parser_shape(settings.parsers[key]), "classes": list(settings.parsers[key].classes), "limits": limits}


@table_asset(
    "source_documents",
    kinds=["pymupdf", "unstructured"],
    settings=_parser,
    modules=lambda s, p: [parsers.PARSERS[s.parsers[p].kind].module] if p else [],
    libraries=lambda s, p: parsers.libraries(s.parsers[p].kind, _parser_options(s.parsers[p])) if p else (),
    pool="parse",
)
def parsed_documents(step: Step, source_documents: pa.Table) -> Product:
    """Every file as one parser reads it: elements in reading order, or a typed failure."""
    parser, limits = step.settings.parsers[step.partition], step.settings.limits
    shape = _parser_shape(parser)
    files = source_documents.to_pylist()
    wanted = {}
    for f in files:
        f["import"] = next((i for i in f["imports"] if (parser.kind, step.partition) == ("imported", i["parser"])), None)
        parsed_as = {**shape, "import": f["import"]} if f["doc_class"] in parser.classes else None
        wanted[work_key(step.code, f["doc_id"], f["sha256"], f["doc_class"], f["media_type"], parsed_as)] = f
    kept, todo = step.reuse(wanted)
    path = partial(sources.file_of, step.folder.corpus)
    requests = [parsers.ParseRequest(f["doc_id"], path(f["path"]), f["media_type"], f["doc_class"], f["sha256"]) for f in todo]
    if parser.kind == "imported":
        texts = [f["import"] and (path(f["import"]["path"]), f["import"]["sha256"]) for f in todo]
        requests = [parsers.import_request(r, step.partition, text) for r, text in zip(requests, texts, strict=True)]
    keys = {f["doc_id"]: key for key, f in wanted.items()}
    mine = [r for r in requests if r.doc_class in parser.classes]
    bounds = parsers.ParseLimits(limits.workers, limits.file_seconds, limits.file_megabytes, limits.source_megabytes, limits.pages)
    unread = (parsers.not_applicable(r) for r in requests if r.doc_class not in parser.classes)
    parsed = parsers.parse_files(parser.kind, mine, bounds, options=_parser_options(parser), on_done=step.progress, spread=step.spread)
    rows = ({**row, "stratum": None, "work_key": keys[row["doc_id"]]} for document in chain(unread, parsed) for row in document)
    table = joined(kept, rows)
    failed = pc.sum(pc.equal(table["status"].slice(kept.num_rows), FAILED)).as_py() or 0
    # Of kept rows too: another stratum reads no file again.
    strata = source_documents["stratum"].take(pc.index_in(table["doc_id"], source_documents["doc_id"].combine_chunks()))
    table = table.set_column(table.column_names.index("stratum"), table.schema.field("stratum"), strata)
    return Product(table, computed=len(mine), notes={"files_parsed": len(mine), "files_failed_now": failed})


def _quotations(golden_questions: pa.Table) -> list[tuple[str, str]]:
    """Documents and the passages that golden questions quote from them."""
    return sorted({(e["document"], e["quotation"]) for q in golden_questions.to_pylist() for e in q["evidence"] or [] if e["quotation"]})


def _dpi(settings: Settings, key: str | None) -> int | None:
    """The resolution at which a parser draws pages; None where it draws none."""
    parser = settings.parsers[key] if key else None
    return parser.dpi if parser and "dpi" in parsers.PARSERS[parser.kind].options else None


@table_asset(
    "parsed_documents",
    "reference_transcripts",
    "golden_questions",
    kinds=["jiwer"],
    columns={"golden_questions": ("question_id", "evidence")},
    settings=lambda s, p: {"transcripts": s.transcripts.model_dump(), "dpi": _dpi(s, p)},
    libraries=["jiwer", "rapidfuzz", "apted"],
)
def parse_quality(step: Step, parsed_documents: pa.Table, reference_transcripts: pa.Table, golden_questions: pa.Table) -> Product:
    """How well one parser reads, by class and stratum: CER, WER, tables, order, length against references, and evidence still locatable."""
    elements, named = Groups(parsed_documents, "doc_id"), parsed_documents.filter(pc.is_valid(parsed_documents["stratum"]))
    strata = {row["doc_id"]: row["stratum"] for row in named.group_by(["doc_id", "stratum"]).aggregate([]).to_pylist()}
    policy, references = step.settings.transcripts.model_dump(), reference_transcripts.to_pylist()
    dpi, quoted = _dpi(step.settings, step.partition), _quotations(golden_questions)
    rows = measure_parser(elements, references, quoted, policy=policy, strata=strata, dpi=dpi)
    shown = {
        "cer_by_class": corpus_pictures.cer_by_class({step.partition: rows}),
        "cer_by_stratum": corpus_pictures.cer_by_stratum({step.partition: rows}),
        "teds": corpus_pictures.teds_distribution({step.partition: rows}),
    }
    if (worst := worst_page(elements, references, rows, policy)) and (picture := _picture_of(step, worst)):
        shown["worst_page"] = picture
    return Product(rows, pictures=shown)


def _picture_of(step: Step, worst: MarkedPage) -> bytes | None:
    """The page as it looks, from the file as it is now: pictures are no part of a table's content."""
    path = next((row["path"] for row in scan_corpus(step) if row["doc_id"] == worst.doc_id), None)
    return marked_page(sources.file_of(step.folder.corpus, path), worst) if path else None


@table_asset(
    "source_documents",
    "parsed_documents",
    kinds=["python"],
    settings=lambda s, p: {"cleaning": s.cleaning.model_dump(mode="json"), "parser_of": dict(s.parser_of)},
    libraries=["py3langid", "regex"],
)
def documents(step: Step, source_documents: pa.Table, parsed_documents: dict[str, pa.Table]) -> Product:
    """Every document with its canonical text, its elements as spans of it, its language and what the checks saw."""
    policy = cleaning.CleaningPolicy(**step.settings.cleaning.model_dump())
    units = partial(_units, step.settings.parser_of, source_documents, parsed_documents)
    wanted = {_cleaning_key(step, *unit): at for at, unit in enumerate(units())}
    kept, todo = step.reuse(wanted)
    keys = {at: key for key, at in wanted.items()}

    def made() -> Iterator[Row]:
        for done, (at, unit) in enumerate(zip(sorted(todo), units(todo), strict=True), 1):
            yield {**cleaning.clean_document(*unit, policy), "work_key": keys[at]}
            step.progress(done, len(todo))

    return Product(joined(kept, made(), TEXTS), computed=len(todo))


Unit = tuple[Row, Sequence[Row], str]
"""A file without its imports and stratum, the elements that its parser made of it, and that parser."""


def _units(
    parser_of: Mapping[str, str], sources: pa.Table, parsed: Mapping[str, pa.Table], at: Iterable[int] | None = None
) -> Iterator[Unit]:
    """What each document is made from, at the positions `at` of the source table alone where given."""
    elements = {key: Groups(table, "doc_id") for key, table in parsed.items()}
    for source in rows_of(sources, at):
        parser = parser_of.get(source["doc_class"], "")
        mine = elements[parser].get(source["doc_id"], []) if parser in elements else []
        yield {k: v for k, v in source.items() if k not in ("imports", "stratum")}, mine, parser


def _cleaning_key(step: Step, source: Row, elements: Sequence[Row], parser: str) -> str:
    content = [{k: v for k, v in e.items() if k not in ("stratum", "seconds", "work_key")} for e in elements]
    return work_key(step.code, source, content, parser, step.settings.cleaning.model_dump(mode="json"))


@table_asset(
    "documents",
    "quality_labels",
    "parsed_documents",
    kinds=["python"],
    columns={"parsed_documents": ("doc_id", "order", "category", "text", "html", "status")},
    libraries=["py3langid", "rapidfuzz", "regex", "scipy"],
)
def cleaning_quality(step: Step, documents: pa.Table, quality_labels: pa.Table, parsed_documents: dict[str, pa.Table]) -> Product:
    """How good texts are against labels: boilerplate (of each parser too), characters, language, personal data, headings, entities."""
    parsed = {key: Groups(table, "doc_id") for key, table in parsed_documents.items()}
    return Product(measure_cleaning(rows_of(documents), quality_labels.to_pylist(), parsed))


_POLICY = {"shingle_length", "permutations", "bands", "threshold", "containment", "versions"}


def _dedup_policy(step: Step) -> dedup.DedupPolicy:
    return dedup.DedupPolicy(**step.settings.dedup.model_dump(include=_POLICY))


def _protected(step: Step, golden_questions: pa.Table) -> list[str]:
    """Fields that dedup must not merge across: those the settings name and those a golden filter does."""
    filtered = {field for q in golden_questions.to_pylist() if q["filter"] for field in json.loads(q["filter"])}
    return sorted({*step.settings.filters, *filtered})


def _texts(documents: pa.Table) -> Values:
    """Texts of readable documents by hash."""
    readable = documents.select(["text_sha256", "text"]).filter(pc.equal(documents["status"], OK))
    return Values(readable, "text_sha256", "text")


def signatures(step: Step) -> SqliteStore:
    """MinHash signatures by text, a cache that is safe to delete."""
    return SqliteStore(step.folder.stores / "signatures.sqlite")


@table_asset(
    "documents",
    "golden_questions",
    kinds=["datasketch"],
    settings=lambda s, p: {"dedup": s.dedup.model_dump(include=_POLICY), "filters": list(s.filters)},
    libraries=["datasketch", "numpy"],
    columns={"golden_questions": ("question_id", "filter"), "documents": dedup.READ_COLUMNS},
)
def near_duplicates(step: Step, documents: pa.Table, golden_questions: pa.Table) -> Product:
    """Copies and versions: a verdict for every document and every verified pair. Nothing merges across a protected field."""
    protected = _protected(step, golden_questions)
    store, texts = signatures(step), _texts(documents)
    rows = dedup.near_duplicates(rows_of(documents), _dedup_policy(step), protected, store, step.progress, texts)
    return Product(rows, notes={"protected_fields": ", ".join(protected)})


@table_asset(
    "near_duplicates",
    "documents",
    "quality_labels",
    "golden_questions",
    kinds=["datasketch"],
    settings=lambda s, p: {"dedup": s.dedup.model_dump(), "filters": list(s.filters)},
    libraries=["datasketch", "numpy", "scipy", "rapidfuzz"],
    columns={"golden_questions": ("question_id", "filter", "evidence"), "documents": dedup.READ_COLUMNS},
)
def dedup_quality(
    step: Step, near_duplicates: pa.Table, documents: pa.Table, quality_labels: pa.Table, golden_questions: pa.Table
) -> Product:
    """Precision and recall of near-duplicate detection on labelled pairs, and golden evidence lost to a merge, over MinHash's settings."""
    chosen = step.settings.dedup
    rows = measure_dedup(
        rows_of(documents),
        quality_labels.to_pylist(),
        _dedup_policy(step),
        chosen.sweep_permutations,
        chosen.sweep_bands,
        chosen.sweep_thresholds,
        _quotations(golden_questions),
        _protected(step, golden_questions),
        signatures(step),
        _texts(documents),
    )
    return Product(rows, pictures={"dedup_curve": corpus_pictures.dedup_curve(rows)})


@table_asset("documents", "near_duplicates", kinds=["python"])
def unique_documents(step: Step, documents: pa.Table, near_duplicates: pa.Table) -> Product:
    """The documents that are left: what is chunked, indexed and searched."""
    verdicts = near_duplicates.filter(pc.equal(near_duplicates["row"], "document")).select(["row", "doc_id", "other_doc_id", "kept"])
    rows = dedup.unique_documents(rows_of(documents), verdicts.to_pylist())
    table = joined(TABLES[step.name].schema.empty_table(), rows, TEXTS)
    return Product(table, notes={"dropped": len(verdicts) - len(table)})
