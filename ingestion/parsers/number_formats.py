"""Numbers and dates of a spreadsheet as its number formats show them.

What belongs here: the format codes of ECMA-376-1, 18.8.31, for the locale they are written in (English). What does not: reading cells
(`spreadsheets`). A code outside what is read here (fractions, conditions on values) shows the plain value, never a wrong one.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import ROUND_HALF_UP, Decimal

_TOKENS = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|_.|\*.|\[(?P<bracket>[^\]]*)\]|(?P<ampm>AM/PM|A/P)'
    r"|(?P<date>[yYmMdDhHsS]+|\.0+(?=\W|$))|(?P<other>.)",
    re.S,
)
_DIGITS = re.compile(r"([#0?][#0?,]*|(?=\.[#0?]))(?:\.([#0?]*))?(,*)")
_COLOURS = re.compile(r"(?:black|blue|cyan|green|magenta|red|white|yellow|color\s*\d+)", re.I)
_LOCALE_DATES = ("mm-dd-yy", "m/d/yyyy", "m/d/yy", "mm/dd/yy")
"""Formats 14 to 17 and their kin, which each reader sees in the order of the own country: shown as ISO 8601, which is none's."""
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def shown(value: object, code: str) -> str:
    """The text of a cell: its value under a number format code."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, dt.timedelta):
        return _duration(value, code)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return _date(value, code)
    if isinstance(value, int | float):
        return _number(value, code)
    return str(value)


# ----------------------------------------------------------------------------------------------------------- numbers
def _number(value: int | float, code: str) -> str:
    if code in ("General", "@", ""):
        return plain(value)
    sections = _sections(code)
    if any(re.search(r"\[[<>=]", section) for section in sections):
        return plain(value)
    negative = value < 0
    section = sections[1] if negative and len(sections) > 1 else sections[2] if value == 0 and len(sections) > 2 else sections[0]
    try:
        text = _under(abs(value), section)
    except ValueError:
        return plain(value)
    return f"-{text}" if negative and len(sections) == 1 else text


def plain(value: int | float) -> str:
    """A number under the format General: no exponent below 1e15, no more than 15 digits, no trailing zeros."""
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    text = f"{value:.15g}"
    return format(Decimal(text), "f") if abs(value) >= 1e-9 and abs(value) < 1e15 else text


def _sections(code: str) -> list[str]:
    """The sections of a code for positive, negative, zero and text, parted by semicolons outside quotes."""
    found = [""]
    for token in re.findall(r'"[^"]*"|\\.|\[[^\]]*\]|.', code, re.S):
        if token == ";":
            found.append("")
        else:
            found[-1] += token
    return found[:4]


def _under(value: int | float, section: str) -> str:
    """A non-negative number under one section. Raises ValueError for what is not read here."""
    pieces: list[tuple[bool, str]] = []  # (is a code, text)
    for token in _TOKENS.finditer(section):
        if token["quoted"] is not None or token["escaped"] is not None:
            pieces.append((False, token["quoted"] if token["quoted"] is not None else token["escaped"]))
        elif token["bracket"] is not None:
            if token["bracket"].startswith("$"):
                pieces.append((False, token["bracket"][1:].split("-")[0]))
            elif not _COLOURS.fullmatch(token["bracket"]):
                raise ValueError(section)
        elif token["date"] and not token["date"].startswith("."):
            raise ValueError(section)
        elif token[0][0] in "_*":
            continue
        else:
            pieces.append((True, token[0]))
    codes = "".join(text if code else "\x00" for code, text in pieces)
    if "/" in codes or codes.count("E") > 1 or "General" in codes:
        raise ValueError(section)
    placeholder = _DIGITS.search(codes.replace("\x00", " "))
    if placeholder is None:
        return "".join(text for _, text in pieces)  # a section of words alone
    number = Decimal(repr(value)) * 100 ** codes.count("%")
    whole, fraction = placeholder[1].rstrip(","), placeholder[2] or ""
    scale = len(placeholder[1]) - len(whole) + len(placeholder[3])  # a comma behind the digits divides by a thousand
    exponent = re.match(r"E([+-])(0+)", codes[placeholder.end() :])
    places, least = len(fraction), fraction.count("0")
    if exponent:
        mantissa, _, power = f"{number:.{places}E}".partition("E")
        text = f"{mantissa}E{'-' if int(power) < 0 else exponent[1].replace('-', '')}{abs(int(power)):0{len(exponent[2])}d}"
        end = placeholder.end() + exponent.end()
    else:
        number = (number / 1000**scale).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
        grouped = "," in whole
        text = f"{number:,.{places}f}" if grouped else f"{number:.{places}f}"
        head, dot, tail = text.partition(".")
        tail = tail[:least] + tail[least:].rstrip("0")
        digits = whole.count("0")
        head = head.zfill(digits) if digits > 1 and not grouped else head if digits or head != "0" else ""
        text = head + (dot + tail if tail else "")
        end = placeholder.end()
    before, after = codes[: placeholder.start()], codes[end:]
    if _DIGITS.search(after.replace("\x00", " ")):
        raise ValueError(section)  # digits in several groups: a telephone number, a fraction
    literals = iter([text for code, text in pieces if not code])
    return text.join(["".join(next(literals) if sign == "\x00" else sign for sign in side) for side in (before, after)])


# ------------------------------------------------------------------------------------------------------------- dates
def _date(value: dt.datetime | dt.date | dt.time, code: str) -> str:
    code = _sections(code)[0]
    bare = re.sub(r"\[\$[^\]]*\]|;@|\\", "", code)
    if bare.lower() in _LOCALE_DATES or not re.search(r"[ymdhs]", re.sub(r'"[^"]*"|\[[^\]]*\]', "", code), re.I):
        return _iso(value)
    half = re.search(r"AM/PM|A/P", code, re.I) is not None
    tokens = list(_TOKENS.finditer(code))
    shown: list[str] = []
    before = ""
    for i, token in enumerate(tokens):
        run = (token["date"] or "").lower()
        if token["quoted"] is not None or token["escaped"] is not None:
            shown.append(token["quoted"] if token["quoted"] is not None else token["escaped"])
        elif token["ampm"]:
            shown.append("AM" if getattr(value, "hour", 0) < 12 else "PM")
        elif run.startswith("."):
            shown.append("." + f"{getattr(value, 'microsecond', 0):06d}"[: len(run) - 1])
        elif run:
            after = next((t["date"].lower() for t in tokens[i + 1 :] if t["date"]), "")
            minutes = run[0] == "m" and len(run) < 3 and (before.startswith("h") or after.startswith("s"))
            shown.append(_date_part(value, "n" * len(run) if minutes else run, half))
            before = run
        elif token["other"]:
            shown.append(token["other"])
    return "".join(shown).strip()


def _date_part(value: dt.datetime | dt.date | dt.time, run: str, half: bool) -> str:
    kind, length = run[0], len(run)
    if isinstance(value, dt.time) and kind in "ymd":
        return "0" * min(length, 2)
    if kind == "y":
        return f"{value.year % 100:02d}" if length < 3 else f"{value.year:04d}"  # type: ignore[union-attr]
    if kind == "m":
        month = value.month  # type: ignore[union-attr]
        name = _MONTHS[month - 1]
        return {1: str(month), 2: f"{month:02d}", 3: name[:3], 5: name[0]}.get(length, name)
    if kind == "d":
        day = _DAYS[value.weekday()]  # type: ignore[union-attr]
        number = value.day  # type: ignore[union-attr]
        return {1: str(number), 2: f"{number:02d}", 3: day[:3]}.get(length, day)
    part = getattr(value, {"h": "hour", "n": "minute", "s": "second"}[kind], 0)
    if kind == "h" and half:
        part = part % 12 or 12
    return str(part) if length == 1 else f"{part:02d}"


def _iso(value: dt.datetime | dt.date | dt.time) -> str:
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() else value.isoformat(" ", "minutes" if not value.second else "seconds")
    return value.isoformat()


def _duration(value: dt.timedelta, code: str) -> str:
    """Hours past 24 as [h]:mm:ss, which is what a cell must be formatted as to hold a duration."""
    seconds = round(value.total_seconds())
    text = f"{abs(seconds) // 3600}:{abs(seconds) % 3600 // 60:02d}"
    return ("-" if seconds < 0 else "") + (f"{text}:{abs(seconds) % 60:02d}" if "s" in code.lower() else text)
