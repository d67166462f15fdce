"""PDF text layers: what a reader sees in order, by kind; what cannot be read, by reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from ingestion.parsers import pymupdf_text
from ingestion.parsers.elements import Element, ParseFailure, ParseOptions, ParseRequest, ok_rows
from ingestion.tables import teds
from tests.benchmarks import icdar_parsers

LEFT = [
    "The warranty covers repairs of the",
    "motor and the gearbox for a period",
    "of twenty-four months after pur-",
    "chase. Damage caused by water is",
    "excluded unless the seal was found",
    "defective when the device was sold.",
]
RIGHT = [
    "Returned goods are inspected within",
    "ten working days of their arrival.",
    "The customer is told the outcome in",
    "writing, and may appeal within two",
    "weeks. Costs are never charged in",
    "advance, whatever the outcome is.",
]


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    pymupdf_text.warm(1)


def save(document: Any, path: Path, **options: Any) -> Path:
    document.save(path, **options)
    return path


def read(path: Path, pages: int = 100) -> list[Element]:
    return pymupdf_text.parse(path, "application/pdf", ParseOptions(pages=pages)).elements


def text_of(elements: list[Element], *categories: str) -> list[str]:
    return [element.text for element in elements if element.category in categories]


def write(page: Any, lines: list[str], x: float, y: float, size: float = 11, font: str = "helv") -> None:
    for i, line in enumerate(lines):
        page.insert_text((x, y + i * size * 1.25), line, fontsize=size, fontname=font)


def test_two_columns_are_read_one_after_the_other_with_what_spans_them_in_its_place(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    # Written row by row across the columns, as many generators do: the file's own order is of no help.
    write(page, ["Warranty and returns"], 72, 80, size=20)
    for i, (one, two) in enumerate(zip(LEFT, RIGHT, strict=True)):
        write(page, [one], 72, 120 + i * 14)
        write(page, [two], 310, 120 + i * 14)
    write(page, ["Both policies hold in every country where the company sells devices, without exception."], 72, 240)
    elements = read(save(document, tmp_path / "a.pdf"))
    assert [(element.category, element.heading_level, element.text) for element in elements] == [
        ("Title", 1, "Warranty and returns"),
        (
            "NarrativeText",
            None,
            "The warranty covers repairs of the motor and the gearbox for a period of twenty-four months after purchase. Damage "
            "caused by water is excluded unless the seal was found defective when the device was sold.",
        ),
        ("NarrativeText", None, " ".join(RIGHT)),
        ("NarrativeText", None, "Both policies hold in every country where the company sells devices, without exception."),
    ]


def test_three_columns_are_read_left_to_right(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for c, name in enumerate(("alpha", "beta", "gamma")):
        write(page, [f"{name} is the word of this column {i}" for i in range(8)], 40 + 180 * c, 100, size=9)
    text = " ".join(element.text for element in read(save(document, tmp_path / "a.pdf")))
    words = re.findall(r"alpha|beta|gamma", text)
    assert words == ["alpha"] * 8 + ["beta"] * 8 + ["gamma"] * 8


def test_an_unruled_table_keeps_its_rows_and_columns(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    rows = [("Model", "Power", "Price"), ("KT-1", "900 W", "29.95"), ("KT-2", "1200 W", "39.95"), ("KT-3", "2000 W", "59.95")]
    for i, row in enumerate(rows):
        for c, cell in enumerate(row):
            write(page, [cell], 72 + 120 * c, 100 + 14 * i)
    (table,) = read(save(document, tmp_path / "a.pdf"))
    assert table.text == "Model Power Price\nKT-1 900 W 29.95\nKT-2 1200 W 39.95\nKT-3 2000 W 59.95"
    assert table.html is not None
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    assert teds(table.html, f"<table>{cells}</table>") == 1.0


def test_ruled_tables_become_html_with_spans_and_exact_numbers(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, ["Prices hold from the first of January and include tax."], 72, 80)
    xs, ys = [72, 200, 320, 440], [100, 120, 140, 160, 180]
    for y in ys:
        page.draw_line((xs[0], y), (xs[-1], y))
    for x in (xs[0], xs[1], xs[-1]):
        page.draw_line((x, ys[0]), (x, ys[-1]))
    page.draw_line((xs[2], ys[1]), (xs[2], ys[-1]))  # the heading over the last two columns is one cell
    rows = [["Article", "Price per unit"], ["", "Net", "Gross"], ["Lid", "10.00", "12.10"], ["Cord & plug", "1,000.50", "1,210.61"]]
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            write(page, [cell], xs[c] + 4, ys[r] + 14, font="hebo" if r < 2 else "helv")
    write(page, ["Orders below fifty euros carry a surcharge of five euros."], 72, 210)
    elements = read(save(document, tmp_path / "a.pdf"))
    assert [element.category for element in elements] == ["NarrativeText", "Table", "NarrativeText"]
    table = elements[1]
    gold = (
        '<table><thead><tr><td>Article</td><td colspan="2">Price per unit</td></tr><tr><td></td><td>Net</td><td>Gross</td></tr></thead>'
        "<tbody><tr><td>Lid</td><td>10.00</td><td>12.10</td></tr>"
        "<tr><td>Cord &amp; plug</td><td>1,000.50</td><td>1,210.61</td></tr></tbody></table>"
    )
    assert table.html is not None
    assert teds(table.html, gold) == 1.0
    assert table.text == "Article Price per unit\nNet Gross\nLid 10.00 12.10\nCord & plug 1,000.50 1,210.61"
    assert table.box is not None
    assert table.box == pytest.approx((72, 100, 440, 180), abs=1)


def ruled(page: Any, rows: list[float], columns: list[float]) -> None:
    for y in rows:
        page.draw_line((columns[0], y), (columns[-1], y))
    for x in columns:
        page.draw_line((x, rows[0]), (x, rows[-1]))


def test_a_cell_over_columns_whose_lines_stand_in_them_is_a_cell_a_column(tmp_path: Path) -> None:
    """Rules between the columns are drawn in the head alone."""
    document = pymupdf.open()
    page = document.new_page()
    ruled(page, [100, 120], [100, 200, 300])
    for y in (120, 140, 160):
        page.draw_line((100, y), (300, y))
    for x in (100, 300):
        page.draw_line((x, 120), (x, 160))
    for i, row in enumerate((("Country", "Cases"), ("Austria", "5821"), ("Belgium", "5906"))):
        for x, text in zip((105, 205), row, strict=True):
            page.insert_text((x, 114 + 20 * i), text, fontsize=9)
    path = tmp_path / "a.pdf"
    document.save(path)
    (table,) = [element for element in read(path) if element.category == "Table"]
    assert table.html is not None
    assert [re.findall(r"<td>(.*?)</td>", row) for row in table.html.split("</tr>")[:3]] == [
        ["Country", "Cases"], ["Austria", "5821"], ["Belgium", "5906"],
    ]  # fmt: skip


def test_a_rule_between_two_lines_of_one_cell_is_no_row(tmp_path: Path) -> None:
    """The first column is cut where all others go on: shading line by line does that."""
    document = pymupdf.open()
    page = document.new_page()
    ruled(page, [100, 120], [100, 220, 300])
    ruled(page, [120, 150], [100, 220, 300])
    page.draw_line((100, 135), (220, 135))
    for x, y, text in (
        (105, 114, "Substance"), (225, 114, "Limit"), (105, 131, "Chlorine compounds"), (105, 145, "(as HCl)"), (225, 138, "10 000"),
    ):  # fmt: skip
        page.insert_text((x, y), text, fontsize=9)
    path = tmp_path / "a.pdf"
    document.save(path)
    (table,) = [element for element in read(path) if element.category == "Table"]
    assert table.text.splitlines() == ["Substance Limit", "Chlorine compounds (as HCl) 10 000"]


def test_a_frame_around_prose_is_no_table_and_loses_nothing(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.draw_rect((60, 90, 300, 200))
    write(page, LEFT, 72, 110)
    elements = read(save(document, tmp_path / "a.pdf"))
    assert text_of(elements, "Table") == []
    assert "motor and the gearbox" in elements[0].text


def test_running_heads_page_numbers_and_footnotes_are_told_from_the_text(tmp_path: Path) -> None:
    document = pymupdf.open()
    for number in range(1, 4):
        page = document.new_page()
        write(page, ["Kettle manual, edition 4"], 72, 40, size=9)
        write(page, [f"Chapter {number}"], 72, 90, size=18)
        write(page, [f"Sentence {number}-{i} of the body is long enough to look like one." for i in range(12)], 72, 130)
        write(page, [f"{number} Measured at 20 degrees on day {number}."], 72, 730, size=8)
        write(page, ["Confidential"], 72, 800, size=9)
        write(page, [f"Page {number} of 3"], 450, 800, size=9)
    elements = read(save(document, tmp_path / "a.pdf"))
    assert text_of(elements, "Header") == ["Kettle manual, edition 4"] * 3
    assert text_of(elements, "Footer") == ["Confidential"] * 3
    assert text_of(elements, "PageNumber") == ["Page 1 of 3", "Page 2 of 3", "Page 3 of 3"]
    assert text_of(elements, "Footnote") == [f"{n} Measured at 20 degrees on day {n}." for n in (1, 2, 3)]
    assert text_of(elements, "Title") == ["Chapter 1", "Chapter 2", "Chapter 3"]
    assert [element.page for element in elements if element.category == "Title"] == [1, 2, 3]


def test_figures_that_differ_from_page_to_page_are_no_running_head(tmp_path: Path) -> None:
    document = pymupdf.open()
    for quarter, place in ((1, "Utrecht"), (2, "Ghent")):
        page = document.new_page()
        write(page, [f"Results of {place} in full"], 72, 60)
        write(page, [f"Turnover in quarter {quarter} rose in {place}, the report says in so many words."] * 3, 72, 120)
    elements = read(save(document, tmp_path / "a.pdf"))
    assert text_of(elements, "Header", "Footer", "PageNumber") == []


def test_small_type_at_the_top_of_a_single_page_is_a_running_head_and_a_first_sentence_is_not(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, ["Warranty terms, edition 2025"], 72, 40, size=8)
    write(page, LEFT, 72, 100)
    assert text_of(read(save(document, tmp_path / "a.pdf")), "Header") == ["Warranty terms, edition 2025"]
    document = pymupdf.open()
    page = document.new_page()
    write(page, ["Prices include tax and hold until the end of March."], 72, 40, size=8)
    write(page, LEFT, 72, 100)
    assert text_of(read(save(document, tmp_path / "b.pdf")), "Header") == []


def test_lists_keep_their_items_apart_and_whole(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, ["Bring the following when you come:"], 72, 100)
    write(page, ["1. the receipt that came with the device and", "2. a proof of identity."], 72, 120)
    write(page, ["•", "•"], 72, 160)
    write(page, ["the original cord", "the original lid"], 90, 160)
    elements = read(save(document, tmp_path / "a.pdf"))
    assert text_of(elements, "ListItem") == [
        "1. the receipt that came with the device and",
        "2. a proof of identity.",
        "the original cord",
        "the original lid",
    ]


def test_heading_levels_follow_type_sizes_and_give_each_element_its_path(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, ["Manual"], 72, 80, size=24)
    write(page, ["Safety"], 72, 120, size=16)
    write(page, ["Keep the base dry at all times, in use and in store."] * 2, 72, 150)
    write(page, ["Cleaning"], 72, 200, size=16)
    write(page, ["Wipe the kettle with a damp cloth and never immerse it."] * 2, 72, 230)
    path = save(document, tmp_path / "a.pdf")
    rows = ok_rows(ParseRequest("a.pdf", path, "application/pdf", "pdf", "0"), pymupdf_text.parse(path, "", ParseOptions()), 0.1)
    assert [(row["category"], row["heading_level"], row["heading_path"]) for row in rows] == [
        ("Title", 1, []),
        ("Title", 2, ["Manual"]),
        ("NarrativeText", None, ["Manual", "Safety"]),
        ("Title", 2, ["Manual"]),
        ("NarrativeText", None, ["Manual", "Cleaning"]),
    ]
    assert [row["order"] for row in rows] == list(range(5))


def test_raised_note_marks_do_not_become_digits_of_the_number_before_them(tmp_path: Path) -> None:
    document = pymupdf.open()
    html = "<p style='font-family:sans-serif'>Goods may be returned within 30<sup>1</sup> days of delivery, as the law demands.</p>"
    document.new_page().insert_htmlbox((72, 72, 500, 200), html)
    text = " ".join(element.text for element in read(save(document, tmp_path / "a.pdf")))
    assert "301" not in text
    assert "30¹ days" in text


def test_a_page_lying_on_its_side_is_read_as_it_stands_upright(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page(width=842, height=595)
    for i, line in enumerate(LEFT):
        page.insert_text((100 + 14 * i, 500), line, fontsize=11, rotate=90)
    text = " ".join(element.text for element in read(save(document, tmp_path / "a.pdf")))
    assert text.startswith("The warranty covers repairs of the motor and the gearbox for a period of twenty-four months after purchase.")


def test_pages_without_a_text_layer_are_named_not_passed_over(tmp_path: Path) -> None:
    document = pymupdf.open()
    write(document.new_page(), LEFT, 72, 100)
    document.new_page().draw_rect((100, 100, 200, 200), fill=(0, 0, 0))
    parsed = pymupdf_text.parse(save(document, tmp_path / "a.pdf"), "", ParseOptions())
    assert parsed.notes == ["no text layer on page 2"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("garbage", "corrupt"), ("truncated", "corrupt"), ("locked", "encrypted"), ("picture", "no_text"), ("long", "too_large")],
)
def test_a_pdf_that_cannot_be_read_says_why(tmp_path: Path, kind: str, reason: str) -> None:
    path = tmp_path / "a.pdf"
    document = pymupdf.open()
    for _ in range(4 if kind == "long" else 1):
        page = document.new_page()
        if kind == "picture":
            page.draw_rect((100, 100, 200, 200), fill=(0, 0, 0))
        else:
            write(page, LEFT, 72, 100)
    if kind == "garbage":
        path.write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 20)
    elif kind == "truncated":
        path.write_bytes(document.tobytes()[:60])
    elif kind == "locked":
        save(document, path, encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="secret", owner_pw="owner")
    else:
        save(document, path)
    with pytest.raises(ParseFailure) as caught:
        read(path, pages=3)
    assert caught.value.reason == reason
    assert caught.value.detail


@pytest.mark.reference
def test_government_tables_keep_their_cells_verbatim(shared: Path) -> None:
    """34 files of ICDAR 2013: pymupdf's own order, blind to columns, keeps .9954 of the gold cells (published), a sort by position .969."""
    folder, kept = shared / "icdar2013_tables", icdar_parsers.Kept("pymupdf")
    golds = icdar_parsers.gold_tables(folder)
    for name, tables in golds.items():
        elements = read(folder / name)
        kept.add(tables, "".join(element.text for element in elements), [element.html for element in elements if element.html])
    print(kept.line())
    assert (len(golds), kept.cells) == (34, 7552)
    assert kept.found / kept.cells >= 0.99
    assert kept.teds > 0.65


@pytest.mark.reference
def test_a_published_two_column_paper_is_read_column_by_column(shared: Path) -> None:
    elements = read(shared / "unstructured_docs" / "pdf" / "multi-column-2p.pdf")
    assert elements[0].text == "Dense Passage Retrieval for Open-Domain Question Answering"
    titles = text_of(elements, "Title")
    assert titles[:3] == [elements[0].text, "Abstract", "1 Introduction"]
    text = " ".join(text_of(elements, "NarrativeText"))
    places = [
        text.find(words)
        for words in ("Open-domain question answering relies on", "Retrieval in open-domain QA is usually", "QA datasets, it also suffers")
    ]
    assert -1 not in places
    assert places == sorted(places)
