"""What every embedding model offers, how it fails, and how a file that ships inside a package is found and checked.

What belongs here: the protocol that callers write against. What does not: any one model, and what is kept of its vectors (`cached`).
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Spans = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]


class EmbedderError(RuntimeError):
    """A model that cannot be used as installed or as set: names what was expected, what was found, and the mend."""


class EmbeddingFailed(RuntimeError):
    """A text that a model would not embed. `reason` is from the closed list; `lasting` says that no other text will fare better now."""

    def __init__(self, reason: str, detail: str, *, lasting: bool) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.lasting = reason, detail, lasting


@dataclass(frozen=True)
class Context:
    """What stands before a chunk when it is embedded, empty for nothing, or why it could not be had; of one that a model wrote the
    tokens of prompt and reply and the cost, null where they are not known."""

    text: str = ""
    failure: EmbeddingFailed | None = None
    tokens: int | None = None
    cost: float | None = None


class Unavailable(NamedTuple):
    """Why an embedder is not there: a reason of the closed list, and the mend."""

    reason: str
    detail: str


class Embedder(Protocol):
    """A model that turns texts into unit vectors."""

    name: str
    dimension: int | None
    """Numbers in a vector; None where that is known only from the first one."""
    identity: str
    """Everything that shapes a vector besides the prefix: the model, hashes of its files, versions of the libraries, the limit."""
    limit: int | None
    """Tokens the model sees of a text, special tokens and prefix included; None where no end of a text is cut off, or nobody says."""

    def prefix(self, *, query: bool) -> str:
        """What the model wants before a query or a passage."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Float32 (len(texts), dimension), each row of length 1, the prefix put before each text.

        A row depends on its own text alone. Raises EmbeddingFailed where the model refuses.
        """

    def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """Tokens of each passage before truncation, special tokens and prefix included; None where the tokenizer is not known."""


class TokenEmbedder(Embedder, Protocol):
    """An embedder whose vector is the mean over the vectors of a text's tokens, and which gives those."""

    window: int
    """Tokens of a text that one forward pass sees at most, special tokens and prefix not counted."""

    def tokenize(self, text: str) -> tuple[list[int], Spans]:
        """Token ids of the whole text without special tokens, and each token's span [start, end) in characters, (n, 2)."""

    def token_vectors(self, windows: Sequence[Sequence[int]]) -> list[Vectors]:
        """One forward pass over runs of at most `window` token ids: (len(run), dimension) each, as the model leaves them."""


@dataclass(frozen=True)
class ModelFile:
    """A file inside an installed package, and the hash it must have."""

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


def unit(vectors: npt.NDArray[np.floating]) -> Vectors:
    """Rows (n, d) at length 1, float32."""
    made: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return made


def longest_first(lengths: Sequence[int], batch: int) -> list[list[int]]:
    """Positions in batches of like length, so that little padding is computed."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [order[start : start + batch] for start in range(0, len(order), batch)]
