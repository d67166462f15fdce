"""Intervals that hold at any sample size, one of each kind for the whole project: a rate, a bounded mean with or without clusters, a
pooled error rate.

What belongs here: the interval of one sample, and the bets behind it. What does not: differences and print (`scoring.intervals`), and
which rows form a sample.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Method = Literal["clopper_pearson", "mixture_betting", "clustered_betting", "none"]
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
        low, high = Bets.on(sample).limits((1 - confidence) / 2)
    return lower + low * (upper - lower), lower + high * (upper - lower)


def clustered_mean(
    values: Values, clusters: Sequence[Hashable], lower: float = 0.0, upper: float = 1.0, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of the mean of values in [lower, upper] that are independent between clusters only; `bounded_mean` where none repeats.

    `Bets` on the clusters, whose sizes are taken as given: it holds for any dependence within a cluster, at any number of clusters.
    """
    sample = np.asarray(values, dtype=np.float64)
    if len(clusters) != sample.size:
        raise ValueError(f"{sample.size} values cannot stand in {len(clusters)} clusters")
    if len(set(clusters)) == sample.size:
        return bounded_mean(sample, lower, upper, confidence)
    low, high = Bets.on((sample - lower) / (upper - lower), clusters).limits((1 - confidence) / 2)
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


@dataclass(frozen=True)
class Bets:
    """Bets on the mean of values in [0, 1] that come in clusters; clusters are independent, values within one need not be.

    Cluster c of n_c values with sum s_c is weighed w_c = n_c / max n. Under mean m the capital prod(1 - f w_c + f s_c / (m max n)) has an
    expectation of at most 1 for each stake f in [0, 1], whatever the means of the single clusters are that make up m (of factors with a
    given mean the product is largest where they are equal); so has the mean of the capitals over stakes, and by Markov's
    inequality it passes 1 / tail with probability at most `tail`. With clusters of one value it is the bet of Waudby-Smith and Ramdas.
    """

    sums: npt.NDArray[np.float64]
    """Distinct s_c / max n."""
    weights: npt.NDArray[np.float64]
    """Their w_c."""
    counts: npt.NDArray[np.int64]
    """How many clusters are alike."""

    @classmethod
    def on(cls, values: npt.NDArray[np.float64], clusters: Sequence[Hashable] | None = None) -> Bets:
        """Bets on at least one value; without clusters each value is one. ValueError for a value outside [0, 1] or not finite."""
        if not np.all(np.isfinite(values)) or values.min() < -1e-9 or values.max() > 1 + 1e-9:
            raise ValueError("a value lies outside its range or is not finite")
        values = np.clip(values, 0.0, 1.0)
        if clusters is None:
            distinct, counts = np.unique(values, return_counts=True)
            return cls(distinct, np.ones(len(distinct)), counts)
        if len(set(clusters)) == values.size:
            return cls.on(values)
        place = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
        inside = np.array([place[name] for name in clusters])
        sizes = np.bincount(inside)
        # Rounded, so that equal clusters are equal whatever order their values came in.
        pairs = np.column_stack([np.round(np.bincount(inside, values), 12), sizes]) / sizes.max()
        both, counts = np.unique(pairs, axis=0, return_counts=True)
        return cls(both[:, 0], both[:, 1], counts)

    @property
    def opposite(self) -> Bets:
        """The bets on 1 minus each value."""
        return Bets(self.weights - self.sums, self.weights, self.counts)

    @property
    def mean(self) -> float:
        """Mean over values."""
        return float(self.sums @ self.counts) / float(self.weights @ self.counts)

    @property
    def error(self) -> float:
        """Standard error of the mean with clusters as the independent units (linearised)."""
        left = self.sums - self.mean * self.weights
        return float(np.sqrt((left**2) @ self.counts)) / float(self.weights @ self.counts)

    def limits(self, tail: float) -> tuple[float, float]:
        """Lower and upper limit of the mean, each wrong with probability at most `tail`."""
        return self._lower(tail), 1.0 - self.opposite._lower(tail)

    def p_above(self, mean: float, tail: float) -> float:
        """How probable such values are at most, were the true mean `mean` or less.

        `tail` fixes the stakes; p <= tail if and only if the lower limit at `tail` is over `mean`.
        """
        return min(1.0, float(np.exp(-self._log_capital(mean, self._stakes(tail))))) if mean > 0 else 1.0

    def _stakes(self, tail: float) -> npt.NDArray[np.float64]:
        # They depend on the number and sizes of clusters alone, never on values.
        size = float(self.weights**2 @ self.counts)
        return np.unique(np.minimum(1.0, np.sqrt(2 * np.log(1 / tail) / size) * _RATIOS))[:, None]

    def _log_capital(self, mean: float, stakes: npt.NDArray[np.float64]) -> float:
        with np.errstate(divide="ignore"):
            capital = np.log((1 - stakes * self.weights) + stakes * (self.sums / mean)) @ self.counts
        return float(np.logaddexp.reduce(capital)) - float(np.log(len(stakes)))

    def _lower(self, tail: float) -> float:
        """Largest mean refuted at `tail`: capital falls as the mean rises, so the refuted means are an interval from 0."""
        stakes, wanted = self._stakes(tail), np.log(1 / tail)
        low, high = 0.0, self.mean
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if middle == 0.0:
                break
            low, high = (middle, high) if self._log_capital(middle, stakes) >= wanted else (low, middle)
        return low
