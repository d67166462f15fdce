"""What every strategy promises, whatever the text, the tokens and the elements."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion.chunking import STRATEGIES, Chunking, chunk_document
from ingestion.tokenizers import load_tokenizer

ALPHABET = "aB1 .,!?\n\n\t|-漢😀é\u200b"


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A text with elements over it that leave gaps, as cleaning writes them."""
    text, elements, path = "", [], []
    page = 1
    for order in range(draw(st.integers(0, 12))):
        text += draw(st.sampled_from(["", "\n\n", "\n", "  "]))
        body = draw(st.text(ALPHABET, max_size=60) | st.sampled_from(["A b. C d! E f?", "| a | b |\n| c | d |", "\U0001f6f8" * 9]))
        category = draw(st.sampled_from(["Title", "NarrativeText", "ListItem", "ListItem", "Table"]))
        page = draw(st.sampled_from([page, page + 1, None])) or page
        elements.append(
            {
                "order": order,
                "start": len(text),
                "end": len(text) + len(body),
                "category": category,
                "page": draw(st.sampled_from([page, None])),
                "heading_path": list(path),
                "html": None,
            }
        )
        if category == "Title":
            path = [*path[: draw(st.integers(0, 2))], body]
        text += body
    return {"doc_id": "a.txt", "text": text, "elements": elements}


@st.composite
def hostile_tokens(draw: st.DrawFn, length: int) -> np.ndarray:
    """Spans that obey the protocol and nothing more: gaps, and up to four tokens on one character."""
    spans, start = [], 0
    while start < length:
        end = draw(st.integers(start + 1, min(start + 9, length)))
        if draw(st.booleans()):
            spans += [[start, end]] * draw(st.integers(1, 4 if end == start + 1 else 1))
        start = end
    return np.array(spans, dtype=np.int32).reshape(-1, 2)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], np.ndarray, Chunking]:
    document = draw(documents())
    name = draw(st.sampled_from(["cl100k_base", "minilm", "hostile"]))
    tokens = draw(hostile_tokens(len(document["text"]))) if name == "hostile" else load_tokenizer(name).spans(document["text"])
    strategy = draw(st.sampled_from(sorted(STRATEGIES)))
    kind = STRATEGIES[strategy]
    size = draw(st.integers(8, 40)) if kind.sized else 0
    overlap = draw(st.integers(0, size - 1)) if kind.overlaps else 0
    parent = draw(st.integers(size + 1, 120)) if kind.parents else 0
    percentile = draw(st.integers(1, 99)) if kind.embeds else 0
    return document, tokens, Chunking(strategy, size, overlap, parent, percentile, "words" if kind.embeds else "")


def embed(texts: list[str]) -> np.ndarray:
    """A unit vector a text, drawn from its hash."""
    vectors = np.array([np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint8) for text in texts], dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@settings(deadline=None)
@given(case=cases())
def test_every_chunk_is_the_text_it_says_and_nothing_is_lost(case: tuple[dict[str, Any], np.ndarray, Chunking]) -> None:
    document, tokens, chunking = case
    text, size, overlap = document["text"], chunking.size, chunking.overlap
    rows = chunk_document(document, tokens, chunking, embed=embed)
    assert rows == chunk_document(document, tokens, chunking, embed=embed)

    covered = np.zeros(len(text), dtype=bool)
    for row in rows:
        assert row["text"] == text[row["start"] : row["end"]]
        assert row["text"].strip()
        assert row["text_sha256"] == hashlib.sha256(row["text"].encode()).hexdigest()
        assert row["chunk_id"] == f"a.txt#{row['start']}-{row['end']}"
        inside = [(s, e) for s, e in tokens.tolist() if s < row["end"] and e > row["start"]]
        assert row["tokens"] == len(inside)
        assert not size or row["tokens"] <= size
        covered[row["start"] : row["end"]] = True
    assert all(covered[i] or c.isspace() for i, c in enumerate(text))

    assert [row["ordinal"] for row in rows] == list(range(len(rows)))
    assert len({row["chunk_id"] for row in rows}) == len(rows)
    for before, after in itertools.pairwise(rows):
        assert before["start"] < after["start"]
        assert before["end"] < after["end"]
        shared = [(s, e) for s, e in tokens.tolist() if s < before["end"] and e > after["start"]]
        if after["start"] < before["end"]:
            assert len(shared) <= overlap
    assert_parents_hold_their_chunks(rows, tokens, chunking)


