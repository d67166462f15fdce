"""The claim judge: a model splits answers into claims and says which passage supports each; measures follow from its verdicts.

What belongs here: prompts, schemas of replies, and refusing a reply whose verdicts are no partition of the claims. What does not:
arithmetic on verdicts (`claims`), sending (`judging`), and whether the judge may be believed (`judges`).

Extraction and entailment are two requests, each with its own schema, so that each can be read and audited apart. All that is judged stands
between lines that it cannot hold: a passage that says "every claim is supported" is material like any other.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rag_eval_assets.fences import RULE, fence, fenced
from rag_eval_assets.scoring import texts
from rag_eval_assets.scoring.claims import merged, ragchecker, supported_share
from rag_eval_assets.scoring.judging import Ask, Judgment, Prompt, Unjudged, judged, unparsable
from rag_eval_assets.scoring.outcomes import Outcome, Row, not_applicable
from rag_eval_assets.tables import FAILED, SCORED

Matrix = list[list[bool]]
"""For each claim one verdict a text it was held against."""

GRADES = 3
"""Highest grade of a passage's relevance."""


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Claims(_Reply):
    """Claims of a text. `no_claims` says that there is none, so that an empty list is no slip."""

    claims: list[str]
    no_claims: bool


class Supported(_Reply):
    claim: int
    texts: list[int] = Field(min_length=1)
    rationale: str


class Unsupported(_Reply):
    claim: int
    failure_mode: Literal["fabrication", "overgeneralisation", "wrong_entity", "stale_fact", "not_stated"]
    rationale: str


class Verdicts(_Reply):
    """Every claim in one of the two lists, by number."""

    supported: list[Supported]
    unsupported: list[Unsupported]


class Relevance(_Reply):
    grade: int = Field(ge=0, le=GRADES)
    rationale: str


_EXTRACT = """\
Split the text into claims. A claim is one statement that can be true or false and is understood without the rest of the text: replace \
pronouns by what they stand for. Keep numbers, names, dates, conditions and negations as they are, add nothing, and state each claim once. \
If the text claims nothing, the list is empty and no_claims is true; otherwise no_claims is false."""

_ENTAIL = """\
Decide for each numbered claim whether a text states it or whether it follows from a text alone. Knowledge of your own does not count, nor \
does the length or the style of a text. List each claim by its number exactly once: under supported with the numbers of all texts that \
support it, or under unsupported with the failure mode (fabrication, overgeneralisation, wrong_entity, stale_fact, or not_stated where \
the texts are merely silent). Give a short rationale."""

_RELEVANCE = """\
Grade how far the passage helps to answer the question: 0 not at all, 1 same subject only, 2 part of the answer, 3 all of it. Neither \
length nor style counts. Give a short rationale."""

CHUNKS = "chunks"
"""The delivered passages, as one of the texts that claims are held against."""

_NEEDS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "precision": ("answer_precision", (("response", "reference"),)),
    "recall": ("answer_recall", (("reference", "response"),)),
    "f1": ("answer_f1", (("response", "reference"), ("reference", "response"))),
    "claim_recall": ("claim_recall", (("reference", CHUNKS),)),
    "context_precision": ("claim_context_precision", (("reference", CHUNKS),)),
    "context_utilization": ("context_utilization", (("reference", "response"), ("reference", CHUNKS))),
    "faithfulness": ("claim_faithfulness", (("response", CHUNKS),)),
    "hallucination": ("hallucination", (("response", "reference"), ("response", CHUNKS))),
    "self_knowledge": ("self_knowledge", (("response", "reference"), ("response", CHUNKS))),
}
"""Measures of `claims.ragchecker`: their names here, and which claims they need held against which texts."""

CITED = ("citation_support_precision", "citation_support_recall", "citation_support_completeness")
RELEVANT = ("context_relevance", "context_relevant_share")
METRICS = (*(name for name, _ in _NEEDS.values()), *CITED, *RELEVANT)
"""Metrics of this judge, as settings name them."""


@dataclass(frozen=True)
class Case:
    """What is judged of one question; `sentences` are the answer's, each with positions of the passages it cites (under 0: invented).

    `stopped` says why nothing can be judged of the response, the reference or the chunks.
    """

    question: str
    response: str
    reference: str
    passages: Sequence[str]
    sentences: Sequence[tuple[str, Sequence[int]]] = ()
    stopped: Mapping[str, Outcome] = field(default_factory=dict)


def stage(metric: str) -> str:
    """What a metric of this judge scores."""
    if metric in CITED:
        return "citations"
    return "context" if metric in (*RELEVANT, "claim_recall", "claim_context_precision") else "answer"


def prepared(case: Case, metrics: Sequence[str], *, threshold: float, repeat: int = 0) -> Callable[[Ask], Awaitable[dict[str, Outcome]]]:
    """Judges one question: an outcome for each of the metrics. `threshold`: share of the highest grade from which a passage is relevant."""

    async def judge(ask: Ask) -> dict[str, Outcome]:
        reading = _Reading(ask, case, threshold, repeat)
        return {metric: await reading.outcome(metric) for metric in metrics}

    return judge


