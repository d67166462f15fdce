"""Any sentence-transformers model, by hub name or by path, on the CPU (extra `st`, which brings torch).

What belongs here: opening such a model, the prefixes that known ones want, and its token vectors. What does not: code that a
model's own repository brings, which is never run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from rag_eval_assets.resources.embedders.protocol import EmbedderError, Spans, Unavailable, Vectors, longest_first

# Part of a model's name -> what stands before a query and before a passage, by the models' cards.
_KNOWN_PREFIXES = {
    "multilingual-e5-large-instruct": ("Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ", ""),
    "e5-": ("query: ", "passage: "),
    "bge-m3": ("", ""),
    "bge-": ("Represent this sentence for searching relevant passages: ", ""),
    "nomic-embed": ("search_query: ", "search_document: "),
    "snowflake-arctic-embed-l-v2": ("query: ", ""),
    "snowflake-arctic-embed-m-v2": ("query: ", ""),
    "snowflake-arctic-embed": ("Represent this sentence for searching relevant passages: ", ""),
    "mxbai-embed": ("Represent this sentence for searching relevant passages: ", ""),
}
# These models number positions from behind the padding id, so that two rows of the table are never used.
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet")


def identity(*, model: str, revision: str | None = None, **_: Any) -> str:
    """The name with its revision, or the hash of all files of a folder; versions of the libraries. Stated without opening the model."""
    path = Path(model)
    named = f"files={_folder_sha256(_state(path))}" if path.is_dir() else f"{model}@{revision or 'latest'}"
    return " ".join([named, *(f"{name}={_installed(name)}" for name in ("sentence-transformers", "transformers", "tokenizers", "torch"))])


def default_prefixes(*, model: str, **_: Any) -> tuple[str, str]:
    """What the cards of known models want; nothing for others."""
    name = Path(model).name.lower() if Path(model).is_dir() else model.lower().rpartition("/")[2]
    return next((wanted for part, wanted in _KNOWN_PREFIXES.items() if part in name), ("", ""))


def unavailable(**_: Any) -> Unavailable | None:
    """See `embedders.unavailable`."""
    if importlib.util.find_spec("sentence_transformers") is not None:
        return None
    return Unavailable("not_installed", "the extra st (sentence-transformers) is not installed")


def load(
    name: str, prefixes: tuple[str, str], *, batch: int, threads: int, model: str, revision: str | None = None, **_: Any
) -> SentenceTransformerEmbedder:
    """See `embedders.load_embedder`; the library is there."""
    return SentenceTransformerEmbedder(name, model, revision, prefixes, batch=batch, threads=threads)


class SentenceTransformerEmbedder:
    """A `TokenEmbedder` where the model's vector is the mean over its tokens. Opened at first use in each process."""

    def __init__(self, name: str, model: str, revision: str | None, prefixes: tuple[str, str], *, batch: int, threads: int) -> None:
        self.name = name
        self.identity = identity(model=model, revision=revision)
        self._named, self._revision = model, revision
        self._prefixes = prefixes
        self._batch, self._threads = batch, threads
        self._model: Any = None
        self._model_pid = 0

    @property
    def dimension(self) -> int | None:
        """See `Embedder`; known once the model is open."""
        if self._model is None:
            return None
        named = ("get_embedding_dimension", "get_sentence_embedding_dimension")  # renamed in 6
        return int(next(getattr(self._model, name) for name in named if hasattr(self._model, name))())

    @property
    def limit(self) -> int | None:
        """See `Embedder`. Opens the model."""
        found = self._open().max_seq_length
        return int(found) if found else None

    def prefix(self, *, query: bool) -> str:
        """See `Embedder`."""
        return self._prefixes[not query]

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """See `Embedder`."""
        found: Vectors = self._open().encode(
            [self.prefix(query=query) + text for text in texts],
            prompt="",  # a prompt that the model's own settings name would come on top of the prefix
            batch_size=self._batch,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return found.astype(np.float32).reshape(len(texts), -1)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See `Embedder`."""
        tokenizer, prefix = self._open().tokenizer, self.prefix(query=False)
        return [len(tokenizer(prefix + text, truncation=False, verbose=False)["input_ids"]) for text in texts]

    @property
    def window(self) -> int:
        """See `TokenEmbedder`."""
        model, (before, after) = self._transformer(), self._frame()
        config, most = model.config, self._open().tokenizer.model_max_length
        unused = int(config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
        return min(most, int(config.max_position_embeddings) - unused) - len(before) - len(after)

    def tokenize(self, text: str) -> tuple[list[int], Spans]:
        """See `TokenEmbedder`."""
        found = self._open().tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
        return found["input_ids"], np.array(found["offset_mapping"], dtype=np.int64).reshape(-1, 2)

    def token_vectors(self, windows: Sequence[Sequence[int]]) -> list[Vectors]:
        """See `TokenEmbedder`."""
        import torch

        model, tokenizer, (before, after) = self._transformer(), self._open().tokenizer, self._frame()
        made: list[Vectors] = [np.empty((0, 0), dtype=np.float32)] * len(windows)
        for part in longest_first([len(window) for window in windows], self._batch):
            framed = [{"input_ids": [*before, *windows[i], *after]} for i in part]
            padded = tokenizer.pad(framed, return_tensors="pt")
            with torch.inference_mode():
                hidden = model(**padded).last_hidden_state.float().numpy()
            for row, i in zip(hidden, part, strict=True):
                made[i] = row[len(before) : len(before) + len(windows[i])]
        return made

    def _frame(self) -> tuple[list[int], list[int]]:
        """Ids that stand before and after a text: special tokens, and the prefix of a passage."""
        tokenizer = self._open().tokenizer
        probe = tokenizer("a", return_special_tokens_mask=True)
        ids, inner = probe["input_ids"], [at for at, special in enumerate(probe["special_tokens_mask"]) if not special]
        prefix = tokenizer(self.prefix(query=False), add_special_tokens=False)["input_ids"]
        return [*ids[: inner[0]], *prefix], ids[inner[-1] + 1 :]

    def _transformer(self) -> Any:
        """The model without its pooling. Raises EmbedderError where its vector is not the mean of what this gives."""
        modules = list(self._open())
        kinds = [type(module).__name__ for module in modules]
        pooling = modules[1].get_config_dict() if len(modules) > 1 and kinds[1] == "Pooling" else {}
        mean = pooling.get("pooling_mode") == "mean" or pooling.get("pooling_mode_mean_tokens") is True
        if kinds[0] != "Transformer" or not mean or any(kind != "Normalize" for kind in kinds[2:]):
            raise EmbedderError(
                f"embedder {self.name!r}: {self._named} does not average its tokens ({', '.join(kinds)}), and late chunking does: "
                "use 'pooling: chunk' or another model"
            )
        return modules[0].auto_model

    def _open(self) -> Any:
        if self._model is None or self._model_pid != os.getpid():
            import torch
            from sentence_transformers import SentenceTransformer

            torch.set_num_threads(self._threads)
            self._model = SentenceTransformer(self._named, revision=self._revision, device="cpu", trust_remote_code=False)
            self._model_pid = os.getpid()
        return self._model


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Each file of a folder with its size and time of change: while they stand, so do the contents."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return (*((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files), (str(folder), 0, 0))


@lru_cache(maxsize=8)
def _folder_sha256(state: tuple[tuple[str, int, int], ...]) -> str:
    folder, found = Path(state[-1][0]), hashlib.sha256()
    for name, _, _ in state[:-1]:
        path = Path(name)
        with path.open("rb") as file:
            found.update(f"{path.relative_to(folder).as_posix()}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\0".encode())
    return found.hexdigest()
