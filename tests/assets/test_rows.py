"""Tables read and made in batches: the same rows, few of them as Python objects at once."""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from rag_eval_assets.assets._rows import joined, row_digests
from rag_eval_assets.tables.groups import rows_of

ROWS = [{"name": f"n{number}", "parts": [{"at": number}] * (number % 3)} for number in range(10)]
TABLE = pa.concat_tables([pa.Table.from_pylist(ROWS[:4]), pa.Table.from_pylist(ROWS[4:])])


class Live(dict[str, Any]):
    """A row that can be watched while it lives."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_rows_come_in_the_tables_order_whatever_the_batch(batch: int) -> None:
    assert list(rows_of(TABLE, batch=batch)) == ROWS
    assert list(rows_of(TABLE, [9, 0, 5, 4], batch)) == [ROWS[0], ROWS[4], ROWS[5], ROWS[9]]
    assert list(rows_of(TABLE, [], batch)) == []


@pytest.mark.parametrize("made", [0, 1, 4, 5, 8])
def test_new_rows_follow_the_kept_ones_whether_or_not_they_fill_a_batch(made: int) -> None:
    found = joined(TABLE.slice(0, 2), iter(ROWS[2 : 2 + made]), batch=4)
    assert found.schema == TABLE.schema
    assert found.to_pylist() == ROWS[: 2 + made]


def test_no_more_than_a_batch_of_new_rows_is_alive_at_once() -> None:
    alive: weakref.WeakSet[Live] = weakref.WeakSet()
    most = 0

    def made() -> Iterator[Live]:
        nonlocal most
        for number in range(100):
            row = Live(number=number)
            alive.add(row)
            most = max(most, len(alive))
            yield row

    assert joined(pa.table({"number": pa.array([], pa.int64())}), made(), batch=10)["number"].to_pylist() == list(range(100))
    assert most <= 11  # the one that was made last too


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_digests_are_those_of_each_values_json_whatever_the_batch(batch: int) -> None:
    expected = [hashlib.sha256(json.dumps(row["parts"], separators=(",", ":")).encode()).hexdigest() for row in ROWS]
    assert row_digests(TABLE["parts"], batch) == expected
