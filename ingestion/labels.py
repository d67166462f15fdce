"""What people checked by hand: reference transcripts and tables (`references/`), and quality labels (`labels/`).

What belongs here: reading those folders into rows, and refusing what cannot be used with file, line and mend. What does not:
comparing anything with them (`transcripts`, `tables`, `cleaning_quality`, `dedup`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ingestion.references import read_markdown

KINDS: dict[str, tuple[str, ...]] = {
    "boilerplate": ("quotation",),
    "language": (),
    "pii": ("quotation",),
    "duplicate": ("other_document",),
    "cut": ("quotation",),
    "judgment": ("question", "answer"),
    "predicate": ("question",),
    "title": (),
    "heading": ("quotation",),
    "heading_path": ("quotation",),
    "entity": ("quotation",),
    "relation": ("quotation", "other_quotation"),
    "preference": ("question", "answer", "other_answer"),
}
"""Kinds of label, each with the fields it needs beside `kind`, `document` and `value`."""

VALUES: dict[str, tuple[str, ...]] = {
    "boilerplate": ("yes", "no", "boilerplate", "content"),
    "duplicate": ("yes", "no"),
    "cut": ("yes", "no"),
    "predicate": ("yes", "no"),
    "heading": ("1", "2", "3", "4", "5", "6"),
    "preference": ("answer", "other_answer", "tie"),
}
"""Values that a kind allows. A language is an ISO 639-1 code, a predicate's value whether the document should pass the question's filter,
a heading's value its level, a path the headings above a passage, parted by ` > `, a preference's value the better answer; PII, entity and
relation have their type, where `none` says that the document holds none."""

FIELDS = (
    "kind", "document", "other_document", "quotation", "other_quotation", "occurrence", "value", "annotator", "source", "question",
    "answer", "other_answer",
)  # fmt: skip

_OF_KINDS: dict[str, tuple[str, ...]] = {
    "other_document": ("duplicate",),
    "other_quotation": ("relation",),
    "occurrence": ("entity",),
    "source": ("entity", "relation"),
    "other_answer": ("preference",),
}
_NONE = ("pii", "entity", "relation")
_JUDGED = (
    "kind", "doc_id", "other_doc_id", "quotation", "other_quotation", "occurrence", "annotator", "source", "question_id", "answer",
    "other_answer",
)  # fmt: skip
_PAGE = re.compile(r"(?P<doc>.+)\.p(?P<number>\d+)", re.S)
_TABLE = re.compile(r"(?P<doc>.+)\.t(?P<number>\d+)", re.S)
_LANGUAGE = re.compile(r"[a-z]{2}")


class LabelError(ValueError):
    """Labels or references that cannot be used: one line a problem, each naming file (and line), id and the mend."""


def read_references(folder: Path, doc_ids: Collection[str]) -> list[dict[str, Any]]:
    """Rows of `reference_transcripts`, in order of (doc_id, kind, item). An absent folder gives no rows.

    Layout: `text/<doc_id>.txt` (whole document, item 0), `text/<doc_id>.p<N>.txt` (page N, from 1), `tables/<doc_id>.t<N>.html`.
    `text/<doc_id>.md` is a transcript that also says what is a heading, a list, a caption, a footnote or a table (`references`).
    A transcript holds what a reader reads: running heads, page numbers and site navigation are left out of it. Raises LabelError.
    """
    known = set(doc_ids)
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for path in _files(folder):
        shown = path.relative_to(folder).as_posix()
        try:
            rows += _reference(path, unicodedata.normalize("NFC", shown), known)
        except (ValueError, OSError) as error:
            problems.append(f"{folder.name}/{shown}: {error}")
    rows.sort(key=lambda row: (row["doc_id"], row["kind"], row["item"]))
    for one, two in itertools.pairwise(rows):
        if (one["doc_id"], one["kind"], one["item"]) == (two["doc_id"], two["kind"], two["item"]):
            problems.append(f"{folder.name}/{two['file']}: stands for the same item as {one['file']}; remove one of them")
    if problems:
        raise LabelError("\n".join(problems))
    return rows


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _reference(path: Path, shown: str, known: set[str]) -> list[dict[str, Any]]:
    kind_folder, _, rest = shown.partition("/")
    if kind_folder == "text" and rest.endswith((".txt", ".md")):
        kind, name, pattern = "text", rest.rpartition(".")[0], _PAGE
    elif kind_folder == "tables" and rest.endswith(".html"):
        kind, name, pattern = "table", rest.removesuffix(".html"), _TABLE
    else:
        raise ValueError("is no text/<document>[.p<N>].txt, text/<document>.md or tables/<document>.t<N>.html; rename or remove it")
    numbered = pattern.fullmatch(name)
    if kind == "text" and name in known:
        if numbered and numbered["doc"] in known:
            raise ValueError(f"stands for the document {name!r} and for a page of {numbered['doc']!r}; give one another id")
        doc_id, item = name, 0
    elif numbered and numbered["doc"] in known and not rest.endswith(".md"):
        doc_id, item = numbered["doc"], int(numbered["number"])
        if kind == "text" and item == 0:
            raise ValueError("pages count from 1; rename it to .p1.txt or to the whole document")
    else:
        raise ValueError(f"names no document of the corpus ({name!r}); rename it or remove it")
    try:
        content = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8; save it as UTF-8") from None
    row = {"doc_id": doc_id, "kind": kind, "item": item, "page": None, "level": None, "text": content, "html": None, "file": shown}
    if kind == "table":
        from ingestion.parsers.html_tables import table_text

        text = table_text(content)
        if text is None:
            raise ValueError("holds no <table>; write the reference table as HTML")
        return [row | {"text": text, "html": content}]
    if rest.endswith(".md"):
        return _marked(row)
    return [row | {"page": item or None}]


def _marked(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a transcript in Markdown: its text, and its parts, numbered from 0 in each kind."""
    text, parts = read_markdown(row["text"])
    counts: Counter[str] = Counter()
    rows = [row | {"text": text}]
    for part in parts:
        rows.append(row | {"kind": part.kind, "item": counts[part.kind], "level": part.level, "text": part.text, "html": part.html})
        counts[part.kind] += 1
    return rows


