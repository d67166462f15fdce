"""The markup the sample's documents are written in, and the plain text it stands for.

What belongs here: reading a content file into blocks, and the text of a block as a careful reader would type it. What does
not: how a block looks in a format (the renderers).
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

BOLD = re.compile(r"\*\*(.+?)\*\*")
NOTE_MARK = re.compile(r"\[\^(\d+)\]")
LINK = re.compile(r"\[([^\]^]+)\]\(([^)\s]+)\)")
SOFT_HYPHEN = "\u00ad"


def load_yaml(text: str) -> Any:
    """YAML as plain values, read by libyaml where it is there."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class ContentError(ValueError):
    """A content file that cannot be built: names the file and the block."""


@dataclass(frozen=True)
class Block:
    """One block: heading, paragraph, bullet, number, table, footnote, callout, code, figure or pagebreak.

    A figure is a drawing of labelled boxes, its labels in `rows`: text that stands in a picture only.
    """

    kind: str
    text: str = ""
    level: int = 0
    number: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Rendition:
    """One file made of a document: its path in the corpus, its format, its sidecar, and what it changes in the text."""

    key: str
    path: str
    format: str
    meta: Mapping[str, Any]
    options: Mapping[str, Any]
    blocks: tuple[Block, ...]
    title: str
    language: str
    references: tuple[str, ...] = ()
    copy: bool = False

    @property
    def doc_id(self) -> str:
        return str(self.meta.get("id", self.path))


@dataclass
class Document:
    """A content file: its header and the renditions it asks for."""

    file: Path
    renditions: list[Rendition] = field(default_factory=list)


def plain(text: str) -> str:
    """Inline text without its marks; a footnote mark stays as its number, as it does on paper."""
    text = LINK.sub(r"\1", text)
    return NOTE_MARK.sub(r"\1", BOLD.sub(r"\1", text)).replace(SOFT_HYPHEN, "").replace("`", "")


def unmarked(text: str) -> str:
    """Inline text as `plain` gives it, footnote marks left out: what quotations are checked against."""
    return plain(NOTE_MARK.sub("", text))


def inline_html(text: str) -> str:
    """Inline text as HTML: bold, code, links and footnote marks."""
    out = html.escape(text.replace(SOFT_HYPHEN, ""), quote=False)
    out = LINK.sub(r'<a href="\2">\1</a>', out)
    out = BOLD.sub(r"<strong>\1</strong>", out)
    out = re.sub(r"`([^`]+)`", r"<code>\1</code>", out)
    return NOTE_MARK.sub(r"<sup>\1</sup>", out)


def parse_blocks(source: str, name: str) -> tuple[Block, ...]:
    """Blocks of a content text. Raises ContentError for a table whose rows differ in width."""
    blocks: list[Block] = []
    lines = source.strip("\n").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
            continue
        if line.startswith("```"):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].startswith("```"))
            blocks.append(Block("code", "\n".join(lines[at + 1 : end])))
            at = end + 1
            continue
        if line.strip() == "<<page>>":
            blocks.append(Block("pagebreak"))
            at += 1
            continue
        if line.startswith("!figure "):
            blocks.append(Block("figure", rows=tuple((label.strip(),) for label in line.removeprefix("!figure ").split("|"))))
            at += 1
            continue
        if heading := re.match(r"(#{1,4}) (.+)", line):
            blocks.append(Block("heading", heading[2].strip(), level=len(heading[1])))
            at += 1
            continue
        if line.startswith("|"):
            end = at
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            rows = [tuple(c.strip() for c in row.strip().strip("|").split("|")) for row in lines[at:end]]
            rows = [row for row in rows if not all(re.fullmatch(r":?-+:?", c) for c in row)]
            if len({len(row) for row in rows}) != 1:
                raise ContentError(f"{name}: table at {rows[0]!r} has rows of different width")
            blocks.append(Block("table", rows=tuple(rows)))
            at = end
            continue
        if note := re.match(r"\[\^(\d+)\]: (.+)", line):
            text, at = _gather(lines, at, note[2])
            blocks.append(Block("footnote", text, number=int(note[1])))
            continue
        if item := re.match(r"(?:(-)|(\d+)\.) (.+)", line):
            text, at = _gather(lines, at, item[3])
            blocks.append(Block("bullet" if item[1] else "number", text, number=int(item[2] or 0)))
            continue
        if line.startswith("> "):
            text, at = _gather(lines, at, line[2:])
            blocks.append(Block("callout", text))
            continue
        text, at = _gather(lines, at, line)
        blocks.append(Block("paragraph", text))
    return tuple(blocks)


