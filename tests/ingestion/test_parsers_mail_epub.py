"""Mails and books: nothing is fetched, nothing outside the file is read, every charset is decoded."""

from __future__ import annotations

import base64
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pytest

from ingestion import media_types
from ingestion.media_types import EML, EPUB, sniff
from ingestion.parsers import unstructured_elements
from ingestion.parsers.decoding import decode
from ingestion.parsers.elements import Element, Parsed, ParseFailure, ParseOptions

pytestmark = pytest.mark.usefixtures("unstructured", "no_network")


def mail(path: Path, data: bytes) -> Parsed:
    path.write_bytes(data)
    return unstructured_elements.parse(path, EML, ParseOptions())


def brief(elements: list[Element]) -> list[tuple[str, str]]:
    return [(element.category, element.text) for element in elements]


def test_a_mail_is_its_subject_its_fields_and_its_html_and_attachments_are_named(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "Bestellung für März"
    message["From"] = "Änne Müller <anne@example.org>"
    message["To"] = "sales@example.org"
    message["Date"] = "Tue, 31 Mar 2026 09:00:00 +0200"
    message.set_content("the plain text, which is not read")
    message.add_alternative(
        "<html><body><h1>Order</h1><p>We need four seals by Friday, please.</p><img src='http://tracker.example/x.png'></body></html>",
        subtype="html",
    )
    message.add_attachment(b"%PDF-1.7", maintype="application", subtype="pdf", filename="Preise März.pdf")
    parsed = mail(tmp_path / "a.eml", message.as_bytes())
    assert [kind for kind in brief(parsed.elements) if kind[1]] == [
        ("Title", "Bestellung für März"),
        ("Header", "From: Änne Müller <anne@example.org>"),
        ("Header", "To: sales@example.org"),
        ("Header", "Date: Tue, 31 Mar 2026 09:00:00 +0200"),
        ("Title", "Order"),
        ("NarrativeText", "We need four seals by Friday, please."),
    ]
    assert [element.heading_level for element in parsed.elements if element.category == "Title"] == [1, 2]
    assert parsed.notes == ["not read: Preise März.pdf"]


WORDS = {
    "iso-8859-8-i": "שלום לכולם, הפגישה נדחתה",
    "iso-2022-jp": "会議は延期されました。",
    "shift_jis": "会議は延期されました。",
    "euc-jp": "会議は延期されました。",
    "koi8-r": "Встреча перенесена на пятницу.",
    "windows-1252": "Die Besprechung ist am „Freitag“ – 10 €.",
    "gb2312": "会议改到星期五。",
    "big5": "會議改到星期五。",
}


@pytest.mark.parametrize("charset", WORDS)
@pytest.mark.parametrize("transfer", ["base64", "quoted-printable"])
def test_a_body_in_any_charset_and_transfer_encoding_is_read(charset: str, transfer: str, tmp_path: Path) -> None:
    import quopri

    data = WORDS[charset].encode(charset.removesuffix("-i"))
    body = base64.encodebytes(data) if transfer == "base64" else quopri.encodestring(data)
    head = f"From: a@example.org\nSubject: s\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: {transfer}\n\n"
    assert brief(mail(tmp_path / "a.eml", head.encode() + body).elements)[-1][1] == WORDS[charset]


def test_a_mail_without_html_text_gives_the_plain_alternative(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "s"
    message.set_content("Only here is anything to read.")
    message.add_alternative("<html><body><img src='x.png'></body></html>", subtype="html")
    assert brief(mail(tmp_path / "a.eml", message.as_bytes()).elements)[-1] == ("NarrativeText", "Only here is anything to read.")


@pytest.mark.parametrize("kind", ["multipart/encrypted; boundary=x", "application/pkcs7-mime; smime-type=enveloped-data"])
def test_an_encrypted_mail_says_so(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ParseFailure) as failure:
        mail(tmp_path / "a.eml", f"From: a@b.c\nSubject: s\nContent-Type: {kind}\n\n--x\n\nMIAGCSqG\n--x--\n".encode())
    assert failure.value.reason == "encrypted"


def test_parts_nested_past_reason_are_corrupt(tmp_path: Path) -> None:
    levels = 3000
    head = "".join(f"Content-Type: multipart/mixed; boundary=b{i}\n\n--b{i}\n" for i in range(levels))
    with pytest.raises(ParseFailure) as failure:
        mail(tmp_path / "a.eml", f"From: a@b.c\n{head}\nhello".encode())
    assert failure.value.reason == "corrupt"


def test_broken_fields_and_an_unknown_charset_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    data = b"From: =?x-none?b?!!!?= <a@b.c>\nSubject: =?utf-8?q?caf=C3?= \xe9t\xe9\nContent-Type: text/plain; charset=x-nobody\n\nSee you at the caf\xe9.\n"
    parsed = mail(tmp_path / "a.eml", data)
    assert parsed.elements[0].category == "Title"
    assert "té" in parsed.elements[0].text
    assert parsed.elements[-1].text == "See you at the café."


@pytest.mark.parametrize(
    ("name", "text", "media_type"),
    [
        ("a", "Received: by x\n\tid 1\nFrom: a@b.c\nSubject: s\n\nbody", EML),
        ("a.txt", "From: a@b.c\nTo: d@e.f\nSubject: s\n\nbody", media_types.PLAIN),  # text it is, as its name says
        ("a", "From: here to there\nthe road is long: very\nSubject: to weather\n", media_types.PLAIN),
        ("a", "Title: x\nAuthor: y\nDate: z\n", media_types.PLAIN),
    ],
)
def test_a_mail_without_a_suffix_is_known_by_its_fields(name: str, text: str, media_type: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert sniff(tmp_path / name) == media_type


# --------------------------------------------------------------------------------------------------------------- EPUB
CONTAINER = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
XHTML = '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x.js"/></head><body>{}</body></html>'


def book(path: Path, hrefs: list[str], members: dict[str, str], container: str = CONTAINER) -> Path:
    items = "".join(f'<item id="i{i}" href="{href}" media-type="application/xhtml+xml"/>' for i, href in enumerate(hrefs))
    refs = "".join(f'<itemref idref="i{i}"/>' for i in range(len(hrefs)))
    package = f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{refs}</spine></package>'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", EPUB)
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("OEBPS/book.opf", package)
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def read(path: Path) -> Parsed:
    return unstructured_elements.parse(path, EPUB, ParseOptions())


def test_a_book_is_read_in_the_order_of_its_spine_with_a_page_an_item(tmp_path: Path) -> None:
    path = book(
        tmp_path / "a.epub",
        ["text/two%20b.xhtml", "one.xhtml#start", "gone.xhtml"],
        {
            "OEBPS/one.xhtml": XHTML.format("<h1>Second chapter</h1><p>It rained all day in Bern.</p>"),
            "OEBPS/text/two b.xhtml": XHTML.format("<h1>First chapter</h1><p>The train left at noon.</p>"),
            "OEBPS/unused.xhtml": XHTML.format("<p>Not in the spine at all.</p>"),
        },
    )
    assert sniff(path) == EPUB
    parsed = read(path)
    assert [(element.page, element.category, element.text) for element in parsed.elements] == [
        (1, "Title", "First chapter"),
        (1, "NarrativeText", "The train left at noon."),
        (2, "Title", "Second chapter"),
        (2, "NarrativeText", "It rained all day in Bern."),
    ]
    assert parsed.notes == ["OEBPS/gone.xhtml is not in the archive"]


@pytest.mark.parametrize(
    "href", ["../../etc/passwd", "/../x.xhtml", "file:///etc/passwd", "http://example.org/x.xhtml", "..\\x.xhtml", "%2e%2e/%2e%2e/x"]
)
def test_a_reference_out_of_the_archive_is_refused(href: str, tmp_path: Path) -> None:
    with pytest.raises(ParseFailure, match="outside the archive") as failure:
        read(book(tmp_path / "a.epub", [href], {}))
    assert failure.value.reason == "corrupt"


def test_entities_of_a_book_are_not_expanded_and_files_not_included(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret words")
    dtd = f'<!DOCTYPE x [<!ENTITY s SYSTEM "{secret.as_uri()}"><!ENTITY t "OEBPS/book.opf">]>'
    with pytest.raises(ParseFailure, match="archive"):  # the path is an entity, which stays one
        read(book(tmp_path / "a.epub", ["one.xhtml"], {}, dtd + CONTAINER.replace("OEBPS/book.opf", "&t;x")))
    page = dtd.replace("x [", "html [") + "<html><body><p>Before &s; and after, as written.</p></body></html>"
    text = " ".join(element.text for element in read(book(tmp_path / "b.epub", ["one.xhtml"], {"OEBPS/one.xhtml": page})).elements)
    assert "and after" in text
    assert "secret words" not in text


def test_a_book_under_drm_is_encrypted_and_one_with_obfuscated_fonts_is_not(tmp_path: Path) -> None:
    def lock(uri: str) -> str:
        data = f'<EncryptedData><CipherData><CipherReference URI="{uri}"/></CipherData></EncryptedData>'
        return f'<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container">{data}</encryption>'

    page = {"OEBPS/one.xhtml": XHTML.format("<p>Readable words stand here.</p>")}
    with pytest.raises(ParseFailure) as failure:
        read(book(tmp_path / "a.epub", ["one.xhtml"], {**page, "META-INF/encryption.xml": lock("OEBPS/one.xhtml")}))
    assert failure.value.reason == "encrypted"
    free = read(book(tmp_path / "b.epub", ["one.xhtml"], {**page, "META-INF/encryption.xml": lock("OEBPS/font.otf")}))
    assert free.elements[0].text == "Readable words stand here."


# ---------------------------------------------------------------------------------------------------------- encodings
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "text", ["Plain words.\nA second line", "Погода сегодня хорошая, идём гулять.", "今日は晴れ。 散歩に行く\n明日は雨"]
)
def test_wide_encodings_without_a_mark_are_told_by_their_nuls(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)) == (text, f"decoded as {encoding}, without a byte order mark")


@pytest.mark.parametrize("data", [b"\x00\x01\x02\x03" * 50, b"a\x00b", bytes(range(256)) * 4])
def test_what_is_no_text_is_undecodable(data: bytes) -> None:
    with pytest.raises(ParseFailure) as failure:
        decode(data)
    assert failure.value.reason == "undecodable"


@pytest.mark.parametrize("name", ["idna", "unicode_escape", "hex", "no-such-charset", "rot13"])
def test_a_declared_codec_that_is_no_charset_is_not_used(name: str) -> None:
    assert decode("Grüße".encode("cp1252"), declared=name) == ("Grüße", "decoded as windows-1252")
