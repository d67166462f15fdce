"""Fixtures of parser tests: unstructured warm in this process, and no socket beyond it."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from ingestion.parsers import unstructured_elements


@pytest.fixture(scope="session")
def unstructured() -> None:
    """Import unstructured and its sentence model once."""
    unstructured_elements.warm(1)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that opens a socket or looks a name up."""

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
