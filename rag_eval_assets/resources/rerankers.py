"""Rerankers: cross-encoders, rerank services and functions of the user's own, behind one call that scores passages for a question.

What belongs here: opening a model or a service, and reading its reply strictly. What does not: which hits are reranked and what becomes
of their ranking (`retrieval.combined`). Keys come from the environment; settings name the variable.
"""

from __future__ import annotations

import importlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

ATTEMPTS = 3
BUSY = (429, 500, 502, 503, 504)


class UnusableReply(ValueError):
    """A service's reply that is not one finite relevance for each passage."""


@dataclass(frozen=True)
class CrossEncoder:
    """sentence-transformers' CrossEncoder from a path or hub name; scores are the model's own, unscaled."""

    model: Any
    batch: int

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        import torch

        # Without an activation named, the library squeezes scores into (0, 1), where float32 makes ties of the best.
        found = self.model.predict(
            [(query, passage) for passage in passages],
            batch_size=self.batch,
            show_progress_bar=False,
            activation_fn=torch.nn.Identity(),
        )
        return [float(score) for score in found]


@dataclass(frozen=True)
class Endpoint:
    """A service that takes {model, query, documents, top_n} and gives {results: [{index, relevance_score}]}, as Cohere's, Jina's, vLLM's
    and others' do. A busy answer (429, 5xx) is asked again, twice at most.
    """

    url: str
    model: str
    key: str | None
    seconds: float

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        body = {"model": self.model, "query": query, "documents": list(passages), "top_n": len(passages), "return_documents": False}
        headers = {"Content-Type": "application/json", "User-Agent": "rag-eval"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers, method="POST")
        return _scores_of(self._ask(request), len(passages))

    def _ask(self, request: urllib.request.Request) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with urllib.request.urlopen(request, timeout=self.seconds) as reply:
                    return json.loads(reply.read())
            except urllib.error.HTTPError as error:
                if error.code not in BUSY or attempt == ATTEMPTS:
                    raise ConnectionError(f"{self.url} answers {error.code} {error.reason}") from None
            except urllib.error.URLError as error:
                if isinstance(error.reason, TimeoutError):
                    raise TimeoutError(f"{self.url} gave no answer in {self.seconds:g} s") from None
                raise ConnectionError(f"{self.url}: {error.reason}") from None
            except json.JSONDecodeError as error:
                raise UnusableReply(f"{self.url} answers no JSON: {error}") from None
        raise AssertionError("every attempt returns or raises")


def _scores_of(reply: Any, passages: int) -> list[float]:
    results = reply.get("results") if isinstance(reply, Mapping) else None
    if not isinstance(results, list):
        raise UnusableReply("the reply holds no list 'results'")
    scores: dict[int, float] = {}
    for result in results:
        index, score = (result.get("index"), result.get("relevance_score")) if isinstance(result, Mapping) else (None, None)
        numbers = isinstance(index, int) and isinstance(score, int | float) and not isinstance(index, bool) and not isinstance(score, bool)
        if not numbers or not 0 <= index < passages or index in scores:
            raise UnusableReply(f"a result names passage {index!r} of {passages} with score {score!r}")
        scores[index] = float(score)
    if len(scores) != passages:
        raise UnusableReply(f"{len(scores)} of {passages} passages have a score")
    return [scores[at] for at in range(passages)]


@dataclass(frozen=True)
class Function:
    """The user's own module:function(query, passages) -> a number for each passage."""

    function: Any

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        return [float(score) for score in self.function(query, list(passages))]


def load_reranker(chosen: Mapping[str, Any]) -> CrossEncoder | Endpoint | Function | None:
    """The reranker that settings describe (fields of settings.Reranker); None where the library it needs is not installed.

    Raises LookupError for an environment variable that is not set, ImportError, AttributeError and TypeError for a function that is not
    there.
    """
    if chosen["kind"] == "endpoint":
        variable = chosen["key_variable"]
        if variable is not None and variable not in os.environ:
            raise LookupError(f"environment variable {variable} is not set; it holds the key of {chosen['url']}")
        key = os.environ[variable] if variable is not None else None
        return Endpoint(chosen["url"], chosen["model"], key, chosen["seconds"])
    if chosen["kind"] == "function":
        module, _, name = chosen["model"].partition(":")
        function = getattr(importlib.import_module(module), name)
        if not callable(function):
            raise TypeError(f"{chosen['model']} is no function")
        return Function(function)
    if find_spec("sentence_transformers") is None:
        return None
    import sentence_transformers

    return CrossEncoder(sentence_transformers.CrossEncoder(chosen["model"], device=chosen["device"]), chosen["batch"])
