"""What two texts share, read off their words: normal form, content words, numbers, negation, sentences.

What belongs here: lexical primitives of the answer metrics, for English, Dutch and German. What does not: a verdict on meaning, which
no function here gives. The reader under test has word handling of its own, so that it is not marked by its own ruler.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

_STEMMERS = {"en": "english", "nl": "dutch", "de": "german"}
_ARTICLES = {
    "en": {"a", "an", "the"},
    "nl": {"de", "het", "een"},
    "de": {"der", "die", "das", "den", "dem", "des", "ein", "eine", "einen", "einem", "einer", "eines"},
}
_NEGATIONS = {
    "en": "no not never none neither nor without cannot",
    "nl": "niet geen nooit niets niemand noch zonder",
    "de": "nicht kein keine keinen keinem keiner keines nie niemals nichts ohne weder",
}
_NEGATING = frozenset(word for words in _NEGATIONS.values() for word in words.split())
_COUNTED = {
    word: float(number)
    for number, words in {
        2: "two twee zwei",
        3: "three drie drei",
        4: "four vier",
        5: "five vijf fünf",
        6: "six zes sechs",
        7: "seven zeven sieben",
        8: "eight acht",
        9: "nine negen neun",
        10: "ten tien zehn",
        11: "eleven elf",
        12: "twelve twaalf zwölf",
        14: "fourteen veertien vierzehn",
        20: "twenty twintig zwanzig",
        30: "thirty dertig dreißig dreissig",
        60: "sixty zestig sechzig",
        90: "ninety negentig neunzig",
    }.items()
    for word in words.split()
}
QUANTIFIERS: dict[str, dict[str, str]] = {
    "only": {
        "en": "only solely exclusively merely",
        "nl": "alleen enkel slechts uitsluitend",
        "de": "nur lediglich ausschließlich ausschliesslich",
    },
    "except": {
        "en": "except unless excluding excepting",
        "nl": "behalve tenzij uitgezonderd",
        "de": "außer ausser ausgenommen",
    },
    "all": {
        "en": "all every each always everyone everything",
        "nl": "alle elk elke ieder iedere altijd allemaal alles iedereen",
        "de": "alle allen aller jeder jede jedes jedem jeden immer sämtliche alles",
    },
    "some": {
        "en": "some sometimes several few",
        "nl": "sommige soms enkele",
        "de": "einige einigen manche manchen manchmal",
    },
    "most": {"en": "most mostly usually", "nl": "meeste meestal", "de": "meisten meistens"},
    "none": {
        "en": "none never nobody nothing",
        "nl": "nooit niemand niets geen",
        "de": "nie niemals niemand nichts kein keine keinen keinem keiner keines",
    },
}
"""Words of each kind of quantifier, by language."""
_NUMBER = re.compile(r"\d+(?:[.,'’]\d+)*")
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*|\w+")
_MARKER = re.compile(r"\s*\[(\d+)\]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-ZÀ-ÖØ-Þ0-9])|\n+")


def markers(text: str) -> list[int]:
    """Numbers of the citation markers [n] in a text, in order."""
    return [int(n) for n in _MARKER.findall(text)]


def without_markers(text: str) -> str:
    """The text without its citation markers [n]."""
    return _MARKER.sub("", text).strip()


def normal_tokens(text: str, language: str = "en") -> list[str]:
    """SQuAD's normal form as tokens: lower case, punctuation and articles left out, white space collapsed.

    Articles are those of the language; SQuAD (Rajpurkar et al. 2016) knows English ones only.
    """
    lowered = unicodedata.normalize("NFKC", text).lower()
    kept = "".join(c for c in lowered if c not in string.punctuation and not unicodedata.category(c).startswith("P"))
    articles = _ARTICLES.get(language, _ARTICLES["en"])
    return [token for token in kept.split() if token not in articles]


def words(text: str) -> list[str]:
    """Lower-case words and numbers, punctuation left out."""
    return [w.replace("’", "'") for w in _WORD.findall(unicodedata.normalize("NFKC", text).lower())]


def stems(text: str, language: str = "en") -> list[str]:
    """Stems of all words in order, numbers kept as they are."""
    stem = _stemmer(language)
    return [w if w[0].isdigit() else stem(w) for w in words(text)]


def content_words(text: str, language: str = "en") -> list[str]:
    """Stems of the words that carry content, in order: function words left out, numbers kept as they are."""
    stop, stem = _stop_words(language), _stemmer(language)
    return [w if w[0].isdigit() else stem(w) for w in words(text) if w not in stop]


def contains(needle: Sequence[str], haystack: Sequence[str]) -> int | None:
    """Place where the tokens of `needle` stand together in `haystack`; None where they do not, or where there are none."""
    width = len(needle)
    if not width:
        return None
    return next((i for i in range(len(haystack) - width + 1) if list(haystack[i : i + width]) == list(needle)), None)


def numbers(text: str) -> set[float]:
    """Numbers a text states, digits and small number words, whichever way thousands and decimals are marked."""
    plain = without_markers(text)
    found = {_value(n) for n in _NUMBER.findall(plain)}
    return found | {_COUNTED[w] for w in words(plain) if w in _COUNTED}


def negated(text: str) -> bool:
    """Whether a text holds a word of negation."""
    return any(is_negation(w) for w in words(text))


def is_negation(word: str) -> bool:
    """Whether a lower-case word negates: not, geen, kein, don't, ..."""
    return word in _NEGATING or word.endswith("n't")


def quantifiers(text: str, language: str = "en") -> set[str]:
    """Kinds of quantifier (`QUANTIFIERS`) that a text uses."""
    said = set(words(text))
    return {kind for kind, lists in QUANTIFIERS.items() if said & set(lists.get(language, lists["en"]).split())}


def sentences(text: str) -> list[str]:
    """Sentences of a text with their citation markers, which may stand behind the full stop."""
    pieces: list[str] = []
    for piece in _SENTENCE_END.split(text):
        stripped = piece.strip()
        if not stripped:
            continue
        lead = re.match(r"(?:\s*\[\d+\])+", stripped)
        if lead and pieces:
            pieces[-1] += " " + lead.group().strip()
            stripped = stripped[lead.end() :].strip()
        if stripped:
            pieces.append(stripped)
    return [p for p in pieces if words(without_markers(p))]


def _value(number: str) -> float:
    """1.000 and 1,000 are a thousand, 9,95 and 9.95 are not: the last mark is a decimal mark unless three digits follow it."""
    parts = re.split(r"[.,'’]", number)
    if len(parts) == 1:
        return float(parts[0])
    marks = re.findall(r"[.,'’]", number)
    thousands = len(parts[-1]) == 3 and parts[0] != "0" and len(set(marks)) == 1
    if thousands:
        return float("".join(parts))
    return float("".join(parts[:-1]) + "." + parts[-1])


@cache
def _stop_words(language: str) -> frozenset[str]:
    from bm25s import stopwords

    lists = {"en": stopwords.STOPWORDS_EN_PLUS, "nl": stopwords.STOPWORDS_DUTCH, "de": stopwords.STOPWORDS_GERMAN}
    # A negation decides what a sentence says, so it is content here.
    return frozenset(w for w in lists.get(language, lists["en"]) if not is_negation(w))


@cache
def _stemmer(language: str) -> Any:
    from Stemmer import Stemmer

    # The stemmer's own cache is not safe to share; one here keeps each word's stem.
    return lru_cache(maxsize=50_000)(Stemmer(_STEMMERS.get(language, "english"), 0).stemWord)
