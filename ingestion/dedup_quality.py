"""How well near-duplicates are found on labelled pairs, and what a merge costs the golden set, over a sweep of MinHash's settings.

What belongs here: measuring. What does not: deciding what is a copy (`dedup`) and finding a quotation (`evidence`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ingestion import minhash
from ingestion.dedup import DedupPolicy, are_versions, parted, survivors
from ingestion.minhash import ContentStore, Signatures
from ingestion.quotations import locate
from ingestion.rates import clopper_pearson


def _labelled_pairs(labels: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Labelled pairs of documents that are there; where annotators differ the majority counts, and a tie leaves the pair out."""
    votes: Counter[tuple[str, str]] = Counter()
    for label in labels:
        one, other = label["doc_id"], label["other_doc_id"]
        if label["kind"] == "duplicate" and one in known and other in known and one != other:
            votes[min(one, other), max(one, other)] += 1 if label["value"] == "yes" else -1
    return [(one, other, votes[one, other] > 0) for one, other in sorted(votes) if votes[one, other]]


def _rated(name: str, successes: int, trials: int) -> dict[str, float | None]:
    if not trials:
        return {name: None, f"{name}_lower": None, f"{name}_upper": None}
    lower, upper = clopper_pearson(successes, trials)
    return {name: successes / trials, f"{name}_lower": lower, f"{name}_upper": upper}


def _points(policy: DedupPolicy, permutations: Sequence[int], bands: Sequence[int], thresholds: Sequence[float]) -> list[DedupPolicy]:
    """The sweep in order of permutations, bands and threshold, the setting in force among it; bands by rule where none are given."""
    chosen: Sequence[int | None] = bands or [None]
    swept = [replace(policy, permutations=p, bands=b, threshold=t) for p in permutations for b in chosen for t in thresholds]
    points = {(point.permutations, point.shape[0], point.threshold): point for point in [*swept, policy]}
    return [points[key] for key in sorted(points)]


def _found(found: Signatures, one: int, other: int, jaccard: float, point: DedupPolicy) -> bool:
    """Whether `dedup` would take this pair of rows for copies, whatever keeps documents apart."""
    if jaccard < point.threshold:
        return False
    if one == other:
        return True
    proposed = minhash.share_a_band(found.values[one], found.values[other], point.shape)
    return proposed and bool(minhash.plausible(found, np.array([one]), np.array([other]), point.threshold, point.containment)[0])


def dedup_quality(
    documents: Iterable[Mapping[str, Any]],
    labels: list[dict[str, Any]],
    policy: DedupPolicy,
    permutations: Sequence[int],
    bands: Sequence[int],
    thresholds: Sequence[float],
    quotations: Sequence[tuple[str, str]] = (),
    protected: Sequence[str] = (),
    store: ContentStore | None = None,
    texts: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Rows of `dedup_quality`: each (permutations, bands, threshold) of the sweep, and the setting in force.

    A labelled pair counts as found if the LSH index proposes it, its true Jaccard similarity reaches the threshold, and the two are
    not versions of one document; fields that keep documents apart do not enter, since labels say what a text is a copy of.
    `false_merge_rate` = found among pairs labelled no; `missed_merge_rate` = not found among those labelled yes.

    `quotations` are (doc_id, quotation) of the golden set, `texts` as in `near_duplicates`. At each point the documents are merged
    as `near_duplicates` would with the fields of `protected`: `merged_quotations` stand in a document that is dropped,
    `lost_quotations` of these not in its survivor, `evidence_loss` is their share.

    Limits are 95% Clopper-Pearson; a rate without anything to measure on is null. Where neither a pair nor a merged
    quotation is there the point is `not_applicable`, reason `no_pairs`.
    """
    good, texts = parted(documents, texts)
    known = {d["doc_id"]: d for d in good}
    pairs = _labelled_pairs(labels, known)
    labelled = {sha: texts[sha] for one, other, _ in pairs for sha in (known[one]["text_sha256"], known[other]["text_sha256"])}
    row_of = {sha: row for row, sha in enumerate(sorted(labelled))}
    compare = minhash.Comparisons(labelled, policy.shingle_length)
    measured = []
    for one, other, yes in pairs:
        shas = (known[one]["text_sha256"], known[other]["text_sha256"])
        jaccard = 0.0 if are_versions(known[one], known[other]) else compare(*shas)[0]
        measured.append((row_of[shas[0]], row_of[shas[1]], jaccard, yes))

    @cache
    def stands(doc_id: str, quotation: str) -> bool:
        return locate(quotation, texts[known[doc_id]["text_sha256"]]) is not None

    asked = sorted({(doc_id, quotation) for doc_id, quotation in quotations if doc_id in known})
    points = _points(policy, permutations, bands, thresholds)
    merges = survivors(good, texts, points, protected, store) if asked else ({} for _ in points)
    found: dict[int, Signatures] = {}
    rows: list[dict[str, Any]] = []
    for point, survivor in zip(points, merges, strict=True):
        count = point.permutations
        if count not in found:
            found = {count: minhash.signatures(labelled, point.shingle_length, count, store)}
        outcomes = Counter((yes, _found(found[count], one, other, jaccard, point)) for one, other, jaccard, yes in measured)
        merged, missed = outcomes[True, True], outcomes[True, False]
        false, apart = outcomes[False, True], outcomes[False, False]
        moved = [(survivor[d], quotation) for d, quotation in asked if survivor[d] != d and stands(d, quotation)]
        lost = sum(not stands(*there) for there in moved)
        rows.append(
            {
                "permutations": count,
                "bands": point.shape[0],
                "threshold": point.threshold,
                "labelled_pairs": len(pairs),
                **_rated("precision", merged, merged + false),
                **_rated("recall", merged, merged + missed),
                **_rated("false_merge_rate", false, false + apart),
                **_rated("missed_merge_rate", missed, merged + missed),
                "merged_quotations": len(moved),
                "lost_quotations": lost,
                **_rated("evidence_loss", lost, len(moved)),
                "used": point == policy,
                "status": "scored" if pairs or moved else "not_applicable",
                "reason": None if pairs or moved else "no_pairs",
            }
        )
    return rows
