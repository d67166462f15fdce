"""The response store: what a language model replied, kept for good in one SQLite file, with every call that was made for it.

What belongs here: intents, replies, generations, and which calls may have been paid for nothing. What does not: sending (`language_models`)
and what a reply means. Unlike a cache it holds what cost money: a damaged file is set aside, never removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import queue
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rag_eval_assets.resources.stores import KEYS_PER_QUERY, SqliteFile

RESPONSES = "responses.sqlite"
"""The store's file among a folder's stores."""

IN_FLIGHT = "in_flight"
REPLIED = "replied"
NO_REPLY = "no_reply"  # sent, and nothing whole came back: a deadline, a connection that broke
REFUSED = "refused"  # the endpoint said no, which nobody charges for

Found = TypeVar("Found")
Work = Callable[[sqlite3.Connection], Found]
"""Part of a transaction, for `ResponseStore.write` or a `Journal`."""


class DamagedReplyError(RuntimeError):
    """A stored reply that is not as it was kept; it names the file, the key and the mend."""


@dataclass(frozen=True)
class Reply:
    """One received reply. `seconds` from sending to the last byte of the call that succeeded, `first_token_seconds` to the first
    text (null where the reply was not streamed); tokens as the endpoint reported them; `cost` by the price table of that moment."""

    text: str
    finish_reason: str | None
    model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    first_token_seconds: float | None
    cost: float | None
    attempts: int
    received_at: str
    generation: int = 0

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)


_REPLY = TypeAdapter(Reply)


@dataclass(frozen=True)
class Call:
    """A call that was sent without a reply being kept: it may have been paid for."""

    key: str
    endpoint: str
    model: str
    sent_at: str
    outcome: str


@dataclass(frozen=True)
class Totals:
    """What one model at one endpoint replied, over all generations. `cost` sums the replies whose cost was known, `costed` of them."""

    endpoint: str
    model: str
    replies: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    costed: int


def response_key(
    endpoint: str, model: str, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], schema: Any, repeat: int
) -> str:
    """SHA-256 of all that a reply depends on, 64 hex digits. `repeat` tells apart the repeats of one request."""
    parts = [endpoint, model, list(messages), dict(parameters), schema, repeat]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()).hexdigest()


class ResponseStore(SqliteFile):
    """Replies by key and generation, and an intent for every call, written before it is sent.

    A commit reaches the disk before the call returns: what was received survives a kill and a power cut. A reply is never overwritten;
    asking again under another `refresh` label adds a generation, and reading without a label gives the latest one.
    """

    SYNCHRONOUS = "FULL"
    TABLES = (
        "CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY, key TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL, "
        "owner TEXT NOT NULL, sent_at TEXT NOT NULL, outcome TEXT NOT NULL)",
        "CREATE INDEX IF NOT EXISTS calls_outcome ON calls (outcome)",
        "CREATE TABLE IF NOT EXISTS replies (key TEXT NOT NULL, generation INTEGER NOT NULL, refresh TEXT NOT NULL, reply TEXT NOT NULL, "
        "PRIMARY KEY (key, generation)) WITHOUT ROWID",
    )

    def get_many(self, keys: Sequence[str], refresh: str = "") -> dict[str, Reply]:
        """The latest reply of each key that has one; with a `refresh` label, the latest received under that label alone."""
        wanted = list(dict.fromkeys(keys))

        def read(connection: sqlite3.Connection) -> dict[str, Reply]:
            found: dict[str, Reply] = {}
            for start in range(0, len(wanted), KEYS_PER_QUERY):
                part = wanted[start : start + KEYS_PER_QUERY]
                rows = connection.execute(
                    f"SELECT key, generation, reply FROM replies WHERE key IN ({','.join('?' * len(part))}) AND (? = '' OR refresh = ?) "
                    "ORDER BY key, generation",
                    [*part, refresh, refresh],
                )
                found.update((key, self._read(key, generation, reply)) for key, generation, reply in rows)
            return found

        found = self._whole(read)
        return {key: found[key] for key in wanted if key in found}

    def _read(self, key: str, generation: int, reply: str) -> Reply:
        try:
            return replace(_REPLY.validate_json(reply), generation=generation)
        except ValidationError as error:
            raise DamagedReplyError(
                f"{self.path}: the stored reply {key[:16]}, generation {generation}, is not as it was kept ({error.error_count()} faults); "
                "restore the file from a copy, or delete that row of the table replies: the model is then asked, and paid, again"
            ) from None

    def possibly_paid(self) -> list[Call]:
        """Calls that were sent and brought no reply, oldest first: broken off, or in flight when their process was killed."""
        asked = "SELECT key, endpoint, model, sent_at, outcome, owner FROM calls WHERE outcome IN (?, ?) ORDER BY id"
        rows = self._whole(lambda connection: connection.execute(asked, (IN_FLIGHT, NO_REPLY)).fetchall())
        return [Call(*row[:5]) for row in rows if row[4] == NO_REPLY or not _alive(row[5])]

    def totals(self) -> list[Totals]:
        """Replies, tokens and cost by endpoint and model, in their order."""
        fields = ", ".join(f"coalesce(sum(json_extract(reply, '$.{name}')), 0)" for name in ("prompt_tokens", "completion_tokens", "cost"))
        asked = (
            f"SELECT endpoint, model, count(*), {fields}, count(json_extract(reply, '$.cost')) FROM replies "
            "JOIN (SELECT DISTINCT key, endpoint, model FROM calls) USING (key) GROUP BY endpoint, model ORDER BY endpoint, model"
        )
        return self._whole(lambda connection: [Totals(*row) for row in connection.execute(asked).fetchall()])

    def __len__(self) -> int:
        return self._whole(lambda connection: int(connection.execute("SELECT count(*) FROM replies").fetchone()[0]))

    def _put_away(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(f"{self.path}{suffix}"):
                os.replace(f"{self.path}{suffix}", f"{self.path}.damaged-{stamp}{suffix}")


def beginning(key: str, endpoint: str, model: str) -> Work[int]:
    """What records that a call is about to be sent; it gives the call's number."""
    values = (key, endpoint, model, _owner(os.getpid()), _now(), IN_FLIGHT)
    insert = "INSERT INTO calls (key, endpoint, model, owner, sent_at, outcome) VALUES (?, ?, ?, ?, ?, ?)"
    return lambda connection: int(connection.execute(insert, values).lastrowid or 0)


