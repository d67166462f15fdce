"""Pictures of text: read without a network, upright or turned, in the order of a reader."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pymupdf
import pytest
from PIL import Image
from rapidfuzz.distance import Levenshtein

from ingestion.media_types import PDF
from ingestion.parsers import ocr, ocr_pages
from ingestion.parsers.elements import Element, Parsed, ParseFailure, ParseOptions

pytest.importorskip("rapidocr", reason="the extra [ocr] is not installed")

LEFT = [
    "The warranty covers repairs of the",
    "motor and the gearbox for a period",
    "of twenty-four months after sale.",
    "Water damage is always excluded.",
]
RIGHT = [
    "Returned goods are inspected within",
    "ten working days of their arrival.",
    "Größere Geräte werden vor Ort",
    "geprüft und danach repariert.",
]


@pytest.fixture(scope="module", autouse=True)
def _warm() -> Any:
    patch = pytest.MonkeyPatch()

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a socket was opened")

    patch.setattr(socket.socket, "connect", refuse)
    patch.setattr(socket, "getaddrinfo", refuse)
    ocr.warm(2)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two columns under a heading, as a picture at 150 dpi."""
    document = pymupdf.open()
    page = document.new_page(width=440, height=300)
    page.insert_text((20, 60), "Warranty and returns", fontsize=22)
    for i, (one, two) in enumerate(zip(LEFT, RIGHT, strict=True)):
        page.insert_text((20, 110 + 15 * i), one, fontsize=10)
        page.insert_text((235, 110 + 15 * i), two, fontsize=10)
    path = tmp_path_factory.mktemp("scan") / "scan.png"
    page.get_pixmap(dpi=150).save(path)
    return path


def read(path: Path, media_type: str = "image/png", dpi: int = 150) -> Parsed:
    return ocr.parse(path, media_type, ParseOptions(dpi=dpi, pages=3))


def error_rate(elements: list[Element]) -> float:
    text = " ".join(" ".join(element.text for element in elements).split())
    gold = " ".join(["Warranty and returns", *LEFT, *RIGHT])
    return Levenshtein.distance(text, gold) / len(gold)


def test_columns_of_a_scan_are_read_one_after_the_other_umlauts_and_all(scan: Path) -> None:
    parsed = read(scan)
    assert [element.category for element in parsed.elements] == ["Title", "NarrativeText", "NarrativeText"]
    assert error_rate(parsed.elements) <= 0.01
    assert parsed.notes == ["read by OCR"]


def test_a_slanted_scan_standing_on_its_head_is_turned_and_read_in_the_same_order(scan: Path, tmp_path: Path) -> None:
    path = tmp_path / "turned.png"
    with Image.open(scan) as image:
        image.rotate(184, expand=True, fillcolor="white", resample=Image.Resampling.BICUBIC).save(path)
    parsed = read(path)
    assert error_rate(parsed.elements) <= 0.02
    assert parsed.notes[-1] == "page 1 was turned by 180 degrees counter-clockwise"


def test_pages_of_a_scanned_pdf_are_rendered_at_the_stated_resolution_and_placed_in_points(scan: Path, tmp_path: Path) -> None:
    document = pymupdf.open()
    for _ in range(2):
        page = document.new_page(width=440, height=300)
    document[1].insert_image(page.rect, filename=str(scan))
    path = tmp_path / "scan.pdf"
    document.save(path)
    parsed = read(path, PDF, dpi=120)
    assert parsed.notes == ["read by OCR at 120 dpi", "no text found on page 1"]
    assert {element.page for element in parsed.elements} == {2}
    title = parsed.elements[0]
    assert title.box is not None
    assert title.box[0] == pytest.approx(20, abs=6)
    assert title.box[3] == pytest.approx(64, abs=8)


@pytest.mark.parametrize(("content", "reason"), [(b"\x89PNG\r\n\x1a\n" + b"\x00" * 64, "corrupt"), (b"GIF89a", "corrupt")])
def test_a_picture_that_cannot_be_decoded_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(ParseFailure) as caught:
        read(path)
    assert caught.value.reason == reason


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_picture_over_the_pixel_limit_is_too_large_before_it_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("1", (12_000, 11_000)).save(path)
    with pytest.raises(ParseFailure) as caught:
        read(path)
    assert caught.value.reason == "too_large"


def test_transparent_pictures_are_put_on_white_paper(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGBA", (40, 20), (0, 0, 0, 0)).save(path)
    ((_, pixels, points),) = ocr_pages._frames(path, ParseOptions())
    assert pixels.shape == (20, 40, 3)
    assert int(pixels.min()) == 255
    assert points == 72 / 96
