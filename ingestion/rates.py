"""The exact interval of a rate, one for the whole project. Intervals of bounded means and of differences belong to `scoring.intervals`."""

from __future__ import annotations


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
