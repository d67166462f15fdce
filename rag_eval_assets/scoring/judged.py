"""Scores that a judge model gives: which rows it is asked about, and its outcomes as rows of system_scores.

What belongs here: names of judged metrics, and why a row cannot be judged. What does not: requests and verdicts (`ragas_metrics`,
`claim_judge`), and whether the judge may be believed (`judges`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from rag_eval_assets.scoring import claim_judge, ragas_metrics
from rag_eval_assets.scoring.judging import Ask, Open, judge_all
from rag_eval_assets.scoring.outcomes import Outcome, Row, blocked, not_applicable, score_row
from rag_eval_assets.scoring.ragas_metrics import JUDGED_METRICS, Embed

METRICS = (*JUDGED_METRICS, *claim_judge.METRICS)
"""Metrics that settings may ask of a judge."""

SIMILARITIES = ("answer_relevancy",)
"""Those of them that are cosines of vectors: a wrong number and a dropped negation look alike to one, so none may gate."""


def judged_name(metric: str, judge: str) -> str:
    """Name of a judged metric in system_scores."""
    return f"{'ragas_' if metric in JUDGED_METRICS else ''}{metric}@{judge}"


def judge_of(metric: str) -> str | None:
    """The judge that gives a metric of system_scores; None where none does."""
    return metric.rpartition("@")[2] if "@" in metric else None


def judged_scores(
    questions: Sequence[Row],
    answers: Sequence[Row],
    contexts: Sequence[Row],
    *,
    name: str,
    judge: Mapping[str, Any],
    open_judge: Open,
    embed: Embed | None = None,
    wanted: Mapping[str, Collection[str]] | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Rows of system_scores for the metrics of one judge, one a question and metric, whatever the judge replies.

    `wanted` gives the metrics to judge of each question; without it all are judged of all. `judge` holds metrics (of `METRICS`; ValueError
    for another) and relevance_threshold. A judgment that did not come, or is none, is a failed row with what came instead.
    """
    unknown = sorted(set(judge["metrics"]) - set(METRICS))
    if unknown:
        raise ValueError(f"judge {name!r}: no judged metric {', '.join(unknown)}; known: {', '.join(METRICS)}")
    answer_of = {row["question_id"]: row for row in answers}
    context_of = {row["question_id"]: row for row in contexts}
    ordered = sorted(questions, key=lambda q: q["question_id"])
    metrics = {q["question_id"]: sorted(judge["metrics"] if wanted is None else wanted.get(q["question_id"], ())) for q in ordered}
    ordered = [q for q in ordered if metrics[q["question_id"]]]
    work = [
        _work(q, answer_of.get(q["question_id"]), context_of.get(q["question_id"]), {**judge, "metrics": metrics[q["question_id"]]}, embed)
        for q in ordered
    ]
    found = judge_all(open_judge, work, on_done)
    return [
        score_row(question, judged_name(metric, name), "question", _stage(metric), outcomes[metric])
        for question, outcomes in zip(ordered, found, strict=True)
        for metric in metrics[question["question_id"]]
    ]


def _work(
    question: Row, answer: Row | None, context: Row | None, judge: Mapping[str, Any], embed: Embed | None
) -> Callable[[Ask], Awaitable[dict[str, Outcome]]]:
    ragas = [m for m in judge["metrics"] if m in JUDGED_METRICS]
    claims = [m for m in judge["metrics"] if m not in JUDGED_METRICS]
    case = claim_judge.case_of(question, answer, context, _stopped(question, answer, context))

    async def judge_row(ask: Ask) -> dict[str, Outcome]:
        found = await claim_judge.prepared(case, claims, threshold=judge["relevance_threshold"])(ask)
        for metric in ragas:
            stopped = ragas_metrics.not_judged(metric, question, answer, context)
            if stopped is None and context is not None:
                sample = ragas_metrics.sample_of(metric, question, answer, context)
                stopped = await ragas_metrics.judge_one(ask, metric, sample, embed=embed)
            assert stopped is not None
            found[metric] = stopped
        return found

    return judge_row


def _stopped(question: Row, answer: Row | None, context: Row | None) -> dict[str, Outcome]:
    response = blocked(answer) or (not_applicable("refused") if answer and answer["refused"] else None)
    chunks = blocked(context) or (None if context and context["passages"] else not_applicable("empty_context"))
    found = {"response": response, "reference": ragas_metrics.without_reference(question), claim_judge.CHUNKS: chunks}
    return {part: outcome for part, outcome in found.items() if outcome is not None}


def _stage(metric: str) -> str:
    return ragas_metrics.stage(metric) if metric in JUDGED_METRICS else claim_judge.stage(metric)
