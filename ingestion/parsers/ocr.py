"""Pictures of text, read with RapidOCR (PP-OCR models that come inside its wheel): scanned PDF pages and image files.

What belongs here: rendering at a stated resolution, turning pages upright, and putting recognised lines in reading order. What does not:
PDF text layers (`pymupdf_text`), and any judgement of how well the text was read (`transcripts`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ingestion.media_types import PDF
from ingestion.parsers.elements import Element, Parsed, ParseFailure, ParseOptions, join_lines, starts_list_item, without_bullet
from ingestion.parsers.layout import Line, continues_across, paragraphs, reading_order, union

_HEADING_HEIGHT = 1.45
_LONGEST_HEADING = 120
_DOUBTFUL = 0.8  # mean confidence below which a page may be upside down: upright print, clean or noisy, reads above .9
_MOST_PIXELS = 120_000_000  # A0 at 300 dpi is 139 million

_engine: Any = None


def warm(threads: int) -> None:
    """Load the detection and recognition models. Nothing is downloaded: both are files of the installed wheel."""
    global _engine
    import numpy as np
    from rapidocr import RapidOCR

    _engine = RapidOCR(
        params={
            "Global.use_cls": False,  # its angle classifier turns upright lines upside down
            "Global.log_level": "critical",
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
    blank = np.full((64, 320, 3), 255, dtype=np.uint8)
    _engine(blank)
    _engine(blank, use_det=False)  # recognition loads its model at first use


def parse(path: Path, media_type: str, options: ParseOptions) -> Parsed:
    """Elements of an image file, frame by frame, or of every page of a PDF rendered at `options.dpi`.

    Boxes are in points: of the PDF's page, or of an image at its own resolution where it states one, else at 96 dpi. Raises
    ParseFailure: corrupt, encrypted, too_large, no_text.
    """
    parsed = Parsed()
    pages = _pdf_pages(path, options) if media_type == PDF else _frames(path, options)
    body: list[tuple[Element, float]] = []
    blank: list[str] = []
    for number, (image, points) in enumerate(pages, 1):
        lines, turned = _read(image)
        if turned:
            parsed.notes.append(f"page {number} was turned by {turned} degrees counter-clockwise")
        if not lines:
            blank.append(str(number))
        body += [(element, size) for element, size in _elements(lines, number, points)]
    parsed.notes.insert(0, f"read by OCR{f' at {options.dpi} dpi' if media_type == PDF else ''}")
    if blank:
        parsed.notes.append(f"no text found on page {', '.join(blank[:20])}{' and more' if len(blank) > 20 else ''}")
    parsed.elements = [element for element, _ in body]
    return parsed


def _pdf_pages(path: Path, options: ParseOptions) -> Iterator[tuple[Any, float]]:
    """Each page as (RGB array, points a pixel)."""
    import numpy as np
    import pymupdf

    from ingestion.parsers.pdf_files import open_pdf

    with open_pdf(path, options.pages) as document:
        for page in document:
            scale = options.dpi / 72
            if page.rect.width * page.rect.height * scale * scale > _MOST_PIXELS:
                raise ParseFailure("too_large", f"page {page.number + 1} has over {_MOST_PIXELS} pixels at {options.dpi} dpi")
            pixels = page.get_pixmap(dpi=options.dpi, colorspace=pymupdf.csRGB, alpha=False)
            yield np.frombuffer(pixels.samples, dtype=np.uint8).reshape(pixels.height, pixels.width, 3), 1 / scale


def _frames(path: Path, options: ParseOptions) -> Iterator[tuple[Any, float]]:
    import numpy as np
    from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            frames = getattr(image, "n_frames", 1)
            if frames > options.pages:
                raise ParseFailure("too_large", f"{frames} frames, over the limit of {options.pages}")
            for frame in ImageSequence.Iterator(image):
                if frame.width * frame.height > _MOST_PIXELS:
                    raise ParseFailure("too_large", f"{frame.width} x {frame.height} pixels, over {_MOST_PIXELS}")
                resolution = float(frame.info.get("dpi", (0, 0))[1] or 0)
                upright = ImageOps.exif_transpose(frame)
                if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
                    paper = Image.new("RGBA", upright.size, "white")
                    upright = Image.alpha_composite(paper, upright.convert("RGBA"))
                yield np.asarray(upright.convert("RGB")), 72 / (resolution if resolution >= 36 else 96)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise ParseFailure("corrupt", f"cannot be decoded as an image: {type(error).__name__}: {error}") from error
    except Image.DecompressionBombError as error:
        raise ParseFailure("too_large", str(error)) from error


def _read(image: Any) -> tuple[list[tuple[Line, float]], int]:
    """Recognised lines of a page, each with its confidence, and the degrees (counter-clockwise) it was turned by."""
    import numpy as np

    lines = _recognise(image)
    if not lines:
        return [], 0
    confident = _confidence(lines) >= _DOUBTFUL
    if sum(line.box[3] - line.box[1] > 1.5 * line.width for line, _ in lines) > len(lines) / 2:
        # RapidOCR reads a tall box as if turned a quarter counter-clockwise; where that reads well, the page is to be turned so.
        quarters = 1 if confident else 3
    elif not confident:
        quarters = 2
    else:
        return lines, 0
    other = _recognise(np.ascontiguousarray(np.rot90(image, quarters)))
    if other and (quarters != 2 or _confidence(other) > _confidence(lines)):
        return other, 90 * quarters
    return lines, 0


def _confidence(lines: Sequence[tuple[Line, float]]) -> float:
    """Mean confidence of a page's lines, long lines counting more."""
    weight = sum(len(line.text) for line, _ in lines)
    return sum(score * len(line.text) for line, score in lines) / weight


