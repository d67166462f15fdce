"""Replayed experiments on the page and as a picture: what another limit or order of passages makes of the answers.

What belongs here: rows of replay_experiments as they are shown. What does not: how they come about (`scoring.experiments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_eval_assets.report import canvas, formats
from rag_eval_assets.report.facts import Rows
from rag_eval_assets.report.pieces import QUOTED, Tables, Values, parts_of, picture, reason
from rag_eval_assets.tables import SCORED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {"top_k": "top_k", "token_budget": "token budget", "ordering": "ordering", "gold_place": "place of the relevant passages"}
_MOST_POINTS = 12
_TITLE = "Replayed experiments"


def experiments(tables: Tables) -> list[Values]:
    """Every system with experiments: its curves and a line a point."""
    return [
        {
            "system": system,
            "metric": formats.metric_name(rows[0]["metric"]),
            "picture": picture(
                curves(rows),
                f"{_TITLE} on {system}",
                "Means over development questions with 95% intervals; the ring marks the system as it is. Whether a point differs from it "
                "is said by the paired difference in the table, not by two intervals.",
            ),
            "rows": [
                {
                    "experiment": _NAMES.get(r["experiment"], formats.readable(r["experiment"], QUOTED)),
                    "point": formats.readable(r["point"].replace("_", " "), QUOTED),
                    "as_it_is": r["as_it_is"],
                    "why": "" if r["status"] == SCORED else formats.readable(r["detail"], QUOTED) or reason(r["reason"]),
                    "mean": formats.measured(r["mean"], True),
                    "interval": formats.interval(r["lower"], r["upper"], True),
                    "difference": formats.difference(r["difference"], True),
                    "difference_interval": formats.difference_interval(r["difference_lower"], r["difference_upper"], True),
                    "tokens": formats.count(round(r["tokens"])) if formats.is_number(r["tokens"]) else formats.DASH,
                    **{name: formats.count(r[name]) for name in ("questions", "failed", "changed", "generated", "reused")},
                }
                for r in sorted(rows, key=lambda r: r["place"])
            ],
        }
        for system, rows in parts_of(tables, "replay_experiments").items()
        if rows
    ]


@canvas.drawn_once
def curves(rows: Rows) -> bytes:
    """replay_experiments rows of one system: the mean at every point with its 95% interval, one panel an experiment."""
    scored = sorted((r for r in rows if formats.is_number(r["mean"])), key=lambda r: r["place"])
    if not scored:
        return canvas.nothing(_TITLE, "no point has a score")
    shown = list(dict.fromkeys(r["experiment"] for r in scored))
    heights = [v for r in scored for v in (r["mean"], r["lower"], r["upper"]) if formats.is_number(v)]
    points = {name: [r for r in scored if r["experiment"] == name] for name in shown}

    def paint(figure: Figure) -> None:
        axes = canvas.panels(figure, len(shown), columns=2)
        for panel, name in zip(axes, shown, strict=True):
            own = points[name][:_MOST_POINTS]
            at, look = list(range(len(own))), canvas.look(0)
            if name not in ("top_k", "token_budget"):
                look |= {"linestyle": "none"}  # nothing lies between two orders
            panel.errorbar(
                at, [r["mean"] for r in own], yerr=canvas.errors(own), fmt="none", ecolor=look["color"], elinewidth=1, alpha=0.55
            )
            panel.plot(at, [r["mean"] for r in own], **look)
            for place, row in enumerate(own):
                if row["as_it_is"]:
                    canvas.ring(panel, [place], [row["mean"]], "as it is")
            panel.set_title(_NAMES.get(name, formats.label(name)))
            panel.set_xticks(at, [formats.label(r["point"].replace("_", " "), 14) for r in own])
            panel.set_xlim(-0.5, len(own) - 0.5)
            panel.set_ylim(*canvas.share_limits(heights))
            canvas.percent_axis(panel, "y")
        for panel in axes[::2]:
            panel.set_ylabel(f"{formats.metric_name(scored[0]['metric'])} (%)")
        canvas.legend(figure, axes)
        most = max(map(len, points.values()))
        canvas.say(figure, canvas.left_out((min(most, _MOST_POINTS), most, "points of a curve")))

    return canvas.draw(_TITLE, 0.4 + 2.5 * ((len(shown) + 1) // 2), paint)
