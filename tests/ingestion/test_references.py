"""A transcript in Markdown: the text a reader reads, and the parts it marks."""

from __future__ import annotations

from ingestion.references import Part, read_markdown

MARKUP = """# Pump manual

Keep it level[^1].

- open the lid
- fill in *water*
    - cold

3. close it
4. wait

Table 1. Prices

| Size | Price |
|------|-------|
| 1    | 10.00 |

> Never run it dry.

[^1]: Not in winter.
"""


def test_a_transcript_reads_as_a_reader_reads_it() -> None:
    text, _ = read_markdown(MARKUP)
    assert text.split("\n\n") == [
        "Pump manual", "Keep it level¹.", "open the lid", "fill in water", "cold", "3. close it", "4. wait", "Table 1. Prices",
        "Size Price\n1 10.00", "Never run it dry.", "¹ Not in winter.",
    ]  # fmt: skip


def test_its_parts_are_what_its_marks_say() -> None:
    _, parts = read_markdown(MARKUP)
    assert [(part.kind, part.text, part.level) for part in parts] == [
        ("heading", "Pump manual", 1),
        ("list", "open the lid\nfill in water\ncold", None),
        ("list", "3. close it\n4. wait", None),
        ("caption", "Table 1. Prices", None),
        ("table", "Size Price\n1 10.00", None),
        ("footnote", "Not in winter.", None),
    ]
    assert parts[4].html is not None
    assert parts[4].html.startswith("<table>")


def test_plain_text_is_a_transcript_without_parts() -> None:
    assert read_markdown("One line.\nand its end") == ("One line. and its end", [])
    assert read_markdown("") == ("", [])
    assert Part("heading", "x").html is None
