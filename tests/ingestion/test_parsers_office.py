"""Presentations and workbooks: slides, notes, merged cells, formats and stored values as a reader sees them."""

from __future__ import annotations

import datetime as dt
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pptx
import pytest
from pptx.util import Inches

from ingestion.parsers.elements import Element, ParseFailure, ParseOptions
from ingestion.parsers.number_formats import shown
from ingestion.parsers.slides import parse_slides
from ingestion.parsers.spreadsheets import parse_workbook
from ingestion.tables import teds

moment = dt.datetime  # a workbook's times are in no zone

OPTIONS = ParseOptions(megabytes=16, pages=50)


def brief(elements: list[Element]) -> list[tuple[int | None, str, str]]:
    return [(element.page, element.category, element.text) for element in elements]


@pytest.fixture
def deck(tmp_path: Path) -> Path:
    show = pptx.Presentation()
    first = show.slides.add_slide(show.slide_layouts[1])  # title and content: its bullets are the layout's
    first.shapes.title.text = "Pump maintenance"
    body = first.placeholders[1].text_frame
    body.text = "Check the seal"
    body.add_paragraph().text = "Grease the bearing"
    first.notes_slide.notes_text_frame.text = "Show the worn seal.\nPass it round."
    second = show.slides.add_slide(show.slide_layouts[5])
    second.shapes.title.text = "Intervals"
    table = second.shapes.add_table(3, 3, Inches(1), Inches(2), Inches(6), Inches(2)).table
    for i, row in enumerate((("Part", "Hours", ""), ("", "light", "heavy"), ("Seal", "900", "450"))):
        for j, text in enumerate(row):
            table.cell(i, j).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    table.cell(0, 0).merge(table.cell(1, 0))
    box = second.shapes.add_textbox(Inches(1), Inches(5), Inches(4), Inches(1)).text_frame
    box.text = "Heavy duty is more than 16 hours a day."
    box.add_paragraph().text = "• Ask the plant manager"
    second._element.set("show", "0")
    path = tmp_path / "deck.pptx"
    show.save(str(path))
    return path


def test_a_presentation_has_a_page_a_slide_titles_lists_of_the_layout_and_what_the_speaker_says(deck: Path) -> None:
    parsed = parse_slides(deck, OPTIONS)
    assert brief(parsed.elements) == [
        (1, "Title", "Pump maintenance"),
        (1, "ListItem", "Check the seal"),
        (1, "ListItem", "Grease the bearing"),
        (1, "NarrativeText", "Show the worn seal."),
        (1, "NarrativeText", "Pass it round."),
        (2, "Title", "Intervals"),
        (2, "Table", "Part Hours\nlight heavy\nSeal 900 450"),
        (2, "NarrativeText", "Heavy duty is more than 16 hours a day."),
        (2, "ListItem", "Ask the plant manager"),
    ]
    assert parsed.notes == ["slide 2 is hidden"]


def test_merged_cells_of_a_slide_keep_their_spans(deck: Path) -> None:
    (table,) = (element for element in parse_slides(deck, OPTIONS).elements if element.html)
    gold = (
        "<table><tr><td rowspan='2'>Part</td><td colspan='2'>Hours</td></tr><tr><td>light</td><td>heavy</td></tr>"
        "<tr><td>Seal</td><td>900</td><td>450</td></tr></table>"
    )
    assert teds(table.html or "", gold) == 1.0


def test_more_slides_than_the_limit_are_too_large(deck: Path) -> None:
    with pytest.raises(ParseFailure, match="2 slides, over the limit of 1"):
        parse_slides(deck, ParseOptions(pages=1))


@pytest.fixture
def book(tmp_path: Path) -> Path:
    made = openpyxl.Workbook()
    sheet = made.active
    sheet.title = "Stock"
    for row in (
        ["Stock by depot"],
        ["Item", "Counted", "Value", "Share"],
        ["Seal", moment(2026, 3, 31), 1234.5, 0.256],
        ["Bearing", moment(2026, 4, 1), -2, 1],
        ["Counts are taken at night."],
        [],
        ["Depot", "Units", None],
        [None, "north", "south"],
        ["Total", 7, 8],
    ):
        sheet.append(row)
    for row in (3, 4):
        sheet.cell(row, 2).number_format = "d mmm yyyy"
        sheet.cell(row, 3).number_format = "#,##0.00;[Red](#,##0.00)"
        sheet.cell(row, 4).number_format = "0.0%"
    sheet.merge_cells("A7:A8")
    sheet.merge_cells("B7:C7")
    hidden = made.create_sheet("Notes")
    hidden.sheet_state = "hidden"
    hidden["C3"] = "=1+1"
    hidden["D3"] = "computed by nobody"
    made.create_sheet("Empty")
    path = tmp_path / "book.xlsx"
    made.save(path)
    return path


