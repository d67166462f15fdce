"""Metrics of ragas: its string measures, which need no model, and its judged ones over an OpenAI-compatible endpoint.

What belongs here: calling ragas so that nothing leaves the machine but a configured judge's requests, and checking what comes back.
What does not: measures of our own (`answers`) and whether a judge may be believed (`judges`).

A reply that does not follow its schema is a failed row with the reply kept, never NaN. ragas takes seconds to import, so it is imported
where a row is scored. Its BLEU is left out: it pairs sentences by number and breaks where an answer has another number of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from rag_eval_assets.scoring import texts
from rag_eval_assets.scoring.outcomes import Outcome, Row, blocked, failed, not_applicable, score_row
from rag_eval_assets.tables import SCORED

STRING_METRICS = {
    "ragas_exact_match": ("ExactMatch", None),
    "ragas_string_presence": ("StringPresence", None),
    "ragas_string_similarity": ("NonLLMStringSimilarity", "rapidfuzz"),
    "ragas_rouge_l": ("RougeScore", "rouge_score"),
    "ragas_chrf": ("CHRFScore", "sacrebleu"),
}
"""Metrics that need no model: ragas's class, and the library it needs beside ragas."""

JUDGED_METRICS = {
    "faithfulness": ("Faithfulness", ("user_input", "response", "retrieved_contexts")),
    "context_recall": ("ContextRecall", ("user_input", "retrieved_contexts", "reference")),
    "context_precision": ("ContextPrecisionWithReference", ("user_input", "reference", "retrieved_contexts")),
}
"""Metrics that a judge model gives: ragas's class and its arguments."""

SECONDS = 60.0
"""Time limit of one judged row."""

PARALLEL = 4
"""Judged rows in flight at once."""


