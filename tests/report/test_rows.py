"""Rows of a query as CSV and JSON: whole, and readable by whatever reads these."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from decimal import Decimal

from rag_eval_assets.report.rows import as_csv, as_json

COLUMNS = ["a", "b", "a"]
ROWS = [(1, 'x "y",\nz', None), (Decimal("1.5"), ["ü", {"n": float("nan")}], True), (float("inf"), dt.date(2025, 1, 2), "")]


def test_csv_reads_back_with_lists_as_json_and_nulls_empty() -> None:
    found = list(csv.reader(io.StringIO("".join(as_csv(COLUMNS, ROWS)))))
    assert found == [COLUMNS, ["1", 'x "y",\nz', ""], ["1.5", '["ü", {"n": null}]', "true"], ["inf", "2025-01-02", ""]]


def test_json_is_one_array_without_nan_and_without_a_lost_column() -> None:
    assert json.loads("".join(as_json(COLUMNS, ROWS))) == [
        {"a": 1, "b": 'x "y",\nz', "a_2": None},
        {"a": 1.5, "b": ["ü", {"n": None}], "a_2": True},
        {"a": None, "b": "2025-01-02", "a_2": ""},
    ]
    assert json.loads("".join(as_json(COLUMNS, []))) == []


def test_a_text_that_a_spreadsheet_would_run_is_text_in_csv_and_whole_in_json() -> None:
    texts = ['=HYPERLINK("http://x","y")', "+1", "-2+3", "@SUM(A1)", "\t=1", "a=b", ""]
    found = list(csv.reader(io.StringIO("".join(as_csv(["text", "number"], [[text, -2.5] for text in texts])))))
    assert [row[0] for row in found[1:]] == [f"'{text}" for text in texts[:5]] + texts[5:]
    assert {row[1] for row in found[1:]} == {"-2.5"}  # a number is no formula
    assert [row["text"] for row in json.loads("".join(as_json(["text"], [[text] for text in texts])))] == texts
