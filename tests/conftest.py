"""Fixtures that every test may use: the public reference data, a small evaluation folder, a warm graph."""

from __future__ import annotations

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
    """Machines are noisy: a property is judged by its cases, not by how long one of them took."""
    from hypothesis import settings

    settings.register_profile("no_deadline", deadline=None)
    settings.load_profile("no_deadline")
