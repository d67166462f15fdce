"""Pictures of text, whatever engine reads them: rendering at a stated resolution, and elements from recognised lines.

What belongs here: pages as arrays, and the reading order, headings and lists of recognised lines. What does not: recognising (`ocr`,
`tesseract`), PDF text layers (`pymupdf_text`), and any judgement of how well the text was read (`transcripts`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ingestion.media_types import PDF
from ingestion.parsers.elements import Element, Parsed, ParseFailure, ParseOptions, join_lines, starts_list_item, without_bullet
from ingestion.parsers.layout import Line, continues_across, paragraphs, reading_order, union

Recognised = list[tuple[Line, float]]
"""Lines of an upright page, boxes in pixels, each with the engine's confidence, 0 to 1."""

_HEADING_HEIGHT = 1.45
_LONGEST_HEADING = 120
_MOST_PIXELS = 120_000_000  # A0 at 300 dpi is 139 million


def parse_pictures(path: Path, media_type: str, options: ParseOptions, read: Callable[[Any], tuple[Recognised, int]]) -> Parsed:
    """Elements of an image file, frame by frame, or of every page of a PDF rendered at `options.dpi`.

    `read` gives the lines of a picture and the degrees, counter-clockwise, that it was turned by. Boxes are in points: of the
    PDF's page, or of an image at its own resolution where it states one, else at 96 dpi.

    Raises ParseFailure: corrupt, encrypted, too_large, no_text.
    """
    if media_type != PDF:
        return _parsed(_frames(path, options), "read by OCR", read)
    from ingestion.parsers.pdf_files import open_pdf

    with open_pdf(path, options.pages) as document:
        return _parsed(((page.number + 1, *rendered(page, options.dpi)) for page in document), f"read by OCR at {options.dpi} dpi", read)


def _parsed(pages: Iterator[tuple[int, Any, float]], note: str, read: Callable[[Any], tuple[Recognised, int]]) -> Parsed:
    parsed = Parsed(notes=[note])
    blank: list[str] = []
    for number, image, points in pages:
        elements, turned = read_page(image, number, points, read)
        if turned:
            parsed.notes.append(turned)
        if not elements:
            blank.append(str(number))
        parsed.elements += elements
    if blank:
        parsed.notes.append(f"no text found on page {', '.join(blank[:20])}{' and more' if len(blank) > 20 else ''}")
    return parsed


def read_page(image: Any, number: int, points: float, read: Callable[[Any], tuple[Recognised, int]]) -> tuple[list[Element], str]:
    """Elements of one picture of a page, and a note if it had to be turned; `points` is the size of a pixel."""
    lines, turned = read(image)
    note = f"page {number} was turned by {turned} degrees counter-clockwise" if turned else ""
    return _elements(lines, number, points), note


def rendered(page: Any, dpi: int) -> tuple[Any, float]:
    """A PDF page as (RGB array, points a pixel). Raises ParseFailure too_large."""
    import numpy as np
    import pymupdf

    scale = dpi / 72
    if page.rect.width * page.rect.height * scale * scale > _MOST_PIXELS:
        raise ParseFailure("too_large", f"page {page.number + 1} has over {_MOST_PIXELS} pixels at {dpi} dpi")
    pixels = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csRGB, alpha=False)
    return np.frombuffer(pixels.samples, dtype=np.uint8).reshape(pixels.height, pixels.width, 3), 1 / scale


def _frames(path: Path, options: ParseOptions) -> Iterator[tuple[int, Any, float]]:
    import numpy as np
    from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            frames = getattr(image, "n_frames", 1)
            if frames > options.pages:
                raise ParseFailure("too_large", f"{frames} frames, over the limit of {options.pages}")
            for number, frame in enumerate(ImageSequence.Iterator(image), 1):
                if frame.width * frame.height > _MOST_PIXELS:
                    raise ParseFailure("too_large", f"{frame.width} x {frame.height} pixels, over {_MOST_PIXELS}")
                resolution = float(frame.info.get("dpi", (0, 0))[1] or 0)
                upright = ImageOps.exif_transpose(frame)
                if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
                    paper = Image.new("RGBA", upright.size, "white")
                    upright = Image.alpha_composite(paper, upright.convert("RGBA"))
                yield number, np.asarray(upright.convert("RGB")), 72 / (resolution if resolution >= 36 else 96)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise ParseFailure("corrupt", f"cannot be decoded as an image: {type(error).__name__}: {error}") from error
    except Image.DecompressionBombError as error:
        raise ParseFailure("too_large", str(error)) from error


def _elements(lines: Sequence[tuple[Line, float]], page: int, points: float) -> list[Element]:
    """Elements of one page. Height of a box stands in for type size, so only plainly larger lines are headings."""
    if not lines:
        return []
    usual = statistics.median(line.size for line, _ in lines)
    # Box heights wobble from line to line with ascenders and noise: near the usual height they are one size.
    for line, _ in lines:
        if line.size < _HEADING_HEIGHT * usual:
            line.size = usual
    found: list[Element] = []
    open_paragraph: tuple[list[Line], Element] | None = None
    for region in reading_order([line for line, _ in lines]):
        for i, paragraph in enumerate(paragraphs(region)):
            if i == 0 and open_paragraph is not None and continues_across(open_paragraph[0], paragraph):
                open_paragraph[0].extend(paragraph)
                open_paragraph[1].text = join_lines([line.text for line in open_paragraph[0]])
                continue
            text = join_lines([line.text for line in paragraph])
            large = all(line.size > usual for line in paragraph) and len(text) <= _LONGEST_HEADING
            category = "Title" if large and any(c.isalpha() for c in text) else "NarrativeText"
            if category != "Title" and starts_list_item(text):
                category, text = "ListItem", without_bullet(text)
            x0, y0, x1, y1 = union([line.box for line in paragraph])
            box = (x0 * points, y0 * points, x1 * points, y1 * points)
            element = Element(category, text, page, 1 if category == "Title" else None, box=box)
            found.append(element)
            open_paragraph = (list(paragraph), element) if category == "NarrativeText" else None
    return found
