"""Pictures of text, read with RapidOCR (PP-OCR models that come inside its wheel): scanned PDF pages and image files.

What belongs here: recognising the lines of a picture and turning it upright. What does not: rendering and elements (`ocr_pages`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ingestion.parsers.elements import Parsed, ParseOptions
from ingestion.parsers.layout import Line
from ingestion.parsers.ocr_pages import Recognised, parse_pictures

_DOUBTFUL = 0.8  # mean confidence below which a page may be upside down: upright print, clean or noisy, reads above .9

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
    """Elements of an image file or a PDF, as `ocr_pages.parse_pictures` gives them."""
    return parse_pictures(path, media_type, options, read)


def read(image: Any) -> tuple[Recognised, int]:
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


def _recognise(image: Any) -> Recognised:
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
