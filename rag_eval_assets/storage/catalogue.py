"""Which table files are there, what their footers say, and whether they can be trusted.

What belongs here: paths, reads with verification, the cache of what was verified. What does not: what should be there and why it
is stale (`staleness`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from upath import UPath

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.storage import files
from rag_eval_assets.storage.files import Mark
from rag_eval_assets.storage.parquet import (
    ContractError,
    Footer,
    TornFileError,
    check_partition_key,
    check_place,
    decode,
    encode,
    footer_bytes,
    read_footer,
    verify,
)
from rag_eval_assets.storage.state import read_json, write_cache
from rag_eval_assets.tables import TABLES

END_BYTES = 64 * 1024
"""Read of an object's end at first: most footers are shorter."""


class Catalogue:
    """The tables below one root. `cache` is the state file that remembers size, mtime or ETag of files verified before."""

    def __init__(self, root: str, cache: Path) -> None:
        self.root = files.open_root(root)
        self.cache = cache
        self._known: dict[str, dict[str, Any]] = read_json(cache)
        self._footers: dict[str, Footer] = {}
        self._looked: dict[str, tuple[Mark | None, bytes | None]] = {}
        self._dirty = False

    def path(self, node: AssetPartition) -> UPath:
        if node.asset not in TABLES:
            raise LookupError(f"no table {node.asset!r}; known: {', '.join(TABLES)}")
        if node.partition is None:
            return self.root / f"{node.asset}.parquet"
        return self.root / node.asset / f"{check_partition_key(node.partition)}.parquet"

    @contextmanager
    def one_look(self, nodes: Iterable[AssetPartition]) -> Iterator[None]:
        """Look at every file once, now; within, `footer` tells what was seen. In an object store the requests go side by side."""
        looked = list(dict.fromkeys(nodes))
        seen = files.side_by_side(self.root, self._look, looked)
        self._looked = {str(node): found for node, found in zip(looked, seen, strict=True)}
        try:
            yield
        finally:
            self._looked = {}

    def _look(self, node: AssetPartition) -> tuple[Mark | None, bytes | None]:
        """A file's mark, and of an object that the cache does not know the end of its bytes."""
        path = self.path(node)
        mark = files.mark(path)
        if mark is None or files.is_local(path) or mark == self._known.get(str(node), {}).get("mark"):
            return mark, None
        try:
            end = files.end(path, mark[0], END_BYTES)
            wanted = footer_bytes(end)
            return mark, end if wanted is None or wanted <= len(end) else files.end(path, mark[0], wanted)
        except FileNotFoundError:
            return None, None

    def footer(self, node: AssetPartition) -> Footer | None:
        """The file's footer; None where there is no file. A file that differs from the cache is verified whole, an object by its footer.

        A store gives an object whole or not at all, and whoever reads its rows verifies them. Raises TornFileError or ContractError,
        naming the file, when it is not a whole table of this asset partition.
        """
        name = str(node)
        mark, end = self._looked.get(name) or self._look(node)
        if mark is None:
            if self._known.pop(name, None) is not None:
                self._dirty = True
            return None
        known = self._known.get(name)
        if known is not None and known["mark"] == mark:
            if name not in self._footers:
                self._footers[name] = Footer.from_json(known["footer"])
            return self._footers[name]
        if end is None or (known is not None and known["mark"] is None):
            return self._verified(node)
        return self._told(node, mark, end, known)

    def _told(self, node: AssetPartition, mark: Mark, end: bytes, known: dict[str, Any] | None) -> Footer:
        """The footer in an object's last bytes. An object that is not what the run of its footer wrote is verified whole."""
        try:
            footer = check_place(read_footer(end), TABLES[node.asset], node.partition)
        except TornFileError:
            return self._verified(node)  # or it changed between the two requests
        if known is not None and known["footer"]["run_id"] == footer.run_id:
            return self._verified(node)
        self._remember(node, mark, footer, None)
        return footer

    def _verified(self, node: AssetPartition) -> Footer:
        path = self.path(node)
        mark = files.mark(path)
        known = self._known.get(str(node))
        try:
            data = files.read(path)
            sha256 = hashlib.sha256(data).hexdigest()
            footer = verify(data, TABLES[node.asset], node.partition)
            # A byte that no reader looks at is still not what the run wrote.
            if known is not None and known["footer"]["run_id"] == footer.run_id and known["sha256"] not in (None, sha256):
                raise TornFileError(f"its bytes are not those that run {footer.run_id[:8]} wrote")
        except (TornFileError, ContractError) as error:
            self._doubt(node)
            raise type(error)(f"{path}: {error}") from error
        self._remember(node, mark, footer, sha256)
        return footer

    def _remember(self, node: AssetPartition, mark: Mark | None, footer: Footer, sha256: str | None) -> None:
        self._known[str(node)] = {"mark": mark, "footer": footer.to_json(), "sha256": sha256}
        self._footers[str(node)] = footer
        self._dirty = True

    def _doubt(self, node: AssetPartition) -> None:
        """Look at a file again whatever its size and time say: what damaged it may have kept both."""
        if str(node) in self._known:
            self._known[str(node)]["mark"] = None
            self._dirty = True
            self.save()

    def verify(self, node: AssetPartition) -> Footer | None:
        """Like `footer`, whatever the cache says."""
        return None if files.mark(self.path(node)) is None else self._verified(node)

    def read(self, node: AssetPartition, columns: Iterable[str] | None = None) -> tuple[pa.Table, Footer]:
        """Table and footer, page checksums verified. Raises FileNotFoundError, TornFileError, ContractError naming the file."""
        path = self.path(node)
        try:
            return decode(files.read(path), TABLES[node.asset], columns)
        except FileNotFoundError:
            raise FileNotFoundError(f"{node} is not there ({path}): materialize it, or run 'rag-eval sync'") from None
        except (TornFileError, ContractError) as error:
            self._doubt(node)
            raise type(error)(f"{path}: {error}. Run 'rag-eval sync', which makes it anew.") from error

    def previous(self, node: AssetPartition) -> pa.Table | None:
        """The table as it stands, for row reuse; None where it is absent, torn or of another schema."""
        try:
            return self.read(node)[0]
        except (FileNotFoundError, TornFileError, ContractError):
            return None

    def write(self, node: AssetPartition, table: pa.Table, footer: Footer) -> tuple[UPath, str]:
        """Write one table atomically; its path and the SHA-256 of its bytes."""
        path, data = self.path(node), encode(table, footer)
        sha256 = hashlib.sha256(data).hexdigest()
        self._remember(node, files.write(path, data), footer, sha256)
        return path, sha256

    def save(self) -> None:
        """Write the cache when something changed."""
        if self._dirty:
            write_cache(self.cache, self._known)
            self._dirty = False

    def files(self) -> list[tuple[UPath, AssetPartition | None]]:
        """Every file below the root with the asset partition it stands for; None for a foreign file."""
        found: list[tuple[UPath, AssetPartition | None]] = []
        if not self.root.exists():
            return found
        for path in sorted((p for p in self.root.rglob("*") if p.is_file()), key=str):
            parts = str(path)[len(str(self.root)) :].lstrip("/").split("/")
            stem = parts[-1].removesuffix(".parquet")
            node = None
            if parts[-1].endswith(".parquet") and len(parts) <= 2:
                name, key = (stem, None) if len(parts) == 1 else (parts[0], stem)
                if name in TABLES and (TABLES[name].family is None) == (key is None):
                    node = AssetPartition(name, key)
            found.append((path, node))
        return found

    def sweep_temporaries(self) -> int:
        """Remove what killed writers left beside the tables; their number. An object store holds no unfinished files."""
        if not files.is_local(self.root):
            return 0
        left = [path for path, _ in self.files() if path.name.startswith(".") and path.name.endswith(".tmp")]
        for path in left:
            path.unlink()
        return len(left)
