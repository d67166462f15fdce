"""An answer held sentence by sentence against its passages by an entailment scorer (NLI, HHEM), and the audit of that scorer.

What belongs here: pairs of premise and hypothesis, and what their probabilities say of an answer. What does not: the model
(`resources.scorers`) and judges that are asked in words (`claim_judge`).

A sentence's value is its best passage's, an answer's the mean over its sentences, as in SummaC's zero-shot form (Laban et al. 2022).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingestion.rates import clopper_pearson
from rag_eval_assets.scoring import texts
from rag_eval_assets.scoring.judges import ENTAILMENT, MINIMUM_ACCURACY, MINIMUM_LABELS, approved_by_people, audit_row, usable_labels
from rag_eval_assets.scoring.outcomes import Outcome, Row, blocked, failed, not_applicable, score_row

METRIC = ENTAILMENT
AUDIT_MEASURES = (
    "accuracy", "false_approval_rate", "false_rejection_rate", "sensitivity", "specificity", "threshold", "suggested_threshold",
)  # fmt: skip

Score = Callable[[Sequence[tuple[str, str]]], Sequence[float]]
"""Probability, 0 to 1, that a premise supports a hypothesis, one a pair."""


def entailment_scores(
    questions: Sequence[Row],
    answers: Mapping[str, Row],
    contexts: Mapping[str, Row],
    name: str,
    score: Score | None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Any]]:
    """Rows of system_scores of `METRIC`, one a question, in order of questions; answers and contexts by question id.

    Without a scorer, not_applicable, not_installed. A scorer that raises is a failed row, crashed; a number that is no probability one,
    non_finite_score.
    """
    rows = []
    for done, question in enumerate(questions, 1):
        key = question["question_id"]
        outcome = _outcome(answers.get(key), contexts.get(key), score)
        rows.append(score_row(question, f"{METRIC}@{name}", "question", "answer", outcome))
        on_done(done, len(questions))
    return rows


def _outcome(answer: Row | None, context: Row | None, score: Score | None) -> Outcome:
    stopped = blocked(answer) or (not_applicable("refused") if answer and answer["refused"] else None) or blocked(context)
    if stopped is not None:
        return stopped
    assert answer is not None
    assert context is not None
    if not context["passages"]:
        return not_applicable("empty_context")
    said = _sentences(answer["answer"])
    if not said:
        return not_applicable("no_claims")
    if score is None:
        return not_applicable("not_installed")
    passages = [p["text"] for p in sorted(context["passages"], key=lambda p: p["position"])]
    found = _probabilities(said, passages, score)
    if isinstance(found, Outcome):
        return found
    told = [{"sentence": s, "value": max(row), "position": row.index(max(row))} for s, row in zip(said, found, strict=True)]
    return Outcome(math.fsum(max(row) for row in found) / len(found), explanation=json.dumps(told, ensure_ascii=False))


def _sentences(answer: str) -> list[str]:
    return [s for s in (" ".join(texts.without_markers(s).split()) for s in texts.sentences(answer)) if texts.words(s)]


def _probabilities(said: Sequence[str], passages: Sequence[str], score: Score) -> list[list[float]] | Outcome:
    """For each sentence one probability a passage, or what went wrong."""
    pairs = [(passage, sentence) for sentence in said for passage in passages]
    try:
        found = [float(value) for value in score(pairs)]
    except Exception as error:  # noqa: BLE001 - a model or function of the user's own may raise anything
        return failed("crashed", f"{type(error).__name__}: {error}"[:1000])
    if len(found) != len(pairs):
        return failed("unusable_reply", f"{len(found)} numbers for {len(pairs)} pairs")
    if not all(math.isfinite(value) and 0 <= value <= 1 for value in found):
        return failed("non_finite_score", "a score is no probability from 0 to 1")
    return [found[start : start + len(passages)] for start in range(0, len(found), len(passages))]


def audit(labels: Sequence[Row], name: str, score: Score | None, threshold: float | None) -> list[dict[str, Any]]:
    """Rows of judge_audit of metric `METRIC`: `AUDIT_MEASURES` over the labels of kind judgment, an answer held against its quotation.

    An answer is approved from `threshold` on; without one nothing can be approved (no_threshold) and the scorer may not gate.
    suggested_threshold is the value at which sensitivity and specificity add up to most (Youden 1950; of equal ones the lowest): chosen on
    these labels, so labels of its own must confirm it. A score that failed counts as an error.
    """
    usable = usable_labels(labels)
    if score is None or not usable:
        reason = "not_installed" if score is None else "no_labels"
        return [audit_row(name, METRIC, m, 0, False, reason=reason) for m in AUDIT_MEASURES]
    people = [approved_by_people(r) for r in usable]
    values = [_value(r, score) for r in usable]
    known = [(v, human) for v, human in zip(values, people, strict=True) if v is not None]
    told = f"{len(values) - len(known)} of {len(values)} scores failed" if len(known) < len(values) else None
    suggested = _youden(known)
    if threshold is None:
        rates = dict.fromkeys(AUDIT_MEASURES[:5], (0, 0))
    else:
        verdicts = [v >= threshold if v is not None else not human for v, human in zip(values, people, strict=True)]
        rates = {
            "accuracy": (sum(v == p for v, p in zip(verdicts, people, strict=True)), len(people)),
            "false_approval_rate": (sum(v and not p for v, p in zip(verdicts, people, strict=True)), people.count(False)),
            "false_rejection_rate": (sum(p and not v for v, p in zip(verdicts, people, strict=True)), people.count(True)),
            "sensitivity": (sum(human and v >= threshold for v, human in known), sum(human for _, human in known)),
            "specificity": (sum(not human and v < threshold for v, human in known), sum(not human for _, human in known)),
        }
    right, n = rates["accuracy"]
    passes = n >= MINIMUM_LABELS and clopper_pearson(right, n)[0] >= MINIMUM_ACCURACY
    without = "no_threshold" if threshold is None else "no_labels"
    rows = [
        audit_row(name, METRIC, measure, of, passes, count / of, clopper_pearson(count, of), None, told)
        if of
        else audit_row(name, METRIC, measure, 0, passes, reason=without, detail=told)
        for measure, (count, of) in rates.items()
    ]
    for measure, value, reason in (("threshold", threshold, "no_threshold"), ("suggested_threshold", suggested, "no_labels")):
        rows.append(audit_row(name, METRIC, measure, len(known), passes, value, reason=None if value is not None else reason, detail=told))
    return rows


def _value(label: Row, score: Score) -> float | None:
    said = _sentences(label["answer"])
    found = _probabilities(said, [label["quotation"]], score) if said else None
    return None if found is None or isinstance(found, Outcome) else math.fsum(row[0] for row in found) / len(found)


def _youden(known: Sequence[tuple[float, bool]]) -> float | None:
    """None where people approve everything or nothing."""
    approved, rejected = sum(human for _, human in known), sum(not human for _, human in known)
    if not approved or not rejected:
        return None

    def index(threshold: float) -> float:
        hit = sum(human and v >= threshold for v, human in known) / approved
        return hit + sum(not human and v < threshold for v, human in known) / rejected

    return max(sorted({v for v, _ in known}), key=lambda threshold: (index(threshold), -threshold))
