"""CSV and TSV in the dialects people save, and large grids as several tables that a chunker can keep whole."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ingestion.parsers.delimited import delimiter_of, parse_delimited
from ingestion.parsers.grids import MOST_CHARACTERS, MOST_COLUMNS, has_header, table_elements
from ingestion.parsers.html_tables import Cell, read_table, table_text


def cells(markup: str | None) -> list[list[str]]:
    return [[td.text_content() for td in row] for row in read_table(markup or "").iter("tr")]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\n1\t2, 3\n", "\t"),
        ("a|b|c\n1|2|3\n", "|"),
        ('a,b\n"x;y;z",2\n"x;y;z",2\n', ","),
        ("first, of all\nthen\nlast\n", "\x1f"),
    ],
)
def test_the_delimiter_is_the_one_on_which_the_rows_agree(text: str, delimiter: str) -> None:
    assert delimiter_of(text) == delimiter


def test_quoted_line_breaks_and_delimiters_stay_inside_their_cell() -> None:
    (table,) = parse_delimited('Part,Note\nSeal,"worn,\nreplace ""now"""\n').elements
    assert cells(table.html) == [["Part", "Note"], ["Seal", 'worn,\nreplace "now"']]
    assert table.text == 'Part Note\nSeal worn, replace "now"' == table_text(table.html or "")


def test_a_delimiter_that_the_file_names_wins() -> None:
    parsed = parse_delimited("sep=;\na,b;c\n1,0;2\n")
    assert cells(parsed.elements[0].html) == [["a,b", "c"], ["1,0", "2"]]
    assert parsed.notes == ["fields are parted by ';'"]


def test_short_rows_are_padded_and_a_column_of_nothing_is_dropped() -> None:
    (table,) = parse_delimited("Year;Costs;\n2024;-11,08;\n2025\n").elements
    assert cells(table.html) == [["Year", "Costs"], ["2024", "-11,08"], ["2025", ""]]


def test_a_title_above_the_columns_is_a_title() -> None:
    title, table = parse_delimited("Stanley Cups,,\nTeam,Location,Cups\nBlues,STL,1\n").elements
    assert (title.category, title.text, table.text) == ("Title", "Stanley Cups", "Team Location Cups\nBlues STL 1")


def test_an_empty_file_and_one_of_delimiters_hold_no_element() -> None:
    assert parse_delimited("").elements == parse_delimited(",,,\n,,,\n").elements == []


@pytest.mark.parametrize(
    ("row", "header"),
    [(("Team", "Cups"), True), (("", "2024 plan"), True), (("Team", "12"), False), (("Team", "2024-01-31"), False), (("Team", ""), False), (("Team",), False)],
)  # fmt: skip
def test_a_header_names_its_columns_in_words(row: tuple[str, ...], header: bool) -> None:
    assert has_header(row) is header


def test_a_long_file_becomes_tables_that_each_repeat_the_header_and_together_hold_every_row_once() -> None:
    rows = [f"part {number},{number * 7}" for number in range(1000)]
    tables = parse_delimited("\n".join(["Name,Stock", *rows])).elements
    assert len(tables) > 5
    assert all(len(table.text) <= MOST_CHARACTERS for table in tables)
    assert all(cells(table.html)[0] == ["Name", "Stock"] for table in tables)
    assert [",".join(row) for table in tables for row in cells(table.html)[1:]] == rows
    # As full as the limit allows: no table has room for the first row of the next.
    for table, following in pairwise(tables):
        assert len(table.text) + 1 + len(following.text.splitlines()[1]) > MOST_CHARACTERS


def test_a_wide_file_is_cut_into_columns_that_each_stand_beside_the_first() -> None:
    width = 2 * MOST_COLUMNS
    tables = parse_delimited("\n".join([",".join(f"c{j}" for j in range(width)), ",".join(f"v{j}" for j in range(width))])).elements
    grids = [cells(table.html) for table in tables]
    assert all(grid[0][0] == "c0" and grid[1][0] == "v0" and len(grid[0]) <= MOST_COLUMNS for grid in grids)
    assert [name for i, grid in enumerate(grids) for name in grid[0][i > 0 :]] == [f"c{j}" for j in range(width)]
    assert [name for i, grid in enumerate(grids) for name in grid[1][i > 0 :]] == [f"v{j}" for j in range(width)]


def test_a_cell_that_spans_a_cut_stands_on_both_sides_of_it() -> None:
    text = "x" * (MOST_CHARACTERS // 3)
    grid = [Cell(0, 0, 4, 1, "group"), *(Cell(row, 1, 1, 1, f"{row}{text}") for row in range(4))]
    first, second = table_elements(grid, 0)
    assert first.html == f'<table><tbody><tr><td rowspan="2">group</td><td>0{text}</td></tr><tr><td>1{text}</td></tr></tbody></table>'
    assert second.html == f'<table><tbody><tr><td rowspan="2">group</td><td>2{text}</td></tr><tr><td>3{text}</td></tr></tbody></table>'
