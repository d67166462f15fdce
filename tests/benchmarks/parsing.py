"""What reading text PDFs costs beside MuPDF's own text, how workers share it, and what an error rate costs beside jiwer alone."""

from __future__ import annotations

import gc
import hashlib
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ingestion.media_types import PDF
from ingestion.parsers import ParseLimits, ParseRequest, parse_files, pymupdf_text
from ingestion.parsers.elements import ParseOptions
from ingestion.transcripts import align_characters, costliest

WANTED_PARSE, WANTED_ERRORS = 1.5, 1.2
"""Most that a parse may cost in times of `get_text("dict")`, and an error rate in times of jiwer."""
_WORDS = [
    "the",
    "pump",
    "of",
    "station",
    "seven",
    "needs",
    "regular",
    "maintenance",
    "with",
    "grease",
    "and",
    "water",
    "every",
    "four",
    "hundred",
    "hours",
    "because",
    "bearings",
    "wear",
    "when",
    "dry",
    "which",
    "is",
    "costly",
    "for",
    "owners",
    "and",
    "nobody",
    "reads",
    "a",
    "manual",
    "before",
    "something",
    "breaks",
]
_REPEATS = 9


def write_text_pdf(path: Path, pages: int, columns: int, seed: int) -> None:
    """A PDF of running text in columns, without drawings or tables."""
    import pymupdf

    draw = random.Random(seed)
    document = pymupdf.open()
    for _ in range(pages):
        page = document.new_page()
        width = 480 / columns
        for column in range(columns):
            for paragraph in range(6):
                text = " ".join(draw.choice(_WORDS) for _ in range(75 // columns)).capitalize() + "."
                left, top = 60 + column * width, 60 + 118 * paragraph
                page.insert_textbox((left, top, left + width - 15, top + 115), text, fontsize=10)
        page.clean_contents()  # one content stream a page, as word processors write them
    document.save(path)
    document.close()


def best_of(*works: Callable[[], object]) -> list[float]:
    """Least processor seconds of each work, the works taking turns so that a noisy moment meets them all."""
    least = [float("inf")] * len(works)
    for _ in range(_REPEATS):
        for i, work in enumerate(works):
            started = time.process_time()
            work()
            least[i] = min(least[i], time.process_time() - started)
    return least


@dataclass(frozen=True)
class TextPdfs:
    """Processor seconds of the whole parse and of MuPDF's dictionary alone, over the same pages; seconds of one worker and of two."""

    pages: int
    parse: float
    dictionary: float
    one_worker: float
    two_workers: float

    def lines(self) -> list[str]:
        return [
            f"parse / get_text('dict'): {self.parse / self.dictionary:.2f} (wanted at most {WANTED_PARSE})",
            f"one worker / two workers: {self.one_worker / self.two_workers:.2f}",
            f"pages per second: {self.pages / self.parse:.0f} in process",
        ]


def measure_text_pdfs(scratch: Path, files: int = 64, pages: int = 60) -> TextPdfs:
    """Half of the files have one column, half have two; four are written, the others are copies."""
    import pymupdf

    paths = [scratch / f"{i}.pdf" for i in range(files)]
    written, copies = paths[:4], paths[4:]
    for i, path in enumerate(written):
        write_text_pdf(path, pages, 1 + i % 2, i)
    for i, path in enumerate(copies):
        shutil.copy(written[i % 4], path)
    pymupdf_text.warm(1)
    gc.freeze()  # as a worker does

    def parse() -> None:
        for path in written:
            pymupdf_text.parse(path, PDF, ParseOptions())

    def dictionary() -> None:
        for path in written:
            with pymupdf.open(path) as document:
                for page in document:
                    page.get_text("dict")

    parsed, alone = best_of(parse, dictionary)
    requests = [ParseRequest(p.name, p, PDF, "pdf", hashlib.sha256(p.read_bytes()).hexdigest()) for p in paths]

    def work(workers: int) -> float:
        done: list[float] = []
        for _ in parse_files("pymupdf", requests, ParseLimits(workers=workers)):
            done.append(time.perf_counter())
        # From the end of the first quarter on: starting workers is not the work, and the second may start later.
        return done[-1] - done[len(done) // 4]

    return TextPdfs(len(written) * pages, parsed, alone, min(work(1), work(1)), min(work(2), work(2)))


@dataclass(frozen=True)
class ErrorRate:
    """Seconds of an error rate with its places and its list of mistakes, and of jiwer's alignment alone."""

    characters: int
    ours: float
    jiwer: float
    rate: float

    def lines(self) -> list[str]:
        return [
            f"CER of {self.characters} characters / jiwer alone: {self.ours / self.jiwer:.2f} (wanted at most {WANTED_ERRORS})",
            f"CER {self.rate:.4f}",
        ]


def measure_error_rate(characters: int = 100_000) -> ErrorRate:
    """A document in which one character of fifty is lost, doubled or exchanged."""
    import jiwer

    draw = random.Random(7)
    reference = " ".join(draw.choice(_WORDS) for _ in range(characters))[:characters]
    hypothesis = "".join(c if draw.random() > 0.02 else draw.choice(["", "x", c + "y"]) for c in reference)

    def ours() -> None:
        costliest([(c.expected, c.found, 1, c.edits) for c in align_characters(reference, hypothesis).changes])

    mine, alone = best_of(ours, lambda: jiwer.process_characters(reference, hypothesis))
    alignment = align_characters(reference, hypothesis)
    assert alignment.edits / alignment.units == jiwer.cer(reference, hypothesis)
    return ErrorRate(characters, mine, alone, alignment.edits / alignment.units)
