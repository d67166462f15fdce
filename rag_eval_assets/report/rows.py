"""Rows of a query as CSV or JSON, whole. What does not belong here: the query (`storage.views`), and tables for reading."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

Lines = Callable[[Sequence[str], Iterable[Sequence[Any]]], Iterator[str]]


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """CSV lines with a header (RFC 4180, but ending in a line feed): a null is empty, a list or an object is JSON.

    A text that a spreadsheet would run as a formula gets an apostrophe in front (OWASP, CSV injection); JSON holds it as it is.
    """
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    for row in chain([columns], rows):
        writer.writerow([_cell(value) for value in row])
        yield sink.getvalue()
        sink.seek(0)
        sink.truncate()


def as_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """One JSON array, an object a line; what JSON has no form for is null (NaN) or text (a date)."""
    names: list[str] = []
    for column in columns:
        names.append(column if column not in names else f"{column}_{len(names)}")
    before = "[\n"
    for row in rows:
        yield before + _json({name: _plain(value) for name, value in zip(names, row, strict=True)})
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What the text of a cell starts with that a spreadsheet takes for a formula."""

FORMATS: dict[str, Lines] = {"csv": as_csv, "json": as_json}


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA) else value
    return _json(_plain(value)) if isinstance(value, list | tuple | dict) else value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
