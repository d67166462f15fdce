"""What paired scores say for and against one claim, and what holds once a whole family of claims is looked at.

What belongs here: p-values, Holm's step-down, the smallest difference a sample can decide, how many questions a margin needs. What
does not: which rows are pairs and what is done with a decision (`comparison`).

All of it stands on `ingestion.rates.Bets`: at any number of questions, whatever the scores' distribution, a claim that does not hold is
accepted with at most the stated probability, and so is harm that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from ingestion.rates import Bets, Values, clopper_pearson
from rag_eval_assets.scoring.decisions import FAIL, INSUFFICIENT, PASS

Claim = Literal["superiority", "non_inferiority", "equivalence"]

POWER = 0.8
"""Probability with which a difference counts as detectable."""

MOST_QUESTIONS = 10_000_000
"""Where the search for a number of questions ends."""


@dataclass(frozen=True)
class Evidence:
    """One paired sample against one claim. Differences are candidate minus baseline, of scores between 0 and 1."""

    difference: float
    lower: float
    upper: float
    pairs: int
    clusters: int
    p_value: float
    """Of the claim: how probable such pairs are at most where it does not hold."""
    p_harm: float
    """Of harm: the same where the candidate is not worse (equivalence: where it lies within the margin)."""
    detectable: float
    """Distance between the true difference and a bound from which this sample would decide with a probability of about .8."""


def weigh(
    now: Values, before: Values, clusters: Sequence[Hashable], claim: Claim, margin: float, *, confidence: float = 0.95, family: int = 1
) -> Evidence:
    """Evidence of at least one pair; `clusters` names the cluster of each, `family` the number of claims decided together.

    The interval is two-sided at `confidence` for this claim alone; `detectable` is at the first and hardest step of Holm's.
    """
    left, right = np.asarray(now, dtype=np.float64), np.asarray(before, dtype=np.float64)
    if left.shape != right.shape or not left.size:
        raise ValueError(f"{left.size} scores cannot be paired with {right.size}")
    bets, tail = Bets.on((left - right + 1) / 2, clusters), (1 - confidence) / 2
    lower, upper = bets.limits(tail)
    hardest = bets.limits(tail / family)[0] if family > 1 else lower

    def over(difference: float) -> float:
        return bets.p_above((difference + 1) / 2, tail)

    def under(difference: float) -> float:
        return bets.opposite.p_above((1 - difference) / 2, tail)

    if claim == "equivalence":
        p_value, p_harm = max(over(-margin), under(margin)), min(1.0, 2 * min(under(-margin), over(margin)))
    else:
        p_value, p_harm = over(margin if claim == "superiority" else -margin), under(0.0)
    return Evidence(
        difference=float((left - right).mean()),
        lower=2 * lower - 1,
        upper=2 * upper - 1,
        pairs=left.size,
        clusters=int(bets.counts.sum()),
        p_value=p_value,
        p_harm=p_harm,
        detectable=min(1.0, 2 * (bets.mean - hardest + NormalDist().inv_cdf(POWER) * bets.error)),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of a family (Holm 1979), in the order given: rejecting those up to a level errs at most that often in all."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def decide(
    claim: Claim, evidence: Evidence | None, adjusted: float, adjusted_harm: float, *, level: float, in_the_way: str | None
) -> tuple[str, str]:
    """Decision and reason code. `in_the_way` is the reason that keeps the pairs from passing, if any; it does not excuse harm."""
    if evidence is None:
        return INSUFFICIENT, in_the_way or "no_pairs"
    if adjusted_harm <= level and adjusted > level:
        return FAIL, "not_equivalent" if claim == "equivalence" else "worse"
    if in_the_way:
        return INSUFFICIENT, in_the_way
    if adjusted <= level:
        improved = claim == "superiority" or (claim == "non_inferiority" and evidence.lower > 0)
        return PASS, "improved" if improved else {"equivalence": "equivalent"}.get(claim, "non_inferior")
    if evidence.p_value <= level:
        return INSUFFICIENT, "not_in_family"
    return INSUFFICIENT, "interval_spans_zero" if claim == "superiority" else "interval_spans_margin"


# ------------------------------------------------------------------------------------------------------------ planning
def questions_for_margin(
    margin: float, *, changed: float = 0.1, difference: float = 0.0, confidence: float = 0.95, power: float = POWER, family: int = 1
) -> int | None:
    """Independent questions with which non-inferiority within `margin` is shown with probability `power`; None for over ten million.

    `changed` is the share of questions whose verdict (0 or 1) differs between candidate and baseline, `difference` the true mean
    difference. Superiority by d needs as many as a margin of d at no difference. ValueError for values that cannot be.
    """
    if not (0 < margin < 1 and 0 < confidence < 1 and 0 < power < 1 and family >= 1):
        raise ValueError("margin, confidence and power lie between 0 and 1, and a family has at least one claim")
    if not abs(difference) <= changed <= 1:
        raise ValueError(f"a difference of {difference:g} cannot come from a share of {changed:g} that changed")
    gap, tail = margin + difference, (1 - confidence) / 2 / family
    if gap <= 0:
        return None
    reach = NormalDist().inv_cdf(power) * (max(changed - difference**2, 0.0) ** 0.5)

    def shows(n: int) -> bool:
        better, worse = n * (changed + difference) / 2, n * (changed - difference) / 2
        values, counts = np.array([0.0, 0.5, 1.0]), np.array([worse, n - better - worse, better])
        seen = counts > 0
        typical = Bets(values[seen], np.ones(int(seen.sum())), counts[seen])
        return bool(difference - (2 * typical.limits(tail)[0] - 1) + reach / n**0.5 <= gap)

    return _smallest(shows)


def questions_for_half_width(half_width: float, *, rate: float = 0.8, confidence: float = 0.95) -> int | None:
    """Independent questions with which the exact interval of a rate reaches no further than `half_width` to either side."""
    if not (0 < half_width < 1 and 0 <= rate <= 1 and 0 < confidence < 1):
        raise ValueError("half-width and confidence lie between 0 and 1, a rate in [0, 1]")

    def shows(n: int) -> bool:
        successes = round(rate * n)
        lower, upper = clopper_pearson(successes, n, confidence)
        return max(successes / n - lower, upper - successes / n) <= half_width

    return _smallest(shows)


def _smallest(shows: Callable[[int], bool]) -> int | None:
    """First number that shows it, by doubling and halving."""
    high = 2
    while not shows(high):
        high *= 2
        if high > MOST_QUESTIONS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high
