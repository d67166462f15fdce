"""How the published PrecisionOmega figures came about (Smith and Troynikov 2024), written from what that code does, to compare with.

What belongs here: its rules as they were, their flaws included. What does not: the product's own (`ingestion.chunking`,
`rag_eval_assets.scoring.chunk_quality`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from ingestion.evidence import merge_spans

Span = tuple[int, int]

SEPARATORS = ("\n\n", "\n", ".", "?", "!", " ", "")


class PublishedSplitter:
    """Chunks of a text of about `size` tokens, as strings: what stands where is not known to it.

    It cuts before a separator, wherever that stands, and passes over separators that are not in the text. A piece has to be
    shorter than `size`, tokens of pieces are counted piece by piece and added up, and pieces are taken from the front of the chunk
    before until what is left is at most `overlap` and leaves room for the next piece.
    """

    def __init__(self, count: Callable[[str], int], size: int, overlap: int) -> None:
        self._count, self._size, self._overlap = cache(count), size, overlap

    def split(self, text: str, separators: tuple[str, ...] = SEPARATORS) -> list[str]:
        at = next(i for i, separator in enumerate(separators) if separator in text)
        separator, finer = separators[at], separators[at + 1 :]
        head, *tails = text.split(separator) if separator else list(text)
        pieces = [piece for piece in (head, *(separator + tail for tail in tails)) if piece]
        chunks: list[str] = []
        fitting: list[str] = []
        for piece in pieces:
            if self._count(piece) < self._size:
                fitting.append(piece)
                continue
            chunks += self._joined(fitting)
            fitting = []
            chunks += self.split(piece, finer) if finer else [piece]
        return chunks + self._joined(fitting)

    def _joined(self, pieces: list[str]) -> list[str]:
        chunks: list[str] = []
        current: list[str] = []
        total = 0
        for piece in pieces:
            tokens = self._count(piece)
            if total + tokens > self._size:
                chunks.append("".join(current).strip())
                while current and (total > self._overlap or total + tokens > self._size):
                    total -= self._count(current.pop(0))
            current.append(piece)
            total += tokens
        chunks.append("".join(current).strip())
        return [chunk for chunk in chunks if chunk]


def placed(text: str, chunks: Iterable[str]) -> list[Span]:
    """Where chunks are taken to stand: where their text, without a full stop at its end, stands first."""
    bare = [chunk.removesuffix(".") for chunk in chunks]
    return [(text.index(chunk), text.index(chunk) + len(chunk)) for chunk in bare]


def omega(chunks: Mapping[str, Sequence[Span]], questions: Iterable[tuple[str, Sequence[Span]]]) -> list[float]:
    """PrecisionOmega of each question, a document and its evidence: a chunk that only touches evidence, without a character of it,
    counts as delivered.
    """
    values = []
    for document, evidence in questions:
        near = [(chunk, gold) for chunk in chunks[document] for gold in evidence if max(chunk[0], gold[0]) <= min(chunk[1], gold[1])]
        shared = merge_spans((max(chunk[0], gold[0]), min(chunk[1], gold[1])) for chunk, gold in near)
        everything = merge_spans([*(chunk for chunk, _ in near), *evidence])
        values.append(sum(end - start for start, end in shared) / sum(end - start for start, end in everything))
    return values
