"""Dates that a text gives, in whichever of the usual English, Dutch and German ways they are written.

What belongs here: finding them and saying whether two are the same. What does not: any other number (`texts`).
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january januari januar jan", "february februari februar feb", "march maart märz maerz mar mrt", "april apr", "may mei mai",
            "june juni jun", "july juli jul", "august augustus aug", "september sept sep", "october oktober oct okt", "november nov",
            "december dezember dec dez",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "(" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_ISO = r"\b(\d{4})-(\d{2})-(\d{2})\b"
_FIGURES = r"(?<![\d.])(\d{1,2})(?P<mark>[./-])(\d{1,2})(?P=mark)(\d{4})(?!\.?\d)"
_DAY_FIRST = rf"\b(\d{{1,2}})(?:st|nd|rd|th|e|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+(\d{{4}})\b)?"
_MONTH_FIRST = rf"\b{_MONTH}\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(\d{{4}})\b)?"
_MONTH_YEAR = rf"\b{_MONTH}\s+(\d{{4}})\b"
_DATE = re.compile("|".join((_ISO, _FIGURES, _DAY_FIRST, _MONTH_FIRST, _MONTH_YEAR)), re.IGNORECASE)

Reading = tuple[int | None, int, int | None]
"""Year, month, day; None where it is not said."""


@dataclass(frozen=True)
class Date:
    """A date as written, with every reading of it: 03/04/2020 has two."""

    text: str
    readings: frozenset[Reading]

    def is_given_by(self, other: Date, numbers: Set[float] = frozenset()) -> bool:
        """Whether another date says what this one does; its year may stand among the `numbers` of its text."""
        return any(
            month == its_month and day in (None, its_day) and (year in (None, its_year) or (its_year is None and year in numbers))
            for year, month, day in self.readings
            for its_year, its_month, its_day in other.readings
        )


def dates(text: str) -> list[Date]:
    """Dates of a text in order: with a month at least, in words or in figures; what is no day of a calendar is none."""
    found = ((match.group(), _readings(match)) for match in _DATE.finditer(text))
    return [Date(written, readings) for written, readings in found if readings]


def without_dates(text: str) -> str:
    """The text with a blank for each of its dates."""
    return _DATE.sub(lambda match: " " if _readings(match) else match.group(), text)


def _readings(match: re.Match[str]) -> frozenset[Reading]:
    g = match.groups()
    if g[0]:
        tried = [(g[0], int(g[1]), g[2])]
    elif g[3]:
        tried = [(g[6], int(g[5]), g[3]), (g[6], int(g[3]), g[5])]
    elif g[7]:
        tried = [(g[9], _MONTHS[g[8].lower()], g[7])]
    elif g[10]:
        tried = [(g[12], _MONTHS[g[10].lower()], g[11])]
    else:
        tried = [(g[14], _MONTHS[g[13].lower()], None)]
    return frozenset(
        (int(year) if year else None, month, int(day) if day else None)
        for year, month, day in tried
        if 1 <= month <= 12 and (day is None or 1 <= int(day) <= 31)
    )
