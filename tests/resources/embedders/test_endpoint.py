"""An endpoint's vectors are believed only where they are what was asked for, and its failures are bounded and told."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from rag_eval_assets.resources.embedders import EmbeddingFailed, embed_texts, identity, load_embedder, unavailable
from rag_eval_assets.resources.embedders.endpoint import EndpointEmbedder

Reply = tuple[int, dict[str, str], Any]


def _vector(text: str, width: int = 4) -> list[float]:
    return [float(byte) + 1 for byte in hashlib.sha256(text.encode()).digest()[:width]]


def _answer(body: dict[str, Any]) -> Reply:
    data = [{"index": i, "embedding": _vector(text, body.get("dimensions", 4))} for i, text in enumerate(body["input"])]
    tokens = sum(len(text.split()) for text in body["input"])
    return 200, {}, {"data": data[::-1], "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


class Server:
    """A local /v1/embeddings that answers as told and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, dict[str, Any]]] = []
        self.answer: Callable[[dict[str, Any]], Reply] = _answer
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append((self.path, self.headers["Authorization"], body))
                status, headers, reply = server.answer(body)
                raw = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(raw))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def _open(server: Server, **options: Any) -> EndpointEmbedder:
    chosen = {"model": "m", "base_url": server.url, "key_variable": None, "dimensions": None, "timeout_seconds": 5, "retries": 2}
    made = load_embedder("e", "openai", batch=2, threads=1, **{**chosen, **options})
    assert isinstance(made, EndpointEmbedder)
    return made


def test_texts_are_sent_in_batches_and_vectors_come_back_in_order_at_length_one(server: Server) -> None:
    embedder = _open(server)
    vectors = embedder.embed(["a b", "c", "d"])
    raw = np.array([_vector(text) for text in ("a b", "c", "d")])
    assert vectors == pytest.approx(raw / np.linalg.norm(raw, axis=1, keepdims=True), abs=1e-6)
    assert vectors.dtype == np.float32
    assert [body["input"] for _, _, body in server.asked] == [["a b", "c"], ["d"]]
    assert {path for path, _, _ in server.asked} == {"/v1/embeddings"}
    assert all((body["model"], "dimensions" in body) == ("m", False) for _, _, body in server.asked)
    assert embedder.usage == {"prompt_tokens": 4, "total_tokens": 4}
    assert (embedder.dimension, embedder.count_tokens(["a"]), embedder.limit) == (4, None, None)


def test_prefixes_and_dimensions_are_sent(server: Server) -> None:
    embedder = _open(server, dimensions=2, query_prefix="q: ", passage_prefix="p: ")
    assert embedder.embed(["a"], query=True).shape == (1, 2)
    embedder.embed(["a"])
    assert [(body["input"], body["dimensions"]) for _, _, body in server.asked] == [(["q: a"], 2), (["p: a"], 2)]


