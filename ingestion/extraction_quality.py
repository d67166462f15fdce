"""Entities and relations that some tool predicted, against labelled ones, on exact spans.

What belongs here: precision, recall and F1 by tool and type. What does not: predicting (tools do; what they gave is imported).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ingestion import quotations
from ingestion.measures import listed, measure, rate, ratio

Row = Mapping[str, Any]
Fact = tuple[str, str, tuple[int, int], tuple[int, int] | None]
"""Document, type, span, and the span of a relation's other end."""


def extraction_quality(documents: Mapping[str, Row], labels: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """Rows `entity_*` and `relation_*` of `cleaning_quality`: precision, recall and F1 for each source and type, never pooled.

    A label without `source` is a person's, one with it a prediction of that source. A prediction is right if document, type and the exact
    spans in the canonical text are those of a label. A document with any label of the kind counts as labelled whole, with value `none` as
    one that holds nothing; predictions on others are in no figure. Without labels, or without predictions, the measures are
    not_applicable, reason `no_labels` or `no_predictions`.
    """
    rows = []
    for kind in ("entity", "relation"):
        names = [f"{kind}_precision", f"{kind}_recall", f"{kind}_f1"]
        mine = [label for label in labels.get(kind, ()) if label["doc_id"] in documents]
        gold = [label for label in mine if not label["source"]]
        predicted: dict[str, list[Row]] = defaultdict(list)
        for label in mine:
            if label["source"]:
                predicted[label["source"]].append(label)
        if not gold or not predicted:
            reason = "no_predictions" if gold else "no_labels"
            rows += [measure(name, "all") | {"reason": reason} for name in names]
            continue
        whole = {label["doc_id"] for label in gold}
        wanted = _facts(gold, documents)
        for source, claims in sorted(predicted.items()):
            found = _facts([claim for claim in claims if claim["doc_id"] in whole], documents)
            outside = sum(claim["doc_id"] not in whole for claim in claims)
            for name in sorted({fact[1] for fact in (*wanted, *found)}):
                rows += _rates(kind, f"source={source} type={name}", _of(wanted, name), _of(found, name), outside)
    return rows


def _of(facts: Mapping[Fact, str], name: str) -> dict[Fact, str]:
    return {fact: shown for fact, shown in facts.items() if fact[1] == name}


def _rates(kind: str, scope: str, wanted: Mapping[Fact, str], found: Mapping[Fact, str], outside: int) -> list[dict[str, Any]]:
    right = len(wanted.keys() & found.keys())
    invented = [(fact[0], shown) for fact, shown in found.items() if fact not in wanted]
    missed = [(fact[0], shown) for fact, shown in wanted.items() if fact not in found]
    note = f"{outside} predictions on documents without labels are not counted" if outside else None
    detail = ". ".join(filter(None, (listed("not labelled", invented), note))) or None
    return [
        rate(f"{kind}_precision", scope, right, len(found), detail),
        rate(f"{kind}_recall", scope, right, len(wanted), listed("missed", missed)),
        ratio(f"{kind}_f1", scope, 2 * right, len(wanted) + len(found)),
    ]


def _facts(labels: Sequence[Row], documents: Mapping[str, Row]) -> dict[Fact, str]:
    """Facts with the quotation that shows them. What stands nowhere in the text gets a span of its own, which nothing equals."""
    facts: dict[Fact, str] = {}
    for number, label in enumerate(labels):
        if label["value"] == "none":
            continue
        text = documents[label["doc_id"]]["text"]
        nowhere = (-1 - number, -1 if label["source"] else -2)
        span = _span(text, label["quotation"], label["occurrence"] or 1) or nowhere
        other = (_span(text, label["other_quotation"], 1) or nowhere) if label["other_quotation"] else None
        shown = label["quotation"] + (f" / {label['other_quotation']}" if other else "")
        facts[label["doc_id"], label["value"], span, other] = shown
    return facts


def _span(text: str, quotation: str, occurrence: int) -> tuple[int, int] | None:
    """The span of a quotation's occurrence (from 1): the same characters, white space apart, else the same once normalised."""
    words = r"\s+".join(re.escape(word) for word in quotation.split())
    found = [match.span() for match in re.finditer(rf"(?<!\w){words}(?!\w)", text)]
    if len(found) >= occurrence:
        return found[occurrence - 1]
    located = quotations.locate(quotation, text) if occurrence == 1 else None
    return (located.start, located.end) if located and located.match != "aligned" else None
