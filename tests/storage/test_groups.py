"""Rows of a table by a column: the table's own rows, whatever its pieces, and never two groups of one value."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from rag_eval_assets.tables.groups import Groups, Values

ROWS = [{"document": name, "order": order} for name, count in (("a", 2), ("b", 1), ("c", 3)) for order in range(count)]


@pytest.mark.parametrize("pieces", [(0, 6), (0, 1, 6), (0, 2, 3, 4, 6)])
def test_a_group_holds_the_rows_of_its_value_in_order_whatever_pieces_the_table_has(pieces: tuple[int, ...]) -> None:
    table = pa.concat_tables([pa.Table.from_pylist(ROWS[start:end]) for start, end in pairwise(pieces)])
    groups = Groups(table, "document")
    assert dict(groups) == {"a": ROWS[:2], "b": ROWS[2:3], "c": ROWS[3:]}
    assert (list(groups), len(groups), groups.get("d")) == (["a", "b", "c"], 3, None)


def test_a_table_without_rows_has_no_groups() -> None:
    assert dict(Groups(pa.Table.from_pylist(ROWS).slice(0, 0), "document")) == {}


def test_a_table_that_is_not_in_order_is_refused() -> None:
    with pytest.raises(ValueError, match="rows of one document do not stand together"):
        Groups(pa.Table.from_pylist([*ROWS, ROWS[0]]), "document")


def test_a_text_is_read_by_the_key_beside_it_whatever_pieces_the_table_has() -> None:
    table = pa.concat_tables([pa.table({"id": ["a", "b"], "text": ["one", "two"]}), pa.table({"id": ["c"], "text": ["three"]})])
    assert dict(Values(table, "id", "text")) == {"a": "one", "b": "two", "c": "three"}
    with pytest.raises(KeyError):
        Values(table, "id", "text")["d"]
