"""Rows of a table by a column that it stands in order of, read when they are asked for.

What belongs here: moving rows out of Arrow a group at a time, so that no table is Python objects as a whole. What does not: what is done
with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class Groups(Mapping[str, list[dict[str, Any]]]):
    """A table's rows by `column`, whose equal values stand together. A group is made Python objects whenever it is asked for."""

    def __init__(self, table: pa.Table, column: str) -> None:
        self._table = table
        runs = pc.run_end_encode(table[column].combine_chunks())
        ends: list[int] = runs.run_ends.to_pylist()
        self._place = dict(zip(runs.values.to_pylist(), zip([0, *ends], ends, strict=False), strict=True))
        if len(self._place) != len(ends):
            raise ValueError(f"rows of one {column} do not stand together")

    def __getitem__(self, value: str) -> list[dict[str, Any]]:
        start, end = self._place[value]
        rows: list[dict[str, Any]] = self._table.slice(start, end - start).to_pylist()
        return rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)


class Values(Mapping[str, str]):
    """Text of `column` by `key`, which is unique or stands for one text. A text is made a Python object whenever it is asked for."""

    def __init__(self, table: pa.Table, key: str, column: str) -> None:
        self._column = table[column]
        self._at = {value: at for at, value in enumerate(table[key].to_pylist())}

    def __getitem__(self, value: str) -> str:
        text: str = self._column[self._at[value]].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)
