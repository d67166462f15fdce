"""What is in a corpus folder: ids, hashes, media types, classes, and the metadata that sidecars give.

What belongs here: one pure scan of the folder, and the rules that give a file its id, media type and class. What does not:
opening a file as a document (`parsers`), or any judgement of its content.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from ingestion.media_types import CSV, DOCX, EML, EPUB, HEAD, HTML, MARKDOWN, PDF, PLAIN, PPTX, TSV, XLSX, sniff_head

SIDECAR_SUFFIX = ".meta.yaml"
FOLDER_SIDECAR = "folder.meta.yaml"
_NEAR_SIDECAR = re.compile(r"(?P<owner>.+)\.meta\.(?:yml|json|toml)", re.I)
IMPORT_NAME = re.compile(r"(?P<owner>.+)\.pages\.(?P<parser>[a-z0-9][a-z0-9_-]*)\.(?:jsonl|md|txt)", re.S)
"""A sidecar with the text that an outside reader took from a file, page by page: `scan.png.pages.mistral.jsonl`."""

CLASSES: dict[str, str] = {
    PDF: "pdf", HTML: "html", MARKDOWN: "markdown", DOCX: "docx", PLAIN: "text", PPTX: "pptx", XLSX: "xlsx", CSV: "csv", TSV: "csv",
    EML: "eml", EPUB: "epub",
}  # fmt: skip
"""Class of a media type where neither a sidecar nor a rule gives one; images are `scan`, the rest `other`."""

STRATA: dict[str, str] = {
    "clean_scan": "scans of print that are straight and sharp",
    "photo": "photographs of paper, and scans that are skewed, faint or noisy",
    "tables": "documents that are mostly tables or forms",
    "multilingual": "text in several languages or scripts",
    "mathematics": "formulas and symbols",
    "handwriting": "text written by hand",
}
"""Strata that parsers are compared on, each with the files that belong there; a sidecar's `stratum` names one."""

_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they make a name read as another one
_CLASS_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_LANGUAGE = re.compile(r"[a-z]{2}")
_LOCALE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_TEXT_FIELDS = (
    "id", "title", "class", "language", "tenant", "jurisdiction", "publication_state", "locale", "version", "version_of", "published",
    "stratum",
)  # fmt: skip
SIDECAR_FIELDS = (*_TEXT_FIELDS, "groups", "fields")
_ONE_FILE_ONLY = ("id", "title")
_CHUNK = 1024 * 1024
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, and a corpus may hold a sidecar a file


class CorpusError(ValueError):
    """A corpus that cannot be listed: one line a problem, each naming the file, the id or field, and the mend."""


@dataclass(frozen=True)
class _Found:
    """A file of the corpus: its path on disk, its name in the table, the sidecars that apply to it, outermost first, and its imported
    texts by parser."""

    disk: Path
    path: str
    sidecars: tuple[Path, ...]
    imports: tuple[tuple[str, _Found], ...] = ()


