"""Who answers for a system: the built-in reader in this process, or a language model behind the response store.

What belongs here: from a system's spec to a function over (question, context) pairs, with the model, store and limits that settings
name. What does not: prompts and reading (`generation`), sending (`resources`).
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from rag_eval_assets.assets._external import call_limits, external_answers
from rag_eval_assets.assets._models import model_limits, open_model
from rag_eval_assets.generation import chat, readers
from rag_eval_assets.generation.answer_rows import without_reading
from rag_eval_assets.graph import Progress, Step
from rag_eval_assets.resources.language_models import LanguageModel, Request
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.versions import canonical_json, work_key

Row = dict[str, Any]
Pairs = Sequence[tuple[Row, Row]]
BATCH = 64
"""Questions that the quoting reader answers between two reports of progress, and that a cluster is handed at once."""
ASKED = ("question_id", "text", "split", "language")
"""Columns of golden_questions that an answer depends on."""
REPLAY = 1
"""`repeat` of a replayed question: a reply of its own, beside the one the system gave."""


def builtin_spec(settings: Settings, name: str) -> Row:
    """What system_specs holds of a built-in system beside its name and kind; its reader's parameters with the model's."""
    chosen = settings.systems[name]
    model = None if chosen.reader.model is None else settings.models[chosen.reader.model]
    parameters = chosen.reader.parameters if model is None else {**chosen.reader.parameters, "endpoint": model.identity}
    taken = ("chunking", "retriever", "depth", "top_k", "token_budget", "ordering", "prompt")
    own = {field: getattr(chosen, field) for field in taken}
    return {**own, "index_version": None, "reader": model.model if model else "extractive", "parameters": canonical_json(parameters)}


def reader_limits(settings: Settings, system: str | None) -> dict[str, Any]:
    """Limits under which answers may be missing: a changed one is a reason to try again."""
    model = settings.systems[system].reader.model if system else None
    return call_limits(settings, system) if model is None else {"limits": model_limits(settings, [model])[model]}


def never_reused(spec: Row) -> str | None:
    """Part of the work keys of a class without an index version, equal to no other: what it answers from, nobody knows."""
    return uuid.uuid4().hex if spec.get("kind") == "class" and spec["index_version"] is None else None


def answer_keys(step: Step, spec: Row, pairs: Pairs) -> dict[str, tuple[Row, Row]]:
    """(question, context) by the work key of the answer: what it depends on is the system, what is asked and what is delivered."""
    never, found = never_reused(spec), {}
    for question, context in pairs:
        asked = {name: question[name] for name in ASKED}
        found[work_key(step.code, spec["answer_sha256"], never, asked, context["context_sha256"], context["status"])] = (question, context)
    return found


def answer(step: Step, spec: Row, pairs: Pairs, counts: Counter[str] | None = None) -> list[Row]:
    """Rows of answers without work_key, one a (question, context), in order. `counts` is told of the model's requests."""
    parameters = json.loads(spec["parameters"])
    if parameters["kind"] == "chat":
        model = open_model(step, parameters["model"])
        rows = _ask(model, spec, pairs, step.progress)
        if counts is not None:
            counts.update(model.counts)
        return rows
    if parameters["kind"] in ("class", "import"):
        return external_answers(step, spec, pairs)
    work, batches = partial(readers.read_batch, spec=spec), [list(pairs[at : at + BATCH]) for at in range(0, len(pairs), BATCH)]
    rows = []
    # A single batch, such as one question asked again, is not worth a journey.
    for made in step.spread(work, batches) if step.spread and len(batches) > 1 else map(work, batches):
        rows += made
        step.progress(len(rows), len(pairs))
    return rows


def _ask(model: LanguageModel, spec: Row, pairs: Pairs, progress: Progress) -> list[Row]:
    rows: list[Row | None] = [without_reading(question, context, spec) for question, context in pairs]
    asked = [number for number, row in enumerate(rows) if row is None]
    requests = [Request[Any](chat.messages(*pairs[number], spec), repeat=spec.get("repeat", 0)) for number in asked]
    for number, found in zip(asked, model.ask_many(requests, progress), strict=True):
        reply = {**asdict(found.reply), "cost": model.cost(found.reply)} if found.reply else None
        row = chat.row(*pairs[number], spec, reply, found.reason, found.detail)
        rows[number] = {**row, "origin": "store" if found.reused else "asked"}
    return [row for row in rows if row is not None]
