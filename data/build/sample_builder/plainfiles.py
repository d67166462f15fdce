"""Markdown and plain text files of the authored text.

What belongs here: wrapping and marks of the two formats. What does not: anything with layout.
"""

from __future__ import annotations

import re
import textwrap

from sample_builder.markup import NOTE_MARK, Block, Rendition, plain


def markdown(rendition: Rendition) -> bytes:
    """The blocks as CommonMark with pipe tables."""
    parts: list[str] = []
    previous = ""
    for block in rendition.blocks:
        text = block.text
        if block.kind == "heading":
            out = f"{'#' * block.level} {text}"
        elif block.kind == "bullet":
            out = f"- {text}"
        elif block.kind == "number":
            out = f"{block.number}. {text}"
        elif block.kind == "table":
            head, *rows = block.rows
            out = "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(r) + " |" for r in rows)])
        elif block.kind == "callout":
            out = f"> {text}"
        elif block.kind == "footnote":
            out = f"[^{block.number}]: {text}"
        elif block.kind == "code":
            out = f"```\n{text}\n```"
        elif block.kind == "pagebreak":
            out = "---"
        else:
            out = text
        tight = block.kind == previous and block.kind in ("bullet", "number")
        parts.append(("\n" if tight else "\n\n") + out if parts else out)
        previous = block.kind
    return ("".join(parts) + "\n").encode("utf-8")


def underline(block: Block) -> str:
    """The line typed under a heading."""
    return ("=" if block.level == 1 else "-") * len(plain(block.text))


def text(rendition: Rendition) -> bytes:
    """Typed text: wrapped lines, underlined headings, aligned table columns. `encoding` in the header; `width` of a line."""
    width = int(rendition.options.get("width", 78))
    parts: list[str] = []
    previous = ""
    for block in rendition.blocks:
        content = plain(NOTE_MARK.sub(r" (\1)", block.text))
        if block.kind == "heading":
            out = f"{content}\n{underline(block)}"
        elif block.kind == "bullet":
            out = textwrap.fill(content, width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        elif block.kind == "number":
            label = f"{block.number}. "
            out = textwrap.fill(content, width, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False)
        elif block.kind == "table":
            widths = [max(len(plain(row[c])) for row in block.rows) for c in range(len(block.rows[0]))]
            out = "\n".join("  ".join(plain(cell).ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in block.rows)
        elif block.kind == "footnote":
            out = textwrap.fill(f"({block.number}) {content}", width, break_on_hyphens=False)
        elif block.kind == "code":
            out = textwrap.indent(block.text, "    ")
        elif block.kind == "pagebreak":
            out = "\f"
        else:
            out = textwrap.fill(content, width, break_on_hyphens=False)
        tight = block.kind == previous and block.kind in ("bullet", "number")
        parts.append(("\n" if tight else "\n\n") + out if parts else out)
        previous = block.kind
    body = re.sub(r"[ \t]+\n", "\n", "".join(parts)) + "\n"
    return body.encode(str(rendition.options.get("encoding", "utf-8")))
