"""The exact interval of a rate, for the quality figures of ingestion. Intervals of scores belong to `scoring`."""

from __future__ import annotations


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Exact binomial limits of successes / trials (Clopper and Pearson 1934); never of zero width. Needs a trial."""
    from scipy.stats import beta

    tail = (1 - level) / 2
    lower = float(beta.ppf(tail, successes, trials - successes + 1)) if successes else 0.0
    upper = float(beta.ppf(1 - tail, successes + 1, trials - successes)) if successes < trials else 1.0
    return lower, upper
