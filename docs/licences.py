"""Writes docs/licences.md: every package of requirements.lock with the licence that its installed distribution states.

What does not belong here: what a licence allows, beyond the few sentences that open the page.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageMetadata, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
LOCKED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;\\]+)(?:\s*;\s*([^\\\n]*))?", re.MULTILINE)
COPYLEFT = re.compile(r"GPL|Affero|MPL|Mozilla")
SHORT = 70
OPENING = """\
# Licences of dependencies

Made by `make licences` from the metadata of the installed packages; each package's own text decides. This project itself is
under Apache-2.0 and holds no code of these.

**AGPL.** PyMuPDF (`pymupdf`, with MuPDF inside) is under the AGPL-3.0 or a commercial licence of Artifex. It reads PDF files (parsers of
kind `pymupdf`, `auto`, `ocr` and `tesseract`) and draws their pages for the report. Evaluating your own files on your own machines asks
nothing of you. Who passes on a product that holds it, or lets others use a changed version over a network, has to offer the source
of that product under the AGPL, or to buy the commercial licence. Without PDF files it is never loaded, and `pip uninstall pymupdf` takes
it away. This is no legal advice.

**Weaker copyleft** (LGPL, MPL) binds changes to those packages themselves; using them as they are does not reach this project or yours.

| package | version | licence |
|---|---|---|
"""


def locked(text: str) -> dict[str, dict[str, str]]:
    """Name -> version -> marker of every package that a lock names."""
    found: dict[str, dict[str, str]] = {}
    for name, version, marker in LOCKED.findall(text):
        found.setdefault(name, {})[version] = marker.strip()
    return dict(sorted(found.items()))


def licence(metadata: PackageMetadata) -> str:
    """The SPDX expression, else the classifiers, else the first line of the licence field."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [c.rsplit(" :: ", 1)[1] for c in metadata.get_all("Classifier", []) if c.startswith("License ::")]
    lines = [line.strip() for line in (metadata.get("License") or "").splitlines() if line.strip()]
    told = ", ".join(c for c in classifiers if c != "OSI Approved") or (lines[0] if lines else "not stated")
    return told if len(told) <= SHORT else told[: SHORT - 1] + "…"


def row(name: str, versions: dict[str, str]) -> str:
    try:
        told = licence(distribution(name).metadata)
    except PackageNotFoundError:
        never = all("never" in marker for marker in versions.values())
        told = "left out by an override, never installed" if never else f"for another platform ({'; '.join(versions.values())})"
    told = told.replace("|", "/")
    return f"| {name} | {', '.join(versions)} | {f'**{told}**' if COPYLEFT.search(told) else told} |\n"


def page(lock: str) -> str:
    return OPENING + "".join(row(name, versions) for name, versions in locked(lock).items())


if __name__ == "__main__":
    PAGE.write_text(page((ROOT / "requirements.lock").read_text(encoding="utf-8")), encoding="utf-8")
