"""A parser that does what the file tells it to: die, hang, eat memory. Injected by module path into the worker pool."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ingestion.parsers.elements import Element, Parsed, ParseFailure, ParseOptions


def warm(threads: int) -> None:
    """Nothing to load."""
    print("noise at start", threads, flush=True)


def parse(path: Path, media_type: str, options: ParseOptions) -> Parsed:
    """Act on the first word of the file."""
    print("noise", path, file=sys.stderr, flush=True)
    word, _, rest = path.read_text(encoding="utf-8").partition(" ")
    if word == "abort":
        os.abort()
    if word == "exit":
        os._exit(7)
    if word == "hang":
        time.sleep(600)
    if word == "pid":
        return Parsed([Element("NarrativeText", str(os.getpid()))])
    if word == "pid-then-hang":
        Path(rest).write_text(str(os.getpid()), encoding="utf-8")
        time.sleep(600)
    if word == "blow-up":
        block = bytearray(b"x") * (int(rest) * 1024 * 1024)
        return Parsed([Element("NarrativeText", f"held {len(block)}")])
    if word == "raise":
        raise ValueError(f"bad thing in {path} at {hex(id(path))}")
    if word == "traceback":
        raise RuntimeError('Traceback (most recent call last):\n  File "/usr/lib/x.py", line 1\nRuntimeError: no /opt/models/a.onnx here')
    if word == "blank":
        return Parsed([Element("NarrativeText", " -- ")])
    if word == "encrypted":
        raise ParseFailure("encrypted", "a password is needed")
    if word == "unpicklable":
        return Parsed([Element("NarrativeText", "text", html=lambda: None)])  # type: ignore[arg-type]
    return Parsed([Element("Title", "Head", heading_level=1), Element("NarrativeText", word + rest)], ["a note"])