@dataclass
class _Walk:
    files: list[_Found] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def scan(corpus: Path, rules: Sequence[tuple[str, str]] = (), cache: MutableMapping[str, list[Any]] | None = None) -> list[dict[str, Any]]:
    """List a corpus folder as rows of `source_documents`, sorted by doc_id.

    Sidecars (`<file>.meta.yaml`, `folder.meta.yaml`, `<file>.pages.<parser>.jsonl`, `.md` or `.txt`) and names that start with a dot are
    no documents. `rules` are (glob, class) pairs, first match wins (see `matches`). `cache` maps a relative path to
    [size, mtime_ns, sha256, media_type]; a file that still has that size and time is not read, and the mapping is left holding exactly
    the files found.

    Raises CorpusError with every problem found, not only the first.
    """
    if not corpus.is_dir():
        raise CorpusError(f"{corpus}: no such folder; a corpus is a folder of files")
    walk = _Walk()
    _collect(corpus, corpus.resolve(), "", (), walk)
    sidecars: dict[Path, dict[str, Any]] = {}
    for path in sorted({side for found in walk.files for side in found.sidecars}):
        sidecars[path] = _read_sidecar(path, corpus, walk.problems)

    rows: list[dict[str, Any]] = []
    holders: dict[str, str] = {}
    seen: dict[str, list[Any]] = {}
    for found in sorted(walk.files, key=lambda f: f.path):
        metadata = _merge([sidecars[side] for side in found.sidecars])
        doc_id = metadata.get("id") or found.path
        if doc_id in holders:
            walk.problems.append(
                f"{found.path}: id {doc_id!r} is already that of {holders[doc_id]}; give one of them another 'id' in its sidecar"
            )
            continue
        holders[doc_id] = found.path
        try:
            size, sha256, media_type = _facts(found, cache, seen)
            imports = [
                {"parser": parser, "path": text.path, "sha256": _facts(text, cache, seen)[1]} for parser, text in sorted(found.imports)
            ]
        except OSError as error:
            walk.problems.append(f"{found.path}: cannot be read ({error.strerror}); mend its permissions or remove it")
            continue
        rows.append(_row(doc_id, found.path, size, sha256, media_type, metadata, rules) | {"imports": imports})
    if walk.problems:
        raise CorpusError("\n".join(f"{corpus.name}/{problem}" for problem in walk.problems))
    if cache is not None:
        cache.clear()
        cache.update(seen)
    return sorted(rows, key=lambda row: row["doc_id"])


def undeclared_imports(rows: Iterable[Mapping[str, Any]], declared: Mapping[str, Collection[str]]) -> None:
    """Raises CorpusError where a row of `scan` has an import that no parser would read; `declared`: classes by parser of kind imported."""
    problems = []
    for row in rows:
        for text in row["imports"]:
            parser, where = text["parser"], f"corpus/{text['path']}"
            if parser not in declared:
                known = ", ".join(declared) or "none"
                problems.append(f"{where}: no parser {parser!r} of kind imported in settings (known: {known}); add it")
            elif row["doc_class"] not in declared[parser]:
                problems.append(f"{where}: parser {parser!r} does not read class {row['doc_class']!r}; add it to its classes")
    if problems:
        raise CorpusError("\n".join(problems))


def file_of(corpus: Path, path: str) -> Path:
    """The file behind a `path` of `source_documents`, also where the disk spells its name in another Unicode form.

    Raises FileNotFoundError.
    """
    direct = corpus / path
    if direct.exists():
        return direct
    place = corpus
    for part in path.split("/"):
        entries = sorted(os.listdir(place)) if place.is_dir() else []
        name = next((entry for entry in entries if unicodedata.normalize("NFC", entry) == part), None)
        if name is None:
            raise FileNotFoundError(f"{path}: no such file in {corpus}")
        place = place / name
    return place


def class_of(path: str, media_type: str, rules: Sequence[tuple[str, str]] = ()) -> str:
    """Document class of a path: the first rule that matches, else by media type."""
    for glob, doc_class in rules:
        if matches(glob, path):
            return doc_class
    if media_type.startswith("image/"):
        return "scan"
    return CLASSES.get(media_type, "other")


def matches(glob: str, path: str) -> bool:
    """Whether a POSIX path matches a glob: `*` and `?` stay inside one folder, `**` crosses folders, and a glob without a
    slash is tried on the file name at any depth (as in .gitignore). Case matters."""
    return _pattern(glob).fullmatch(path if "/" in glob else path.rsplit("/", 1)[-1]) is not None


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    parts: list[str] = []
    i = 0
    while i < len(glob):
        if glob.startswith("**/", i):
            parts.append("(?:.*/)?")
            i += 3
        elif glob.startswith("**", i):
            parts.append(".*")
            i += 2
        elif glob[i] == "[" and (end := glob.find("]", i + 2)) != -1:
            inner = glob[i + 1 : end].replace("\\", "\\\\")
            parts.append(f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            i = end + 1
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(glob[i], re.escape(glob[i])))
            i += 1
    return re.compile("".join(parts), re.S)


