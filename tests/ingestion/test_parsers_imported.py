"""Text from outside readers: pages, paragraphs and headings of what is imported, and a typed failure where nothing is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ingestion.media_types import MARKDOWN, NDJSON, PLAIN
from ingestion.parsers import ParseLimits, ParseRequest, import_request, imported, parse_files
from ingestion.parsers.elements import ParseFailure, ParseOptions

MARKED = "# Pumps\nRead this first,\nthen start.\n\n- check the seal\n- grease it\n\n<table><tr><td>Part</td><td>9</td></tr></table>"
READ = [
    ("Title", "Pumps", 1), ("NarrativeText", "Read this first, then start.", None), ("ListItem", "check the seal", None),
    ("ListItem", "grease it", None), ("Table", "Part 9", None),
]  # fmt: skip


def read(path: Path, media_type: str, text: str) -> list[tuple[int | None, str, str, int | None]]:
    path.write_text(text, encoding="utf-8")
    return [(e.page, e.category, e.text, e.heading_level) for e in imported.parse(path, media_type, ParseOptions(pages=3)).elements]


def test_pages_of_json_lines_come_in_order_and_only_markdown_has_headings(tmp_path: Path) -> None:
    lines = [{"page": 2, "markdown": MARKED}, {"page": 1, "text": "# no heading\n\nA para-\ngraph."}]
    found = read(tmp_path / "a.jsonl", NDJSON, "\n".join(json.dumps(line) for line in lines) + "\n\n")
    assert found == [
        (1, "NarrativeText", "# no heading", None), (1, "NarrativeText", "A paragraph.", None), *[(2, *element) for element in READ]
    ]  # fmt: skip


def test_form_feeds_part_the_pages_of_text_and_markdown(tmp_path: Path) -> None:
    assert read(tmp_path / "a.md", MARKDOWN, f"{MARKED}\f\fLast page.") == [
        *[(1, *e) for e in READ],
        (3, "NarrativeText", "Last page.", None),
    ]
    assert read(tmp_path / "a.txt", PLAIN, "# one\ftwo") == [(1, "NarrativeText", "# one", None), (2, "NarrativeText", "two", None)]


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("{", "corrupt", "line 1 of the import is no JSON"),
        ('{"page": 1, "text": "a"}\n{"page": 1, "text": "b"}', "corrupt", "line 2 of the import gives page 1 again"),
        ('{"page": 0, "text": "a"}', "corrupt", "line 1"),
        ('{"page": 1}', "corrupt", "line 1"),
        ('{"page": 1, "text": "a", "markdown": "b"}', "corrupt", "line 1"),
        ("\n".join(f'{{"page": {i}, "text": "a"}}' for i in range(1, 5)), "too_large", "4 pages, over the limit of 3"),
    ],
)
def test_what_is_wrong_with_an_import_is_said_with_its_line(text: str, reason: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ParseFailure, match=words) as failure:
        read(tmp_path / "a.jsonl", NDJSON, text)
    assert failure.value.reason == reason


def test_any_file_is_read_from_its_import_and_one_without_says_what_to_do(tmp_path: Path) -> None:
    asked = [ParseRequest(name, tmp_path / name, "image/png", "scan", "0" * 64) for name in ("a.png", "b.png")]
    text = tmp_path / "a.png.pages.vlm.txt"
    text.write_text("What the model read.")
    sha256 = hashlib.sha256(text.read_bytes()).hexdigest()
    requests = [import_request(asked[0], "vlm", (text, sha256)), import_request(asked[1], "vlm", None)]
    (read, *_), (missing,) = parse_files("imported", requests, ParseLimits(workers=1, seconds=30, megabytes=256))
    assert (read["doc_id"], read["page"], read["text"], read["source_sha256"]) == ("a.png", 1, "What the model read.", sha256)
    assert read["detail"] == "imported text"
    assert (missing["doc_id"], missing["reason"]) == ("b.png", "no_import")
    assert "no b.png.pages.vlm.jsonl, .md or .txt stands beside the document: put it there" in missing["detail"]
