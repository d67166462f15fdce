"""Mails (.eml): the subject as title, the header fields a reader sees as furniture, the body through the text or HTML path.

What belongs here: MIME (RFC 2045 to 2047, 5322) read with the standard library, whose `compat32` policy reads what others refuse. What
does not: HTML and text, handed in as functions; attachments, which are named in a note and never opened.
"""

from __future__ import annotations

import email
import email.policy
from collections.abc import Callable, Iterator
from email.errors import HeaderParseError
from email.header import Header, decode_header
from email.message import Message

from ingestion.parsers.decoding import decode
from ingestion.parsers.elements import Element, Parsed, ParseFailure

_SHOWN = ("From", "To", "Cc", "Bcc", "Date")
_ENCRYPTED = ("application/pkcs7-mime", "application/x-pkcs7-mime")

Reader = Callable[[str], Parsed]


def parse_mail(data: bytes, html: Reader, plain: Reader) -> Parsed:
    """Elements of a mail: Title (subject), Header (from, to, cc, bcc, date: kept in the table, left out of the text by cleaning), body.

    Of alternatives the HTML is read, unless nothing is in it. Other inline texts follow in their order. Raises ParseFailure: encrypted
    (S/MIME, PGP/MIME), corrupt (parts nested past reason), undecodable.
    """
    notes = []
    if b"\x00" in data[:4096] or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text, note = decode(data)
        data = text.encode()
        notes = [note] if note else []
    try:
        message = email.message_from_bytes(data.lstrip(), policy=email.policy.compat32)
        _refuse_encrypted(message)
        bodies, attachments = _bodies(message), list(_attachments(message))
    except RecursionError:
        raise ParseFailure("corrupt", "its parts are nested past reason") from None
    elements = []
    if subject := _header(message, "Subject"):
        elements.append(Element("Title", subject, heading_level=1))
    for name in _SHOWN:
        if value := _header(message, name):
            elements.append(Element("Header", f"{name}: {value}"))
    for kinds in bodies:
        for part in kinds:
            text, note = _text(part)
            parsed = (html if part.get_content_type() == "text/html" else plain)(text)
            for element in parsed.elements:
                if element.heading_level is not None and subject:
                    element.heading_level += 1  # below the subject
            if any(element.text.strip() for element in parsed.elements):
                elements += parsed.elements
                notes += [note] if note else []
                break
    if attachments:
        notes.append(f"not read: {', '.join(attachments)}")
    return Parsed(elements, notes)


def _refuse_encrypted(message: Message) -> None:
    kind = message.get_content_type()
    if kind == "multipart/encrypted" or (kind in _ENCRYPTED and "signed" not in str(message.get_param("smime-type", ""))):
        raise ParseFailure("encrypted", f"the mail is {kind}")


def _bodies(part: Message) -> list[list[Message]]:
    """The texts of a mail in order; each a list of alternatives, best first."""
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        children = [body for child in part.get_payload() if isinstance(child, Message) for body in _bodies(child)]
        if part.get_content_subtype() == "alternative" and children:
            return [sorted((kind for body in children for kind in body), key=lambda kind: kind.get_content_type() != "text/html")]
        return children
    shown = part.get_content_type() in ("text/plain", "text/html") and part.get_content_disposition() != "attachment"
    return [[part]] if shown and not part.is_multipart() else []


def _attachments(part: Message) -> Iterator[str]:
    """Names of the parts that are not read, with the media type where they have none."""
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        for child in part.get_payload():
            if isinstance(child, Message):
                yield from _attachments(child)
    elif not _bodies(part):
        yield _decoded(part.get_filename() or "") or part.get_content_type()


def _text(part: Message) -> tuple[str, str | None]:
    data = part.get_payload(decode=True)
    charset = part.get_param("charset")
    declared = charset if isinstance(charset, str) else None
    text, note = decode(data if isinstance(data, bytes) else b"", html=part.get_content_type() == "text/html", declared=declared)
    return text, note if note and not note.endswith("declares") else None


def _header(message: Message, name: str) -> str:
    """A header field on one line, encoded words decoded; empty where it is absent."""
    return _decoded(message.get(name) or "")


def _decoded(value: str | Header) -> str:
    """Encoded words (RFC 2047) and raw bytes of any charset as text; what is in none stays as it is written."""
    if isinstance(value, Header):  # raw bytes, which the standard forbids and mail programs write
        value = "".join(_words(content, None) for content, _ in decode_header(value))
    try:
        parts = decode_header(value)
    except (HeaderParseError, ValueError):
        parts = [(value, None)]
    return " ".join("".join(_words(content, charset) for content, charset in parts).split())


def _words(content: str | bytes, charset: str | None) -> str:
    if isinstance(content, str):
        return content
    if charset is None and b"\\" in content:  # how decode_header hands over what stands between encoded words
        return content.decode("raw-unicode-escape", "replace")
    try:
        return decode(content, declared=charset)[0]
    except ParseFailure:
        return content.decode("ascii", "replace")
