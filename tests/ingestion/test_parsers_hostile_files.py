"""Files made to hurt a parser of the product: each is a typed row that says why, and its neighbours are parsed."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pymupdf
import pytest

from ingestion.media_types import sniff
from ingestion.parsers import ParseLimits, ParseRequest, parse_files
from ingestion.parsers.archives import MOST_MEMBERS
from rag_eval_assets.tables import REASONS

LIMITS = ParseLimits(workers=2, seconds=15, megabytes=700, source_megabytes=8, pages=2000)
MIB = 1024 * 1024


def zipped(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return made.getvalue()


def lying(data: bytes, size: int) -> bytes:
    """A zip whose central directory states `size` for its first member."""
    at = data.index(b"PK\x01\x02") + 24
    return data[:at] + struct.pack("<I", size) + data[at + 4 :]


def pdf(pages: int, content: bytes | None = None) -> bytes:
    """A PDF written by hand; `content` is a flate stream that every page shows."""
    stream = content if content is not None else zlib.compress(b"BT /F1 12 Tf 72 700 Td (Readable words stand here) Tj ET")
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (pages, b" ".join(b"%d 0 R" % (5 + i) for i in range(pages))),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        *[b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents 4 0 R>>"] * pages,
    ]
    out, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%s endobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(out + b"trailer<</Size %d/Root 1 0 R>>startxref\n%d\n%%%%EOF" % (len(objects) + 1, start))


def png(width: int, height: int) -> bytes:
    """A one-bit picture of one colour: a few kilobytes for any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    data = packed(bytes(1 + (width + 7) // 8), height)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
        + chunk(b"IDAT", data)
        + chunk(b"IEND", b"")
    )


def packed(block: bytes, times: int) -> bytes:
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(block) for _ in range(times)) + packer.flush()


def encrypted_pdf() -> bytes:
    document = pymupdf.open()
    document.new_page().insert_text((72, 72), "secret words")
    return bytes(document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, owner_pw="o", user_pw="u"))


LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "' + b"ha" * 50 + b'">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(8)) + b"]><l>&i;</l>"
)  # fmt: skip
BOMB = bytes(64 * MIB)
MAIN = {"docx": "word/document.xml", "xlsx": "xl/workbook.xml", "pptx": "ppt/presentation.xml", "epub": "META-INF/container.xml"}
LOCKED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")


def cases() -> Iterator[tuple[str, str, bytes, str]]:
    """(parser kind, file name, content, reason)."""
    for suffix, main in MAIN.items():
        yield "unstructured", f"bomb.{suffix}", zipped({main: b"<x/>", "media/bomb": BOMB}), "too_large"
        yield "unstructured", f"many.{suffix}", zipped({main: b"<x/>", **{f"m/{i}": b"" for i in range(MOST_MEMBERS)}}), "too_large"
        # A member is not read past the size that was checked, so what it holds beyond is never unpacked.
        yield "unstructured", f"lying.{suffix}", lying(zipped({main: b"<x>" + bytes(16 * MIB)}), 100), "corrupt"
        yield "unstructured", f"laughs.{suffix}", zipped({main: LAUGHS}), "corrupt"
        yield "unstructured", f"cut.{suffix}", zipped({main: b"<x/>" * 99})[:-40], "corrupt"
        yield "unstructured", f"hollow.{suffix}", zipped({main: b"<x/>"}), "corrupt"
        yield "unstructured", f"zero.{suffix}", b"", "empty_file"
        yield "unstructured", f"other.{suffix}", b"%PDF-1.7 and so on", "wrong_extension"
        if suffix != "epub":
            yield "unstructured", f"locked.{suffix}", LOCKED, "encrypted"
    yield "unstructured", "deep.html", b"<div>" * 200_000 + b"words" + b"</div>" * 200_000, ""
    yield "unstructured", "wide.csv", b",".join([b"a"] * 300_000), ""
    yield "unstructured", "quote.csv", b'"' + b"a,\n" * 100_000, ""
    yield "unstructured", "nul.txt", b"\x00" * 1000, "undecodable"
    yield "pymupdf", "pages.pdf", pdf(10_000), "too_large"
    yield "pymupdf", "flate.pdf", pdf(1, packed(bytes(MIB), 1024)), ""
    yield "pymupdf", "bomb.pdf", pdf(1, packed(b"q " * MIB, 64)), ""
    yield "pymupdf", "locked.pdf", encrypted_pdf(), "encrypted"
    yield "pymupdf", "cut.pdf", pdf(3)[:200], "corrupt"
    yield "ocr", "bomb.png", png(60_000, 60_000), "too_large"
    yield "ocr", "cut.png", png(100, 100)[:30], "corrupt"


PLAIN = {"unstructured": ("fine.html", b"<html><body><p>Readable words stand here.</p></body></html>"), "pymupdf": ("fine.pdf", pdf(1))}


@pytest.mark.parametrize("kind", ["unstructured", "pymupdf", "ocr"])
def test_each_hostile_file_is_a_typed_row_and_sound_files_around_it_are_read(kind: str, tmp_path: Path) -> None:
    files = [case[1:] for case in cases() if case[0] == kind]
    if kind in PLAIN:
        name, data = PLAIN[kind]
        files = [(f"first-{name}", data, "ok"), *files, (f"last-{name}", data, "ok")]
    requests = []
    for name, data, _ in files:
        (tmp_path / name).write_bytes(data)
        requests.append(ParseRequest(name, tmp_path / name, sniff(tmp_path / name), "any", hashlib.sha256(data).hexdigest()))
    ended = {rows[0]["doc_id"]: rows for rows in parse_files(kind, requests, LIMITS)}
    for name, rows in ended.items():
        print(f"{name:16} {rows[0]['status']:8} {rows[0]['reason'] or '-':14} {len(rows):5} rows  {(rows[0]['detail'] or '')[:90]}")
    assert list(ended) == [name for name, _, _ in files]
    for name, _, reason in files:
        row = ended[name][0]
        if reason == "ok":
            assert (row["status"], row["text"].rstrip(".")) == ("ok", "Readable words stand here")
        elif reason:
            assert (name, row["reason"]) == (name, reason), row["detail"]
            assert row["detail"]
        else:  # elements, or the limit of a library or of ours that it ran into first
            assert row["status"] == "ok" or (row["reason"] in REASONS and row["detail"]), name
