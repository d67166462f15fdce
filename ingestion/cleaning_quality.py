"""How good canonical texts are against human labels, and what the checks saw in them.

What belongs here: boilerplate, characters, languages and personal data. What does not: titles and headings (`structure_quality`),
entities and relations (`extraction_quality`), and making the texts (`cleaning`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ingestion import characters, extraction_quality, language, quotations, structure_quality
from ingestion.cleaning import FLAGS, SEPARATOR, rows_text
from ingestion.measures import MOST, listed, measure, rate, ratio
from ingestion.parsers.elements import FURNITURE

Row = Mapping[str, Any]
Parsed = Mapping[str, Mapping[str, Sequence[Row]]]
"""Rows of `parsed_documents` by parser partition and document."""

_CONTENT: Final = frozenset({"content", "no"})


@dataclass(frozen=True)
class _Place:
    """Where a labelled quotation stands: `in_text`, `out` of it, or neither, which says nothing of cleaning."""

    label: Row
    in_text: bool
    out: bool
    note: str = ""

    @property
    def named(self) -> tuple[str, str]:
        return self.label["doc_id"], self.note + self.label["quotation"]


def _boilerplate_rates(scope: str, places: Sequence[_Place], skipped: int = 0) -> list[dict[str, Any]]:
    noise = [place for place in places if place.label["value"] not in _CONTENT]
    left = [place.named for place in noise if place.in_text]
    taken = [place for place in places if place.out]
    wrong = [place.named for place in taken if place.label["value"] in _CONTENT]
    return [
        rate("boilerplate_precision", scope, len(taken) - len(wrong), len(taken), listed("content removed", wrong, skipped)),
        rate("boilerplate_recall", scope, len(noise) - len(left), len(noise), listed("boilerplate left", left, skipped)),
    ]


def _boilerplate(documents: Mapping[str, Row], labels: Sequence[Row]) -> list[dict[str, Any]]:
    usable = [label for label in labels if label["doc_id"] in documents and label["quotation"]]
    places = []
    for label in usable:
        document = documents[label["doc_id"]]
        in_text = quotations.locate(label["quotation"], document["text"]) is not None
        out = not in_text and any(quotations.locate(label["quotation"], entry["text"]) for entry in document["removed"])
        places.append(_Place(label, in_text, out))
    rows = _boilerplate_rates("all", places, len(labels) - len(usable))
    for name in sorted({documents[label["doc_id"]]["doc_class"] for label in usable}):
        part = [place for place in places if documents[place.label["doc_id"]]["doc_class"] == name]
        rows += _boilerplate_rates(f"class={name}", part)
    return rows


def _boilerplate_by_parser(parsed: Parsed, labels: Sequence[Row]) -> list[dict[str, Any]]:
    """As each parser partition leaves it, before cleaning: content, furniture, or missing altogether, which is content lost."""
    rows = []
    for parser, documents in sorted(parsed.items()):
        texts: dict[str, tuple[str, str] | None] = {}
        places = []
        for label in labels:
            if label["doc_id"] not in texts:
                elements = [element for element in documents.get(label["doc_id"], ()) if element["status"] == "ok"]
                texts[label["doc_id"]] = _sides(elements) if elements else None
            sides = texts[label["doc_id"]]
            if sides is None or not label["quotation"]:
                continue
            content, furniture = sides
            in_text = quotations.locate(label["quotation"], content) is not None
            missing = not in_text and quotations.locate(label["quotation"], furniture) is None
            places.append(_Place(label, in_text, not in_text, "(missing altogether) " if missing else ""))
        rows += _boilerplate_rates(f"parser={parser}", places)
    return rows


def _sides(elements: Sequence[Row]) -> tuple[str, str]:
    """The text of a document's content, and that of its furniture."""
    sides: tuple[list[str], list[str]] = ([], [])
    for element in sorted(elements, key=lambda e: e["order"]):
        table = rows_text(element["html"]) if element["category"] == "Table" and element["html"] else ""
        sides[element["category"] in FURNITURE].append(table or element["text"] or "")
    return SEPARATOR.join(sides[0]), SEPARATOR.join(sides[1])


