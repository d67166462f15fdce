"""Recursive chunking over a grid against LangChain's splitter with the same tokenizer, on the same documents, in one run.

The documents are prose: headings, paragraphs of one to twelve sentences, some of them in lines of a page's width, lists, no two alike.
The product tokenises each once for the whole grid, and its time includes that and every column of a chunk. The others are given sizes
one by one, as their users have to. What is not installed is said so.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from ingestion.chunking import Chunking, chunk_document
from ingestion.tokenizers import cached_spans, load_tokenizer
from tests.benchmarks.synthetic import SEED, sentences

WANTED = 20
"""Times as fast as LangChain's splitter, at least."""
TOKENIZER = "cl100k_base"
GRID = [(size, size * percent // 100) for size in (128, 256, 512, 1024) for percent in (0, 10, 20, 30)]
WORDS = 4_000
"""Words of a document."""


def prose(number: int, words: int = WORDS) -> str:
    """A document, the same for the same number."""
    chance = np.random.default_rng([SEED, number])
    body, parts, at = sentences(number, words), [], 0
    while at < len(body):
        if chance.random() < 0.15:
            parts.append(" ".join(body[at].rstrip(".").split()[:5]))
        taken = body[at : at + int(chance.integers(1, 13))]
        at += len(taken)
        kind = chance.random()
        if kind < 0.1:
            parts.append("\n".join(f"- {sentence}" for sentence in taken))
        else:
            parts.append(textwrap.fill(" ".join(taken), 80) if kind < 0.4 else " ".join(taken))
    return "\n\n".join(parts) + "\n"


def _product(texts: list[str]) -> int:
    """As a sweep runs: a setting over all documents, then the next."""
    documents = [{"doc_id": str(number), "text": text, "elements": []} for number, text in enumerate(texts)]
    return sum(
        len(chunk_document(document, cached_spans(TOKENIZER, document["doc_id"], document["text"]), Chunking("recursive", size, overlap)))
        for size, overlap in GRID
        for document in documents
    )


def _langchain(texts: list[str]) -> int:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    count = load_tokenizer(TOKENIZER).count
    splitters = (RecursiveCharacterTextSplitter(chunk_size=s, chunk_overlap=o, length_function=count) for s, o in GRID)
    return sum(len(splitter.split_text(text)) for splitter in splitters for text in texts)


def _semchunk(texts: list[str]) -> int:
    import semchunk

    count = load_tokenizer(TOKENIZER).count
    return sum(len(semchunk.chunk(text, size, count, overlap=overlap or None, memoize=True)) for size, overlap in GRID for text in texts)


def _chonkie(texts: list[str]) -> int:
    """Chonkie's RecursiveChunker takes no overlap, so it cuts each size four times; it wants the library's own tokenizer."""
    from chonkie import RecursiveChunker

    encoding = load_tokenizer(TOKENIZER)._encoding  # type: ignore[attr-defined]
    chunkers = (RecursiveChunker(tokenizer=encoding, chunk_size=size) for size, _ in GRID)
    return sum(len(chunker(text)) for chunker in chunkers for text in texts)


OTHERS: dict[str, tuple[str, Callable[[list[str]], int]]] = {
    "langchain": ("langchain_text_splitters", _langchain),
    "semchunk": ("semchunk", _semchunk),
    "chonkie": ("chonkie", _chonkie),
}


@dataclass(frozen=True)
class Result:
    characters: int
    seconds: float
    """Of the processor, so that what else runs does not count; the product's, tokenising included."""
    others: dict[str, float | None]
    """Seconds on the same documents; None for what is not installed."""

    def lines(self) -> Iterator[str]:
        yield f"{self.characters / 1e6:.1f} million characters, {len(GRID)} settings, tokenizer {TOKENIZER}: {self.seconds:.1f} s of the processor"
        for name, seconds in self.others.items():
            wanted = f"  (wanted: {WANTED} or more)" if name == "langchain" else ""
            yield f"{name:10} not installed" if seconds is None else f"{name:10} / product {seconds / self.seconds:7.1f}{wanted}"


def measure(megabytes: float) -> Result:
    """Time everything on documents of so many million characters together."""
    texts: list[str] = []
    while (characters := sum(map(len, texts))) < megabytes * 1e6:
        texts.append(prose(len(texts)))
    load_tokenizer(TOKENIZER).count("warm")
    started = time.process_time()
    _product(texts)
    seconds = time.process_time() - started
    others: dict[str, float | None] = dict.fromkeys(OTHERS)
    for name, (module, cut) in OTHERS.items():
        if find_spec(module):
            started = time.process_time()
            cut(texts)
            others[name] = time.process_time() - started
    return Result(characters, seconds, others)
