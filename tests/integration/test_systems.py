"""Systems under test end to end: a language model, a class of the user's own, and logged answers, each reused in its own parts."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from rag_eval_assets.cli import app
from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.resources.language_models import ChatModel, LanguageModel, Prices, Request
from rag_eval_assets.resources.responses import RESPONSES, ResponseStore, beginning, settling
from rag_eval_assets.settings import Folder, SettingsError
from rag_eval_assets.storage.sync import SyncReport, open_catalogue, sync
from tests.integration.conftest import CHANGES
from tests.recorded import Play, RecordedEndpoint, recorded_endpoint
from tests.small import QUESTIONS, SETTINGS, write_questions, write_settings

FIRST = SETTINGS["systems"]["first"]
CALLS = ("answers", "diagnosis")
"""The tables whose rows call the model of a reader."""


def script(body: dict[str, Any], number: int) -> Play:
    """Answers by words of the question; the first passage is cited."""
    asked = body["messages"][-1]["content"].rsplit("Question: ", 1)[1]
    if "immersed" in asked:
        return Play("NO_ANSWER")
    if "city" in asked:
        return Play("Zwolle [1] [9].", usage=(1000, 100))
    return Play("It says so in [1].", usage=(1000, 100))


@pytest.fixture
def endpoint() -> Iterator[RecordedEndpoint]:
    with recorded_endpoint(script) as running:
        yield running


def with_model(folder: Folder, endpoint: RecordedEndpoint, *, model: dict[str, Any] | None = None, **system: Any) -> Folder:
    chosen = {"base_url": endpoint.url, "model": "recorded", "prices": {"prompt": 1.0, "completion": 10.0}, **(model or {})}
    systems = {"first": FIRST, "chat": {**FIRST, "reader": {"kind": "chat", "model": "m"}, **system}}
    write_settings(folder.path, {**CHANGES, "models": {"m": chosen}, "systems": systems})
    return Folder(folder.path)


def rows(folder: Folder, name: str, partition: str) -> list[dict[str, Any]]:
    return open_catalogue(folder).read(AssetPartition(name, partition))[0].to_pylist()


def answers(folder: Folder, partition: str) -> dict[str, dict[str, Any]]:
    return {row["question_id"]: row for row in rows(folder, "answers", partition)}


def replies(report: SyncReport, name: str) -> dict[str, int]:
    assert report.failed == {}
    return {str(node): dict(outcome.replies) for node, outcome in report.materialized.items()}.get(name, {})


def test_a_model_answers_and_only_what_changed_is_asked_again(synced: Folder, endpoint: RecordedEndpoint) -> None:
    folder = with_model(synced, endpoint)
    first = sync(folder, select=CALLS)
    assert replies(first, "answers[chat]") == {"reused": 0, "asked": 8, "failed": 0}  # nothing is delivered for q9
    found = answers(folder, "chat")
    assert [(c["position"], c["chunk_id"] is None) for c in found["q6"]["citations"]] == [(0, False), (-1, True)]
    assert (found["q7"]["refused"], found["q7"]["answer"], found["q7"]["raw"]) == (True, "", "NO_ANSWER")
    assert (found["q9"]["refused"], found["q9"]["reason"], found["q9"]["raw"]) == (True, "empty_context", None)
    # 1,000 tokens at 1 and 100 at 10 a million.
    assert found["q6"]["cost"] == pytest.approx(0.002)
    assert all(row["first_token_seconds"] <= row["reply_seconds"] for row in found.values() if row["raw"])
    asked = len(endpoint.asked)

    assert sync(folder, select=CALLS).runs == []
    # Another top_k calls no retriever, and asks of the model only where the context is another one.
    folder = with_model(folder, endpoint, top_k=2)
    report = sync(folder, select=CALLS)
    assert not any(str(node).startswith("retrieval_runs") for node in report.materialized)
    told = replies(report, "answers[chat]")
    before = {q: row["context_sha256"] for q, row in found.items()}
    changed = {q for q, row in answers(folder, "chat").items() if row["context_sha256"] != before[q]}
    assert told["asked"] == len(changed) > 0
    assert len(endpoint.asked) > asked

    # Back again: every reply is in the store.
    folder = with_model(folder, endpoint)
    asked = len(endpoint.asked)
    told = replies(sync(folder, select=CALLS), "answers[chat]")
    assert (told["reused"], told.get("asked", 0)) == (len(changed), 0)
    assert {q: row["answer"] for q, row in answers(folder, "chat").items()} == {q: row["answer"] for q, row in found.items()}
    assert len(endpoint.asked) == asked

    # A new price table costs no call, another label asks everything anew.
    folder = with_model(folder, endpoint, model={"prices": {"prompt": 2.0, "completion": 20.0}})
    assert replies(sync(folder, select=CALLS), "answers[chat]").get("asked", 0) == 0
    assert answers(folder, "chat")["q6"]["cost"] == pytest.approx(0.004)
    assert len(endpoint.asked) == asked
    folder = with_model(folder, endpoint, model={"refresh": "tonight"})
    assert replies(sync(folder, select=CALLS), "answers[chat]")["asked"] == 8


def test_what_the_limits_left_out_is_typed_and_asked_for_once_they_allow_it(synced: Folder, endpoint: RecordedEndpoint) -> None:
    folder = with_model(synced, endpoint, model={"spend_limit": 0.008, "max_tokens": 100})
    assert sync(folder, select=["answers"]).failed == {}
    found = answers(folder, "chat")
    left_out = {q for q, row in found.items() if row["reason"] == "spend_limit"}
    assert 0 < len(left_out) < 8
    assert all(found[q]["status"] == "failed" for q in left_out)
    folder = with_model(folder, endpoint, model={"spend_limit": 5.0, "max_tokens": 100})
    told = replies(sync(folder, select=["answers"]), "answers[chat]")
    assert told["asked"] + told["reused"] == len(left_out)
    assert not any(row["reason"] == "spend_limit" for row in answers(folder, "chat").values())


def test_replies_and_what_they_cost_are_listed_with_calls_that_may_have_been_paid_for_nothing(
    tmp_path: Path, endpoint: RecordedEndpoint
) -> None:
    small = Folder(tmp_path)
    told = CliRunner().invoke(app, ["--data", str(small.path), "replies"])
    assert "0 replies kept, 0 calls possibly paid" in told.stdout
    small.stores.mkdir(parents=True, exist_ok=True)
    store = ResponseStore(small.stores / RESPONSES)
    priced = LanguageModel(ChatModel("recorded", endpoint.url, prices=Prices(1.0, 10.0)), store)
    asked = [Request[Any](({"role": "user", "content": f"Question: {words}"},)) for words in ("the city", "what else")]
    assert [c.reason for c in priced.ask_many(asked)] == [None, None]
    store.write(settling(store.write(beginning("k", endpoint.url, "recorded")), "no_reply"))
    found = json.loads(CliRunner().invoke(app, ["--data", str(small.path), "replies", "--json"]).stdout)
    # Two replies of 1,000 tokens at 1 and 100 at 10 a million.
    assert found["totals"] == [
        {"endpoint": endpoint.url, "model": "recorded", "replies": 2, "prompt_tokens": 2000, "completion_tokens": 200,
         "cost": pytest.approx(0.004), "costed": 2}
    ]  # fmt: skip
    assert [(c["key"], c["outcome"]) for c in found["possibly_paid"]] == [("k", "no_reply")]
    told = CliRunner().invoke(app, ["--data", str(small.path), "replies", "--calls"])
    assert re.search(rf"{endpoint.url} +recorded +2 +2000 +200 +0\.004 +1", told.stdout)
    assert f"no_reply recorded at {endpoint.url}, key k" in told.stdout


def test_a_replay_is_a_reply_of_its_own(synced: Folder, endpoint: RecordedEndpoint) -> None:
    folder = with_model(synced, endpoint)
    assert sync(folder, select=CALLS).failed == {}
    controls = [row for row in rows(folder, "diagnosis", "chat") if row["intervention"] == "control" and row["status"] == "scored"]
    prompts = [re.sub(r"passage-\w+", "", str(body["messages"])) for body in endpoint.asked]
    assert len(controls) > 0
    assert len(prompts) - len(set(prompts)) >= len(controls)


def test_a_judge_scores_answers_through_the_store_and_gates_nothing_before_its_audit(synced: Folder) -> None:
    def judging(body: dict[str, Any], number: int) -> Play:
        if "Claims:" not in body["messages"][-1]["content"]:
            return Play(json.dumps({"claims": ["It is so."], "no_claims": False}))
        return Play(json.dumps({"supported": [{"claim": 1, "texts": [1], "rationale": "r"}], "unsupported": []}))

    with recorded_endpoint(judging) as judge:
        changed = {
            **CHANGES,
            "models": {"m": {"base_url": judge.url, "model": "recorded"}},
            "judges": {"panel": {"model": "m", "metrics": ["claim_faithfulness"]}},
            "gates": {"faithful": {"source": "system_summary", "metric": "claim_faithfulness@panel", "unit": "question", "at_least": 0.5}},
        }
        write_settings(synced.path, changed)
        folder = Folder(synced.path)
        told = replies(sync(folder, select=["gate_results"]), "judged_scores[first]")
        found = [r for r in rows(folder, "system_scores", "first") if r["metric"] == "claim_faithfulness@panel"]
        assert len(found) == 9
        assert {r["value"] for r in found if r["status"] == "scored"} == {1.0}
        assert told["asked"] > 0
        (gate, *_) = open_catalogue(folder).read(AssetPartition("gate_results", None))[0].to_pylist()
        assert (gate["value"], gate["decision"], gate["decision_reason"]) == (1.0, "INSUFFICIENT_EVIDENCE", "judge_not_audited")
        asked = len(judge.asked)
        write_settings(synced.path, {**changed, "scoring": {"ks": [1, 10]}})
        report = sync(Folder(synced.path), select=["judged_scores"])
        assert "judged_scores[first]" not in {str(node) for node in report.materialized}
        # Another price or deadline, another metric: only rows that are not there are judged; what was asked is asked no more.
        dear = {**changed["models"]["m"], "prices": {"prompt": 1.0, "completion": 1.0}, "deadline_seconds": 30}
        write_settings(synced.path, {**changed, "models": {"m": dear}})
        assert computed(sync(Folder(synced.path), select=["judged_scores"]))["judged_scores[first]"] == 0
        more = {"panel": {"model": "m", "metrics": ["claim_faithfulness", "context_relevance"]}}
        write_settings(synced.path, {**changed, "models": {"m": dear}, "judges": more})
        assert computed(sync(Folder(synced.path), select=["judged_scores"]))["judged_scores[first]"] == 9
        claims = [body for body in judge.asked if "Split the text into claims" in body["messages"][0]["content"]]
        assert len(claims) == len([body for body in judge.asked[:asked] if body in claims])
        # The nightly run's label asks everything anew and keeps what was said before.
        asked = len(judge.asked)
        write_settings(synced.path, {**changed, "models": {"m": {**dear, "refresh": "tonight"}}})
        report = sync(Folder(synced.path), select=["judged_scores"])
        assert computed(report)["judged_scores[first]"] == 9
        assert replies(report, "judged_scores[first]")["asked"] == told["asked"]
        assert len(judge.asked) > asked


def test_an_entailment_scorer_scores_only_what_changed_and_gates_nothing_before_its_audit(
    synced: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (synced.path / "own_scorer.py").write_text(SCORER)
    monkeypatch.syspath_prepend(str(synced.path))
    changed = {
        **CHANGES,
        "scorers": {"nli": {"kind": "function", "model": "own_scorer:held", "version": "1", "threshold": 0.5}},
        "gates": {"held": {"source": "system_summary", "metric": "entailment@nli", "unit": "question", "at_least": 0.5}},
    }
    write_settings(synced.path, changed)
    report = sync(Folder(synced.path), select=["gate_results"])
    assert computed(report)["judged_scores[first]"] == 9
    # The built-in reader quotes its passages word for word.
    found = {r["question_id"]: r for r in rows(synced, "system_scores", "first") if r["metric"] == "entailment@nli"}
    assert {r["value"] for r in found.values() if r["status"] == "scored"} == {1.0}
    (gate, *_) = open_catalogue(synced).read(AssetPartition("gate_results", None))[0].to_pylist()
    assert (gate["value"], gate["decision_reason"]) == (1.0, "judge_not_audited")
    write_settings(synced.path, {**changed, "scorers": {"nli": {**changed["scorers"]["nli"], "threshold": 0.9}}})
    assert "judged_scores[first]" not in computed(sync(Folder(synced.path), select=["judged_scores"]))


SCORER = """
def held(pairs):
    return [float(hypothesis.rstrip(".") in premise) for premise, hypothesis in pairs]
