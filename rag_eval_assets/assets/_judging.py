"""Who judges: a model of the settings behind the response store, and the embedder that answer relevancy compares with.

What belongs here: from a judge's name to what `scoring` asks through. What does not: prompts and verdicts (`scoring`), sending
(`resources`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rag_eval_assets.assets._models import model_limits, open_model
from rag_eval_assets.assets.embedding import open_embedder
from rag_eval_assets.graph import Step
from rag_eval_assets.resources.language_models import LanguageModel, Request
from rag_eval_assets.scoring.judging import Ask, Judgment, Open, Prompt
from rag_eval_assets.scoring.ragas_metrics import Embed
from rag_eval_assets.settings import Settings


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