class _Reading:
    """The replies on one question; nothing is asked twice, and what failed stays failed."""

    def __init__(self, ask: Ask, case: Case, threshold: float, repeat: int) -> None:
        self.ask, self.case, self.threshold, self.repeat = ask, case, threshold, repeat
        self._known: dict[Any, Any] = {}

    async def outcome(self, metric: str) -> Outcome:
        try:
            if metric in RELEVANT:
                return await self._relevance(metric)
            if metric in CITED:
                return await self._cited(metric)
            return await self._of_claims(next(own for own, (name, _) in _NEEDS.items() if name == metric))
        except Unjudged as error:
            return error.outcome

    async def _once(self, key: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        if key not in self._known:
            try:
                self._known[key] = await make()
            except Unjudged as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, Unjudged):
            raise found
        return found

    async def _of_claims(self, measure: str) -> Outcome:
        needs = _NEEDS[measure][1]
        tables: dict[tuple[str, str], Matrix] = {}
        told: dict[str, Any] = {}
        for side, against in needs:
            for part in (side, against):
                if part in self.case.stopped:
                    stopped = self.case.stopped[part]
                    # Nothing delivered holds none of the reference's claims: the retrieval's failure, not a gap in the measure.
                    nothing = measure == "claim_recall" and part == CHUNKS and stopped.reason == "empty_context"
                    return Outcome(0.0, SCORED, "empty_context") if nothing else stopped
            claims = await self._claims(side)
            if not claims:
                return not_applicable("no_claims")
            tables[side, against], told[f"{side} in {against}"] = await self._held(side, against, claims)

        def flat(side: str, against: str, size: int) -> list[bool]:
            return [row[0] for row in tables[side, against]] if (side, against) in tables else [False] * size

        def wide(side: str, size: int) -> Matrix:
            return tables.get((side, CHUNKS), [[False] * len(self.case.passages) for _ in range(size)])

        sizes = {side: max((len(t) for (own, _), t in tables.items() if own == side), default=0) for side in ("response", "reference")}
        found = ragchecker(
            flat("response", "reference", sizes["response"]),
            flat("reference", "response", sizes["reference"]),
            wide("reference", sizes["reference"]),
            wide("response", sizes["response"]),
        )[measure]
        explanation = json.dumps(told, ensure_ascii=False)
        # No claim of the reference was delivered: nothing was there to be used.
        return Outcome(found, explanation=explanation) if found is not None else not_applicable("no_claims")

    async def _claims(self, side: str) -> list[str]:
        async def ask() -> list[str]:
            given = await judged(self.ask, extraction(getattr(self.case, side), self.repeat))
            return claims_of(given)

        found: list[str] = await self._once(side, ask)
        return found

    async def _held(self, side: str, against: str, claims: Sequence[str]) -> tuple[Matrix, list[dict[str, Any]]]:
        given = list(self.case.passages) if against == CHUNKS else [getattr(self.case, against)]

        async def ask() -> tuple[Matrix, list[dict[str, Any]]]:
            return verdicts_of(await judged(self.ask, entailment(claims, given, self.repeat)), claims, len(given))

        found: tuple[Matrix, list[dict[str, Any]]] = await self._once((side, against), ask)
        return found

    async def _cited(self, metric: str) -> Outcome:
        for part in ("response", CHUNKS):
            if part in self.case.stopped:
                return self.case.stopped[part]
        said: dict[str, tuple[str, list[int]]] = {}
        for sentence, positions in self.case.sentences:
            words = " ".join(texts.without_markers(sentence).split())
            if words:
                said.setdefault(words.casefold(), (words, []))[1].extend(positions)
        claims = [words for words, _ in said.values()]
        cited = [tuple(dict.fromkeys(positions)) for _, positions in said.values()]
        if not claims:
            return not_applicable("no_claims")

        async def ask() -> tuple[Matrix, list[dict[str, Any]]]:
            given = await judged(self.ask, entailment(claims, self.case.passages, self.repeat))
            return verdicts_of(given, claims, len(self.case.passages))

        table, told = await self._once("sentences", ask)
        pairs = [[0 <= at < len(row) and row[at] for at in own] for own, row in zip(cited, table, strict=True)]
        right, held = sum(map(sum, pairs)), [any(own) for own in pairs]
        supportable = [own for own, row in zip(held, table, strict=True) if any(row)]
        counted = {
            CITED[0]: (right, sum(map(len, pairs)), "no_citations"),
            CITED[1]: (sum(supportable), len(supportable), "no_claims"),
            CITED[2]: (sum(held), len(held), "no_claims"),
        }
        count, of, without = counted[metric]
        return Outcome(count / of, explanation=json.dumps(told, ensure_ascii=False)) if of else not_applicable(without)

    async def _relevance(self, metric: str) -> Outcome:
        if CHUNKS in self.case.stopped:
            return self.case.stopped[CHUNKS]

        async def ask() -> list[Relevance]:
            found = []
            for text in self.case.passages:
                given = await judged(self.ask, relevance(self.case.question, text, self.repeat))
                assert isinstance(given.value, Relevance)
                found.append(given.value)
            return found

        grades = await self._once("relevance", ask)
        shares = [g.grade / GRADES for g in grades]
        told = {"threshold": self.threshold, "passages": [{"position": n, **g.model_dump()} for n, g in enumerate(grades)]}
        value = fmean(shares) if metric == "context_relevance" else sum(s >= self.threshold for s in shares) / len(shares)
        return Outcome(value, explanation=json.dumps(told, ensure_ascii=False))


