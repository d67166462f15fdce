"""Deterministic scores of contexts, answers, citations and refusals, one row a question and metric.

What belongs here: measures that read words, spans and labels; none of them judges meaning. What does not: model verdicts
(`ragas_metrics`) and ranking measures (`ranking`).

A refusal is a class of its own. Asked what the corpus answers, it scores 0 for correctness (reason refused) and has neither
claims nor citations to measure; asked what the corpus does not answer, it is the correct answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rag_eval_assets.scoring import groundedness, ragas_metrics, texts
from rag_eval_assets.scoring.outcomes import Outcome, blocked, not_applicable, score_row
from rag_eval_assets.scoring.relevance import Labels, Row, Span, read_labels
from rag_eval_assets.tables import SCORED

F1_PASSES = 0.6
"""Token F1 with the reference from which an answer counts as agreeing with it."""

WORDS_PASS = 0.8
"""Share of a reference's or nugget's content words from which an answer counts as stating it."""

NEGATION_REACH = 2
"""Words before a short reference in which a negation turns it around."""


@dataclass(frozen=True)
class Cited:
    """A distinct citation: the passage it names, its span, and what is wrong with it (None for nothing)."""

    position: int
    chunk_id: str | None
    span: Span
    quotation: str
    fault: str | None


@dataclass(frozen=True)
class Case:
    """Everything about one question that the measures read."""

    question: Row
    labels: Labels
    context: Row | None
    answer: Row | None
    require_citations: bool

    @property
    def language(self) -> str:
        """Language of the question, whose words, articles and stems the measures use."""
        return str(self.question.get("language") or "en")

    @property
    def passages(self) -> Sequence[Row]:
        """Passages delivered, in order."""
        return (self.context or {}).get("passages") or ()

    @cached_property
    def text(self) -> str:
        """The answer without its citation markers."""
        return texts.without_markers((self.answer or {}).get("answer") or "")

    @property
    def reference(self) -> str:
        """The reference answer; empty where there is none."""
        return (self.question["reference_answer"] or "").strip()

    @cached_property
    def citations(self) -> list[Cited]:
        """Citations of the answer, equal ones once: the same span, or the same words of the same passage."""
        found: dict[tuple[Any, ...], Cited] = {}
        for citation in (self.answer or {}).get("citations") or ():
            cited = self._resolve(citation)
            words = " ".join(texts.words(cited.quotation))
            found.setdefault((cited.position, cited.chunk_id, words or cited.span), cited)
        return list(found.values())

    @property
    def valid(self) -> list[Cited]:
        """Citations that nothing is wrong with."""
        return [c for c in self.citations if c.fault is None]

    def _resolve(self, citation: Row) -> Cited:
        quotation = citation["quotation"] or ""
        passage = next((p for p in self.passages if p["position"] == citation["position"]), None)
        span: Span = (citation["doc_id"] or "", citation["start"], citation["end"])
        fault = None
        if passage is None:
            fault = "names no delivered passage"
        elif citation["chunk_id"] not in (None, passage["chunk_id"]) or citation["doc_id"] not in (None, passage["doc_id"]):
            fault = "names another passage than it points at"
        elif _squeezed(quotation) not in _squeezed(passage["text"]):
            fault = "quotes what the passage does not say"
        elif None not in (span[1], span[2], passage["start"], passage["end"]):
            if not passage["start"] <= citation["start"] < citation["end"] <= passage["end"]:
                fault = "points outside the passage"
        elif citation["start"] is None:
            span = (passage["doc_id"], passage["start"], passage["end"])
        return Cited(citation["position"], passage["chunk_id"] if passage else citation["chunk_id"], span, quotation, fault)


def score_answers(
    questions: list[dict[str, Any]],
    contexts: list[dict[str, Any]],
    answers: list[dict[str, Any]],
    evidence: list[dict[str, Any]],
    *,
    require_citations: bool,
) -> list[dict[str, Any]]:
    """Rows of system_scores for every question and every metric of `METRICS`, whatever order the rows come in.

    Arguments are rows of golden_questions, contexts, answers and golden_evidence. A question without an answer row is missing.
    """
    labels = read_labels(questions, evidence)
    context_of = {row["question_id"]: row for row in contexts}
    answer_of = {row["question_id"]: row for row in answers}
    rows = []
    for question in sorted(questions, key=lambda q: q["question_id"]):
        name = question["question_id"]
        case = Case(question, labels[name], context_of.get(name), answer_of.get(name), require_citations)
        for metric, (stage, unit, measure) in METRICS.items():
            stopped = blocked(case.context if stage == "context" else case.answer)
            rows.append(score_row(question, metric, unit, stage, stopped or measure(case)))
    return rows


def score_system(
    questions: list[dict[str, Any]],
    contexts: list[dict[str, Any]],
    answers: list[dict[str, Any]],
    evidence: list[dict[str, Any]],
    *,
    require_citations: bool,
    judges: Mapping[str, Mapping[str, Any]],
    on_done: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """All scores of a system but its ranking's: deterministic ones, ragas's that need no model, and each configured judge's."""
    rows = score_answers(questions, contexts, answers, evidence, require_citations=require_citations)
    rows += ragas_metrics.score(questions, answers, contexts)
    for name in sorted(judges):
        rows += ragas_metrics.judged(questions, answers, contexts, name=name, judge=judges[name], on_done=on_done)
    return rows


