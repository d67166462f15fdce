"""Turning public benchmarks into evaluation folders: files, questions and settings that the rest of the product runs on as it is.

What belongs here: reading other people's formats, with errors that name their lines, and writing the folder. What does not: parsing
the files written, or any score.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ingestion import language
from rag_eval_assets.golden import DEVELOPMENT, GoldenError, read_golden
from rag_eval_assets.settings import SETTINGS_FILE, read_settings

RELEASE = "release"
_RELEASE_QRELS = "test.tsv"
_DEVELOPMENT_QRELS = ("dev.tsv", "train.tsv")
_NAME_BYTES = 120
_LANGUAGE_SAMPLE = 50

BEIR_SETTINGS = """\
# Written by `rag-eval import beir`. Documents are the unit of its labels, so systems and dense search work on whole ones.
name: {name}

parsers:
  text: {{kind: unstructured, classes: [text]}}
parser_of:
  text: text

# Every document must stay searchable: only texts whose shingles are all the same are merged.
dedup: {{threshold: 1.0, sweep_permutations: [128], sweep_thresholds: [1.0]}}
cleaning: {{drop_categories: [], html_boilerplate: false}}

chunkings:
  - {{strategy: window, size: 256, overlap: 0}}
  - {{strategy: recursive, size: 256, overlap: 32}}
  - {{strategy: recursive, size: 512, overlap: 64}}
  - {{strategy: whole}}

retrievers:
  bm25: {{kind: bm25, k1: 0.9, b: 0.4, analyser: {analyser}}}
  # Embedding a corpus takes minutes to hours: remove `chunkings` to pay that for every chunking.
  dense: {{kind: dense, embedder: minilm, chunkings: [whole]}}
  hybrid: {{kind: rrf, of: [bm25, dense], rrf_k: 60, chunkings: [whole]}}

ann:
  hnsw_m: [32]
  hnsw_ef_construction: [200]
  hnsw_ef_search: [64, 128]
  ivf_nprobe: [16]
  selectivities: [1.0]

scoring:
  ks: [1, 3, 5, 10, 20, 100]
  token_budgets: [1000, 2000]
  depth: 100

systems:
  bm25: {{chunking: whole, retriever: bm25, depth: 100, top_k: 10, token_budget: 4000}}
  hybrid: {{chunking: whole, retriever: hybrid, depth: 100, top_k: 10, token_budget: 4000}}

