"""Who judges: a model of the settings behind the response store, and the embedder that answer relevancy compares with.

What belongs here: from a judge's name to what `scoring` asks through. What does not: prompts and verdicts (`scoring`), sending
(`resources`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rag_eval_assets.assets._models import model_limits, open_model
from rag_eval_assets.assets._rows import Row
from rag_eval_assets.assets.embedding import open_embedder
from rag_eval_assets.graph import Step
from rag_eval_assets.resources.language_models import LanguageModel, Request
from rag_eval_assets.scoring import preference
from rag_eval_assets.scoring.judging import Ask, Judgment, Open, Prompt
from rag_eval_assets.scoring.ragas_metrics import Embed
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.versions import work_key


def judge_settings(settings: Settings) -> dict[str, Any]:
    """What judged rows depend on: the judges with their models, and limits under which rows may have failed."""
    limits = model_limits(settings, [judge.model for judge in settings.judges.values()])
    return {"judges": settings.judge_parameters, **({"judge_limits": limits} if limits else {})}


def open_judge(step: Step, name: str) -> tuple[LanguageModel, Open]:
    """The model of a judge, which counts what it is asked, and how to ask it."""
    model = open_model(step, step.settings.judges[name].model)
    return model, asking(model)


def asking(model: LanguageModel) -> Open:
    """How a judge asks a model."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Ask]:
        async with model.session() as send:

            async def ask(prompt: Prompt) -> Judgment:
                found = await send(Request(prompt.messages, prompt.schema, prompt.repeat))
                reply = found.reply
                cost = model.cost(reply) if reply else None
                return Judgment(found.value, found.reason, found.detail, reply.text if reply else None, cost)

            yield ask

    return opened


def open_vectors(step: Step, name: str) -> Embed | None:
    """The embedder of a judge as a function over texts; None where it names none, or it is not there."""
    chosen = step.settings.judges[name].embedder
    embedder = open_embedder(step, chosen) if chosen else None
    if embedder is None:
        return None

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[float(number) for number in vector] for vector in embedder.embed(list(texts), query=True)]

    return embed


def pairs_of(settings: Settings) -> dict[str, list[tuple[str, str]]]:
    """Pairs of systems by the judge that prefers between them; judges without pairs left out."""
    return {name: list(dict.fromkeys(judge.pairs)) for name, judge in sorted(settings.judges.items()) if judge.pairs}


def pair_id(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells one case, or its row of preferences, from another."""
    question = row["question_id"] if "question_id" in row else row["question"]["question_id"]
    return row["judge"], row["candidate"], row["other"], question


def pair_cases(step: Step, questions: Sequence[Row], said: Mapping[str, Mapping[str, Row]]) -> dict[str, Row]:
    """Cases of `preference.preferences` by work key: what a row depends on is the question, both answers and the judge's model."""
    found: dict[str, Row] = {}
    for judge, pairs in pairs_of(step.settings).items():
        endpoint = priceless(step.settings, judge)
        for candidate, other in pairs:
            for question in questions:
                answers = [said[system].get(question["question_id"]) for system in (candidate, other)]
                key = work_key(step.code, endpoint, judge, candidate, other, question, answers)
                names = {"judge": judge, "candidate": candidate, "other": other, "question": question}
                found[key] = {**names, "candidate_answer": answers[0], "other_answer": answers[1]}
    return found


def prefer(step: Step, cases: Sequence[Row]) -> tuple[list[Row], Counter[str]]:
    """Rows of preferences of the cases, and what became of the requests."""
    rows: list[Row] = []
    counts: Counter[str] = Counter()
    for judge in sorted({case["judge"] for case in cases}):
        model, opened = open_judge(step, judge)
        rows += preference.preferences([c for c in cases if c["judge"] == judge], open_judge=opened, on_done=step.progress)
        counts.update(model.counts)
    return rows, counts


def priceless(settings: Settings, judge: str) -> dict[str, Any]:
    """What of a judge's model shapes its verdicts: another price table asks nothing anew."""
    return {name: value for name, value in settings.models[settings.judges[judge].model].identity.items() if name != "prices"}
