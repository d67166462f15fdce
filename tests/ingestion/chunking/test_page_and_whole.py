"""One chunk a page, one chunk a document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingestion.chunking import page, whole

NONE = np.zeros((0, 2), dtype=np.int32)


def elements(text: str, pages: list[int | None]) -> list[dict[str, Any]]:
    """One element a line of the text."""
    found, start = [], 0
    for order, (line, number) in enumerate(zip(text.split("\n"), pages, strict=True)):
        found.append({"order": order, "start": start, "end": start + len(line), "page": number})
        start += len(line) + 1
    return found


@pytest.mark.parametrize(
    ("pages", "wanted"),
    [
        ([1, 1, 2, 3], ["a\nb", "c", "d"]),
        ([None, 1, None, 2], ["a\nb\nc", "d"]),
        ([None, None, None, None], ["a\nb\nc\nd"]),
        ([1, 2, 1, 1], ["a", "b", "c\nd"]),
    ],
)
def test_a_chunk_is_a_run_of_elements_on_one_page(pages: list[int | None], wanted: list[str]) -> None:
    text = "a\nb\nc\nd"
    assert [text[s:e] for s, e in page.chunk(text, elements(text, pages), NONE, 0, 0)] == wanted


def test_whole_is_the_canonical_text_unchanged() -> None:
    assert whole.chunk(" a\n", [], NONE, 0, 0) == [(0, 3)]
