"""TEDS against its published figures, and what may and may not change it."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion.parsers.html_tables import Cell, table_html, table_text, with_header
from ingestion.tables import TableTooLarge, teds

ROWS = st.lists(st.lists(st.text("ab<&1 ", max_size=4), min_size=1, max_size=3), min_size=1, max_size=3)


def markup(rows: list[list[str]]) -> str:
    return "<table>" + "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows) + "</table>"


@pytest.mark.reference
def test_published_pairs_have_their_published_means(shared: Path) -> None:
    gold = {name: table["html"] for name, table in json.loads((shared / "pubtabnet/src/sample_gt.json").read_text()).items()}
    predicted = json.loads((shared / "pubtabnet/src/sample_pred.json").read_text())
    assert len(gold) == 20
    whole = [teds(predicted[name], gold[name]) for name in sorted(gold)]
    structure = [teds(predicted[name], gold[name], structure_only=True) for name in sorted(gold)]
    assert sum(whole) / 20 == pytest.approx(0.89968, abs=5e-6)
    assert sum(structure) / 20 == pytest.approx(0.93610, abs=5e-6)
    assert [teds(table, table) for table in gold.values()] == [1.0] * 20


@settings(max_examples=30, deadline=None)
@given(ROWS, ROWS)
def test_it_is_a_similarity(one: list[list[str]], two: list[list[str]]) -> None:
    a, b = markup(one), markup(two)
    assert teds(a, a) == 1.0
    assert 0.0 <= teds(a, b) <= 1.0
    assert teds(a, b) == pytest.approx(teds(b, a))


def test_one_changed_cell_costs_its_share_of_the_tree() -> None:
    gold = markup([["a", "b"], ["c", "d"]])
    # tbody, 2 tr, 4 td: 7 nodes. One cell of one character changed: distance 1. Half of a cell's text: distance .5.
    assert teds(markup([["a", "b"], ["c", "x"]]), gold) == pytest.approx(1 - 1 / 7)
    assert teds(markup([["a", "b"], ["c", "dx"]]), gold) == pytest.approx(1 - 0.5 / 7)
    assert teds(markup([["a", "b"], ["c", "x"]]), gold, structure_only=True) == 1.0
    assert teds(markup([["a", "b"]]), gold) == pytest.approx(1 - 3 / 7)


def test_ways_of_writing_the_same_table_are_the_same_table() -> None:
    plain = "<table><tbody><tr><td>Lid</td><td>10.00</td></tr></tbody></table>"
    for other in (
        "<table class='x'><tr><th>Lid</th><th>10.00</th></tr></table>",
        "<html><body><p>before</p>\n<table>\n  <tr>\n    <td>\n      Lid\n    </td>\n    <td>10.00</td>\n  </tr>\n</table></body></html>",
        "<table><!-- note --><tr><td colspan='1'>Lid</td><td style='x'>10.00</td></tr></table>",
    ):
        assert teds(other, plain) == 1.0


def test_spans_are_structure() -> None:
    wide = "<table><tr><td colspan='2'>a</td></tr><tr><td>b</td><td>c</td></tr></table>"
    narrow = "<table><tr><td>a</td></tr><tr><td>b</td><td>c</td></tr></table>"
    assert teds(narrow, wide) == teds(narrow, wide, structure_only=True) == pytest.approx(1 - 1 / 6)


def test_a_prediction_without_a_table_scores_nothing_and_a_reference_without_one_is_an_error() -> None:
    table = markup([["a"]])
    assert [teds(other, table) for other in ("", "   ", "<p>text</p>", "<!-- x -->")] == [0.0] * 4
    with pytest.raises(ValueError, match="reference"):
        teds(table, "<p>text</p>")


def test_a_table_over_the_limit_is_refused_before_the_search() -> None:
    large = markup([["x"] * 10] * 40)
    with pytest.raises(TableTooLarge, match="441 nodes"):
        teds(large, markup([["y"]]), maximum_nodes=400)


def test_text_of_a_table_is_a_line_a_row() -> None:
    assert (
        table_text("<table><tr><th>Item</th><td></td><td>Price &amp; tax</td></tr><tr><td> Lid </td><td>10.00</td></tr></table>")
        == "Item Price & tax\nLid 10.00"
    )
    assert table_text("<p>none</p>") is None


def test_header_rows_are_set_apart_unless_a_cell_reaches_below_them() -> None:
    plain = "<table><tr><td>Item</td></tr><tr><td>Lid</td></tr></table>"
    assert with_header(plain, 1) == "<table><thead><tr><td>Item</td></tr></thead><tbody><tr><td>Lid</td></tr></tbody></table>"
    assert with_header(plain, 0) == with_header(plain, 2) == plain
    deep = "<table><tr><td rowspan='2'>Item</td><td>x</td></tr><tr><td>Lid</td></tr></table>"
    assert with_header(deep, 1) == deep


def test_written_tables_carry_spans_header_and_escaped_text() -> None:
    cells = [Cell(0, 0, 1, 2, "a < b"), Cell(1, 0, 2, 1, "c"), Cell(1, 1, 1, 1, "d"), Cell(2, 1, 1, 1, "e")]
    assert table_html(cells, 1) == (
        '<table><thead><tr><td colspan="2">a &lt; b</td></tr></thead><tbody><tr><td rowspan="2">c</td><td>d</td></tr>'
        "<tr><td>e</td></tr></tbody></table>"
    )


def test_rows_count_in_whatever_section_they_stand_only_where_sections_are_compared() -> None:
    bare = "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>"
    headed = "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>"
    assert teds(bare, headed, sections=False) == 1.0
    assert teds(headed, bare, sections=False) == 1.0
    assert teds(bare, headed) < 1.0
