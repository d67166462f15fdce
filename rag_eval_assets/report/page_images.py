"""A page of a source document as it looks, with the places where a parser erred.

What belongs here: rendering one page and drawing boxes over it. What does not: finding the page and its errors (`ingestion.parse_quality`),
pictures of figures (`pictures`).
"""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from ingestion.parse_quality import MarkedPage
from rag_eval_assets.report import formats

_DPI = 80
_TITLE = 20  # points above the page
_LEAST_SHADE, _MOST_SHADE = 0.15, 0.6


def marked_page(path: Path, marked: MarkedPage) -> bytes | None:
    """SVG of the page with a box over each element that was read wrong, darker for more errors; None where the file cannot be drawn."""
    import pymupdf

    try:
        with pymupdf.open(path) as document:
            page = document[marked.page - 1]
            width, height = page.rect.width, page.rect.height
            picture = page.get_pixmap(dpi=_DPI, alpha=False).tobytes("jpeg", jpg_quality=60)
    except (RuntimeError, ValueError, IndexError, OSError):  # the file changed or is no longer there: a picture is no reason to fail
        return None
    title = f"{formats.label(marked.doc_id, 90)}, page {marked.page}: {formats.percent(marked.rate)} of characters wrong"
    data = base64.b64encode(picture).decode()
    boxes = []
    for (x0, y0, x1, y1), edits, units in marked.marks:
        share = min(edits / max(units, 1), 1.0)
        told = f"{edits} of {units} characters"
        boxes.append(
            f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{max(x1 - x0, 1):.1f}" height="{max(y1 - y0, 1):.1f}" fill="#c0392b" '
            f'fill-opacity="{_LEAST_SHADE + (_MOST_SHADE - _LEAST_SHADE) * share:.2f}" stroke="#c0392b"><title>{told}</title></rect>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height + _TITLE:.0f}" '
        f'viewBox="0 -{_TITLE} {width:.1f} {height + _TITLE:.1f}">'
        f'<text x="2" y="-6" font-family="sans-serif" font-size="9">{escape(title)}</text>'
        f'<image href="data:image/jpeg;base64,{data}" x="0" y="0" width="{width:.1f}" height="{height:.1f}"/>{"".join(boxes)}</svg>'
    ).encode()