def test_a_sheet_is_a_title_and_its_blocks_with_values_as_they_are_shown(book: Path) -> None:
    parsed = parse_workbook(book, OPTIONS)
    assert brief(parsed.elements) == [
        (1, "Title", "Stock"),
        (1, "Title", "Stock by depot"),
        (1, "Table", "Item Counted Value Share\nSeal 31 Mar 2026 1,234.50 25.6%\nBearing 1 Apr 2026 (2.00) 100.0%"),
        (1, "NarrativeText", "Counts are taken at night."),
        (1, "Table", "Depot Units\nnorth south\nTotal 7 8"),
        (2, "Title", "Notes"),
        (2, "UncategorizedText", "computed by nobody"),
    ]
    assert [element.heading_level for element in parsed.elements if element.category == "Title"] == [1, 2, 1]
    assert parsed.elements[2].html is not None
    assert parsed.elements[2].html.startswith("<table><thead><tr><td>Item</td>")
    assert parsed.notes == [
        "sheet 'Notes' is hidden",
        "1 formulas hold no stored value: open and save the workbook in a spreadsheet program",
    ]


def test_merged_cells_of_a_sheet_keep_their_spans(book: Path) -> None:
    gold = (
        "<table><tr><td rowspan='2'>Depot</td><td colspan='2'>Units</td></tr><tr><td>north</td><td>south</td></tr>"
        "<tr><td>Total</td><td>7</td><td>8</td></tr></table>"
    )
    assert teds(parse_workbook(book, OPTIONS).elements[4].html or "", gold) == 1.0


def test_a_formula_gives_the_value_that_was_stored_with_it(book: Path, tmp_path: Path) -> None:
    stored = tmp_path / "stored.xlsx"
    with zipfile.ZipFile(book) as old, zipfile.ZipFile(stored, "w") as new:
        for member in old.namelist():
            new.writestr(member, old.read(member).replace(b"<v></v>", b"<v>2</v>").replace(b"<f>1+1</f><v/>", b"<f>1+1</f><v>2</v>"))
    parsed = parse_workbook(stored, OPTIONS)
    assert parsed.elements[-1].text == "2 computed by nobody"
    assert parsed.notes == ["sheet 'Notes' is hidden"]


def test_a_lonely_cell_at_the_far_corner_costs_nothing(tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    made.active["A1"] = "near"
    made.active["XFD1048576"] = "far"
    made.save(tmp_path / "far.xlsx")
    assert [element.text for element in parse_workbook(tmp_path / "far.xlsx", OPTIONS).elements] == ["Sheet", "near", "far"]


# What a spreadsheet program shows for these (ECMA-376-1, 18.8.31, and its examples).
@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (1234.5, "General", "1234.5"),
        (0.1 + 0.2, "General", "0.3"),
        (3.0, "General", "3"),
        (1234567, "#,##0", "1,234,567"),
        (0.5, "#.##", ".5"),
        (5, "000", "005"),
        (2.675, "0.00", "2.68"),
        (-3.14159, "0.00", "-3.14"),
        (1500000, '0.0,,"M"', "1.5M"),
        (12200000, "0.00E+00", "1.22E+07"),
        (12.5, '"$"#,##0.00', "$12.50"),
        (12, "[$€-407] #,##0.00", "€ 12.00"),
        (-1234.5, '_(* #,##0_);_(* \\(#,##0\\);_(* "—"_);_(@_)', "(1,235)"),
        (0, '_(* #,##0_);_(* \\(#,##0\\);_(* "—"_);_(@_)', "—"),
        (7, "0;;", "7"),
        (-7, "0;;", ""),
        (0.5, "# ?/?", "0.5"),
        (5551234, "000-0000", "5551234"),
        (True, "General", "TRUE"),
        (moment(2023, 6, 5, 14, 7, 9), "dd/mm/yyyy hh:mm", "05/06/2023 14:07"),
        (moment(2023, 6, 5, 14, 7, 9), "[$-409]h:mm AM/PM;@", "2:07 PM"),
        (moment(2023, 6, 5), "dddd, d mmmm yy", "Monday, 5 June 23"),
        (moment(2023, 6, 5), "mm-dd-yy", "2023-06-05"),
        (dt.time(9, 5), "h:mm", "9:05"),
        (dt.timedelta(hours=30, minutes=5), "[h]:mm", "30:05"),
        ("text", "0.00", "text"),
        (None, "0.00", ""),
    ],
)  # fmt: skip
def test_a_number_format_shows_what_a_spreadsheet_program_shows(value: Any, code: str, text: str) -> None:
    assert shown(value, code) == text
