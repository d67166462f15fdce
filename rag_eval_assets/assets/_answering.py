"""Who answers for a system: the built-in reader in this process, or a language model behind the response store.

What belongs here: from a system's spec to a function over (question, context) pairs, with the model, store and limits that settings
name. What does not: prompts and reading (`generation`), sending (`resources`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rag_eval_assets.generation import chat, readers
from rag_eval_assets.generation.answer_rows import without_reading
from rag_eval_assets.graph import Progress, Step
from rag_eval_assets.resources.language_models import ChatModel, LanguageModel, Prices, Request
from rag_eval_assets.resources.responses import ResponseStore
from rag_eval_assets.settings import Settings

Row = dict[str, Any]
Pairs = Sequence[tuple[Row, Row]]
REPLAY = 1
"""`repeat` of a replayed question: a reply of its own, beside the one the system gave."""


def reader_parameters(settings: Settings, system: str) -> dict[str, Any]:
    """What shapes a system's answers, its model included."""
    reader = settings.systems[system].reader
    own = reader.parameters
    return own if reader.model is None else {**own, "endpoint": settings.models[reader.model].identity}


def reader_limits(settings: Settings, system: str | None) -> dict[str, Any]:
    """Limits under which answers may be missing: a changed one is a reason to try again."""
    model = settings.systems[system].reader.model if system else None
    return {} if model is None else {"limits": settings.models[model].model_dump(include={"spend_limit", "deadline_seconds", "attempts"})}


def open_model(step: Step, name: str) -> LanguageModel:
    """A model of `models` with the folder's response store."""
    chosen = step.settings.models[name].model_dump()
    prices = chosen.pop("prices")
    return LanguageModel(
        ChatModel(**chosen, prices=Prices(**prices) if prices else None), ResponseStore(step.folder.stores / "responses.sqlite")
    )


def answer(step: Step, spec: Row, pairs: Pairs, counts: Counter[str] | None = None) -> list[Row]:
    """Rows of answers without work_key, one a (question, context), in order. `counts` is told of the model's requests."""
    parameters = json.loads(spec["parameters"])
    if parameters["kind"] == "chat":
        model = open_model(step, parameters["model"])
        rows = _ask(model, spec, pairs, step.progress)
        if counts is not None:
            counts.update(model.counts)
        return rows
    rows = []
    for done, (question, context) in enumerate(pairs, 1):
        rows.append(readers.read(question, context, spec))
        step.progress(done, len(pairs))
    return rows


def _ask(model: LanguageModel, spec: Row, pairs: Pairs, progress: Progress) -> list[Row]:
    rows: list[Row | None] = [without_reading(question, context, spec) for question, context in pairs]
    asked = [number for number, row in enumerate(rows) if row is None]
    requests = [Request[Any](chat.messages(*pairs[number], spec), repeat=spec.get("repeat", 0)) for number in asked]
    for number, found in zip(asked, model.ask_many(requests, progress), strict=True):
        reply = {**asdict(found.reply), "cost": model.cost(found.reply)} if found.reply else None
        rows[number] = chat.row(*pairs[number], spec, reply, found.reason, found.detail)
    return [row for row in rows if row is not None]


def replaying(step: Step) -> Callable[[Row, Row, Row], Row]:
    """Answers one question again, for a diagnosis."""
    return lambda question, context, spec: answer(step, {**spec, "repeat": REPLAY}, [(question, context)])[0]