# ---------------------------------------------------------------------------------------------------------- the walk
def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from sorted(entries, key=lambda entry: entry.name)


def _collect(folder: Path, root: Path, prefix: str, inherited: tuple[Path, ...], walk: _Walk) -> None:
    """Add the files below `folder`, whose names in the table start with `prefix`."""
    try:
        entries = [entry for entry in _entries(folder) if not entry.name.startswith(".")]
    except OSError as error:
        walk.problems.append(f"{prefix}: cannot be listed ({error.strerror}); mend its permissions or remove it")
        return
    names = {entry.name for entry in entries}
    for entry in entries:
        if entry.name.endswith(SIDECAR_SUFFIX) and (problem := _bad_companion(entry, root)):
            walk.problems.append(f"{prefix}{_printable(entry.name)}: {problem}")
            names.discard(entry.name)  # it is not even opened
    if FOLDER_SIDECAR in names:
        inherited = (*inherited, folder / FOLDER_SIDECAR)
    imports = _imports(entries, root, prefix, names, walk)
    for entry in entries:
        shown = f"{prefix}{_printable(entry.name)}"
        try:
            name = unicodedata.normalize("NFC", entry.name)
            name.encode("utf-8")
        except UnicodeEncodeError:
            walk.problems.append(f"{shown}: the name is not UTF-8; rename the file")
            continue
        if entry.name.endswith(SIDECAR_SUFFIX):
            owner = entry.name.removesuffix(SIDECAR_SUFFIX)
            if entry.name != FOLDER_SIDECAR and owner not in names:
                walk.problems.append(f"{shown}: stands beside no file {owner!r}; rename it or remove it")
            continue
        if IMPORT_NAME.fullmatch(entry.name):
            continue
        if (near := _NEAR_SIDECAR.fullmatch(entry.name)) and (near["owner"] in names or near["owner"] == "folder"):
            walk.problems.append(f"{shown}: sidecars end in {SIDECAR_SUFFIX}; rename it to {near['owner']}{SIDECAR_SUFFIX}")
            continue
        if problem := _bad_id(name):
            walk.problems.append(f"{shown}: the name {problem}; rename it")
        elif entry.is_symlink() and (problem := _bad_link(Path(entry.path), root)):
            walk.problems.append(f"{shown}: {problem}")
        elif entry.is_dir():
            _collect(Path(entry.path), root, f"{prefix}{name}/", inherited, walk)
        elif not entry.is_file():
            walk.problems.append(f"{shown}: is neither a file nor a folder; remove it")
        else:
            own = (folder / f"{entry.name}{SIDECAR_SUFFIX}",) if f"{entry.name}{SIDECAR_SUFFIX}" in names else ()
            walk.files.append(_Found(Path(entry.path), f"{prefix}{name}", (*inherited, *own), tuple(imports.get(entry.name, {}).items())))


def _imports(entries: Sequence[os.DirEntry[str]], root: Path, prefix: str, names: set[str], walk: _Walk) -> dict[str, dict[str, _Found]]:
    """The imported texts of a folder by owner and parser."""
    found: dict[str, dict[str, _Found]] = {}
    for entry in entries:
        match = IMPORT_NAME.fullmatch(entry.name)
        if match is None:
            continue
        mine, shown = found.setdefault(match["owner"], {}), f"{prefix}{_printable(entry.name)}"
        if match["owner"] not in names:
            walk.problems.append(f"{shown}: stands beside no file {_printable(match['owner'])!r}; rename it or remove it")
        elif problem := _bad_companion(entry, root):
            walk.problems.append(f"{shown}: {problem}")
        elif match["parser"] in mine:
            walk.problems.append(f"{shown}: is a second import of {match['parser']!r} for one file; keep one")
        else:
            mine[match["parser"]] = _Found(Path(entry.path), f"{prefix}{unicodedata.normalize('NFC', entry.name)}", ())
    return found


