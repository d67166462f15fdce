"""How alike two tables are: TEDS, the tree-edit-distance similarity of PubTabNet.

What belongs here: the similarity of two tables given as HTML. What does not: finding tables in documents (`parsers`), or pairing them
with references (`transcripts`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ingestion.parsers.html_tables import read_table, span_of

_BREAK = re.compile(r"[ \t]*[\r\n]\s*")


class TableTooLarge(ValueError):
    """A table over the stated number of nodes: the exact tree edit distance would take minutes."""


@dataclass
class _Node:
    """A node of the tree compared: a tag, the spans of a cell, its content as tokens, its children."""

    tag: str
    spans: tuple[int, int] = (1, 1)
    content: tuple[str, ...] = ()
    children: list[_Node] = field(default_factory=list)


def teds(
    predicted_html: str, gold_html: str, *, structure_only: bool = False, sections: bool = True, maximum_nodes: int | None = None
) -> float:
    """TEDS of two HTML tables, 0 to 1: 1 - edit distance / size of the larger tree (Zhong et al. 2020, arXiv:1911.10683).

    Cells differ by the normalised Levenshtein distance of their content, character by character, with inline tags as one token
    each; `structure_only` (TEDS-S) ignores content. Both sides are first put in canonical form: th is td, line breaks and the
    indentation around them are layout, rows stand in a tbody (as the HTML standard parses them), attributes other than spans
    mean nothing. Spaces within a line count as written, as they do in the published figures, and so do the sections (thead, tbody,
    tfoot) that rows stand in; without `sections` all rows stand in one, for sides whose makers have no such notion.

    A prediction without a table scores 0. Raises ValueError if the gold has none, TableTooLarge if either tree is over `maximum_nodes`.
    """
    gold = read_table(gold_html)
    if gold is None:
        raise ValueError("the reference holds no <table>")
    predicted = read_table(predicted_html)
    if predicted is None:
        return 0.0
    if not sections:
        for table in (predicted, gold):
            _in_one_section(table)
    sizes = [sum(1 for _ in table.iterdescendants()) for table in (predicted, gold)]
    if maximum_nodes is not None and max(sizes) > maximum_nodes:
        raise TableTooLarge(f"{max(sizes)} nodes, over the limit of {maximum_nodes}")
    trees = [_tree(table, structure_only) for table in (predicted, gold)]
    if trees[0] == trees[1]:  # the usual case of a born-digital table, without a search that is cubic in its size
        return 1.0
    from apted import APTED

    distance = APTED(*trees, _costs()).compute_edit_distance()
    return max(0.0, 1.0 - float(distance) / max(sizes))


def _in_one_section(table: Any) -> None:
    sections = [child for child in table if child.tag in ("thead", "tbody", "tfoot")]
    for section in sections[:1]:
        section.tag = "tbody"
    for section in sections[1:]:
        sections[0].extend(list(section))
        table.remove(section)


def _costs() -> Any:
    from apted import Config
    from rapidfuzz.distance import Levenshtein

    class Costs(Config):  # type: ignore[misc]
        """One for every insertion, deletion and change of tag or span; cells with equal spans cost their text distance."""

        def rename(self, one: _Node, two: _Node) -> float:
            if one.tag != two.tag or one.spans != two.spans:
                return 1.0
            return float(Levenshtein.normalized_distance(one.content, two.content))

        def children(self, node: _Node) -> list[_Node]:
            return node.children

    return Costs()


def _tree(element: Any, structure_only: bool) -> _Node:
    if element.tag == "td":
        spans = (span_of(element.get("colspan")), span_of(element.get("rowspan")))
        return _Node("td", spans, () if structure_only else _content(element))
    return _Node(str(element.tag), children=[_tree(child, structure_only) for child in element])


def _content(cell: Any) -> tuple[str, ...]:
    tokens: list[str] = []

    def text(value: str | None) -> None:
        tokens.extend(_BREAK.sub("\n", value or ""))

    def walk(element: Any) -> None:
        text(element.text)
        for child in element:
            tokens.append(f"<{child.tag}>")
            walk(child)
            tokens.append(f"</{child.tag}>")
            text(child.tail)

    walk(cell)
    first, last = (1 if tokens[:1] == ["\n"] else 0), (-1 if tokens[-1:] == ["\n"] else None)
    return tuple(" " if token == "\n" else token for token in tokens[first:last])