def test_the_key_comes_from_the_named_variable_and_stands_nowhere_else(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    options = {"model": "m", "base_url": server.url, "key_variable": "SOME_KEY"}
    assert unavailable("openai", **options) == ("no_embedder", "the environment variable SOME_KEY holds no key")
    assert load_embedder("e", "openai", batch=1, threads=1, **options) is None
    monkeypatch.setenv("SOME_KEY", "secret-1")
    server.answer = lambda body: (401, {}, {"error": {"code": "invalid_api_key", "message": "secret-1 is wrong for text zebra"}})
    embedder = _open(server, key_variable="SOME_KEY")
    with pytest.raises(EmbeddingFailed) as failed:
        embedder.embed(["zebra"])
    assert server.asked[0][1] == "Bearer secret-1"
    assert str(failed.value) == "HTTP 401 (invalid_api_key)"
    assert "secret" not in embedder.identity


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_or_broken_server_is_asked_again(server: Server, status: int) -> None:
    server.answer = lambda body: (status, {"Retry-After": "0"}, {}) if len(server.asked) < 3 else _answer(body)
    assert _open(server).embed(["a"]).shape == (1, 4)
    assert len(server.asked) == 3


def test_tries_are_bounded_and_a_server_that_is_down_is_asked_no_more(server: Server) -> None:
    server.answer = lambda body: (503, {"Retry-After": "0"}, {})
    embedder, failures = _open(server), {}
    vectors = embed_texts([f"text {i}" for i in range(200)], embedder, None, failures=failures)
    assert len(server.asked) == 3
    assert (vectors.shape, len(failures)) == ((200, 0), 200)
    assert {(failed.reason, failed.detail) for failed in failures.values()} == {("crashed", "HTTP 503")}


def test_a_silent_server_is_a_timeout(server: Server) -> None:
    stop = threading.Event()
    server.answer = lambda body: (stop.wait(5), _answer(body))[1]
    with pytest.raises(EmbeddingFailed, match=r"no reply within 0\.05 s") as failed:
        _open(server, timeout_seconds=0.05, retries=0).embed(["a"])
    stop.set()
    assert failed.value.reason == "timeout"


def test_a_server_that_is_not_there_fails_typed() -> None:
    closed = Server()
    closed.close()
    with pytest.raises(EmbeddingFailed, match="no reply: ConnectionRefusedError"):
        _open(closed, retries=0).embed(["a"])


def test_a_text_the_server_refuses_fails_alone(server: Server) -> None:
    server.answer = lambda body: (400, {}, {"error": {"type": "too_long"}}) if "long" in body["input"] else _answer(body)
    failures: dict[str, EmbeddingFailed] = {}
    vectors = embed_texts(["a", "long", "b"], _open(server), None, failures=failures)
    assert np.isfinite(vectors).all(axis=1).tolist() == [True, False, True]
    assert [(text, failed.detail) for text, failed in failures.items()] == [("long", "HTTP 400 (too_long)")]


def _with(**change: Any) -> Callable[[dict[str, Any]], Reply]:
    return lambda body: (200, {}, {"data": [{"index": 0, "embedding": [1.0, 2.0], **change}]})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda body: (200, {}, {"data": []}), "1 texts were sent and vectors of 0 came back"),
        (lambda body: (200, {}, {"data": [{"index": 0, "embedding": [1.0]}] * 2}), "1 texts were sent and vectors of 2 came back"),
        (_with(index=1), "1 texts were sent and vectors of 1 came back"),
        (_with(embedding=[]), "vectors of"),
        (_with(embedding=[[1.0]]), "vectors of"),
        (_with(embedding="AAAA"), "no list of embeddings"),
        (_with(embedding=[0.0, 0.0]), "zero or not finite"),
        (lambda body: (200, {}, b'{"data": [{"index": 0, "embedding": [NaN, 1.0]}]}'), "zero or not finite"),
        (lambda body: (200, {}, {"error": "no"}), "no list of embeddings"),
        (lambda body: (200, {}, b"<html>"), "no reply: JSONDecodeError"),
        (lambda body: (200, {}, b"[" * 100_000), "no reply: RecursionError"),
        (lambda body: (200, {}, b'{"data": [{"index": Infinity, "embedding": [1.0]}]}'), "no list of embeddings: OverflowError"),
        (_with(embedding=[10**400]), "no list of embeddings: OverflowError"),
    ],
)
def test_a_reply_that_is_not_one_vector_a_text_is_refused(server: Server, answer: Callable[[Any], Reply], told: str) -> None:
    server.answer = answer
    with pytest.raises(EmbeddingFailed, match=told):
        _open(server, retries=0).embed(["a"])


def test_a_server_that_changes_its_width_is_refused(server: Server) -> None:
    embedder = _open(server)
    embedder.embed(["a"])
    server.answer = _with()
    with pytest.raises(EmbeddingFailed, match="where 4 are wanted"):
        embedder.embed(["b"])


def test_the_identity_names_endpoint_model_and_dimensions_and_nothing_that_shapes_no_vector() -> None:
    one = identity("openai", model="m", base_url="http://h/v1/", dimensions=3, timeout_seconds=1, retries=1, key_variable="A")
    assert one == identity("openai", model="m", base_url="http://h/v1", dimensions=3, timeout_seconds=9, retries=4, key_variable="B")
    assert one == "endpoint http://h/v1 model=m dimensions=3"
