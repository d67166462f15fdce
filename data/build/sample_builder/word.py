"""DOCX files of the authored text: headings, lists, tables, running header.

What belongs here: python-docx calls, and the repacking that leaves no clock in the file. What does not: other formats.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import zipfile
from typing import Any

from sample_builder.markup import BOLD, NOTE_MARK, Rendition, plain

EPOCH = (2024, 1, 1, 0, 0, 0)
SKIPPED = ("docProps/thumbnail.jpeg",)


def _runs(paragraph: Any, text: str) -> None:
    """Add a text to a paragraph, bold and footnote marks as runs of their own."""
    for piece in re.split(r"(\*\*.+?\*\*|\[\^\d+\])", text):
        if not piece:
            continue
        if bold := BOLD.fullmatch(piece):
            paragraph.add_run(plain(bold[1])).bold = True
        elif note := NOTE_MARK.fullmatch(piece):
            paragraph.add_run(note[1]).font.superscript = True
        else:
            paragraph.add_run(plain(piece))


def render(rendition: Rendition) -> bytes:
    """A DOCX file."""
    import docx

    document: Any = docx.Document()
    core = document.core_properties
    core.title, core.author, core.comments = rendition.title, "Brinkhal", ""
    core.created = core.modified = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    core.last_modified_by, core.revision = "Brinkhal", 1
    if head := rendition.options.get("head"):
        document.sections[0].header.paragraphs[0].text = str(head).replace("||", "\t\t")
    if foot := rendition.options.get("foot"):
        document.sections[0].footer.paragraphs[0].text = str(foot).replace("||", "\t\t").replace("{n}", "").strip()
    for block in rendition.blocks:
        if block.kind == "heading":
            document.add_heading(plain(block.text), level=block.level)
        elif block.kind == "table":
            table = document.add_table(rows=len(block.rows), cols=len(block.rows[0]), style="Table Grid")
            for r, row in enumerate(block.rows):
                for c, cell in enumerate(row):
                    paragraph = table.rows[r].cells[c].paragraphs[0]
                    _runs(paragraph, f"**{cell}**" if r == 0 and cell else cell)
            document.add_paragraph()
        elif block.kind == "pagebreak":
            document.add_page_break()
        elif block.kind == "footnote":
            _runs(document.add_paragraph(), f"[^{block.number}] {block.text}")
        else:
            style = {"bullet": "List Bullet", "number": "List Number", "callout": "Intense Quote"}.get(block.kind)
            _runs(document.add_paragraph(style=style), block.text)
    raw = io.BytesIO()
    document.save(raw)
    return repack(raw.getvalue())


def repack(data: bytes) -> bytes:
    """The same zip with fixed times and members in order, without the template's picture."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as source,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target,
    ):
        names = sorted(source.namelist(), key=lambda n: (n != "[Content_Types].xml", n))
        for name in names:
            if name in SKIPPED:
                continue
            content = source.read(name)
            if name == "_rels/.rels":
                content = re.sub(rb"<Relationship [^>]*thumbnail[^>]*/>", b"", content)
            if name == "docProps/core.xml":  # openpyxl writes when it saved
                content = re.sub(rb"(<dcterms:(\w+) [^>]*>)[^<]*", rb"\g<1>2024-01-01T00:00:00Z", content)
            info = zipfile.ZipInfo(name, date_time=EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            target.writestr(info, content)
    return out.getvalue()
