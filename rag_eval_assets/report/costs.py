"""What answers cost, on the page and as a picture: time to the first token and to the last, tokens, and money.

What belongs here: rows of system_costs as they are shown. What does not: how they come about (`scoring.costs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_eval_assets.report import canvas, formats
from rag_eval_assets.report.facts import Rows
from rag_eval_assets.report.pieces import QUOTED, Tables, Values, parts_of, picture
from rag_eval_assets.scoring.costs import FIGURES, PERCENTILES, RUN_MEASURES, RUN_RATES
from rag_eval_assets.tables import SCORED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {
    "retrieval_seconds": "seconds to the ranking",
    "generation_seconds": "seconds to the answer, where the system answers itself",
    "first_token_seconds": "seconds to the first token",
    "reply_seconds": "seconds to the whole reply",
    "prompt_tokens": "prompt tokens",
    "completion_tokens": "completion tokens",
    "cost": "cost by the price table",
    "reply_hits": "replies that needed no call in the last run",
    "answer_reuse": "answers kept in the last run",
    "retrieval_reuse": "rankings kept in the last run",
}
_ORDER = {measure: place for place, measure in enumerate(_NAMES)}
_TIMES = ("retrieval_seconds", "generation_seconds", "first_token_seconds", "reply_seconds")
_MOST_BARS = 24
_TITLE = "Recorded times"


def costs(tables: Tables, split: str) -> Values:
    """A line for each system and figure that was recorded in `split`; no lines where none was."""
    found = [
        (str(system), _shown(row))
        for system, rows in parts_of(tables, "system_costs").items()
        for row in sorted(rows, key=lambda r: _ORDER.get(r["measure"], len(_ORDER)))
        if (row["split"], row["status"]) == (split, SCORED)
    ]
    lines = [
        {
            "system": formats.readable(system, QUOTED),
            "name": _NAMES.get(row["measure"], formats.readable(row["measure"], QUOTED)),
            **{f"p{p}": formats.plain(row[f"p{p}"]) for p in PERCENTILES},
            "mean": formats.percent(row["mean"]) if row["measure"] in RUN_RATES else formats.plain(row["mean"]),
            "total": formats.plain(row["total"]),
            "scored": formats.count(row["scored"]),
            "questions": formats.count(row["questions"]),
            "failed": formats.count(row["failed"]),
        }
        for system, row in found
    ]
    timed = {system: [row for name, row in found if name == system and row["measure"] in _TIMES] for system, _ in found}
    shown = picture(
        reply_times(timed),
        _TITLE,
        "Bars end at the median, marks stand at the 95th and 99th percentile: figures that were observed, nearest rank.",
    )
    return {"lines": lines, "picture": shown if any(timed.values()) else None}


def _shown(row: Values) -> Values:
    """A row whose figures of the run stand where the others stand."""
    return row | {name: row[f"run_{name}"] for name in FIGURES} if row["measure"] in RUN_MEASURES else row


@canvas.drawn_once
def reply_times(rows_by_system: dict[str, Rows]) -> bytes:
    """system_costs rows of one split that count seconds, by system: median as a bar, 95th and 99th percentile as marks."""
    bars = [(system, row) for system, rows in sorted(rows_by_system.items()) for row in rows]
    if not bars:
        return canvas.nothing(_TITLE, "no time was recorded")
    shown = bars[:_MOST_BARS]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        places = range(len(shown))
        look = canvas.look(0)
        axes.barh(places, [row["p50"] for _, row in shown], height=0.6, color=look["color"], alpha=0.35, label="median")
        for i, p in enumerate(PERCENTILES[1:], 1):
            axes.plot([row[f"p{p}"] for _, row in shown], places, **canvas.look(i) | {"linestyle": "none"}, label=f"p{p}")
        names = [f"{system}, {row['stage'].replace('_', ' ')}" for system, row in shown]
        axes.set_yticks(places, [formats.label(name, 40) for name in names])
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds")
        canvas.legend(figure, [axes])
        canvas.say(figure, canvas.left_out((len(shown), len(bars), "rows")))

    return canvas.draw(_TITLE, 1.0 + 0.34 * len(shown), paint)