def settling(call: int, outcome: str) -> Work[None]:
    """What records how a call ended that brought no reply."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE calls SET outcome = ? WHERE id = ?", (outcome, call))

    return work


def keeping(call: int, key: str, reply: Reply, refresh: str = "") -> Work[Reply]:
    """What keeps a reply under the key's next generation, together with its call's end; it gives the reply with its generation."""
    content = {name: value for name, value in vars(reply).items() if name != "generation"}
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)

    def work(connection: sqlite3.Connection) -> Reply:
        latest = connection.execute("SELECT max(generation) FROM replies WHERE key = ?", (key,)).fetchone()[0]
        generation = 0 if latest is None else latest + 1
        connection.execute("INSERT INTO replies VALUES (?, ?, ?, ?)", (key, generation, refresh, text))
        settling(call, REPLIED)(connection)
        return replace(reply, generation=generation)

    return work


class Journal:
    """Writes of many calls at once, from one thread: those that wait together reach the disk in one commit.

    A commit waits for the disk, and calls that waited for one each would keep the endpoint idle. It belongs to the running event loop;
    what was handed over before `close` is written, whatever became of who waits for it.
    """

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[tuple[Work[Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def post(self, work: Work[Found]) -> Awaitable[Found]:
        """Hand over `work`; awaiting gives what it gives once that is on the disk, or raises what the commit raised."""
        done: asyncio.Future[Found] = self._loop.create_future()
        self._waiting.put((work, done))
        return asyncio.shield(done)

    def close(self) -> None:
        """Wait until everything is written."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            together = [self._waiting.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    together.append(self._waiting.get_nowait())
            handed = [one for one in together if one is not None]
            going = len(handed) == len(together)
            found: list[Any] | Exception
            try:
                found = self._store.write(lambda connection, handed=handed: [work(connection) for work, _ in handed])
            except Exception as error:  # noqa: BLE001  all of them failed, and each is told
                found = error
            self._loop.call_soon_threadsafe(_tell, [done for _, done in handed], found)
        self._store.close()


def _tell(done: Sequence[asyncio.Future[Any]], found: list[Any] | Exception) -> None:
    for number, one in enumerate(done):
        if isinstance(found, Exception):
            one.set_exception(found)
        else:
            one.set_result(found[number])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@cache
def _owner(pid: int) -> str:
    """A process, told apart from a later one of the same number by when it began."""
    import psutil

    return f"{pid}@{psutil.Process(pid).create_time():.2f}"


def _alive(owner: str) -> bool:
    import psutil

    pid, _, began = owner.partition("@")
    try:
        return f"{psutil.Process(int(pid)).create_time():.2f}" == began
    except psutil.Error:
        return False
