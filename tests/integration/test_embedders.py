"""Embedders as rows: a new one computes its own rows alone, and what is not there costs nothing that was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import duckdb
import pytest

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.resources.embedders import identity, unavailable
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import SyncReport, sync
from tests.integration.conftest import CHANGES
from tests.small import DOCUMENTS, write_settings

pytestmark = pytest.mark.skipif(unavailable("minilm") is not None, reason="the minilm extra is not installed")

WANTED = ("chunk_embeddings", "embedder_ranking")


def changed(folder: Folder, embedders: dict[str, Any], chunkings: Sequence[str] = ("whole",)) -> Folder:
    """The folder with these embedders beside the default one, each searched exactly."""
    retrievers = {name: {"kind": "dense", "embedder": name, "chunkings": list(chunkings)} for name in embedders}
    write_settings(
        folder.path,
        {**CHANGES, "embedders": {"minilm": {"kind": "minilm"}, **embedders}, "retrievers": {**CHANGES["retrievers"], **retrievers}},
    )
    return Folder(folder.path)


def computed(report: SyncReport, partition: str = "whole") -> int:
    assert report.failed == {}
    outcome = report.materialized.get(AssetPartition("chunk_embeddings", partition))
    return outcome.computed if outcome else 0


def rows(folder: Folder, partition: str = "whole") -> dict[tuple[str, str], tuple[Any, ...]]:
    (path,) = (folder.state / "tables" / "chunk_embeddings").rglob(f"{partition}.parquet")
    found = duckdb.sql(f"SELECT embedder, chunk_id, status, reason, detail, vector, tokens FROM read_parquet('{path}')").fetchall()
    return {(embedder, chunk): tuple(rest) for embedder, chunk, *rest in found}


def test_a_variant_is_one_more_embedder_over_the_same_chunks(synced: Folder) -> None:
    before = rows(synced)
    folder = changed(synced, {"titled": {"kind": "minilm", "context": "heading_path"}, "late": {"kind": "minilm", "pooling": "late"}})
    assert computed(sync(folder, select=WANTED)) == 2 * len(DOCUMENTS)
    after = rows(folder)
    assert {key: row for key, row in after.items() if key[0] == "minilm"} == before
    assert {row[0] for row in after.values()} == {"ok"}
    chunk = next(chunk for _, chunk in after if chunk.startswith("warranty.md"))
    vectors = {name: after[name, chunk][3] for name in ("minilm", "titled", "late")}
    assert len({tuple(vector) for vector in vectors.values()}) == 3
    assert after["titled", chunk][4] > after["minilm", chunk][4], "the headings are read too"


def test_batch_and_threads_embed_nothing_again(synced: Folder) -> None:
    write_settings(
        synced.path, {**CHANGES, "embedders": {"minilm": {"kind": "minilm", "batch": 3}}, "limits": {"workers": 1, "threads": 1}}
    )
    assert sync(Folder(synced.path)).runs == []


def test_one_pass_over_a_document_serves_every_late_chunking(synced: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_eval_assets.resources.embedders.minilm import MiniLm

    passes: list[int] = []
    run = MiniLm.token_vectors

    def counted(self: MiniLm, windows: Sequence[Sequence[int]]) -> list[Any]:
        passes.append(len(windows))
        return run(self, windows)

    monkeypatch.setattr(MiniLm, "token_vectors", counted)
    folder = changed(synced, {"late": {"kind": "minilm", "pooling": "late"}}, ("whole", "window-16-o0"))
    report = sync(folder, select=["chunk_embeddings"])
    assert computed(report, "window-16-o0") == len(rows(folder, "window-16-o0")) > len(DOCUMENTS)
    assert computed(report) == len(DOCUMENTS)
    assert sum(passes) == len(DOCUMENTS)


def test_an_edited_document_is_pooled_late_again_alone(synced: Folder) -> None:
    folder = changed(synced, {"late": {"kind": "minilm", "pooling": "late"}})
    sync(folder, select=["chunk_embeddings"])
    (folder.corpus / "warranty.md").write_text(DOCUMENTS["warranty.md"] + "\nThe switch is covered for one year.\n")
    assert computed(sync(folder, select=["chunk_embeddings"])) == 2  # one a document and embedder


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        data = [{"index": i, "embedding": [1.0, float(len(text))]} for i, text in enumerate(asked)]
        raw = json.dumps({"data": data, "usage": {"total_tokens": len(asked)}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


def test_a_key_that_is_away_costs_no_vector(synced: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    options = {"model": "m", "base_url": f"http://127.0.0.1:{server.server_port}/v1", "key_variable": "RAG_EVAL_TEST_KEY"}
    monkeypatch.delenv("RAG_EVAL_TEST_KEY", raising=False)
    folder = changed(synced, {"hosted": {"kind": "openai", **options}})
    assert computed(sync(folder, select=["chunk_embeddings"])) == 0
    without = [row for (name, _), row in rows(folder).items() if name == "hosted"]
    assert {row[:3] for row in without} == {("not_applicable", "no_embedder", "the environment variable RAG_EVAL_TEST_KEY holds no key")}
    monkeypatch.setenv("RAG_EVAL_TEST_KEY", "a key")
    assert computed(sync(folder, select=["chunk_embeddings"])) == len(DOCUMENTS)
    with_key = rows(folder)
    monkeypatch.delenv("RAG_EVAL_TEST_KEY")
    assert computed(sync(folder, select=["chunk_embeddings"])) == 0
    assert rows(folder) == with_key
    server.shutdown()
    server.server_close()
    assert "a key" not in identity("openai", **options)
