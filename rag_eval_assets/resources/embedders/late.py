"""Late chunking: a document goes through the model once, and every chunk's vector is the mean over the vectors of its tokens.

What belongs here: windows over a long document, which tokens a chunk takes, and vectors kept for other chunkings. What does not:
where chunks begin and end. Source: Günther et al. 2024, arXiv 2409.04701. Special tokens and the prefix enter no mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rag_eval_assets.resources.embedders.cached import packed, unpacked, vector_key
from rag_eval_assets.resources.embedders.protocol import Progress, Spans, TokenEmbedder, Vectors, unit

if TYPE_CHECKING:
    from ingestion.minhash import ContentStore

WINDOWS_AT_ONCE = 8
Span = tuple[int, int]


class Window(NamedTuple):
    """Tokens [start, end) that one pass sees; those of [first, last) are taken from it."""

    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True)
class LateDocument:
    """A document with the spans wanted now, in characters. `ahead` gives spans that other chunkings will want; it is asked only
    where the document has to go through the model."""

    text: str
    sha256: str
    wanted: tuple[Span, ...]
    ahead: Callable[[], Sequence[Span]] = tuple


def windows(count: int, size: int, stride: int) -> list[Window]:
    """Windows of `size` tokens that start every `stride`, the last one moved back to end with the text.

    Every token is taken from the window in which it is most central, the earlier of two. Raises ValueError where windows would
    leave tokens out.
    """
    if not 0 < stride <= size:
        raise ValueError(f"a stride of {stride} tokens with windows of {size}: at least 1 and at most the window")
    if count == 0:
        return []
    starts = [*range(0, max(count - size, 0), stride), max(count - size, 0)]
    ends = [min(start + size, count) for start in starts]
    # The middle between two windows' centres: up to there a token is nearer the centre of the first.
    borders = [(a + b + c + d - 2) // 4 + 1 for a, b, c, d in zip(starts, ends, starts[1:], ends[1:], strict=False)]
    return [Window(*found) for found in zip(starts, ends, [0, *borders], [*borders, count], strict=True)]


def token_ranges(tokens: Spans, spans: Sequence[Span]) -> Spans:
    """For each span the range [first, last) of tokens that overlap it, (len(spans), 2). `tokens` (n, 2) stand in order."""
    wanted = np.array(spans, dtype=np.int64).reshape(-1, 2)
    first = np.searchsorted(tokens[:, 1], wanted[:, 0], "right")
    last = np.searchsorted(tokens[:, 0], wanted[:, 1], "left")
    return np.stack([first, np.maximum(first, last)], axis=1)


def embed_spans(
    documents: Sequence[LateDocument], embedder: TokenEmbedder, store: ContentStore | None, *, stride: int, on_done: Progress | None = None
) -> list[dict[Span, Vectors | None]]:
    """The unit vector (dimension) of each wanted span, a dict a document; None for a span in which no token lies.

    A document all of whose wanted spans are in `store` does not go through the model. One that does is embedded once, in windows
    (see `windows`), and the vectors of its `ahead` spans are kept too. Vectors are written document by document.
    """
    rule = f"late window={embedder.window} stride={stride}"
    prefix = embedder.prefix(query=False)

    def key(document: LateDocument, span: Span) -> str:
        return vector_key(embedder.identity, prefix, rule, document.sha256, f"{span[0]}-{span[1]}")

    found: list[dict[Span, Vectors | None]] = []
    for document in documents:
        stored = store.get_many([key(document, span) for span in document.wanted]) if store is not None else {}
        found.append({span: unpacked(stored.get(key(document, span), b""), embedder.dimension) for span in document.wanted})
    todo = [at for at, own in enumerate(found) if any(vector is None for vector in own.values())]
    passes = _passes([(at, documents[at]) for at in todo], embedder, stride)
    for done, (at, vectors) in enumerate(passes, len(documents) - len(todo) + 1):
        found[at].update({span: vectors.get(span) for span in documents[at].wanted if found[at][span] is None})
        if store is not None:
            store.put_many({key(documents[at], span): packed(row) for span, row in vectors.items() if np.isfinite(row).all()})
        if on_done is not None:
            on_done(done, len(documents))
    return found


@dataclass
class _Pooled:
    """Sums over the tokens of each span of one document, while its windows come in."""

    at: int
    spans: list[Span]
    ranges: Spans
    ids: list[int]
    waiting: list[Window]
    sums: npt.NDArray[np.float64] | None = None
    missing: int = 0

    def add(self, window: Window, hidden: Vectors) -> None:
        """Add what a window's tokens give: hidden (end - start, dimension)."""
        taken = hidden[window.first - window.start : window.last - window.start].astype(np.float64)
        if self.sums is None:
            self.sums = np.zeros((len(self.spans), taken.shape[1]))
        before = np.concatenate([np.zeros((1, taken.shape[1])), np.cumsum(taken, axis=0)])
        low, high = (np.clip(self.ranges[:, side], window.first, window.last) - window.first for side in (0, 1))
        here = np.flatnonzero(low < high)
        self.sums[here] += before[high[here]] - before[low[here]]
        self.missing -= 1

    def vectors(self) -> dict[Span, Vectors]:
        with_tokens = np.flatnonzero(self.ranges[:, 0] < self.ranges[:, 1])
        if self.sums is None or not len(with_tokens):
            return {}
        return dict(zip([self.spans[i] for i in with_tokens], unit(self.sums[with_tokens]), strict=True))


def _passes(
    documents: Sequence[tuple[int, LateDocument]], embedder: TokenEmbedder, stride: int
) -> Iterator[tuple[int, dict[Span, Vectors]]]:
    """Each document's number and vectors of its spans; windows of like length share a batch, whosever they are."""
    longest = sorted(documents, key=lambda pair: (-len(pair[1].text), pair[0]))
    open_: list[tuple[_Pooled, Window]] = []
    for at, document in longest:
        ids, offsets = embedder.tokenize(document.text)
        spans = sorted({*document.wanted, *document.ahead()})
        ranges = token_ranges(offsets, spans)
        cut = windows(len(ids), embedder.window, min(stride, embedder.window)) if (ranges[:, 0] < ranges[:, 1]).any() else []
        pooled = _Pooled(at, spans, ranges, ids, cut, missing=len(cut))
        if not cut:
            yield at, {}
        open_ += [(pooled, window) for window in cut]
        while len(open_) >= WINDOWS_AT_ONCE:
            yield from _run(open_[:WINDOWS_AT_ONCE], embedder)
            open_ = open_[WINDOWS_AT_ONCE:]
    if open_:
        yield from _run(open_, embedder)


def _run(batch: Sequence[tuple[_Pooled, Window]], embedder: TokenEmbedder) -> Iterator[tuple[int, dict[Span, Vectors]]]:
    hidden = embedder.token_vectors([pooled.ids[window.start : window.end] for pooled, window in batch])
    for (pooled, window), vectors in zip(batch, hidden, strict=True):
        pooled.add(window, vectors)
        if not pooled.missing:
            yield pooled.at, pooled.vectors()
