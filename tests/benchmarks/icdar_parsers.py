"""How much of the 34 government PDFs of the ICDAR 2013 table competition each parser keeps: cells verbatim, and tables by TEDS.

What belongs here: the measure and the run over parsers, which the reference test of the text layer shares. What does not: a
threshold (that test has it). The engines read the pages as pictures at one resolution, so a table comes out as lines of text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingestion.media_types import PDF
from ingestion.parsers import ParseLimits, ParseRequest, parse_files

DPI = 200
LARGEST = 2_500
"""Characters of a gold table's HTML from which TEDS takes minutes: it is left out of the mean."""
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "icdar2013_tables"


def gold_tables(folder: Path) -> dict[str, list[str]]:
    """HTML of the gold tables by the name of their PDF, sorted."""
    golds: dict[str, list[str]] = {}
    for line in (folder / "tables_gold.jsonl").read_text(encoding="utf-8").splitlines():
        table = json.loads(line)
        golds.setdefault(table["pdf"], []).append(table["html"])
    return dict(sorted(golds.items()))


@dataclass
class Kept:
    """What a parser kept: gold cells found verbatim in its text, white space ignored; TEDS of each gold table; files that failed."""

    kind: str
    found: int = 0
    cells: int = 0
    tables: int = 0
    failed: int = 0
    likeness: tuple[float, ...] = ()

    def add(self, gold: Sequence[str], text: str, parsed: Sequence[str]) -> None:
        """Count a file: its gold tables, its text in reading order, and the HTML of its parsed tables."""
        from lxml import html as lxml_html

        from ingestion.parse_quality import pair_tables
        from ingestion.parsers.html_tables import table_text
        from ingestion.tables import teds

        cells = [re.sub(r"\s", "", cell.text_content()) for table in gold for cell in lxml_html.fromstring(table).iter("td")]
        squeezed = re.sub(r"\s", "", text)
        self.found += sum(cell in squeezed for cell in cells if cell)
        self.cells += sum(bool(cell) for cell in cells)
        self.tables += len(parsed)
        partners = pair_tables([table_text(table) or "" for table in gold], parsed)
        self.likeness += tuple(
            0.0 if other is None else teds(parsed[other], table)
            for table, other in zip(gold, partners, strict=True)
            if len(table) < LARGEST
        )

    @property
    def teds(self) -> float:
        """Mean over the gold tables that are compared; a table that was not found counts 0."""
        return sum(self.likeness) / len(self.likeness)

    def line(self) -> str:
        """One row of the printed table."""
        share = self.found / self.cells
        return (
            f"{self.kind:12} {self.found:5} of {self.cells} ({share:.4f})  TEDS {self.teds:.3f} over {len(self.likeness)} tables"
            f"  {self.tables:3} tables made  {self.failed} files failed"
        )


@dataclass(frozen=True)
class Compared:
    """One row a parser."""

    kept: tuple[Kept, ...]

    def lines(self) -> Iterator[str]:
        """The table as printed."""
        yield f"gold cells found verbatim, white space ignored; pictures at {DPI} dpi"
        yield from (each.line() for each in self.kept)


def measure(kinds: Sequence[str], folder: Path = SHARED, most: int | None = None) -> Compared:
    """Every parser over the files of `folder` (the first `most`). Raises FileNotFoundError where the data is not beside the checkout."""
    gold = dict([*gold_tables(folder).items()][:most])
    requests = [ParseRequest(n, folder / n, PDF, "pdf", hashlib.sha256((folder / n).read_bytes()).hexdigest()) for n in gold]
    compared = []
    for kind in kinds:
        kept = Kept(kind)
        options: dict[str, Any] = {"dpi": DPI} if kind in ("ocr", "tesseract", "auto") else {}
        for rows in parse_files(kind, requests, ParseLimits(seconds=900), options=options):
            kept.failed += rows[0]["status"] == "failed"
            ordered = sorted(rows, key=lambda row: row["order"])
            kept.add(gold[rows[0]["doc_id"]], "".join(r["text"] for r in ordered), [r["html"] for r in ordered if r["html"]])
        compared.append(kept)
    return Compared(tuple(compared))
