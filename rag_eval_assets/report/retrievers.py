"""Retrievers against those they are built on: the picture and its part of the page.

What belongs here: rows of retriever_comparison as they are shown. What does not: how they come about (`scoring.retrievers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_eval_assets.report import canvas, formats
from rag_eval_assets.report.facts import Row
from rag_eval_assets.report.pieces import Tables, Values, measure_of, parts_of, picture, rows_of
from rag_eval_assets.run_findings import in_line_order, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_LINES = 24
_LOOKS = {"keep": "good", "drop": "bad", "undecided": "unsure"}

Decided = tuple[str, Row]
"""A chunking and a row that carries a decision."""


def _decided(tables: Tables) -> list[Decided]:
    found = [(str(chunking), r) for chunking, rows in parts_of(tables, "retriever_comparison").items() for r in rows if r["decision"]]
    return sorted(found, key=lambda item: (item[1]["split"] != "release", item[0], item[1]["retriever"], item[1]["against"]))


def retriever_gains(decided: list[Decided]) -> bytes:
    """retriever_comparison rows that carry a decision, with their chunking: paired differences with 95% intervals, a line each."""
    drawn = [(chunking, r) for chunking, r in decided if formats.is_number(r["difference"])]
    if not drawn:
        return canvas.nothing("Gains of retrievers", "no retriever was compared with one it is built on")
    shown = drawn[:_MAX_LINES]
    rows = [r for _, r in shown]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        look = canvas.look(0) | {"linestyle": "none", "capsize": 2.5}
        axes.errorbar([r["difference"] for r in rows], range(len(rows)), xerr=canvas.errors(rows, "difference"), **look)
        axes.axvline(0, color=canvas.MUTED, linewidth=1)
        names = [f"{r['retriever']} over {r['against']}, {chunking}, {r['split']}" for chunking, r in shown]
        axes.set_yticks(range(len(rows)), [formats.label(name, 60) for name in names])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        canvas.percent_axis(axes, "x")
        axes.set_xlabel(f"Difference in {rows[0]['measure']} (points), with its 95% interval")
        canvas.say(figure, canvas.left_out((len(shown), len(drawn), "comparisons")))

    return canvas.draw("Gains of retrievers over what they are built on", 1.0 + 0.27 * len(rows), paint)


def retrievers(tables: Tables) -> Values:
    """Each retriever on the deciding measure against each one it is built on, release first; empty where nothing is built on another.
    `findings` are what run files name that is not there."""
    decided = _decided(tables)
    lines = [
        {
            "chunking": chunking,
            "retriever": r["retriever"],
            "against": r["against"],
            "split": r["split"],
            "measure": measure_of(r),
            "mean": formats.measured(r["mean"], True),
            "against_mean": formats.measured(r["against_mean"], True),
            "difference": formats.difference(r["difference"], True),
            "interval": formats.difference_interval(r["lower"], r["upper"], True),
            "unjudged": f"{formats.percent(r['unjudged'])} / {formats.percent(r['against_unjudged'])}",
            "questions": formats.count(r["questions"]),
            "failed": formats.count(r["failed"] + r["missing"]),
            "seconds": f"{formats.fixed(r['seconds_p50'])} / {formats.fixed(r['seconds_p95'])}",
            "model_tokens": formats.count(round(r["model_tokens"])),
            "decision": r["decision"],
            "look": _LOOKS.get(r["decision"], "plain"),
            "why": r["detail"] or "",
        }
        for chunking, r in decided
    ]
    shown = picture(retriever_gains(decided), "Gains of retrievers", "Paired by question; right of the line is a gain.") if lines else None
    findings = [
        {**r, "told": told(r), "share": formats.percent(r["share"]), "look": "bad" if r["severity"] == "error" else "unsure"}
        for r in sorted(rows_of(tables, "run_file_findings"), key=in_line_order)
    ]
    return {"rows": lines, "picture": shown, "findings": findings}
