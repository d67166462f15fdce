"""docling is optional: its absence says how to install it, and its documents map to elements."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ingestion.media_types import PDF
from ingestion.parsers import ParseLimits, ParseRequest, ParserMissing, docling_elements, parse_files
from ingestion.parsers.elements import ParseFailure, ParseOptions


@pytest.mark.skipif(importlib.util.find_spec("docling") is not None, reason="docling is installed")
def test_without_docling_the_error_says_how_to_install_it(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF-1.7")
    request = ParseRequest("a.pdf", path, PDF, "pdf", hashlib.sha256(b"%PDF-1.7").hexdigest())
    with pytest.raises(ParserMissing, match=r"needs docling: install this project with its extra \[docling\]"):
        parse_files("docling", [request], ParseLimits())


class Layer(Enum):
    BODY = "body"
    FURNITURE = "furniture"
    NOTES = "notes"


@dataclass
class Value:
    value: str


@dataclass
class Size:
    height: float


@dataclass
class Page:
    size: Size


@dataclass
class Bounds:
    l: float  # noqa: E741
    t: float
    r: float
    b: float

    def to_top_left_origin(self, page_height: float) -> Bounds:
        return Bounds(self.l, page_height - self.t, self.r, page_height - self.b)


@dataclass
class Prov:
    page_no: int
    bbox: Bounds


@dataclass
class Item:
    label: Value
    text: str
    prov: list[Prov] = field(default_factory=list)
    level: int = 1


@dataclass
class Table:
    prov: list[Prov]
    label: Value = field(default_factory=lambda: Value("table"))

    @property
    def data(self) -> Any:
        grid = (("Part", "Hours"), ("Seal", "900"))
        cells = [TableCell(text, i, i + 1, j, j + 1, i == 0) for i, row in enumerate(grid) for j, text in enumerate(row)]
        return Cells(cells)


@dataclass
class TableCell:
    text: str
    start_row_offset_idx: int
    end_row_offset_idx: int
    start_col_offset_idx: int
    end_col_offset_idx: int
    column_header: bool


@dataclass
class Cells:
    table_cells: list[TableCell]


@dataclass
class Body:
    content_layer: Layer = Layer.BODY


@dataclass
class Document:
    """As much of a DoclingDocument as the mapping touches."""

    items: list[Any]
    pages: dict[int, Page]
    body: Body = field(default_factory=Body)

    def iterate_items(self, included_content_layers: set[Layer], traverse_pictures: bool) -> list[tuple[Any, int]]:
        assert included_content_layers == set(Layer)
        return [(item, 1) for item in self.items]


@dataclass
class Result:
    status: Value
    document: Any = None
    errors: list[Any] = field(default_factory=list)
    input: Any = None


@dataclass
class Converter:
    result: Result

    def convert(self, path: Path, **limits: Any) -> Result:
        assert limits == {"raises_on_error": False, "max_num_pages": 2000}
        return self.result


def converted(monkeypatch: pytest.MonkeyPatch, result: Result, pipeline: str) -> Any:
    monkeypatch.setitem(docling_elements._converters, pipeline, Converter(result))
    return docling_elements.parse(Path("a.pdf"), PDF, ParseOptions(pipeline=pipeline))


@pytest.mark.parametrize("pipeline", ["standard", "vlm"])
def test_items_keep_their_kind_level_page_and_box_and_the_note_says_which_pipeline_ran(
    pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = [Prov(1, Bounds(10, 780, 200, 760))]
    items = [
        Item(Value("page_header"), "Acme"), Item(Value("title"), "Pumps", place), Item(Value("section_header"), "Seals", level=2),
        Item(Value("text"), "Check them."), Item(Value("list_item"), "weekly"), Table(place), Item(Value("picture"), ""),
    ]  # fmt: skip
    parsed = converted(monkeypatch, Result(Value("success"), Document(items, {1: Page(Size(800))})), pipeline)
    assert [(e.category, e.text, e.heading_level, e.page, e.box) for e in parsed.elements] == [
        ("Header", "Acme", None, None, None),
        ("Title", "Pumps", 1, 1, (10, 20, 200, 40)),
        ("Title", "Seals", 3, None, None),
        ("NarrativeText", "Check them.", None, None, None),
        ("ListItem", "weekly", None, None, None),
        ("Table", "Part Hours\nSeal 900", None, 1, (10, 20, 200, 40)),
    ]
    assert parsed.elements[-1].html == (
        "<table><thead><tr><td>Part</td><td>Hours</td></tr></thead><tbody><tr><td>Seal</td><td>900</td></tr></tbody></table>"
    )
    assert parsed.notes == [f"read by docling, {pipeline} pipeline"]


def test_a_failed_conversion_is_corrupt_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Error:
        error_message: str

    with pytest.raises(ParseFailure, match="docling ended with failure: no such xref") as failure:
        converted(monkeypatch, Result(Value("failure"), errors=[Error("no such xref")]), "standard")
    assert failure.value.reason == "corrupt"
