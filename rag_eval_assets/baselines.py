"""Saved baselines: files below baselines/ of an evaluation folder, written whole and read with errors that name the file.

What belongs here: those files. What does not: what is compared with them (`scoring.comparison`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_assets.golden import GoldenError, Row, replace_file
from rag_eval_assets.tables import TABLES

_BASELINE_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def read_baselines(folder: Path) -> list[Row]:
    """Rows of `baselines` from folder/*.parquet, sorted by the table's key; none where the folder is not there.

    Raises GoldenError for a file that is no Parquet, lacks a column, or holds a row twice or of another baseline.
    """
    table = TABLES["baselines"]
    rows: list[Row] = []
    for path in sorted(folder.glob("*.parquet"), key=lambda path: path.name):
        try:
            found = pq.read_table(path, page_checksum_verification=True).select(table.columns).cast(table.schema).to_pylist()
        except (pa.ArrowException, OSError, KeyError) as error:
            raise GoldenError(f"{path}: no baseline: {error}; save it again with `rag-eval baseline save`") from error
        foreign = next((row["baseline"] for row in found if row["baseline"] != path.stem), None)
        if foreign is not None:
            raise GoldenError(f"{path}: holds rows of baseline {foreign!r}; name the file {foreign}.parquet")
        rows += found
    ordered = sorted(rows, key=lambda row: tuple(row[name] for name in table.key))
    for one, other in pairwise(ordered):
        key = tuple(one[name] for name in table.key)
        if key == tuple(other[name] for name in table.key):
            raise GoldenError(f"{folder / key[0]}.parquet: question {one['question_id']!r}: stands twice under {key[2:]}; save it again")
    return ordered


def save_baseline(folder: Path, name: str, rows: Iterable[Row], *, replace: bool = False) -> Path:
    """Write rows of `baselines` as folder/<name>.parquet, atomically; the file written.

    Raises GoldenError for a name that is no file name or rows that do not fit the table, FileExistsError for a baseline that is there
    unless `replace`.
    """
    if not _BASELINE_NAME.fullmatch(name):
        raise GoldenError(f"baseline {name!r}: use lower case letters and digits, and '.', '-', '_' after the first")
    try:
        table = pa.Table.from_pylist(list(rows), schema=TABLES["baselines"].schema)
        table.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise GoldenError(f"baseline {name!r}: rows do not fit the table: {error}") from error
    path: Path = folder / f"{name}.parquet"
    if path.exists() and not replace:
        raise FileExistsError(f"{path}: baseline {name!r} is there; choose another name, or pass --replace")
    folder.mkdir(parents=True, exist_ok=True)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    replace_file(path, sink.getvalue().to_pybytes())
    return path
