"""Sentences packed, breaks between subjects, and children inside parents, on hand-worked texts where a token is a word."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ingestion.chunking import Chunking, chunk_document, semantic, sentence


def words(text: str) -> np.ndarray:
    return np.array([m.span() for m in re.finditer(r"\S+", text)], dtype=np.int32).reshape(-1, 2)


def packed(text: str, size: int, overlap: int = 0, elements: list[dict[str, Any]] | None = None) -> list[str]:
    return [text[a:b] for a, b in sentence.chunk(text, elements or [], words(text), size, overlap)]


def test_whole_sentences_are_packed_over_paragraphs() -> None:
    assert packed("A b cc. D e f gg.\n\nH ii. J k l m n o pp.", 9) == ["A b cc. D e f gg.\n\nH ii.", "J k l m n o pp."]


def test_overlap_repeats_whole_sentences_only() -> None:
    text = "A1 a2 a3. B1 b2. C1 c2 c3. D1 d2. E1 e2 e3."
    assert packed(text, 8, overlap=4) == ["A1 a2 a3. B1 b2. C1 c2 c3.", "C1 c2 c3. D1 d2. E1 e2 e3."]
    assert packed(text, 8, overlap=2) == ["A1 a2 a3. B1 b2. C1 c2 c3.", "D1 d2. E1 e2 e3."]


def test_a_sentence_over_the_size_is_cut_at_words() -> None:
    assert packed("One two. A b c d e f g h i j kk. End.", 8) == ["One two.", "A b c d e f g h", "i j kk.", "End."]


def test_a_heading_and_the_rows_of_a_table_are_units_though_no_mark_ends_them() -> None:
    text = "Heading of four words\nBody text here. More\n| a | b |\n| c | d |"
    at = text.index("|")
    elements = [
        {"order": 0, "start": 0, "end": 21, "category": "Title"},
        {"order": 1, "start": 22, "end": at - 1, "category": "NarrativeText"},
        {"order": 2, "start": at, "end": len(text), "category": "Table"},
    ]
    starts = sentence.unit_starts(text, elements)
    assert [text[a:b].strip() for a, b in zip([0, *starts], [*starts, len(text)], strict=True)] == [
        "Heading of four words", "Body text here.", "More", "| a | b |", "| c | d |",
    ]  # fmt: skip


SUBJECTS = "Cats purr. Cats sleep. Cats eat. Cats play. Tax is due. Tax is paid. Tax is law. Tax is old."


def by_subject(texts: list[str]) -> np.ndarray:
    return np.array([[1, 0] if text.startswith("Cats") else [0, 1] for text in texts], dtype=np.float32)


def test_the_text_is_broken_where_the_subject_changes() -> None:
    rows = chunk_document(
        {"doc_id": "a", "text": SUBJECTS, "elements": []},
        words(SUBJECTS),
        Chunking("semantic", 64, percentile=80, embedder="e"),
        embed=by_subject,
    )
    assert [row["text"] for row in rows] == [SUBJECTS[: SUBJECTS.index("Tax") - 1], SUBJECTS[SUBJECTS.index("Tax") :]]


def test_what_stands_between_two_breaks_is_cut_at_sentences_where_it_is_too_long() -> None:
    spans = semantic.chunk(SUBJECTS, [], words(SUBJECTS), 8, percentile=80, embed=by_subject)
    assert [SUBJECTS[a:b] for a, b in spans] == [
        "Cats purr. Cats sleep. Cats eat. Cats play.",
        "Tax is due. Tax is paid.",
        "Tax is law. Tax is old.",
    ]


def test_distances_are_those_of_the_mean_vectors_of_three_sentences_on_each_side() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [0, 1]], dtype=np.float32)
    # Sums on both sides of each place: (1,0)|(1,2), (1,1)|(1,2), (2,1)|(0,2), (1,2)|(0,1); so .553, .051, .553, .106.
    assert semantic.breaks(vectors, 75) == [1]
    assert semantic.breaks(vectors, 50) == [1, 3]
    assert semantic.breaks(vectors, 25) == [1, 3, 4]
    assert semantic.breaks(vectors, 99) == []


def test_last_bits_of_a_vector_move_no_cut() -> None:
    vectors = np.tile(np.array([[1, 0], [0, 1]], dtype=np.float32), (20, 1))
    noise = np.random.default_rng(3).normal(0, 1e-6, vectors.shape).astype(np.float32)
    assert semantic.breaks(vectors + noise, 90) == semantic.breaks(vectors, 90)


def test_a_vector_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        semantic.chunk("Aa bb. Cc dd.", [], words("Aa bb. Cc dd."), 8, percentile=50, embed=lambda texts: np.full((len(texts), 2), np.nan))


def test_children_keep_to_their_parent_and_carry_its_span() -> None:
    text = "a b c d e f. g h i j k l.\n\nm n o p q r. s t u v w x."
    rows = chunk_document({"doc_id": "a", "text": text, "elements": []}, words(text), Chunking("parent_child", 8, parent=12))
    assert [(row["text"], text[row["parent_start"] : row["parent_end"]], row["parent_tokens"]) for row in rows] == [
        ("a b c d e f.", "a b c d e f. g h i j k l.", 12),
        ("g h i j k l.", "a b c d e f. g h i j k l.", 12),
        ("m n o p q r.", "m n o p q r. s t u v w x.", 12),
        ("s t u v w x.", "m n o p q r. s t u v w x.", 12),
    ]
