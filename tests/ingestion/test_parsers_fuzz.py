"""Damaged files: whatever is cut, flipped or doubled in them, each ends as rows or as a typed failure and sound neighbours are read right.

RAG_EVAL_FUZZ sets how many damaged files the long run takes; seeds are fixed, so that a file that fails once fails again.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import psutil
import pymupdf
import pytest

from ingestion.media_types import DOCX, HTML, PDF
from ingestion.parsers import ParseLimits, ParseRequest, parse_files
from rag_eval_assets.tables import REASONS

SECONDS, MEGABYTES = 20, 512
SENTENCES = [f"Paragraph number {i} says that the pump holds {i * 7} litres of clean water." for i in range(30)]


def make_pdf() -> bytes:
    document = pymupdf.open()
    for start in range(0, 30, 10):
        page = document.new_page()
        for i, sentence in enumerate(SENTENCES[start : start + 10]):
            page.insert_text((72, 90 + 40 * i), sentence, fontsize=10)
    return bytes(document.tobytes(deflate=True, no_new_id=True))


def make_docx() -> bytes:
    document = docx.Document()
    for i, sentence in enumerate(SENTENCES):
        document.add_paragraph(sentence)
        if i % 10 == 0:
            table = document.add_table(2, 2)
            table.cell(0, 0).text, table.cell(1, 1).text = "Litres", str(i)
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def make_html() -> bytes:
    items = "".join(f"<section><h2>Part {i}</h2><p>{s}</p><table><tr><td>{i}</td></tr></table></section>" for i, s in enumerate(SENTENCES))
    return f"<!doctype html><html><head><meta charset='utf-8'></head><body><main>{items}</main></body></html>".encode()


def flipped(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 8, 64, len(data) // 50 + 1))):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def cut_out(data: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(data))
    return data[:start] + data[start + draw.randrange(1, len(data) // 4) :]


def doubled(data: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(data))
    part = data[start : start + draw.randrange(1, len(data) // 4)]
    at = draw.randrange(len(data))
    return data[:at] + part * draw.choice((1, 1, 3, 20)) + data[at:]


def truncated(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(1, len(data))]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (flipped, cut_out, doubled, truncated)


def damaged(data: bytes, draw: random.Random) -> bytes:
    """One to three mutations of a file, or of one member of it where it is a zip, packed again."""
    if data.startswith(b"PK") and draw.random() < 0.5:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = draw.choice(sorted(members))
        members[name] = damaged(members[name], draw)
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members.items():
                archive.writestr(member, content)
        return made.getvalue()
    for _ in range(draw.randrange(1, 4)):
        data = draw.choice(MUTATIONS)(data, draw) if len(data) > 8 else data
    return data


KINDS: tuple[tuple[str, str, str, Callable[[], bytes]], ...] = (
    ("pymupdf", PDF, "pdf", make_pdf),
    ("unstructured", DOCX, "docx", make_docx),
    ("unstructured", HTML, "html", make_html),
)


def batch(folder: Path, media_type: str, suffix: str, whole: bytes, count: int) -> list[ParseRequest]:
    """`count` damaged files with a sound one before every tenth, and one at the end."""
    requests = []
    for i in range(count + 1):
        if i % 10 == 0 or i == count:
            requests.append((f"sound-{i}.{suffix}", whole))
        if i < count:
            requests.append((f"damaged-{i}.{suffix}", damaged(whole, random.Random(f"{suffix} {i}"))))
    found = []
    for name, data in requests:
        (folder / name).write_bytes(data)
        # The type is what the corpus took it for before the damage: the parser gets to see the file in any case.
        found.append(ParseRequest(name, folder / name, media_type, suffix, hashlib.sha256(data).hexdigest()))
    return found


def content(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["order"], row["page"], row["category"], row["text"], row["html"]) for row in rows]


def fuzz(folder: Path, count: int) -> None:
    limits = ParseLimits(workers=2, seconds=SECONDS, megabytes=MEGABYTES, source_megabytes=8, pages=100)
    before = psutil.Process().memory_info().rss
    outcomes: Counter[tuple[str, str]] = Counter()
    for number, (kind, media_type, suffix, make) in enumerate(KINDS):
        share = count // len(KINDS) + (number < count % len(KINDS))
        requests = batch(folder, media_type, suffix, make(), share)
        results = list(parse_files(kind, requests, limits))
        assert [rows[0]["doc_id"] for rows in results] == [request.doc_id for request in requests]
        sound = [content(rows) for rows in results if rows[0]["doc_id"].startswith("sound")]
        text = " ".join(row[3] for row in sound[0])
        assert all(sentence in text for sentence in SENTENCES)
        assert all(other == sound[0] for other in sound)
        for rows in results:
            row = rows[0]
            assert (row["status"] == "ok") == (row["reason"] is None)
            assert row["reason"] is None or (row["reason"] in REASONS and row["detail"]), row["doc_id"]
            assert (row["seconds"] or 0) <= SECONDS + 5, row["doc_id"]
            outcomes[suffix, row["reason"] or "elements"] += row["doc_id"].startswith("damaged")
            if row["reason"] == "crashed":
                print(f"{row['doc_id']}: {row['detail']}")
    for (suffix, outcome), times in sorted(outcomes.items()):
        print(f"{suffix:5} {outcome:12} {times}")
    grown = (psutil.Process().memory_info().rss - before) / 1024**2
    print(f"{sum(outcomes.values())} damaged files; the caller grew by {grown:.0f} MiB")
    assert sum(outcomes.values()) == count
    assert grown < 256


def test_damaged_files_end_as_rows_or_typed_failures_and_their_neighbours_are_read_right(tmp_path: Path) -> None:
    fuzz(tmp_path, 50)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_many_damaged_files(tmp_path: Path) -> None:
    fuzz(tmp_path, int(os.environ.get("RAG_EVAL_FUZZ", "500")))
