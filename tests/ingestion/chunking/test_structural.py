"""Structural chunking on hand-worked documents: what stays whole, what joins, what is cut where."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ingestion.chunking.structural import chunk


def document(*parts: tuple[str, str] | tuple[str, str, int]) -> tuple[str, list[dict[str, Any]]]:
    """Text and elements from (category, text) and ("Title", text, level), joined by blank lines."""
    text, elements = "", []
    path: list[str] = []
    for order, (category, body, *level) in enumerate(parts):
        if category == "Title":
            path = path[: level[0] - 1]
        start = len(text) + (2 if text else 0)
        text = f"{text}\n\n{body}" if text else body
        elements.append({"order": order, "start": start, "end": len(text), "category": category, "page": None, "heading_path": [*path]})
        if category == "Title":
            path = [*path, body]
    return text, elements


def cut(size: int, *parts: tuple[str, str] | tuple[str, str, int]) -> list[str]:
    """Chunks where a token is a word."""
    text, elements = document(*parts)
    words = np.array([m.span() for m in re.finditer(r"\S+", text)], dtype=np.int32).reshape(-1, 2)
    return [text[start:end] for start, end in chunk(text, elements, words, size, 0)]


def words(prefix: str, count: int) -> str:
    return " ".join(f"{prefix}{i}" for i in range(count))


def test_a_heading_starts_a_chunk() -> None:
    a, b = words("a", 6), words("b", 6)
    assert cut(10, ("Title", "A", 1), ("Text", a), ("Title", "B", 1), ("Text", b)) == [f"A\n\n{a}", f"B\n\n{b}"]


def test_small_sections_under_one_parent_share_a_chunk() -> None:
    assert cut(20, ("Title", "A", 1), ("Text", "a a"), ("Title", "B", 1), ("Text", "b b")) == ["A\n\na a\n\nB\n\nb b"]


def test_small_sections_under_different_parents_do_not_share_a_chunk() -> None:
    big = words("x", 15)
    found = cut(
        20,
        ("Title", "A", 1), ("Text", big),
        ("Title", "A.1", 2), ("Text", "small one of six words altogether"),
        ("Title", "B", 1), ("Text", "b b"),
    )  # fmt: skip
    assert found == [f"A\n\n{big}", "A.1\n\nsmall one of six words altogether", "B\n\nb b"]


def test_two_sections_of_half_a_chunk_each_stay_apart_though_they_fit() -> None:
    a, b = words("a", 9), words("b", 9)
    assert len(cut(20, ("Title", "A", 1), ("Text", a), ("Title", "B", 1), ("Text", b))) == 2


def test_a_heading_goes_with_its_subheading_and_never_stands_alone() -> None:
    body = words("a", 30)
    found = cut(12, ("Title", "Top", 1), ("Title", "Sub", 2), ("Text", body))
    assert found[0] == f"Top\n\nSub\n\n{words('a', 10)}"
    assert [len(piece.split()) for piece in found] == [12, 12, 8]


def test_a_table_that_fits_is_kept_whole_and_apart_from_a_text_that_does_not_fit_with_it() -> None:
    table = "\n".join(f"| r{i} | v{i} |" for i in range(2))  # 10 tokens
    before, after = words("b", 8), words("z", 8)
    found = cut(12, ("Title", "A", 1), ("Text", before), ("Table", table), ("Text", after))
    assert found == [f"A\n\n{before}", table, after]


def test_a_table_that_fills_a_chunk_leaves_its_heading() -> None:
    table = "\n".join(f"| r{i} | v{i} |" for i in range(2))
    assert cut(10, ("Title", "A", 1), ("Table", table)) == ["A", table]


def test_a_table_larger_than_a_chunk_is_cut_between_rows_and_keeps_its_heading_on_the_first() -> None:
    rows = [f"| r{i} | v{i} |" for i in range(5)]
    assert cut(12, ("Title", "A", 1), ("Table", "\n".join(rows))) == [
        "A\n\n" + "\n".join(rows[:2]),
        "\n".join(rows[2:4]),
        rows[4],
    ]


def test_a_list_is_kept_whole_while_it_fits_and_cut_between_items_when_not() -> None:
    items = [f"- item {i} here" for i in range(4)]  # 4 tokens each
    parts = [("ListItem", item) for item in items]
    before = words("b", 6)
    assert cut(16, ("Text", before), *parts) == [before, "\n\n".join(items)]
    assert cut(10, ("Text", before), *parts) == [before, "\n\n".join(items[:2]), "\n\n".join(items[2:])]


def test_a_document_without_elements_is_cut_like_text() -> None:
    assert cut(8) == []
    text = "a b c d e.\n\nf g h i j."
    tokens = np.array([m.span() for m in re.finditer(r"\S+", text)], dtype=np.int32)
    assert chunk(text, [], tokens, 8, 0) == [(0, 10), (12, 22)]
