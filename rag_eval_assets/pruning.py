"""What an evaluation folder keeps and nothing points to any more, and its removal.

What belongs here: telling leftovers from what is needed. What does not: judging what is needed and damaged (`storage.verify`). Latest
tables, baselines, the golden set and the replies of language models, which were paid for, are never leftovers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upath import UPath

from rag_eval_assets.assets._ranking import terms_file
from rag_eval_assets.assets.embedding import vectors_file
from rag_eval_assets.graph import Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.owner import check_owner
from rag_eval_assets.storage.sync import open_catalogue, storage_lock

CACHES = ("vectors-*.sqlite", "terms-*.sqlite")
"""Caches that are named after the code that fills them: another state of it leaves the old one behind."""


@dataclass(frozen=True)
class Leftover:
    """A file that can go: a table of a partition that settings no longer have, what a killed writer left, or a cache of older code."""

    kind: Literal["table", "temporary", "cache"]
    path: Path | UPath
    size: int


def leftovers(folder: Folder) -> list[Leftover]:
    """Every leftover of the folder, in order of kind and path. Files that are none of ours are left out: `verify` names them."""
    check_owner(UPath(folder.tables), folder)
    return sorted([*_tables(folder), *_caches(folder)], key=lambda left: (left.kind, str(left.path)))


def _tables(folder: Folder) -> Iterator[Leftover]:
    graph, catalogue = Graph(folder), open_catalogue(folder)
    expected = set(graph.nodes())
    for path, node in catalogue.files():
        if node is not None and node not in expected:
            yield Leftover("table", path, path.stat().st_size)
        elif path.name.startswith(".") and path.name.endswith(".tmp"):
            yield Leftover("temporary", path, path.stat().st_size)


def _caches(folder: Folder) -> Iterator[Leftover]:
    needed = {terms_file(), *(vectors_file(folder.settings, name) for name in folder.settings.embedders)}
    for pattern in CACHES:
        for path in folder.stores.glob(pattern):
            if path.name not in needed:
                for part in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                    if part.exists():
                        yield Leftover("cache", part, part.stat().st_size)


def prune(folder: Folder, wait: bool = False) -> list[Leftover]:
    """Remove every leftover and return them, looked for under the folder's lock. Raises LockedError while a sync holds it."""
    with storage_lock(folder, wait):
        found = leftovers(folder)
        for left in found:
            left.path.unlink(missing_ok=True)
        return found
