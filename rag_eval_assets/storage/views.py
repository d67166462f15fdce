"""DuckDB with every asset as a view over its Parquet files. What does not belong here: any query of the product's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.parquet import bare_schema
from rag_eval_assets.storage.sync import open_catalogue
from rag_eval_assets.tables import TABLES

if TYPE_CHECKING:
    import duckdb


def connect(folder: Folder) -> duckdb.DuckDBPyConnection:
    """An in-memory connection; partitioned assets get a column `partition`, assets without a file an empty view."""
    import duckdb

    graph, catalogue = Graph(folder), open_catalogue(folder)
    connection = duckdb.connect(config={"threads": folder.settings.limits.threads})
    local = catalogue.root.protocol in ("", "file")
    if not local:
        connection.register_filesystem(catalogue.root.fs)
    for name in graph.assets:
        nodes = [AssetPartition(name, p) for p in graph.partitions(name)]
        present = [(n, catalogue.path(n)) for n in nodes if catalogue.path(n).exists()]
        if not present:
            fields = [*bare_schema(TABLES[name]), *([pa.field("partition", pa.string())] if TABLES[name].family else [])]
            connection.register(name, pa.schema(fields).empty_table())
            continue
        parts = [_select(n, str(path) if local else f"{path.protocol}://{path.path}") for n, path in present]
        connection.execute(f'CREATE VIEW "{name}" AS {" UNION ALL ".join(parts)}')
    return connection


def _select(node: AssetPartition, path: str) -> str:
    quoted = path.replace("'", "''")
    column = f", '{node.partition}' AS partition" if node.partition else ""
    return f"SELECT *{column} FROM read_parquet('{quoted}')"
