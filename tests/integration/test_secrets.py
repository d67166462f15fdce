"""A key planted in the environment stands in nothing that a sync writes, prints or keeps, whatever the endpoint echoes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_eval_assets.graph import Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue
from tests.command import rag_eval, rag_eval_process
from tests.integration.conftest import CHANGES
from tests.recorded import Play, RecordedEndpoint, recorded_endpoint
from tests.small import SETTINGS, write_settings

CANARY = "sk-canary-7f3a91c2e8d04b56"
PIECES = ("canary-7f3a91c2", "7f3a91c2e8d04b56")
"""Parts of the key that a cut or masked message may not show either."""


def echoing(body: dict[str, Any], number: int) -> Play:
    """Replies, refusals and faults that all hold the key they were sent."""
    plays = [
        Play(f"The key is {CANARY} [1]."),
        Play(status=401, raw=f"Incorrect API key provided: {CANARY}".encode()),
        Play(status=500, raw=f"trace: Authorization: Bearer {CANARY}".encode()),
        Play(raw=json.dumps({"error": {"message": f"bad key {CANARY}"}}).encode()),
    ]
    return plays[number % len(plays)]


@pytest.fixture
def endpoint() -> Iterator[RecordedEndpoint]:
    with recorded_endpoint(echoing) as running:
        yield running


def test_a_planted_key_is_in_no_table_database_log_report_or_output(
    synced: Folder, endpoint: RecordedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"base_url": endpoint.url, "model": "recorded", "key_variable": "RAG_EVAL_CANARY", "attempts": 2, "longest_wait_seconds": 0.1}
    first = SETTINGS["systems"]["first"]
    systems = {"first": first, "chat": {**first, "reader": {"kind": "chat", "model": "m"}}}
    write_settings(synced.path, {**CHANGES, "models": {"m": chosen}, "systems": systems})
    folder = Folder(synced.path)
    monkeypatch.setenv("RAG_EVAL_CANARY", CANARY)
    told = rag_eval_process(folder, "sync")
    for words in (["report"], ["replies"], ["inspect", "q1"], ["status", "--json"]):
        told += rag_eval(folder, *words)
    assert any(CANARY in headers.get("authorization", "") for headers in endpoint.headers)  # it was sent
    assert not any(piece in told for piece in PIECES)

    catalogue = open_catalogue(folder)
    answered = False
    for node in Graph(folder).nodes():
        table, footer = catalogue.read(node)
        text = json.dumps([table.to_pylist(), footer.to_json()], default=str)
        answered = answered or (node.asset == "answers" and "recorded" in text)
        assert not any(piece in text for piece in PIECES), node
    assert answered
    read = 0
    for path in sorted(Path(folder.path).rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            read += 1
            assert not any(piece.encode() in data for piece in PIECES), path
    assert read > 50
