"""Every public sample file ends as elements or as a typed failure, and a dozen of them hold what a person reads in them."""

from __future__ import annotations

import base64
import hashlib
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ingestion.media_types import PDF, sniff
from ingestion.parsers import PARSERS, ParseLimits, ParseRequest, parse_files
from ingestion.parsers.decoding import decode
from ingestion.parsers.html_tables import read_table
from ingestion.sources import class_of
from rag_eval_assets.tables import REASONS

pytestmark = pytest.mark.reference

LIMITS = ParseLimits(workers=2, seconds=60, megabytes=1024, source_megabytes=32, pages=500)
PICTURES = ("phototest.tif", "HelloGoogle.tif")
Found = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ended(shared: Path) -> Found:
    """Rows of every file by its name, each parsed with the kind its media type goes to; of pictures a few."""
    asked: dict[str, list[ParseRequest]] = {}
    types = {}
    for folder in (shared / "unstructured_docs", shared / "tesseract_test" / "testing"):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, media_type = path.relative_to(folder).as_posix(), sniff(path)
            kind = "pymupdf" if media_type == PDF else "ocr" if media_type in PARSERS["ocr"].media_types else "unstructured"
            if kind != "ocr" or name in PICTURES:
                sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
                asked.setdefault(kind, []).append(ParseRequest(name, path, media_type, class_of(name, media_type), sha256))
                types[name] = media_type
    found: Found = {}
    started = time.perf_counter()
    for kind, requests in asked.items():
        results = list(parse_files(kind, requests, LIMITS))
        assert [rows[0]["doc_id"] for rows in results] == [request.doc_id for request in requests]
        found.update({rows[0]["doc_id"]: rows for rows in results})
    outcomes = Counter((types[name], rows[0]["reason"] or "elements") for name, rows in found.items())
    for (media_type, outcome), times in sorted(outcomes.items()):
        print(f"{media_type[-40:]:40} {outcome:24} {times:4}")
    print(f"{len(found)} files in {time.perf_counter() - started:.0f} s")
    return found


def cells(row: dict[str, Any]) -> list[list[str]]:
    return [[" ".join(td.text_content().split()) for td in tr] for tr in read_table(row["html"]).iter("tr")]


def texts(rows: list[dict[str, Any]], *categories: str) -> list[str]:
    return [row["text"] for row in rows if not categories or row["category"] in categories]


@pytest.mark.timeout(600)
def test_every_file_is_elements_or_a_failure_that_says_why(ended: Found) -> None:
    assert len(ended) > 180
    for name, rows in ended.items():
        assert rows[0]["reason"] is None or (rows[0]["reason"] in REASONS and rows[0]["detail"]), name
    crashed = [(name, rows[0]["detail"]) for name, rows in ended.items() if rows[0]["reason"] in ("crashed", "timeout", "memory")]
    assert crashed == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("password_protected.xlsx", "encrypted"),
        ("pdf/password.pdf", "encrypted"),
        ("eml/fake-encrypted.eml", "encrypted"),
        ("empty.txt", "empty_file"),
        ("empty.xlsx", "no_text"),
        ("fake-text-all-whitespace.txt", "no_text"),
        ("picture.pptx", "no_text"),
        ("language-docs/eng_spa_mult.ppt", "wrong_extension"),
        ("language-docs/eng_spa_mult.doc", "wrong_extension"),
        ("tests-example.xls", "unsupported_media_type"),
        ("simple.zip", "unsupported_media_type"),
        ("img/DA-1p.heic", "unsupported_media_type"),
    ],
)
def test_files_that_cannot_be_read_say_why(name: str, reason: str, ended: Found) -> None:
    assert ended[name][0]["reason"] == reason


CUPS = [["Team", "Location", "Stanley Cups"], ["Blues", "STL", "1"], ["Flyers", "PHI", "2"], ["Maple Leafs", "TOR", "13"]]


@pytest.mark.parametrize("name", ["stanley-cups.csv", "stanley-cups.tsv", "stanley-cups-utf-16.csv", "stanley-cups.xlsx"])
def test_the_cells_of_a_table_are_the_same_in_any_format(name: str, ended: Found) -> None:
    tables = [row for row in ended[name] if row["category"] == "Table"]
    assert cells(tables[0]) == CUPS
    assert texts(ended[name], "Title")[-1 if name.endswith("sv") else 0] == "Stanley Cups"


