"""EPUB books: the documents of the spine, in reading order, each through the HTML path.

What belongs here: container, package and spine (EPUB 3.3, 4.2 and 5). What does not: HTML itself, handed in as a function.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ingestion.parsers.archives import member_of, open_archive, read_xml
from ingestion.parsers.decoding import decode
from ingestion.parsers.elements import Parsed, ParseFailure, ParseOptions

_CONTAINER = "META-INF/container.xml"
_DOCUMENTS = ("application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/x-dtbook+xml")
# XHTML may close any element at once; to an HTML reader only these are empty, and <title/> would swallow the page.
_SELF_CLOSED = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([a-zA-Z][\w:-]*)((?:\s[^<>]*?)?)\s*/>"
)


def parse_epub(path: Path, options: ParseOptions, html: Callable[[str], Parsed]) -> Parsed:
    """Elements of a book; page = position in the spine, from 1. Nothing outside the archive is read.

    Raises ParseFailure: corrupt (also a reference that leads out of the archive), encrypted (DRM), too_large.
    """
    with open_archive(path, options) as archive:
        package = _package(archive)
        spine, notes = _spine(archive, package)
        if len(spine) > options.pages:
            raise ParseFailure("too_large", f"{len(spine)} spine items, over the limit of {options.pages}")
        locked = _encrypted(archive) & {member for member in spine if member}
        if locked:
            raise ParseFailure("encrypted", f"{len(locked)} of {len(spine)} documents are encrypted (DRM)")
        parsed = Parsed(notes=notes)
        for position, member in enumerate(spine, 1):
            if member is None:
                continue
            text, _ = decode(archive.read(member), html=True)
            for element in html(_SELF_CLOSED.sub(r"<\1\2></\1>", text)).elements:
                element.page = position
                parsed.elements.append(element)
    return parsed


def _package(archive: zipfile.ZipFile) -> str:
    for root in read_xml(archive, _CONTAINER).iter("{*}rootfile"):
        return member_of("", root.get("full-path") or "")
    raise ParseFailure("corrupt", f"{_CONTAINER} names no package")


def _spine(archive: zipfile.ZipFile, package: str) -> tuple[list[str | None], list[str]]:
    """The member of each spine item, None for what cannot be read as a document, and notes that name those."""
    root = read_xml(archive, package)
    manifest: dict[str, Any] = {item.get("id"): item for item in root.iterfind("{*}manifest/{*}item")}
    names = set(archive.namelist())
    found: list[str | None] = []
    notes = []
    for reference in root.iterfind("{*}spine/{*}itemref"):
        item = manifest.get(reference.get("idref"))
        if item is None:
            found.append(None)
            notes.append(f"the spine names {reference.get('idref')!r}, which the manifest lacks")
            continue
        member = member_of(package, unquote(item.get("href") or "").partition("#")[0])
        readable = item.get("media-type") in _DOCUMENTS
        found.append(member if readable and member in names else None)
        if not readable:
            notes.append(f"{member} is {item.get('media-type')}, which is not read")
        elif member not in names:
            notes.append(f"{member} is not in the archive")
    if not found:
        raise ParseFailure("corrupt", f"{package} has no spine")
    return found, notes


def _encrypted(archive: zipfile.ZipFile) -> set[str]:
    """Members under encryption (EPUB 3.3, 4.2.6.3.2); obfuscated fonts are among them, documents only with DRM."""
    member = "META-INF/encryption.xml"
    if member not in archive.namelist():
        return set()
    return {unquote(node.get("URI") or "").lstrip("/") for node in read_xml(archive, member).iter("{*}CipherReference")}
