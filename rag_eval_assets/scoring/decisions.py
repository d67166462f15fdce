"""The three decisions and the closed list of reason codes behind them.

What belongs here: names that gates and comparisons share. What does not: deciding.
"""

from __future__ import annotations

PASS, FAIL, INSUFFICIENT = "PASS", "FAIL", "INSUFFICIENT_EVIDENCE"

DECISION_REASONS: dict[str, str] = {
    "meets_threshold": "the value is on the right side of the threshold",
    "misses_threshold": "the value is on the wrong side of the threshold",
    "coverage_short": "fewer of the expected items were scored than the gate wants",
    "too_few_questions": "fewer items than the gate wants",
    "judge_not_audited": "a judge gives the value, and no audit against human labels lets it gate",
    "missing_run": "the figure the gate names is not there",
    "improved": "the interval of the difference lies above 0",
    "non_inferior": "the interval of the difference lies above the margin",
    "equivalent": "the interval of the difference lies within the margin on both sides",
    "worse": "the interval of the difference lies below 0 and reaches past the margin",
    "not_equivalent": "the interval of the difference lies beyond the margin on one side",
    "interval_spans_zero": "the interval of the difference lies on both sides of what superiority asks",
    "not_in_family": "the claim holds alone, but not once all claims of its family are looked at",
    "too_many_excluded": "the measure applies on one side only to more questions than the policy allows",
    "interval_spans_margin": "the interval of the difference lies on both sides of the margin",
    "missing_pairs": "the candidate has no score where the baseline has one",
    "no_pairs": "no question is scored on both sides",
    "no_baseline": "no baseline is saved for this system",
    "incomparable": "an identity that must match differs",
    "no_filter": "no question has a relevance filter",
    "not_applicable": "the measure applies to none of the items",
}
"""Every reason code of a decision."""
