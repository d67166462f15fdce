"""Rows of a table in turn, or by a column that it stands in order of, read when they are asked for.

What belongs here: moving rows out of Arrow a few at a time, so that no table is Python objects as a whole. What does not: what is done
with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

TEXTS = 16
"""Rows that are Python objects at once where each holds a whole text with its elements."""


def rows_of(table: pa.Table, at: Iterable[int] | None = None, batch: int = TEXTS) -> Iterator[dict[str, Any]]:
    """Rows in the table's order, those at the positions `at` alone where given. At most `batch` of them are Python objects at once."""
    chosen, start = None if at is None else set(at), 0
    for part in table.to_batches(max_chunksize=batch):
        end = start + part.num_rows
        here = part if chosen is None else part.take(pa.array([i - start for i in range(start, end) if i in chosen], pa.int64()))
        yield from here.to_pylist()
        start = end


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
