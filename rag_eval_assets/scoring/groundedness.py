"""How much of each sentence of an answer the delivered passages hold, read off words alone.

What belongs here: the lexical measure of groundedness and its constants. What does not: whether the passages entail the sentence, which
needs a judge (`ragas_metrics`, `claims`): a lexical value passes a sentence that puts the context's words together wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from rag_eval_assets.scoring import texts

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")

CONTRADICTION_KEEPS = 0.8
"""What is left of a sentence's value if it states a number, or negates, where no passage does.

Chosen, like the weight of a sentence by its words, on the development part of BEGIN's Wizard of Wikipedia alone (AUROC .956).
"""


@dataclass(frozen=True)
class Grounded:
    """A sentence of an answer: its share held by the context (0 to 1), its number of words, and what the context lacks."""

    sentence: str
    value: float
    words: int
    lacking: tuple[str, ...]


def by_sentence(answer: str, passages: Sequence[str], language: str = "en") -> list[Grounded]:
    """Each sentence of the answer against the passages; an answer without a word has none.

    A sentence's value is the mean of three shares: of its content words that the passages hold, of all its words that they hold, and of
    all its words that one single sentence of theirs holds. Function words tell less, but they tell; the third share asks that what is
    said together stands together.
    """
    context = "\n".join(passages)
    said, numbers, negates = frozenset(texts.stems(context, language)), texts.numbers(context), texts.negated(context)
    stated = [frozenset(texts.stems(sentence, language)) for passage in passages for sentence in texts.sentences(passage)] or [said]
    found = []
    for sentence in texts.sentences(texts.without_markers(answer)):
        words = texts.stems(sentence, language)
        content = texts.content_words(sentence, language) or words
        value = (_share(content, said) + _share(words, said) + max(_share(words, one) for one in stated)) / 3
        foreign = texts.numbers(sentence) - numbers
        turned = texts.negated(sentence) and not negates
        lacking = (*dict.fromkeys(w for w in content if w not in said), *(["a negation"] if turned else []))
        found.append(Grounded(sentence, value * (CONTRADICTION_KEEPS if foreign or turned else 1), len(words), lacking))
    return found


def lexical(sentences: Sequence[Grounded]) -> float | None:
    """Mean over sentences, each weighing as many words as it has; None for no sentences."""
    words = sum(s.words for s in sentences)
    return sum(s.value * s.words for s in sentences) / words if words else None


def unseen_entities(answer: str, seen: Sequence[str], language: str = "en") -> list[str]:
    """Names of the answer that none of the `seen` texts holds: capitalised words, as stems, in order and once.

    The first word of a sentence is capitalised anyway and counts for a name only beside another one. In German every noun is
    capitalised, so there it is a flag for unseen things too.
    """
    held = {stem for text in seen for stem in texts.stems(text, language)}
    found: dict[str, None] = {}
    for sentence in texts.sentences(texts.without_markers(answer)):
        said = _WORD.findall(sentence)
        for at, word in enumerate(said):
            followed = at + 1 < len(said) and said[at + 1][0].isupper()
            named = word[0].isupper() and texts.content_words(word, language) and (at > 0 or followed)
            if named and not held & set(texts.stems(word, language)) and word.lower() != "i":
                found[word] = None
    return list(found)


def _share(words: Sequence[str], held: Set[str]) -> float:
    return sum(w in held for w in words) / len(words)