_SHORT: Final = 100
"""Characters up to which an element is a short text, hardly longer than a question."""
_SENTENCES: Final = frozenset({"NarrativeText", "ListItem"})


def _language_rows(pairs: Sequence[tuple[str, str, str, str | None]], part: str, skipped: int = 0) -> list[dict[str, Any]]:
    """Rates over (label, language read, document, text): over all of a part, and by language."""
    wrong = [(doc_id, f"{gold} read as {read}" + (f": {text}" if text else "")) for gold, read, doc_id, text in pairs if gold != read]
    prefix = "" if part == "all" else f"{part} "
    rows = [rate("language_accuracy", part, len(pairs) - len(wrong), len(pairs), listed("wrong", wrong, skipped))]
    for name in sorted({gold for gold, *_ in pairs} | {read for _, read, *_ in pairs}):
        scope = f"{prefix}language={name}"
        gold_count = sum(gold == name for gold, *_ in pairs)
        read_count = sum(read == name for _, read, *_ in pairs)
        right = sum(gold == read == name for gold, read, *_ in pairs)
        rows += [
            rate("language_accuracy", scope, right, gold_count),
            rate("language_precision", scope, right, read_count),
            ratio("language_f1", scope, 2 * right, gold_count + read_count),
            rate("language_share", scope, gold_count, len(pairs)),
        ]
    return rows


def _languages(documents: Mapping[str, Row], labels: Sequence[Row]) -> list[dict[str, Any]]:
    usable = [label for label in labels if label["doc_id"] in documents]
    whole, short = [], []
    for label in usable:
        document = documents[label["doc_id"]]
        whole.append((label["value"], document["language"], label["doc_id"], None))
        for element in document["elements"]:
            text = document["text"][element["start"] : element["end"]]
            if element["category"] in _SENTENCES and len(text) <= _SHORT and language.enough(text):
                short.append((label["value"], language.identify(text)[0], label["doc_id"], text))
    return _language_rows(whole, "all", len(labels) - len(usable)) + _language_rows(short, "short")


def _key(value: str) -> str:
    return "".join(c for c in value.casefold() if c.isalnum())


def _is_masked(document: Mapping[str, Any]) -> bool:
    """Whether the text is the masked one: every span, moved along by the masks before it, holds its mask."""
    shift = 0
    for span in document["pii"]:
        token = f"[{span['type'].upper()}]"
        start = span["start"] + shift
        if document["text"][start : start + len(token)] != token:
            return False
        shift += len(token) - (span["end"] - span["start"])
    return bool(document["pii"])


def _personal_data(documents: Mapping[str, Row], labels: Sequence[Row]) -> list[dict[str, Any]]:
    usable = [label for label in labels if label["doc_id"] in documents]
    skipped = len(labels) - len(usable)
    gold: dict[str, set[tuple[str, str]]] = {label["doc_id"]: set() for label in usable}
    shown: dict[tuple[str, str, str], str] = {}
    for label in usable:
        if label["value"] != "none" and label["quotation"]:
            gold[label["doc_id"]].add((label["value"], _key(label["quotation"])))
            shown[label["doc_id"], label["value"], _key(label["quotation"])] = label["quotation"]
    hits: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    true: Counter[str] = Counter()
    missed: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    invented: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for doc_id, values in gold.items():
        document = documents[doc_id]
        text = document["text"]
        masked = _is_masked(document)
        spans = set() if masked else {(s["type"], _key(text[s["start"] : s["end"]])) for s in document["pii"]}
        for kind, value in sorted(values):
            wanted[kind] += 1
            quotation = shown[doc_id, kind, value]
            caught = quotations.locate(quotation, text) is None if masked else (kind, value) in spans
            hits[kind] += caught
            if not caught:
                missed[kind].append((doc_id, quotation))
        # What stood under a mask is not kept, so a masked document cannot say which finding was wrong.
        for kind, value in sorted(spans):
            found[kind] += 1
            true[kind] += (kind, value) in values
            if (kind, value) not in values:
                invented[kind].append((doc_id, value))
    kinds = sorted(set(wanted) | set(found))
    rows = []
    for kind in kinds:
        scope = f"type={kind}"
        rows.append(rate("pii_precision", scope, true[kind], found[kind], listed("not labelled", invented[kind], skipped)))
        rows.append(rate("pii_recall", scope, hits[kind], wanted[kind], listed("missed", missed[kind], skipped)))
    return rows or [measure("pii_precision", "all"), measure("pii_recall", "all")]