"""


def computed(report: SyncReport) -> dict[str, int]:
    assert report.failed == {}
    return {str(node): outcome.computed for node, outcome in report.materialized.items()}


def test_a_judge_prefers_between_two_systems_and_asks_again_only_where_an_answer_changed(synced: Folder) -> None:
    def preferring(body: dict[str, Any], number: int) -> Play:
        return Play(json.dumps({"preferred": "first", "rationale": "r"}))

    with recorded_endpoint(preferring) as judge:
        changed = {
            **CHANGES,
            "models": {"m": {"base_url": judge.url, "model": "recorded"}},
            "judges": {"panel": {"model": "m", "metrics": [], "pairs": [["first", "second"]]}},
        }
        write_settings(synced.path, changed)
        told = replies(sync(Folder(synced.path), select=["preference_summary"]), "preferences")
        found = {r["question_id"]: r for r in open_catalogue(synced).read(AssetPartition("preferences", None))[0].to_pylist()}
        assert len(found) == 9
        differ = [q for q, r in found.items() if r["reason"] == "position_dependent"]
        assert len(judge.asked) == told["asked"] == 2 * len(differ) > 0
        summary = open_catalogue(synced).read(AssetPartition("preference_summary", None))[0].to_pylist()
        measures = {r["measure"]: r for r in summary if r["split"] == found[differ[0]]["split"]}
        assert (measures["swap_consistency"]["value"], measures["win_rate"]["reason"]) == (0.0, "orders_not_aggregated")
        asked = len(judge.asked)
        # Another limit computes no row, and another context only the rows whose answers are other ones.
        write_settings(synced.path, {**changed, "models": {"m": {**changed["models"]["m"], "deadline_seconds": 30}}})
        report = sync(Folder(synced.path), select=["preferences"])
        assert computed(report)["preferences"] == 0
        systems = {**SETTINGS["systems"], "second": {**SETTINGS["systems"]["second"], "top_k": 1}}
        before = {q: r["answer"] for q, r in answers(synced, "second").items()}
        write_settings(synced.path, {**changed, "systems": systems})
        report = sync(Folder(synced.path), select=["preferences"])
        other = {q for q, r in answers(synced, "second").items() if r["answer"] != before[q]}
        assert len(other) <= computed(report).get("preferences", 0) < 9
        assert len(judge.asked) - asked <= 2 * len(other)


# ------------------------------------------------------------------------------------------------- a class of one's own
OWN = """
from pathlib import Path
from rag_eval_assets.generation.protocol import Passage

