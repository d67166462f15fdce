"""An interrupt that some library's handler swallows still ends a sync."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from rag_eval_assets.storage.sync import _kept_interrupts


@pytest.fixture
def swallowed() -> Iterator[list[int]]:
    """Interrupts that a handler like Dagster's took and forgot."""
    taken: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: taken.append(number))
    yield taken
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_a_handler_forgot_is_raised_at_the_next_look_and_once(swallowed: list[int]) -> None:
    with _kept_interrupts() as check:
        check()
        signal.raise_signal(signal.SIGINT)
        assert swallowed == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            check()
        check()


def test_other_signals_are_none_and_the_wake_up_file_of_before_is_back_afterwards(swallowed: list[int]) -> None:
    before = signal.set_wakeup_fd(-1)
    usual = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with _kept_interrupts() as check:
            signal.raise_signal(signal.SIGUSR1)
            check()
        assert signal.set_wakeup_fd(before) == -1
    finally:
        signal.signal(signal.SIGUSR1, usual)
    assert swallowed == []


def test_a_sync_in_a_thread_leaves_signals_alone() -> None:
    seen: list[int] = []

    def work() -> None:
        with _kept_interrupts() as check:
            check()
            seen.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1]
