"""Opening a PDF, and saying why one cannot be opened.

What belongs here: what every reader of PDFs checks first. What does not: reading pages (`pymupdf_text`, `ocr`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ingestion.parsers.elements import ParseFailure


def open_pdf(path: Path, most_pages: int) -> Any:
    """An open pymupdf document. Raises ParseFailure: corrupt, encrypted, too_large."""
    import pymupdf

    library: Any = pymupdf
    try:
        document = library.open(str(path), filetype="pdf")
    except (pymupdf.FileDataError, pymupdf.EmptyFileError) as error:
        raise ParseFailure("corrupt", f"MuPDF cannot open it as a PDF: {error}") from error
    if document.needs_pass:
        raise ParseFailure("encrypted", "the PDF needs a password")
    if document.page_count == 0:
        raise ParseFailure("corrupt", "the PDF has no readable page")
    if document.page_count > most_pages:
        raise ParseFailure("too_large", f"{document.page_count} pages, over the limit of {most_pages}")
    return document
