"""Personal data that a pattern and a check digit can find, and how to mask it.

Names and postal addresses need a model and are not found here. How well a type is found is measured in `cleaning`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

# ISO 13616 lengths, as in the SWIFT registry of IBAN structures.
_IBAN_LENGTHS: Final = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21,
    "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27,
    "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26,
    "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27,
    "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25,
    "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23,
    "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip
# Issuer prefixes and the lengths they come in: Visa, Mastercard, American Express, Diners, JCB, Discover, Maestro.
_CARD: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-59]|[68]\d)\d{11}|35\d{14}|(?:2131|1800)\d{11}|6(?:011|4[4-9]\d|5\d\d)\d{12,15}|(?:5[06-8]|6\d)\d{10,17}"
)
_EMAIL: Final = re.compile(r"(?<![\w.+-])\w[\w.!#$%&'*+/=?^{|}~-]{0,63}@(?:\w[\w-]{0,62}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_IBAN_START: Final = re.compile(r"(?<!\w)[A-Za-z]{2}\d{2}")
_IBAN: Final = re.compile(r"[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]){11,30}")
_DIGITS: Final = re.compile(r"(?<![\w.,])\d(?:[ -]?\d){11,18}(?!\w)")
_SSN: Final = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
_BSN: Final = re.compile(r"(?<![\w.,-])(?:\d{9}|\d{3}([ .])\d{3}\1\d{3}|\d{4}([ .])\d{2}\2\d{3})(?![\w-]|[.,]\d)")
_BSN_NAMED: Final = re.compile(r"\bBSN\b|burgerservice|sofi-?nummer|citizen service number", re.IGNORECASE)
_IPV4: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")
_VERSIONED: Final = re.compile(r"(?:\bv|\b(?:version|versie|release|firmware|build|section|software)[ :]*|§ ?)$", re.IGNORECASE)
_PHONE: Final = re.compile(r"(?<![\w+/-])(?<!\d[.,])(?:\+ ?)?\(?\d(?:[ ./()-]{0,3}\d){6,14}(?: ?(?:x|ext\.? ?)\d{1,5})?(?!\w|[.,/-]\d)")
_PHONE_NAMED: Final = re.compile(
    r"\b(?:phone|tele?(?:f|ph)o+ne?|tel|mobile|mobiel|mobil|handy|gsm|fax|call|desk|bel|rufnummer|calling|reach|answering)\b"
    r"[^\n\d]{0,30}$",
    re.IGNORECASE,
)
_PHONE_NAMED_BEHIND: Final = re.compile(
    r"[ -]{1,2}\(?(?:phone|tele?(?:f|ph)o+ne?|tel|mobile|mobiel|mobil|handy|gsm|fax|office|kantoor|büro)\b", re.IGNORECASE
)
_NORTH_AMERICAN: Final = re.compile(r"(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])\d{3}[ .-]\d{4}(?: ?(?:x|ext\.? ?)\d+)?")
_DATE: Final = re.compile(r"[0-3]?\d[-./ ][01]?\d[-./ ](?:19|20)\d\d(?!\d)|(?:19|20)\d\d[-./ ][01]?\d[-./ ][0-3]?\d(?!\d)")


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def luhn(number: str) -> bool:
    """Whether the digits of `number` pass the Luhn check (ISO/IEC 7812-1)."""
    total = 0
    for index, digit in enumerate(reversed([int(c) for c in number])):
        doubled = digit * 2 if index % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def eleven_proof(number: str) -> bool:
    """Whether nine digits pass the Dutch 11-proof of a BSN (weights 9 to 2, the last digit negative)."""
    weights = (9, 8, 7, 6, 5, 4, 3, 2, -1)
    total = sum(weight * int(digit) for weight, digit in zip(weights, number, strict=True))
    return total != 0 and total % 11 == 0


def _iban_length(candidate: str) -> int | None:
    """How many characters of `candidate`, spaces counted, make up a valid IBAN (ISO 13616, mod 97); None for none."""
    compact = candidate.replace(" ", "").upper()
    length = _IBAN_LENGTHS.get(compact[:2])
    if length is None or len(compact) < length:
        return None
    compact = compact[:length]
    if int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 != 1:
        return None
    ends = [position for position, character in enumerate(candidate, 1) if character != " "]
    end = ends[length - 1]
    return None if candidate[end : end + 1].isalnum() else end


def _is_address(value: str, before: str, _: str) -> bool:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    if address.version == 4:
        # Four numbers after "version" are no address; a netmask, loopback or multicast address is nobody's.
        if _VERSIONED.search(before) or value.startswith("255."):
            return False
    elif len([part for part in value.split(":") if part]) < 3 or not any(c.isdigit() for c in value):
        return False
    return not (address.is_loopback or address.is_unspecified or address.is_multicast)


def _is_phone(value: str, before: str, behind: str) -> bool:
    """Whether a run of digits is a telephone number.

    The operating point: an international prefix, a trunk 0 in groups of at least two digits (or the ten digits of a mobile
    number), or North American grouping; any other grouping only behind a word such as "phone", or right before "fax" or "office".
    """
    number = re.sub(r" ?(?:x|ext).*", "", value)
    digits = _digits(number)
    if _DATE.match(number):
        return False
    if number.startswith("+"):
        return 8 <= len(digits) <= 15
    if _NORTH_AMERICAN.fullmatch(value):
        return True
    grouped = len(digits) < len(number)
    if digits.startswith("00") and digits[2] != "0":
        return 10 <= len(digits) <= 15
    first = re.split(r"[ .()/-]+", number.lstrip("("))[0]
    if digits[0] == "0" and digits[1] != "0" and 9 <= len(digits) <= 12:
        mobile = len(digits) <= 11 and digits.startswith(("06", "07", "015", "016", "017"))
        return mobile or (grouped and len(first) >= 2)
    return 7 <= len(digits) <= 13 and bool(_PHONE_NAMED.search(before) or _PHONE_NAMED_BEHIND.match(behind))


def find(text: str) -> list[dict[str, Any]]:
    """Personal data in `text`: {type, start, end} in characters, sorted, never overlapping, never across lines.

    Types: email, iban (mod 97 and length), credit_card (issuer prefix, length and Luhn), ssn, bsn (11-proof, and only in a
    text that names a BSN: one number in eleven passes by chance), ip, phone.
    """
    found: list[dict[str, Any]] = []
    taken: list[tuple[int, int]] = []

    def add(kind: str, start: int, end: int) -> None:
        if all(end <= other[0] or start >= other[1] for other in taken):
            taken.append((start, end))
            found.append({"type": kind, "start": start, "end": end})

    def scan(kind: str, pattern: re.Pattern[str], accepts: Callable[[str, str, str], bool] | None = None) -> None:
        for match in pattern.finditer(text):
            start, end = match.span()
            if accepts is None or accepts(match[0], text[max(start - 40, 0) : start], text[end : end + 20]):
                add(kind, start, end)

    if "@" in text:
        scan("email", _EMAIL)
    for begin in _IBAN_START.finditer(text):
        # Words may follow an IBAN after a space, so the country's length decides where it ends.
        candidate = _IBAN.match(text, begin.start())
        if candidate and (length := _iban_length(candidate[0])):
            add("iban", begin.start(), begin.start() + length)
    scan("credit_card", _DIGITS, lambda value, *_: bool(_CARD.fullmatch(_digits(value))) and luhn(_digits(value)))
    scan("ssn", _SSN)
    if _BSN_NAMED.search(text):
        scan("bsn", _BSN, lambda value, *_: eleven_proof(_digits(value)))
    scan("ip", _IPV4, _is_address)
    if "::" in text or text.count(":") >= 7:
        scan("ip", _IPV6, _is_address)
    scan("phone", _PHONE, _is_phone)
    return sorted(found, key=lambda span: span["start"])


def mask(text: str, spans: Sequence[Mapping[str, Any]] | None = None) -> str:
    """`text` with each span (found here if None are given) replaced by its type in capitals, such as [EMAIL]."""
    parts, position = [], 0
    for span in find(text) if spans is None else spans:
        parts += [text[position : span["start"]], f"[{span['type'].upper()}]"]
        position = span["end"]
    return "".join([*parts, text[position:]])
