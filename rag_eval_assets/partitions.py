"""Partition keys and the typed parameters they stand for: chunkings, parsers, systems.

What belongs here: the one place where a key is made from parameters and read back. What does not: what a chunker does with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING

from ingestion.chunking import STRATEGIES, Chunking

if TYPE_CHECKING:
    from rag_eval_assets.settings import ChunkGrid

_KEY = re.compile(
    r"^(?P<strategy>[a-z][a-z_]*)(?:-(?P<size>\d+))?(?:-o(?P<overlap>\d+))?(?:-p(?P<parent>\d+))?"
    r"(?:-q(?P<percentile>\d+)-(?P<embedder>[a-z0-9][a-z0-9_.-]*))?$"
)
_FORM = "strategy[-size][-ooverlap][-pparent][-qpercentile-embedder], such as recursive-512-o64"


def chunking_key(chunking: Chunking) -> str:
    """The partition key of a chunking: its strategy and the parameters that the strategy takes."""
    strategy = STRATEGIES[chunking.strategy]
    parts = [chunking.strategy]
    if strategy.sized:
        parts.append(str(chunking.size))
    if strategy.overlaps:
        parts.append(f"o{chunking.overlap}")
    if strategy.parents:
        parts.append(f"p{chunking.parent}")
    if strategy.embeds:
        parts += [f"q{chunking.percentile}", chunking.embedder]
    return "-".join(parts)


def parse_chunking(key: str) -> Chunking:
    """The parameters behind a chunking key; ValueError names the key and the form wanted."""
    found = _KEY.match(key)
    if not found:
        raise ValueError(f"chunking key {key!r} is not of the form {_FORM}")
    numbers = {name: int(found[name] or 0) for name in ("size", "overlap", "parent", "percentile")}
    return Chunking(found["strategy"], **numbers, embedder=found["embedder"] or "")


def chunkings(grids: Iterable[ChunkGrid]) -> list[Chunking]:
    """Every chunking of the grids, most chunks first so that a backfill's last wave is short. Raises ValueError."""
    found: list[Chunking] = []
    for grid in grids:
        axes = (grid.size, grid.overlap, grid.parent, grid.percentile)
        for size, overlap, parent, percentile in product(*(axis or (0,) for axis in axes)):
            chunking = Chunking(grid.strategy, size, overlap, parent, percentile, grid.embedder or "")
            if problem := chunking.problem():
                raise ValueError(f"chunkings: {problem}")
            found.append(chunking)
    doubled = sorted({chunking_key(c) for c in found if found.count(c) > 1})
    if doubled:
        raise ValueError(f"chunkings: {', '.join(doubled)} stands more than once")
    return sorted(found, key=lambda c: (c.size - c.overlap if c.size else 1 << 30, c))


def chunking_keys(grids: Iterable[ChunkGrid]) -> list[str]:
    return [chunking_key(chunking) for chunking in chunkings(grids)]
