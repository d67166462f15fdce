"""DuckDB with every asset as a view over its Parquet files. What does not belong here: any query of the product's own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage import files
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.parquet import ContractError, TornFileError, bare_schema
from rag_eval_assets.storage.sync import open_catalogue
from rag_eval_assets.tables import TABLES

if TYPE_CHECKING:
    import duckdb


def ask(folder: Folder, text: str) -> tuple[duckdb.DuckDBPyRelation | None, list[AssetPartition]]:
    """The rows that a SQL text gives (None where it gives none), and what it reads of that has no file.

    Raises TornFileError or ContractError where a table that it names has a damaged file, duckdb.Error for a text that is no query.
    """
    graph, catalogue = Graph(folder), open_catalogue(folder)
    named = _named(text)
    absent = []
    for node in graph.nodes():
        if node.asset in named:
            try:
                if catalogue.footer(node) is None:
                    absent.append(node)
            except (TornFileError, ContractError) as error:
                raise type(error)(f"{error}. Run 'rag-eval sync', which makes it anew.") from error
    catalogue.save()
    return _connect(graph, catalogue).sql(text), absent


def _named(text: str) -> set[str]:
    """Tables that a SQL text names, as DuckDB reads it: a connection that has none cannot resolve one."""
    import duckdb

    empty, found = duckdb.connect(), set()
    statements = empty.extract_statements(text)
    if not statements:
        raise duckdb.InvalidInputException('there is no query in the text; write one such as "select count(*) from documents"')
    for statement in statements:
        with suppress(duckdb.Error):  # a statement that is bound to a table there and then says itself what is wrong
            found |= {name.lower() for name in empty.get_table_names(statement.query)}
    return found


def _connect(graph: Graph, catalogue: Catalogue) -> duckdb.DuckDBPyConnection:
    """An in-memory connection; partitioned assets get a column `partition`, assets without a readable file an empty view."""
    import duckdb

    connection = duckdb.connect(config={"threads": graph.settings.limits.threads})
    local = files.is_local(catalogue.root)
    if not local:
        connection.register_filesystem(catalogue.root.fs)
    there = {str(path) for path, _ in catalogue.files()}
    for name in graph.assets:
        nodes = [AssetPartition(name, p) for p in graph.partitions(name)]
        present = [(n, catalogue.path(n)) for n in nodes if str(catalogue.path(n)) in there]
        parts = [_select(n, str(path) if local else f"{path.protocol}://{path.path}") for n, path in present]
        try:
            if parts:
                connection.execute(f'CREATE VIEW "{name}" AS {" UNION ALL ".join(parts)}')
                continue
        except duckdb.Error:
            pass  # damaged, and none that the query names: those were looked at
        fields = [*bare_schema(TABLES[name]), *([pa.field("partition", pa.string())] if TABLES[name].family else [])]
        connection.register(name, pa.schema(fields).empty_table())
    return connection


def _select(node: AssetPartition, path: str) -> str:
    quoted = path.replace("'", "''")
    column = f", '{node.partition}' AS partition" if node.partition else ""
    return f"SELECT *{column} FROM read_parquet('{quoted}')"
