"""An answer is as well supported as its sentences are by their best passages, and a scorer gates only past a threshold people confirm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from rag_eval_assets.resources.scorers import load_scorer
from rag_eval_assets.scoring.corrected import corrected_rates
from rag_eval_assets.scoring.entailment import AUDIT_MEASURES, METRIC, audit, entailment_scores
from rag_eval_assets.scoring.judges import audited_metric, may_gate
from rag_eval_assets.tables import REASONS, TABLES
from tests.resources.tiny_onnx import write_classifier
from tests.scoring.builders import Row, answer, complete, context, passage, question, score

PASSAGES = [passage(0, "d", 0, "The lid is red."), passage(1, "e", 0, "The cord is short.")]


def table(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Probabilities that are looked up, so that a test can say what they are."""
    known = {
        ("The lid is red.", "The lid is red."): 0.9, ("The cord is short.", "The lid is red."): 0.2,
        ("The lid is red.", "The cord is long."): 0.1, ("The cord is short.", "The cord is long."): 0.3,
    }  # fmt: skip
    return [known[pair] for pair in pairs]


def scored(given: Row | None, delivered: Row | None, score: object = table) -> Row:
    answers, contexts = ({"q": r} if r else {} for r in (given, delivered))
    (row,) = entailment_scores([question()], answers, contexts, "nli", score)  # type: ignore[arg-type]
    assert set(row) == set(TABLES["system_scores"].columns)
    assert row["metric"] == "entailment@nli"
    assert row["reason"] is None or row["reason"] in REASONS
    return row


def test_a_sentence_counts_by_its_best_passage_and_an_answer_by_the_mean() -> None:
    row = scored(answer("q", "The lid is red. [1] The cord is long. [2]"), context("q", PASSAGES))
    assert row["value"] == pytest.approx((0.9 + 0.3) / 2)
    assert [(s["value"], s["position"]) for s in json.loads(row["explanation"])] == [(0.9, 0), (0.3, 1)]


@pytest.mark.parametrize(
    ("given", "delivered", "status", "reason"),
    [
        (None, context("q", PASSAGES), "missing", "missing_run"),
        (answer("q", refused=True), context("q", PASSAGES), "not_applicable", "refused"),
        (answer("q", "[1]"), context("q", PASSAGES), "not_applicable", "no_claims"),
        (answer("q", "The lid is red."), context("q", []), "not_applicable", "empty_context"),
        (answer("q", status="failed", reason="timeout"), context("q", PASSAGES), "failed", "timeout"),
    ],
)
def test_what_cannot_be_held_against_passages_is_typed(given: Row | None, delivered: Row, status: str, reason: str) -> None:
    row = scored(given, delivered)
    assert (row["status"], row["reason"], row["value"]) == (status, reason, None)


def test_a_scorer_that_is_not_there_raises_or_gives_no_probability_never_gives_a_score() -> None:
    def broken(pairs: Sequence[tuple[str, str]]) -> list[float]:
        raise RuntimeError("out of memory")

    whole = answer("q", "The lid is red."), context("q", PASSAGES)
    for own, status, reason in (
        (None, "not_applicable", "not_installed"),
        (broken, "failed", "crashed"),
        (lambda pairs: [float("nan")] * len(pairs), "failed", "non_finite_score"),
        (lambda pairs: [1.5] * len(pairs), "failed", "non_finite_score"),
        (lambda pairs: [0.5], "failed", "unusable_reply"),
    ):
        row = scored(*whole, own)
        assert (row["status"], row["reason"], row["value"]) == (status, reason, None)


def test_a_real_classifier_tells_a_dropped_negation_from_what_the_passage_says(tmp_path: Path) -> None:
    # Known good and known bad for a model that knows "not" alone: supported without it, unsupported with it.
    write_classifier(tmp_path, {"lid": (0.5,), "red": (0.5,), "not": (-6.0,)})
    loaded = load_scorer(
        {"kind": "onnx", "model": "model.onnx", "tokenizer": "tokenizer.json", "entailment": 0, "max_tokens": 32}, tmp_path
    )
    assert loaded is not None
    good, bad = (
        scored(answer("q", text), context("q", PASSAGES), loaded.score)["value"] for text in ("The lid is red.", "The lid is not red.")
    )
    assert good > 0.5 > bad


# ---------------------------------------------------------------------------------------------------------------- audit
def label(number: int, value: str) -> Row:
    own = {"label_id": f"l{number:03d}", "kind": "judgment", "value": value, "doc_id": "d"}
    return complete("quality_labels", **own, answer=f"Answer {number}.", quotation=f"Passage {number}.")


def graded(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The number in the passage as a probability: 0 to 9 give 0 to .9."""
    return [int(premise.split()[1].rstrip(".")) % 10 / 10 for premise, _ in pairs]


def test_a_threshold_that_people_confirm_gates_and_the_best_one_is_suggested() -> None:
    labels = [label(n, "yes" if n % 10 >= 6 else "no") for n in range(60)]
    rows = {r["measure"]: r for r in audit(labels, "nli", graded, 0.6)}
    assert set(rows) == set(AUDIT_MEASURES)
    assert all(set(r) == set(TABLES["judge_audit"].columns) for r in rows.values())
    assert (rows["accuracy"]["value"], rows["sensitivity"]["value"], rows["specificity"]["value"]) == (1.0, 1.0, 1.0)
    assert rows["suggested_threshold"]["value"] == 0.6
    assert may_gate(rows.values()) == {("nli", METRIC)}
    assert audited_metric("entailment@nli") == METRIC
    # At .8 it misses the 12 labels at .6 and .7 of the 24 that people approve.
    strict = {r["measure"]: r for r in audit(labels, "nli", graded, 0.8)}
    assert (strict["false_rejection_rate"]["value"], strict["accuracy"]["value"]) == (0.5, pytest.approx(48 / 60))
    assert may_gate(strict.values()) == set()


def test_without_a_threshold_labels_or_a_model_nothing_may_gate() -> None:
    labels = [label(n, "yes" if n % 10 >= 6 else "no") for n in range(60)]
    rows = {r["measure"]: r for r in audit(labels, "nli", graded, None)}
    assert {rows[m]["reason"] for m in AUDIT_MEASURES[:6]} == {"no_threshold"}
    assert rows["suggested_threshold"]["value"] == 0.6
    assert may_gate(rows.values()) == set()
    assert {r["reason"] for r in audit(labels, "nli", None, 0.5)} == {"not_installed"}
    assert {r["reason"] for r in audit([], "nli", graded, 0.5)} == {"no_labels"}


def test_scores_that_fail_are_errors_of_the_scorer() -> None:
    rows = {r["measure"]: r for r in audit([label(1, "yes"), label(9, "no")], "nli", lambda pairs: [float("nan")], 0.5)}
    assert (rows["accuracy"]["value"], rows["accuracy"]["detail"]) == (0.0, "2 of 2 scores failed")


def test_a_rate_is_corrected_at_the_scorers_own_threshold() -> None:
    labels = [label(n, "yes" if n % 10 >= 6 else "no") for n in range(60)]
    scores = [score(f"q{n}", "entailment@nli", n / 10) for n in range(10)]
    (row,) = corrected_rates(scores, audit(labels, "nli", graded, 0.6))
    assert (row["apparent"], row["value"]) == (0.4, pytest.approx(0.4))
