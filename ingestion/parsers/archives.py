"""Files that are zip archives, checked before a library opens them: bounded size, bounded members, no DTD, no way out.

What belongs here: what every reader of Office and EPUB files needs first. What does not: what the members mean (the parser modules).
"""

from __future__ import annotations

import posixpath
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingestion.media_types import BROKEN_ARCHIVE, is_encrypted_office
from ingestion.parsers.elements import ParseFailure, ParseOptions

MOST_MEMBERS = 20_000
"""Members of an archive: a presentation of 2,000 slides has about a third of that."""

_BLOCK = 1024 * 1024
_DTD = b"<!DOCTYPE"


@contextmanager
def open_archive(path: Path, options: ParseOptions) -> Iterator[zipfile.ZipFile]:
    """An open archive whose unpacked size and number of members are within limits; what breaks while it is open is `corrupt`.

    The sizes are those of the central directory: zipfile reads no member past the size stated there. Raises ParseFailure: corrupt,
    encrypted, too_large.
    """
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise
    except (*BROKEN_ARCHIVE, ValueError, OverflowError, struct.error) as error:
        raise ParseFailure("corrupt", f"cannot be opened as a zip archive: {type(error).__name__}: {error}") from error
    with archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise ParseFailure("too_large", f"{len(members)} members, over the limit of {MOST_MEMBERS}")
        unpacked = sum(member.file_size for member in members)
        if unpacked > options.megabytes * 1024 * 1024:
            raise ParseFailure("too_large", f"{unpacked} bytes unpacked, over the limit of {options.megabytes} MiB")
        if any(member.flag_bits & 1 for member in members):
            raise ParseFailure("encrypted", "members of the archive need a password")
        try:
            yield archive
        except BROKEN_ARCHIVE as error:
            raise ParseFailure("corrupt", f"the archive is damaged: {type(error).__name__}: {error}") from error


@contextmanager
def open_office(path: Path, options: ParseOptions) -> Iterator[zipfile.ZipFile]:
    """The same for an Office Open XML package, whose parts may hold no DTD (ECMA-376-2, 8.3.3: so there are no entities to expand)."""
    if is_encrypted_office(path):
        raise ParseFailure("encrypted", "the document needs a password")
    with open_archive(path, options) as archive:
        for member in archive.infolist():
            if member.filename.lower().endswith((".xml", ".rels")):
                _refuse_dtd(archive, member)
        yield archive


def _refuse_dtd(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Read a part to its end, which checks its CRC too. Raises ParseFailure `corrupt` where it declares a DTD, in UTF-16 as well."""
    with archive.open(member) as stream:
        tail = b""
        while block := stream.read(_BLOCK):
            seen = tail + block
            if _DTD in seen or _DTD in seen.replace(b"\x00", b""):
                raise ParseFailure("corrupt", f"{member.filename} declares a DTD, which no Office file may")
            tail = block[-2 * len(_DTD) :]


def read_xml(archive: zipfile.ZipFile, member: str) -> Any:
    """The root element of a member: no entity expanded, nothing fetched. Raises ParseFailure `corrupt` where it is absent or no XML."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(archive.read(member), parser)
    except KeyError:
        raise ParseFailure("corrupt", f"the archive has no {member}") from None
    except etree.XMLSyntaxError as error:
        raise ParseFailure("corrupt", f"{member} is no XML: {error}") from error


def member_of(base: str, href: str) -> str:
    """The member that a relative reference of the member `base` names. Raises ParseFailure `corrupt` where it leads out of the archive."""
    if "://" in href or "\\" in href:
        raise ParseFailure("corrupt", f"{base} refers to {href!r}, which is outside the archive")
    joined = posixpath.normpath(href.lstrip("/") if href.startswith("/") else posixpath.join(posixpath.dirname(base), href))
    if joined.startswith("..") or joined in (".", ""):
        raise ParseFailure("corrupt", f"{base} refers to {href!r}, which is outside the archive")
    return joined
