"""A real S3 API server for tests, on loopback, in this process: it counts requests and can be told to fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

BUCKET = "evaluation"


@dataclass(frozen=True)
class Request:
    """One request as the server saw it; `key` is empty for a request about the bucket, such as a listing."""

    method: str
    key: str
    range: str


@dataclass
class ObjectStore:
    """Where the server is, what it was asked, and how it fails: `trouble` answers a request in the server's place, or returns None."""

    url: str
    requests: list[Request] = field(default_factory=list)
    trouble: Callable[[Request], int | None] = lambda request: None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def listings(self) -> list[Request]:
        return [r for r in self.requests if r.method == "GET" and not r.key]


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A server with one empty bucket, as long as the block runs; the buckets of a process are gone with it. Skips the test where its packages are not installed."""
    for package in ("s3fs", "moto", "flask", "flask_cors"):
        pytest.importorskip(package, reason=f"{package} is not installed; the lock has it")
    from moto.backends import get_backend
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, type: str, message: str, *args: Any) -> None: ...

    inner = DomainDispatcherApplication(create_backend_app)
    store = ObjectStore("")

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        parts = environ["PATH_INFO"].lstrip("/").split("/", 1)
        request = Request(environ["REQUEST_METHOD"], parts[1] if len(parts) > 1 else "", environ.get("HTTP_RANGE", ""))
        store.requests.append(request)
        status = store.trouble(request)
        if status is None:
            return inner(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(f"{status} Trouble", [("Content-Length", "0"), ("Connection", "close")])
        return []

    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    store.url = f"http://127.0.0.1:{server.server_port}"
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in store.environment.items():
                patch.setenv(name, value)
            import s3fs

            s3fs.S3FileSystem.clear_instance_cache()
            s3fs.S3FileSystem().mkdir(BUCKET)
            store.requests.clear()
            yield store
            s3fs.S3FileSystem.clear_instance_cache()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        get_backend("s3").reset()
