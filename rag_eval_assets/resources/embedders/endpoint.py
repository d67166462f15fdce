"""Any endpoint that speaks OpenAI's /embeddings: a hosted model, or a server of one's own.

What belongs here: requests with their bounds, and what a reply must hold to be believed. What does not: the key, which is read from
the environment when a request is made and stands in no identity, error or file.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import numpy as np

from rag_eval_assets.resources.embedders.protocol import EmbeddingFailed, Unavailable, Vectors, unit

LONGEST_WAIT = 30.0  # seconds between two tries, whatever the server asks for
_BACKOFF = 0.5  # seconds before the second try; doubled before each further one
_AGAIN = (408, 409, 429, 500, 502, 503, 504)


def identity(*, model: str, base_url: str, dimensions: int | None = None, **_: Any) -> str:
    """What is asked for, and of whom: what the server runs behind the model's name it alone knows."""
    return f"endpoint {base_url.rstrip('/')} model={model} dimensions={dimensions}"


def default_prefixes(**_: Any) -> tuple[str, str]:
    return "", ""


def unavailable(*, key_variable: str | None, **_: Any) -> Unavailable | None:
    """See `embedders.unavailable`."""
    if key_variable is None or os.environ.get(key_variable):
        return None
    return Unavailable("no_embedder", f"the environment variable {key_variable} holds no key")


def load(name: str, prefixes: tuple[str, str], *, batch: int, threads: int, **options: Any) -> EndpointEmbedder:
    """See `embedders.load_embedder`. `threads` means nothing here."""
    return EndpointEmbedder(name, prefixes, batch=batch, **options)


class EndpointEmbedder:
    """An `Embedder` over HTTP. `usage` counts the tokens the server says it read, by its own names."""

    def __init__(
        self,
        name: str,
        prefixes: tuple[str, str],
        *,
        batch: int,
        model: str,
        base_url: str,
        key_variable: str | None,
        dimensions: int | None,
        timeout_seconds: float,
        retries: int,
        **_: Any,
    ) -> None:
        self.name = name
        self.dimension = dimensions
        self.limit: int | None = None
        self.identity = identity(model=model, base_url=base_url, dimensions=dimensions)
        self.usage: dict[str, int] = {}
        self._prefixes = prefixes
        self._model, self._url, self._key_variable = model, base_url.rstrip("/") + "/embeddings", key_variable
        self._asked_for = dimensions
        self._batch, self._timeout, self._retries = batch, timeout_seconds, retries
        self._down: EmbeddingFailed | None = None

    def prefix(self, *, query: bool) -> str:
        """See `Embedder`."""
        return self._prefixes[not query]

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """See `Embedder`. After a lasting failure the server is asked no more."""
        prefix = self.prefix(query=query)
        parts = [self._request([prefix + text for text in texts[at : at + self._batch]]) for at in range(0, len(texts), self._batch)]
        if not parts:
            return np.empty((0, self.dimension or 0), dtype=np.float32)
        return np.concatenate(parts)

    def count_tokens(self, texts: Sequence[str]) -> None:
        """See `Embedder`: the server's tokenizer is not known."""
        return

    def _request(self, texts: Sequence[str]) -> Vectors:
        if self._down is not None:
            raise self._down
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._asked_for is not None:
            body["dimensions"] = self._asked_for
        try:
            vectors = self._read(self._send(json.dumps(body).encode()), len(texts))
        except EmbeddingFailed as error:
            if error.lasting:
                self._down = error
            raise
        self.dimension = vectors.shape[1]
        return vectors

    def _send(self, body: bytes) -> Any:
        """The reply's JSON. Tried again, at most `retries` times, where the server is busy, broken or silent."""
        headers = {"Content-Type": "application/json"}
        if self._key_variable is not None:
            headers["Authorization"] = f"Bearer {os.environ.get(self._key_variable, '')}"
        for attempt in range(self._retries + 1):
            wait = min(LONGEST_WAIT, _BACKOFF * 2**attempt)
            try:
                with urllib.request.urlopen(urllib.request.Request(self._url, body, headers), timeout=self._timeout) as reply:
                    return json.load(reply)
            except urllib.error.HTTPError as error:
                with error:
                    failed = self._refused(error)
                asked = error.headers.get("Retry-After", "")
                wait = min(LONGEST_WAIT, float(asked)) if asked.isdecimal() else wait
                if error.code not in _AGAIN:
                    raise failed from None
            except TimeoutError:
                failed = EmbeddingFailed("timeout", f"no reply within {self._timeout:g} s", lasting=True)
            except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
                cause = getattr(error, "reason", error)
                slow = isinstance(cause, TimeoutError)
                failed = EmbeddingFailed("timeout" if slow else "crashed", f"no reply: {type(cause).__name__}", lasting=True)
            if attempt < self._retries:
                time.sleep(wait)
        raise failed

    def _refused(self, error: urllib.error.HTTPError) -> EmbeddingFailed:
        """What an HTTP error says. The server's own words are left out: they may hold the text, or the key."""
        try:
            told = json.loads(error.read())["error"]
            named = [told.get(name) for name in ("code", "type")]
            code = next((f" ({name})" for name in named if isinstance(name, str) and name.isidentifier()), "")
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            code = ""
        of_this_text = error.code in (400, 413, 422)
        return EmbeddingFailed("crashed", f"HTTP {error.code}{code}", lasting=not of_this_text)

    def _read(self, reply: Any, count: int) -> Vectors:
        """Vectors of a reply in the order asked, at length 1. Raises EmbeddingFailed for a reply that is not one vector a text."""
        try:
            rows = {int(row["index"]): np.asarray(row["embedding"], dtype=np.float64) for row in reply["data"]}
            usage = {name: int(tokens) for name, tokens in (reply.get("usage") or {}).items() if isinstance(tokens, int)}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise EmbeddingFailed("crashed", f"the reply is no list of embeddings: {type(error).__name__}", lasting=True) from None
        for name, tokens in usage.items():
            self.usage[name] = self.usage.get(name, 0) + tokens
        if sorted(rows) != list(range(count)) or len(reply["data"]) != count:
            raise EmbeddingFailed("crashed", f"{count} texts were sent and vectors of {len(reply['data'])} came back", lasting=True)
        widths = {row.shape for row in rows.values()}
        wanted = self.dimension or rows[0].size
        if widths != {(wanted,)} or not wanted:
            raise EmbeddingFailed("crashed", f"vectors of {sorted(widths)} numbers where {wanted} are wanted", lasting=True)
        vectors = np.stack([rows[i] for i in range(count)])
        if not np.isfinite(vectors).all() or not np.linalg.norm(vectors, axis=1).all():
            raise EmbeddingFailed("non_finite_score", "a vector is zero or not finite", lasting=False)
        return unit(vectors)
