"""Fixtures that every test may use: the public reference data, a small evaluation folder, a warm graph."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """Public data for reference tests, beside the checkout; the test is skipped where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"reference data is not at {folder}")
    return folder


def pytest_configure() -> None:
    """Noisy machines: a property is judged by its cases, not by their time; temporary folders are in memory, for SQLite syncs a lot."""
    from hypothesis import settings

    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))

    settings.register_profile("no_deadline", deadline=None)
    settings.load_profile("no_deadline")
