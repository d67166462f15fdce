"""The interval of a pooled error rate, against exact limits of scipy and by simulation. Other intervals are tested in `scoring`."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from ingestion.rates import pooled_rate


@pytest.mark.parametrize("n", [1, 5, 40])
def test_documents_without_an_error_prove_as_much_as_trials_without_a_failure(n: int) -> None:
    exact = binomtest(0, n).proportion_ci()
    assert pooled_rate([0] * n, [1_000] * n) == pytest.approx((0.0, 0.0, exact.high), abs=1e-4)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_documents_that_are_wholly_wrong_are_trials_that_failed(n: int) -> None:
    exact = binomtest(n, n).proportion_ci()
    assert pooled_rate([7] * n, [7] * n) == pytest.approx((1.0, exact.low, 1.0), abs=1e-4)


def test_the_value_weighs_documents_by_their_length_and_insertions_may_pass_one() -> None:
    assert pooled_rate([10, 0], [100, 900])[0] == 0.01
    value, lower, upper = pooled_rate([30], [10])
    assert (value, upper) == (3.0, 3.0)
    assert 0 <= lower <= 1
    assert pooled_rate([], []) == pooled_rate([0], [0]) == (0.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="equally many and not negative"):
        pooled_rate([1], [])


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=8))
def test_the_interval_holds_the_value_and_does_not_depend_on_the_order(documents: list[tuple[int, int]]) -> None:
    told = pooled_rate([e for e, _ in documents], [u for _, u in documents])
    assert told[1] <= told[0] <= told[2]
    assert told[1] < told[2]
    assert pooled_rate([e for e, _ in documents[::-1]], [u for _, u in documents[::-1]]) == pytest.approx(told)


def test_the_interval_covers_the_true_rate_of_documents_whose_errors_come_together() -> None:
    """A fifth of the documents is read badly (30% of characters), the others well (1%): 6.8% in all."""
    draw, covered, rounds = random.Random(1), 0, 200
    for _ in range(rounds):
        units = [draw.randint(100, 2_000) for _ in range(15)]
        errors = [round(u * (0.01 if draw.random() < 0.8 else 0.3)) for u in units]
        _, lower, upper = pooled_rate(errors, units)
        covered += lower <= 0.8 * 0.01 + 0.2 * 0.3 <= upper
    assert covered / rounds >= 0.94
