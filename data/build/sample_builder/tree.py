"""Builds the whole evaluation folder from `content/`.

What belongs here: reading content, calling the renderers, sidecars, references, and writing the tree. What does not: the
questions and labels (questions.py), one format's rendering.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml

from ingestion.references import read_markdown
from sample_builder import broken, exports, office, pdf, plainfiles, questions, scan, web, word
from sample_builder.markup import ContentError, Document, Rendition, block_text, load_yaml, read_document, reference_markdown, table_html

BUILT = ("corpus", "golden", "references", "labels")
PAPER = ("pdf", "scan")
SINGLE = {
    "html": web.render, "docx": word.render, "md": plainfiles.markdown, "txt": plainfiles.text, "pptx": office.slides,
    "xlsx": office.workbook, "csv": exports.table, "eml": exports.mail, "epub": exports.book,
}  # fmt: skip
"""Renderers of formats without pages."""


def read_content(content: Path) -> list[Document]:
    """Every authored document, by file name."""
    return [read_document(file) for file in sorted((content / "docs").rglob("*.md"))]


def render(rendition: Rendition) -> tuple[bytes, list[str]]:
    """A rendition's bytes and, for paper, the text of each page in reading order."""
    if rendition.format == "pdf":
        return pdf.render(rendition)
    if rendition.format == "scan":
        return scan.render(rendition)
    return SINGLE[rendition.format](rendition), []


def flowing_text(rendition: Rendition) -> str:
    """The text of a format without pages, a block a line."""
    typed = rendition.format == "txt"  # lines under headings are characters there
    numbered = rendition.format in ("txt", "docx")  # so are list numbers, and a reader of Word sees them
    lines: list[str] = []
    for block in rendition.blocks:
        if block.kind != "pagebreak":
            lines.append(block_text(block, numbered=numbered))
        if typed and block.kind == "heading":
            lines.append(plainfiles.underline(block))
    return "\n".join(lines) + "\n"


def marked_transcript(rendition: Rendition, pages: list[str]) -> str | None:
    """The transcript in Markdown, where that says the same text in the same order; None where it does not (pages, notes, figures)."""
    if rendition.format not in ("html", "docx", "pdf", "pptx", "epub") or "pages" in rendition.references:
        return None
    paper = rendition.format in PAPER
    markup = reference_markdown(rendition.blocks, numbered=paper or rendition.format == "docx")
    expected = "".join(pages) if paper else flowing_text(rendition)
    return markup if read_markdown(markup)[0].split() == expected.split() else None


def references(rendition: Rendition, pages: list[str]) -> dict[str, str]:
    """Reference files the header asks for, by path below references/: text, pages, tables."""
    out: dict[str, str] = {}
    if "text" in rendition.references and (marked := marked_transcript(rendition, pages)):
        return {f"text/{rendition.doc_id}.md": marked}
    if "text" in rendition.references:
        out[f"text/{rendition.doc_id}.txt"] = "".join(pages) if rendition.format in PAPER else flowing_text(rendition)
    if "pages" in rendition.references:
        out.update({f"text/{rendition.doc_id}.p{n}.txt": text for n, text in enumerate(pages, start=1)})
    if "tables" in rendition.references:
        tables = [b for b in rendition.blocks if b.kind == "table"]
        out.update({f"tables/{rendition.doc_id}.t{n}.html": table_html(b) for n, b in enumerate(tables, start=1)})
    return out


def build(content: Path, target: Path) -> dict[str, int]:
    """Write corpus/, golden/, references/ and labels/ below `target`, replacing what is there. Returns counts of what was made.

    Raises ContentError where a question, a label or an edit does not fit the authored text.
    """
    documents = read_content(content)
    renditions = [r for d in documents for r in d.renditions]
    files: dict[str, bytes] = {}
    corpus: dict[str, bytes] = {}
    for rendition in renditions:
        if rendition.path in corpus:
            raise ContentError(f"{rendition.path} is built twice")
        corpus[rendition.path], pages = render(rendition)
        if rendition.meta:
            files[f"corpus/{rendition.path}.meta.yaml"] = _yaml(rendition.meta)
        files.update({f"references/{name}": text.encode("utf-8") for name, text in references(rendition, pages).items()})
    broken_wishes = load_yaml((content / "broken.yaml").read_text(encoding="utf-8"))
    corpus.update(broken.broken_files(corpus, broken_wishes))
    files.update({f"corpus/{path}": data for path, data in corpus.items()})
    for folder, meta in load_yaml((content / "folders.yaml").read_text(encoding="utf-8")).items():
        files[f"corpus/{folder}/folder.meta.yaml"] = _yaml(meta)
    asked = questions.read_questions(content / "golden", documents)
    for split, rows in questions.by_split(asked).items():
        files[f"golden/{split}.jsonl"] = questions.json_lines(rows)
    labels = questions.read_labels(content / "labels.yaml", documents, asked)
    for kind, rows in labels.items():
        files[f"labels/{kind}.jsonl"] = questions.json_lines(rows)
    for name in BUILT:
        shutil.rmtree(target / name, ignore_errors=True)
    for name, data in sorted(files.items()):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return {
        "files in the corpus": len(corpus),
        "questions": len(asked),
        "labels": sum(map(len, labels.values())),
        "references": sum(name.startswith("references/") for name in files),
    }


def _yaml(value: Mapping[str, object]) -> bytes:
    return yaml.safe_dump(dict(value), allow_unicode=True, sort_keys=False).encode("utf-8")
