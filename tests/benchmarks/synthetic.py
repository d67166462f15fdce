"""Evaluation folders of any size: deterministic prose with Zipf's word frequencies, as PDF, Markdown and plain text.

What belongs here: files and settings. What does not: measuring.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rag_eval_assets.settings import Folder

SEED = 7
QUESTIONS = 40
_VOCABULARY = 8_000
_COMMON = 500
"""The most frequent words, which no document has for its topic."""
PARSING: dict[str, Any] = {
    "parsers": {
        "pymupdf": {"kind": "pymupdf", "classes": ["pdf"]},
        "unstructured": {"kind": "unstructured", "classes": ["markdown", "text"]},
    },
    "parser_of": {"pdf": "pymupdf", "markdown": "unstructured", "text": "unstructured"},
}
"""Settings that give each parser half of the corpus."""
_SUFFIXES = (".md", ".pdf", ".txt", ".pdf")


@cache
def vocabulary() -> tuple[str, ...]:
    """English words, most frequent first: those of the embedder's own tokenizer, which stand in order of frequency."""
    from tokenizers import Tokenizer

    from rag_eval_assets.resources.embedders.minilm import MINILM_TOKENIZER

    words = sorted(Tokenizer.from_file(str(MINILM_TOKENIZER.locate())).get_vocab().items(), key=lambda item: item[1])
    return tuple(word for word, number in words if number >= 1996 and word.isascii() and word.isalpha() and len(word) > 1)[:_VOCABULARY]


def sentences(number: int, words: int) -> list[str]:
    """About `words` words of prose, the same for the same number; every fifth word is one of the document's own topic."""
    known, chance = vocabulary(), np.random.default_rng([SEED, number])
    weights = 1 / (np.arange(len(known)) + 2.7)  # Zipf and Mandelbrot
    drawn = chance.choice(len(known), words, p=weights / weights.sum())
    topic = chance.choice(np.arange(_COMMON, len(known)), 40, replace=False)
    drawn = np.where(chance.random(words) < 0.2, chance.choice(topic, words), drawn)
    found, at = [], 0
    while at < words:
        length = int(chance.integers(8, 20))
        text = " ".join(known[i] for i in drawn[at : at + length])
        found.append(f"{text[0].upper()}{text[1:]}.")
        at += length
    return found


def document_id(number: int) -> str:
    return f"report-{number:04d}{_SUFFIXES[number % len(_SUFFIXES)]}"


def write_document(folder: Folder, number: int, words: int, *, edited: bool = False) -> str:
    """Write one document of the corpus, with one sentence replaced where `edited`; its id."""
    body = sentences(number, words)
    if edited:
        body[len(body) // 3] = "The committee replaced this sentence after its second reading of the report."
    sections = []
    for start in range(0, len(body), 15):
        paragraphs = [" ".join(body[at : at + 5]) for at in range(start, min(start + 15, len(body)), 5)]
        sections.append((" ".join(body[start].rstrip(".").split()[:5]), paragraphs))
    path = folder.corpus / document_id(number)
    {".md": _markdown, ".txt": _plain, ".pdf": _pdf}[path.suffix](path, f"Report {number}", sections)
    return path.name


def _markdown(path: Path, title: str, sections: list[tuple[str, list[str]]]) -> None:
    parts = [f"# {title}", *(part for heading, paragraphs in sections for part in (f"## {heading}", *paragraphs))]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _plain(path: Path, title: str, sections: list[tuple[str, list[str]]]) -> None:
    path.write_text(
        "\n\n".join([title, *(part for heading, paragraphs in sections for part in (heading, *paragraphs))]) + "\n", encoding="utf-8"
    )


def _pdf(path: Path, title: str, sections: list[tuple[str, list[str]]]) -> None:
    import textwrap

    import pymupdf

    lines = [(title, 18)]
    for heading, paragraphs in sections:
        lines += [("", 11), (heading, 14)]
        for paragraph in paragraphs:
            lines += [("", 11), *((line, 11) for line in textwrap.wrap(paragraph, 84))]
    with pymupdf.open() as pdf:
        for start in range(0, len(lines), 44):
            page = pdf.new_page()
            for row, (text, size) in enumerate(lines[start : start + 44]):
                page.insert_text((72, 80 + 15 * row), text, fontsize=size)
        pdf.save(path, deflate=True, no_new_id=True)


def write_folder(path: Path, files: int, words: int, settings: Mapping[str, Any]) -> Folder:
    """An evaluation folder of `files` documents, with one question on each of up to QUESTIONS of them."""
    folder = Folder(path)
    folder.corpus.mkdir(parents=True)
    folder.golden.mkdir()
    (path / "evaluation.yaml").write_text(yaml.safe_dump(dict(settings), sort_keys=False), encoding="utf-8")
    for number in range(files):
        write_document(folder, number, words)
    asked = sorted({i * files // QUESTIONS for i in range(QUESTIONS)})
    lines = [json.dumps(_question(number, words, i % 2 == 0)) for i, number in enumerate(asked)]
    (folder.golden / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _question(number: int, words: int, development: bool) -> dict[str, Any]:
    body = sentences(number, words)
    quotation = body[len(body) // 2]
    rarest = sorted(set(quotation.rstrip(".").lower().split()), key=vocabulary().index)[-4:]
    return {
        "id": f"q{number:04d}",
        "question": f"What is said about {', '.join(rarest[:-1])} and {rarest[-1]}?",
        "reference_answer": quotation,
        "split": "development" if development else "release",
        "language": "en",
        "intent": "lookup",
        "kinds": ["lookup"],
        "evidence": [{"group": "g1", "document": document_id(number), "quotation": quotation}],
    }  # fmt: skip
