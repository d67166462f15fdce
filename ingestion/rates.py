"""Intervals that hold at any sample size, one of each kind for the whole project: a rate, a bounded mean, a pooled error rate.

What belongs here: the interval of one sample. What does not: differences and print (`scoring.intervals`), and which rows form a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

Method = Literal["clopper_pearson", "mixture_betting", "none"]
Values = Sequence[float] | npt.NDArray[np.float64]

_RATIOS = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
_HALVINGS = 16


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact binomial limits (Clopper and Pearson 1934) of a rate between 0 and 1; (0, 1) without trials.

    Raises ValueError for counts that cannot be.
    """
    from scipy.special import betaincinv

    if n < 0 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials cannot be")
    if n == 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    lower = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, tail))
    upper = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1 - tail))
    return lower, upper


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


def pooled_rate(errors: Sequence[int], units: Sequence[int], confidence: float = 0.95) -> tuple[float, float, float]:
    """Errors over units of some documents, pooled, and its interval with documents as the independent units.

    The errors of one document come together, so characters are no trials. A rate r is in the interval unless the bounded mean of
    `errors - r * units` over documents refutes it, each scaled by the longest document and errors counted up to its length; the
    limits are exact for documents no longer than the longest seen. (0, 0, 1) without units. Raises ValueError for negative counts.
    """
    if len(errors) != len(units) or any(e < 0 or u < 0 for e, u in zip(errors, units, strict=True)):
        raise ValueError("errors and units must be equally many and not negative")
    wrong, size = np.asarray(errors, dtype=np.float64), np.asarray(units, dtype=np.float64)
    total = float(size.sum())
    if not total:
        return 0.0, 0.0, 1.0
    capped, longest = np.minimum(wrong, size), float(size.max())
    centre = float(capped.sum()) / total

    def refuted(rate: float, side: int) -> bool:
        limits = bounded_mean((capped - rate * size) / longest, -rate, 1 - rate, confidence)
        return limits[side] > 0 if side == 0 else limits[side] < 0

    def limit(inside: float, outside: float, side: int) -> float:
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if refuted(middle, side) else (middle, outside)
        return outside

    value = float(wrong.sum()) / total
    return value, min(limit(centre, 0.0, 0), value), max(limit(centre, 1.0, 1), value)


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
