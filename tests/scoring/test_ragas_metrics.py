"""ragas: its string metrics open no socket; its judged ones never turn a bad reply into a number.

The judge here is a server on the loopback that plays recorded replies. It is no model, and no value below comes from one.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rag_eval_assets.scoring import ragas_metrics
from rag_eval_assets.scoring.judges import judge_audit
from tests.scoring.builders import Row, answer, complete, context, passage, question

SAMPLE = {"user_input": "What is A?", "response": "A is 1. B is 2.", "retrieved_contexts": ["A is 1."]}
STATEMENTS = json.dumps({"statements": ["A is 1.", "B is 2."]})


def verdicts(*values: int) -> str:
    return json.dumps({"statements": [{"statement": "s", "reason": "r", "verdict": v} for v in values]})


class Recorded(BaseHTTPRequestHandler):
    """Answers each chat request with the next recorded reply; a number is a delay in seconds."""

    replies: list[str | float]
    asked: list[dict[str, Any]]

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        reply = self.replies.pop(0)
        if isinstance(reply, float):
            time.sleep(reply)
            reply = "late"
        message = {"role": "assistant", "content": reply}
        body = {"id": "x", "object": "chat.completion", "created": 0, "model": "recorded", "choices": [{"index": 0, "message": message}]}
        body["choices"][0]["finish_reason"] = "stop"
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@pytest.fixture
def judge() -> Iterator[dict[str, Any]]:
    handler = type("Handler", (Recorded,), {"replies": [], "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield {
        "model": "recorded",
        "base_url": f"http://127.0.0.1:{server.server_port}/v1",
        "key_variable": "NO_SUCH_KEY",
        "metrics": ("faithfulness",),
        "handler": handler,
    }
    server.shutdown()
    server.server_close()


def asked(judge: dict[str, Any], *replies: str | float, metric: str = "faithfulness", sample: Row = SAMPLE, seconds: float = 20.0) -> Any:
    judge["handler"].replies[:] = replies
    return ragas_metrics.ask([(metric, sample)], judge, seconds=seconds)[0]


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
def test_faithfulness_is_the_share_of_statements_the_judge_supports(judge: dict[str, Any]) -> None:
    statements = json.dumps({"statements": ["a", "b", "c", "d"]})
    outcome = asked(judge, statements, verdicts(1, 1, 0, 1))
    assert (outcome.status, outcome.value) == ("scored", 0.75)
    assert "verdict" in outcome.explanation


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
    ],
)
def test_a_reply_off_its_schema_is_a_failure_that_keeps_the_reply(judge: dict[str, Any], replies: tuple[str, ...], why: str) -> None:
    outcome = asked(judge, *replies)
    assert (outcome.status, outcome.reason, outcome.value) == ("failed", "unparsable_judgment", None)
    assert why in outcome.explanation


def test_an_answer_in_which_the_judge_finds_no_statement_is_not_a_number(judge: dict[str, Any]) -> None:
    outcome = asked(judge, json.dumps({"statements": []}))
    assert outcome.status == "failed"
    assert outcome.value is None


def test_equal_statements_are_judged_once(judge: dict[str, Any]) -> None:
    outcome = asked(judge, json.dumps({"statements": ["A is 1.", "a is 1", "B is 2."]}), verdicts(1, 0))
    assert outcome.value == 0.5


def test_each_row_has_a_deadline(judge: dict[str, Any]) -> None:
    asked(judge, STATEMENTS, verdicts(1, 1))
    started = time.perf_counter()
    outcome = asked(judge, 3.0, seconds=0.5)
    assert (outcome.status, outcome.reason) == ("failed", "timeout")
    assert time.perf_counter() - started < 2.5


def test_an_endpoint_that_is_not_there_is_a_typed_failure(judge: dict[str, Any]) -> None:
    outcome = asked({**judge, "base_url": "http://127.0.0.1:9/v1"})
    assert (outcome.status, outcome.reason) == ("failed", "crashed")


def test_context_precision_of_a_perfect_order_is_exactly_one(judge: dict[str, Any]) -> None:
    sample = {"user_input": "?", "reference": "A is 1.", "retrieved_contexts": ["A is 1.", "Z."]}
    replies = [json.dumps({"reason": "r", "verdict": v}) for v in (1, 0)]
    assert asked(judge, *replies, metric="context_precision", sample=sample).value == 1.0


def test_context_recall_refuses_shares_over_one(judge: dict[str, Any]) -> None:
    sample = {"user_input": "?", "reference": "A is 1.", "retrieved_contexts": ["A is 1."]}
    reply = json.dumps({"classifications": [{"statement": "A is 1.", "reason": "r", "attributed": 2}]})
    assert asked(judge, reply, metric="context_recall", sample=sample).reason == "unparsable_judgment"


def test_a_judge_reads_the_delivered_context_and_rows_it_cannot_judge_are_typed(judge: dict[str, Any]) -> None:
    delivered = passage(0, "d", 0, "The delivered words.")
    questions = [question(q, text="What?", gold_context="The gold words.", reference_answer="x") for q in ("a", "b", "c", "d")]
    contexts = [context("a", [delivered]), context("b", []), context("c", [delivered])]
    answers = [answer("a", "Delivered. [1]"), answer("b", "Made up."), answer("c", refused=True)]
    judge["handler"].replies[:] = [json.dumps({"statements": ["Delivered."]}), verdicts(1)]
    seen: list[tuple[int, int]] = []
    rows = ragas_metrics.judged(questions, answers, contexts, name="panel", judge=judge, on_done=lambda *at: seen.append(at))
    states = {r["question_id"]: (r["status"], r["reason"], r["value"]) for r in rows}
    assert states == {
        "a": ("scored", None, 1.0),
        "b": ("not_applicable", "empty_context", None),
        "c": ("not_applicable", "refused", None),
        "d": ("missing", "missing_run", None),
    }
    assert {r["metric"] for r in rows} == {"ragas_faithfulness@panel"}
    prompts = " ".join(message["content"] for body in judge["handler"].asked for message in body["messages"])
    assert "The delivered words." in prompts
    assert "gold words" not in prompts
    assert seen == [(1, 1)]


def test_an_unknown_judged_metric_is_refused_by_name(judge: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no judged metric charm; known: faithfulness"):
        ragas_metrics.judged([], [], [], name="panel", judge={**judge, "metrics": ("charm",)})


# ------------------------------------------------------------------------------------------------------------------- audit
def label(number: int, value: str) -> Row:
    own = {"label_id": f"l{number:03d}", "kind": "judgment", "value": value, "question_id": "q", "doc_id": "d"}
    return complete("quality_labels", **own, answer=f"claim {number}", quotation="A is 1.")


def test_a_judge_that_always_approves_is_known_bad(judge: dict[str, Any]) -> None:
    labels = [label(i, "yes" if i < 4 else "no") for i in range(6)]
    one = json.dumps({"statements": ["s"]})

    def always(samples: Any, own: Any) -> Any:
        return [asked(own, one, verdicts(1), sample=sample) for _, sample in samples]

    found = {r["measure"]: r for r in judge_audit(labels, {"panel": judge}, ask=always)}
    assert found["accuracy"]["value"] == pytest.approx(4 / 6)
    assert found["kappa"]["value"] == pytest.approx(0)
    assert found["false_approval_rate"]["value"] == 1
    assert found["false_rejection_rate"]["value"] == 0
    assert not any(r["may_gate"] for r in found.values())


def test_without_a_judge_the_audit_says_so_in_one_row() -> None:
    (row,) = judge_audit([label(1, "yes")], {})
    assert (row["judge"], row["status"], row["reason"], row["may_gate"]) == ("none", "not_applicable", "no_judge", False)


def test_a_judge_without_labels_is_not_measured(judge: dict[str, Any]) -> None:
    assert {r["reason"] for r in judge_audit([], {"panel": judge})} == {"no_labels"}


def test_failed_judgments_earn_no_credit_and_enough_agreement_may_gate() -> None:
    from rag_eval_assets.scoring.outcomes import Outcome, failed

    labels = [label(i, "yes" if i % 2 else "no") for i in range(100)]

    def perfect(samples: Any, judge: Any) -> list[Outcome]:
        return [Outcome(float(row["value"] == "yes")) for row in labels]

    def silent(samples: Any, judge: Any) -> list[Outcome]:
        return [failed("timeout")] * len(samples)

    good = {r["measure"]: r for r in judge_audit(labels, {"panel": {}}, ask=perfect)}
    assert good["accuracy"]["value"] == good["kappa"]["value"] == 1
    assert good["accuracy"]["may_gate"]
    bad = {r["measure"]: r for r in judge_audit(labels, {"panel": {}}, ask=silent)}
    assert bad["accuracy"]["value"] == 0
    assert "100 of 100" in bad["accuracy"]["detail"]
