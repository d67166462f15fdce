"""Queries written by language models of the settings, through the response store.

What belongs here: which (retriever, question) pairs are asked for, and what came of each request. What does not: prompts and reading
(`retrieval.queries`), sending (`resources.language_models`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_assets.assets._models import open_model
from rag_eval_assets.graph import Step
from rag_eval_assets.resources.language_models import Completion, LanguageModel, Request
from rag_eval_assets.retrieval.ordering import NoRanking
from rag_eval_assets.retrieval.queries import Reply, Written, messages, read
from rag_eval_assets.tables import FAILED

Unit = tuple[str, str]
"""A retriever and a question, by name and id."""


def write_queries(
    step: Step, specs: Mapping[str, Mapping[str, Any]], texts: Mapping[str, str], units: Sequence[Unit]
) -> tuple[dict[Unit, Written], Counter[str]]:
    """What models wrote for each unit whose retriever names a model, and what became of the requests.

    `texts` are questions by id. All units of a model are asked for at once, so that its spend limit holds over them together.
    """
    written: dict[Unit, Written] = {}
    counts: Counter[str] = Counter()
    for name in sorted({specs[retriever]["model"] for retriever, _ in units if "model" in specs[retriever]}):
        model = open_model(step, name)
        mine = sorted(unit for unit in units if specs[unit[0]].get("model") == name)
        requests = [Request(messages(texts[question], specs[retriever]), Reply) for retriever, question in mine]
        for unit, found in zip(mine, model.ask_many(requests, step.progress), strict=True):
            written[unit] = _written(found, specs[unit[0]], model)
        counts.update(model.counts)
    return written, counts


def _written(found: Completion[Reply], parameters: Mapping[str, Any], model: LanguageModel) -> Written:
    reply = found.reply
    counted = [n for n in (reply.prompt_tokens, reply.completion_tokens) if n is not None] if reply else []
    spent: dict[str, Any] = {"tokens": sum(counted), "cost": model.cost(reply), "seconds": reply.seconds} if reply and counted else {}
    if found.value is None:
        return Written(failure=NoRanking(FAILED, found.reason or "unparsable_reply", found.detail), **spent)
    texts = read(found.value.queries, parameters)
    return Written(failure=texts, **spent) if isinstance(texts, NoRanking) else Written(texts, **spent)
