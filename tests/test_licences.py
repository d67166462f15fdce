"""The page of licences names exactly what the lock installs."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def rows() -> dict[str, tuple[set[str], str]]:
    """Name -> (versions, licence) of the page's table."""
    found = {}
    for line in (ROOT / "docs" / "licences.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 3 and cells[0] != "package":
            found[cells[0]] = (set(cells[1].split(", ")), cells[2])
    return found


def test_every_locked_package_stands_on_the_page_with_its_versions_and_a_licence_and_no_other() -> None:
    locked: dict[str, set[str]] = {}
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if re.match(r"[A-Za-z0-9]", line):
            wanted = Requirement(line.rstrip("\\ "))
            locked.setdefault(wanted.name, set()).add(str(wanted.specifier).removeprefix("=="))
    assert len(locked) > 100
    assert {name: versions for name, (versions, _) in rows().items()} == locked
    assert [name for name, (_, licence) in rows().items() if not licence or "not stated" in licence] == []


def test_the_only_agpl_part_is_the_one_that_the_page_explains() -> None:
    affero = [name for name, (_, licence) in rows().items() if re.search("affero|agpl", licence, re.IGNORECASE)]
    assert affero == ["pymupdf"]
