"""The asset graph as plain declarations: which table is made from which, by which body, under which settings, code and libraries.

What belongs here: the declaration of one asset, and a graph that knows partitions, edges and code versions. What does not:
Dagster (`definitions` turns declarations into assets) and files (`storage`). `status`, `inspect` and `verify` work from this alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingestion.parsers import Spread
from rag_eval_assets.partitions import chunking_keys
from rag_eval_assets.settings import Folder, Settings
from rag_eval_assets.storage.versions import CodeVersion, SourceTree, digest, library_version, schema_hash
from rag_eval_assets.tables import TABLES, TRANSIENT, Family, Table

OWNER = "team:rag-evaluation"

COMPARES_PARSERS = frozenset({"cleaning_quality"})
"""Assets that read every partition of parsed_documents, not only those that canonical text is made from."""

Rows = Sequence[Mapping[str, Any]] | pa.Table
Progress = Callable[[int, int], None]


@dataclass(frozen=True, order=True)
class AssetPartition:
    """One file of the graph: an asset, and its partition where it has any."""

    asset: str
    partition: str | None = None

    def __str__(self) -> str:
        return self.asset if self.partition is None else f"{self.asset}[{self.partition}]"


@dataclass(frozen=True)
class Product:
    """What a body returns. `computed` counts the units of work done now (all rows where None); pictures are SVG, by title."""

    rows: Rows
    computed: int | None = None
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    notes: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """What a body may know: its partition, the folder and settings, its own last table, and where to report progress."""

    name: str
    partition: str
    folder: Folder
    code: str
    """Hash of everything but settings that shapes a row; row keys add the settings a row alone depends on."""
    previous: Callable[[], pa.Table | None] = lambda: None
    progress: Progress = lambda done, total: None
    spread: Spread | None = None
    """Where a cluster is set: hands it batches of what takes long. None: this machine does it."""

    @property
    def settings(self) -> Settings:
        return self.folder.settings

    def reuse(self, wanted: Mapping[str, Any]) -> tuple[pa.Table, list[Any]]:
        """Rows of the last table whose work_key is wanted, and the units (values of `wanted`) whose rows must be made.

        A row that failed for a limit or a crash is no work done: its unit is tried again whenever its partition runs.
        """
        contract = TABLES[self.name]
        empty = pa.schema([pa.field(f.name, f.type, f.nullable) for f in contract.schema]).empty_table()
        table = self.previous()
        if table is None:
            return empty, list(wanted.values())
        if "reason" in table.column_names:
            again = table.filter(pc.is_in(table.column("reason"), value_set=pa.array(TRANSIENT))).column("work_key").unique()
            table = table.filter(pc.invert(pc.is_in(table.column("work_key"), value_set=again)))
        kept = table.filter(pc.is_in(table.column("work_key"), value_set=pa.array(sorted(wanted), pa.string())))
        if "origin" in kept.column_names:
            at = kept.column_names.index("origin")
            kept = kept.set_column(at, kept.schema.field(at), pa.array(["reused"] * len(kept), pa.string()))
        known = set(pc.unique(kept.column("work_key")).to_pylist())
        return kept, [unit for key, unit in wanted.items() if key not in known]


Body = Callable[..., Product]
Columns = tuple[str, ...] | Callable[[Settings, str | None], tuple[str, ...]]


@dataclass(frozen=True)
class TableAsset:
    """Declaration of one asset. `settings` gives the values it alone reads, `modules` the strategy modules a registry resolves
    for a partition, `libraries` the distributions that shape its output; each is asked with None for what all partitions share.
    """

    name: str
    body: Body
    inputs: tuple[str, ...]
    kinds: frozenset[str]
    columns: Mapping[str, Columns]
    settings: Callable[[Settings, str | None], Mapping[str, Any]]
    modules: Callable[[Settings, str | None], Sequence[str]]
    libraries: Callable[[Settings, str | None], Sequence[str]]
    pool: str | None

    @property
    def contract(self) -> Table:
        return TABLES[self.name]

    def columns_of(self, table: str, settings: Settings, partition: str | None) -> tuple[str, ...] | None:
        """Columns that are read of an input; None for all."""
        chosen = self.columns.get(table)
        return chosen(settings, partition) if callable(chosen) else chosen

    @property
    def description(self) -> str:
        return (self.body.__doc__ or "").strip()


DECLARED: dict[str, TableAsset] = {}


def table_asset(
    *inputs: str,
    kinds: Iterable[str] = (),
    columns: Mapping[str, Columns] | None = None,
    settings: Callable[[Settings, str | None], Mapping[str, Any]] = lambda s, p: {},
    modules: Callable[[Settings, str | None], Sequence[str]] = lambda s, p: (),
    libraries: Sequence[str] | Callable[[Settings, str | None], Sequence[str]] = (),
    pool: str | None = None,
) -> Callable[[Body], Body]:
    """Declare the decorated body as the asset of its name. `columns` narrows what is read of an input."""

    def declare(body: Body) -> Body:
        DECLARED[body.__name__] = TableAsset(
            body.__name__,
            body,
            inputs,
            frozenset({"parquet", *kinds}),
            dict(columns or {}),
            settings,
            modules,
            libraries if callable(libraries) else lambda s, p: libraries,
            pool,
        )
        return body

    return declare


class Graph:
    """The declared assets under one folder's settings."""

    def __init__(self, folder: Folder, source: SourceTree | None = None) -> None:
        import rag_eval_assets.assets  # noqa: F401  fills DECLARED

        self.folder = folder
        self.settings = folder.settings
        self.source = source or SourceTree(memory=folder.state / "source.json")
        self.assets = {name: DECLARED[name] for name in TABLES if name in DECLARED}
        self._codes: dict[AssetPartition, CodeVersion] = {}
        self._reach: dict[str, tuple[str, list[str]]] = {}

    @cached_property
    def families(self) -> dict[Family, list[str]]:
        return {
            "parser": list(self.settings.parsers),
            "chunking": chunking_keys(self.settings.chunkings),
            "system": list(self.settings.systems),
        }

    @cached_property
    def chosen_parsers(self) -> list[str]:
        """Parser partitions that canonical text is read from."""
        return sorted(set(self.settings.parser_of.values()))

    def _read_together(self, asset: str, table: str) -> list[str]:
        """Partitions of `table` that an unpartitioned asset reads: parsers only those chosen, unless it compares them."""
        if table == "parsed_documents" and asset not in COMPARES_PARSERS:
            return self.chosen_parsers
        if asset == "run_file_findings":
            return self.run_file_chunkings
        return list(self.families[TABLES[table].family])

    @cached_property
    def used_chunkings(self) -> list[str]:
        """Chunkings that a system retrieves from."""
        return sorted({system.chunking for system in self.settings.systems.values() if system.chunking is not None})

    @cached_property
    def run_file_chunkings(self) -> list[str]:
        """Chunkings that a run file is held against."""
        return sorted({retriever.chunkings[0] for retriever in self.settings.retrievers.values() if retriever.path is not None})

    def partitions(self, asset: str) -> Sequence[str | None]:
        family = TABLES[asset].family
        return [None] if family is None else list(self.families[family])

    def input_partitions(self, asset: str, partition: str | None, table: str) -> list[str | None]:
        """Partitions of `table` that one asset partition is made from."""
        mine, theirs = TABLES[asset].family, TABLES[table].family
        if theirs is None:
            return [None]
        if mine == theirs:
            return [partition]
        if (mine, theirs) == ("system", "chunking"):
            chunking = self.settings.systems[str(partition)].chunking
            return [] if chunking is None else [chunking]  # a system that is not built in has an index of its own
        if mine is None:
            return list(self._read_together(asset, table))
        raise LookupError(f"no mapping from {table} ({theirs}) to {asset} ({mine})")

    def fans_in(self, asset: str, table: str) -> bool:
        """Whether the body gets a dict of partitions for this input."""
        return TABLES[asset].family is None and TABLES[table].family is not None

    def upstream(self, node: AssetPartition) -> list[AssetPartition]:
        asset = self.assets[node.asset]
        return [AssetPartition(t, p) for t in asset.inputs for p in self.input_partitions(node.asset, node.partition, t)]

    @cached_property
    def order(self) -> list[str]:
        """Asset names so that every asset stands after its inputs; declaration order of the contract breaks ties."""
        done: list[str] = []
        waiting = list(self.assets)
        while waiting:
            ready = next((n for n in waiting if all(i in done for i in self.assets[n].inputs)), None)
            if ready is None:
                raise ValueError(f"the asset graph has a circle among {', '.join(waiting)}")
            done.append(ready)
            waiting.remove(ready)
        return done

    def nodes(self) -> Iterator[AssetPartition]:
        """Every asset partition, inputs first."""
        for name in self.order:
            for partition in self.partitions(name):
                yield AssetPartition(name, partition)

    def code_version(self, node: AssetPartition) -> CodeVersion:
        """Code version of one asset partition; with partition None of a partitioned asset, of what all its partitions share."""
        if node not in self._codes:
            asset = self.assets[node.asset]
            if node.asset not in self._reach:
                self._reach[node.asset] = self.source.function(asset.body.__module__, asset.body.__name__)
            body, reached = self._reach[node.asset]
            modules = self.source.closure(reached, asset.modules(self.settings, node.partition))
            libraries = sorted(set(asset.libraries(self.settings, node.partition)))
            self._codes[node] = CodeVersion(
                schema_hash(asset.contract),
                body,
                modules,
                dict(asset.settings(self.settings, node.partition)),
                {name: library_version(name) for name in libraries},
            )
        return self._codes[node]

    def row_code(self, node: AssetPartition) -> str:
        """Hash of all that shapes rows of this partition except settings."""
        return digest({k: v for k, v in self.code_version(node).facts.items() if k != "settings"})

    def dagster_code_version(self, name: str) -> str:
        """What Dagster is given: the shared code version, and the partition grid for an asset that fans in."""
        grids = {t: self.input_partitions(name, None, t) for t in self.assets[name].inputs if self.fans_in(name, t)}
        return digest(self.code_version(AssetPartition(name)).hash, grids)
