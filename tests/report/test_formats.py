"""How numbers and texts are printed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.report import formats


def test_exact_binomial_limits_of_9_in_13_are_rounded_outward() -> None:
    assert formats.interval(0.38573, 0.90908) == "[38.5%, 91.0%]"


def test_a_limit_that_is_exact_in_decimal_is_not_pushed_outward_by_binary_fractions() -> None:
    assert 0.29 * 100 != 29  # 28.999999999999996 in binary
    assert formats.interval(0.29, 0.57) == "[29.0%, 57.0%]"


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_printed_interval_always_holds_the_computed_one(a: float, b: float) -> None:
    lower, upper = sorted((a, b))
    low, high = (float(part.rstrip("%")) / 100 for part in formats.interval(lower, upper).strip("[]").split(", "))
    assert low <= lower + 1e-15
    assert high >= upper - 1e-15
    assert (lower - low) < 0.001 + 1e-12
    assert (high - upper) < 0.001 + 1e-12


@given(st.floats(allow_nan=True, allow_infinity=True, width=32) | st.none())
def test_no_number_is_ever_printed_as_nan_or_infinity(value: float | None) -> None:
    for said in (formats.percent(value), formats.plain(value), formats.points(value), formats.interval(value, value, share=False)):
        assert "nan" not in said.lower()
        assert "inf" not in said.lower()
    if value is None or not math.isfinite(value):
        assert formats.percent(value) == formats.plain(value) == formats.DASH


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.742, "74.2%"), (1.0, "100.0%"), (0.0, "0.0%"), (-0.0001, "0.0%"), (0.0955, "9.6%"), (0.0945, "9.4%"), (None, "–")],
)
def test_shares_are_percent_with_one_decimal_rounded_half_to_even(value: float | None, said: str) -> None:
    assert formats.percent(value) == said


@pytest.mark.parametrize(("value", "said"), [(0.0371, "+3.7"), (-0.0263, "−2.6"), (0.0, "0.0"), (0.0004, "0.0"), (-0.0004, "0.0")])
def test_differences_are_points_with_a_sign_and_no_negative_zero(value: float, said: str) -> None:
    assert formats.points(value) == said


@pytest.mark.parametrize(("value", "said"), [(1184.25, "1,184"), (12.0, "12"), (1.84, "1.840"), (0.00123456, "0.001235"), (-3.5, "−3.500")])
def test_other_numbers_keep_four_significant_digits(value: float, said: str) -> None:
    assert formats.plain(value) == said


def test_a_value_just_under_its_threshold_is_printed_with_enough_decimals_to_tell() -> None:
    digits = formats.telling_decimals(0.85, [0.8496, 0.80])
    assert formats.percent(0.8496, digits) == "84.96%"
    assert formats.telling_decimals(0.85, [0.85, 0.8]) == 1


@pytest.mark.parametrize(
    ("name", "values", "share"),
    [("nDCG", (0.7,), True), ("latency_p95", (0.9,), False), ("context_tokens", (0.5,), False), ("order_tau", (0.9,), False),
     ("anything", (1.2,), False), ("correct", (None, 0.3), True)],
)  # fmt: skip
def test_only_shares_are_printed_in_percent(name: str, values: tuple[float | None, ...], share: bool) -> None:
    assert formats.is_share(name, *values) is share


def test_measures_are_named_with_what_their_cutoff_counts() -> None:
    assert formats.measure_name("RR", 10, "rank") == "MRR@10"
    assert formats.measure_name("R", 1000, "tokens") == "Recall in 1,000 tokens"
    assert formats.measure_with_unit("token_f1", 0, "none", "question") == "token F1"
    assert formats.measure_with_unit("nDCG", 5, "rank", "document") == "nDCG@5 by document"


def test_quoted_text_is_cut_to_its_limit_and_loses_control_characters() -> None:
    assert formats.readable("a" * 400, 300) == "a" * 299 + "…"
    assert formats.readable("a\x00b\nc") == "a\ufffdb\nc"
    assert formats.label("two\n lines ") == "two lines"
