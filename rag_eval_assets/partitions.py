"""Partition keys and the typed parameters they stand for: chunkings, parsers, systems.

What belongs here: the one place where a key is made from parameters and read back. What does not: what a chunker does with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_eval_assets.settings import ChunkGrid

_KEY = re.compile(r"^(?P<strategy>[a-z][a-z_]*)(?:-(?P<size>\d+))?(?:-o(?P<overlap>\d+))?$")


@dataclass(frozen=True, order=True)
class Chunking:
    """Parameters of one chunking. `size` and `overlap` are tokens of the tokenizer in settings; 0 where they mean nothing."""

    strategy: str
    size: int = 0
    overlap: int = 0

    @property
    def key(self) -> str:
        from ingestion.chunking import STRATEGIES

        strategy = STRATEGIES[self.strategy]
        parts = [self.strategy]
        if strategy.sized:
            parts.append(str(self.size))
        if strategy.overlaps:
            parts.append(f"o{self.overlap}")
        return "-".join(parts)


def parse_chunking(key: str) -> Chunking:
    """The parameters behind a chunking key; ValueError names the key and the form wanted."""
    found = _KEY.match(key)
    if not found:
        raise ValueError(f"chunking key {key!r} is not of the form strategy[-size][-ooverlap], such as recursive-512-o64")
    return Chunking(found["strategy"], int(found["size"] or 0), int(found["overlap"] or 0))


def chunkings(grids: Iterable[ChunkGrid]) -> list[Chunking]:
    """Every chunking of the grids, most chunks first so that a backfill's last wave is short. Raises ValueError."""
    from ingestion.chunking import STRATEGIES

    found: list[Chunking] = []
    for grid in grids:
        strategy = STRATEGIES.get(grid.strategy)
        if strategy is None:
            raise ValueError(f"chunkings: no strategy {grid.strategy!r}; known: {', '.join(sorted(STRATEGIES))}")
        if strategy.sized != bool(grid.size):
            raise ValueError(f"chunkings: strategy {grid.strategy!r} {'needs' if strategy.sized else 'takes no'} size")
        if grid.overlap and not strategy.overlaps:
            raise ValueError(f"chunkings: strategy {grid.strategy!r} takes no overlap")
        for size in grid.size or (0,):
            for overlap in grid.overlap or (0,):
                if strategy.sized and (size < 8 or not 0 <= overlap < size):
                    raise ValueError(f"chunkings: {grid.strategy} size {size} overlap {overlap}: size at least 8, overlap below size")
                found.append(Chunking(grid.strategy, size, overlap))
    doubled = sorted({c.key for c in found if found.count(c) > 1})
    if doubled:
        raise ValueError(f"chunkings: {', '.join(doubled)} stands more than once")
    return sorted(found, key=lambda c: (c.size - c.overlap if c.size else 1 << 30, c.strategy, c.overlap))


def chunking_keys(grids: Iterable[ChunkGrid]) -> list[str]:
    return [chunking.key for chunking in chunkings(grids)]
