"""Readers: from a delivered context to an answer with citations, or a refusal.

What belongs here: the built-in extractive reader. It is lexical, no language model: it quotes the sentences of the context that hold the
question's words best, and refuses where none holds enough of them. What does not: cutting the context (`context`) and judging
the answer (`scoring`, whose word handling is its own). Constants and the default threshold were chosen on the development questions
of the sample corpus alone, by right answers less a quarter of the wrong ones; within one answer of the best, the stricter threshold.
"""

from __future__ import annotations

import json
import math
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from rag_eval_assets.generation.answer_rows import answer_row, without_reading

NEARBY = 0.7
"""Credit for a question word that stands in the heading, the table's first row or the sentence before, not in the sentence itself."""

ELSEWHERE = 0.2
"""Credit for a question word that stands anywhere else in the passage."""

HEADER = 0.6
"""Factor for the first row of a table, which names its columns more often than it answers."""

PART = 0.7
"""Credit for a question word that is the beginning or end of a longer word (Dutch and German compounds)."""

AMOUNT = 1.25
"""Factor for a sentence with a number that the question lacks, where the question asks for an amount, a time or a number."""

NAMES = 1.3
"""Factor for a sentence with a name that the question lacks, where the question asks who."""

ADDS = 0.05
"""Share of the question's weight that each further sentence must add."""

REFUSALS = {
    "en": "The passages do not hold the answer.",
    "nl": "Het antwoord staat niet in de passages.",
    "de": "Die Passagen enthalten die Antwort nicht.",
}

_STEMMERS = {"en": "english", "nl": "dutch", "de": "german"}
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|\w+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"(?<=[\w,;:|(] )[A-ZÀ-ÖØ-Þ][\w-]+")
_NUMBER_WORDS = {
    "en": "half one two three four five six seven eight nine ten eleven twelve once twice every each daily weekly monthly yearly",
    "nl": "half halve een één twee drie vier vijf zes zeven acht negen tien elf twaalf elke ieder iedere dagelijks wekelijks maandelijks",
    "de": "halb halbe ein eine zwei drei vier fünf sechs sieben acht neun zehn elf zwölf jede jeden jedes täglich wöchentlich monatlich",
}
# "How" with an adjective or adverb asks for a number, "how" with a verb asks for a way.
_AMOUNT = {
    "en": re.compile(
        r"\bhow (?!do|did|is|are|was|were|can|could|may|must|should|shall|will|would|has|have|had|to|the|i\b|we\b|you\b|come\b)\w+"
        r"|\b(?:when|cost|costs|weigh|weighs)\b"
        r"|\b(?:what|which) (?:(?:is|are|was|were) )?(?:the )?(?:\w+ )?(?:percentage|share|temperature|pressure|time|date|year|day|amount"
        r"|price|cost|number|port|voltage|power|weight|level|limit|rate|flow|age|size)\b"
    ),
    "nl": re.compile(
        r"\bhoe ?(?!moet|kan|kun|mag|zal|werk|word|is\b|zijn|doe|heet|gaat|krijg|de\b|het\b|ik\b|je\b|we\b)\w+|\bwanneer\b|\bkost(?:en)?\b"
        r"|\bwelke? (?:percentage|\w*temperatuur|\w*druk|datum|bedrag|\w*nummer|prijs|jaar|\w*grens|\w*vermogen)\b"
    ),
    "de": re.compile(
        r"\bwie ?(?!wird|werd|kann|können|muss|müssen|soll|ist\b|sind|geht|heiß|darf|dürf|mach|die\b|der\b|das\b|ich\b|man\b|wir\b)\w+"
        r"|\b(?:wann|kostet|kosten|wiegt)\b"
        r"|\bwelche[rsn]? (?:\w*temperatur|\w*druck|prozentsatz|datum|betrag|\w*nummer|preis|jahr|\w*leistung|\w*grenze)\b"
    ),
}
# German writes every noun with a capital, so that a capital tells no name there.
_WHO = {"en": re.compile(r"\bwho(?:m|se)?\b"), "nl": re.compile(r"\bwie(?:ns)?\b")}
_BREAK = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s+[\"'“‘„«(\[]?[A-ZÀ-ÖØ-Þ0-9])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|approx|no|nr|art|fig|st|dr|mr|mrs|vs|ca|bzw|z\. ?b|d\. ?h|u\. ?a|usw|ggf|abs|max|min|inkl|bijv|bv|o\.a"
    r"|m\.b\.t|t\.o\.v|incl|resp|tel|\d{1,2}|[a-z])$"
)
_ITEM = re.compile(r"\n(?=\s*(?:[-*•–]\s|\d{1,2}[.)]\s|\|))")
_LINE = re.compile(r"\n")
_BLOCK = re.compile(r"(?:(?!\n\s*\n).)+", re.DOTALL)
_HEADING_WORDS = 10
_PART_LETTERS = 5


