"""Language models behind OpenAI-compatible chat endpoints: every request through the response store, bounded in time, number and money.

What belongs here: when a call is sent, sent again or given up, and whether its reply may be used. What does not: keeping replies
(`responses`), the bytes of the protocol (`chat_protocol`), prompts and what an answer means.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from rag_eval_assets.resources import chat_protocol
from rag_eval_assets.resources.chat_protocol import CallError
from rag_eval_assets.resources.responses import (
    NO_REPLY,
    REFUSED,
    Journal,
    Reply,
    ResponseStore,
    beginning,
    keeping,
    response_key,
    settling,
)

TOKENS_PER_MESSAGE = 16
"""Tokens that a chat template adds to a message, at most; a text itself has no more tokens than UTF-8 bytes."""

Value = TypeVar("Value", bound=BaseModel)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Prices:
    """Price of a million tokens, in whatever currency the user counts in."""

    prompt: float
    completion: float

    def cost(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Cost of one call; None where the endpoint reported no usage."""
        if prompt_tokens is None or completion_tokens is None:
            return None
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True)
class ChatModel:
    """A model at an endpoint. Limits never enter a key: a reply received under one deadline is the same under another."""

    model: str
    base_url: str
    key_variable: str | None = None
    temperature: float | None = 0.0
    seed: int | None = 7
    max_tokens: int | None = 512
    parameters: Mapping[str, Any] = field(default_factory=dict)
    accepts: tuple[str, ...] = ()
    stream: bool = True
    refresh: str = ""
    prices: Prices | None = None
    deadline_seconds: float = 60.0
    concurrency: int = 4
    spend_limit: float | None = None
    attempts: int = 5
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 60.0

    @cached_property
    def sampling(self) -> dict[str, Any]:
        """The parameters of a request that shape its reply."""
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        return {**{name: value for name, value in own.items() if value is not None}, **self.parameters}


