"""Rerankers open from settings, and a service's reply is taken only where it is one finite number for each passage."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from rag_eval_assets.resources.rerankers import Endpoint, Function, UnusableReply, load_reranker
from rag_eval_assets.settings import Reranker


class Service:
    """A local service that answers what it is told and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[dict[str, Any], str | None]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.asked.append((body, self.headers["Authorization"]))
                code, reply = service.answers.pop(0)
                self.send_response(code)
                self.end_headers()
                self.wfile.write(reply if isinstance(reply, bytes) else json.dumps(reply).encode())

            def log_message(self, *told: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/rerank"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.server.shutdown()
    running.server.server_close()


def results(*scores: tuple[int, float]) -> dict[str, Any]:
    return {"results": [{"index": index, "relevance_score": score} for index, score in scores]}


def opened(service: Service, **more: Any) -> Any:
    return load_reranker(Reranker(kind="endpoint", model="m", url=service.url, **more).model_dump())


def test_scores_come_back_in_the_order_of_the_passages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "sesame")
    service.answers = [(200, results((1, 0.9), (0, -0.5)))]
    assert opened(service, key_variable="A_KEY").score("why?", ["a", "b"]) == [-0.5, 0.9]
    ((body, key),) = service.asked
    assert (body["model"], body["query"], body["documents"], body["top_n"], key) == ("m", "why?", ["a", "b"], 2, "Bearer sesame")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (results((0, 1.0)), "1 of 2 passages have a score"),
        (results((0, 1.0), (0, 2.0)), "names passage 0 of 2"),
        (results((0, 1.0), (2, 2.0)), "names passage 2 of 2"),
        ({"results": [{"index": 0, "relevance_score": "high"}]}, "score 'high'"),
        ({"data": []}, "no list 'results'"),
        (b"<html>", "answers no JSON"),
    ],
)
def test_a_reply_that_is_not_one_number_a_passage_is_refused(service: Service, reply: Any, told: str) -> None:
    service.answers = [(200, reply)]
    with pytest.raises(UnusableReply, match=told):
        opened(service).score("q", ["a", "b"])


def test_a_busy_service_is_asked_again_and_a_refusal_is_not(service: Service) -> None:
    service.answers = [(429, {}), (503, {}), (200, results((0, 1.0)))]
    assert opened(service).score("q", ["a"]) == [1.0]
    service.answers = [(401, {})]
    with pytest.raises(ConnectionError, match="answers 401"):
        opened(service).score("q", ["a"])
    service.answers = [(500, {})] * 3
    with pytest.raises(ConnectionError, match="answers 500"):
        opened(service).score("q", ["a"])


def test_a_key_that_is_not_set_is_named_and_never_guessed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_KEY", raising=False)
    with pytest.raises(LookupError, match="A_KEY is not set"):
        opened(service, key_variable="A_KEY")
    assert isinstance(opened(service), Endpoint)


def test_a_function_of_the_users_own_is_called_with_question_and_passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_reranker.py").write_text("def by_length(query, passages):\n    return [len(p) for p in passages]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = load_reranker(Reranker(kind="function", model="own_reranker:by_length", version="1").model_dump())
    assert isinstance(found, Function)
    assert found.score("q", ["aa", "b"]) == [2.0, 1.0]
    sys.modules.pop("own_reranker")


def test_a_cross_encoder_without_its_library_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_eval_assets.resources.rerankers.find_spec", lambda name: None)
    assert load_reranker(Reranker(kind="cross_encoder", model="some/model").model_dump()) is None
