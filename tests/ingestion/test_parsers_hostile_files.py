"""Files made to hurt a parser of the product: each is a typed row that says why, and its neighbours are parsed."""

from __future__ import annotations

import hashlib
import io
import socket
import struct
import threading
import time
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


# ------------------------------------------------------------------------------------------------- references to elsewhere
@pytest.fixture
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address that a document may refer to, and whatever came there, from any process."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hear() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    came.append(connection.recv(200))

        threading.Thread(target=hear, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", came
        with socket.create_connection(server.getsockname()) as own:  # what is heard proves that the ear was open
            own.sendall(b"own")
        deadline = time.monotonic() + 10
        while b"own" not in came and time.monotonic() < deadline:
            time.sleep(0.01)
        assert came.pop() == b"own"
        server.shutdown(socket.SHUT_RDWR)


def referring(path: Path, url: str) -> Path:
    """An Office file whose every part refers to a remote picture and template, with members that would be unpacked elsewhere."""
    kinds = ("image", "attachedTemplate", "oleObject", "hyperlink")
    start = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
    more = "".join(f'<Relationship Id="far{kind}" Type="{start}{kind}" Target="{url}/{kind}" TargetMode="External"/>' for kind in kinds)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in members:
        if name.endswith(".rels"):
            members[name] = members[name].replace(b"</Relationships>", more.encode() + b"</Relationships>")
    assert any(url.encode() in data for data in members.values())
    members |= dict.fromkeys(("../../escaped.txt", str(path.parent.parent / "escaped.txt"), "..\\escaped.txt", "CON", "nul.xml."), b"<x/>")
    path.write_bytes(zipped(members))
    return path


def write_referring(folder: Path, url: str, secret: Path) -> list[str]:
    """Files of every kind that refer to `url` and to a file outside the corpus, and hold readable words."""
    import docx
    import openpyxl
    import pptx

    words = "Readable words stand here."
    far = f'<img src="{url}/i.png"/><img srcset="{url}/s.png 2x"/><iframe src="{url}/f"></iframe><object data="{url}/o"></object>'
    style = f'<link rel="stylesheet" href="{url}/c.css"/><style>@import url({url}/d.css); p {{background: url({url}/b.png)}}</style>'
    entity = f'<!DOCTYPE html PUBLIC "x" "{url}/x.dtd" [<!ENTITY near SYSTEM "{secret.as_uri()}"><!ENTITY far SYSTEM "{url}/entity">]>'
    xhtml = f'<?xml version="1.0"?>{entity}<html xmlns="http://www.w3.org/1999/xhtml"><head>{style}</head><body><p>{words} &near; &far;</p>{far}</body></html>'
    html = xhtml.replace('<?xml version="1.0"?>', "").replace(
        "<head>", f'<head><base href="{url}/"><meta http-equiv="refresh" content="0; {url}/r">'
    )
    include = f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{secret.as_uri()}" parse="text"/>'
    svg = f'<?xml version="1.0"?><?xml-stylesheet href="{url}/s.css"?>{entity.replace("html", "svg")}<svg xmlns="http://www.w3.org/2000/svg"><text>{words} &near;</text><image href="{url}/i.png"/>{include}</svg>'
    opf = f'<?xml version="1.0"?><!DOCTYPE package SYSTEM "{url}/opf.dtd"><package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/><item id="b" href="{url}/b.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>'
    container = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="book.opf"/></rootfiles></container>'
    made = {
        "page.html": html.encode(),
        "page.xhtml": xhtml.encode(),
        "drawing.svg": svg.encode(),
        "notes.md": f"# Notes\n\n{words} ![x]({url}/m.png) <img src='{url}/n.png'>\n".encode(),
        "book.epub": zipped({"mimetype": b"application/epub+zip", "META-INF/container.xml": container.encode(), "book.opf": opf.encode(), "a.xhtml": xhtml.encode()}),
        "mail.eml": f"From: a@example.org\nSubject: s\nContent-Type: text/html; charset=utf-8\n\n{html}".encode(),
    }  # fmt: skip
    for name, data in made.items():
        (folder / name).write_bytes(data)
    document, deck, book = docx.Document(), pptx.Presentation(), openpyxl.Workbook()
    document.add_paragraph(words)
    document.save(str(folder / "letter.docx"))
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = words
    deck.save(str(folder / "deck.pptx"))
    book.active["A1"], book.active["A2"] = words, f'=WEBSERVICE("{url}/w")'
    book.save(folder / "sheet.xlsx")
    office = ["letter.docx", "deck.pptx", "sheet.xlsx"]
    for name in office:
        referring(folder / name, url)
    return [*made, *office]


def test_nothing_that_a_document_refers_to_is_fetched_or_read_from_the_disk_and_no_member_is_unpacked(
    tmp_path: Path, listener: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, came = listener
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    secret = tmp_path / "secret.txt"
    secret.write_text("sesame")
    (tmp_path / "corpus").mkdir()
    names = write_referring(tmp_path / "corpus", url, secret)
    paths = [tmp_path / "corpus" / name for name in names]
    requests = [ParseRequest(p.name, p, sniff(p), "any", hashlib.sha256(p.read_bytes()).hexdigest()) for p in paths]
    ended = {rows[0]["doc_id"]: rows for rows in parse_files("unstructured", requests, LIMITS)}
    assert came == []
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == sorted([*names, "secret.txt"])
    assert not (tmp_path.parent / "escaped.txt").exists()
    for name, rows in ended.items():
        text = " ".join(row["text"] or "" for row in rows) + (rows[0]["detail"] or "")
        assert "sesame" not in text, name
        read = "Readable words stand here." in text
        assert read or (name in ("drawing.svg", "page.xhtml") and rows[0]["reason"]), (name, rows[0]["reason"], rows[0]["detail"])
