"""Text from bytes in any encoding: what a mark, a declaration or the bytes themselves say, and a note where it had to be found out.

What belongs here: encodings. What does not: what the text means (the parser modules).
"""

from __future__ import annotations

import codecs
import re
import unicodedata

from ingestion.parsers.elements import ParseFailure

_OCTET_BOMS = (
    (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe\x00\x00", "utf-32"), (b"\xfe\xff", "utf-16"), (b"\xff\xfe", "utf-16"),
)  # fmt: skip
_CHARSET = re.compile(rb"<(?:meta\s[^>]*?charset\s*=\s*[\"']?|\?xml\s[^>]*?encoding\s*=\s*[\"'])\s*([A-Za-z0-9_.:-]+)", re.I)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")
_WESTERN = frozenset("äöüßÄÖÜéèêëáàâãåæçíìîïñóòôõøœúùûýÿÉÈÊËÁÀÂÃÅÆÇÍÌÎÏÑÓÒÔÕØŒÚÙÛÝŸ€£¥¢©®™°±§¶·«»‹›„“”‘’‚–—…•×÷¼½¾¹²³µº¡¿†‡‰\u00a0")
# Names of the web and of mail that Python lacks, or takes for an encoding with fewer letters (WHATWG Encoding, RFC 1556).
_ALIASES = {
    "iso-8859-8-i": "iso-8859-8", "iso-8859-8-e": "iso-8859-8", "iso-8859-6-i": "iso-8859-6", "iso-8859-6-e": "iso-8859-6",
    "iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030",
    "ks_c_5601-1987": "cp949", "euc-kr": "cp949", "shift_jis": "cp932", "x-sjis": "cp932", "windows-31j": "cp932", "unicode": "utf-16",
    "x-mac-roman": "mac-roman", "macintosh": "mac-roman", "tis-620": "cp874", "iso-8859-9": "cp1254", "windows-874": "cp874",
}  # fmt: skip
_GUESSED = 256 * 1024  # bytes that an encoding is guessed from: charset-normalizer's time grows with them


def decode(data: bytes, *, html: bool = False, declared: str | None = None) -> tuple[str, str | None]:
    """Text of some bytes, line ends as \\n, and a note where the encoding had to be found out.

    In order: a byte order mark, UTF-8, UTF-16 and UTF-32 without a mark, what the container (`declared`) or an HTML page declares,
    Windows-1252 if all it yields is Western letters and signs, the best guess of charset-normalizer. Raises ParseFailure
    `undecodable`.
    """
    text, note = _decode(data, html, declared)
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), note


def _decode(data: bytes, html: bool, declared: str | None) -> tuple[str, str | None]:
    for bom, encoding in _OCTET_BOMS:
        if data.startswith(bom):
            try:
                return data.decode(encoding), f"decoded as {encoding}"
            except UnicodeDecodeError as error:
                raise ParseFailure("undecodable", f"starts with the mark of {encoding} but is not: {error.reason}") from None
    found = _CHARSET.search(data[:4096]) if html and declared is None else None
    name = found[1].decode("ascii") if found else declared
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        if "\x00" in text:
            return _without_mark(data)
        if not (name and "\x1b" in text):  # ISO-2022 writes Japanese and Korean in seven bits, which are UTF-8 too
            return text, None
    if name:
        try:
            return data.decode(_codec(name)), f"decoded as {name.lower()}, as the {'page' if html else 'file'} declares"
        except (UnicodeDecodeError, LookupError):
            pass
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = "\x00"
    if all(character in _WESTERN for character in text if not character.isascii()) and not _CONTROL.search(text):
        return text, "decoded as windows-1252"
    if b"\x00" in data:
        try:
            return _without_mark(data)
        except ParseFailure:
            pass
    return _guess(data)


def _codec(name: str) -> str:
    """Python's name of a declared encoding. Raises LookupError for codecs that are no charset of a file."""
    known = codecs.lookup(_ALIASES.get(name.lower(), name)).name
    if known in ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined"):
        raise LookupError(name)
    return known


def _guess(data: bytes) -> tuple[str, str]:
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_GUESSED]).best()
    try:
        text = data.decode(best.encoding) if best is not None else "\x00"
    except UnicodeDecodeError:  # the rest is in another encoding, or the sample ended inside a character
        text = str(from_bytes(data).best() or "\x00")
    if best is None or _CONTROL.search(text):
        raise ParseFailure("undecodable", "in no known text encoding")
    return text, f"decoded as {best.encoding}, a guess"


def _without_mark(data: bytes) -> tuple[str, str]:
    """Text in UTF-16 or UTF-32 without a byte order mark, told by where NULs stand: UTF-32 has one at an end of every character, UTF-16
    has them in the high bytes alone, of Latin letters and of the blanks of any script."""
    wide, even = len(data) % 4 == 0, len(data) % 2 == 0
    candidates = (
        ("utf-32-le", wide and not any(data[3::4]) and max(data[2::4], default=0) <= 0x10),
        ("utf-32-be", wide and not any(data[::4]) and max(data[1::4], default=0) <= 0x10),
        ("utf-16-le", even and 0 not in data[::2] and data[1::2].count(0) > len(data) / 100),
        ("utf-16-be", even and 0 not in data[1::2] and data[::2].count(0) > len(data) / 100),
    )
    for encoding, fits in candidates:
        if fits:
            try:
                text = data.decode(encoding)
            except UnicodeDecodeError:
                continue
            if not _CONTROL.search(text) and not any(unicodedata.category(character) in ("Cn", "Co") for character in set(text)):
                return text, f"decoded as {encoding}, without a byte order mark"
    raise ParseFailure("undecodable", "holds NUL bytes and is neither UTF-16 nor UTF-32")
