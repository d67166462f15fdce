"""Files that no parser can read, or that are not what their name says.

What belongs here: the damage, listed with the document it is done to. What does not: sound files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def locked_pdf(lines: list[str], password: str) -> bytes:
    """A one-page PDF that asks for a password (standard handler, revision 2, 40-bit RC4: ISO 32000-1, 7.6.3).

    Written by hand because pymupdf draws a random file id when it encrypts.
    """
    secret = (password.encode("latin-1") + PADDING)[:32]
    file_id = hashlib.md5(password.encode() + b"|" + "\n".join(lines).encode()).digest()
    owner = _rc4(hashlib.md5(secret).digest()[:5], secret)
    rights = -4
    key = hashlib.md5(secret + owner + rights.to_bytes(4, "little", signed=True) + file_id).digest()[:5]
    user = _rc4(key, PADDING)
    stream = ("BT /F1 11 Tf 72 770 Td 15 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET").encode("latin-1")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Filter /Standard /V 1 /R 2 /O <" + owner.hex().encode() + b"> /U <" + user.hex().encode() + b"> /P -4 >>",
    ]
    object_key = hashlib.md5(key + (4).to_bytes(3, "little") + b"\0\0").digest()[:10]
    secret_stream = _rc4(object_key, stream)
    objects[3] = b"<< /Length %d >>\nstream\n" % len(secret_stream) + secret_stream + b"\nendstream"
    out, offsets = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(b"%010d 00000 n \n" % o for o in offsets)
    name = file_id.hex().encode()
    out += b"trailer\n<< /Size %d /Root 1 0 R /Encrypt 6 0 R /ID [<%b><%b>] >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        name,
        name,
        start,
    )
    return bytes(out)


def broken_files(built: Mapping[str, bytes], wishes: list[dict[str, object]]) -> dict[str, bytes]:
    """The broken files that `content/broken.yaml` asks for, by path. Kinds: truncated, empty, locked, renamed, overwritten, noise."""
    out: dict[str, bytes] = {}
    for wish in wishes:
        path, kind = str(wish["path"]), wish["kind"]
        source = built.get(str(wish.get("of")), b"")
        if kind == "truncated":
            out[path] = source[: int(len(source) * float(str(wish["keep"])))]
        elif kind == "empty":
            out[path] = b""
        elif kind == "locked":
            out[path] = locked_pdf([str(line) for line in wish["lines"]], str(wish["password"]))  # type: ignore[attr-defined]
        elif kind == "renamed":
            out[path] = str(wish["text"]).encode("utf-8")
        elif kind == "overwritten":
            middle = len(source) // 3
            out[path] = source[:middle] + b"\x00" * 2048 + source[middle + 2048 : -400]
        elif kind == "noise":
            out[path] = b"".join(hashlib.sha256(f"{path}{i}".encode()).digest() for i in range(64))
        else:
            raise ValueError(f"broken.yaml: {path}: no kind {kind!r}")
    return out
