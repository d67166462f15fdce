"""What a sweep over chunkings costs in tokenising."""

from __future__ import annotations

import pytest

from ingestion import tokenizers
from ingestion.recent import Recent
from rag_eval_assets.assets.chunks import cut
from tests.small import DOCUMENTS


def test_a_process_tokenises_each_document_once_for_all_chunkings(monkeypatch: pytest.MonkeyPatch) -> None:
    known, asked = tokenizers.load_tokenizer("cl100k_base"), []

    class Counting:
        def spans(self, text: str) -> tokenizers.Spans:
            asked.append(text)
            return known.spans(text)

    monkeypatch.setattr(tokenizers, "_cache", Recent(1_000_000))
    monkeypatch.setattr(tokenizers, "load_tokenizer", lambda name: Counting())
    for chunking in ("window-8-o0", "recursive-16-o4", "sentence-16-o0", "structural-32", "whole"):
        for name, text in DOCUMENTS.items():
            assert cut({"doc_id": name, "text": text, "text_sha256": name, "elements": []}, chunking, "cl100k_base")
    assert sorted(asked) == sorted(DOCUMENTS.values())
