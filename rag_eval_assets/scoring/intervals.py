"""Confidence intervals of paired differences, and how an interval is printed.

What belongs here: what differences add to `ingestion.rates`, and print. What does not: which rows form the sample (`summary`,
`sweep`) and what is decided on it (`gates`, `comparison`). No interval here has zero width because the sample had no spread.
"""

from __future__ import annotations

import numpy as np

from ingestion.rates import Method, Values, bounded_mean, clopper_pearson, method_of

__all__ = ["Method", "Values", "bounded_mean", "clopper_pearson", "method_of", "outward", "paired_difference"]


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
