"""Golden questions and labels: read from the compact YAML they are written in, checked against the authored text, written as JSON lines.

What belongs here: the checks that make the golden set trustworthy (every quotation stands in its document, no document in two
splits). What does not: how the product reads these files.

A question's `ev` is a list of groups; a group is a mapping {document key: quotation or quotations}, more than one entry being
alternatives; copies of a document (`meta: same` in its header) become alternatives where the quotation stands in them. `who`
names a caller of `callers.yaml`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sample_builder.markup import Block, ContentError, Document, Rendition, load_yaml, quotable, unmarked
from sample_builder.web import boilerplate

SPLITS = ("development", "release", "calibration", "monitoring")
FIELDS = {"id", "q", "a", "lang", "intent", "kinds", "ev", "who", "filter", "nuggets", "slices", "session", "context", "file"}


def renditions_by_key(documents: Sequence[Document]) -> dict[str, Rendition]:
    """Every rendition by the short key questions use."""
    out: dict[str, Rendition] = {}
    for rendition in (r for d in documents for r in d.renditions):
        if rendition.key in out:
            raise ContentError(f"key {rendition.key} is used twice")
        out[rendition.key] = rendition
    return out


def read_questions(folder: Path, documents: Sequence[Document]) -> list[dict[str, Any]]:
    """All questions as golden rows, in id order. Raises ContentError that names question and fault."""
    by_key = renditions_by_key(documents)
    family = {r.key: d.file.stem for d in documents for r in d.renditions}
    text = {key: quotable(r.blocks) for key, r in by_key.items()}
    copies = {d.renditions[0].key: [r for r in d.renditions if r.copy] for d in documents}
    callers = load_yaml((folder / "callers.yaml").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = []
    split_of: dict[str, tuple[str, str]] = {}
    for file in sorted(p for p in folder.glob("*.yaml") if p.name != "callers.yaml"):
        split = file.stem.split("-")[0]
        for raw in load_yaml(file.read_text(encoding="utf-8")):
            name = f"{file.name}: {raw.get('id')}"
            if split not in SPLITS or set(raw) - FIELDS:
                raise ContentError(f"{name}: unknown split {split} or fields {set(raw) - FIELDS}")
            evidence = []
            for number, group in enumerate(raw.get("ev", []), start=1):
                for key, quotation in group.items():
                    if key not in by_key:
                        raise ContentError(f"{name}: no document {key!r}")
                    for quote in [quotation] if not isinstance(quotation, list) else quotation:
                        if quote is not None and quote not in text[key]:
                            raise ContentError(f"{name}: not in {key}: {quote!r}")
                        holders = [by_key[key], *(c for c in copies.get(key, ()) if quote is None or quote in text[c.key])]
                        evidence += [{"group": f"g{number}", "document": h.doc_id, "quotation": quote, "grade": 1} for h in holders]
                    other = split_of.setdefault(family[key], (split, name))
                    if other[0] != split:
                        raise ContentError(f"{name}: {family[key]} already serves {other[1]}")
            rows.append(_row(raw, split, evidence, callers, text, {r.doc_id: k for k, r in by_key.items()}))
    ids = [row["id"] for row in rows]
    if doubled := sorted({i for i in ids if ids.count(i) > 1}):
        raise ContentError(f"question ids used twice: {', '.join(doubled)}")
    return sorted(rows, key=lambda row: str(row["id"]))


def _row(
    raw: Mapping[str, Any],
    split: str,
    evidence: list[dict[str, Any]],
    callers: Mapping[str, Any],
    text: Mapping[str, str],
    keys: Mapping[str, str],
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": raw["id"],
        "question": raw["q"],
        "reference_answer": None if raw.get("a") is None else str(raw["a"]),
        "answerable": bool(evidence),
        "split": split,
        "language": raw.get("lang", "en"),
        "intent": raw["intent"],
        "kinds": raw.get("kinds", ["lookup"]),
    }
    if raw.get("slices"):
        row["slices"] = raw["slices"]
    if evidence:
        row["evidence"] = evidence
        if raw.get("context", True) and all(e["quotation"] for e in evidence):
            row["gold_context"] = _context(evidence, text, keys)
    if who := raw.get("who"):
        row["entitlement"] = callers[who]
    if raw.get("filter"):
        row["filter"] = raw["filter"]
    if raw.get("nuggets"):
        row["nuggets"] = [{"text": n, "vital": True} if isinstance(n, str) else {"text": n["okay"], "vital": False} for n in raw["nuggets"]]
    if raw.get("session"):
        row["session"] = raw["session"]
    return {k: v for k, v in row.items() if v is not None}


def _context(evidence: Sequence[Mapping[str, Any]], text: Mapping[str, str], keys: Mapping[str, str]) -> str:
    """The lines that hold the first item of each group; a table row brings the header row above it."""
    out: list[str] = []
    seen: set[str] = set()
    for item in evidence:
        if item["group"] in seen:
            continue
        seen.add(item["group"])
        lines = text[keys[item["document"]]].split("\n")
        first = item["quotation"].split("\n")[0]
        at = next(n for n, line in enumerate(lines) if first in line)
        picked = [lines[at]]
        if " | " in lines[at]:
            top = at
            while top and lines[top - 1].count(" | ") == lines[at].count(" | "):
                top -= 1
            if top != at:
                picked.insert(0, lines[top])
        out += [line for line in picked if line not in out]
    return "\n".join(out)


def by_split(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows of each split."""
    return {split: [row for row in rows if row["split"] == split] for split in SPLITS}


