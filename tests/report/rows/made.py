"""A row of any table from the values that matter, and the names that the hand-made rows share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rag_eval_assets.tables import TABLES

Row = dict[str, Any]
Tables = dict[str, dict[str | None, list[Row]]]

CHUNKINGS = {
    "window-128-o0": (0.612, 2310), "window-256-o0": (0.655, 1190), "recursive-256-o0": (0.701, 1240), "recursive-256-o32": (0.716, 1402),
    "recursive-512-o0": (0.742, 655), "recursive-512-o64": (0.748, 741), "recursive-1024-o0": (0.731, 344),
    "structural-256": (0.739, 980), "page": (0.662, 310), "whole": (0.584, 72),
}  # fmt: skip
RETRIEVERS = {"bm25": 0.0, "dense": -0.045, "hybrid": 0.031}
SYSTEMS = ("baseline", "hybrid-512")


def make_row(table: str, **values: Any) -> Row:
    """A row of a table: the values given, null where the schema allows it, else the type's empty value."""
    schema = TABLES[table].schema
    unknown = set(values) - set(schema.names)
    assert not unknown, f"{table} has no {unknown}"
    row: Row = {}
    for field in schema:
        if field.name in values:
            row[field.name] = values[field.name]
        elif field.nullable:
            row[field.name] = None
        elif pa.types.is_list(field.type):
            row[field.name] = []
        elif pa.types.is_boolean(field.type):
            row[field.name] = False
        elif pa.types.is_string(field.type):
            row[field.name] = ""
        else:
            row[field.name] = 0
    return row
