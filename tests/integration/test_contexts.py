"""Contexts that a model writes: before the embedded text alone, paid for once, and a failed one is a chunk without a vector."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from rag_eval_assets.resources.embedders import load_embedder, unavailable
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import sync
from tests.integration.conftest import CHANGES
from tests.recorded import Play, RecordedEndpoint, recorded_endpoint
from tests.small import DOCUMENTS, write_settings

pytestmark = pytest.mark.skipif(unavailable("minilm") is not None, reason="the minilm extra is not installed")

WANTED = ["chunk_embeddings"]


def told(endpoint: RecordedEndpoint, body: dict[str, Any]) -> str:
    """The passage that a request is about."""
    return endpoint.text_of(body).partition(" 2>\n")[2].rpartition("\n</")[0]


def replies(body: dict[str, Any], number: int) -> Play:
    passage = body["messages"][1]["content"].rpartition(" 2>")[0]
    return Play(status=400) if "immerse" in passage.rpartition(" 2>\n")[2] else Play("About a kettle.\n")


def changed(folder: Folder, endpoint: RecordedEndpoint, model: dict[str, Any] | None = None, **more: Any) -> Folder:
    """The folder with a contextual embedder beside the default one, over whole documents."""
    embedders = {"minilm": {"kind": "minilm"}, "told": {"kind": "minilm", "context": "written", "context_model": "writer", **more}}
    retrievers = {**CHANGES["retrievers"], "told": {"kind": "dense", "embedder": "told", "chunkings": ["whole"]}}
    models = {"writer": {"base_url": endpoint.url, "model": "recorded", "attempts": 1, **(model or {})}}
    write_settings(folder.path, {**CHANGES, "models": models, "embedders": embedders, "retrievers": retrievers})
    return Folder(folder.path)


def rows(folder: Folder, embedder: str = "told") -> dict[str, dict[str, Any]]:
    """Rows by document; each is one chunk."""
    (path,) = (folder.state / "tables" / "chunk_embeddings").rglob("whole.parquet")
    found = duckdb.sql(f"SELECT * FROM read_parquet('{path}') WHERE embedder = '{embedder}'").to_arrow_table().to_pylist()
    return {row["chunk_id"].rpartition("#")[0]: row for row in found}


def test_a_context_stands_before_the_embedded_text_alone_and_is_paid_for_once(synced: Folder) -> None:
    with recorded_endpoint(replies) as endpoint:
        plain = rows(synced, "minilm")
        folder = changed(synced, endpoint)
        assert sync(folder, select=WANTED).failed == {}
        assert rows(folder, "minilm") == plain
        found = rows(folder)
        assert len(endpoint.asked) == len(found) == len(DOCUMENTS)
        failed = found.pop("safety.txt")
        assert (failed["status"], failed["reason"], failed["vector"], failed["context"]) == ("failed", "endpoint_failed", None, None)
        assert {(row["status"], row["context"], row["context_tokens"]) for row in found.values()} == {("ok", "About a kettle.", 120)}
        embedder = load_embedder("minilm", "minilm", batch=8, threads=1)
        assert embedder is not None
        # The chunk of this document is its whole text, which parsing leaves as the file has it.
        (vector,) = embedder.embed([f"About a kettle.\n{DOCUMENTS['shipping.md'].strip().removeprefix('# ')}"])
        assert np.dot(vector, found["shipping.md"]["vector"]) > 0.999
        assert {row["text_sha256"] for row in found.values()} < {row["text_sha256"] for row in plain.values()}
        # Nothing changed: the failed chunk alone is asked about again, when its partition runs.
        (folder.corpus / "warranty.md").write_text(DOCUMENTS["warranty.md"] + "\nThe switch is covered for one year.\n")
        assert sync(folder, select=WANTED).failed == {}
        again = [told(endpoint, body) for body in endpoint.asked[len(DOCUMENTS) :]]
        assert len(again) == 2
        assert any("The switch" in text for text in again)
        assert any("immerse" in text for text in again)
        # Another prompt is another context for every chunk.
        before = len(endpoint.asked)
        sync(changed(synced, endpoint, context_prompt="Name the subject."), select=WANTED)
        assert len(endpoint.asked) == before + len(DOCUMENTS)


def test_without_the_key_a_chunk_is_never_embedded_without_its_context(synced: Folder) -> None:
    with recorded_endpoint(replies) as endpoint:
        folder = changed(synced, endpoint, {"key_variable": "RAG_EVAL_TEST_ABSENT_KEY"})
        assert sync(folder, select=WANTED).failed == {}
        assert {(row["status"], row["reason"], row["vector"]) for row in rows(folder).values()} == {("failed", "no_key", None)}
        assert endpoint.asked == []
