"""What was made last, kept for the next use while it fits a bound.

What belongs here: forgetting. What does not: what is kept, and how its weight is known (each keeper says both).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key up to `bound` in weight; the one used longest ago is forgotten first, the last one put never. Thread-safe."""

    def __init__(self, bound: int) -> None:
        self._bound, self._held = bound, 0
        self._values: dict[K, tuple[V, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value, used last from now on; None where it is not kept."""
        with self._lock:
            found = self._values.pop(key, None)
            if found is None:
                return None
            self._values[key] = found
            return found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Keep a value in place of the key's former one."""
        with self._lock:
            former = self._values.pop(key, None)
            self._held += weight - (former[1] if former else 0)
            self._values[key] = (value, weight)
            while self._held > self._bound and len(self._values) > 1:
                _, dropped = self._values.pop(next(iter(self._values)))
                self._held -= dropped

    def kept(self) -> list[K]:
        """Keys, the one used longest ago first."""
        with self._lock:
            return list(self._values)