def score(questions: list[dict[str, Any]], answers: list[dict[str, Any]], contexts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of system_scores for `STRING_METRICS`, against the reference answer. Opens no socket.

    A refusal scores 0 with reason refused; without a reference answer the measures do not apply; a metric whose library is not
    installed is not_applicable, reason not_installed.
    """
    answer_of = {row["question_id"]: row for row in answers}
    measures = {name: _string_metric(*wanted) for name, wanted in STRING_METRICS.items()}
    rows = []
    for question in sorted(questions, key=lambda q: q["question_id"]):
        answer = answer_of.get(question["question_id"])
        for name, measure in measures.items():
            outcome = blocked(answer) or _without_reference(question)
            if outcome is None and answer is not None:
                outcome = _string_score(measure, question["reference_answer"].strip(), answer)
            assert outcome is not None
            rows.append(score_row(question, name, "question", "answer", outcome))
    return rows


def _string_score(measure: Callable[[str, str], float] | None, reference: str, answer: Row) -> Outcome:
    if measure is None:
        return not_applicable("not_installed")
    if answer["refused"]:
        return Outcome(0.0, SCORED, "refused")
    return Outcome(measure(reference, texts.without_markers(answer["answer"])))


def judged_name(metric: str, judge: str) -> str:
    """Name of a judged metric in system_scores."""
    return f"ragas_{metric}@{judge}"


def judged(
    questions: list[dict[str, Any]],
    answers: list[dict[str, Any]],
    contexts: list[dict[str, Any]],
    *,
    name: str,
    judge: Mapping[str, Any],
    seconds: float = SECONDS,
    on_done: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Rows of system_scores for the metrics of one judge, named ragas_<metric>@<judge>.

    `judge` holds model, base_url, key_variable (environment variable of the key) and metrics (of `JUDGED_METRICS`; ValueError for
    another). Each row has its own deadline. Fails per row: timeout; unparsable_judgment, where the reply does not follow its schema,
    a verdict is neither 0 nor 1, or the verdicts are not one a statement; crashed, where the endpoint cannot be reached.
    """
    unknown = sorted(set(judge["metrics"]) - set(JUDGED_METRICS))
    if unknown:
        raise ValueError(f"judge {name!r}: no judged metric {', '.join(unknown)}; known: {', '.join(JUDGED_METRICS)}")
    answer_of = {row["question_id"]: row for row in answers}
    context_of = {row["question_id"]: row for row in contexts}
    metrics = sorted(judge["metrics"])
    outcomes: dict[tuple[str, str], Outcome] = {}
    samples: dict[tuple[str, str], dict[str, Any]] = {}
    for question in questions:
        key = question["question_id"]
        for metric in metrics:
            stopped = _not_judged(metric, question, answer_of.get(key), context_of.get(key))
            if stopped is not None:
                outcomes[metric, key] = stopped
            else:
                samples[metric, key] = _sample(metric, question, answer_of.get(key), context_of[key])
    verdicts = ask([(metric, sample) for (metric, _), sample in samples.items()], judge, seconds=seconds, on_done=on_done)
    outcomes.update(zip(samples, verdicts, strict=True))
    return [
        score_row(question, judged_name(metric, name), "question", _stage(metric), outcomes[metric, question["question_id"]])
        for question in sorted(questions, key=lambda q: q["question_id"])
        for metric in metrics
    ]


def ask(
    samples: Sequence[tuple[str, Mapping[str, Any]]],
    judge: Mapping[str, Any],
    *,
    seconds: float = SECONDS,
    on_done: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """One outcome per (metric of `JUDGED_METRICS`, its arguments), in order, from the judge's endpoint."""
    import asyncio

    return asyncio.run(_ask(samples, judge, seconds, on_done)) if samples else []


async def _ask(
    samples: Sequence[tuple[str, Mapping[str, Any]]],
    judge: Mapping[str, Any],
    seconds: float,
    on_done: Callable[[int, int], None] | None,
) -> list[Outcome]:
    import asyncio

    collections = _ragas()
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory

    # A local server asks for no key, and the client does not start without one.
    key = os.environ.get(judge["key_variable"]) or "none"
    gate, done = asyncio.Semaphore(PARALLEL), 0
    async with AsyncOpenAI(base_url=judge["base_url"], api_key=key, timeout=seconds, max_retries=0) as client:
        # Asking again by itself would hide how often a judge fails.
        model = llm_factory(judge["model"], client=client, max_retries=0)

        async def one(metric: str, sample: Mapping[str, Any]) -> Outcome:
            nonlocal done
            witness = _witness(model)
            scorer = getattr(collections, JUDGED_METRICS[metric][0])(llm=witness)
            async with gate:
                outcome = await _judge(scorer, metric, sample, witness.replies, seconds)
            done += 1
            if on_done:
                on_done(done, len(samples))
            return outcome

        return list(await asyncio.gather(*(one(metric, sample) for metric, sample in samples)))


async def _judge(scorer: Any, metric: str, sample: Mapping[str, Any], replies: list[Any], seconds: float) -> Outcome:
    import asyncio

    import openai
    from instructor.core.exceptions import InstructorError

    try:
        result = await asyncio.wait_for(scorer.ascore(**sample), seconds)
    except TimeoutError:
        return failed("timeout", f"no verdict in {seconds:g} s")
    except InstructorError as error:
        if isinstance(error.__cause__, openai.APITimeoutError):
            return failed("timeout", f"no verdict in {seconds:g} s")
        if isinstance(error.__cause__, openai.APIError):
            return failed("crashed", _short(error))
        return failed("unparsable_judgment", _short(error))
    except Exception as error:  # noqa: BLE001  the endpoint's client may raise anything, and the row says what
        return failed("crashed", _short(error))
    value, fault = _verdict(metric, replies)
    if fault or value is None:
        return failed("unparsable_judgment", f"{fault}: {_replies(replies)}")
    if abs(value - float(result.value)) > 1e-6:
        return failed("unparsable_judgment", f"ragas read {result.value} from {_replies(replies)}")
    return Outcome(value, explanation=_replies(replies))


def _verdict(metric: str, replies: list[Any]) -> tuple[float | None, str | None]:
    """The value that a judge's own replies give, or what is wrong with them."""
    if metric == "context_precision":
        verdicts = [r.verdict for r in replies]
    elif metric == "context_recall":
        verdicts = [c.attributed for c in replies[-1].classifications]
    else:
        statements, judgements = replies[0].statements, replies[-1].statements
        if len(replies) != 2 or len(statements) != len(judgements):
            return None, f"{len(judgements)} verdicts for {len(statements)} statements"
        if any(not s.strip() for s in statements):
            return None, "a blank statement"
        verdicts = [j.verdict for j in judgements]
    if not verdicts:
        return None, "no verdict"
    if any(v not in (0, 1) for v in verdicts):
        return None, "a verdict is neither 0 nor 1"
    if metric != "context_precision":
        return sum(verdicts) / len(verdicts), None
    # Average precision over the delivered order, from the verdicts: ragas's own adds 1e-10 below and never reaches 1.
    found = [sum(verdicts[: i + 1]) / (i + 1) for i, v in enumerate(verdicts) if v]
    return (sum(found) / len(found) if found else 0.0), None


def _witness(model: Any) -> Any:
    """The model, keeping each reply it gave, with statements said twice merged before they are judged."""
    from ragas.llms.base import InstructorBaseRagasLLM

    class Witness(InstructorBaseRagasLLM):
        def __init__(self) -> None:
            self.replies: list[Any] = []

        def generate(self, prompt: str, response_model: type[Any]) -> Any:
            raise NotImplementedError("judges are asked asynchronously")

        async def agenerate(self, prompt: str, response_model: type[Any]) -> Any:
            reply = await model.agenerate(prompt, response_model)
            statements = getattr(reply, "statements", None)
            if statements and all(isinstance(s, str) for s in statements):
                distinct = {" ".join(texts.words(s)): s for s in reversed(statements)}
                reply = reply.model_copy(update={"statements": list(reversed(distinct.values()))})
            self.replies.append(reply)
            return reply

    return Witness()


def _not_judged(metric: str, question: Row, answer: Row | None, context: Row | None) -> Outcome | None:
    needs = JUDGED_METRICS[metric][1]
    stopped = blocked(context)
    if stopped is None and "response" in needs:
        stopped = blocked(answer)
        if stopped is None and answer is not None and answer["refused"]:
            stopped = not_applicable("refused")
    if stopped is None and "reference" in needs:
        stopped = _without_reference(question)
    if stopped is None and context is not None and not context["passages"]:
        stopped = not_applicable("empty_context")
    if stopped is None and "response" in needs and answer is not None and not texts.without_markers(answer["answer"]):
        stopped = not_applicable("no_claims")
    return stopped


def _sample(metric: str, question: Row, answer: Row | None, context: Row) -> dict[str, Any]:
    known = {
        "user_input": question["text"],
        "response": texts.without_markers(answer["answer"]) if answer else None,
        "retrieved_contexts": [p["text"] for p in context["passages"]],
        "reference": question["reference_answer"],
    }
    return {name: known[name] for name in JUDGED_METRICS[metric][1]}


def _stage(metric: str) -> str:
    return "answer" if metric == "faithfulness" else "context"


def _without_reference(question: Row) -> Outcome | None:
    if not question["answerable"]:
        return not_applicable("unanswerable")
    return None if (question["reference_answer"] or "").strip() else not_applicable("no_gold_answer")


def _string_metric(class_name: str, library: str | None) -> Callable[[str, str], float] | None:
    if library is not None and find_spec(library) is None:
        return None
    metric = getattr(_ragas(), class_name)()
    return lambda reference, response: float(_finish(metric.ascore(reference=reference, response=response)).value)


def _finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Result of a coroutine that waits for nothing. An event loop would open a socket pair for each call."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return finished.value
    coroutine.close()
    raise RuntimeError("a string metric of ragas waits for something")


def _ragas() -> Any:
    # Read once by ragas, at its first import: later is too late.
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    import ragas.metrics.collections as collections

    return collections


def _replies(replies: list[Any]) -> str:
    return json.dumps([r.model_dump() for r in replies], ensure_ascii=False, sort_keys=True)


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:1000]
