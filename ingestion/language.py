"""Which language a text is in. Nothing here knows documents or labels; `cleaning` measures how often it is right."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

UNDETERMINED: Final = "und"
FEWEST_LETTERS: Final = 20
_SAMPLE: Final = 1_000
_LETTERS: Final = re.compile(r"[^\W\d_]")


@lru_cache(maxsize=8)
def _identifier(languages: tuple[str, ...]) -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if languages:
        identifier.set_languages(list(languages))
    return identifier


def _sample(text: str) -> str:
    """The text, or its beginning and middle: a long text is no more certain than two thousand characters."""
    if len(text) <= 2 * _SAMPLE:
        return text
    middle = len(text) // 2
    return f"{text[:_SAMPLE]} {text[middle : middle + _SAMPLE]}"


def enough(text: str) -> bool:
    """Whether a text has the letters it takes to tell its language."""
    return sum(1 for _ in zip(range(FEWEST_LETTERS), _LETTERS.finditer(text), strict=False)) == FEWEST_LETTERS


def identify(text: str, languages: tuple[str, ...] = ()) -> tuple[str, float]:
    """The text's language (ISO 639-1) and the model's normalised probability, by py3langid.

    `languages` restricts the choice. Under 20 letters the answer is ("und", 0.0): a probability over the known languages
    says nothing about a text that is in none of them.
    """
    sample = _sample(text)
    if not enough(sample):
        return UNDETERMINED, 0.0
    language, probability = _identifier(languages).classify(sample)
    return str(language), float(probability)
