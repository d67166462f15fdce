"""What a model is shown when it writes a chunk's context: the document or the part around the chunk, and the chunk, between fences."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.resources.embedders.written_context import PROMPT, messages, read


def shown(document: str, start: int, end: int, window: int) -> tuple[str, str]:
    """The part of the document and the passage, as they stand between their lines."""
    _, user = messages(document, start, end, prompt=PROMPT, window=window)
    found = re.fullmatch(r"<(text-[0-9a-f]{12}) 1>\n(.*)\n</\1 1>\n\n<\1 2>\n(.*)\n</\1 2>", user["content"], re.DOTALL)
    assert found is not None
    return found[2], found[3]


@given(st.integers(1, 400), st.integers(1, 120), st.data())
def test_the_part_holds_the_passage_and_is_as_long_as_document_and_window_allow(length: int, window: int, data: st.DataObject) -> None:
    document = "".join(chr(97 + at % 26) for at in range(length))
    start = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(start + 1, length))
    part, passage = shown(document, start, end, window)
    assert passage == document[start:end]
    assert passage in part
    assert part in document
    assert min(length, window) <= len(part) <= max(window, 0) + (end - start)


def test_a_short_document_is_shown_whole_and_the_same_for_every_passage() -> None:
    document = "One. Two. Three."
    asked = [messages(document, *span, prompt=PROMPT, window=1_000) for span in ((0, 4), (5, 9))]
    assert shown(document, 0, 4, 1_000) == (document, "One.")
    assert asked[0][0] == asked[1][0]
    assert asked[0][1]["content"].split("\n\n")[0] == asked[1][1]["content"].split("\n\n")[0]


def test_a_long_document_is_shown_around_the_passage() -> None:
    document = "a" * 100 + "PASSAGE" + "b" * 100
    assert shown(document, 100, 107, 27) == ("a" * 10 + "PASSAGE" + "b" * 10, "PASSAGE")
    assert shown(document, 0, 3, 9) == ("a" * 9, "aaa")


@pytest.mark.parametrize(("reply", "text"), [(" A kettle.\n\nReturns. ", "A kettle. Returns."), (" \n", None), ("", None)])
def test_a_reply_is_one_line_and_a_blank_one_is_none(reply: str, text: str | None) -> None:
    assert read(reply) == text