# ------------------------------------------------------------------------------------------------------------- requests
def _messages(task: str, parts: Mapping[str, Sequence[str]]) -> tuple[dict[str, str], ...]:
    word = fence(*(text for given in parts.values() for text in given), name="material")
    rules = f"{task}\n\n{RULE.format(fence=word)}"
    material = "\n\n".join(f"{title}:\n\n{fenced(word, enumerate(given, 1))}" for title, given in parts.items())
    return ({"role": "system", "content": rules}, {"role": "user", "content": material})


def extraction(text: str, repeat: int = 0) -> Prompt:
    """The request for the claims of a text."""
    return Prompt(_messages(_EXTRACT, {"Text": [text]}), Claims, repeat)


def entailment(claims: Sequence[str], held_against: Sequence[str], repeat: int = 0) -> Prompt:
    """The request for verdicts on claims, each held against every text."""
    return Prompt(_messages(_ENTAIL, {"Claims": claims, "Texts": held_against}), Verdicts, repeat)


def relevance(question: str, passage: str, repeat: int = 0) -> Prompt:
    """The request for the relevance of one delivered passage."""
    return Prompt(_messages(_RELEVANCE, {"Question": [question], "Passage": [passage]}), Relevance, repeat)


def claims_of(given: Judgment) -> list[str]:
    """Claims of a reply to `extraction`, equal ones merged. Raises Unjudged for a blank claim, or where list and no_claims disagree."""
    assert isinstance(given.value, Claims)
    if given.value.no_claims == bool(given.value.claims):
        raise unparsable("no_claims contradicts the list of claims", given.text)
    try:
        return merged(given.value.claims)
    except ValueError as error:
        raise unparsable(str(error), given.text) from None


def verdicts_of(given: Judgment, claims: Sequence[str], size: int) -> tuple[Matrix, list[dict[str, Any]]]:
    """Verdicts of a reply to `entailment`: the matrix, and for each claim what was said. Raises Unjudged where they are no partition."""
    assert isinstance(given.value, Verdicts)
    reply = given.value

    def named(number: int) -> str:
        return claims[number - 1] if 1 <= number <= len(claims) else f"claim number {number}"

    share = supported_share(claims, [named(v.claim) for v in reply.supported], [named(v.claim) for v in reply.unsupported])
    if share.status == FAILED:
        raise unparsable(str(share.explanation), given.text)
    for verdict in reply.supported:
        if len(set(verdict.texts)) < len(verdict.texts) or not all(1 <= n <= size for n in verdict.texts):
            raise unparsable(f"claim {verdict.claim} is supported by texts that were not given, or by one twice", given.text)
    both: list[Supported | Unsupported] = [*reply.supported, *reply.unsupported]
    said = sorted(both, key=lambda v: v.claim)
    held = [set(v.texts) if isinstance(v, Supported) else set() for v in said]
    told = [
        {
            "claim": claim,
            "texts": sorted(own),
            "failure_mode": v.failure_mode if isinstance(v, Unsupported) else "none",
            "rationale": v.rationale,
        }
        for claim, own, v in zip(claims, held, said, strict=True)
    ]
    return [[n in own for n in range(1, size + 1)] for own in held], told


def case_of(question: Row, answer: Row | None, context: Row | None, stopped: Mapping[str, Outcome]) -> Case:
    """The case of a question from its rows of golden_questions, answers and contexts."""
    said = (answer or {}).get("answer") or ""
    passages = (context or {}).get("passages") or ()
    # Markers count from 1. Without any, the answer's citations stand for each of its sentences.
    sentences = [(s, [n - 1 for n in texts.markers(s)]) for s in texts.sentences(said)]
    if not any(cited for _, cited in sentences):
        whole = [c["position"] for c in (answer or {}).get("citations") or ()]
        sentences = [(s, whole) for s, _ in sentences]
    return Case(
        question["text"],
        texts.without_markers(said),
        (question["reference_answer"] or "").strip(),
        [p["text"] for p in sorted(passages, key=lambda p: p["position"])],
        sentences,
        stopped,
    )
