"""A system of one's own behind a time limit: a call that hangs costs its own question, and no other.

What belongs here: the thread in which such a system lives, and leaving it behind. What does not: what is called (`own_systems`). A thread
cannot be ended from outside: one that hangs in Python stays idle or busy beside the others until the process ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

Result = TypeVar("Result")
_Reply = SimpleQueue[tuple[bool, Any]]
_Jobs = SimpleQueue["tuple[Callable[[Any], Any], _Reply] | None"]


class Deadlined:
    """A system that is made and called in one thread of its own, so that what it binds to a thread (a connection, say) works.

    After a call that passed its limit the next call finds a system made anew, in another thread. Making has no limit: a model may
    take its time to load.
    """

    def __init__(self, make: Callable[[], Any], seconds: float) -> None:
        self.make, self.seconds = make, seconds
        self._jobs: _Jobs | None = None

    def __enter__(self) -> Deadlined:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._leave()

    def call(self, call: Callable[[Any], Result]) -> Result:
        """What `call` makes of the system. Raises TimeoutError after the limit, and whatever making or calling raises."""
        if self._jobs is None:
            jobs: _Jobs = SimpleQueue()
            made: _Reply = SimpleQueue()
            threading.Thread(target=_serve, args=(self.make, made, jobs), daemon=True).start()
            _result(made.get())
            self._jobs = jobs
        reply: _Reply = SimpleQueue()
        self._jobs.put((call, reply))
        try:
            found = reply.get(timeout=self.seconds)
        except Empty:
            self._leave()
            raise TimeoutError(f"no answer within {self.seconds:g} s") from None
        result: Result = _result(found)
        return result

    def _leave(self) -> None:
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None


def _serve(make: Callable[[], Any], made: _Reply, jobs: _Jobs) -> None:
    try:
        system = make()
    except BaseException as error:  # noqa: BLE001  raised again where it was asked for
        made.put((False, error))
        return
    made.put((True, None))
    while (job := jobs.get()) is not None:
        call, reply = job
        try:
            reply.put((True, call(system)))
        except BaseException as error:  # noqa: BLE001
            reply.put((False, error))


def _result(found: tuple[bool, Any]) -> Any:
    well, value = found
    if not well:
        raise value
    return value