@dataclass(frozen=True)
class Request(Generic[Value]):
    """What to ask. With a `schema` the reply must be one JSON value of it and nothing else; `repeat` asks the same once more."""

    messages: tuple[Mapping[str, str], ...]
    schema: type[Value] | None = None
    repeat: int = 0

    @cached_property
    def json_schema(self) -> dict[str, Any] | None:
        """The schema, closed: every field of every object is required and no other allowed, as strict structured output wants it."""
        return None if self.schema is None else _closed(self.schema.model_json_schema())


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    shut = {name: _closed(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict):
        shut |= {"additionalProperties": False, "required": list(schema["properties"])}
    return shut


@dataclass(frozen=True)
class Completion(Generic[Value]):
    """How a request ended: a usable reply, or a reason of the closed list. A received reply stands beside its reason too."""

    reply: Reply | None
    reason: str | None = None
    detail: str | None = None
    value: Value | None = None
    reused: bool = False


class LanguageModel:
    """One model with its store. `counts` says what became of the requests: reused, asked, retried, failed."""

    def __init__(self, model: ChatModel, store: ResponseStore) -> None:
        self.model = model
        self.store = store
        self.counts: Counter[str] = Counter()
        self.spent = 0.0

    def ask_many(self, requests: Sequence[Request[Value]], on_done: Progress | None = None) -> list[Completion[Value]]:
        """One completion a request, in order; equal requests are asked once. Nothing raises: every failure is a typed completion."""
        keys = [self.key(request) for request in requests]
        known = self.store.get_many(keys, self.model.refresh)
        wanted = {key: request for key, request in zip(keys, requests, strict=True) if key not in known}
        self.counts["reused"] += len(set(keys)) - len(wanted)
        made = asyncio.run(self._ask_all(wanted, on_done)) if wanted else {}
        return [
            replace(self._read(request, known[key]), reused=True) if key in known else made[key]
            for key, request in zip(keys, requests, strict=True)
        ]

    def key(self, request: Request[Any]) -> str:
        """The request's name in the store."""
        chosen = self.model
        return response_key(chosen.base_url, chosen.model, request.messages, chosen.sampling, request.json_schema, request.repeat)

    def cost(self, reply: Reply) -> float | None:
        """Cost of a reply by the price table of now; None without one, or without reported usage."""
        return self.model.prices.cost(reply.prompt_tokens, reply.completion_tokens) if self.model.prices else None

    async def _ask_all(self, wanted: Mapping[str, Request[Value]], on_done: Progress | None) -> dict[str, Completion[Value]]:
        found: dict[str, Completion[Value]] = {}
        async with self.session() as ask, asyncio.TaskGroup() as group:

            async def one(key: str, request: Request[Value]) -> None:
                found[key] = await ask(request)
                if on_done:
                    on_done(len(found), len(wanted))

            for key, request in wanted.items():
                group.create_task(one(key, request))
                await asyncio.sleep(0)  # calls go out while the rest is still being lined up
        return found

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Callable[[Request[Any]], Awaitable[Completion[Any]]]]:
        """A function that gives one completion a request, for requests that follow from earlier replies. The store is looked in first,
        equal requests are sent once, and the model's limits hold over the whole session."""
        chosen = self.model
        secret = os.environ.get(chosen.key_variable) if chosen.key_variable else None
        purse, in_turn = _Purse(chosen.spend_limit), defaultdict[str, asyncio.Lock](asyncio.Lock)
        async with chat_protocol.Endpoint(chosen.base_url, secret) as endpoint:
            caller = _Caller(endpoint, asyncio.Semaphore(chosen.concurrency), purse, Journal(self.store))

            async def ask(request: Request[Any]) -> Completion[Any]:
                key = self.key(request)
                async with in_turn[key]:
                    known = self.store.get_many([key], chosen.refresh)
                    if known:
                        self.counts["reused"] += 1
                        return replace(self._read(request, known[key]), reused=True)
                    if chosen.key_variable and not secret:
                        found = Completion[Any](None, "no_key", f"the environment variable {chosen.key_variable} is not set")
                    else:
                        found = await self._ask(caller, key, request)
                self.counts["failed"] += found.reason is not None
                return found

            try:
                yield ask
            finally:
                self.spent += purse.spent
                caller.journal.close()

    async def _ask(self, caller: _Caller, key: str, request: Request[Value]) -> Completion[Value]:
        chosen, purse, journal = self.model, caller.purse, caller.journal
        most = self._most(request)
        # Not `hash`: it differs from process to process.
        draw = random.Random(f"{chosen.seed}:{key}")
        for attempt in range(1, chosen.attempts + 1):
            # Between attempts the place at the endpoint is another request's. A call's end is handed over before its place is, so that
            # the store never holds more open calls than there are places.
            async with caller.gate:
                if not await purse.reserve(most):
                    told = f"spend_limit {chosen.spend_limit:g} leaves no room for a call of at most {most:.6g}"
                    return Completion(None, "spend_limit", told)
                call = await journal.post(beginning(key, chosen.base_url, chosen.model))
                self.counts["asked" if attempt == 1 else "retried"] += 1
                received = await self._received(caller, call, request)
                if isinstance(received, Reply):
                    cost = self.cost(received)
                    kept = journal.post(keeping(call, key, replace(received, cost=cost, attempts=attempt), chosen.refresh))
                else:
                    cost = None if received.sent else 0.0
                    settled = journal.post(settling(call, NO_REPLY if received.sent else REFUSED))
            await purse.settle(most, most if cost is None else cost)
            if isinstance(received, Reply):
                return self._read(request, await kept)
            await settled
            if not received.again or attempt == chosen.attempts:
                return Completion(None, received.reason, f"{received}; attempt {attempt} of {chosen.attempts}")
            await asyncio.sleep(self._wait(draw, attempt, received.retry_after))
        raise AssertionError("the last attempt returns")

    async def _received(self, caller: _Caller, call: int, request: Request[Any]) -> Reply | CallError:
        """The reply of a call that was begun, or why there is none."""
        chosen = self.model
        try:
            async with asyncio.timeout(chosen.deadline_seconds):
                return await caller.endpoint.chat(chosen.model, request.messages, chosen.sampling, request.json_schema, chosen.stream)
        except TimeoutError:
            return CallError("timeout", f"no whole reply in {chosen.deadline_seconds:g} s", again=False, sent=True)
        except CallError as error:
            return error
        except asyncio.CancelledError:
            caller.journal.post(settling(call, NO_REPLY))
            raise

    def _wait(self, draw: random.Random, attempt: int, retry_after: float | None) -> float:
        """Seconds before the next attempt: what the endpoint asked for, or doubling from the first wait, each drawn from its upper half."""
        own = self.model.first_wait_seconds * 2.0 ** (attempt - 1) * draw.uniform(0.5, 1.0)
        return min(self.model.longest_wait_seconds, max(own, retry_after or 0.0))

    def _most(self, request: Request[Any]) -> float:
        """What one call may cost at most."""
        prices = self.model.prices
        if prices is None:
            return 0.0
        sent = sum(len(m["content"].encode()) + TOKENS_PER_MESSAGE for m in request.messages)
        sampling = self.model.sampling
        return prices.cost(sent, int(sampling.get("max_tokens") or sampling.get("max_completion_tokens") or 0)) or 0.0

    def _read(self, request: Request[Value], reply: Reply) -> Completion[Value]:
        """Whether a reply may be used, and the value of its schema."""
        if reply.model is not None and reply.model not in (self.model.model, *self.model.accepts):
            detail = f"{reply.model!r} replied in place of {self.model.model!r}; 'accepts' names models that may"
            return Completion(reply, "wrong_model", detail)
        if reply.finish_reason == "length":
            return Completion(reply, "truncated_reply", f"the reply was cut at {reply.completion_tokens} tokens; raise max_tokens")
        if reply.finish_reason == "content_filter":
            return Completion(reply, "withheld_reply", "the endpoint's content filter withheld the reply")
        if request.schema is None:
            return Completion(reply)
        try:
            return Completion(reply, value=request.schema.model_validate_json(reply.text, strict=True))
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'reply'}: {e['msg']}" for e in error.errors(include_url=False)[:5])
            return Completion(reply, "unparsable_reply", told)


@dataclass(frozen=True)
class _Caller:
    """What the calls of one session share. `gate` has a place for each call that may be in flight."""

    endpoint: chat_protocol.Endpoint
    gate: asyncio.Semaphore
    purse: _Purse
    journal: Journal


class _Purse:
    """Money of one run. A call reserves the most it may cost, so that the limit holds whatever comes back at once."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.spent = 0.0
        self._reserved = 0.0
        self._changed = asyncio.Condition()

    async def reserve(self, most: float) -> bool:
        """Whether there is room for a call; waits while calls in flight may yet leave some."""
        async with self._changed:
            while self.limit is not None and self.spent + self._reserved + most > self.limit:
                if self._reserved == 0 or self.spent + most > self.limit:
                    return False
                await self._changed.wait()
            self._reserved += most
            return True

    async def settle(self, most: float, cost: float) -> None:
        async with self._changed:
            self._reserved = max(0.0, self._reserved - most)
            self.spent += cost
            self._changed.notify_all()