def _recognise(image: Any) -> list[tuple[Line, float]]:
    """Lines of an image with boxes in pixels, as they stand once a small slant of the page is taken out of them."""
    import numpy as np

    result = _engine(image[:, :, ::-1], use_det=True, use_rec=True)  # RapidOCR takes BGR, and remembers what it was told before
    if result.boxes is None or result.txts is None:
        return []
    corners = [np.asarray(box, dtype=float) for box in result.boxes]
    slant = _slant(corners)
    cos, sin = math.cos(-slant), math.sin(-slant)
    lines = []
    for box, text, score in zip(corners, result.txts, result.scores, strict=True):
        if not text.strip():
            continue
        turned = box @ np.array([[cos, sin], [-sin, cos]])
        x0, y0 = turned.min(axis=0)
        x1, y1 = turned.max(axis=0)
        height = float(np.linalg.norm(box[3] - box[0]) + np.linalg.norm(box[2] - box[1])) / 2
        lines.append((Line(" ".join(text.split()), (float(x0), float(y0), float(x1), float(y1)), height), float(score)))
    return lines


def _slant(corners: Sequence[Any]) -> float:
    """Angle of the text lines in radians: the median over wide boxes of the angle of their upper edge; 0 beyond 20 degrees."""
    angles = []
    for box in corners:
        across, down = box[1] - box[0], box[3] - box[0]
        if math.hypot(*across) > 3 * math.hypot(*down):
            angles.append(math.atan2(across[1], across[0]))
    slant = statistics.median(angles) if angles else 0.0
    return slant if abs(slant) < math.radians(20) else 0.0


def _elements(lines: Sequence[tuple[Line, float]], page: int, points: float) -> list[tuple[Element, float]]:
    """Elements of one page. Height of a box stands in for type size, so only plainly larger lines are headings."""
    if not lines:
        return []
    usual = statistics.median(line.size for line, _ in lines)
    # Box heights wobble from line to line with ascenders and noise: near the usual height they are one size.
    for line, _ in lines:
        if line.size < _HEADING_HEIGHT * usual:
            line.size = usual
    found: list[tuple[Element, float]] = []
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
            found.append((element, max(line.size for line in paragraph)))
            open_paragraph = (list(paragraph), element) if category == "NarrativeText" else None
    return found
