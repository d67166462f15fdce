"""Titles, headings and the headings above a passage, against human labels.

What belongs here: comparing what a document is given with what people read. What does not: choosing a title (`titles`) and building heading
paths (the parsers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ingestion import quotations
from ingestion.measures import listed, rate, ratio

Row = Mapping[str, Any]

LIKE: Final = 0.5
"""Similarity under which a Title is no reading of a labelled heading, whatever its level."""

STEP: Final = " > "
"""Parts one heading of a labelled path from the next."""


def structure_quality(documents: Mapping[str, Row], labels: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """Rows of `cleaning_quality` on structure, over `documents` (rows by id) and labels by kind; white space is collapsed on all sides.

    - `title_exact`: labelled documents whose title is the labelled one; `title_similarity`: the mean of 1 - Levenshtein distance /
      length of the longer.
    - `heading_exact`: labelled headings that a Title element of their document equals; `heading_similarity`: the mean of the best
      similarity to one, 0 where none reaches `LIKE`; `heading_level`: those whose most similar Title, if like enough, stands at the
      labelled level.
    - `heading_path_kept`: labelled passages above which exactly the labelled headings stand.

    Scopes: all, and `class=`. A mean of similarities is no binomial rate and holds no interval.
    """
    kinds = {"title": _titles, "heading": _headings, "heading_path": _paths}
    rows = []
    for kind, compare in kinds.items():
        usable = [label for label in labels.get(kind, ()) if label["doc_id"] in documents]
        skipped = len(labels.get(kind, ())) - len(usable)
        classes = sorted({documents[label["doc_id"]]["doc_class"] for label in usable})
        rows += compare("all", documents, usable, skipped)
        for name in classes:
            part = [label for label in usable if documents[label["doc_id"]]["doc_class"] == name]
            rows += compare(f"class={name}", documents, part, 0)
    return rows


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _similarity(one: str, other: str) -> float:
    from rapidfuzz.distance import Levenshtein

    return float(Levenshtein.normalized_similarity(one, other))


def _titles(scope: str, documents: Mapping[str, Row], labels: Sequence[Row], skipped: int) -> list[dict[str, Any]]:
    pairs = [(label["doc_id"], _line(label["value"]), _line(documents[label["doc_id"]]["title"])) for label in labels]
    wrong = [(doc_id, f"{read or '(none)'} for {gold}") for doc_id, gold, read in pairs if gold != read]
    likeness = sum(_similarity(gold, read) for _, gold, read in pairs)
    return [
        rate("title_exact", scope, len(pairs) - len(wrong), len(pairs), listed("wrong", wrong, skipped)),
        ratio("title_similarity", scope, likeness, len(pairs)),
    ]


def _headings(scope: str, documents: Mapping[str, Row], labels: Sequence[Row], skipped: int) -> list[dict[str, Any]]:
    likeness, level, missed, misplaced = 0.0, 0, [], []
    for label in labels:
        document, gold = documents[label["doc_id"]], _line(label["quotation"])
        best, at = 0.0, 0
        for element in document["elements"]:
            if element["category"] == "Title":
                similar = _similarity(gold, _line(document["text"][element["start"] : element["end"]]))
                if similar > best and similar >= LIKE:
                    best, at = similar, len(element["heading_path"]) + 1
        likeness += best
        level += str(at) == label["value"]
        if best < 1:
            missed.append((label["doc_id"], label["quotation"]))
        if str(at) != label["value"]:
            misplaced.append((label["doc_id"], f"{label['quotation']} (level {at or 'none'} for {label['value']})"))
    total = len(labels)
    return [
        rate("heading_exact", scope, total - len(missed), total, listed("missed", missed, skipped)),
        ratio("heading_similarity", scope, likeness, total),
        rate("heading_level", scope, level, total, listed("misplaced", misplaced, skipped)),
    ]


def _paths(scope: str, documents: Mapping[str, Row], labels: Sequence[Row], skipped: int) -> list[dict[str, Any]]:
    lost = []
    for label in labels:
        document = documents[label["doc_id"]]
        gold = [_line(heading) for heading in label["value"].split(STEP)]
        read = _path_of(document, label["quotation"])
        if read != gold:
            shown = "is not in the text" if read is None else f"under {STEP.join(read) or 'no heading'}"
            lost.append((label["doc_id"], f"{label['quotation'][:40]} {shown}"))
    return [rate("heading_path_kept", scope, len(labels) - len(lost), len(labels), listed("lost", lost, skipped))]


def _path_of(document: Row, quotation: str) -> list[str] | None:
    """The headings above the element that a quotation begins in; None where the text does not hold it."""
    found = quotations.locate(quotation, document["text"])
    if found is None:
        return None
    within = [e for e in document["elements"] if e["start"] <= found.start < e["end"]]
    return [_line(heading) for heading in within[0]["heading_path"]] if within else []
