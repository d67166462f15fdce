"""How far a number of tokens reaches in a text: the arithmetic that every sized strategy shares.

What belongs here: counting tokens between two characters, forwards and backwards. What does not: where it is good to cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np


class Budget:
    """Token arithmetic over one text. A token counts for a span when it lies in it, wholly or partly."""

    def __init__(self, tokens: np.ndarray, length: int) -> None:
        """`tokens` is an (n, 2) array of character spans whose columns never run backwards; `length` is the text's."""
        # Lists: a bisection in a list is ten times cheaper than one call into numpy.
        self._starts: list[int] = tokens[:, 0].tolist()
        self._ends: list[int] = tokens[:, 1].tolist()
        self.length = length

    def count(self, start: int, end: int) -> int:
        """Tokens that lie in [start, end), wholly or partly."""
        return bisect_left(self._starts, end) - bisect_right(self._ends, start)

    def furthest(self, start: int, tokens: int) -> int:
        """The largest end for which [start, end) holds at most `tokens` tokens; at least one character, so that loops end."""
        index = bisect_right(self._ends, start) + tokens
        return max(self._starts[index], start + 1) if index < len(self._starts) else self.length

    def earliest(self, end: int, tokens: int) -> int:
        """The start of the longest run of at most `tokens` tokens up to `end`: where a token starts, `end` itself for none."""
        after = bisect_left(self._starts, end)
        first = after - tokens
        if first <= 0:
            return 0
        # What stands between two tokens belongs to the one before; a character shared with it cannot be had.
        return end if first == after else min(max(self._starts[first], self._ends[first - 1]), end)

    def starts_between(self, start: int, end: int) -> list[int]:
        """Characters in (start, end) where a token starts, ascending, each once."""
        found = self._starts[bisect_right(self._starts, start) : bisect_left(self._starts, end)]
        return list(dict.fromkeys(found))


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the white space at its ends; empty where it is all white space."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())