def read_labels(folder: Path, doc_ids: Collection[str]) -> list[dict[str, Any]]:
    """Rows of `quality_labels` from `labels/**/*.jsonl`, in order of label_id. An absent folder gives no rows.

    One object a line: kind, document, value, and where the kind needs them other_document, quotation, other_quotation, question, answer,
    other_answer; annotator is free. A `source` makes an entity or relation the prediction of that tool; `occurrence` says which of several
    mentions an entity is, from 1. The documents of a pair are put in order, so a pair is one label whichever way round it was written.
    Raises LabelError with every problem found.
    """
    known = set(doc_ids)
    rows: dict[str, dict[str, Any]] = {}
    verdicts: dict[tuple[Any, ...], dict[str, Any]] = {}
    problems: list[str] = []
    for path in _files(folder):
        if path.suffix != ".jsonl":
            problems.append(f"{folder.name}/{path.name}: labels stand in .jsonl files; rename or remove it")
            continue
        shown = path.relative_to(folder).as_posix()
        try:
            lines = path.read_bytes().decode("utf-8-sig").split("\n")
        except UnicodeDecodeError:
            problems.append(f"{folder.name}/{shown}: is not UTF-8; save it as UTF-8")
            continue
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where = f"{folder.name}/{shown}:{number}"
            try:
                row = _label(line, known, shown, number)
            except ValueError as error:
                problems.append(f"{where}: {error}")
                continue
            if other := rows.get(row["label_id"]):
                problems.append(f"{where}: repeats the label at {folder.name}/{other['file']}:{other['line']}; remove one")
            elif (other := verdicts.setdefault(_judged(row), row)) is not row:
                problems.append(
                    f"{where}: says {row['value']!r} of what {folder.name}/{other['file']}:{other['line']} calls {other['value']!r}; "
                    "keep one, or name two annotators"
                )
            rows[row["label_id"]] = row
    if problems:
        raise LabelError("\n".join(problems))
    return [rows[label_id] for label_id in sorted(rows)]


