"""The page with its errors marked: the picture of the file, a box over what was read wrong."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pymupdf
import pytest

from ingestion.parse_quality import MarkedPage, parse_quality, worst_page
from ingestion.parsers import pymupdf_text
from ingestion.parsers.elements import ParseOptions, ParseRequest, ok_rows
from rag_eval_assets.report.page_images import marked_page
from rag_eval_assets.settings import Transcripts

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    """Two pages of two lines; in the second line of page 2 the file has other letters than the transcript."""
    document = pymupdf.open()
    for texts in (("The lid is closed.", "The pump is off."), ("The lid is open.", "The purnp is on.")):
        page = document.new_page(width=300, height=200)
        for y, text in zip((60, 120), texts, strict=True):
            page.insert_text((40, y), text, fontsize=11)
    path = tmp_path / "a.pdf"
    document.save(path)
    return path


def test_the_worst_page_is_drawn_with_a_box_over_what_was_read_wrong(manual: Path) -> None:
    pymupdf_text.warm(1)
    parsed = pymupdf_text.parse(manual, "application/pdf", ParseOptions())
    elements = {"a.pdf": ok_rows(ParseRequest("a.pdf", manual, "application/pdf", "pdf", "0"), parsed, 0.0)}
    gold = "The lid is closed.\n\nThe pump is off.\n\nThe lid is open.\n\nThe pump is on."
    references = [{"doc_id": "a.pdf", "kind": "text", "item": 0, "page": None, "text": gold, "html": None}]
    policy = Transcripts().model_dump()
    rows = parse_quality(elements, references, [], policy=policy)
    worst = worst_page(elements, references, rows, policy)
    assert worst is not None
    assert (worst.doc_id, worst.page) == ("a.pdf", 2)
    ((box, edits, units),) = worst.marks
    assert (edits, units) == (2, 32)  # both lines of the page are one paragraph
    assert (box[1], box[3]) == pytest.approx((50, 122), abs=4)
    picture = marked_page(manual, worst)
    assert picture is not None
    root = ET.fromstring(picture)
    assert len(root.findall(f"{SVG}image")) == len(root.findall(f"{SVG}rect")) == 1
    assert "page 2" in (root.findtext(f"{SVG}text") or "")


def test_without_an_error_there_is_no_worst_page_and_without_a_file_no_picture(tmp_path: Path) -> None:
    assert worst_page({}, [], [], {}) is None
    assert marked_page(tmp_path / "gone.pdf", MarkedPage("gone.pdf", 1, 0.5, (((0, 0, 1, 1), 1, 2),))) is None
