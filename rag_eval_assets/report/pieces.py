"""What every section of the page shares: reading the tables, and words, marks and scores as the templates print them.

What belongs here: anything that more than one section says. What does not: a section (`sections`, `parsing`, `failures`) and markup
(templates).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_eval_assets.report import canvas, formats
from rag_eval_assets.report.facts import Row, Rows
from rag_eval_assets.tables import REASONS

Values = dict[str, Any]
Tables = Mapping[str, Mapping[str | None, Rows]]

MOST_FAILURES = 200
MOST_ROWS = 200
QUOTED = 300
ANSWERED = 900

DECISION_NAMES = {"PASS": "Pass", "FAIL": "Fail", "INSUFFICIENT_EVIDENCE": "Insufficient evidence"}
DECISION_LOOKS = {"PASS": "good", "FAIL": "bad", "INSUFFICIENT_EVIDENCE": "unsure"}


def rows_of(tables: Tables, name: str) -> list[Row]:
    """Rows of a table without partitions; none where the table is not there."""
    return [row for rows in tables.get(name, {}).values() for row in rows]


def parts_of(tables: Tables, name: str) -> dict[str, Rows]:
    """Rows of a partitioned table by partition, sorted."""
    return {key: tables[name][key] for key in sorted(k for k in tables.get(name, {}) if k is not None)}


def picture(svg: bytes, title: str, caption: str) -> Values:
    """An image with its text alternative and what a reader should see in it."""
    return {"uri": canvas.as_data_uri(svg), "title": title, "caption": caption}


def reason(code: str | None) -> str:
    """A reason code in words: of the closed list its description, of other lists the code itself."""
    return REASONS.get(code or "") or formats.readable((code or "").replace("_", " "))


def decision(code: str) -> Values:
    """A decision's name and look."""
    return {"name": DECISION_NAMES.get(code, code), "look": DECISION_LOOKS.get(code, "unsure")}


def mark(value: float | None, lower: float | None, upper: float | None, threshold: float | None = None) -> Values | None:
    """Places on a line from 0 to 100 for a small drawing of a share, its interval and a threshold; None without a share."""

    def place(share: float | None) -> float | None:
        return round(100 * min(max(share, 0.0), 1.0), 1) if share is not None and formats.is_number(share) else None

    at = place(value)
    return None if at is None else {"at": at, "low": place(lower), "high": place(upper), "threshold": place(threshold)}


def measure_of(row: Row) -> Values:
    unit = "" if row["unit"] == "question" else f"by {row['unit']}"
    return {"name": formats.measure_name(row["metric"], row["k"], row["cutoff"]), "unit": unit, "metric": row["metric"]}


def score(row: Row) -> Values:
    """A summary row as printed."""
    share = formats.is_share(row["metric"], row["mean"], row["lower"], row["upper"])
    low, high = row["if_failed_zero"], row["if_failed_one"]
    return {
        **measure_of(row),
        "value": formats.measured(row["mean"], share),
        "interval": formats.interval(row["lower"], row["upper"], share),
        "mark": mark(row["mean"], row["lower"], row["upper"]) if share else None,
        "observed": formats.measured(row["observed"], share),
        "bounds": formats.interval(low, high, share),
        "counts": [formats.count(row[c]) for c in ("questions", "scored", "failed", "not_applicable", "missing")],
        "lost": bool(row["failed"] or row["missing"]),
        "method": row["method"],
    }
