"""Pictures of text, read with Tesseract where it is installed on the machine: a second opinion, and scripts RapidOCR does not know.

What belongs here: asking the tesseract command for the lines of a picture and turning it upright. What does not: rendering and elements
(`ocr_pages`), or installing Tesseract and its language data (the system's package manager).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from ingestion.parsers.elements import Box, Parsed, ParseFailure, ParseOptions
from ingestion.parsers.layout import Line, union
from ingestion.parsers.ocr_pages import Recognised, parse_pictures

COMMAND = "tesseract"
DEFAULT_LANGUAGES = ("eng",)
_WIDE_GAP = 2.5  # heights of a word: no blank between words of running text is as wide
_LEAST_ORIENTATION = 1.0  # confidence of the orientation below which a page is left as it is


@cache
def installed() -> tuple[str, tuple[str, ...]] | None:
    """Tesseract's version and its languages; None where there is no such command."""
    if shutil.which(COMMAND) is None:
        return None
    told = [
        subprocess.run([COMMAND, option], capture_output=True, text=True, check=False, timeout=30).stdout.split("\n")
        for option in ("--version", "--list-langs")
    ]
    return told[0][0].removeprefix(COMMAND).strip(), tuple(sorted(line for line in told[1][1:] if line.strip()))


def warm(threads: int) -> None:
    """Import the wrapper; one thread a page, since its threads cost more than they bring."""
    del threads
    os.environ["OMP_THREAD_LIMIT"] = "1"
    import pytesseract  # noqa: F401


def parse(path: Path, media_type: str, options: ParseOptions) -> Parsed:
    """Elements of an image file or a PDF, as `ocr_pages.parse_pictures` gives them. Raises ParseFailure not_installed too: without
    Tesseract or one of the languages."""
    return parse_pictures(path, media_type, options, reader(options.languages))


def reader(languages: tuple[str, ...]) -> Any:
    """What reads a picture in these languages (Tesseract's names, such as eng or deu; eng without any)."""
    found = installed()
    if found is None:
        raise ParseFailure("not_installed", "tesseract is not there; install it with the system's package manager")
    wanted = languages or DEFAULT_LANGUAGES
    if missing := [name for name in wanted if name not in found[1]]:
        raise ParseFailure("not_installed", f"tesseract has no language data for {', '.join(missing)}; it has {', '.join(found[1])}")

    def read(image: Any) -> tuple[Recognised, int]:
        import numpy as np

        turned = _orientation(image) if "osd" in found[1] else 0
        upright = np.ascontiguousarray(np.rot90(image, turned // 90)) if turned else image
        return _recognise(upright, "+".join(wanted)), turned

    return read


def _orientation(image: Any) -> int:
    """Degrees, counter-clockwise, by which the picture is to be turned; 0 where Tesseract cannot tell (a page with few letters)."""
    import pytesseract

    try:
        told = pytesseract.image_to_osd(image, output_type=pytesseract.Output.DICT)
    except pytesseract.TesseractError:
        return 0
    return (360 - int(told["rotate"])) % 360 if told["orientation_conf"] >= _LEAST_ORIENTATION else 0


def _recognise(image: Any, languages: str) -> Recognised:
    """Lines of an upright picture: the words of a line, joined, with their mean confidence. A wide gap parts a line, as columns do."""
    import pytesseract

    told = pytesseract.image_to_data(image, lang=languages, config="--psm 3", output_type=pytesseract.Output.DICT)
    lines: list[list[int]] = []
    above: tuple[int, ...] = ()
    for i, text in enumerate(told["text"]):
        if not text.strip():
            continue
        place = tuple(told[name][i] for name in ("block_num", "par_num", "line_num"))
        if place != above or _box(told, i)[0] - _box(told, lines[-1][-1])[2] > _WIDE_GAP * told["height"][i]:
            lines.append([])
        lines[-1].append(i)
        above = place
    found: Recognised = []
    for words in lines:
        box = union([_box(told, i) for i in words])
        weight = sum(len(told["text"][i]) for i in words)
        confidence = sum(told["conf"][i] * len(told["text"][i]) for i in words) / weight / 100
        found.append((Line(" ".join(told["text"][i] for i in words), box, box[3] - box[1]), confidence))
    return found


def _box(told: Any, word: int) -> Box:
    left, top = float(told["left"][word]), float(told["top"][word])
    return left, top, left + told["width"][word], top + told["height"][word]
