"""Texts with labelled edits: words changed, paragraphs moved, frames of boilerplate. Deterministic, made of invented words.

What belongs here: texts and what was done to them. What does not: finding copies.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

SEED = 11
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6)
"""Shares of words that are replaced."""
FRAMES = (20, 60, 120)
"""Words of boilerplate before and after a text."""


@dataclass(frozen=True)
class Edited:
    """A text, the number of the text it was made from, and the edit ("" for none)."""

    name: str
    text: str
    base: int
    edit: str


def _words(chance: random.Random, count: int) -> list[str]:
    made = {"".join(chance.choice("bcdfglmnprstvz") + chance.choice("aeiou") for _ in range(chance.randint(2, 4))) for _ in range(count)}
    return sorted(made)


def edited_texts(bases: int, words: int = 200) -> list[Edited]:
    """`bases` texts of `words` words in five paragraphs, each with its edits: `words-5` (percent replaced), `moved`, `frame-60`.

    A frame is the same for all texts, so framed texts resemble each other.
    """
    chance = random.Random(SEED)
    known = _words(chance, 2_000)
    frames = {size: ([chance.choice(known) for _ in range(size)], [chance.choice(known) for _ in range(size)]) for size in FRAMES}
    found = []
    for base in range(bases):
        own = [chance.choice(known) for _ in range(words)]
        made = {"": own}
        for share in SHARES:
            replaced = set(chance.sample(range(words), round(share * words)))
            made[f"words-{share:.0%}".rstrip("%")] = [chance.choice(known) if i in replaced else word for i, word in enumerate(own)]
        fifth = words // 5
        paragraphs = [own[at : at + fifth] for at in range(0, words, fifth)]
        chance.shuffle(paragraphs)
        made["moved"] = [word for paragraph in paragraphs for word in paragraph]
        made |= {f"frame-{size}": [*before, *own, *after] for size, (before, after) in frames.items()}
        found += [Edited(f"{base:04d}-{edit or 'base'}", " ".join(text), base, edit) for edit, text in made.items()]
    return found
