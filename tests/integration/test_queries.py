"""Retrievers whose queries a model writes: every request through the response store, every failure a typed row, nothing paid twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rag_eval_assets.resources.responses import RESPONSES, ResponseStore
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import sync
from tests.integration.conftest import CHANGES
from tests.recorded import Play, RecordedEndpoint, recorded_endpoint
from tests.small import QUESTIONS, write_questions, write_settings

WANTED = ["retrieval_runs"]
KINDS = ("rewrite", "multi_query", "hyde")
TEXTS = {q["question"]: q["id"] for q in QUESTIONS}


def replies(body: dict[str, Any], number: int) -> Play:
    """As many texts as are asked for, each the question with a number."""
    count = int(body["messages"][0]["content"].rpartition("exactly ")[2].split()[0])
    text = body["messages"][1]["content"].split("\n")[1]
    return Play(json.dumps({"queries": [f"{text} {at}" for at in range(count)]}))


@pytest.fixture
def endpoint() -> Iterator[RecordedEndpoint]:
    with recorded_endpoint(replies) as own:
        yield own


def written(folder: Path, endpoint: RecordedEndpoint, *, model: dict[str, Any] | None = None, **retrievers: dict[str, Any]) -> Folder:
    """The folder with a retriever of each kind over BM25, unless others are given."""
    chosen = retrievers or {kind: {"kind": kind, "of": ["bm25"], "model": "writer"} for kind in KINDS}
    models = {"writer": {"base_url": endpoint.url, "model": "recorded", "deadline_seconds": 20, "attempts": 1, **(model or {})}}
    write_settings(folder, {**CHANGES, "models": models, "retrievers": {**CHANGES["retrievers"], **chosen}})
    return Folder(folder)


def rows(folder: Folder, retriever: str, partition: str = "whole") -> dict[str, dict[str, Any]]:
    """First rows by question."""
    (path,) = (folder.state / "tables" / "retrieval_runs").rglob(f"{partition}.parquet")
    found = duckdb.sql(f"SELECT * FROM read_parquet('{path}') WHERE retriever = '{retriever}' AND rank <= 1")
    return {row["question_id"]: row for row in found.to_arrow_table().to_pylist()}


def test_each_question_is_asked_once_for_all_chunkings_and_an_unchanged_one_pays_nothing(
    synced: Folder, endpoint: RecordedEndpoint
) -> None:
    folder = written(synced.path, endpoint)
    assert sync(folder, select=WANTED).failed == {}
    assert len(endpoint.asked) == len(KINDS) * len(QUESTIONS)
    for partition in ("whole", "window-16-o0"):
        for kind, count in zip(KINDS, (1, 3, 1), strict=True):
            for row in rows(folder, kind, partition).values():
                assert (row["status"], row["model_tokens"], len(row["queries"])) == ("ok", 120, count)
    # A question in other words is asked about again, in all kinds, and no other is.
    changed = [{**q, "question": q["question"].replace("immersed", "put")} for q in QUESTIONS]
    write_questions(folder.path, changed)
    assert sync(folder, select=["golden_questions", *WANTED]).failed == {}
    assert len(endpoint.asked) == len(KINDS) * (len(QUESTIONS) + 1)
    assert all("put in water" in endpoint.text_of(body) for body in endpoint.asked[-len(KINDS) :])


def test_another_prompt_is_asked_again_and_another_retriever_searches_nothing_again(synced: Folder, endpoint: RecordedEndpoint) -> None:
    sync(written(synced.path, endpoint), select=WANTED)
    before = rows(synced, "hyde")
    one = {"kind": "rewrite", "of": ["bm25"], "model": "writer", "prompt": "Say it in other words."}
    others = {kind: {"kind": kind, "of": ["bm25"], "model": "writer"} for kind in KINDS[1:]}
    folder = written(synced.path, endpoint, rewrite=one, **others)
    report = sync(folder, select=WANTED)
    assert len(endpoint.asked) == (len(KINDS) + 1) * len(QUESTIONS)
    assert {outcome.computed for outcome in report.materialized.values()} == {len(QUESTIONS)}
    assert rows(folder, "hyde") == before
    assert "Say it in other words." in rows(folder, "rewrite")["q1"]["parameters"]


def test_a_failed_reply_is_a_failed_row_and_the_next_run_asks_for_it_alone(synced: Folder) -> None:
    def broken(body: dict[str, Any], number: int) -> Play:
        text = body["messages"][1]["content"]
        if "engraved" in text:
            return Play('{"queries": []}')
        return Play(status=500) if "vinegar" in text and number < 100 else replies(body, number)

    with recorded_endpoint(broken) as endpoint:
        options = {"kind": "rewrite", "of": ["bm25"], "model": "writer"}
        fused = {"kind": "rrf", "of": ["bm25", "rewrite"]}
        folder = written(synced.path, endpoint, rewrite=options, fused=fused)
        assert sync(folder, select=WANTED).failed == {}
        found = {question: (row["status"], row["reason"]) for question, row in rows(folder, "rewrite").items()}
        assert found.pop("q2") == ("failed", "unparsable_reply")
        assert found.pop("q4") == ("failed", "endpoint_failed")
        assert {status for status, _ in found.values()} == {"ok"}
        assert rows(folder, "fused")["q4"]["reason"] == "upstream_failed"
        endpoint.script = replies
        asked = len(endpoint.asked)
        # A limit that has changed is a reason to try again.
        folder = written(synced.path, endpoint, model={"attempts": 2}, rewrite=options, fused=fused)
        sync(folder, select=WANTED)
        assert {endpoint.text_of(body).split("\n")[1] for body in endpoint.asked[asked:]} == {QUESTIONS[3]["question"]}
        assert rows(folder, "rewrite")["q4"]["status"] == rows(folder, "fused")["q4"]["status"] == "ok"


def test_without_the_key_nothing_is_searched_in_the_plain_questions_place(synced: Folder, endpoint: RecordedEndpoint) -> None:
    folder = written(synced.path, endpoint, model={"key_variable": "RAG_EVAL_TEST_ABSENT_KEY"})
    assert sync(folder, select=WANTED).failed == {}
    for kind in KINDS:
        assert {(row["status"], row["reason"], row["rank"]) for row in rows(folder, kind).values()} == {("failed", "no_key", 0)}
    assert endpoint.asked == []


def test_a_spend_limit_holds_over_all_retrievers_of_a_partition(synced: Folder, endpoint: RecordedEndpoint) -> None:
    price = {"prices": {"prompt": 0.0, "completion": 1_000_000}, "max_tokens": 20, "concurrency": 1, "spend_limit": 100}
    folder = written(synced.path, endpoint, model=price)
    sync(folder, select=[*WANTED])
    # Each of the two partitions may pay for five replies of 20 tokens; the second finds the first one's in the store.
    assert len(endpoint.asked) == 10
    found = [row for kind in KINDS for row in rows(folder, kind).values()]
    assert {row["reason"] for row in found if row["status"] == "failed"} == {"spend_limit"}
    assert {row["model_cost"] for row in found if row["status"] == "ok"} == {20.0}
    assert len(ResponseStore(folder.stores / RESPONSES)) == 10
