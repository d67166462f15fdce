"""How far a number of tokens reaches in a text: the arithmetic that every sized strategy shares.

What belongs here: counting tokens between two characters, forwards and backwards. What does not: where it is good to cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]


def view(numbers: Ints) -> memoryview[int]:
    """The numbers, for bisections: several times cheaper over a view than one call into numpy, and a view copies nothing."""
    return memoryview(numbers)  # type: ignore[arg-type]


class Budget:
    """Token arithmetic over one text. A token counts for a span when it lies in it, wholly or partly."""

    def __init__(self, tokens: np.ndarray, length: int) -> None:
        """`tokens` is an (n, 2) array of character spans whose columns never run backwards; `length` is the text's."""
        self.tokens, self.length = tokens, length
        self._token_starts: Ints = np.ascontiguousarray(tokens[:, 0], dtype=np.int32)
        self._token_ends: Ints = np.ascontiguousarray(tokens[:, 1], dtype=np.int32)
        self._starts, self._ends = view(self._token_starts), view(self._token_ends)

    def count(self, start: int, end: int) -> int:
        """Tokens that lie in [start, end), wholly or partly."""
        return self.begun(end) - self.past(start)

    def past(self, place: int) -> int:
        """Tokens that end at or before a place."""
        return bisect_right(self._ends, place)

    def begun(self, place: int) -> int:
        """Tokens that start before a place."""
        return bisect_left(self._starts, place)

    def counted(self, places: Ints) -> tuple[Ints, Ints]:
        """`past` and `begun` of each place, in the shape of `places`."""
        past = np.searchsorted(self._token_ends, places, "right")
        begun = np.searchsorted(self._token_starts, places, "left")
        return past.astype(np.int32), begun.astype(np.int32)

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

    def starts_between(self, start: int, end: int) -> Ints:
        """Characters in (start, end) where a token starts, ascending, each once."""
        return np.unique(self._token_starts[bisect_right(self._starts, start) : bisect_left(self._starts, end)])


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the white space at its ends; empty where it is all white space."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())
