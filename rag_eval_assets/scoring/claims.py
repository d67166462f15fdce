"""What verdicts on single claims add up to: shares of supported claims, and the measures of RAGChecker.

What belongs here: arithmetic on verdicts, and refusing verdict lists that are no partition of the claims. What does not: asking a judge
for claims or verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_eval_assets.scoring.outcomes import Outcome, failed, not_applicable

Entailed = Sequence[bool]
"""One verdict a claim."""


def merged(claims: Sequence[str]) -> list[str]:
    """Claims with equal ones once, white space and case apart, as they must stand before anyone judges them. ValueError for a blank one."""
    kept: dict[str, str] = {}
    for claim in claims:
        words = " ".join(claim.split())
        if not words:
            raise ValueError("a claim is blank")
        kept.setdefault(words.casefold(), words)
    return list(kept.values())


def supported_share(claims: Sequence[str], supported: Sequence[str], unsupported: Sequence[str]) -> Outcome:
    """Share of the claims that are supported, where the two lists are a complete, disjoint partition of them.

    No claims is not_applicable, no_claims. A claim in both lists, in neither, twice in one, blank, or made up by the judge fails the row
    as unparsable_judgment: never a score.
    """
    try:
        wanted = merged(claims)
        lists = [merged(supported), merged(unsupported)]
    except ValueError as error:
        return failed("unparsable_judgment", str(error))
    keys, yes, no = ({c.casefold() for c in part} for part in (wanted, *lists))
    faults = [
        (len(wanted) != len(claims), "equal claims were not merged before judging"),
        (len(lists[0]) + len(lists[1]) != len(supported) + len(unsupported), "a claim is judged twice"),
        (bool(yes & no), "a claim is in both lists"),
        (bool(keys - yes - no), "a claim is in neither list"),
        (bool((yes | no) - keys), "a verdict is on no claim of the answer"),
    ]
    wrong = [text for found, text in faults if found]
    if wrong:
        return failed("unparsable_judgment", "; ".join(wrong))
    return Outcome(len(yes) / len(keys)) if keys else not_applicable("no_claims")


def ragchecker(
    response_in_reference: Entailed,
    reference_in_response: Entailed,
    reference_in_chunks: Sequence[Entailed],
    response_in_chunks: Sequence[Entailed],
) -> dict[str, float | None]:
    """Measures of one question (Ru et al. 2024, "RAGChecker"), between 0 and 1; None where a measure has no denominator.

    Verdicts say whether a claim is entailed: of the response by the reference answer, of the reference by the response, and, a list
    over delivered chunks for each claim, of either by each chunk. ValueError for lists of unequal length.
    """
    if len(response_in_reference) != len(response_in_chunks) or len(reference_in_response) != len(reference_in_chunks):
        raise ValueError("each claim needs one verdict against the other answer and one list of verdicts over chunks")
    if len({len(verdicts) for verdicts in (*reference_in_chunks, *response_in_chunks)}) > 1:
        raise ValueError("each claim needs one verdict for each delivered chunk")
    grounded = [any(verdicts) for verdicts in response_in_chunks]
    retrieved = [any(verdicts) for verdicts in reference_in_chunks]
    pairs = list(zip(response_in_reference, grounded, strict=True))
    precision, recall = _share(response_in_reference), _share(reference_in_response)
    return {
        "precision": precision,
        "recall": recall,
        "f1": None if precision is None or recall is None else 2 * precision * recall / (precision + recall or 1.0),
        "claim_recall": _share(retrieved),
        "context_precision": _share([any(by_chunk) for by_chunk in zip(*reference_in_chunks, strict=True)]),
        "context_utilization": _share([used for used, there in zip(reference_in_response, retrieved, strict=True) if there]),
        "faithfulness": _share(grounded),
        "hallucination": _share([not right and not held for right, held in pairs]),
        "self_knowledge": _share([right and not held for right, held in pairs]),
    }


def _share(verdicts: Sequence[bool]) -> float | None:
    return sum(map(bool, verdicts)) / len(verdicts) if verdicts else None
