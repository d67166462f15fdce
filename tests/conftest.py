"""Fixtures that every test may use: the public reference data, a small evaluation folder, a warm graph."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.object_store import ObjectStore, object_store


@pytest.fixture(scope="session")
def shared() -> Path:
    """Public data for reference tests, beside the checkout; the test is skipped where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"reference data is not at {folder}")
    return folder


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    """A real S3 API server with one empty bucket."""
    with object_store() as running:
        yield running


def pytest_configure() -> None:
    """Properties are tried on the same cases everywhere, never judged by time; `make torture` searches for new cases.

    Temporary folders are in memory where it has room, for SQLite syncs a lot.
    """
    from hypothesis import settings

    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))

    settings.register_profile("fixed", deadline=None, derandomize=True)
    settings.register_profile("search", deadline=None, max_examples=2_000)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


_LONGEST_FIRST = (
    "test_support_desk.py",  # of the first two only one waits for the folder that workers share
    "test_invalidation.py",
    "test_postgres.py",
    "test_cli.py",
    "test_many_machines.py",
    "test_faults.py",
    "test_systems.py",
    "test_kills.py",
    "test_object_storage.py",
    "test_parsers_hostile_files.py",
    "test_no_network.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes begin first, so that no worker waits for one of them at the end."""
    items.sort(key=lambda item: _LONGEST_FIRST.index(item.path.name) if item.path.name in _LONGEST_FIRST else len(_LONGEST_FIRST))