def _printable(name: str) -> str:
    """A file's name for a message of one line: what would break or turn the line is escaped."""
    return "".join(
        repr(character)[1:-1] if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _BIDI else character
        for character in name
    )


def _bad_link(link: Path, root: Path) -> str | None:
    target = link.resolve()
    if not target.is_relative_to(root):
        return "is a link to a place outside the corpus; put the file itself there"
    if not target.exists():
        return "is a link to nothing; remove it"
    return "is a link to a folder, which would give its files two ids; remove it" if target.is_dir() else None


def _bad_companion(entry: os.DirEntry[str], root: Path) -> str | None:
    """What is wrong with the place of a sidecar or an import, or None; a pipe would be waited for, a link could lead anywhere."""
    if entry.is_symlink() and (problem := _bad_link(Path(entry.path), root)):
        return problem
    return None if entry.is_file() else "is no file; remove it"


def _bad_id(doc_id: str) -> str | None:
    """What is wrong with a document id (or a file's name), or None."""
    if not doc_id.strip() or doc_id != doc_id.strip():
        return "is empty or has white space at an end"
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") or character in _BIDI for character in doc_id):
        return "holds a control character"
    if len(doc_id.encode("utf-8")) > 1024:
        return "is longer than 1,024 bytes"
    if "\\" in doc_id or any(part in ("", ".", "..") for part in doc_id.split("/")):
        return "holds a backslash or an empty, '.' or '..' part"
    return None


def _facts(found: _Found, cache: Mapping[str, list[Any]] | None, seen: dict[str, list[Any]]) -> tuple[int, str, str]:
    """(size, sha256, media type) of a file, from the cache where its size and time of change are as they were."""
    state = found.disk.stat()
    known = cache.get(found.path) if cache is not None else None
    if known is not None and list(known[:2]) == [state.st_size, state.st_mtime_ns]:
        seen[found.path] = list(known)
        return state.st_size, str(known[2]), str(known[3])
    digest = hashlib.sha256()
    size = 0
    with found.disk.open("rb") as stream:
        head = stream.read(HEAD)
        block = head
        while block:
            digest.update(block)
            size += len(block)
            block = stream.read(_CHUNK)
    media_type = sniff_head(found.disk, head)
    seen[found.path] = [size, state.st_mtime_ns, digest.hexdigest(), media_type]
    return size, digest.hexdigest(), media_type


def _row(
    doc_id: str, path: str, size: int, sha256: str, media_type: str, metadata: Mapping[str, Any], rules: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "path": path,
        "sha256": sha256,
        "bytes": size,
        "media_type": media_type,
        "doc_class": metadata.get("class") or class_of(path, media_type, rules),
        "title": metadata.get("title"),
        "language": metadata.get("language"),
        "tenant": metadata.get("tenant"),
        "groups": sorted(set(metadata.get("groups") or ())),
        "jurisdiction": metadata.get("jurisdiction"),
        "publication_state": metadata.get("publication_state") or "published",
        "locale": metadata.get("locale"),
        "version": metadata.get("version"),
        "version_of": metadata.get("version_of"),
        "published": metadata.get("published"),
        "stratum": metadata.get("stratum"),
        "fields": json.dumps(metadata.get("fields") or {}, ensure_ascii=False, sort_keys=True, separators=(",", ":")),
    }


