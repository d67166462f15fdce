"""Metrics of ragas: its string measures, which need no model, and its judged ones through whatever asks the judge.

What belongs here: calling ragas so that nothing leaves the machine but what the judge is asked, and checking what comes back.
What does not: measures of our own (`answers`) and whether a judge may be believed (`judges`).

A reply that does not follow its schema is a failed row with the reply kept, never NaN. ragas takes seconds to import, so it is imported
where a row is scored. Its BLEU is left out: it pairs sentences by number and breaks where an answer has another number of them.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from rag_eval_assets.scoring import texts
from rag_eval_assets.scoring.judging import Ask, Prompt, Unjudged, judged
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
    "answer_relevancy": ("AnswerRelevancy", ("user_input", "response")),
    "factual_correctness": ("FactualCorrectness", ("response", "reference")),
    "noise_sensitivity": ("NoiseSensitivity", ("user_input", "response", "reference", "retrieved_contexts")),
}
"""Metrics that a judge model gives: ragas's class and its arguments."""

REPEATS = 100
"""More equal requests than one row of a metric makes."""

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]


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
            outcome = blocked(answer) or without_reference(question)
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


async def judge_one(ask: Ask, metric: str, sample: Mapping[str, Any], *, embed: Embed | None = None, repeat: int = 0) -> Outcome:
    """The outcome of one metric of `JUDGED_METRICS` from its arguments, every request of ragas sent by `ask`.

    Fails as the judgment did; unparsable_judgment where a verdict is neither 0 nor 1, or the verdicts are not one a statement. Without
    `embed`, answer relevancy is not_applicable, no_embedder.
    """
    collections = _ragas()
    witness = _witness(ask, repeat)
    own: dict[str, Any] = {"llm": witness}
    if metric == "answer_relevancy":
        if embed is None:
            return not_applicable("no_embedder")
        own["embeddings"] = _vectors(embed)
    try:
        result = await getattr(collections, JUDGED_METRICS[metric][0])(**own).ascore(**sample)
    except Unjudged as error:
        return error.outcome
    except ValueError as error:  # numpy's, where a judge gave another number of verdicts than statements
        return failed("unparsable_judgment", f"{_short(error)}: {_replies(witness.replies)}")
    value, fault = _verdict(metric, witness.replies, sample)
    if metric == "answer_relevancy" and fault is None:
        value = max(0.0, float(result.value)) if math.isfinite(float(result.value)) else None
    if fault or value is None:
        return failed("unparsable_judgment", f"{fault or 'no number'}: {_replies(witness.replies)}")
    # ragas rounds factual correctness to two digits.
    if abs(value - float(result.value)) > (0.0051 if metric == "factual_correctness" else 1e-6) and metric != "answer_relevancy":
        return failed("unparsable_judgment", f"ragas read {result.value} from {_replies(witness.replies)}")
    return Outcome(value, explanation=_replies(witness.replies))


def _verdict(metric: str, replies: list[Any], sample: Mapping[str, Any]) -> tuple[float | None, str | None]:
    """The value that a judge's own replies give, or what is wrong with them."""
    if metric == "context_precision":
        verdicts = [r.verdict for r in replies]
    elif metric == "context_recall":
        verdicts = [c.attributed for c in replies[-1].classifications]
    elif metric == "answer_relevancy":
        flags = [r.noncommittal for r in replies]
        blank = any(not r.question.strip() for r in replies)
        return None, "a blank question" if blank else "a flag is neither 0 nor 1" if any(f not in (0, 1) for f in flags) else None
    else:
        return _of_statements(metric, replies, sample)
    if not verdicts:
        return None, "no verdict"
    if any(v not in (0, 1) for v in verdicts):
        return None, "a verdict is neither 0 nor 1"
    if metric != "context_precision":
        return sum(verdicts) / len(verdicts), None
    # Average precision over the delivered order, from the verdicts: ragas's own adds 1e-10 below and never reaches 1.
    found = [sum(verdicts[: i + 1]) / (i + 1) for i, v in enumerate(verdicts) if v]
    return (sum(found) / len(found) if found else 0.0), None


