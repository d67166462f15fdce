"""Recursive chunking over a grid against LangChain's splitter with the same tokenizer, on the same text, in one run.

The product tokenises the text once for the whole grid, and its time includes that. The others are given sizes one by one, as their users
have to; they run on a part of the text and are scaled up to it, which their linear cost allows. What is not installed is said so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from ingestion.chunking import Chunking, chunk_document
from ingestion.tokenizers import load_tokenizer
from tests.benchmarks.edits import edited_texts

WANTED = 20
"""Times as fast as LangChain's splitter, at least."""
TOKENIZER = "cl100k_base"
GRID = [(size, size * percent // 100) for size in (128, 256, 512, 1024) for percent in (0, 10, 20, 30)]
_OTHERS_SHARE = 80
"""The others get one part in so many of the text."""


def _product(text: str) -> int:
    tokens = load_tokenizer(TOKENIZER).spans(text)
    document = {"doc_id": "a", "text": text, "elements": []}
    return sum(len(chunk_document(document, tokens, Chunking("recursive", size, overlap))) for size, overlap in GRID)


def _langchain(text: str) -> int:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    count = load_tokenizer(TOKENIZER).count
    splitters = (RecursiveCharacterTextSplitter(chunk_size=s, chunk_overlap=o, length_function=count) for s, o in GRID)
    return sum(len(splitter.split_text(text)) for splitter in splitters)


def _semchunk(text: str) -> int:
    import semchunk

    chunker = semchunk.chunk
    count = load_tokenizer(TOKENIZER).count
    return sum(len(chunker(text, size, count, overlap=overlap or None, memoize=True)) for size, overlap in GRID)


def _chonkie(text: str) -> int:
    """Chonkie's RecursiveChunker takes no overlap, so it cuts each size four times; it wants the library's own tokenizer."""
    from chonkie import RecursiveChunker

    encoding = load_tokenizer(TOKENIZER)._encoding  # type: ignore[attr-defined]
    return sum(len(RecursiveChunker(tokenizer=encoding, chunk_size=size)(text)) for size, _ in GRID)


OTHERS: dict[str, tuple[str, Callable[[str], int]]] = {
    "langchain": ("langchain_text_splitters", _langchain),
    "semchunk": ("semchunk", _semchunk),
    "chonkie": ("chonkie", _chonkie),
}


@dataclass(frozen=True)
class Result:
    characters: int
    seconds: float
    """The product's, tokenising included."""
    others: dict[str, float | None]
    """Seconds for as much text; None for what is not installed."""

    def lines(self) -> Iterator[str]:
        yield f"{self.characters / 1e6:.1f} million characters, {len(GRID)} settings, tokenizer {TOKENIZER}: {self.seconds:.1f} s"
        for name, seconds in self.others.items():
            wanted = f"  (wanted: {WANTED} or more)" if name == "langchain" else ""
            yield f"{name:10} not installed" if seconds is None else f"{name:10} / product {seconds / self.seconds:7.1f}{wanted}"


def measure(megabytes: int) -> Result:
    """Time everything on running text of so many million characters."""
    paragraphs = [edited.text for edited in edited_texts(20)]
    text = "\n\n".join(paragraphs)
    text = (text * (megabytes * 1_000_000 // len(text) + 1))[: megabytes * 1_000_000]
    load_tokenizer(TOKENIZER).count("warm")
    part = text[: len(text) // _OTHERS_SHARE]
    others: dict[str, float | None] = {}
    for name, (module, cut) in OTHERS.items():
        if not find_spec(module):
            others[name] = None
            continue
        started = time.perf_counter()
        cut(part)
        others[name] = (time.perf_counter() - started) * len(text) / len(part)
    started = time.perf_counter()
    _product(text)
    return Result(len(text), time.perf_counter() - started, others)