slices: [language]
"""


class ImportedDataError(GoldenError):
    """Foreign data that cannot be imported: one line a problem, each naming file, line, id and the mend."""


@dataclass
class _Beir:
    """A BEIR folder as read: texts by document id, texts by query id, grades by query and document, split by split."""

    documents: dict[str, str] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    release: dict[str, dict[str, int]] = field(default_factory=dict)
    development: dict[str, dict[str, int]] = field(default_factory=dict)


def import_beir(source: Path, target: Path, settings_text: str | None = None) -> dict[str, int]:
    """Turn a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv) into the evaluation folder `target`; what was written, counted.

    A document becomes one UTF-8 file: title, newline, text, both unchanged. Queries of qrels/test.tsv become the release split,
    whole. Those of dev.tsv and train.tsv become development, without queries of the release split and without those that share a
    relevant document with it. Queries without a relevant document are left out. Grades under 0 count as 0, as in trec_eval.
    `settings_text` replaces the settings written. `target` appears when all of it is there. Raises ImportedDataError.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ImportedDataError(f"{target}: is there already and not empty; name a new folder")
    beir = _read_beir(source)
    tongue, _ = language.identify("\n".join(list(beir.documents.values())[:_LANGUAGE_SAMPLE]))
    tongue = tongue if tongue != "und" else "en"
    names = _file_names(beir.documents)
    gold = {doc_id for grades in beir.release.values() for doc_id, grade in grades.items() if grade > 0}
    kept, shared = {}, 0
    for query, grades in beir.development.items():
        if any(grade > 0 and doc_id in gold for doc_id, grade in grades.items()):
            shared += 1
        else:
            kept[query] = grades

    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        corpus, golden = unfinished / "corpus", unfinished / "golden"
        corpus.mkdir(parents=True)
        golden.mkdir()
        for doc_id, text in beir.documents.items():
            (corpus / names[doc_id]).write_bytes(text.encode("utf-8", "replace"))
        for split, labels in ((RELEASE, beir.release), (DEVELOPMENT, kept)):
            lines = (_line(query, beir.queries[query], split, tongue, labels[query], names) for query in sorted(labels))
            (golden / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
        written = settings_text
        if written is None:
            name = re.sub(r"[^a-z0-9_.-]+", "-", source.resolve().name.lower()).strip("-.") or "beir"
            written = BEIR_SETTINGS.format(name=name, analyser="english" if tongue == "en" else "by_language")
        (unfinished / SETTINGS_FILE).write_text(written, encoding="utf-8")
        read_settings(unfinished / SETTINGS_FILE)
        read_golden(golden, set(names.values()))
        if target.exists():
            target.rmdir()
        unfinished.replace(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    asked = len(beir.release) + len(beir.development)
    return {
        "documents": len(beir.documents),
        "release": len(beir.release),
        "development": len(kept),
        "development_left_out": shared,
        "queries_without_labels": len(beir.queries) - asked,
    }


def _line(query: str, text: str, split: str, tongue: str, grades: Mapping[str, int], names: Mapping[str, str]) -> str:
    relevant = [{"document": names[doc_id], "grade": grade} for doc_id, grade in sorted(grades.items())]
    line = {"id": query, "question": text, "split": split, "language": tongue, "relevant": relevant}
    return json.dumps(line, ensure_ascii=False) + "\n"


# ------------------------------------------------------------------------------------------------------------ reading
def _read_beir(source: Path) -> _Beir:
    problems: list[str] = []
    beir = _Beir()
    _read_lines(source / "corpus.jsonl", beir.documents, _document, problems)
    _read_lines(source / "queries.jsonl", beir.queries, _query, problems)
    release = source / "qrels" / _RELEASE_QRELS
    if not release.is_file():
        problems.append(f"{release}: no such file; a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/{_RELEASE_QRELS}")
    if problems:
        raise ImportedDataError("\n".join(problems[:50]))
    beir.release = _read_qrels(release, beir, problems)
    for name in _DEVELOPMENT_QRELS:
        path = source / "qrels" / name
        if path.is_file():
            for query, grades in _read_qrels(path, beir, problems).items():
                if query not in beir.release:
                    beir.development.setdefault(query, {}).update(grades)
    if problems:
        raise ImportedDataError("\n".join(problems[:50]))
    return beir


def _read_lines(path: Path, found: dict[str, str], text_of: Callable[[dict[str, Any]], str | None], problems: list[str]) -> None:
    """Add the text of each line of a BEIR .jsonl file by its `_id`."""
    if not path.is_file():
        problems.append(f"{path}: no such file; a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/{_RELEASE_QRELS}")
        return
    first: dict[str, int] = {}
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            place = f"{path}:{number}"
            try:
                line = json.loads(raw.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                problems.append(f"{place}: no JSON: {error}; one object a line")
                continue
            identifier = line.get("_id") if isinstance(line, dict) else None
            identifier = str(identifier) if isinstance(identifier, int) and not isinstance(identifier, bool) else identifier
            if not isinstance(identifier, str) or not identifier.strip():
                problems.append(f"{place}: _id is missing or no text; give the line an id")
                continue
            if identifier in first:
                problems.append(f"{place}: _id {identifier!r} stands on line {first[identifier]} too; keep one")
                continue
            first[identifier] = number
            text = text_of(line)
            if text is None:
                problems.append(f"{place}: {identifier!r}: title or text is missing or no text; a document and a query have text")
                continue
            found[identifier] = text


def _document(line: dict[str, Any]) -> str | None:
    title, text = line.get("title") or "", line.get("text")
    if not isinstance(title, str) or not isinstance(text, str):
        return None
    # A parser takes NUL for a sign that the file is no text.
    return (f"{title}\n{text}" if title else text).replace("\x00", "\ufffd")


def _query(line: dict[str, Any]) -> str | None:
    text = line.get("text")
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) and text.strip() else None


def _read_qrels(path: Path, beir: _Beir, problems: list[str]) -> dict[str, dict[str, int]]:
    """Grades by query and document; queries without a relevant document are left out."""
    found: dict[str, dict[str, int]] = {}
    for place, row in _tab_separated(path, problems):
        if len(row) != 3 or not re.fullmatch(r"-?\d{1,6}", row[2].strip()):
            problems.append(f"{place}: not query-id, corpus-id and a whole number, separated by tabs")
            continue
        query, doc_id, grade = row[0], row[1], max(int(row[2]), 0)
        if query not in beir.queries:
            problems.append(f"{place}: query {query!r} is not in queries.jsonl; add it or remove the line")
        elif doc_id not in beir.documents:
            problems.append(f"{place}: query {query!r}: document {doc_id!r} is not in corpus.jsonl; add it or remove the line")
        elif found.setdefault(query, {}).setdefault(doc_id, grade) != grade:
            problems.append(f"{place}: query {query!r}: document {doc_id!r} has grade {found[query][doc_id]} above; keep one")
    return {query: grades for query, grades in found.items() if any(grades.values())}


def _tab_separated(path: Path, problems: list[str]) -> Iterator[tuple[str, list[str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
                if row and not (number == 1 and row[-1].strip() == "score"):
                    yield f"{path}:{number}", row
    except (UnicodeDecodeError, csv.Error) as error:
        problems.append(f"{path}: not readable as UTF-8 with tabs: {error}")


# -------------------------------------------------------------------------------------------------------- file names
def _file_names(doc_ids: Mapping[str, str]) -> dict[str, str]:
    """A file name for each document id: the id and .txt, where that can be a name; no two differ in case or Unicode form only."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for doc_id in sorted(doc_ids):
        safe = (c if c.isalnum() or c in "-_.+=@~ " else quote(c, safe="", errors="replace") for c in doc_id)
        stem = unicodedata.normalize("NFC", "".join(safe))
        stem = f"%2E{stem[1:]}" if stem.startswith(".") else stem
        if len(stem.encode()) > _NAME_BYTES or stem != stem.strip() or stem.casefold() in taken:
            short = stem.encode()[:_NAME_BYTES].decode("utf-8", "ignore").strip()
            stem = f"{short}-{hashlib.sha256(doc_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        taken.add(stem.casefold())
        names[doc_id] = f"{stem}.txt"
    return names
