"""Recursive splitting on hand-worked texts; the published figures stand in tests/scoring/test_chunk_quality.py."""

from __future__ import annotations

import re

import numpy as np

from ingestion.chunking.recursive import chunk


def cut(text: str, size: int, overlap: int = 0) -> list[str]:
    """Chunks where a token is a word."""
    words = np.array([m.span() for m in re.finditer(r"\S+", text)], dtype=np.int32).reshape(-1, 2)
    return [text[start:end] for start, end in chunk(text, [], words, size, overlap)]


def test_paragraphs_are_packed_while_they_fit() -> None:
    assert cut("a b c\n\nd e f\n\ng h i", 8) == ["a b c\n\nd e f", "g h i"]


def test_a_paragraph_that_is_too_long_is_cut_by_itself_at_lines_then_sentences_then_words() -> None:
    long = "one two three.\nfour five six. Seven eight nine ten eleven twelve. Thirteen"
    assert cut(f"a b\n\n{long}\n\ny z", 8) == [
        "a b",
        "one two three.",
        "four five six.",
        "Seven eight nine ten eleven twelve. Thirteen",
        "y z",
    ]
    assert cut("a b c d e f g h i j", 8) == ["a b c d e f g h", "i j"]


def test_a_number_with_a_point_or_a_file_name_is_no_sentence_end() -> None:
    assert cut("use 3.5 or v1.2.3 of tool.py now. Then stop it there", 8) == [
        "use 3.5 or v1.2.3 of tool.py now.",
        "Then stop it there",
    ]


def test_overlap_repeats_the_whole_pieces_that_fit_in_it() -> None:
    text = "\n\n".join(["a1 a2", "b1 b2 b3", "c1 c2", "d1 d2 d3", "e1"])
    assert cut(text, 8, overlap=4) == ["a1 a2\n\nb1 b2 b3\n\nc1 c2", "c1 c2\n\nd1 d2 d3\n\ne1"]


def test_overlap_gives_way_to_the_next_piece() -> None:
    assert cut("a1 a2 a3\n\nb1 b2\n\nc1 c2 c3 c4 c5 c6 c7", 8, overlap=5) == ["a1 a2 a3\n\nb1 b2", "c1 c2 c3 c4 c5 c6 c7"]


def test_words_overlap_in_tokens() -> None:
    assert cut("a b c d e f g h i j k l", 8, overlap=3) == ["a b c d e f g h", "f g h i j k l"]


def test_a_word_longer_than_the_size_is_cut_at_tokens() -> None:
    text = "x" * 40
    tokens = np.stack([np.arange(0, 40, 2), np.arange(2, 41, 2)], axis=1).astype(np.int32)
    assert chunk(text, [], tokens, 8, 0) == [(0, 16), (16, 32), (32, 40)]


def test_chinese_text_without_spaces_is_cut_at_its_own_full_stops() -> None:
    text = "一二三四五。六七八。九十"
    tokens = np.stack([np.arange(len(text)), np.arange(len(text)) + 1], axis=1).astype(np.int32)
    assert [text[a:b] for a, b in chunk(text, [], tokens, 8, 0)] == ["一二三四五。", "六七八。九十"]
