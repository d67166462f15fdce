"""What kind of file a file is: its media type from content, with the name as tie-breaker, and names that promise another.

What belongs here: magic bytes, archive members, suffixes. What does not: listing a folder (`sources`) or reading a document (`parsers`).
"""

from __future__ import annotations

import lzma
import os
import re
import zipfile
import zlib
from pathlib import Path

PDF = "application/pdf"
HTML = "text/html"
MARKDOWN = "text/markdown"
PLAIN = "text/plain"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
EPUB = "application/epub+zip"
CSV = "text/csv"
TSV = "text/tab-separated-values"
EML = "message/rfc822"
NDJSON = "application/x-ndjson"
UNKNOWN = "application/octet-stream"

SUFFIXES: dict[str, str] = {
    ".pdf": PDF,
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".txt": PLAIN,
    ".text": PLAIN,
    ".docx": DOCX,
    ".pptx": PPTX,
    ".xlsx": XLSX,
    ".doc": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
    ".xls": "application/vnd.ms-excel",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".epub": EPUB,
    ".zip": "application/zip",
    ".rtf": "application/rtf",
    ".csv": CSV,
    ".tsv": TSV,
    ".tab": TSV,
    ".json": "application/json",
    ".jsonl": NDJSON,
    ".ndjson": NDJSON,
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".eml": EML,
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".webp": "image/webp",
}
"""The media type that a file name promises."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"BM", "image/bmp"),
    (b"{\\rtf", "application/rtf"),
    (b"\x1f\x8b", "application/gzip"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BOMS: tuple[tuple[bytes, str], ...] = (
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xef\xbb\xbf", "utf-8"),
)
_TEXTUAL = frozenset({"application/json", NDJSON, "application/xml", "application/yaml", EML})
HEAD = 64 * 1024
"""Bytes of a file's start that are looked at."""
_HTML_START = re.compile(r"(?:\s|<!--.*?-->|<\?xml[^>]*>)*<(?:!doctype\s+html|html[\s>])", re.I | re.S)

# A block of header fields (RFC 5322, 2.2) with a blank line after it, as a mail program writes it to a file.
_MAIL_FIELD = re.compile(r"([!-9;-~]+):[ \t]|[ \t]+\S")
_MAIL_NAMES = frozenset({
    "from", "to", "subject", "date", "message-id", "mime-version", "received", "return-path", "delivered-to", "content-type",
})  # fmt: skip


def promised_type(name: str) -> str | None:
    """Media type that a file name promises by its suffix; None for a suffix that promises nothing."""
    return SUFFIXES.get(os.path.splitext(name)[1].lower())


def contradicts(name: str, media_type: str) -> bool:
    """Whether the content is of another kind than the file name says. One image type for another is not held against it."""
    promised = promised_type(name)
    if promised is None or promised == media_type:
        return False
    return not (promised.startswith("image/") and media_type.startswith("image/"))


def sniff(path: Path) -> str:
    """Media type of a file, read from its content; the name decides only where the content leaves it open."""
    with path.open("rb") as stream:
        return sniff_head(path, stream.read(HEAD))


def sniff_head(path: Path, head: bytes) -> str:
    """The same from the first HEAD bytes, for a caller that has read them."""
    promised = promised_type(path.name)
    if not head:
        return promised or UNKNOWN
    if b"%PDF-" in head[:1024]:  # readers accept leading junk of up to 1,024 bytes (ISO 32000-1, implementation note 13)
        return PDF
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_type(path, promised)
    if head.startswith(_OLE):
        return _ole_type(path, promised)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    for magic, media_type in _MAGIC:
        if head.startswith(magic) and not (magic == b"BM" and _as_text(head) is not None):
            return media_type
    text = _as_text(head)
    if text is None:
        return promised or UNKNOWN
    if promised and (promised.startswith("text/") or promised in _TEXTUAL):
        return promised
    if _HTML_START.match(text):
        return HTML
    if _is_mail(text):
        return EML
    return "application/xml" if text.lstrip().startswith("<?xml") else PLAIN


def _is_mail(text: str) -> bool:
    """Whether a text starts like a mail: header fields alone up to an empty line, at least three of those every mail has."""
    names = set()
    for line in text.splitlines():
        if not line.strip():
            break
        field = _MAIL_FIELD.match(line)
        if field is None:
            return False
        names.add((field[1] or "").lower())
    return "from" in names and len(names & _MAIL_NAMES) >= 3


def _as_text(head: bytes) -> str | None:
    """The first bytes as text, or None if they look like no text: NUL or control characters outside a wide encoding."""
    for bom, encoding in _BOMS:
        if head.startswith(bom):
            return head[len(bom) :].decode(encoding, errors="ignore")
    if b"\x00" in head or sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head) > len(head) / 100:
        return None
    try:
        return head.decode("utf-8", errors="strict" if len(head) < HEAD else "ignore")
    except UnicodeDecodeError:
        return head.decode("latin-1")


BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, OSError)
"""What reading a damaged archive raises."""


def _zip_type(path: Path, promised: str | None) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if "mimetype" in names:
                with archive.open("mimetype") as stream:  # of a bomb, too, only this much is unpacked
                    return stream.read(200).decode("ascii", errors="ignore").strip() or "application/zip"
    except (*BROKEN_ARCHIVE, ValueError, RuntimeError):
        return promised if promised in (DOCX, PPTX, XLSX, SUFFIXES[".odt"], EPUB) else "application/zip"
    for member, media_type in (
        ("word/document.xml", DOCX),
        ("xl/workbook.xml", XLSX),
        ("ppt/presentation.xml", PPTX),
        ("META-INF/container.xml", EPUB),
    ):
        if member in names:
            return media_type
    return "application/zip"


def is_encrypted_office(path: Path) -> bool:
    """Whether a file is an Office Open XML document behind a password: an OLE container with an EncryptedPackage stream
    (MS-OFFCRYPTO 2.3.4.4)."""
    data = path.read_bytes()
    return data.startswith(_OLE) and "EncryptedPackage".encode("utf-16-le") in data


def _ole_type(path: Path, promised: str | None) -> str:
    if promised in (DOCX, PPTX, XLSX):
        return promised if is_encrypted_office(path) else "application/x-ole-storage"
    office = (SUFFIXES[".doc"], SUFFIXES[".ppt"], SUFFIXES[".xls"])
    return promised if promised in office else "application/x-ole-storage"
