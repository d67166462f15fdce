"""Contexts of chunks written by language models of the settings, through the response store.

What belongs here: which chunks of which embedders are asked for, and what came of each request. What does not: the prompt
(`resources.embedders.written_context`), sending (`resources.language_models`), embedding (`embedding`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_assets.assets._models import open_model
from rag_eval_assets.graph import Step
from rag_eval_assets.resources.embedders.protocol import Context, EmbeddingFailed
from rag_eval_assets.resources.embedders.written_context import messages, read
from rag_eval_assets.resources.language_models import Completion, LanguageModel, Request

Row = Mapping[str, Any]


def write_contexts(
    step: Step, facts: Mapping[str, Mapping[str, Any]], chunks: Sequence[tuple[str, Row]], texts: Mapping[str, str]
) -> tuple[dict[tuple[str, str], Context], Counter[str]]:
    """The context of each (embedder, row of chunks), by embedder and chunk id, and what became of the requests.

    `facts` hold what the embedders are told (model, prompt, window), `texts` documents by id. All chunks of a model are asked for at
    once, so that its spend limit holds over them together, whatever the embedders.
    """
    written: dict[tuple[str, str], Context] = {}
    counts: Counter[str] = Counter()
    for name in sorted({facts[embedder]["model"] for embedder, _ in chunks}):
        model = open_model(step, name)
        mine = [(embedder, chunk) for embedder, chunk in chunks if facts[embedder]["model"] == name]
        requests = [Request[Any](_messages(texts[chunk["doc_id"]], chunk, facts[embedder])) for embedder, chunk in mine]
        for (embedder, chunk), found in zip(mine, model.ask_many(requests, step.progress), strict=True):
            written[embedder, chunk["chunk_id"]] = _context(found, model)
        counts.update(model.counts)
    return written, counts


def _messages(document: str, chunk: Row, facts: Mapping[str, Any]) -> tuple[dict[str, str], ...]:
    return messages(document, chunk["start"], chunk["end"], prompt=facts["prompt"], window=facts["window"])


def _context(found: Completion[Any], model: LanguageModel) -> Context:
    reply = found.reply
    counted = [n for n in (reply.prompt_tokens, reply.completion_tokens) if n is not None] if reply else []
    spent: dict[str, Any] = {"tokens": sum(counted) if counted else None, "cost": model.cost(reply) if reply else None}
    text = read(reply.text) if reply and found.reason is None else None
    if text is not None:
        return Context(text, **spent)
    failure = EmbeddingFailed(found.reason or "unparsable_reply", found.detail or "the reply is blank", lasting=False)
    return Context(failure=failure, **spent)