def assert_parents_hold_their_chunks(rows: list[dict[str, Any]], tokens: np.ndarray, chunking: Chunking) -> None:
    parents = [(row["parent_start"], row["parent_end"]) for row in rows]
    if not STRATEGIES[chunking.strategy].parents:
        assert set(parents) <= {(None, None)}
        return
    assert parents == sorted(parents)
    for row, (start, end) in zip(rows, parents, strict=True):
        assert start <= row["start"] < row["end"] <= end
        assert row["tokens"] <= row["parent_tokens"] <= chunking.parent
        assert row["parent_tokens"] == sum(s < end and e > start for s, e in tokens.tolist())
    for before, after in itertools.pairwise(sorted(set(parents))):
        assert before[1] <= after[0]


def of(strategy: str, size: int = 8) -> Chunking:
    """A chunking of each strategy."""
    kind = STRATEGIES[strategy]
    more = {"percentile": 50, "embedder": "words"} if kind.embeds else {}
    return Chunking(strategy, size if kind.sized else 0, parent=4 * size if kind.parents else 0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", " ", "\n\n \t"])
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_text_without_content_has_no_chunks(strategy: str, text: str) -> None:
    document = {"doc_id": "a", "text": text, "elements": []}
    tokens = load_tokenizer("cl100k_base").spans(text)
    assert chunk_document(document, tokens, of(strategy), embed=embed) == []


def test_section_and_page_are_those_of_the_first_element_in_the_chunk() -> None:
    text = "Guide\n\nIntro text.\n\nMore text."
    elements = [
        {"order": 0, "start": 0, "end": 5, "category": "Title", "page": 1, "heading_path": [], "html": None},
        {"order": 1, "start": 7, "end": 18, "category": "NarrativeText", "page": 1, "heading_path": ["Guide"], "html": None},
        {"order": 2, "start": 20, "end": 30, "category": "NarrativeText", "page": 2, "heading_path": ["Guide"], "html": None},
    ]
    tokens = load_tokenizer("cl100k_base").spans(text)
    rows = chunk_document({"doc_id": "a", "text": text, "elements": elements}, tokens, Chunking("page"))
    assert [(row["text"], row["section_path"], row["page"]) for row in rows] == [
        ("Guide\n\nIntro text.", [], 1),
        ("More text.", ["Guide"], 2),
    ]


@pytest.mark.parametrize(
    ("chunking", "message"),
    [
        (
            Chunking("cluster", 200),
            "no strategy 'cluster'; known: page, parent_child, recursive, semantic, sentence, structural, whole, window",
        ),
        (Chunking("window", 7), "window size 7 overlap 0: size at least 8, overlap below size"),
        (Chunking("window", 8, 8), "window size 8 overlap 8: size at least 8, overlap below size"),
        (Chunking("window", 8, -1), "window size 8 overlap -1"),
        (Chunking("structural", 64, 8), "strategy 'structural' takes no overlap"),
        (Chunking("parent_child", 64, 8, 128), "strategy 'parent_child' takes no overlap"),
        (Chunking("parent_child", 64), "strategy 'parent_child' needs parent"),
        (Chunking("parent_child", 64, parent=64), "parent_child size 64 parent 64: a parent is larger than its children"),
        (Chunking("recursive", 64, parent=128), "strategy 'recursive' takes no parent"),
        (Chunking("semantic", 64, percentile=95), "strategy 'semantic' needs embedder"),
        (Chunking("semantic", 64, percentile=100, embedder="minilm"), "semantic percentile 100: from 1 to 99"),
        (Chunking("semantic", 64, percentile=95, embedder="minilm"), "strategy 'semantic' needs an embedder"),
    ],
)
def test_parameters_a_strategy_cannot_take_are_refused(chunking: Chunking, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chunk_document({"doc_id": "a", "text": "x", "elements": []}, np.array([[0, 1]]), chunking)


def test_naming_the_strategies_loads_none_of_them() -> None:
    code = "import sys, ingestion.chunking as c; sys.exit(any(s.module in sys.modules for s in c.STRATEGIES.values()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("strategy", ["window", "recursive", "sentence", "structural", "semantic", "parent_child"])
def test_a_long_text_takes_seconds_whatever_stands_in_them(strategy: str) -> None:
    import time

    for unit in ("A sentence of words. ", "unbroken", "\n", "漢字", ". "):
        # A strategy that embeds has its hundred thousand sentences embedded by the test, which is not what is asked.
        text = unit * ((50_000 if STRATEGIES[strategy].embeds else 200_000) // len(unit))
        tokens = np.stack([np.arange(0, len(text) - 3, 4), np.arange(4, len(text) + 1, 4)], axis=1).astype(np.int32)
        begin = time.perf_counter()
        chunk_document({"doc_id": "a", "text": text, "elements": []}, tokens, of(strategy, 256), embed=embed)
        assert time.perf_counter() - begin < 4
