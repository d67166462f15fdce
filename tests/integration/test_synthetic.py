"""Questions by a model are drawn, checked, marked and kept out of the release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rag_eval_assets.cli import app
from rag_eval_assets.golden import GoldenError, read_golden
from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue, sync
from rag_eval_assets.synthetic import draw, write_synthetic
from tests.integration.conftest import CHANGES
from tests.recorded import Play, RecordedEndpoint, recorded_endpoint
from tests.small import write_settings


def passages_of(body: dict[str, Any]) -> list[str]:
    return re.findall(r"<passage-\w+ \d>\n(.*?)\n</passage", body["messages"][-1]["content"], re.S)


def writing(body: dict[str, Any], number: int) -> Play:
    """Of each passage a good question, one that quotes what is not there, and the good one again; of two passages one over both."""
    texts, task = passages_of(body), body["messages"][0]["content"]
    if "looks as if it were answered" in task:
        return Play(json.dumps({"question": f"Which colour has number {len(texts[0])}?", "why": "no colour is named"}))
    if "both passages together" in task:
        quotations = [text[:20] for text in texts]
        return Play(
            json.dumps({"questions": [{"question": f"What links {' and '.join(quotations)}?", "answer": "both", "quotations": quotations}]})
        )
    good = {"question": f"What is said of {texts[0][:25]}?", "answer": texts[0][:20], "quotations": [texts[0][:20]]}
    return Play(json.dumps({"questions": [good, {**good, "question": "Invented?", "quotations": ["Badgers hibernate."]}, good]}))


@pytest.fixture
def endpoint() -> Iterator[RecordedEndpoint]:
    with recorded_endpoint(writing) as running:
        yield running


@pytest.fixture
def folder(synced: Folder, endpoint: RecordedEndpoint) -> Folder:
    write_settings(synced.path, {**CHANGES, "models": {"m": {"base_url": endpoint.url, "model": "recorded-1"}}})
    return Folder(synced.path)


def test_what_a_model_writes_is_checked_marked_and_paid_once(folder: Folder, endpoint: RecordedEndpoint) -> None:
    path, counts = write_synthetic(folder, "m", 3, "whole")
    assert counts == {"single": 3, "not_quoted": 3, "asked_already": 3, "adversarial": 3, "multi_hop": 2}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 8
    assert {line["split"] for line in lines} == {"development"}
    assert all(line["kinds"][0] == "synthetic" and line["slices"] == {"written_by": "recorded-1"} for line in lines)
    # Nothing is asked about documents that questions of another split rest on.
    named = {item["document"] for line in lines for item in line.get("evidence", ())}
    assert named == {"returns.md", "warranty.md", "descaling.txt"}
    assert all(len(line["evidence"]) == 2 for line in lines if "multi_hop" in line["kinds"])
    assert all(line["answerable"] is False for line in lines if "adversarial" in line["kinds"])
    before, asked = path.read_bytes(), len(endpoint.asked)
    write_synthetic(folder, "m", 3, "whole")
    assert (path.read_bytes(), len(endpoint.asked)) == (before, asked)


def test_they_are_a_slice_of_development_and_leave_the_release_alone(folder: Folder) -> None:
    def release() -> list[Any]:
        rows = open_catalogue(folder).read(AssetPartition("system_summary", "first"))[0].to_pylist()
        own = ("metric", "k", "unit", "cutoff", "slice", "slice_value", "mean", "questions")
        return [tuple(r[name] for name in own) for r in rows if r["split"] == "release" and r["slice"] in ("all", "intent")]

    before = release()
    told = CliRunner().invoke(app, ["--data", str(folder.path), "synthesize", "m", "--number", "3", "--chunking", "whole"])
    assert told.exit_code == 0
    assert told.stdout.strip().endswith("synthetic.jsonl")
    write_settings(folder.path, {**CHANGES, "slices": ["intent", "kinds"]})
    assert sync(Folder(folder.path), select=["system_summary"]).failed == {}
    assert release() == before
    rows = open_catalogue(folder).read(AssetPartition("system_summary", "first"))[0].to_pylist()
    own = {
        (r["split"], r["questions"])
        for r in rows
        if (r["slice"], r["slice_value"], r["metric"]) == ("kinds", "synthetic", "refusal_correct")
    }
    assert own == {("development", 8)}


def test_an_unread_question_of_a_model_in_the_release_is_an_error(tmp_path: Path) -> None:
    line = {"id": "s", "question": "Which?", "reference_answer": "x", "split": "release", "kinds": ["synthetic", "single"]}
    (tmp_path / "q.jsonl").write_text(json.dumps(line))
    with pytest.raises(GoldenError, match=r"q\.jsonl:1: question 's': split: is release, but a model wrote the question"):
        read_golden(tmp_path)
    (tmp_path / "q.jsonl").write_text(json.dumps({**line, "kinds": ["synthetic", "single", "reviewed"]}))
    assert [row["split"] for row in read_golden(tmp_path)] == ["release"]


def test_replies_that_are_no_questions_are_counted_and_nothing_is_written(folder: Folder) -> None:
    with recorded_endpoint(lambda body, number: Play("Sure! Here they are.")) as broken:
        write_settings(folder.path, {**CHANGES, "models": {"m": {"base_url": broken.url, "model": "x"}}})
        path, counts = write_synthetic(Folder(folder.path), "m", 2, "whole")
    assert counts == {"unparsable_reply": 5}
    assert not path.exists()


@pytest.mark.parametrize(
    ("model", "chunking", "told"), [("x", None, "no model 'x'; known: m"), ("m", "page", "no chunking 'page'; known: ")]
)
def test_names_that_stand_for_nothing_are_told(folder: Folder, model: str, chunking: str | None, told: str) -> None:
    with pytest.raises(LookupError, match=told):
        write_synthetic(folder, model, 2, chunking)


def test_a_draw_takes_one_passage_of_each_document_first_and_none_that_is_taken() -> None:
    chunks = [
        {"chunk_id": f"{doc}#{n}", "doc_id": doc, "text": "x", "text_sha256": f"{doc}{n}", "tokens": 50 if n else 3}
        for doc in ("a", "b", "c", "gone")
        for n in range(4)
    ]
    drawn = draw(chunks, {"gone"}, 4, seed=7)
    assert sorted(c["doc_id"] for c in drawn[:3]) == ["a", "b", "c"]
    assert all(c["tokens"] == 50 for c in drawn)
    assert len(drawn) == 4
    assert draw(chunks[::-1], {"gone"}, 4, seed=7) == drawn
    assert draw(chunks, {"gone"}, 4, seed=8) != drawn