CALLS = Path(__file__).with_name("calls.txt")


class Mine:
    depth, top_k, token_budget = 4, 2, None
    {version}

    def _told(self, what):
        with CALLS.open("a") as file:
            file.write(what + "\\n")

    def retrieve(self, question, depth):
        self._told("retrieve")
        if "vinegar" in question:
            raise RuntimeError("no index")
        return [
            Passage("p2", "warranty.md", "The lid and the cord are covered for two years.", 0.2),
            Passage("p1", "warranty.md", "The heating element of the kettle is covered for five years.", 0.9),
            Passage("p3", "shipping.md", "Words that stand nowhere in the document."),
        ]

    def generate(self, question, passages):
        self._told("generate")
        return "five years [2]"
"""


def with_class(folder: Folder, version: str = "index_version = 'one'", **system: Any) -> Folder:
    (folder.path / "own_system_of_this_test.py").write_text(OWN.format(version=version))
    sys.modules.pop("own_system_of_this_test", None)
    systems = {"first": FIRST, "own": {"kind": "class", "path": "own_system_of_this_test:Mine", **system}}
    write_settings(folder.path, {**CHANGES, "systems": systems})
    return Folder(folder.path)


def calls(folder: Folder) -> Counter[str]:
    path = folder.path / "calls.txt"
    told = Counter(path.read_text().split()) if path.exists() else Counter()
    path.unlink(missing_ok=True)
    return told


def test_a_class_is_retrieved_from_once_and_a_changed_top_k_calls_generate_alone(synced: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = with_class(synced)
    assert sync(folder).failed == {}
    assert calls(folder)["retrieve"] == 9
    found = [r for r in rows(folder, "system_retrievals", "own") if r["question_id"] == "q3"]
    assert [(r["rank"], r["chunk_id"], r["start"] is None, r["similarity"]) for r in found] == [
        (1, "p2", False, 1.0),
        (2, "p1", False, 1.0),
        (3, "p3", True, None),
    ]
    (failed,) = [r for r in rows(folder, "system_retrievals", "own") if r["question_id"] == "q4"]
    assert (failed["status"], failed["reason"], failed["detail"]) == ("failed", "crashed", "RuntimeError: no index")
    assert answers(folder, "own")["q4"]["reason"] == "upstream_failed"
    (spec,) = rows(folder, "system_specs", "own")
    assert [spec[k] for k in ("kind", "chunking", "depth", "top_k", "token_budget", "index_version")] == ["class", None, 4, 2, None, "one"]
    lost = {r["question_id"]: r["lost_at"] for r in rows(folder, "evidence_funnel", "own")}
    assert (lost["q1"], lost["q3"]) == ("ranked", None)
    assert sync(folder).runs == []

    # A gate on the recorded times of retrieval judges them as they were recorded, and calls nobody.
    settings = yaml.safe_load((folder.path / "evaluation.yaml").read_text())
    quick = {"source": "system_costs", "metric": "retrieval_seconds_p95", "at_most": 60, "minimum_questions": 4}
    (folder.path / "evaluation.yaml").write_text(yaml.safe_dump({**settings, "gates": {"quick": quick}}))
    report = sync(Folder(folder.path))
    assert set(computed(report)) == {"system_costs[first]", "system_costs[own]", "gate_results", "release_report"}
    assert calls(folder) == {}
    seconds = {r["question_id"]: r["seconds"] for r in rows(folder, "system_retrievals", "own") if r["split"] == "release"}
    (gate,) = [r for r in open_catalogue(folder).read(AssetPartition("gate_results", None))[0].to_pylist() if r["scope"] == "own"]
    # Of four release questions the largest time is the 95th percentile.
    assert (gate["value"], gate["decision"]) == (max(seconds.values()), "PASS")

    folder = with_class(folder, top_k=1)
    assert sync(folder, select=["answers"]).failed == {}
    # The ranking that failed is tried again; no other question is retrieved for.
    assert calls(folder)["retrieve"] == 1
    assert len(answers(folder, "own")["q3"]["citations"]) == 1

    # An edited document moves spans and calls nobody.
    path = folder.corpus / "warranty.md"
    path.write_text(path.read_text().replace("# Warranty", "# The warranty"))
    assert sync(folder, select=["system_retrievals"]).failed == {}
    assert calls(folder)["retrieve"] <= 1
    moved = [r for r in rows(folder, "system_retrievals", "own") if r["question_id"] == "q3"]
    assert moved[0]["start"] == found[0]["start"] + len("The ")

    folder = with_class(folder, "index_version = 'two'", top_k=1)
    assert sync(folder, select=["system_retrievals"]).failed == {}
    assert calls(folder)["retrieve"] == 9


def test_a_gate_on_reuse_does_not_apply_before_a_second_run_and_then_judges_what_was_kept(synced: Folder) -> None:
    gate = {"source": "system_costs", "metric": "answer_reuse_mean", "at_least": 0.75, "minimum_questions": 4, "scope": ["first"]}
    write_settings(synced.path, {**CHANGES, "gates": {"kept": gate}})

    def decided() -> tuple[float | None, str, str]:
        assert sync(Folder(synced.path)).failed == {}
        (row,) = open_catalogue(Folder(synced.path)).read(AssetPartition("gate_results"))[0].to_pylist()
        return row["value"], row["decision"], row["decision_reason"]

    # The answers are those of the first sync, however often their costs are read.
    assert decided() == (None, "INSUFFICIENT_EVIDENCE", "not_applicable")
    asked = [{**q, "question": "How many extra working days do islands take?"} if q["id"] == "q6" else q for q in QUESTIONS]
    write_questions(synced.path, asked)
    # Of four release questions one is another, with another answer.
    assert decided() == (0.75, "PASS", "meets_threshold")


HANGS_ONCE = """
import threading


