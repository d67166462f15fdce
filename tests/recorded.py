"""A chat endpoint on the loopback that plays recorded replies and faults. It is no model, and no value it gives is a model's."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rag_eval_assets.resources.language_models import ChatModel, LanguageModel
from rag_eval_assets.resources.responses import ResponseStore


@dataclass(frozen=True)
class Play:
    """What one request gets. `raw` replaces the whole body; `wait` seconds pass before the first byte, `pause` between pieces of text;
    with `cut` the connection closes after the first piece."""

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    finish: str | None = "stop"
    model: str | None = None
    usage: tuple[int, int] | None = (100, 20)
    wait: float = 0.0
    pause: float = 0.0
    cut: bool = False


Script = Callable[[dict[str, Any], int], Play]


class RecordedEndpoint:
    """The running endpoint: what it was asked, in order, with headers, and how often a whole reply left it by last message."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.replied: dict[str, int] = {}
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.url = ""

    def text_of(self, body: Mapping[str, Any]) -> str:
        return str(body["messages"][-1]["content"])


def _chunk(body: Mapping[str, Any], model: str, **more: Any) -> bytes:
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'model': model, **more, **body})}\n\n".encode()


class _Handler(BaseHTTPRequestHandler):
    endpoint: RecordedEndpoint

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        own = self.endpoint
        with own.lock:
            number = len(own.asked)
            own.asked.append(body)
            own.headers.append({name.lower(): value for name, value in self.headers.items()})
            own.at_once += 1
            own.most_at_once = max(own.most_at_once, own.at_once)
        try:
            with contextlib.suppress(ConnectionError):
                self._play(own.script(body, number), body)
        finally:
            with own.lock:
                own.at_once -= 1

    def _play(self, play: Play, body: dict[str, Any]) -> None:
        time.sleep(play.wait)
        model = play.model or body["model"]
        usage = dict(zip(("prompt_tokens", "completion_tokens"), play.usage, strict=True)) if play.usage else None
        if play.raw is not None or play.status != 200 or not body.get("stream"):
            message = {"role": "assistant", "content": play.text}
            choice = {"index": 0, "message": message, "finish_reason": play.finish}
            whole = json.dumps({"object": "chat.completion", "model": model, "choices": [choice], "usage": usage}).encode()
            self._send(play, "application/json", whole if play.raw is None else play.raw)
        else:
            self._stream(play, model, usage)
        if play.status == 200 and not play.cut:
            with self.endpoint.lock:
                text = self.endpoint.text_of(body)
                self.endpoint.replied[text] = self.endpoint.replied.get(text, 0) + 1

    def _send(self, play: Play, kind: str, raw: bytes) -> None:
        self.send_response(play.status)
        for name, value in {"content-type": kind, "content-length": str(len(raw)), **play.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, play: Play, model: str, usage: Mapping[str, int] | None) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        half = max(1, len(play.text) // 2)
        self.wfile.write(_chunk({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}, model))
        for piece in (play.text[:half], play.text[half:]):
            self.wfile.write(_chunk({"choices": [{"index": 0, "delta": {"content": piece}}]}, model))
            self.wfile.flush()
            if play.cut:
                return
            time.sleep(play.pause)
        self.wfile.write(_chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": play.finish}]}, model))
        if usage:
            self.wfile.write(_chunk({"choices": [], "usage": usage}, model))
        self.wfile.write(b"data: [DONE]\n\n")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def recorded_endpoint(script: Script) -> Iterator[RecordedEndpoint]:
    """The endpoint, running while the block does."""
    own = RecordedEndpoint(script)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"endpoint": own}))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    own.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield own
    finally:
        server.shutdown()
        server.server_close()


def judge_model(endpoint: RecordedEndpoint, path: Path, **more: Any) -> LanguageModel:
    """A model at the endpoint with a store of its own, that waits for nothing."""
    chosen = ChatModel("recorded", endpoint.url, first_wait_seconds=0.001, longest_wait_seconds=0.05, deadline_seconds=20.0, attempts=3)
    return LanguageModel(replace(chosen, **more), ResponseStore(path / "responses.sqlite"))


def in_turn(*plays: Play | str) -> Script:
    """Each request the next play; the last one for all that follow."""
    return lambda body, number: _play_of(plays[min(number, len(plays) - 1)])


def _play_of(given: Play | str) -> Play:
    return Play(given) if isinstance(given, str) else given
