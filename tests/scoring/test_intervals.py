"""Intervals against published figures and by simulation."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion.rates import clopper_pearson
from rag_eval_assets.scoring.intervals import bounded_mean, method_of, outward, paired_difference

shares = st.lists(st.floats(0, 1), min_size=1, max_size=60)


def test_nine_of_thirteen_has_its_published_exact_limits() -> None:
    lower, upper = clopper_pearson(9, 13)
    assert (round(lower, 4), round(upper, 4)) == (0.3857, 0.9091)


def test_limits_are_printed_rounded_outward() -> None:
    assert outward(*clopper_pearson(9, 13)) == "[38.5%, 91.0%]"
    assert outward(*clopper_pearson(13, 13)) == "[75.2%, 100.0%]"
    assert outward(*clopper_pearson(12, 13)).startswith("[63.9%")
    assert outward(0.385, 0.91) == "[38.5%, 91.0%]"


def test_the_exact_limits_are_those_of_the_binomial_tail() -> None:
    def at_least(successes: int, n: int, rate: float) -> float:
        return sum(comb(n, i) * rate**i * (1 - rate) ** (n - i) for i in range(successes, n + 1))

    for successes, n in ((3, 7), (9, 13), (50, 200)):
        lower, upper = clopper_pearson(successes, n)
        assert at_least(successes, n, lower) == pytest.approx(0.025, abs=1e-9)
        assert 1 - at_least(successes + 1, n, upper) == pytest.approx(0.025, abs=1e-9)
    assert clopper_pearson(0, 5)[0] == 0
    assert clopper_pearson(5, 5)[1] == 1


def test_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="4 successes of 3"):
        clopper_pearson(4, 3)


def test_values_outside_the_range_or_not_finite_are_refused() -> None:
    for bad in ([0.5, 1.2], [float("nan")], [float("inf")]):
        with pytest.raises(ValueError, match="outside"):
            bounded_mean(bad)


def test_no_values_leave_the_whole_range_open() -> None:
    assert bounded_mean([]) == (0, 1)
    assert paired_difference([], []) == (-1, 1)
    assert method_of([]) == "none"


def test_thirteen_unchanged_pairs_prove_nothing_within_twenty_points() -> None:
    lower, upper = paired_difference([0.7] * 13, [0.7] * 13)
    assert lower <= -0.2
    assert upper >= 0.2


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError, match="2 values cannot be paired with 1"):
        paired_difference([0, 1], [1])


def test_rates_are_exact_and_other_means_are_bets() -> None:
    assert method_of([0, 1, 1]) == "clopper_pearson"
    assert bounded_mean([1] * 9 + [0] * 4) == clopper_pearson(9, 13)
    assert method_of([0, 0.5]) == "mixture_betting"


def test_betting_is_narrower_than_hoeffding_on_scores_that_vary_little() -> None:
    values = np.linspace(0.6, 0.9, 200)
    lower, upper = bounded_mean(values)
    assert upper - lower < 2 * np.sqrt(np.log(2 / 0.05) / (2 * 200)) / 2


@settings(deadline=None, max_examples=40)
@given(shares)
def test_an_interval_holds_the_mean_and_never_has_zero_width(values: list[float]) -> None:
    lower, upper = bounded_mean(values)
    assert 0 <= lower <= np.mean(values) + 1e-9
    assert np.mean(values) - 1e-9 <= upper <= 1
    assert upper - lower > 1e-3


@settings(deadline=None, max_examples=30)
@given(shares, st.randoms(use_true_random=False))
def test_the_order_of_the_values_does_not_matter(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert bounded_mean(shuffled) == pytest.approx(bounded_mean(values), abs=1e-12)


@pytest.mark.parametrize("size", [8, 60])
def test_the_mean_is_covered_at_least_as_often_as_promised(size: int) -> None:
    random = np.random.default_rng(11)
    populations = {
        "skewed": (lambda: random.beta(8, 1, size), 8 / 9),
        "two-sided": (lambda: random.beta(0.3, 0.3, size), 0.5),
        "rate": (lambda: (random.random(size) < 0.9).astype(float), 0.9),
        # Mostly at the limits, seldom between: the sample decides the method, and that choice must not cost coverage.
        "nearly a rate": (lambda: np.where(random.random(size) < 0.03, 0.5, random.random(size) < 0.8), 0.03 * 0.5 + 0.97 * 0.8),
    }
    for name, (draw, mean) in populations.items():
        draws = [bounded_mean(draw()) for _ in range(200)]
        missed = sum(not lower <= mean <= upper for lower, upper in draws)
        # 200 draws at 5% miss 10 on average; 19 is past the 99.5th percentile.
        assert missed <= 19, name
