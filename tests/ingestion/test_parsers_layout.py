"""Reading order and paragraphs from boxes alone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.parsers import layout
from ingestion.parsers.elements import ends_sentence, join_lines, starts_list_item, without_bullet
from ingestion.parsers.layout import Line, paragraphs, reading_order

BOXES = st.builds(
    lambda x, y, w, h, block: (x, y, x + w, y + h, block),
    st.integers(0, 500),
    st.integers(0, 700),
    st.integers(5, 300),
    st.integers(6, 20),
    st.integers(-1, 4),
)


def column(x: float, y: float, *texts: str, size: float = 10, width: float = 200) -> list[Line]:
    return [Line(text, (x, y + 12 * i, x + width, y + 12 * i + size), size) for i, text in enumerate(texts)]


PROSE = ["one two three four five", "six seven eight nine ten", "eleven twelve thirteen more", "and so it goes on."]


@given(st.lists(BOXES, max_size=40))
def test_no_line_is_lost_or_doubled_whatever_the_page(boxes: list[tuple[int, int, int, int, int]]) -> None:
    lines = [Line(f"w{i} a b c", (x0, y0, x1, y1), float(y1 - y0), block=block) for i, (x0, y0, x1, y1, block) in enumerate(boxes)]
    regions = reading_order(lines)
    assert Counter(line.text for region in regions for line in region) == Counter(line.text for line in lines)
    kept = [line.text for region in regions for paragraph in paragraphs(region) for line in paragraph]
    assert kept == [line.text for region in regions for line in region]


def test_order_does_not_depend_on_the_order_of_the_source() -> None:
    lines = column(50, 100, *PROSE) + column(300, 100, *(text.upper() for text in PROSE))
    forwards, backwards = reading_order(lines), reading_order(lines[::-1])
    assert forwards == backwards
    assert [line.text for region in forwards for line in region] == PROSE + [text.upper() for text in PROSE]


def test_a_short_heading_above_columns_is_read_first_though_it_nearly_reaches_the_right_one() -> None:
    title = Line("Heading", (50, 60, 292, 84), 24)
    lines = [title, *column(50, 100, *PROSE), *column(300, 100, *(text.upper() for text in PROSE))]
    assert [line.text for region in reading_order(lines) for line in region] == ["Heading", *PROSE, *(text.upper() for text in PROSE)]


def test_a_short_line_above_full_width_text_is_read_with_it_and_not_with_the_left_column() -> None:
    wide = Line("this line spans both of the columns and more", (50, 190, 500, 200), 10)
    heading = Line("Next section", (50, 174, 120, 184), 10)
    lines = [*column(50, 100, *PROSE), *column(300, 100, *(text.upper() for text in PROSE)), heading, wide]
    order = [line.text for region in reading_order(lines) for line in region]
    assert order[-2:] == ["Next section", wide.text]


def test_blocks_without_prose_are_read_row_by_row() -> None:
    cells = [Line(f"{row}{c}", (50 + 150 * c, 100 + 14 * row, 90 + 150 * c, 110 + 14 * row), 10) for c in range(2) for row in range(4)]
    assert [line.text for region in reading_order(cells) for line in region] == ["00", "01", "10", "11", "20", "21", "30", "31"]


def test_paragraphs_part_at_a_gap_an_indent_a_list_item_and_a_change_of_type() -> None:
    lines = [
        *column(50, 100, "first line of one", "second line of one"),
        *column(50, 140, "after a gap the next."),
        *column(70, 152, "Indented, so a third", width=180),
        *column(50, 164, "1. an item", "2. another item"),
        Line("Larger", (50, 188, 120, 204), 16),
    ]
    assert [" ".join(line.text for line in paragraph) for paragraph in paragraphs(lines)] == [
        "first line of one second line of one",
        "after a gap the next.",
        "Indented, so a third",
        "1. an item",
        "2. another item",
        "Larger",
    ]


def test_words_cut_by_a_line_break_are_made_whole_and_real_hyphens_stay() -> None:
    assert join_lines(["the warran-", "ty ends"]) == "the warranty ends"
    assert join_lines(["the warran\u00ad", "ty ends"]) == "the warranty ends"
    assert join_lines(["a well-", "known case"], frozenset({"well-known"})) == "a well-known case"
    assert join_lines(["from 2024-", "2025 on"]) == "from 2024-2025 on"
    assert join_lines(["the EU-", "Commission"]) == "the EU-Commission"
    assert join_lines(["Ein-", "und Ausgang"]) == "Ein- und Ausgang"
    assert join_lines(["yes -", "no"]) == "yes - no"
    assert join_lines([]) == ""


def test_what_opens_a_list_item_and_what_ends_a_sentence() -> None:
    assert all(starts_list_item(text) for text in ("• a", "- b", "1. c", "12) d", "(iv) e", "a) f"))
    assert not any(starts_list_item(text) for text in ("1.5 bar", "-5 degrees", "A. Smith wrote", "2024. gada", "word"))
    assert without_bullet("•  the lid") == "the lid"
    assert without_bullet("1. the lid") == "1. the lid"
    assert ends_sentence("It ends.”")
    assert not ends_sentence("Heading")


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), st.sampled_from([8, 10, 14]), st.integers(-1, 2)), min_size=1, max_size=5))
def test_the_shortcut_for_lines_one_below_the_other_gives_the_order_of_the_grouping(placed: list[tuple[int, int, int, int]]) -> None:
    lines = [Line(f"{i}", (x, y, x + 20, y + size), size, block=block) for i, (y, x, size, block) in enumerate(placed)]
    quick = [line.text for line in layout._by_blocks(lines)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_one_below_the_other", lambda lines: False)
        assert quick == [line.text for line in layout._by_blocks(lines)]
