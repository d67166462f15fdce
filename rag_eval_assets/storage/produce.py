"""From the tables a body reads to a finished one: contract, data versions, and the facts that go to the footer and to Dagster.

What belongs here: the one path every table takes before it is written, whether Dagster runs it or a root is only rescanned. What
does not: the write itself (`catalogue`, `io_manager`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.graph import AssetPartition, Graph, Product, Progress, Step
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.parquet import Footer, enforce, to_table
from rag_eval_assets.storage.versions import CodeVersion, data_version
from rag_eval_assets.tables import TABLES
from rag_eval_assets.workers import spread_over


@dataclass(frozen=True)
class Finished:
    """A table that keeps its contract, ready to be written."""

    node: AssetPartition
    table: pa.Table
    data_version: str
    computed: int
    code: CodeVersion
    product: Product
    inputs: Mapping[str, str]
    """The data version of every asset partition that was read for it."""

    def footer(self, run_id: str) -> Footer:
        contract = TABLES[self.node.asset]
        return Footer(
            asset=self.node.asset,
            partition=self.node.partition,
            run_id=run_id,
            code_version=self.code.hash,
            data_version=self.data_version,
            rows=self.table.num_rows,
            computed=self.computed,
            code=self.code.facts,
            inputs=dict(sorted(self.inputs.items())),
            columns={name: contract.description(name) for name in contract.columns},
        )


def step_for(graph: Graph, catalogue: Catalogue, node: AssetPartition, progress: Progress | None = None) -> Step:
    """What the body of `node` may know."""
    return Step(
        name=node.asset,
        partition=node.partition or "",
        folder=graph.folder,
        code=graph.row_code(node),
        previous=lambda: catalogue.previous(node),
        progress=progress or (lambda done, total: None),
        spread=spread_over(graph.settings.workers) if graph.settings.workers else None,
    )


def read_inputs(graph: Graph, catalogue: Catalogue, node: AssetPartition) -> tuple[dict[str, Any], dict[str, str]]:
    """The tables that the body of `node` reads, a dict by partition where it fans in; and the data version of each one read."""
    asset = graph.assets[node.asset]
    tables: dict[str, Any] = {}
    versions: dict[str, str] = {}
    for name in asset.inputs:
        columns = asset.columns_of(name, graph.settings, node.partition)
        parts: dict[str | None, pa.Table] = {}
        for partition in graph.input_partitions(node.asset, node.partition, name):
            up = AssetPartition(name, partition)
            parts[partition], footer = catalogue.read(up, columns)
            versions[str(up)] = footer.data_version
        if graph.fans_in(node.asset, name):
            tables[name] = parts
        elif parts:
            (tables[name],) = parts.values()
        else:
            empty = to_table([], TABLES[name])
            tables[name] = empty.select(list(columns)) if columns else empty
    return tables, versions


def produce(graph: Graph, catalogue: Catalogue, node: AssetPartition, progress: Progress | None = None) -> Finished:
    """Run the body of one asset partition, check its rows against the contract and version them.

    Raises ContractError before anything is written, and what `Catalogue.read` raises of an input.
    """
    tables, versions = read_inputs(graph, catalogue, node)
    step = step_for(graph, catalogue, node, progress)
    product = graph.assets[node.asset].body(step, **tables)
    contract = TABLES[node.asset]
    table = enforce(to_table(product.rows, contract), contract)
    computed = table.num_rows if product.computed is None else product.computed
    version = data_version(table, contract)
    return Finished(node, _first(table, step), version, computed, graph.code_version(node), product, versions)


def _first(table: pa.Table, step: Step) -> pa.Table:
    """`table`, where its rows had no earlier row to be kept in their place said so in `origin`, which no version depends on."""
    if "origin" not in table.column_names or step.previous():
        return table
    at = table.column_names.index("origin")
    return table.set_column(at, table.schema.field(at), pc.binary_join_element_wise("first", table.column(at), "_"))