class Hanging(Mine):
    def _hang_once(self, word):
        flag = Path(__file__).with_name(f"{word}.flag")
        if not flag.exists():
            flag.touch()
            threading.Event().wait()

    def retrieve(self, question, depth):
        found = super().retrieve(question.replace("vinegar", ""), depth)
        if "vinegar" in question:
            self._hang_once("vinegar")
        return found

    def generate(self, question, passages):
        if "toasters" in question:
            self._hang_once("toasters")
        return super().generate(question, passages)
"""


def test_a_call_that_hangs_fails_its_own_question_and_is_tried_again(synced: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    with_class(synced)
    module = synced.path / "own_system_of_this_test.py"
    module.write_text(module.read_text() + HANGS_ONCE)

    def within(seconds: int) -> Folder:
        own = {"kind": "class", "path": "own_system_of_this_test:Hanging", "call_seconds": seconds}
        write_settings(synced.path, {**CHANGES, "systems": {"first": FIRST, "own": own}})
        return Folder(synced.path)

    folder = within(3)
    assert sync(folder, select=["answers"]).failed == {}
    assert calls(folder)["retrieve"] == 9
    (ranking,) = [r for r in rows(folder, "system_retrievals", "own") if r["question_id"] == "q4"]
    assert (ranking["status"], ranking["reason"], ranking["detail"]) == ("failed", "timeout", "no answer within 3 s")
    failed = {q: row["reason"] for q, row in answers(folder, "own").items() if row["status"] == "failed"}
    assert failed == {"q4": "upstream_failed", "q9": "timeout"}
    # Another limit is a reason to try again what the old one cut, and nothing else.
    folder = within(4)
    assert sync(folder, select=["answers"]).failed == {}
    assert calls(folder)["retrieve"] == 1
    assert {row["status"] for row in answers(folder, "own").values()} == {"ok"}


def test_without_an_index_version_no_row_is_reused(synced: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = with_class(synced, "")
    assert sync(folder, select=["answers"]).failed == {}
    assert calls(folder)["retrieve"] == 9
    assert sync(folder, select=["answers"]).runs == []
    folder = with_class(folder, "", top_k=1)
    assert sync(folder, select=["answers"]).failed == {}
    assert calls(folder)["retrieve"] == 9


def test_logged_rankings_and_answers_are_scored_and_their_faults_name_line_and_id(synced: Folder) -> None:
    text = "The heating element of the kettle is covered for five years."
    ranking = {"id": "q3", "passages": [{"id": "p1", "document": "warranty.md", "text": text, "score": 1.0}]}
    (synced.path / "retrievals.jsonl").write_text(json.dumps(ranking) + "\n")
    (synced.path / "answers.jsonl").write_text(json.dumps({"id": "q3", "answer": "five years", "citations": ["p1"]}) + "\n")
    systems = {"first": FIRST, "logged": {"kind": "import", "retrievals": "retrievals.jsonl", "answers": "answers.jsonl"}}
    write_settings(synced.path, {**CHANGES, "systems": systems})
    folder = Folder(synced.path)
    assert sync(folder, select=["diagnosis"]).failed == {}
    scores = {(r["question_id"], r["metric"]): (r["value"], r["status"]) for r in rows(folder, "system_scores", "logged")}
    assert scores["q3", "correct"] == (1.0, "scored")
    assert scores["q1", "correct"] == (None, "missing")
    assert {r["label"] for r in rows(folder, "diagnosis", "logged")} <= {"not_diagnosable", "none"}
    assert sync(folder, select=["diagnosis"]).runs == []

    (folder.path / "retrievals.jsonl").write_text(json.dumps({**ranking, "id": "q77"}) + "\n")
    with pytest.raises(SettingsError, match=r"retrievals\.jsonl:1: no golden question has the id 'q77'; remove the line or add"):
        sync(Folder(folder.path))
    (folder.path / "retrievals.jsonl").write_text("{\n")
    with pytest.raises(SettingsError, match=r"retrievals\.jsonl:1: "):
        sync(Folder(folder.path))
