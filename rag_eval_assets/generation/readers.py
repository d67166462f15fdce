"""Readers: from a delivered context to an answer with citations, or a refusal.

What belongs here: the built-in extractive reader. It is lexical, no language model: it quotes the sentences of the context that hold the
question's words best, and refuses where none holds enough of them. What does not: cutting the context (`context`) and judging
the answer (`scoring`, whose word handling is its own).
"""

from __future__ import annotations

import json
import math
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK

NEARBY = 0.5
"""Credit for a question word that stands in the heading, the table's first row or the sentence before, not in the sentence itself."""

ELSEWHERE = 0.25
"""Credit for a question word that stands anywhere else in the passage."""

HEADER = 0.6
"""Factor for the first row of a table, which names its columns more often than it answers."""

UNSEEN = 0.5
"""Factor for the weight of a question word that no delivered sentence holds."""

PART = 0.7
"""Credit for a question word that is the beginning or end of a longer word (Dutch and German compounds)."""

AMOUNT = 1.15
"""Factor for a sentence with a number where the question asks for an amount or a time."""

ADDS = 0.15
"""Share of the question's weight that each further sentence must add."""

REFUSALS = {
    "en": "The passages do not hold the answer.",
    "nl": "Het antwoord staat niet in de passages.",
    "de": "Die Passagen enthalten die Antwort nicht.",
}

_STEMMERS = {"en": "english", "nl": "dutch", "de": "german"}
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|\w+")
_AMOUNT = re.compile(
    r"\b(how (?:many|much|long|often|old|far|large|high|wide|soon|late)|when|what (?:percentage|temperature|pressure|time|date|year|amount)"
    r"|hoe ?veel|hoe (?:lang|vaak|groot|hoog|ver|snel|oud)|wanneer|welk(?:e)? (?:percentage|temperatuur|druk|datum|bedrag)"
    r"|wie ?viele?|wie (?:lange?|oft|groß|hoch|weit|schnell|alt)|wann|welche[rsn]? (?:temperatur|druck|prozentsatz|datum|betrag))\b"
)
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


def read(question: dict[str, Any], context: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """A row of answers without work_key, from rows of golden_questions, contexts and system_specs.

    A failed or missing context gives a failed answer, reason upstream_failed; an inapplicable one keeps its reason; an empty one gives a
    refusal, reason empty_context. Raises ValueError for a reader that is not built in.
    """
    started = time.perf_counter()
    parameters = json.loads(spec["parameters"])
    if parameters["kind"] != "extractive":
        raise ValueError(f"reader {parameters['kind']!r} is not built in; known: extractive")
    language = question.get("language") or "en"
    found: list[Sentence] = []
    status, reason = OK, None
    if context["status"] in (FAILED, MISSING):
        status, reason = FAILED, "upstream_failed"
    elif context["status"] == NOT_APPLICABLE:
        status, reason = NOT_APPLICABLE, context["reason"]
    elif not context["passages"]:
        reason = "empty_context"
    else:
        found = extract(question["text"], context["passages"], language, parameters["sentences"], parameters["threshold"])
    answer = " ".join(f"{_one_line(s.text)} [{s.position + 1}]" for s in found)
    refused = status == OK and not found
    return {
        "question_id": question["question_id"],
        "split": question["split"],
        "answer": answer,
        "refused": refused,
        "citations": [s.citation for s in found],
        "raw": REFUSALS.get(language, REFUSALS["en"]) if refused else answer or None,
        "reader": spec["reader"],
        "prompt_tokens": None,
        "completion_tokens": None,
        "context_sha256": context["context_sha256"],
        "status": status,
        "reason": reason,
        "detail": f"support {', '.join(f'{s.support:.3f}' for s in found)}" if found else None,
        "seconds": time.perf_counter() - started,
    }


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
    its surroundings hold. A further sentence must reach the threshold too and add words that the ones before lack.
    """
    wanted = list(dict.fromkeys(_stems(question, language)))
    units = [unit for passage in passages for unit in _units(passage, language)]
    if not wanted or not units:
        return []
    seen = Counter(stem for unit in units for stem in set(unit.stems))
    weight = {w: math.log(1 + (len(units) - seen[w] + 0.5) / (seen[w] + 0.5)) * (1 if seen[w] else UNSEEN) for w in wanted}
    total = sum(weight.values())
    asks_amount = bool(_AMOUNT.search(question.lower()))
    scored = []
    for order, unit in enumerate(units):
        # A sentence that only says the question again, such as a heading, answers nothing.
        if unit.heading or not set(unit.stems) - set(wanted):
            continue
        credit = {w: _credit(w, unit, language) for w in wanted}
        support = sum(weight[w] * c for w, c in credit.items()) / total
        rank = support * (AMOUNT if asks_amount and unit.has_number else 1) * (HEADER if unit.header else 1)
        scored.append((-rank, unit.passage["rank"], order, support, credit, unit))
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

    @property
    def has_number(self) -> bool:
        return any(c.isdigit() for c in self.text)


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
    closed = text[-1:] in ".!?:;…" or text.lstrip().startswith(("-", "*", "•", "–"))
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
