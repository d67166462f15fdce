"""CSV and TSV: a grid of cells, whatever parts them.

What belongs here: finding the delimiter and reading quoted fields. What does not: encodings (`decoding`) and how large a table may grow
(`grids`).
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence

from ingestion.parsers.elements import Parsed, ParseFailure
from ingestion.parsers.grids import block_elements
from ingestion.parsers.html_tables import Cell

_DELIMITERS = (",", ";", "\t", "|")
_NONE = "\x1f"
_SAMPLE = 64 * 1024
_DECLARED = re.compile(r"sep=(.)\n")  # how a spreadsheet program is told


def parse_delimited(text: str, *, tabs: bool = False) -> Parsed:
    """Table elements of CSV (RFC 4180, with any of , ; tab | between fields) or, with `tabs`, of TSV.

    The delimiter is the one a first line `sep=X` names, else the one under which most rows of the sample agree on a number of fields
    above one; without such a one, a line is a cell. Rows are padded to the longest. Raises ParseFailure `corrupt` for what the csv
    module cannot read.
    """
    declared = _DECLARED.match(text)
    if declared:
        text = text[declared.end() :]
    delimiter = declared[1] if declared else "\t" if tabs and "\t" in text else delimiter_of(text)
    rows = [row for row in _read(text, delimiter) if any(field.strip() for field in row)]
    width = max((len(row) for row in rows), default=0)
    while width and not any(row[width - 1 :] and row[width - 1].strip() for row in rows):
        width -= 1  # rows that end in a delimiter open a column that nothing stands in
    cells = [Cell(i, j, 1, 1, row[j].strip() if j < len(row) else "") for i, row in enumerate(rows) for j in range(width)]
    notes = [f"fields are parted by {delimiter!r}"] if delimiter in (";", "|") else []
    return Parsed(list(block_elements(cells)), notes)


def delimiter_of(text: str) -> str:
    """The delimiter of some CSV; one that stands nowhere in text where no candidate gives most rows a second field."""
    sample = text[:_SAMPLE]
    if len(text) > _SAMPLE:
        sample = sample[: sample.rfind("\n") + 1] or sample

    def fit(delimiter: str) -> tuple[float, int]:
        widths = Counter(len(row) for row in _read(sample, delimiter) if row)
        if not widths:
            return 0.0, 0
        width, agreeing = max(widths.items(), key=lambda item: (item[1], item[0]))
        return (agreeing / widths.total(), width) if width > 1 else (0.0, 0)

    best = max(_DELIMITERS, key=fit)  # the first of equals
    return best if fit(best)[1] else _NONE


def _read(text: str, delimiter: str) -> Sequence[list[str]]:
    csv.field_size_limit(max(len(text), 131_072))  # a field may be as long as the file, which is bounded
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True))
    except csv.Error as error:
        raise ParseFailure("corrupt", f"cannot be read as CSV: {error}") from error