def test_cells_with_delimiters_and_decimal_commas_stay_whole(ended: Found) -> None:
    assert cells(ended["csv-with-escaped-commas.csv"][0])[1] == ["A", "A", "A", "A,A", "A"]
    assert cells(ended["table-semicolon-delimiter.csv"][0])[2] == ["2023", "2", "143,1", "-814,38"]
    assert cells(ended["table-multi-row-column-cells-actual.csv"][0])[3] == [
        "Low Vision", "5", "2", "3", "98.3% n=2 (97.7%, n=3)", "1716 sec, n=3 (1934 sec, n=2)",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["fake-email.eml", "eml/fake-email-b64.eml", "eml/fake-email-utf-16.eml", "eml/fake-email-utf-16-le.eml"])
def test_a_mail_is_subject_fields_and_body_in_any_encoding(name: str, ended: Found) -> None:
    rows = ended[name]
    assert texts(rows, "Title")[0] == "Test Email"
    assert "From: Matthew Robinson <mrobinson@unstructured.io>" in texts(rows, "Header")
    assert [text for text in texts(rows) if text not in texts(rows, "Header")][1:] == [
        "This is a test email to use for unit tests.", "Important points:", "Roses are red", "Violets are blue",
    ]  # fmt: skip


def test_headings_of_a_book_stand_on_the_pages_of_its_spine(ended: Found) -> None:
    rows = ended["winter-sports.epub"]
    headings = {row["text"]: row["page"] for row in rows if row["category"] == "Title"}
    chapters = [text for text in headings if text.startswith("CHAPTER ")]
    assert {"CHAPTER I THE SUN-SEEKER", "CHAPTER IV TOBOGGANING", "CHAPTER V ICE-HOCKEY", "CHAPTER VI SKI-ING"} <= {
        " ".join(c.split()) for c in chapters
    }
    assert [headings[text] for text in chapters] == sorted(headings[text] for text in chapters)


def test_slides_give_their_titles_bullets_and_tables(ended: Found) -> None:
    rows = ended["fake-power-point.pptx"]
    assert [(row["page"], row["category"]) for row in rows[:2]] == [(1, "Title"), (1, "ListItem")]
    assert texts(rows)[:2] == ["Adding a Bullet Slide", "Find the bullet slide layout"]
    (table,) = (row for row in ended["fake-power-point-table.pptx"] if row["category"] == "Table")
    assert cells(table)[:2] == [["Column 1", "Column 2", "Column 3"], ["Red", "Green", "Blue"]]
    # Its date is no date, which a slide shows all the same.
    assert texts(ended["fake-power-point-malformed.pptx"]) == ["Test Slide", "Problem Date Placeholder"]


def test_emoji_umlauts_and_wide_encodings_are_read(ended: Found) -> None:
    assert texts(ended["emoji.xlsx"]) == ["Sheet1", "🤠😅"]
    assert texts(ended["umlauts-non-utf8.md"]) == texts(ended["umlauts-utf8.md"])
    assert "äöüß" in texts(ended["umlauts-utf8.md"])
    plain = texts(ended["fake-text.txt"])
    for name in ("fake-text-utf-16.txt", "fake-text-utf-16-le.txt", "fake-text-utf-16-be.txt", "fake-text-utf-32.txt"):
        assert texts(ended[name]) == plain, name


def test_hebrew_in_the_encoding_of_mail_is_read(shared: Path) -> None:
    data = base64.b64decode((shared / "unstructured_docs" / "hebrew-text-base64-iso88598i.txt").read_bytes())
    text, note = decode(data, declared="iso-8859-8-i")
    assert text.startswith("עדכון Tesla - נדרשת חתימה")
    assert note == "decoded as iso-8859-8-i, as the file declares"


def test_numbers_of_a_workbook_are_as_its_formats_show_them(ended: Found) -> None:
    tables = [cells(row) for row in ended["2023-half-year-analyses-by-segment.xlsx"] if row["category"] == "Table"]
    assert ["Zone NA", "12,553", "2,713", "2,632", "(81)", "(29)", "(44)", "(337)"] in [row for table in tables for row in table]


def test_a_picture_of_text_is_read(ended: Found) -> None:
    assert "quick brown dog jumped over the lazy fox" in " ".join(texts(ended["phototest.tif"])).replace("  ", " ")