def _judged(row: dict[str, Any]) -> tuple[Any, ...]:
    """What one verdict is on. Two things may stand in several relations, and one name for several things."""
    return (*(row[name] for name in _JUDGED), row["value"] if row["kind"] in ("entity", "relation") else None)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"field {doubled[0]!r} stands twice; keep one")
    return dict(pairs)


def _label(line: str, known: set[str], file: str, number: int) -> dict[str, Any]:
    try:
        raw = json.loads(line, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON ({error.msg} at character {error.pos}); one object a line") from None
    except RecursionError:
        raise ValueError("is nested too deeply; one flat object a line") from None
    if not isinstance(raw, dict):
        raise ValueError('must be one object, such as {"kind": "language", "document": "a.pdf", "value": "nl"}')
    for name, value in raw.items():
        if name not in FIELDS:
            raise ValueError(f"unknown field {name!r}; known: {', '.join(FIELDS)}")
        if name == "occurrence" and isinstance(value, int) and not isinstance(value, bool) and value > 0:
            continue
        if name == "occurrence" and value is not None:
            raise ValueError(f"field 'occurrence' must be a whole number from 1, not {json.dumps(value)}")
        if value is not None and not isinstance(value, str):
            raise ValueError(f"field {name!r} must be text, not {json.dumps(value)}")
        if value is not None and not value.strip():
            raise ValueError(f"field {name!r} is empty; fill it or leave it out")
    kind = raw.get("kind")
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is not known; known: {', '.join(KINDS)}")
    for name in ("document", "value", *KINDS[kind]):
        if not raw.get(name) and not (kind in _NONE and "quotation" in name and raw.get("value") == "none"):
            raise ValueError(f"a label of kind {kind!r} needs the field {name!r}")
    for name, kinds in _OF_KINDS.items():
        if raw.get(name) and kind not in kinds:
            raise ValueError(f"field {name!r} means nothing for kind {kind!r}; leave it out")
    if raw.get("annotator") and raw.get("source"):
        raise ValueError("a label is a person's (annotator) or a tool's prediction (source); leave one out")
    documents = [unicodedata.normalize("NFC", raw[name]) for name in ("document", "other_document") if raw.get(name)]
    for doc_id in documents:
        if doc_id not in known:
            raise ValueError(f"document {doc_id!r} is not in the corpus; mend the id or remove the label")
    if len(documents) == 2 and documents[0] == documents[1]:
        raise ValueError(f"pairs document {documents[0]!r} with itself; name two documents")
    if kind in VALUES and raw["value"] not in VALUES[kind]:
        raise ValueError(f"value {raw['value']!r} of kind {kind!r} must be one of {', '.join(VALUES[kind])}")
    if kind == "language" and not _LANGUAGE.fullmatch(raw["value"]):
        raise ValueError(f"value {raw['value']!r} is no ISO 639-1 code such as nl")
    documents.sort()
    row = {
        "kind": kind,
        "doc_id": documents[0],
        "other_doc_id": documents[1] if len(documents) == 2 else None,
        "quotation": raw.get("quotation"),
        "other_quotation": raw.get("other_quotation"),
        "occurrence": raw.get("occurrence"),
        "value": raw["value"],
        "annotator": raw.get("annotator"),
        "source": raw.get("source"),
        "question_id": raw.get("question"),
        "answer": raw.get("answer"),
    }
    # Only where it is there: the ids of other labels stay what they were before this field.
    other = {"other_answer": raw["other_answer"]} if raw.get("other_answer") else {}
    content = json.dumps(row | other, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return {
        "label_id": hashlib.sha256(content.encode()).hexdigest(),
        **row,
        "other_answer": raw.get("other_answer"),
        "file": file,
        "line": number,
    }