# ------------------------------------------------------------------------------------------------ against the reference
def _against_reference(measure: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
    """A refusal agrees with no reference: 0, and the reason says that it was one."""

    def measured(case: Case) -> Outcome:
        if not case.question["answerable"]:
            return not_applicable("unanswerable")
        if not case.reference:
            return not_applicable("no_gold_answer")
        assert case.answer is not None
        return Outcome(0.0, SCORED, "refused") if case.answer["refused"] else measure(case)

    return measured


def _exact_match(case: Case) -> Outcome:
    same = texts.normal_tokens(case.text, case.language) == texts.normal_tokens(case.reference, case.language)
    return Outcome(float(same))


def _contains(case: Case) -> Outcome:
    reference = texts.normal_tokens(case.reference, case.language)
    return Outcome(float(texts.contains(reference, texts.normal_tokens(case.text, case.language)) is not None))


def token_f1(answer: str, reference: str, language: str = "en") -> float:
    """Token F1 in SQuAD's normal form (Rajpurkar et al. 2016), between 0 and 1; two empty texts agree."""
    left, right = texts.normal_tokens(answer, language), texts.normal_tokens(reference, language)
    if not left or not right:
        return float(left == right)
    shared = sum((Counter(left) & Counter(right)).values())
    return 2 * shared / (len(left) + len(right))


def rouge_l(answer: str, reference: str) -> float:
    """ROUGE-L F1 (Lin 2004) over lower-case words without stemming, between 0 and 1."""
    from rapidfuzz.distance import LCSseq

    left, right = texts.words(answer), texts.words(reference)
    if not left or not right:
        return float(left == right)
    return 2 * LCSseq.similarity(left, right) / (len(left) + len(right))


def states(answer: str, statement: str, language: str = "en") -> str | None:
    """What keeps `answer` from stating `statement`, as far as words tell: a number, a negation, its words; None for nothing.

    Numbers of the statement must all be there. Negation must agree with the answer's sentence that is closest to it; for a
    statement of under four words no negation may stand in the two words before it.
    """
    wrong = disagreement(answer, statement, language)
    if wrong:
        return wrong
    wanted = texts.normal_tokens(statement, language)
    if texts.contains(wanted, texts.normal_tokens(answer, language)) is not None:
        return None
    share = _word_share(answer, statement, language)
    return None if share >= WORDS_PASS else f"{share:.0%} of its words"


def disagreement(answer: str, statement: str, language: str = "en") -> str | None:
    """A number that is missing or a negation that differs between an answer and a statement; None for neither."""
    missing = texts.numbers(statement) - texts.numbers(answer)
    if missing:
        return "without the number " + ", ".join(f"{n:g}" for n in sorted(missing))
    tokens = texts.normal_tokens(statement, language)
    if len(tokens) < 4 and not texts.negated(statement):
        place = texts.contains(tokens, said := texts.normal_tokens(answer, language))
        before = said[max(0, place - NEGATION_REACH) : place] if place is not None else []
        return "negated" if any(texts.is_negation(w) for w in before) else None
    stems = set(texts.content_words(statement, language))
    closest = max(texts.sentences(answer), key=lambda s: len(stems & set(texts.content_words(s, language))), default="")
    if texts.negated(closest) == texts.negated(statement):
        return None
    return "negation is missing" if texts.negated(statement) else "negated"


def _word_share(answer: str, statement: str, language: str) -> float:
    # Numbers were compared by value; as words, "thirty" and "30" would differ.
    plain = [w for w in texts.words(statement) if not texts.numbers(w)]
    wanted = set(texts.content_words(" ".join(plain), language)) or set(plain)
    said = {*texts.content_words(answer, language), *texts.words(answer)}
    return len(wanted & said) / len(wanted) if wanted else float(bool(texts.numbers(statement)))


def _nuggets_vital(case: Case) -> Outcome:
    vital = _vital(case)
    if not case.question["answerable"]:
        return not_applicable("unanswerable")
    if not vital:
        return not_applicable("no_labels")
    assert case.answer is not None
    if case.answer["refused"]:
        return Outcome(0.0, SCORED, "refused")
    lacking = [n for n in vital if states(case.text, n, case.language)]
    return Outcome(1 - len(lacking) / len(vital), explanation=("lacks: " + "; ".join(lacking)) if lacking else None)


def _vital(case: Case) -> list[str]:
    return list(dict.fromkeys(n["text"] for n in case.question.get("nuggets") or () if n["vital"] and n["text"].strip()))


def _correct(case: Case) -> Outcome:
    """Whether the answer passes; the rule is stated in `CORRECT`."""
    assert case.answer is not None
    refused = case.answer["refused"]
    if not case.question["answerable"]:
        return Outcome(float(refused), explanation="refused, rightly" if refused else "answered what the corpus does not answer")
    vital = _vital(case)
    if not case.reference and not vital:
        return not_applicable("no_gold_answer")
    if refused:
        return Outcome(0.0, SCORED, "refused", "refused what the corpus answers")
    if case.require_citations and not case.valid:
        return Outcome(0.0, explanation="no valid citation, and one is required")
    if vital and not any(states(case.text, n, case.language) for n in vital):
        return Outcome(1.0, explanation=f"states all {len(vital)} vital facts")
    if not case.reference:
        return Outcome(0.0, explanation="lacks a vital fact")
    wrong = disagreement(case.text, case.reference, case.language)
    if wrong:
        return Outcome(0.0, explanation=f"disagrees with the reference: {wrong}")
    lacking = states(case.text, case.reference, case.language)
    f1 = token_f1(case.text, case.reference, case.language)
    if lacking is None:
        return Outcome(1.0, explanation="states the reference")
    if f1 >= F1_PASSES:
        return Outcome(1.0, explanation=f"token F1 {f1:.2f} with the reference")
    return Outcome(0.0, explanation=f"{lacking} of the reference, token F1 {f1:.2f}")


CORRECT = (
    "An answerable question is answered correctly if the answer states all vital nuggets; or if it agrees with the reference on "
    f"numbers and negation and contains it, holds {WORDS_PASS:.0%} of its content words, or reaches token F1 {F1_PASSES}. "
    "Where citations are required, one must be valid. A question that the corpus does not answer is answered correctly by a refusal."
)
"""The rule of the metric `correct`. It reads words: it cannot see a paraphrase, and a wrong name may pass it."""


def _refusal_correct(case: Case) -> Outcome:
    assert case.answer is not None
    refused = case.answer["refused"]
    if not case.question["answerable"]:
        return Outcome(float(refused), explanation=None if refused else "answered a question outside the corpus")
    if not refused:
        return Outcome(1.0)
    whole = case.labels.groups and all(g.whole_at(_spans(case)) for g in case.labels.groups)
    return Outcome(0.0, SCORED, "refused", "refused with its evidence delivered" if whole else "refused after a retrieval miss")


# --------------------------------------------------------------------------------------------------- context and claims
def _spans(case: Case) -> list[Span]:
    return [(p["doc_id"], p["start"], p["end"]) for p in case.passages]


def _context_recall(case: Case) -> Outcome:
    reason = case.labels.no_groups
    if reason:
        return not_applicable(reason)
    if not case.passages:
        return Outcome(0.0, SCORED, "empty_context")
    lacking = [g.name for g in case.labels.groups if g.whole_at(_spans(case)) is None]
    total = len(case.labels.groups)
    return Outcome(1 - len(lacking) / total, explanation=("lacks " + ", ".join(lacking)) if lacking else None)


def _of_claims(measure: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
    def measured(case: Case) -> Outcome:
        assert case.answer is not None
        return not_applicable("refused") if case.answer["refused"] else measure(case)

    return measured


def _groundedness(case: Case) -> Outcome:
    if not case.passages:
        return not_applicable("empty_context")
    found = groundedness.by_sentence(case.text, [p["text"] for p in case.passages], case.language)
    value = groundedness.lexical(found)
    if value is None:
        return not_applicable("no_claims")
    foreign = dict.fromkeys(word for sentence in found for word in sentence.lacking)
    return Outcome(value, explanation=("not in the context: " + ", ".join(foreign)) if foreign else None)


def _claims(case: Case) -> list[str]:
    """Sentences of the answer with their markers; equal ones once."""
    assert case.answer is not None
    distinct: dict[tuple[str, ...], str] = {}
    for sentence in texts.sentences(case.answer["answer"] or ""):
        distinct.setdefault(tuple(texts.words(texts.without_markers(sentence))), sentence)
    return list(distinct.values())


# ------------------------------------------------------------------------------------------------------------- citations
def _citation_validity(case: Case) -> Outcome:
    if not case.citations:
        return not_applicable("no_citations")
    faults = [f"[{c.position + 1}] {c.fault}" for c in case.citations if c.fault]
    return Outcome(len(case.valid) / len(case.citations), explanation="; ".join(faults) or None)


def _citation_coverage(case: Case) -> Outcome:
    delivered = {p["chunk_id"] for p in case.passages}
    if not delivered:
        return not_applicable("empty_context")
    return Outcome(len(delivered & {c.chunk_id for c in case.valid}) / len(delivered))


def _citation_completeness(case: Case) -> Outcome:
    claims = _claims(case)
    if not claims:
        return not_applicable("no_claims")
    pointed = {c.position + 1 for c in case.valid}
    quoted = [set(texts.content_words(c.quotation, case.language)) for c in case.valid]
    marked = any(texts.markers(claim) for claim in claims)

    def cited(claim: str) -> bool:
        if marked:
            return bool(pointed & set(texts.markers(claim)))
        said = set(texts.content_words(claim, case.language))
        return any(said and len(said & words) / len(said) >= WORDS_PASS for words in quoted)

    bare = [texts.without_markers(c) for c in claims if not cited(c)]
    return Outcome(1 - len(bare) / len(claims), explanation=("uncited: " + " / ".join(bare)) if bare else None)


def _citation_gold_precision(case: Case) -> Outcome:
    reason = case.labels.no_groups
    if reason:
        return not_applicable(reason)
    if not case.citations:
        return not_applicable("no_citations")
    gold = sum(any(g.found_in(c.span) for g in case.labels.groups) for c in case.valid)
    return Outcome(gold / len(case.citations))


def _citation_gold_recall(case: Case) -> Outcome:
    reason = case.labels.no_groups
    if reason:
        return not_applicable(reason)
    cited = [g.name for g in case.labels.groups if any(g.found_in(c.span) for c in case.valid)]
    missed = [g.name for g in case.labels.groups if g.name not in cited]
    explanation = json.dumps({"cited": cited, "not_cited": missed}, ensure_ascii=False)
    return Outcome(len(cited) / len(case.labels.groups), explanation=explanation)


def cited_groups(row: Row) -> set[str]:
    """Groups that a row of citation_gold_recall says are cited."""
    return set(json.loads(row["explanation"])["cited"]) if row["status"] == SCORED and row["explanation"] else set()


def _squeezed(text: str) -> str:
    return " ".join(text.split())


METRICS: dict[str, tuple[str, str, Callable[[Case], Outcome]]] = {
    "correct": ("answer", "question", _correct),
    "exact_match": ("answer", "question", _against_reference(_exact_match)),
    "contains": ("answer", "question", _against_reference(_contains)),
    "token_f1": ("answer", "question", _against_reference(lambda c: Outcome(token_f1(c.text, c.reference, c.language)))),
    "rouge_l": ("answer", "question", _against_reference(lambda c: Outcome(rouge_l(c.text, c.reference)))),
    "nuggets_vital": ("answer", "question", _nuggets_vital),
    "refusal_correct": ("answer", "question", _refusal_correct),
    "groundedness_lexical": ("answer", "question", _of_claims(_groundedness)),
    "context_recall": ("context", "group", _context_recall),
    "citation_validity": ("citations", "question", _of_claims(_citation_validity)),
    "citation_coverage": ("citations", "question", _of_claims(_citation_coverage)),
    "citation_completeness": ("citations", "question", _of_claims(_citation_completeness)),
    "citation_gold_precision": ("citations", "question", _of_claims(_citation_gold_precision)),
    "citation_gold_recall": ("citations", "question", _of_claims(_citation_gold_recall)),
}
"""Every metric with its stage and the unit it counts."""