def _gather(lines: Sequence[str], at: int, first: str) -> tuple[str, int]:
    """A block's text with its continuation lines, and the line after it."""
    parts = [first.strip()]
    at += 1
    while at < len(lines) and lines[at].strip() and not re.match(r"(#{1,4} |\||- |\d+\. |> |\[\^\d+\]: |```|<<page>>)", lines[at]):
        parts.append(lines[at].strip().removeprefix("> "))
        at += 1
    joined = " ".join(parts)
    return joined, at


def block_text(block: Block, *, numbered: bool = True, marks: bool = True) -> str:
    """A block as plain text; `numbered` types a list number, `marks` keeps footnote marks. Table cells are joined by a space."""
    clean = plain if marks else unmarked
    if block.kind == "table":
        return "\n".join(" ".join(clean(cell) for cell in row if cell) for row in block.rows)
    if block.kind == "code":
        return block.text
    if block.kind == "number" and numbered:
        return f"{block.number}. {clean(block.text)}"
    if block.kind == "footnote":
        return f"{block.number} {clean(block.text)}"
    return clean(block.text)


def quotable(blocks: Sequence[Block]) -> str:
    """The text quotations must stand in: blocks a line each, table rows with cells joined by ' | '."""
    out: list[str] = []
    for block in blocks:
        if block.kind == "table":
            out += [" | ".join(unmarked(cell) for cell in row) for row in block.rows]
        elif block.kind == "code":
            out.append(block.text)
        elif block.kind == "figure":
            out += [label for (label,) in block.rows]
        elif block.kind != "pagebreak":
            out.append(unmarked(block.text))
    return "\n".join(out)


def table_html(block: Block) -> str:
    """A table block as the reference HTML: header row in thead, no attributes."""
    head, *body = block.rows
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(plain(c), quote=False)}</td>" for c in row) + "</tr>" for row in body)
    return (
        "<table><thead><tr>"
        + "".join(f"<th>{html.escape(plain(c), quote=False)}</th>" for c in head)
        + f"</tr></thead><tbody>{rows}</tbody></table>\n"
    )


def reference_markdown(blocks: Sequence[Block]) -> str:
    """Blocks as a transcript in Markdown: headings, lists and tables marked as what they are."""
    parts: list[str] = []
    above = ""
    for block in blocks:
        text = block.text.replace(SOFT_HYPHEN, "")
        if block.kind == "heading":
            parts.append(f"{'#' * block.level} {text}")
        elif block.kind in ("bullet", "number"):
            item = f"- {text}" if block.kind == "bullet" else f"{block.number}. {text}"
            if above == block.kind:
                parts[-1] += f"\n{item}"
            else:
                parts.append(item)
        elif block.kind == "table":
            head, *body = ["| " + " | ".join(row) + " |" for row in block.rows]
            parts.append("\n".join([head, "|" + "---|" * len(block.rows[0]), *body]))
        elif block.kind == "callout":
            parts.append(f"> {text}")
        elif block.kind != "pagebreak":
            parts.append(text)
        above = block.kind
    return "\n\n".join(parts) + "\n"


def read_document(file: Path) -> Document:
    """A content file with every rendition its header asks for. Raises ContentError for an edit that changes nothing."""
    text = file.read_text(encoding="utf-8")
    if not text.startswith("---\n"):
        raise ContentError(f"{file.name}: no header")
    header_text, body = text[4:].split("\n---\n", 1)
    header = load_yaml(header_text)
    document = Document(file)
    common = {k: v for k, v in header.items() if k not in ("also", "meta", "path", "format", "reference", "key")}
    variants = [{**header, "key": header.get("key", file.stem)}, *header.get("also", [])]
    for variant in variants:
        copy = variant.get("meta") == "same"  # a copy of the first rendition: what answers there answers here
        changed = body
        for old, new in variant.get("edits", []):
            if old not in changed:
                raise ContentError(f"{file.name}: edit of {variant['path']} not found: {old!r}")
            changed = changed.replace(old, new)
        options = {**common, **{k: v for k, v in variant.items() if k not in ("also", "meta", "edits")}}
        document.renditions.append(
            Rendition(
                key=variant["key"],
                path=variant["path"],
                format=variant["format"],
                meta=dict(header.get("meta", {}) if copy else variant.get("meta", {})),
                options=options,
                blocks=parse_blocks(changed, file.name),
                title=options["title"],
                language=options["language"],
                references=tuple(variant.get("reference", ())),
                copy=copy,
            )
        )
    return document
