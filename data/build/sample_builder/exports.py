"""CSV, EML and EPUB files of the authored text: what other programs export.

What belongs here: the three containers, without a clock or a random boundary in them. What does not: the text of a chapter (web.py).
"""

from __future__ import annotations

import csv
import html
import io
import zipfile
import zlib
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP

from sample_builder.markup import ContentError, Rendition, plain
from sample_builder.office import sections
from sample_builder.web import body
from sample_builder.word import EPOCH


def table(rendition: Rendition) -> bytes:
    """The one table as CSV; `delimiter` in the header."""
    tables = [block for block in rendition.blocks if block.kind == "table"]
    if len(tables) != len(rendition.blocks) or len(tables) != 1:
        raise ContentError(f"{rendition.path}: a CSV file holds one table and nothing else")
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=str(rendition.options.get("delimiter", ","))).writerows([plain(c) for c in row] for row in tables[0].rows)
    return out.getvalue().encode("utf-8")


def mail(rendition: Rendition) -> bytes:
    """A mail: the first heading is its subject. `mail` in the header: from, to (name and address each), date."""
    (subject, blocks), *more = sections(rendition)
    if more:
        raise ContentError(f"{rendition.path}: a mail has one heading, its subject")
    wish = rendition.options["mail"]
    message = EmailMessage(policy=SMTP)
    message["Subject"] = plain(subject.text)
    message["From"], message["To"] = (Address(wish[side][0], addr_spec=wish[side][1]) for side in ("from", "to"))
    message["Date"] = wish["date"]
    message["Message-ID"] = f"<{zlib.crc32(rendition.path.encode()):08x}@brinkhal.example>"
    message.set_content("\n\n".join(plain(block.text) for block in blocks) + "\n", charset="utf-8", cte="quoted-printable")
    return message.as_bytes()


def book(rendition: Rendition) -> bytes:
    """An EPUB 3 book: a chapter a heading of the first two levels."""
    chapters: list[list[int]] = []
    for at, block in enumerate(rendition.blocks):
        if not chapters or (block.kind == "heading" and block.level <= 2):
            chapters.append([])
        chapters[-1].append(at)
    names = [f"chapter{number}.xhtml" for number in range(1, len(chapters) + 1)]
    title = html.escape(rendition.title)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    manifest = "".join(f'<item id="c{i}" href="{name}" media-type="application/xhtml+xml"/>' for i, name in enumerate(names, 1))
    spine = "".join(f'<itemref idref="c{i}"/>' for i in range(1, len(names) + 1))
    first = [html.escape(plain(rendition.blocks[at[0]].text)) for at in chapters]
    links = "".join(f'<li><a href="{name}">{words}</a></li>' for name, words in zip(names, first, strict=True))
    members = {
        "META-INF/container.xml": f'{head}<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>\n',
        "OEBPS/package.opf": f'{head}<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">brinkhal:{rendition.key}</dc:identifier>'
        f"<dc:title>{title}</dc:title><dc:language>{rendition.language}</dc:language>"
        '<meta property="dcterms:modified">2024-01-01T00:00:00Z</meta></metadata>'
        f'<manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>{manifest}</manifest>'
        f"<spine>{spine}</spine></package>\n",
        "OEBPS/nav.xhtml": f'{head}<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><title>{title}'
        f'</title></head><body><nav epub:type="toc"><ol>{links}</ol></nav></body></html>\n',
    }
    for name, at in zip(names, chapters, strict=True):
        text = body([rendition.blocks[i] for i in at])
        members[f"OEBPS/{name}"] = (
            f'{head}<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="{rendition.language}"><head><title>{title}</title></head>'
            f"<body>\n{text}\n</body></html>\n"
        )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        # The type stands first and unpacked (EPUB 3.3, 4.2.3).
        archive.writestr(zipfile.ZipInfo("mimetype", EPOCH), "application/epub+zip")
        for name, content in members.items():
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            archive.writestr(info, content.encode("utf-8"))
    return out.getvalue()
