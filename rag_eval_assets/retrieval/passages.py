"""What is delivered where a chunk is found: the chunk itself, or its parent, once.

What belongs here: the one place that knows a delivered span from a searched one. What does not: searching, and the texts of passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.retrieval.ordering import Hits

_SPAN = {"start": "parent_start", "end": "parent_end", "tokens": "parent_tokens"}


def delivered(chunks: pa.Table) -> pa.Table:
    """Rows of `chunks` whose start, end and tokens (as far as they are there) are those of their parents, where they have one."""
    for name, parent in _SPAN.items():
        if name in chunks.column_names:
            at = chunks.column_names.index(name)
            chunks = chunks.set_column(at, chunks.schema.field(name), pc.coalesce(chunks[parent], chunks[name]))
    return chunks


class Passages:
    """Numbers of the passages that numbered chunks deliver: a chunk's own, or that of the first chunk of its parent."""

    def __init__(self, chunks: pa.Table) -> None:
        """`chunks` are rows of `chunks` in the order in which retrieval numbers them."""
        self.of: npt.NDArray[np.int64] = np.arange(chunks.num_rows, dtype=np.int64)
        self.most = 1
        """Chunks of the passage that has the most."""
        if chunks.num_rows == chunks["parent_start"].null_count:
            return
        first: dict[tuple[Any, ...], int] = {}
        parents = zip(*(chunks[name].to_pylist() for name in ("doc_id", "parent_start", "parent_end")), strict=True)
        for at, parent in enumerate(parents):
            self.of[at] = at if parent[1] is None else first.setdefault(parent, at)
        self.most = int(np.bincount(self.of).max())

    def depth(self, passages: int) -> int:
        """Chunks to search for so that as many passages are found, where there are as many."""
        return passages * self.most

    def once(self, hits: Hits, depth: int) -> Hits:
        """A ranking of chunks as one of passages: each at its best chunk, at most `depth`."""
        _, firsts = np.unique(self.of[hits.positions], return_index=True)
        kept = np.sort(firsts)[:depth]
        return Hits(hits.positions[kept], hits.scores[kept], hits.detail, hits.seconds)

    def best(self, rankings: Sequence[npt.NDArray[np.int64]]) -> dict[int, int]:
        """For each passage of several rankings the chunk that is ranked best, of equals that of the ranking named first."""
        ranked = sorted((rank, lane, at) for lane, positions in enumerate(rankings) for rank, at in enumerate(positions.tolist()))
        found: dict[int, int] = {}
        for _, _, at in ranked:
            found.setdefault(int(self.of[at]), at)
        return found