@dataclass
class _Amounts:
    """Characters that documents keep, that were removed from them, and that each rule removed."""

    kept: int = 0
    removed: int = 0
    by_rule: Counter[str] = field(default_factory=Counter)

    def add(self, document: Row) -> None:
        self.kept += len(document["text"])
        self.removed += sum(len(entry["text"]) for entry in document["removed"])
        for entry in document["removed"]:
            self.by_rule[entry["rule"]] += len(entry["text"])


@dataclass
class _Places:
    """Places of one kind in one document: how many, and the first of them."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        self.count += 1
        if self.count <= MOST:
            self.first.append(place)


class _Checks:
    """What the checks saw, counted document by document: texts are not held."""

    def __init__(self) -> None:
        self._good = self._reached = self._read = 0
        self._flagged: dict[str, list[tuple[str, None]]] = {flag: [] for flag in FLAGS}
        self._amounts: defaultdict[str, _Amounts] = defaultdict(_Amounts, all=_Amounts())
        self._personal: dict[str, list[tuple[str, str]]] = {"dropped": [], "flagged": [], "masked": []}
        self._places: dict[str, defaultdict[str, _Places]] = {kind: defaultdict(_Places) for kind in characters.KINDS}
        self._looked_at: dict[str, int] = {}
        """Characters of the documents that have places."""

    def see(self, document: Row, parsed: Parsed) -> None:
        """Count one document, with what its parser gave."""
        good = document["status"] == "ok"
        if good or document["reason"] == "personal_data":
            self._reached += 1
            self._see_personal_data(document)
        if good:
            self._good += 1
            for flag in self._flagged.keys() & set(document["flags"]):
                self._flagged[flag].append((document["doc_id"], None))
            for scope in ("all", f"class={document['doc_class']}"):
                self._amounts[scope].add(document)
            self._see_characters(document["doc_id"], parsed.get(document["parser"] or "", {}).get(document["doc_id"], ()))

    def _see_personal_data(self, document: Row) -> None:
        if document["pii"]:
            effect = "dropped" if document["reason"] == "personal_data" else "masked" if _is_masked(document) else "flagged"
            types = Counter(span["type"] for span in document["pii"])
            self._personal[effect].append((document["doc_id"], ", ".join(f"{kind} {count}" for kind, count in sorted(types.items()))))

    def _see_characters(self, doc_id: str, elements: Sequence[Row]) -> None:
        """What `characters` finds in the texts that the chosen parser gave, before anything is taken out of them."""
        texts = [(element["order"], element["text"]) for element in elements if element["status"] == "ok"]
        length = sum(len(text) for _, text in texts)
        self._read += length
        for order, text in texts:
            for found in characters.find(text):
                word = f"{found.text!r} " if found.kind == "mixed_script" else ""
                self._places[found.kind][doc_id].add(f"element {order} at {found.position}: {word}{found.code_points}")
                self._looked_at[doc_id] = length

    def rows(self) -> list[dict[str, Any]]:
        return [*self._of_characters(), *self._of_policy(), *self._of_flags(), *self._of_shares()]

    def _of_characters(self) -> list[dict[str, Any]]:
        rows = []
        for kind, by_document in self._places.items():
            count = sum(own.count for own in by_document.values())
            everywhere = [f"{doc_id} {place}" for doc_id, own in sorted(by_document.items()) for place in own.first]
            rows.append(ratio(kind, "all", count, self._read, _first(everywhere, count)))
            for doc_id, own in by_document.items():
                rows.append(ratio(kind, f"document={doc_id}", own.count, self._looked_at[doc_id], _first(own.first, own.count)))
        return [row if row["status"] == "scored" else row | {"reason": "nothing_to_measure"} for row in rows]

    def _of_policy(self) -> list[dict[str, Any]]:
        """How many documents hold personal data, by what the policy did to them."""
        rows = [
            rate("pii_documents", f"policy={effect}", len(docs), self._reached, listed(effect, docs))
            for effect, docs in self._personal.items()
        ]
        return [row if row["status"] == "scored" else row | {"reason": "nothing_to_measure"} for row in rows]

    def _of_flags(self) -> list[dict[str, Any]]:
        return [
            rate(f"flagged_{flag}", "all", len(flagged), self._good, listed("flagged", flagged)) for flag, flagged in self._flagged.items()
        ]

    def _of_shares(self) -> list[dict[str, Any]]:
        rows = []
        for scope, found in self._amounts.items():
            detail = ", ".join(f"{rule}: {count}" for rule, count in sorted(found.by_rule.items())) or None
            rows.append(ratio("removed_share", scope, found.removed, found.removed + found.kept, detail))
        return rows


def _first(places: Sequence[str], count: int) -> str | None:
    more = [f"and {count - MOST} more"] if count > MOST else []
    return "; ".join([*places[:MOST], *more]) or None


def cleaning_quality(documents: Iterable[Row], labels: Sequence[Row], parsed: Parsed | None = None) -> list[dict[str, Any]]:
    """Rows of `cleaning_quality`: how good the canonical texts are against human labels, and what the checks saw.

    - `boilerplate_precision`: of the labelled quotations that were removed, how many are boilerplate (value `content`
      or `no` protects a quotation); `boilerplate_recall`: of those labelled boilerplate, how many are out of the text. Scopes `all` and
      `class=` measure the canonical text; `parser=` each partition of `parsed_documents` before cleaning, where what stands in no content
      element is removed, missing altogether or not.
    - `language_accuracy` over all and by language, `language_precision`, `language_f1`, and `language_share` of the
      labelled mix, which the others are to be read beside. Scope `short`: sentences of at most 100 characters, each by the
      label of its document.
    - `pii_precision` and `pii_recall` by type, on distinct values, at the one operating point that `pii` describes; never
      pooled. A document with any PII label counts as fully labelled, with value `none` as one that holds none; documents
      without are in neither figure. `pii_documents`: documents with personal data, by what the policy did to them.
    - `default_ignorable`, `nfc_drift`, `nfkc_drift`, `mixed_script`: places that `characters` finds, over the characters that the chosen
      parsers gave; over all, and for each document that has some.
    - `flagged_*`: share of documents with a flag. `removed_share`: removed over all characters.
    - What `structure_quality` and `extraction_quality` describe: titles and headings, entities and relations.

    Rates hold a 95% Clopper-Pearson interval; F1 and shares of characters are no binomial rates and hold none. Without
    labels a measure is `not_applicable`, reason `no_labels`. Only documents with status `ok` are measured. `documents` are read once, and
    only those that a label names are held.
    """
    parsed = parsed or {}
    named = {label["doc_id"] for label in labels}
    by_id, checks = {}, _Checks()
    for document in documents:
        checks.see(document, parsed)
        if document["status"] == "ok" and document["doc_id"] in named:
            by_id[document["doc_id"]] = document
    of_kind: dict[str, list[Row]] = defaultdict(list)
    for label in labels:
        of_kind[label["kind"]].append(label)
    rows = [
        *_boilerplate(by_id, of_kind["boilerplate"]),
        *_boilerplate_by_parser(parsed, of_kind["boilerplate"]),
        *_languages(by_id, of_kind["language"]),
        *_personal_data(by_id, of_kind["pii"]),
        *structure_quality.structure_quality(by_id, of_kind),
        *extraction_quality.extraction_quality(by_id, of_kind),
        *checks.rows(),
    ]
    return sorted(rows, key=lambda row: (row["measure"], row["scope"]))
