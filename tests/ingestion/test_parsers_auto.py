"""Any file read by the means that suits it: the choice for each page of a PDF, its reasons, and its record."""

from __future__ import annotations

from pathlib import Path

import pymupdf
import pytest
from rapidfuzz.distance import Levenshtein

from ingestion.media_types import PDF, sniff
from ingestion.parsers import auto
from ingestion.parsers.elements import ParseOptions

pytest.importorskip("rapidocr", reason="the extra [ocr] is not installed")

LINES = ["The warranty covers repairs of the", "motor and the gearbox for a period", "of twenty-four months after sale."]


def page_of(document: pymupdf.Document, lines: list[str]) -> pymupdf.Page:
    page = document.new_page(width=300, height=160)
    for i, line in enumerate(lines):
        page.insert_text((30, 50 + 18 * i), line, fontsize=11)
    return page


def scanned(document: pymupdf.Document, lines: list[str]) -> pymupdf.Page:
    with pymupdf.open() as other:
        picture = page_of(other, lines).get_pixmap(dpi=150).tobytes("png")
    page = document.new_page(width=300, height=160)
    page.insert_image(page.rect, stream=picture)
    return page


def test_each_page_is_read_by_its_layer_or_by_ocr_and_the_choice_is_told(tmp_path: Path) -> None:
    document = pymupdf.open()
    page_of(document, LINES)
    scanned(document, LINES)
    document.new_page(width=300, height=160)
    stamped = scanned(document, LINES)
    stamped.insert_text((30, 150), "Scan 4711", fontsize=6)
    path = tmp_path / "a.pdf"
    document.save(path)
    auto.warm(2)
    parsed = auto.parse(path, PDF, ParseOptions(dpi=150))
    assert parsed.notes == [
        "text layer of page 1; OCR (rapidocr, 150 dpi) of page 2: no text layer; nothing of page 3: nothing is drawn on it; "
        "OCR (rapidocr, 150 dpi) of page 4: a picture with little text"
    ]
    gold = " ".join(LINES)
    texts = {number: " ".join(e.text for e in parsed.elements if e.page == number) for number in (1, 2, 3, 4)}
    assert texts[1] == gold
    assert texts[3] == ""
    assert all(Levenshtein.distance(texts[number][: len(gold)], gold) <= 2 for number in (2, 4))


PROSE = "Die Wärmepumpe darf nicht trocken laufen, weil sonst die Lager in wenigen Stunden verschleißen und das Gerät stehen bleibt. " * 2


@pytest.mark.parametrize(
    ("text", "pictures", "fault"),
    [
        (PROSE, 0.0, None),
        (PROSE, 1.0, None),  # a scan with a sound layer of its own
        ("", 0.0, "no text layer"),
        (" \n\t", 1.0, "no text layer"),
        ("Seite 3", 0.0, None),  # a page with nothing else on it
        ("Seite 3", 0.8, "a picture with little text"),
        ("10.00 20.00 30.00 40.00\n" * 10, 0.0, None),  # a table of figures
        ("水泵每四百小时加一次油。" * 10, 0.0, None),
        ("Насос смазывают каждые четыреста часов. " * 5, 0.0, None),
        (PROSE.translate({ord(c): 0xE000 + ord(c) for c in "enisratdhu"}), 0.0, "unreadable characters"),
        ("\ufffd" * 20 + "abc" * 30, 0.0, "unreadable characters"),
        (PROSE.translate({ord(c): "+<=>|~^`$"[ord(c) % 9] for c in "abcdefghijklmnopqrstuvwxyz"}), 0.0, "signs in place of letters"),
        (PROSE.translate(str.maketrans("aeiouäüAEIOU", "xkwqzjvXKWQZ")), 0.0, "words without vowels"),
    ],
)
def test_a_text_layer_is_sound_or_has_a_stated_fault(text: str, pictures: float, fault: str | None) -> None:
    assert auto.layer_fault(text, pictures) == fault


def test_pictures_and_texts_go_to_their_own_readers(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Pump\n\nGrease it.\n")
    with pymupdf.open() as document:
        page_of(document, LINES).get_pixmap(dpi=150).save(tmp_path / "a.png")
    auto.warm(1)
    read = {p.name: auto.parse(p, sniff(p), ParseOptions(dpi=150)) for p in sorted(tmp_path.iterdir())}
    assert [element.text for element in read["a.md"].elements] == ["Pump", "Grease it."]
    assert read["a.png"].elements[0].text == " ".join(LINES)


@pytest.mark.reference
@pytest.mark.parametrize("name", ["phototest.tif", "phototest-rotated-180.png", "phototest-rotated-R.png", "phototest-rotated-L.png"])
@pytest.mark.parametrize("engine", ["rapidocr", "tesseract"])
def test_four_rotations_of_the_published_page_give_the_same_text(shared: Path, name: str, engine: str) -> None:
    """phototest: CER 0 is what tesseract 5 reaches upright."""
    from ingestion.parsers.tesseract import installed

    if engine == "tesseract" and installed() is None:
        pytest.skip("tesseract is not installed on this machine")
    folder = shared / "tesseract_test" / "testing"
    gold = " ".join((folder / "phototest.gold.txt").read_text().split())
    auto.warm(2)
    parsed = auto.parse(folder / name, sniff(folder / name), ParseOptions(engine=engine))
    text = " ".join(" ".join(element.text for element in parsed.elements).split())
    assert Levenshtein.distance(text, gold) <= 0.02 * len(gold)
