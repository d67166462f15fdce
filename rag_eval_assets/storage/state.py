"""Small JSON files of the state folder: caches that may be lost at any time, written whole or not at all.

What belongs here: reading and writing them. What does not: what they mean, which their owners know.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from rag_eval_assets.unwritable import SYNC_AGAIN, UnwritableError, writing_to


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; empty where the file is absent or unreadable (only caches are read through this)."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, value: Any, again: str = SYNC_AGAIN) -> None:
    """Write a small JSON file whole or not at all. Raises UnwritableError, with `again` for what to do once that is mended."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with writing_to(path, again):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(json.dumps(value, sort_keys=True), encoding="utf-8")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_cache(path: Path, value: Any) -> None:
    """`write_json` where that is possible: a folder that is read-only, or a disk that is full, is no reason to end what only reads."""
    with suppress(OSError, UnwritableError):
        write_json(path, value)
