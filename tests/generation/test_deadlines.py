"""A call that hangs costs its own question; the system lives in one thread and is made anew after it."""

from __future__ import annotations

import threading

import pytest

from rag_eval_assets.generation.deadlines import Deadlined


class Slow:
    """Hangs on the word `hang` until it is released, and knows the thread it was made in."""

    made = 0

    def __init__(self, release: threading.Event) -> None:
        Slow.made += 1
        self.release, self.thread, self.number = release, threading.get_ident(), Slow.made

    def say(self, word: str) -> tuple[int, bool]:
        if word == "hang":
            self.release.wait()
        if word == "raise":
            raise KeyError(word)
        return self.number, threading.get_ident() == self.thread


def test_a_call_that_hangs_is_a_timeout_and_the_next_one_finds_a_new_system() -> None:
    release, first = threading.Event(), Slow.made + 1
    before = threading.active_count()
    with Deadlined(lambda: Slow(release), 0.2) as system:
        assert system.call(lambda s: s.say("a")) == (first, True)
        with pytest.raises(KeyError):
            system.call(lambda s: s.say("raise"))
        assert system.call(lambda s: s.say("b")) == (first, True)
        with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
            system.call(lambda s: s.say("hang"))
        assert system.call(lambda s: s.say("c")) == (first + 1, True)
    release.set()
    for thread in threading.enumerate()[before:]:
        thread.join(10)
    assert threading.active_count() == before


def test_a_system_that_cannot_be_made_raises_what_making_raised() -> None:
    def broken() -> None:
        raise LookupError("no such index")

    with Deadlined(broken, 1) as system, pytest.raises(LookupError, match="no such index"):
        system.call(lambda s: s)
