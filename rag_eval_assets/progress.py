"""Progress of long row work as lines of a log: how many rows are done, of how many, and the time left at the pace so far.

What belongs here: when a line is due and what it says. What does not: where it goes (a run's log, standard error) and bars on a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

EVERY_SECONDS = 10.0


class Paced:
    """Called with each row that is done; says a line every `every` seconds of one asset partition's work."""

    def __init__(self, say: Callable[[str], object], every: float = EVERY_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._every, self._clock = say, every, clock
        self._node: Any = None
        self._begun = self._last = 0.0
        self._first = 0

    def __call__(self, node: Any, done: int, total: int) -> None:
        now = self._clock()
        if node != self._node or done < self._first:
            self._node, self._begun, self._last, self._first = node, now, now, done
        if now - self._last >= self._every:
            self._last = now
            self._say(f"{node}: {done} of {total}{self._left(now, done, total)}")

    def _left(self, now: float, done: int, total: int) -> str:
        """The rows before the first call are left out of the pace: they may have been there already."""
        if done == self._first:
            return ""
        seconds = (total - done) * (now - self._begun) / (done - self._first)
        return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"
