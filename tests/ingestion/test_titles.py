from __future__ import annotations

import pytest

from ingestion.titles import find_title

HEADING = {"category": "Title", "text": "Returns\n policy"}
PARAGRAPH = {"category": "NarrativeText", "text": "\n  A customer may return\nthe product."}


@pytest.mark.parametrize(
    ("declared", "elements", "title"),
    [
        (" Returns  2024 ", [HEADING], "Returns 2024"),
        (None, [PARAGRAPH, HEADING], "Returns policy"),
        ("  ", [PARAGRAPH, {"category": "Title", "text": " "}], "A customer may return"),
        (None, [{"category": "Table", "text": "\n"}], None),
        (None, [], None),
    ],
)
def test_the_title_is_the_declared_one_else_the_first_heading_else_the_first_line(declared, elements, title) -> None:  # type: ignore[no-untyped-def]
    assert find_title(declared, elements) == title


def test_a_long_first_line_is_cut_at_a_word() -> None:
    title = find_title(None, [{"category": "NarrativeText", "text": "eleven char " * 40}])
    assert title is not None
    assert 180 < len(title) <= 200
    assert title.endswith(("eleven", "char"))
    assert find_title("x" * 300, []) == "x" * 200
