"""How numbers, names and quoted text are printed in pictures and on the page.

What belongs here: rounding, units, signs, labels, cutting. What does not: which rows are shown (`facts`) and markup.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from rag_eval_assets.tables import AS_LOGGED, WHOLE_LOG

DASH = "\u2013"
MINUS = "\u2212"
MOST_DECIMALS = 4

_METRICS = {"R": "Recall", "P": "Precision", "Success": "Success", "RR": "MRR", "AP": "MAP", "nDCG": "nDCG", "rouge_l": "ROUGE-L"}
_SIGNIFICANT = 4
_WIDE = Context(prec=400)  # any float has its digits
_NOT_SHARES = ("tokens", "seconds", "latency", "bytes", "tau", "kappa", "length_ratio", "rank", "cost")


def is_number(value: float | int | None) -> bool:
    """Whether there is a finite number to print."""
    return value is not None and math.isfinite(value)


def is_share(name: str, *values: float | None) -> bool:
    """Whether a measure is printed in percent: its name speaks of no other unit, and no value is outside [-1, 1]."""
    if any(word in name for word in _NOT_SHARES):
        return False
    return all(abs(v) <= 1 for v in values if v is not None and math.isfinite(v))


def _round(value: float, decimals: int, rounding: str) -> Decimal:
    # Decimal of the shortest repr: 0.29 * 100 is 28.999999999999996 in binary and would round outward to 28.9.
    return Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), rounding, _WIDE)


def _sign(text: str, signed: bool) -> str:
    if text.startswith("-"):
        return MINUS + text[1:] if text.strip("-0.") else text[1:]
    return "+" + text if signed and text.strip("0.") else text


def _hundredfold(value: float | None, decimals: int, rounding: str, signed: bool) -> str:
    if value is None or not math.isfinite(value):
        return DASH
    return _sign(f"{_round(value, decimals + 2, rounding).scaleb(2, _WIDE):.{decimals}f}", signed)


def percent(value: float | None, decimals: int = 1, *, rounding: str = ROUND_HALF_EVEN) -> str:
    """A share as percent, 0.0956 -> 9.6%; a dash where there is no finite number."""
    said = _hundredfold(value, decimals, rounding, False)
    return said if said == DASH else said + "%"


def points(value: float | None, decimals: int = 1, *, rounding: str = ROUND_HALF_EVEN) -> str:
    """A difference of shares in percentage points with its sign and no unit, 0.0371 -> +3.7; a dash for none."""
    return _hundredfold(value, decimals, rounding, True)


def plain(value: float | None, *, rounding: str = ROUND_HALF_EVEN, signed: bool = False) -> str:
    """A number that is no share: whole numbers with separators, others with four significant digits; a dash for none."""
    if value is None or not math.isfinite(value):
        return DASH
    if float(value).is_integer():
        return _sign(f"{int(value):,}", signed)
    magnitude = math.floor(math.log10(abs(value)))
    decimals = min(max(_SIGNIFICANT - 1 - magnitude, 0), 6)
    return _sign(f"{_round(value, decimals, rounding):,f}", signed)


def fixed(value: float | None, decimals: int = 3) -> str:
    """A number with a set count of decimals, for coefficients and ratios around 1; a dash for none."""
    return DASH if value is None or not math.isfinite(value) else _sign(f"{value:.{decimals}f}", False)


def measured(value: float | None, share: bool, decimals: int = 1) -> str:
    """A value in percent or plain."""
    return percent(value, decimals) if share else plain(value)


def difference(value: float | None, share: bool) -> str:
    """A difference with its sign: in points of a share, else plain."""
    return points(value) if share else plain(value, signed=True)


def interval(lower: float | None, upper: float | None, share: bool = True, decimals: int = 1) -> str:
    """An interval rounded outward, so that what is printed never claims more than what was computed; empty for none."""
    if lower is None or upper is None or not (math.isfinite(lower) and math.isfinite(upper)):
        return ""
    if share:
        return f"[{percent(lower, decimals, rounding=ROUND_FLOOR)}, {percent(upper, decimals, rounding=ROUND_CEILING)}]"
    return f"[{plain(lower, rounding=ROUND_FLOOR)}, {plain(upper, rounding=ROUND_CEILING)}]"


def difference_interval(lower: float | None, upper: float | None, share: bool) -> str:
    """The interval of a difference, signed and rounded outward; empty for none."""
    if lower is None or upper is None or not (math.isfinite(lower) and math.isfinite(upper)):
        return ""
    if share:
        return f"[{points(lower, rounding=ROUND_FLOOR)}, {points(upper, rounding=ROUND_CEILING)}]"
    return f"[{plain(lower, rounding=ROUND_FLOOR, signed=True)}, {plain(upper, rounding=ROUND_CEILING, signed=True)}]"


def telling_decimals(threshold: float | None, values: Iterable[float | None]) -> int:
    """Fewest decimals of a percent at which no value that differs from the threshold prints like it: 84.96% against 85%."""
    if threshold is None or not math.isfinite(threshold):
        return 1
    differing = [v for v in values if v is not None and math.isfinite(v) and v != threshold]
    for decimals in range(1, MOST_DECIMALS):
        if all(percent(v, decimals) != percent(threshold, decimals) for v in differing):
            return decimals
    return MOST_DECIMALS


def count(value: int | None) -> str:
    """A count with separators; a dash for none."""
    return DASH if value is None else f"{int(value):,}"


def setting(value: Any) -> str:
    """A value of a system's specification: text as JSON, a limit that a log does not have in words."""
    return AS_LOGGED if value == WHOLE_LOG else json.dumps(value, ensure_ascii=False)


def metric_name(metric: str) -> str:
    """A metric as people call its mean: RR -> MRR, token_f1 -> token F1."""
    return _METRICS.get(metric) or metric.replace("_", " ").replace(" f1", " F1")


def measure_name(metric: str, k: int, cutoff: str) -> str:
    """A metric with its cut-off: nDCG@10, Recall in 1,000 tokens."""
    name = metric_name(metric)
    if k <= 0:
        return name
    return f"{name} in {k:,} tokens" if cutoff == "tokens" else f"{name}@{k}"


def measure_with_unit(metric: str, k: int, cutoff: str, unit: str) -> str:
    """A measure and what it counts: Recall@10 by group."""
    name = measure_name(metric, k, cutoff)
    return name if unit == "question" else f"{name} by {unit}"


def readable(text: str | None, limit: int | None = None) -> str:
    """Text with control characters shown as a replacement mark, cut to `limit` characters with an ellipsis."""
    if not text:
        return ""
    clean = "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" else c for c in text)
    return clean if limit is None or len(clean) <= limit else clean[: limit - 1].rstrip() + "…"


def label(text: str | None, limit: int = 30) -> str:
    """One line of text for an axis or a legend."""
    return readable(" ".join((text or "").split()), limit) or DASH


def plural(n: int, one: str, many: str | None = None) -> str:
    """A counted noun: 1 question, 1,200 questions."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
