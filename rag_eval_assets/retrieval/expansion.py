"""Query expansion from the texts a first search finds (pseudo-relevance feedback).

What belongs here: the weights of an expanded query. What does not: scores (`bm25`) and expansions that need a language model.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_eval_assets.retrieval.bm25 import Bm25Index
from rag_eval_assets.retrieval.ordering import Hits, Mask


def rm3_weights(
    query: Sequence[str], feedback: Sequence[tuple[Sequence[str], float]], *, fb_terms: int, original_weight: float
) -> dict[str, float]:
    """Weights, which sum to 1, of the query's terms and of the `fb_terms` likeliest terms of the feedback texts.

    A feedback text comes as its terms and its score, which must be positive. P(term | relevant) is the sum over texts of
    score / all scores * tf / length; its best `fb_terms` (ties: term ascending) are scaled to sum 1, and mixed with the query's
    own tf / length by `original_weight`. Source: Abdul-Jaleel et al. 2004 (UMass at TREC), over Lavrenko and Croft's relevance model.
    """
    own = {term: count / len(query) for term, count in Counter(query).items()}
    total = math.fsum(score for _, score in feedback)
    parts: dict[str, list[float]] = {}
    for terms, score in feedback:
        for term, count in Counter(terms).items():
            parts.setdefault(term, []).append(score / total * count / len(terms))
    model = {term: math.fsum(found) for term, found in parts.items()}
    best = sorted(model, key=lambda term: (-model[term], term))[:fb_terms]
    mass = math.fsum(model[term] for term in best)
    if not best:
        return own
    mixed = {
        term: original_weight * own.get(term, 0.0) + (1 - original_weight) * (model[term] / mass if term in best else 0.0)
        for term in {*own, *best}
    }
    return {term: weight for term, weight in sorted(mixed.items()) if weight > 0}


def rm3(index: Bm25Index, query: Sequence[str], eligible: Mask | None, depth: int, parameters: Mapping[str, float]) -> Hits:
    """The ranking of `query` expanded from its own best `fb_docs` chunks among the eligible ones: nothing a caller may not read
    shapes its query. `detail` lists the expansion's terms; `seconds` holds both searches.
    """
    started = time.perf_counter()
    first = index.search(query, eligible, int(parameters["fb_docs"]))
    if not len(first.positions):
        return first
    feedback = [(index.terms[at], float(score)) for at, score in zip(first.positions, first.scores, strict=True)]
    weights = rm3_weights(query, feedback, fb_terms=int(parameters["fb_terms"]), original_weight=parameters["original_weight"])
    hits = index.search_weighted(weights, eligible, depth)
    added = sorted(set(weights) - set(query), key=lambda term: (-weights[term], term))
    return replace(hits, detail=f"expanded by: {' '.join(added) or 'nothing'}", seconds=time.perf_counter() - started)
