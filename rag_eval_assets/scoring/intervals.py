"""Confidence intervals that hold at any sample size: exact binomial, bounded means, paired differences.

What belongs here: the interval of one sample, and how it is printed. What does not: which rows form the sample (`summary`,
`sweep`) and what is decided on it (`gates`, `comparison`). No interval here has zero width because the sample had no spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from ingestion.rates import clopper_pearson

Method = Literal["clopper_pearson", "mixture_betting", "none"]
Values = Sequence[float] | npt.NDArray[np.float64]

_RATIOS = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
_HALVINGS = 16


def method_of(values: Values, lower: float = 0.0, upper: float = 1.0) -> Method:
    """The method that `bounded_mean` uses: exact binomial where every value is one of the two limits, betting otherwise."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        return "none"
    return "clopper_pearson" if bool(np.all((sample == lower) | (sample == upper))) else "mixture_betting"


def bounded_mean(values: Values, lower: float = 0.0, upper: float = 1.0, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of the mean of independent values in [lower, upper]; the whole range for no values.

    Values that all stand at a limit are a rate: Clopper-Pearson. Others: the bets of Waudby-Smith and Ramdas (2024,
    "Estimating means of bounded random variables by betting") with stakes that stay the same over the sample and are mixed, so
    that the order of the values does not matter. Both hold at any sample size. The rule is fixed here, not by which comes out
    narrower. Raises ValueError for a value outside the range or not finite.
    """
    sample = (np.asarray(values, dtype=np.float64) - lower) / (upper - lower)
    if sample.size == 0:
        return lower, upper
    if not np.all(np.isfinite(sample)) or sample.min() < -1e-9 or sample.max() > 1 + 1e-9:
        raise ValueError(f"a value lies outside [{lower}, {upper}] or is not finite")
    sample = np.clip(sample, 0.0, 1.0)
    if method_of(sample) == "clopper_pearson":
        low, high = clopper_pearson(round(float(sample.sum())), sample.size, confidence)
    else:
        distinct, counts = np.unique(sample, return_counts=True)
        tail = (1 - confidence) / 2
        low, high = _betting_lower(distinct, counts, tail), 1.0 - _betting_lower(1.0 - distinct, counts, tail)
    return lower + low * (upper - lower), lower + high * (upper - lower)


def paired_difference(a: Values, b: Values, lower: float = 0.0, upper: float = 1.0, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of the mean of a - b over pairs whose values lie in [lower, upper]; the whole range for no pairs."""
    left, right = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if left.shape != right.shape:
        raise ValueError(f"{left.size} values cannot be paired with {right.size}")
    span = upper - lower
    return bounded_mean(left - right, -span, span, confidence)


def outward(lower: float, upper: float, decimals: int = 1) -> str:
    """The interval in percent, rounded outward so that print never promises more than the limits do: [38.5%, 91.0%]."""
    scale = 100 * 10**decimals
    # Noise of the last binary digits must not push an exact .385 out to 38.4.
    low = np.floor(round(lower * scale, 6)) / 10**decimals
    high = np.ceil(round(upper * scale, 6)) / 10**decimals
    return f"[{low:.{decimals}f}%, {high:.{decimals}f}%]"


def _betting_lower(values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], tail: float) -> float:
    """Largest mean that bets against it refute at level `tail`, for distinct values in [0, 1] and their counts.

    Under mean m the capital prod(1 - f + f x / m) has expectation 1 for each stake f in [0, 1], and so has the mean of the
    capitals over stakes; by Markov's inequality it passes 1 / tail with probability at most `tail`. Capital falls as m
    rises, so the refuted means are an interval. The stakes depend on the sample size alone.
    """
    n = int(counts.sum())
    stakes = np.unique(np.minimum(1.0, np.sqrt(2 * np.log(1 / tail) / n) * _RATIOS))[:, None]
    target = np.log(len(stakes) / tail)
    low, high = 0.0, float(np.dot(values, counts) / n)
    with np.errstate(divide="ignore"):
        for _ in range(_HALVINGS):
            mean = (low + high) / 2
            if mean == 0.0:
                break
            capital = np.log((1 - stakes) + stakes * (values / mean)) @ counts
            if np.logaddexp.reduce(capital) >= target:
                low = mean
            else:
                high = mean
    return low
