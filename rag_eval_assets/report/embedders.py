"""The ranking of embedders: its picture and its part of the page.

What belongs here: rows of embedder_ranking as they are shown. What does not: how they come about (`scoring.embedder_ranking`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_eval_assets.report import canvas, formats
from rag_eval_assets.report.facts import Row, Rows
from rag_eval_assets.report.pieces import Tables, Values, measure_of, picture, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METRIC = "nDCG"
_MAX_PANELS = 6
_MAX_LINES = 8
_LOOKS = {"best": "good", "worse": "bad", "not_shown_worse": "unsure"}


def _compared(rows: Rows) -> list[Row]:
    """Rows of groups in which at least two embedders stand side by side."""
    sides: dict[tuple[str, ...], int] = {}
    for r in rows:
        sides[_group(r)] = sides.get(_group(r), 0) + formats.is_number(r["mean"])
    return [r for r in rows if sides[_group(r)] > 1]


def _group(row: Row) -> tuple[str, str, str, int]:
    return row["chunking"], row["language"], row["metric"], row["k"]


@canvas.drawn_once
def embedder_ranking(rows: Rows) -> bytes:
    """embedder_ranking rows: nDCG by embedder with 95% intervals, a panel a chunking and language where two or more are compared."""
    drawn = [r for r in _compared(rows) if r["metric"] == _METRIC and formats.is_number(r["mean"])]
    if not drawn:
        return canvas.nothing("Embedders", "no two embedders were compared by exact search")
    panels = sorted({_group(r) for r in drawn})
    shown = panels[:_MAX_PANELS]

    def paint(figure: Figure) -> None:
        # A panel has its own embedders, so axes are shared in the measure alone.
        axes = [figure.add_subplot(-(-len(shown) // 2), min(2, len(shown)), place) for place in range(1, len(shown) + 1)]
        for panel, group in zip(axes, shown, strict=True):
            own = sorted((r for r in drawn if _group(r) == group), key=lambda r: (r["place"], r["retriever"]))[:_MAX_LINES]
            look = canvas.look(0) | {"linestyle": "none", "capsize": 2.5}
            panel.errorbar([r["mean"] for r in own], range(len(own)), xerr=canvas.errors(own), **look)
            panel.set_yticks(range(len(own)), [formats.label(r["retriever"], 24) for r in own])
            panel.set_ylim(len(own) - 0.5, -0.5)
            panel.set_xlim(-0.02, 1.02)
            canvas.percent_axis(panel, "x")
            panel.set_title(formats.label(f"{group[0]}, {group[1]}", 40))
        axes[-1].set_xlabel(f"{_METRIC}@{shown[-1][3]} (%), with its 95% interval")
        canvas.say(figure, canvas.left_out((len(shown), len(panels), "panels")))

    most = max(sum(_group(r) == group for r in drawn) for group in shown)
    return canvas.draw("Embedders by language", -(-len(shown) // 2) * (0.9 + 0.3 * min(most, _MAX_LINES)), paint)


def embedders(tables: Tables) -> Values:
    """The ranking where at least two embedders are compared: a line an embedder, best first, by chunking and language."""
    rows = _compared(rows_of(tables, "embedder_ranking"))
    order = sorted(rows, key=lambda r: (_group(r), r["place"] or len(rows), r["retriever"]))
    lines = [
        {
            "chunking": r["chunking"],
            "language": r["language"],
            "measure": measure_of({"metric": r["metric"], "k": r["k"], "cutoff": "rank", "unit": "document"}),
            "retriever": r["retriever"],
            "embedder": r["embedder"],
            "value": formats.measured(r["mean"], True),
            "interval": formats.interval(r["lower"], r["upper"], True),
            "difference": formats.difference(r["difference"], True),
            "difference_interval": formats.difference_interval(r["difference_lower"], r["difference_upper"], True),
            "questions": formats.count(r["questions"]),
            "failed": formats.count(r["failed"]),
            "verdict": r["verdict"].replace("_", " "),
            "look": _LOOKS.get(r["verdict"], "plain"),
        }
        for r in order
    ]
    few = sorted({r["warning"] for r in rows if r["warning"]})
    shown = picture(embedder_ranking(rows), "Embedders by language", "Exact search, development questions only.") if lines else None
    return {"rows": lines, "warnings": few, "picture": shown}
