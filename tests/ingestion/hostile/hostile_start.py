"""A parser whose worker dies while it starts, before any file."""

from __future__ import annotations

import os


def warm(threads: int) -> None:
    """Die."""
    os._exit(9)
