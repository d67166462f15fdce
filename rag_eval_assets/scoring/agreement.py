"""How far an answer says what a reference or nugget says, as far as words, numbers, dates and negations tell.

What belongs here: comparisons of two texts. What does not: which texts are compared and what that means for a question (`answers`).
"""

from __future__ import annotations

from collections import Counter

from rag_eval_assets.scoring import dates, texts

WORDS_PASS = 0.8
"""Share of a reference's or nugget's content words from which an answer counts as stating it."""

NEGATION_REACH = 2
"""Words before a short reference in which a negation turns it around."""


def token_f1(answer: str, reference: str, language: str = "en") -> float:
    """Token F1 in SQuAD's normal form (Rajpurkar et al. 2016), between 0 and 1; two empty texts agree."""
    left, right = texts.normal_tokens(answer, language), texts.normal_tokens(reference, language)
    if not left or not right:
        return float(left == right)
    shared = sum((Counter(left) & Counter(right)).values())
    return 2 * shared / (len(left) + len(right))


def informative_f1(answer: str, reference: str, question: str, language: str = "en") -> float:
    """F1 of the content-word stems by which answer and reference go beyond the question, between 0 and 1; as often as they stand.

    Every answer repeats its question's words, so they tell nothing of its quality. Where the reference says nothing else, all content
    words count. On RAGChecker's 560 human preferences Pearson's correlation overall is .60; that of token F1 is .53.
    """
    asked = set(texts.content_words(question, language))
    said, wanted = (texts.content_words(texts.without_markers(text), language) for text in (answer, reference))
    if any(word not in asked for word in wanted):
        said, wanted = ([word for word in words if word not in asked] for words in (said, wanted))
    shared = sum((Counter(said) & Counter(wanted)).values())
    return 2 * shared / (len(said) + len(wanted)) if said or wanted else float(token_f1(answer, reference, language) == 1)


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
    """A date or number that is missing, or a negation that differs, between an answer and a statement; None for none of them."""
    return missing_dates(answer, statement) or missing_numbers(answer, statement) or turned(answer, statement, language)


def missing_dates(answer: str, statement: str) -> str | None:
    """Dates of the statement that the answer does not give, however they are written; None for none."""
    given, numbers = dates.dates(answer), texts.numbers(answer)
    missing = [d.text for d in dates.dates(statement) if not any(d.is_given_by(other, numbers) for other in given)]
    return "without the date " + ", ".join(missing) if missing else None


def missing_numbers(answer: str, statement: str) -> str | None:
    """Numbers of the statement, those of its dates apart, that the answer does not state; None for none."""
    missing = texts.numbers(dates.without_dates(statement)) - texts.numbers(answer)
    return "without the number " + ", ".join(f"{n:g}" for n in sorted(missing)) if missing else None


def turned(answer: str, statement: str, language: str = "en") -> str | None:
    """Whether the answer negates what the statement does not, or the other way round; None where they agree."""
    tokens = texts.normal_tokens(statement, language)
    if len(tokens) < 4 and not texts.negated(statement):
        place = texts.contains(tokens, said := texts.normal_tokens(answer, language))
        before = said[max(0, place - NEGATION_REACH) : place] if place is not None else []
        return "negated" if any(texts.is_negation(w) for w in before) else None
    if texts.negated(_closest(answer, statement, language)) == texts.negated(statement):
        return None
    return "negation is missing" if texts.negated(statement) else "negated"


def other_quantifiers(answer: str, statement: str, language: str = "en") -> str | None:
    """Kinds of quantifier (`texts.QUANTIFIERS`) in which the statement and the answer's closest sentence differ; None for none."""
    said, wanted = (texts.quantifiers(text, language) for text in (_closest(answer, statement, language), statement))
    told = [f"without {kind}" for kind in sorted(wanted - said)] + [f"with {kind}" for kind in sorted(said - wanted)]
    return ", ".join(told) or None


def _closest(answer: str, statement: str, language: str) -> str:
    """The answer's sentence that shares most content words with the statement."""
    stems = set(texts.content_words(statement, language))
    return max(texts.sentences(answer), key=lambda s: len(stems & set(texts.content_words(s, language))), default="")


def _word_share(answer: str, statement: str, language: str) -> float:
    # Numbers were compared by value; as words, "thirty" and "30" would differ.
    plain = [w for w in texts.words(statement) if not texts.numbers(w)]
    wanted = set(texts.content_words(" ".join(plain), language)) or set(plain)
    said = {*texts.content_words(answer, language), *texts.words(answer)}
    return len(wanted & said) / len(wanted) if wanted else float(bool(texts.numbers(statement)))
