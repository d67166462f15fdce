"""Tesseract where the machine has it: lines, turned pages, languages, and clear words where something is not there."""

from __future__ import annotations

from pathlib import Path

import pymupdf
import pytest
from rapidfuzz.distance import Levenshtein

from ingestion.parsers import ParseLimits, ParseRequest, ParserMissing, engine_facts, parse_files, tesseract
from ingestion.parsers.elements import ParseFailure, ParseOptions

needs_tesseract = pytest.mark.skipif(tesseract.installed() is None, reason="tesseract is not installed on this machine")


@needs_tesseract
def test_columns_are_read_one_after_the_other_with_boxes_in_points(tmp_path: Path) -> None:
    tesseract.warm(1)
    with pymupdf.open() as document:
        page = document.new_page(width=440, height=300)
        page.insert_text((20, 60), "Warranty and returns", fontsize=22)
        for i in range(4):
            page.insert_text((20, 110 + 15 * i), f"left column line {i} of the text", fontsize=10)
            page.insert_text((235, 110 + 15 * i), f"right column line {i} of the text", fontsize=10)
        document.save(tmp_path / "a.pdf")
    parsed = tesseract.parse(tmp_path / "a.pdf", "application/pdf", ParseOptions(dpi=200))
    text = " ".join(element.text for element in parsed.elements)
    gold = " ".join(["Warranty and returns", *(f"{side} column line {i} of the text" for side in ("left", "right") for i in range(4))])
    assert Levenshtein.distance(text, gold) <= 2
    title = parsed.elements[0]
    assert title.category == "Title"
    assert title.box is not None
    assert title.box[0] == pytest.approx(20, abs=4)


@needs_tesseract
def test_a_language_that_is_not_installed_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ParseFailure, match=r"no language data for xyz; it has .*eng"):
        tesseract.parse(tmp_path / "a.png", "image/png", ParseOptions(languages=("xyz",)))


@needs_tesseract
def test_the_machines_version_shapes_the_rows_of_kinds_that_use_it_alone() -> None:
    found = tesseract.installed()
    assert found is not None
    assert engine_facts("tesseract", {}) == engine_facts("auto", {"engine": "tesseract"}) == {"tesseract": found[0], "has": "eng"}
    assert engine_facts("tesseract", {"languages": ("eng", "xyz")})["has"] == "eng"  # a language that comes later reads the files anew
    assert engine_facts("auto", {"engine": "rapidocr"}) == engine_facts("pymupdf", {}) == {}


def test_without_the_command_the_mend_is_told_before_any_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ingestion.parsers.tesseract.installed", lambda: None)
    request = ParseRequest("a.png", tmp_path / "a.png", "image/png", "scan", "0")
    with pytest.raises(ParserMissing, match="needs the command tesseract: install it with the system's package manager"):
        list(parse_files("tesseract", [request], ParseLimits()))


@pytest.mark.reference
@needs_tesseract
def test_fraktur_lines_are_read_best_with_a_model_of_their_script(shared: Path) -> None:
    """Tesseract's `deu` reaches CER .119 on 40 lines (published, twelve here); models of the script should do better. RapidOCR has none for it."""
    rapidocr = pytest.importorskip("rapidocr")
    assert rapidocr
    import pytesseract
    from PIL import Image

    from ingestion.parsers import ocr
    from ingestion.transcripts import align_characters

    found = tesseract.installed()
    assert found is not None
    lines = sorted((shared / "archiscribe").glob("*/*.png"))[:12]
    tesseract.warm(1)
    golds = [" ".join(line.with_suffix(".txt").read_text().split()) for line in lines]
    ocr.warm(2)
    told: dict[str, float] = {}
    for name in [*(name for name in ("deu", "frk", "Fraktur") if name in found[1]), "rapidocr"]:
        errors = units = 0
        # RapidOCR takes many times as long a line, and its figure here is no more than a bound.
        for line, gold in list(zip(lines, golds, strict=True))[: 4 if name == "rapidocr" else None]:
            if name == "rapidocr":
                text = " ".join(element.text for element in ocr.parse(line, "image/png", ParseOptions()).elements)
            else:
                text = " ".join(pytesseract.image_to_string(Image.open(line), lang=name, config="--psm 7").split())
            alignment = align_characters(gold, text)
            errors, units = errors + alignment.edits, units + alignment.units
        told[name] = errors / units
    print({name: round(rate, 4) for name, rate in told.items()})
    assert told["rapidocr"] < 0.2
    if "deu" in told:
        assert told["deu"] == pytest.approx(0.119, abs=0.06)
    if {"deu", "frk", "Fraktur"} <= set(told):
        assert max(told["frk"], told["Fraktur"]) < 0.7 * told["deu"]
