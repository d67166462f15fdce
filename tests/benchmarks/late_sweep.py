"""A 16-point chunking sweep by late chunking against 16 embeddings of the same chunks by the same model, on one thread, in one run.

Late: every chunking in turn as the product embeds it, with its store, its windows of at most 512 positions and its stride; cutting the
chunkings ahead, pooling and writing are part of its time. The other side embeds each chunking by itself and writes nothing: as the
product ships the model, which reads 256 positions of a chunk, and with all of a chunk that its 512 positions hold.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ingestion.chunking import Chunking, chunk_document
from ingestion.tokenizers import cached_spans
from rag_eval_assets.resources.embedders import embed_texts, load_embedder
from rag_eval_assets.resources.embedders.cached import text_sha256
from rag_eval_assets.resources.embedders.late import LateDocument, Span, embed_spans
from rag_eval_assets.resources.embedders.minilm import MINILM_LIMIT, MINILM_POSITIONS, MiniLm
from rag_eval_assets.resources.embedders.protocol import Spans, Vectors, longest_first, unit
from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.settings import Embedder
from tests.benchmarks.chunking_speed import GRID, prose

WANTED = 8
"""Times less processor time than 16 embeddings of what the product's model reads, at least."""
TOKENIZER = "minilm"
STRIDE = Embedder().stride
_BATCH = 8
LATE, SHIPPED, WHOLE = "late", f"separate, {MINILM_LIMIT} positions", f"separate, {MINILM_POSITIONS} positions"


@dataclass(frozen=True)
class Result:
    documents: int
    tokens: int
    chunks: int
    seconds: dict[str, float]
    """Of the processor, by way."""
    passes: dict[str, int]
    """Sequences that went through the model, by way: windows, or chunks."""
    positions: dict[str, int]
    """Positions of all passes, special tokens counted, padding not."""
    windows_by_chunking: list[int] = field(default_factory=list)
    """Windows that went through the model for each chunking, in the order of the sweep."""

    def lines(self) -> Iterator[str]:
        yield f"{self.documents} documents, {self.tokens} tokens, {len(GRID)} chunkings, {self.chunks} chunks; late stride {STRIDE}"
        yield f"windows through the model by chunking: {', '.join(map(str, self.windows_by_chunking))}"
        for way, seconds in self.seconds.items():
            line = f"{way:24} {seconds:7.1f} s of the processor, {self.passes[way]:6} passes, {self.positions[way]:8} positions"
            wanted = f"  (wanted: {WANTED} or more)" if way == SHIPPED else ""
            yield line if way == LATE else f"{line}, {seconds / self.seconds[LATE]:5.1f} times late{wanted}"


def measure(scratch: Path, documents: int, words: int = 2_000) -> Result:
    """Sweep so many documents of about `words` words each way. Raises RuntimeError where the model is not installed."""
    embedder = load_embedder("minilm", "minilm", batch=_BATCH, threads=1)
    if not isinstance(embedder, MiniLm):
        raise RuntimeError("the extra minilm is not installed")
    embedder.embed(["warm"])
    counts: Counter[str] = Counter()
    _count(embedder, counts)
    texts = [prose(number, words) for number in range(documents)]
    rows = [{"doc_id": str(number), "text": text, "elements": []} for number, text in enumerate(texts)]
    hashes = [text_sha256(text) for text in texts]

    def cut(number: int, size: int, overlap: int) -> list[dict[str, Any]]:
        return chunk_document(rows[number], cached_spans(TOKENIZER, hashes[number], texts[number]), Chunking("recursive", size, overlap))

    chunkings = [[cut(number, *point) for number in range(documents)] for point in GRID]
    windows: list[int] = []

    def late() -> None:
        for at, chunking in enumerate(chunkings):
            # A store opened anew for each chunking, as partitions that run in processes of their own open it.
            store = SqliteStore(scratch / "vectors.sqlite")
            before = counts["passes"]
            given = [
                LateDocument(texts[n], hashes[n], tuple(map(_span, own)), lambda n=n, at=at: _elsewhere(cut, n, at))
                for n, own in enumerate(chunking)
            ]
            embed_spans(given, embedder, store, stride=STRIDE)
            store.close()
            windows.append(counts["passes"] - before)

    def shipped() -> None:
        for chunking in chunkings:
            embed_texts([c["text"] for own in chunking for c in own], embedder, None)

    def whole() -> None:
        for chunking in chunkings:
            _embed_whole(embedder, [c["text"] for own in chunking for c in own])

    seconds: dict[str, float] = {}
    passes: dict[str, int] = {}
    positions: dict[str, int] = {}
    ways: dict[str, Callable[[], None]] = {LATE: late, SHIPPED: shipped, WHOLE: whole}
    for name, way in ways.items():
        counts.clear()
        started = time.process_time()
        way()
        seconds[name] = time.process_time() - started
        passes[name], positions[name] = counts["passes"], counts["positions"]
    tokens = sum(len(embedder.tokenize(text)[0]) for text in texts)
    return Result(documents, tokens, sum(len(own) for c in chunkings for own in c), seconds, passes, positions, windows)


def _count(embedder: MiniLm, counts: Counter[str]) -> None:
    """Have the embedder count what goes through its model."""
    run = embedder._run

    def counted(ids: Sequence[Sequence[int]]) -> tuple[Vectors, Spans]:
        counts["passes"] += len(ids)
        counts["positions"] += sum(map(len, ids))
        return run(ids)

    embedder._run = counted  # type: ignore[method-assign]


def _span(chunk: dict[str, Any]) -> Span:
    return chunk["start"], chunk["end"]


def _elsewhere(cut: Callable[[int, int, int], list[dict[str, Any]]], number: int, at: int) -> list[Span]:
    return [_span(c) for other, point in enumerate(GRID) if other != at for c in cut(number, *point)]


def _embed_whole(embedder: MiniLm, texts: Sequence[str]) -> list[Vectors]:
    """Each text by itself in as many positions as the model has: the mean over its tokens."""
    ids = [embedder.tokenize(text)[0][: embedder.window] for text in texts]
    parts = longest_first([len(own) for own in ids], _BATCH)
    return [unit(np.stack([hidden.mean(axis=0) for hidden in embedder.token_vectors([ids[i] for i in part])])) for part in parts]
