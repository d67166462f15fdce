"""Near-duplicate detection on texts with labelled edits: precision and recall by threshold, against labels and against true similarity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import mean
from typing import Any

from ingestion.dedup import DedupPolicy, near_duplicates
from ingestion.dedup_quality import dedup_quality
from tests.benchmarks.edits import Edited, edited_texts
from tests.ingestion.documents import document, set_similarity

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
COPIES = {"words-1", "words-2", "words-5", "words-10", "moved", "frame-20", "frame-60"}
"""Edits that leave a copy, as a person would label it. Text in a long frame or with a fifth of its words changed is another document."""


@dataclass(frozen=True)
class Point:
    """One threshold: pairs at least so similar by Python's own sets, those of them that were found, and pairs found under it."""

    threshold: float
    similar: int
    found: int
    under: int
    labelled: dict[str, Any]
    """The row of `dedup_quality`."""


@dataclass(frozen=True)
class Result:
    texts: int
    pairs: int
    points: list[Point]
    edits: dict[str, tuple[float, float]]
    """By edit: mean true similarity to the unedited text, and the share found at the default threshold, as copy or contained."""

    def lines(self) -> Iterator[str]:
        yield f"{self.texts} texts, {self.pairs} pairs, all compared by Python's sets"
        yield "threshold  similar    found  under  recall of similar  | labelled pairs: precision  recall"
        for p in self.points:
            share = f"{p.found / p.similar:17.4f}" if p.similar else f"{'-':>17}"
            sides = "  ".join("     -" if p.labelled[side] is None else f"{p.labelled[side]:6.3f}" for side in ("precision", "recall"))
            yield f"{p.threshold:9.2f} {p.similar:8} {p.found:8} {p.under:6}  {share}  | {' ' * 16}{sides}"
        yield "edit        similarity  found at the default threshold"
        for edit, (similarity, found) in self.edits.items():
            yield f"{edit:11} {similarity:10.3f}  {found:.2f}"


def labels(texts: list[Edited]) -> list[dict[str, Any]]:
    """Each text against the unedited one, and texts of two bases in one frame, which are no copies."""
    bases = {t.base: t.name for t in texts if not t.edit}
    made = [(bases[t.base], t.name, t.edit in COPIES) for t in texts if t.edit]
    longest = [t.name for t in texts if t.edit == "frame-120"]
    made += [(one, other, False) for one, other in pairwise(longest)]
    return [
        {"kind": "duplicate", "doc_id": one, "other_doc_id": other, "value": "yes" if yes else "no", "annotator": "edits"}
        for one, other, yes in made
    ]


def measure(bases: int) -> Result:
    texts = edited_texts(bases)
    documents = [document(t.name, t.text) for t in texts]
    by_name = {t.name: t for t in texts}
    true = {(a.name, b.name): set_similarity(a.text, b.text)[0] for a, b in combinations(sorted(texts, key=lambda t: t.name), 2)}
    rows = dedup_quality(documents, labels(texts), DedupPolicy(), (128,), (), THRESHOLDS)
    points, edits = [], defaultdict(list)
    for row in sorted(rows, key=lambda row: row["threshold"]):
        found = near_duplicates(documents, DedupPolicy(threshold=row["threshold"]), [])
        near = {(r["doc_id"], r["other_doc_id"]) for r in found if r["row"] == "pair" and r["relation"] in ("exact", "near")}
        similar = {pair for pair, jaccard in true.items() if jaccard >= row["threshold"]}
        points.append(Point(row["threshold"], len(similar), len(similar & near), len(near - similar), row))
        if row["used"]:
            linked = {(r["doc_id"], r["other_doc_id"]) for r in found if r["row"] == "pair"}
            for (one, other), jaccard in true.items():
                edited = [by_name[name] for name in (one, other)]
                if edited[0].base == edited[1].base and sorted(t.edit == "" for t in edited) == [False, True]:
                    edits[edited[0].edit or edited[1].edit].append((jaccard, (one, other) in linked))
    means = {edit: (mean(j for j, _ in seen), mean(f for _, f in seen)) for edit, seen in edits.items()}
    return Result(len(texts), len(true), points, dict(sorted(means.items(), key=lambda item: -item[1][0])))