def _of_statements(metric: str, replies: list[Any], sample: Mapping[str, Any]) -> tuple[float | None, str | None]:
    """The same of metrics that split texts into statements: each list of verdicts is on one list of statements, in full."""
    lists = [getattr(r, "claims", None) or getattr(r, "statements", []) for r in replies]
    chunks = len(sample.get("retrieved_contexts") or ())
    # Which reply is a split, and which of these each list of verdicts is on, in the order in which ragas asks.
    splits, on = {
        "faithfulness": ((0,), (0,)),
        "factual_correctness": ((0, 2), (0, 2)),
        "noise_sensitivity": ((0, 1), (*(0, 1) * chunks, 1)),
    }[metric]
    judged = [row for number, row in enumerate(lists) if number not in splits]
    if len(judged) != len(on):
        return None, "no statement, or no verdict"
    for split, row in zip(on, judged, strict=True):
        if not row or len(row) != len(lists[split]):
            return None, f"{len(row)} verdicts for {len(lists[split])} statements"
        if any(j.verdict not in (0, 1) for j in row):
            return None, "a verdict is neither 0 nor 1"
    if any(not s.strip() for split in splits for s in lists[split]):
        return None, "a blank statement"
    held = [[bool(j.verdict) for j in row] for row in judged]
    if metric == "faithfulness":
        return sum(held[0]) / len(held[0]), None
    if metric == "factual_correctness":
        right, wrong, missed = sum(held[0]), held[0].count(False), held[1].count(False)
        return 2 * right / (2 * right + wrong + missed), None
    # Share of the answer's statements that the reference does not hold though a passage does that also holds some of the reference.
    led = [any(own[n] and any(gold) for gold, own in zip(held[0:-1:2], held[1:-1:2], strict=True)) for n in range(len(held[-1]))]
    return sum(by and not true for by, true in zip(led, held[-1], strict=True)) / len(led), None


def _witness(ask: Ask, repeat: int) -> Any:
    """A model for ragas that asks the judge, keeping each reply, with statements said twice merged before they are judged."""
    from ragas.llms.base import InstructorBaseRagasLLM

    class Witness(InstructorBaseRagasLLM):
        def __init__(self) -> None:
            self.replies: list[Any] = []
            self.asked: Counter[str] = Counter()

        def generate(self, prompt: str, response_model: type[Any]) -> Any:
            raise NotImplementedError("judges are asked asynchronously")

        async def agenerate(self, prompt: str, response_model: type[Any]) -> Any:
            # The same prompt again within one row wants another reply; every repeat of the row has its own.
            number = REPEATS * repeat + self.asked[prompt]
            self.asked[prompt] += 1
            found = await judged(ask, Prompt(({"role": "user", "content": prompt},), response_model, number))
            reply: Any = found.value
            for field in ("statements", "claims"):
                said = getattr(reply, field, None)
                if said and all(isinstance(s, str) for s in said):
                    distinct = {" ".join(texts.words(s)): s for s in reversed(said)}
                    reply = reply.model_copy(update={field: list(reversed(distinct.values()))})
            self.replies.append(reply)
            return reply

    return Witness()


def _vectors(embed: Embed) -> Any:
    """An embedder for ragas from a function over texts."""
    from ragas.embeddings.base import BaseRagasEmbedding

    class Vectors(BaseRagasEmbedding):
        def embed_text(self, text: str, **_: Any) -> list[float]:
            return list(embed([text])[0])

        async def aembed_text(self, text: str, **_: Any) -> list[float]:
            return self.embed_text(text)

        async def aembed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
            return [list(vector) for vector in embed(texts)]

    return Vectors()


def not_judged(metric: str, question: Row, answer: Row | None, context: Row | None) -> Outcome | None:
    needs = JUDGED_METRICS[metric][1]
    stopped = blocked(context)
    if stopped is None and "response" in needs:
        stopped = blocked(answer)
        if stopped is None and answer is not None and answer["refused"]:
            stopped = not_applicable("refused")
    if stopped is None and "reference" in needs:
        stopped = without_reference(question)
    if stopped is None and context is not None and not context["passages"]:
        stopped = not_applicable("empty_context")
    if stopped is None and "response" in needs and answer is not None and not texts.without_markers(answer["answer"]):
        stopped = not_applicable("no_claims")
    return stopped


def sample_of(metric: str, question: Row, answer: Row | None, context: Row) -> dict[str, Any]:
    known = {
        "user_input": question["text"],
        "response": texts.without_markers(answer["answer"]) if answer else None,
        "retrieved_contexts": [p["text"] for p in context["passages"]],
        "reference": question["reference_answer"],
    }
    return {name: known[name] for name in JUDGED_METRICS[metric][1]}


def stage(metric: str) -> str:
    return "context" if metric in ("context_recall", "context_precision") else "answer"


def without_reference(question: Row) -> Outcome | None:
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