def json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")


def read_labels(file: Path, documents: Sequence[Document], asked: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Labels by file below labels/, without ending. Languages, the boilerplate of page skins, titles and headings follow from the
    documents; the rest is written out."""
    by_key = renditions_by_key(documents)
    raw = load_yaml(file.read_text(encoding="utf-8"))
    annotator = raw["annotator"]
    kinds = (
        "boilerplate", "language", "pii", "duplicate", "cut", "judgment", "predicate", "title", "heading", "heading_path", "entity",
        "relation",
    )  # fmt: skip
    out: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}

    def add(kind: str, document: str, value: str, **more: Any) -> None:
        out[kind].append({"kind": kind, "document": document, **more, "value": value, "annotator": annotator})

    for rendition in by_key.values():
        if rendition.format in ("pdf", "html", "docx", "md", "txt", "scan", "pptx", "eml", "epub"):
            add("language", rendition.doc_id, rendition.language)
        if rendition.format == "html":
            for words in boilerplate(rendition):
                add("boilerplate", rendition.doc_id, "yes", quotation=words)
    for kind in ("boilerplate", "pii", "cut"):
        for item in raw[kind]:
            rendition = by_key[item["doc"]]
            text = quotable(rendition.blocks)
            for value, quotations in item["spans"].items():
                for quotation in quotations:
                    heads = f"{rendition.options.get('head', '')}||{rendition.options.get('foot', '')}"
                    if quotation not in (heads if kind == "boilerplate" and value == "yes" else text):
                        raise ContentError(f"labels.yaml: {kind}: not in {item['doc']}: {quotation!r}")
                    add(kind, rendition.doc_id, value, quotation=quotation)
    for key in raw["structure"]:
        for kind, value, quotation in _structure(by_key[key].blocks):
            add(kind, by_key[key].doc_id, value, **({"quotation": quotation} if quotation else {}))
    for kind in ("entity", "relation"):
        for item in raw[kind]:
            rendition = by_key[item["doc"]]
            text = quotable(rendition.blocks)
            for value, spans in item["spans"].items():
                for span in spans:
                    add(kind, rendition.doc_id, value, **_fact(kind, span, text, item["doc"]))
            for source, found in item["predicted"].items():
                for value, spans in found.items():
                    for span in spans:
                        row = {"kind": kind, "document": rendition.doc_id, **_fact(kind, span, text, item["doc"])}
                        out.setdefault(f"predictions/{source}", []).append({**row, "value": value, "source": source})
    for first, second, value in raw["duplicate"]:
        add("duplicate", by_key[first].doc_id, value, other_document=by_key[second].doc_id)
    questions = {row["id"]: row for row in asked}
    for item in raw["predicate"]:
        if not questions[item["question"]].get("filter"):
            raise ContentError(f"labels.yaml: predicate on {item['question']}, which has no filter")
        for value, keys in item["docs"].items():
            for key in keys:
                add("predicate", by_key[key].doc_id, value, question=item["question"])
    for item in raw["judgment"]:
        row = questions[item["question"]]
        if row["split"] != "calibration":
            raise ContentError(f"labels.yaml: judgment on {row['id']}, which is not in the calibration split")
        passage = row["evidence"][0]
        for value, answers in item["answers"].items():
            for answer in answers:
                add("judgment", passage["document"], value, quotation=passage["quotation"], question=row["id"], answer=answer)
    return out


def _structure(blocks: Sequence[Block]) -> Iterator[tuple[str, str, str | None]]:
    """(kind, value, quotation) of the title, of each heading, and of the path above the first words of each section."""
    above: list[tuple[int, str]] = []
    for block, following in zip(blocks, [*blocks[1:], Block("pagebreak")], strict=True):
        if block.kind != "heading":
            continue
        text = unmarked(block.text)
        if not above:
            yield "title", text, None
        above = [entry for entry in above if entry[0] < block.level] + [(block.level, text)]
        yield "heading", str(len(above)), text
        if following.kind == "paragraph":
            yield "heading_path", " > ".join(heading for _, heading in above), " ".join(unmarked(following.text).split()[:10])


def _fact(kind: str, span: str | Sequence[Any], text: str, key: str) -> dict[str, Any]:
    """The quotations of an entity or a relation, checked against the text."""
    if isinstance(span, str):
        span = [span, 1]
    fact = {"quotation": span[0], "occurrence": span[1]} if kind == "entity" else {"quotation": span[0], "other_quotation": span[1]}
    for name in ("quotation", "other_quotation"):
        if name in fact and text.count(fact[name]) < fact.get("occurrence", 1):
            raise ContentError(f"labels.yaml: {kind}: not in {key}: {fact[name]!r}")
    return {name: value for name, value in fact.items() if value != 1}
