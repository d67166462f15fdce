"""Deterministic scores of contexts, answers, citations and refusals, one row a question and metric.

What belongs here: measures that read words, spans and labels; none of them judges meaning. What does not: model verdicts
(`ragas_metrics`) and ranking measures (`ranking`).

A refusal is a class of its own. Asked what the corpus answers, it scores 0 for correctness (reason refused) and has neither
claims nor citations to measure; asked what the corpus does not answer, it is the correct answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rag_eval_assets.scoring import agreement, citations, dates, groundedness, ragas_metrics, structured, texts
from rag_eval_assets.scoring.agreement import WORDS_PASS, disagreement, informative_f1, rouge_l, states, token_f1
from rag_eval_assets.scoring.cases import Case
from rag_eval_assets.scoring.outcomes import Outcome, blocked, not_applicable, score_row
from rag_eval_assets.scoring.relevance import read_labels
from rag_eval_assets.tables import SCORED

F1_PASSES = 0.6
"""Token F1 with the reference from which an answer counts as agreeing with it."""


def score_answers(
    questions: list[dict[str, Any]],
    contexts: list[dict[str, Any]],
    answers: list[dict[str, Any]],
    evidence: list[dict[str, Any]],
    *,
    require_citations: bool,
    answer_schema: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Rows of system_scores for every question and every metric of `METRICS`, whatever order the rows come in.

    With a JSON Schema those of `STRUCTURED` too. Arguments are rows of golden_questions, contexts, answers and golden_evidence. A
    question without an answer row is missing.
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
        for metric, conformance in STRUCTURED.items() if answer_schema is not None else ():
            refused = not_applicable("refused") if case.refused else None
            found = blocked(case.answer) or refused or conformance((case.answer or {}).get("answer") or "", answer_schema or {})
            rows.append(score_row(question, metric, "question", "answer", found))
    return rows


def score_system(
    questions: list[dict[str, Any]],
    contexts: list[dict[str, Any]],
    answers: list[dict[str, Any]],
    evidence: list[dict[str, Any]],
    *,
    require_citations: bool,
    answer_schema: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """All scores of a system that need no model, but its ranking's: ours, and ragas's string measures."""
    rows = score_answers(questions, contexts, answers, evidence, require_citations=require_citations, answer_schema=answer_schema)
    return rows + ragas_metrics.score(questions, answers, contexts)


# ------------------------------------------------------------------------------------------------ against the reference
def _with_reference(measure: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
    def measured(case: Case) -> Outcome:
        if not case.question["answerable"]:
            return not_applicable("unanswerable")
        return measure(case) if case.reference else not_applicable("no_gold_answer")

    return measured


def _against_reference(measure: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
    """A refusal agrees with no reference: 0, and the reason says that it was one."""
    return _with_reference(lambda case: Outcome(0.0, SCORED, "refused") if case.refused else measure(case))


def _exact_match(case: Case) -> Outcome:
    same = texts.normal_tokens(case.text, case.language) == texts.normal_tokens(case.reference, case.language)
    return Outcome(float(same))


def _contains(case: Case) -> Outcome:
    reference = texts.normal_tokens(case.reference, case.language)
    return Outcome(float(texts.contains(reference, texts.normal_tokens(case.text, case.language)) is not None))


def _agrees(stated: Callable[[Case], Any], difference: Callable[[Case], str | None]) -> Callable[[Case], Outcome]:
    """1 where answer and reference do not differ in what is compared, 0 with the difference; a refusal states nothing to compare."""

    def measured(case: Case) -> Outcome:
        if case.refused:
            return not_applicable("refused")
        if not stated(case):
            return not_applicable("nothing_to_compare")
        wrong = difference(case)
        return Outcome(float(wrong is None), explanation=wrong)

    return _with_reference(measured)


_numbers_agree = _agrees(
    lambda c: texts.numbers(dates.without_dates(c.reference)), lambda c: agreement.missing_numbers(c.text, c.reference)
)
_dates_agree = _agrees(lambda c: dates.dates(c.reference), lambda c: agreement.missing_dates(c.text, c.reference))
_negation_agrees = _agrees(
    lambda c: texts.negated(c.reference) or texts.negated(c.text), lambda c: agreement.turned(c.text, c.reference, c.language)
)
_quantifiers_agree = _agrees(
    lambda c: texts.quantifiers(c.reference, c.language) or texts.quantifiers(c.text, c.language),
    lambda c: agreement.other_quantifiers(c.text, c.reference, c.language),
)


def _nuggets(vital: bool) -> Callable[[Case], Outcome]:
    def measured(case: Case) -> Outcome:
        wanted = _facts(case, vital)
        if not case.question["answerable"]:
            return not_applicable("unanswerable")
        if not wanted:
            return not_applicable("no_labels")
        if case.refused:
            return Outcome(0.0, SCORED, "refused")
        lacking = [n for n in wanted if states(case.text, n, case.language)]
        return Outcome(1 - len(lacking) / len(wanted), explanation=("lacks: " + "; ".join(lacking)) if lacking else None)

    return measured


def _facts(case: Case, vital: bool) -> list[str]:
    """Distinct nuggets of the question, vital or okay ones."""
    return list(dict.fromkeys(n["text"] for n in case.question.get("nuggets") or () if n["vital"] == vital and n["text"].strip()))


def _correct(case: Case) -> Outcome:
    """Whether the answer passes; the rule is stated in `CORRECT`."""
    if not case.question["answerable"]:
        return Outcome(float(case.refused), explanation="refused, rightly" if case.refused else "answered what the corpus does not answer")
    vital = _facts(case, vital=True)
    if not case.reference and not vital:
        return not_applicable("no_gold_answer")
    if case.refused:
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
    f"dates, numbers and negation and contains it, holds {WORDS_PASS:.0%} of its content words, or reaches token F1 {F1_PASSES}. "
    "Where citations are required, one must be valid. A question that the corpus does not answer is answered correctly by a refusal."
)
"""The rule of the metric `correct`. It reads words: it cannot see a paraphrase, and a wrong name may pass it."""


def _refusal_correct(case: Case) -> Outcome:
    if not case.question["answerable"]:
        return Outcome(float(case.refused), explanation=None if case.refused else "answered a question outside the corpus")
    if not case.refused:
        return Outcome(1.0)
    return Outcome(0.0, SCORED, "refused", "refused with its evidence delivered" if case.evidence_delivered else _MISSED)


_MISSED = "refused after a retrieval miss"


def _refusal_precision(case: Case) -> Outcome:
    """Correct refusals over refusals; a wrong one says whether its evidence was delivered."""
    if not case.refused:
        return not_applicable("not_refused")
    return _refusal_correct(case)


def _refusal_recall(case: Case) -> Outcome:
    """Refusals over the questions that the corpus does not answer."""
    return not_applicable("answerable") if case.question["answerable"] else _refusal_correct(case)


def _refusal_after_miss(case: Case) -> Outcome:
    """Refusals over the questions that the corpus answers but whose evidence was not delivered: what was delivered permits no answer."""
    reason = case.labels.no_groups or ("evidence_delivered" if case.evidence_delivered else None)
    return not_applicable(reason) if reason else Outcome(float(case.refused))


def _answered_with_evidence(case: Case) -> Outcome:
    """Answers over the questions whose evidence was delivered: what was delivered permits an answer."""
    reason = case.labels.no_groups or (None if case.evidence_delivered else "evidence_not_delivered")
    return not_applicable(reason) if reason else Outcome(float(not case.refused))


# --------------------------------------------------------------------------------------------------- context and claims
def _context_recall(case: Case) -> Outcome:
    reason = case.labels.no_groups
    if reason:
        return not_applicable(reason)
    if not case.passages:
        return Outcome(0.0, SCORED, "empty_context")
    lacking = [g.name for g in case.labels.groups if g.whole_at(case.spans) is None]
    total = len(case.labels.groups)
    return Outcome(1 - len(lacking) / total, explanation=("lacks " + ", ".join(lacking)) if lacking else None)


def _of_claims(measure: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
    def measured(case: Case) -> Outcome:
        return not_applicable("refused") if case.refused else measure(case)

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


def _unseen_entities(case: Case) -> Outcome:
    """1 flags an answer that names someone or something that neither its passages nor its question name."""
    if not case.passages:
        return not_applicable("empty_context")
    if not texts.words(case.text):
        return not_applicable("no_claims")
    unseen = groundedness.unseen_entities(case.text, [case.question["text"], *(p["text"] for p in case.passages)], case.language)
    return Outcome(float(bool(unseen)), explanation=", ".join(unseen) or None)


METRICS: dict[str, tuple[str, str, Callable[[Case], Outcome]]] = {
    "correct": ("answer", "question", _correct),
    "exact_match": ("answer", "question", _against_reference(_exact_match)),
    "contains": ("answer", "question", _against_reference(_contains)),
    "token_f1": ("answer", "question", _against_reference(lambda c: Outcome(token_f1(c.text, c.reference, c.language)))),
    "rouge_l": ("answer", "question", _against_reference(lambda c: Outcome(rouge_l(c.text, c.reference)))),
    "informative_f1": (
        "answer", "question",
        _against_reference(lambda c: Outcome(informative_f1(c.text, c.reference, c.question["text"], c.language))),
    ),
    "numbers_agree": ("answer", "question", _numbers_agree),
    "dates_agree": ("answer", "question", _dates_agree),
    "negation_agrees": ("answer", "question", _negation_agrees),
    "quantifiers_agree": ("answer", "question", _quantifiers_agree),
    "nuggets_vital": ("answer", "question", _nuggets(vital=True)),
    "nuggets_okay": ("answer", "question", _nuggets(vital=False)),
    "refusal_correct": ("answer", "question", _refusal_correct),
    "refusal_precision": ("answer", "question", _refusal_precision),
    "refusal_recall": ("answer", "question", _refusal_recall),
    "refusal_after_miss": ("answer", "question", _refusal_after_miss),
    "answered_with_evidence": ("answer", "question", _answered_with_evidence),
    "groundedness_lexical": ("answer", "question", _of_claims(_groundedness)),
    "unseen_entity_flag": ("answer", "question", _of_claims(_unseen_entities)),
    "context_recall": ("context", "group", _context_recall),
    "citation_validity": ("citations", "question", _of_claims(citations.validity)),
    "citation_coverage": ("citations", "question", _of_claims(citations.coverage)),
    "citation_completeness": ("citations", "question", _of_claims(citations.completeness)),
    "citation_gold_precision": ("citations", "question", _of_claims(citations.gold_precision)),
    "citation_gold_recall": ("citations", "question", _of_claims(citations.gold_recall)),
    "citation_provenance": ("citations", "question", _of_claims(citations.provenance)),
}  # fmt: skip
"""Every metric with its stage and the unit it counts."""

STRUCTURED: dict[str, Callable[[str, Mapping[str, Any]], Outcome]] = {
    "schema_conformance": structured.schema_conformance,
    "vocabulary_conformance": structured.vocabulary_conformance,
}
"""Metrics of the answer and its JSON Schema, where the settings name one."""

FLAGS = frozenset({"unseen_entity_flag"})
"""Metrics that only point at answers to read: they may not gate before their precision and recall on labels are known."""
