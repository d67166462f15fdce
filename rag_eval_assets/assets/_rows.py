"""Small conversions that bodies share: tables to rows, rows by id. No logic of any one asset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, Any]


def by(rows: Iterable[Row], column: str) -> dict[str, Row]:
    """Rows by a unique column."""
    return {row[column]: row for row in rows}


def grouped(rows: Iterable[Row], column: str) -> dict[str, list[Row]]:
    """Rows by a column that repeats, order kept."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return found


def among(table: pa.Table, column: str, values: Iterable[str]) -> pa.Table:
    """Rows that have one of `values` in a column."""
    return table.filter(pc.is_in(table[column], pa.array(sorted(values), pa.string())))


def row_digests(column: pa.ChunkedArray, batch: int = 64) -> list[str]:
    """SHA-256 of the JSON of each value, for columns that are costly as Python objects. The JSON of `batch` values is held at once."""
    import duckdb

    found: list[str] = []
    with duckdb.connect(config={"threads": 1}) as connection:  # one thread: rows stay in order
        for part in pa.table({"value": column}).to_batches(max_chunksize=batch):
            connection.register("given", pa.Table.from_batches([part]))
            rows = connection.sql("SELECT sha256(CAST(to_json(value) AS VARCHAR)) FROM given").fetchall()
            found += [digest for (digest,) in rows]
    return found


def join(kept: pa.Table, made: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Reused rows and new rows as one table of the kept table's schema."""
    if not made:
        return kept
    new = pa.table({f.name: pa.array([row[f.name] for row in made], f.type) for f in kept.schema}, schema=kept.schema)
    return pa.concat_tables([kept, new])


def joined(kept: pa.Table, made: Iterable[Mapping[str, Any]], batch: int = 1024) -> pa.Table:
    """`join` of rows that are still being made: at most `batch` of them are Python objects at once."""
    rows = iter(made)
    return pa.concat_tables([kept, *map(partial(join, kept.slice(0, 0)), iter(lambda: list(islice(rows, batch)), []))])


def with_column(table: pa.Table, name: str, values: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """`table` with one more column, in the order of `schema`."""
    return table.append_column(schema.field(name), pa.array(values, schema.field(name).type)).select(schema.names)