# ---------------------------------------------------------------------------------------------------------- sidecars
def _merge(sidecars: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The metadata of a file: later (nearer) sidecars win field by field, inside `fields` too; null takes a default back."""
    merged: dict[str, Any] = {}
    for sidecar in sidecars:
        for name, value in sidecar.items():
            merged[name] = {**(merged.get(name) or {}), **value} if name == "fields" and value else value
    return merged


def _read_sidecar(path: Path, corpus: Path, problems: list[str]) -> dict[str, Any]:
    """One sidecar as {field: value}; everything wrong with it is added to `problems`.

    Text fields are taken as written, not as YAML would type them: `version: 1.10` stays 1.10 and `language: no` is Norwegian.
    """
    shown = path.relative_to(corpus).as_posix()
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{shown}: cannot be read as UTF-8 text ({error}); save it as UTF-8")
        return {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problems.append(f"{shown}:{mark.line + 1 if mark else 1}: no YAML: {getattr(error, 'problem', error)}; mend the line")
        return {}
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        problems.append(f"{shown}:1: must hold 'field: value' lines; known fields: {', '.join(SIDECAR_FIELDS)}")
        return {}
    found: dict[str, Any] = {}
    for key, node in root.value:
        where = f"{shown}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            problems.append(f"{where}: a list or mapping stands for a field's name; known: {', '.join(SIDECAR_FIELDS)}")
            continue
        name = str(key.value)
        if name not in SIDECAR_FIELDS:
            problems.append(f"{where}: unknown field {name!r}; known: {', '.join(SIDECAR_FIELDS)} (others go below 'fields')")
        elif name in found:
            problems.append(f"{where}: field {name!r} stands twice; keep one")
        elif path.name == FOLDER_SIDECAR and name in _ONE_FILE_ONLY:
            problems.append(f"{where}: field {name!r} belongs to one file; put it in that file's own sidecar")
        else:
            try:
                found[name] = _value(name, node)
            except ValueError as error:
                problems.append(f"{where}: field {name!r}: {error}")
    return found


def _value(name: str, node: yaml.Node) -> Any:
    if name == "groups":
        if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null"):
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise ValueError("must be a list, such as [sales, support]")
        return [_scalar_text(item) for item in node.value]
    if name == "fields":
        if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null"):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise ValueError("must be a mapping of names to single values")
        return {_scalar_text(key): _scalar(value) for key, value in node.value}
    text = None if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null") else _scalar_text(node)
    if text is not None:
        _check(name, text)
    return unicodedata.normalize("NFC", text) if text is not None else None


def _scalar_text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or not str(node.value).strip():
        raise ValueError("must be a single, non-empty value")
    return unicodedata.normalize("NFC", str(node.value).strip())


def _scalar(node: yaml.Node) -> str | int | float | bool | None:
    """A free field's value as YAML types it; dates stay text."""
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError("holds a list or mapping; only single values can be filtered on")
    try:
        value = yaml.constructor.SafeConstructor().construct_object(node)
    except yaml.YAMLError:
        raise ValueError(f"{node.value!r} has the tag {node.tag}, which no plain value needs; leave it out") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{node.value} is no finite number")
    if value is None or isinstance(value, bool | int | float):
        return value
    return unicodedata.normalize("NFC", str(node.value))


def _check(name: str, text: str) -> None:
    """Raise ValueError with the mend if a text field's value cannot be used."""
    if name == "id" and (problem := _bad_id(unicodedata.normalize("NFC", text))):
        raise ValueError(f"{text!r} {problem}")
    if name in ("class", "publication_state") and not _CLASS_NAME.fullmatch(text):
        raise ValueError(f"{text!r} must be lower case letters, digits, '.', '-' or '_'")
    if name == "stratum" and text not in STRATA:
        raise ValueError(f"{text!r} is no stratum; known: {', '.join(STRATA)}")
    if name == "language" and not _LANGUAGE.fullmatch(text):
        raise ValueError(f"{text!r} is no ISO 639-1 code such as nl")
    if name == "locale" and not _LOCALE.fullmatch(text):
        raise ValueError(f"{text!r} is no locale such as nl-NL")
    if name == "published":
        try:
            dt.datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text!r} is no ISO 8601 date such as 2026-03-31") from None