def read_batch(pairs: list[tuple[dict[str, Any], dict[str, Any]]], *, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """`read` of each (question, context), in order."""
    return [read(question, context, spec) for question, context in pairs]


def read(question: dict[str, Any], context: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """A row of answers without work_key, from rows of golden_questions, contexts and system_specs.

    A failed or missing context gives a failed answer, reason upstream_failed; an inapplicable one keeps its reason; an empty one gives a
    refusal, reason empty_context. Raises ValueError for a reader that is not built in.
    """
    started = time.perf_counter()
    parameters = json.loads(spec["parameters"])
    if parameters["kind"] != "extractive":
        raise ValueError(f"reader {parameters['kind']!r} is not built in; known: extractive")
    unread = without_reading(question, context, spec)
    if unread is not None and not unread["refused"]:
        return {**unread, "seconds": time.perf_counter() - started}
    language = question.get("language") or "en"
    found = extract(question["text"], context["passages"], language, parameters["sentences"], parameters["threshold"])
    answer = " ".join(f"{_one_line(s.text)} [{s.position + 1}]" for s in found)
    return answer_row(
        question,
        context,
        spec,
        answer=answer,
        refused=not found,
        citations=[s.citation for s in found],
        raw=answer or REFUSALS.get(language, REFUSALS["en"]),
        reason=unread["reason"] if unread else None,
        detail=f"support {', '.join(f'{s.support:.3f}' for s in found)}" if found else None,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True)
class Sentence:
    """A sentence of a delivered passage with its span in the passage, and the share of the question's weight it supports."""

    position: int
    passage: Mapping[str, Any]
    start: int
    end: int
    text: str
    support: float

    @property
    def citation(self) -> dict[str, Any]:
        """A row's citation; without offsets where the passage has none."""
        base = self.passage["start"]
        return {
            "position": self.position,
            "chunk_id": self.passage["chunk_id"],
            "doc_id": self.passage["doc_id"],
            "start": None if base is None else base + self.start,
            "end": None if base is None else base + self.end,
            "quotation": self.text,
        }


def extract(question: str, passages: Sequence[Mapping[str, Any]], language: str, most: int, threshold: float) -> list[Sentence]:
    """At most `most` sentences that support the question, best first; none where the best supports less than `threshold` of it.

    Support is the share of the question's words, weighted by how rare they are among the delivered sentences, that the sentence and
    its surroundings hold; more where the sentence holds the kind of thing asked for, less for the first row of a table, 1 at most.
    A further sentence must reach the threshold too and add words that the ones before lack.
    """
    wanted = list(dict.fromkeys(_stems(question, language)))
    units = [unit for passage in passages for unit in _units(passage, language)]
    if not wanted or not units:
        return []
    seen = Counter(stem for unit in units for stem in set(unit.stems))
    weight = {w: math.log(1 + (len(units) - seen[w] + 0.5) / (seen[w] + 0.5)) for w in wanted}
    total = sum(weight.values())
    kind = _kind_factor(question, language)
    scored = []
    for order, unit in enumerate(units):
        # A sentence that only says the question again, such as a heading, answers nothing.
        if unit.heading or not unit.stems - set(wanted):
            continue
        credit = {w: _credit(w, unit, language) for w in wanted}
        share = sum(weight[w] * c for w, c in credit.items()) / total * kind(unit.text) * (HEADER if unit.header else 1)
        scored.append((-share, unit.passage["rank"], order, min(1.0, share), credit, unit))
    scored.sort(key=lambda s: s[:3])
    chosen: list[Sentence] = []
    held = dict.fromkeys(wanted, 0.0)
    for _, _, _, support, credit, unit in scored:
        if len(chosen) == most or support < threshold:
            break
        added = sum(weight[w] * max(0.0, credit[w] - held[w]) for w in wanted) / total
        said = {_one_line(s.text) for s in chosen}
        if (chosen and added < ADDS) or _one_line(unit.text) in said:
            continue
        chosen.append(Sentence(unit.passage["position"], unit.passage, unit.start, unit.end, unit.text, support))
        held = {w: max(held[w], credit[w]) for w in wanted}
    return chosen


def _kind_factor(question: str, language: str) -> Callable[[str], float]:
    """The factor for a sentence, by whether it holds the kind of thing the question asks for and does not say itself."""
    language = language if language in _AMOUNT else "en"
    asked = question.lower()
    amount = _AMOUNT[language].search(asked) is not None
    who = language in _WHO and _WHO[language].search(asked) is not None
    known, said = set(_NUMBER.findall(asked)), set(_WORD.findall(asked))
    counting = set(_NUMBER_WORDS[language].split())

    def factor(text: str) -> float:
        words = _WORD.findall(text.lower()) if amount else []
        counted = amount and bool(set(_NUMBER.findall(text)) - known or counting.intersection(words) - said)
        named = who and any(set(_WORD.findall(name.lower())) - said for name in _NAME.findall(text))
        return (AMOUNT if counted else 1.0) * (NAMES if named else 1.0)

    return factor


@dataclass(frozen=True)
class _Unit:
    """A sentence, heading or table row of a passage, and the words that stand around it."""

    passage: Mapping[str, Any]
    start: int
    end: int
    text: str
    stems: frozenset[str]
    nearby: frozenset[str]
    around: frozenset[str]
    heading: bool
    header: bool


def _credit(word: str, unit: _Unit, language: str) -> float:
    if word in unit.stems:
        return 1.0
    compound = language in ("nl", "de") and len(word) >= _PART_LETTERS
    if compound and any(s != word and (s.startswith(word) or s.endswith(word)) for s in unit.stems):
        return PART
    if word in unit.nearby:
        return NEARBY
    return ELSEWHERE if word in unit.around else 0.0


def _units(passage: Mapping[str, Any], language: str) -> Iterator[_Unit]:
    heading: frozenset[str] = frozenset()
    table: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    text = passage["text"]
    pieces = [(*span, frozenset(_stems(text[span[0] : span[1]], language))) for span in _sentences(text)]
    around = frozenset().union(*(stems for *_, stems in pieces))
    for start, end, opens_block, stems in pieces:
        own = text[start:end]
        row, is_heading = "|" in own, _is_heading(own)
        yield _Unit(passage, start, end, own, stems, heading | (table if row else before), around, is_heading, row and opens_block)
        if row and opens_block:
            table = stems
        if is_heading:
            heading = stems
        before = frozenset() if row or is_heading else stems


def _is_heading(text: str) -> bool:
    if text.endswith("?"):  # a question asked in the text heads its answer
        return "|" not in text
    closed = text[-1:] in ".!:;…" or text.lstrip().startswith(("-", "*", "•", "–"))
    return "|" not in text and len(text.split()) <= _HEADING_WORDS and not closed


def _sentences(text: str) -> Iterator[tuple[int, int, bool]]:
    """Spans of sentences, list items, table rows and headings, trimmed; whether each opens a block of lines."""
    for block in _BLOCK.finditer(text):
        lines = _LINE if "|" in block.group() else _ITEM
        opens = True
        for line_start, line_end in _split(text, *block.span(), (m.end() for m in lines.finditer(text, *block.span()))):
            for start, end in _split(text, line_start, line_end, _breaks(text, line_start, line_end)):
                yield start, end, opens
                opens = False


def _breaks(text: str, start: int, end: int) -> Iterator[int]:
    if "|" in text[start:end]:
        return
    for found in _BREAK.finditer(text, start, end):
        before = text[max(start, found.start() - 12) : found.start()].lower()
        if found.group()[0] != "." or not _ABBREVIATION.search(before):
            yield found.end()


def _split(text: str, start: int, end: int, cuts: Iterator[int]) -> list[tuple[int, int]]:
    edges = [start, *cuts, end]
    spans = []
    for left, right in pairwise(edges):
        piece = text[left:right]
        if piece.strip():
            spans.append((left + len(piece) - len(piece.lstrip()), right - len(piece) + len(piece.rstrip())))
    return spans


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _stems(text: str, language: str) -> list[str]:
    stop, stem = _function_words(language), _stemmer(language)
    words = _WORD.findall(unicodedata.normalize("NFKC", text).lower())
    return [w if w[0].isdigit() else stem(w) for w in words if w not in stop]


@cache
def _function_words(language: str) -> frozenset[str]:
    from bm25s import stopwords

    lists = {"en": stopwords.STOPWORDS_EN_PLUS, "nl": stopwords.STOPWORDS_DUTCH, "de": stopwords.STOPWORDS_GERMAN}
    asking = {
        "en": "much many may must long say would could might",
        "nl": "welk welke waar waarom wanneer hoeveel mag moeten kun kunt lang",
        "de": "wer wen wem wann warum wieso wieviel viele darf dürfen muss müssen lange",
    }
    return frozenset(lists.get(language, lists["en"])) | frozenset(asking.get(language, asking["en"]).split())


@cache
def _stemmer(language: str) -> Any:
    from Stemmer import Stemmer

    return lru_cache(maxsize=50_000)(Stemmer(_STEMMERS.get(language, "english"), 0).stemWord)
