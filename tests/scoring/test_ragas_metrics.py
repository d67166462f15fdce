"""ragas: its string metrics open no socket; its judged ones never turn a bad reply into a number.

The judge here is a server on the loopback that plays recorded replies. It is no model, and no value below comes from one.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rag_eval_assets.assets._judging import asking
from rag_eval_assets.scoring import ragas_metrics
from rag_eval_assets.scoring.judged import judged_scores
from rag_eval_assets.scoring.judging import judge_all
from rag_eval_assets.scoring.outcomes import Outcome
from tests.recorded import Play, in_turn, judge_model, recorded_endpoint
from tests.scoring.builders import Row, answer, context, passage, question

SAMPLE = {"user_input": "What is A?", "response": "A is 1. B is 2.", "retrieved_contexts": ["A is 1."]}
STATEMENTS = json.dumps({"statements": ["A is 1.", "B is 2."]})


def verdicts(*values: int) -> str:
    return json.dumps({"statements": [{"statement": "s", "reason": "r", "verdict": v} for v in values]})


def asked(tmp_path: Path, *replies: str | Play, metric: str = "faithfulness", sample: Row = SAMPLE, **more: Any) -> Outcome:
    """The outcome of one metric from an endpoint that plays the replies in turn."""
    embed = more.pop("embed", None)
    with recorded_endpoint(in_turn(*replies)) as endpoint:
        opened = asking(judge_model(endpoint, tmp_path, **more))
        (found,) = judge_all(opened, [lambda ask: ragas_metrics.judge_one(ask, metric, sample, embed=embed)])
    return found


# ----------------------------------------------------------------------------------------------------------- without model
def test_string_metrics_open_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    questions = [question("q", reference_answer="Paris"), question("u", answerable=False), question("r", reference_answer="Rome")]
    answers = [answer("q", "Paris [1]"), answer("u", "Oslo"), answer("r", refused=True)]
    rows = ragas_metrics.score(questions, answers, [])
    found = {(r["question_id"], r["metric"]): (r["status"], r["reason"], r["value"]) for r in rows}
    assert found["q", "ragas_exact_match"] == ("scored", None, 1.0)
    assert found["q", "ragas_string_presence"] == ("scored", None, 1.0)
    assert found["q", "ragas_string_similarity"] == ("scored", None, 1.0)
    assert found["u", "ragas_exact_match"] == ("not_applicable", "unanswerable", None)
    assert found["r", "ragas_exact_match"] == ("scored", "refused", 0.0)
    assert len(rows) == 3 * len(ragas_metrics.STRING_METRICS)


def test_string_similarity_is_one_minus_the_normalised_edit_distance() -> None:
    rows = ragas_metrics.score([question("q", reference_answer="kitten")], [answer("q", "sitting")], [])
    # Levenshtein's own example: three edits over seven letters.
    assert {r["metric"]: r["value"] for r in rows}["ragas_string_similarity"] == pytest.approx(1 - 3 / 7)


def test_a_metric_without_its_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ragas_metrics, "find_spec", lambda name: None)
    rows = ragas_metrics.score([question("q", reference_answer="x")], [answer("q", "x")], [])
    found = {r["metric"]: (r["status"], r["reason"]) for r in rows}
    assert found["ragas_chrf"] == ("not_applicable", "not_installed")
    assert found["ragas_exact_match"] == ("scored", None)


def test_telemetry_is_off() -> None:
    ragas_metrics.score([question("q", reference_answer="x")], [answer("q", "x")], [])
    from ragas._analytics import do_not_track

    assert do_not_track()


# ------------------------------------------------------------------------------------------------------------------ judged
def test_faithfulness_is_the_share_of_statements_the_judge_supports(tmp_path: Path) -> None:
    statements = json.dumps({"statements": ["a", "b", "c", "d"]})
    outcome = asked(tmp_path, statements, verdicts(1, 1, 0, 1))
    assert (outcome.status, outcome.value) == ("scored", 0.75)
    assert "verdict" in str(outcome.explanation)


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ((STATEMENTS, verdicts(1)), "1 verdicts for 2 statements"),
        ((STATEMENTS, verdicts(1, 1, 1)), "3 verdicts for 2 statements"),
        ((STATEMENTS, verdicts(1, 2)), "neither 0 nor 1"),
        ((json.dumps({"statements": ["a", " "]}), verdicts(1, 1)), "blank"),
        (("the answer looks fine to me",), "the answer looks fine to me"),
        ((STATEMENTS, f"{verdicts(1, 1)} {verdicts(0, 0)}"), "trailing"),
        ((STATEMENTS, json.dumps({"verdicts": [1, 1]})), "statements"),
        ((json.dumps({"statements": []}),), "no statement"),
    ],
)
def test_a_reply_off_its_schema_is_a_failure_that_keeps_the_reply(tmp_path: Path, replies: tuple[str, ...], why: str) -> None:
    outcome = asked(tmp_path, *replies)
    assert (outcome.status, outcome.reason, outcome.value) == ("failed", "unparsable_judgment", None)
    assert why in str(outcome.explanation)


def test_equal_statements_are_judged_once(tmp_path: Path) -> None:
    outcome = asked(tmp_path, json.dumps({"statements": ["A is 1.", "a is 1", "B is 2."]}), verdicts(1, 0))
    assert outcome.value == 0.5


def test_what_the_endpoint_did_keeps_its_own_name(tmp_path: Path) -> None:
    late = asked(tmp_path, Play(wait=3.0), deadline_seconds=0.3)
    assert (late.status, late.reason) == ("failed", "timeout")
    assert asked(tmp_path, Play(status=400)).reason == "endpoint_failed"


def test_context_precision_of_a_perfect_order_is_exactly_one(tmp_path: Path) -> None:
    sample = {"user_input": "?", "reference": "A is 1.", "retrieved_contexts": ["A is 1.", "Z."]}
    replies = [json.dumps({"reason": "r", "verdict": v}) for v in (1, 0)]
    assert asked(tmp_path, *replies, metric="context_precision", sample=sample).value == 1.0


def test_context_recall_refuses_shares_over_one(tmp_path: Path) -> None:
    sample = {"user_input": "?", "reference": "A is 1.", "retrieved_contexts": ["A is 1."]}
    reply = json.dumps({"classifications": [{"statement": "A is 1.", "reason": "r", "attributed": 2}]})
    assert asked(tmp_path, reply, metric="context_recall", sample=sample).reason == "unparsable_judgment"


def test_factual_correctness_is_f1_of_claims_both_ways(tmp_path: Path) -> None:
    claims = [json.dumps({"claims": own}) for own in (["a", "b"], ["c", "d", "e"])]
    sample = {"response": "A is 1.", "reference": "A is 2."}
    outcome = asked(tmp_path, claims[0], verdicts(1, 0), claims[1], verdicts(1, 0, 0), metric="factual_correctness", sample=sample)
    # One claim right, one wrong, two missed: 2 / (2 + 1 + 2).
    assert outcome.value == pytest.approx(0.4)
    short = asked(tmp_path / "2", claims[0], verdicts(1), claims[1], verdicts(1, 0, 0), metric="factual_correctness", sample=sample)
    assert short.reason == "unparsable_judgment"


def test_noise_sensitivity_is_the_share_of_wrong_statements_that_a_relevant_passage_led_to(tmp_path: Path) -> None:
    sample = {"user_input": "?", "response": "x", "reference": "y", "retrieved_contexts": ["p", "q"]}
    gold, said = json.dumps({"statements": ["g"]}), json.dumps({"statements": ["s", "t"]})
    # p holds the gold statement and both of the answer's, q neither; the reference holds the first alone.
    replies = (gold, said, verdicts(1), verdicts(1, 1), verdicts(0), verdicts(0, 0), verdicts(1, 0))
    assert asked(tmp_path, *replies, metric="noise_sensitivity", sample=sample).value == 0.5
    uneven = (gold, said, verdicts(1), verdicts(1), verdicts(0), verdicts(0, 0), verdicts(1, 0))
    assert asked(tmp_path / "2", *uneven, metric="noise_sensitivity", sample=sample).reason == "unparsable_judgment"


def test_answer_relevancy_compares_three_generated_questions_and_needs_an_embedder(tmp_path: Path) -> None:
    sample = {"user_input": "What is A?", "response": "A is 1."}
    replies = [json.dumps({"question": q, "noncommittal": 0}) for q in ("What is A?", "What is A?", "Who?")]

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0] if text == "What is A?" else [0.0, 1.0] for text in texts]

    found = asked(tmp_path, *replies, metric="answer_relevancy", sample=sample, embed=embed)
    assert found.value == pytest.approx(2 / 3)
    without = asked(tmp_path, metric="answer_relevancy", sample=sample)
    assert (without.status, without.reason) == ("not_applicable", "no_embedder")


def test_a_judge_reads_the_delivered_context_and_rows_it_cannot_judge_are_typed(tmp_path: Path) -> None:
    delivered = passage(0, "d", 0, "The delivered words.")
    questions = [question(q, text="What?", gold_context="The gold words.", reference_answer="x") for q in ("a", "b", "c", "d")]
    contexts = [context("a", [delivered]), context("b", []), context("c", [delivered])]
    answers = [answer("a", "Delivered. [1]"), answer("b", "Made up."), answer("c", refused=True)]
    judge = {"metrics": ("faithfulness",), "relevance_threshold": 0.5}
    with recorded_endpoint(in_turn(json.dumps({"statements": ["Delivered."]}), verdicts(1))) as endpoint:
        opened = asking(judge_model(endpoint, tmp_path))
        rows = judged_scores(questions, answers, contexts, name="panel", judge=judge, open_judge=opened)
        again = judged_scores(questions, answers, contexts, name="panel", judge=judge, open_judge=opened)
        prompts = json.dumps(endpoint.asked)
        assert len(endpoint.asked) == 2
    assert rows == again
    states = {r["question_id"]: (r["status"], r["reason"], r["value"]) for r in rows}
    assert states == {
        "a": ("scored", None, 1.0),
        "b": ("not_applicable", "empty_context", None),
        "c": ("not_applicable", "refused", None),
        "d": ("missing", "missing_run", None),
    }
    assert {r["metric"] for r in rows} == {"ragas_faithfulness@panel"}
    assert "The delivered words." in prompts
    assert "gold words" not in prompts


def test_an_unknown_judged_metric_is_refused_by_name(tmp_path: Path) -> None:
    with recorded_endpoint(in_turn("")) as endpoint, pytest.raises(ValueError, match="no judged metric charm; known: faithfulness"):
        judged_scores([], [], [], name="panel", judge={"metrics": ("charm",)}, open_judge=asking(judge_model(endpoint, tmp_path)))
