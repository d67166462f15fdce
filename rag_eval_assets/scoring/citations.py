"""Measures of an answer's citations: whether they resolve, what they cover, and whether they stand on gold evidence.

What belongs here: what spans and labels tell. What does not: whether a cited passage supports its claim, which is a verdict (`claims`).
An invented citation stays in every denominator, so that it costs precision.
"""

from __future__ import annotations

import json

from rag_eval_assets.scoring import texts
from rag_eval_assets.scoring.agreement import WORDS_PASS
from rag_eval_assets.scoring.cases import Case
from rag_eval_assets.scoring.outcomes import Outcome, not_applicable
from rag_eval_assets.scoring.relevance import Row
from rag_eval_assets.tables import SCORED


def validity(case: Case) -> Outcome:
    """Share of the citations that nothing is wrong with; the explanation names the others."""
    if not case.citations:
        return not_applicable("no_citations")
    faults = [f"[{c.position + 1}] {c.fault}" for c in case.citations if c.fault]
    return Outcome(len(case.valid) / len(case.citations), explanation="; ".join(faults) or None)


def coverage(case: Case) -> Outcome:
    """Distinct delivered chunks that are cited, over the distinct delivered chunks."""
    delivered = {p["chunk_id"] for p in case.passages}
    if not delivered:
        return not_applicable("empty_context")
    return Outcome(len(delivered & {c.chunk_id for c in case.valid}) / len(delivered))


def completeness(case: Case) -> Outcome:
    """Share of the claims with at least one citation that resolves; citations without markers count for the claims they quote."""
    claims = case.claims
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


def gold_precision(case: Case) -> Outcome:
    """Share of all citations, invented ones too, that overlap gold evidence."""
    reason = case.labels.no_groups
    if reason:
        return not_applicable(reason)
    if not case.citations:
        return not_applicable("no_citations")
    gold = sum(any(g.found_in(c.span) for g in case.labels.groups) for c in case.valid)
    return Outcome(gold / len(case.citations))


def gold_recall(case: Case) -> Outcome:
    """Share of the evidence groups that a citation overlaps."""
    reason = case.labels.no_groups
    if reason:
        return not_applicable(reason)
    cited = [g.name for g in case.labels.groups if any(g.found_in(c.span) for c in case.valid)]
    missed = [g.name for g in case.labels.groups if g.name not in cited]
    explanation = json.dumps({"cited": cited, "not_cited": missed}, ensure_ascii=False)
    return Outcome(len(cited) / len(case.labels.groups), explanation=explanation)


def provenance(case: Case) -> Outcome:
    """Share of the citations that lead to a place in a source document: a document with its id, and a span in its text."""
    if not case.citations:
        return not_applicable("no_citations")
    lost = [f"[{c.position + 1}] {c.fault or 'names no span'}" for c in case.citations if c.fault or not c.span[0] or None in c.span]
    return Outcome(1 - len(lost) / len(case.citations), explanation="; ".join(lost) or None)


def cited_groups(row: Row) -> set[str]:
    """Groups that a row of citation_gold_recall says are cited."""
    return set(json.loads(row["explanation"])["cited"]) if row["status"] == SCORED and row["explanation"] else set()
