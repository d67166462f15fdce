"""Any file: of a PDF each page by its text layer where that is sound and by OCR where it is not, pictures by OCR, the rest by unstructured.

What belongs here: the choice for a page, by a stated test, and its record. What does not: reading (the other parser modules).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ingestion.media_types import PDF
from ingestion.parsers import ocr, pymupdf_text, tesseract, unstructured_elements
from ingestion.parsers.elements import Element, Parsed, ParseOptions
from ingestion.parsers.ocr_pages import parse_pictures, read_page, rendered
from ingestion.parsers.pdf_files import open_pdf

MOST_UNREADABLE = 0.1
"""Share of a page's visible characters that may be replacement characters, private use, unassigned or control characters."""
LEAST_WORDLIKE = 0.5
"""Share of a page's visible characters that must be letters, digits or punctuation: glyphs of an odd encoding come out as signs."""
LEAST_VOWELLED = 0.4
"""Share of words of four Latin letters or more that must hold a vowel: letters of an odd encoding come out as consonants."""
FEWEST_CHARACTERS = 100
"""Visible characters under which a page that is mostly a picture counts as a scan with a stamp on it."""
PICTURE = 0.5
"""Share of the page that pictures cover, from which it is mostly a picture."""

NO_LAYER, BLANK = "no text layer", "nothing is drawn on it"

_FEWEST_WORDS = 10
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]{4,}")
_warmed: set[str] = set()
_threads = 1


def warm(threads: int) -> None:
    """Import the PDF library; the OCR models and unstructured are loaded by the first file that needs them."""
    global _threads
    _threads = threads
    pymupdf_text.warm(threads)


def parse(path: Path, media_type: str, options: ParseOptions) -> Parsed:
    """Elements of any file that a parser here reads. Raises ParseFailure as they do."""
    if media_type == PDF:
        return _pdf(path, options)
    if media_type.startswith("image/"):
        return parse_pictures(path, media_type, options, _reader(options))
    _warm_once(unstructured_elements)
    return unstructured_elements.parse(path, media_type, options)


def _warm_once(module: Any) -> None:
    if module.__name__ not in _warmed:
        module.warm(_threads)
        _warmed.add(module.__name__)


def _reader(options: ParseOptions) -> Any:
    if options.engine == "tesseract":
        _warm_once(tesseract)
        return tesseract.reader(options.languages)
    _warm_once(ocr)
    return ocr.read


def _pdf(path: Path, options: ParseOptions) -> Parsed:
    notes: list[str] = []
    with open_pdf(path, options.pages) as document:
        faults = {page.number + 1: layer_fault(page.get_text(), picture_share(page)) for page in document}
        for number, fault in faults.items():
            if fault == NO_LAYER and not document[number - 1].get_bboxlog():
                faults[number] = BLANK
        sound = [page for page in document if faults[page.number + 1] is None]
        by_page: dict[int, list[Element]] = {number: [] for number in faults}
        for element in pymupdf_text.read_layer(sound) if sound else []:
            by_page[element.page or 1].append(element)
        if document.is_repaired:
            notes.append(pymupdf_text.REPAIRED)
        for page in document:
            number = page.number + 1
            if faults[number] not in (None, BLANK):
                image, points = rendered(page, options.dpi)
                by_page[number], turned = read_page(image, number, points, _reader(options))
                notes += [turned] if turned else []
    return Parsed([element for number in sorted(by_page) for element in by_page[number]], [_choice(faults, options), *notes])


def layer_fault(text: str, pictures: float) -> str | None:
    """Why a page's text layer is not to be read; None where it is sound. `pictures` is the share of the page that pictures cover.

    Unsound: nothing visible; more than MOST_UNREADABLE unreadable characters; fewer than LEAST_WORDLIKE letters, digits and punctuation;
    of at least ten longer Latin words fewer than LEAST_VOWELLED with a vowel; under FEWEST_CHARACTERS visible characters on a page that
    is mostly a picture.
    """
    visible = [character for character in text if not character.isspace()]
    if not visible:
        return NO_LAYER
    if sum(unicodedata.category(c) in ("Co", "Cn", "Cc") or c == "\ufffd" for c in visible) > MOST_UNREADABLE * len(visible):
        return "unreadable characters"
    if sum(c.isalnum() or unicodedata.category(c)[0] in "MP" for c in visible) < LEAST_WORDLIKE * len(visible):
        return "signs in place of letters"
    words = _LATIN_WORD.findall(text)
    if len(words) >= _FEWEST_WORDS and sum(map(_has_vowel, words)) < LEAST_VOWELLED * len(words):
        return "words without vowels"
    if len(visible) < FEWEST_CHARACTERS and pictures >= PICTURE:
        return "a picture with little text"
    return None


def _has_vowel(word: str) -> bool:
    return any(character in "aeiouy" for character in unicodedata.normalize("NFD", word).lower())


def picture_share(page: Any) -> float:
    """Share of a page that its pictures cover; overlap counts twice, and the share is at most 1."""
    whole = abs(page.rect.width * page.rect.height)
    covered = 0.0
    for info in page.get_image_info():
        x0, y0, x1, y1 = info["bbox"]
        covered += max(min(x1, page.rect.x1) - max(x0, page.rect.x0), 0) * max(min(y1, page.rect.y1) - max(y0, page.rect.y0), 0)
    return min(covered / whole, 1.0) if whole else 0.0


def _choice(faults: dict[int, str | None], options: ParseOptions) -> str:
    """How each page was read, as one note."""
    told = []
    for fault in dict.fromkeys(faults.values()):
        pages = _ranges([number for number, other in faults.items() if other == fault])
        if fault is None:
            told.append(f"text layer of page {pages}")
        else:
            how = "nothing" if fault == BLANK else f"OCR ({options.engine}, {options.dpi} dpi)"
            told.append(f"{how} of page {pages}: {fault}")
    return "; ".join(told)


def _ranges(numbers: Sequence[int]) -> str:
    """1-3, 5 for 1, 2, 3, 5."""
    runs = []
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(runs)
