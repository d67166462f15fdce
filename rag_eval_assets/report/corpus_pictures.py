"""What became of the corpus as SVG pictures: parsing, near-duplicates and chunks, for the report page and for Dagster metadata.

What belongs here: a chart of documents or chunks, a function of its rows alone. What does not: charts of questions
(`pictures`), what charts share (`canvas`) and which rows matter (`facts`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_eval_assets.report import canvas, facts, formats
from rag_eval_assets.report.facts import Row, Rows
from rag_eval_assets.tables import SCORED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_BARS = 20
_MAX_DOTS = 120
_MAX_DEDUP_POINTS = 40


# ------------------------------------------------------------------------------------------------------------- parsing
def _bars(
    title: str,
    figures: Sequence[facts.ParseFigures],
    counts: Callable[[facts.ParseFigures], int],
    bar: Callable[[facts.ParseFigures], float],
    marks: Callable[[Axes, int, facts.ParseFigures, dict[str, Any], int], None],
    scale: Callable[[Axes, Sequence[facts.ParseFigures]], None],
) -> bytes:
    """A bar each class and parser with its count. `marks` draws at a place, in a look, so many marks at most; `scale` sets the axis."""
    shown = figures[:_MAX_BARS]
    parsers = sorted({f.parser for f in shown})

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for place, each in enumerate(shown):
            look = canvas.look(parsers.index(each.parser)) | {"linestyle": "none", "markersize": 4, "alpha": 0.8}
            axes.barh(place, bar(each), height=0.62, color=look["color"], alpha=0.35, label=formats.label(each.parser))
            marks(axes, place, each, look, _MAX_DOTS // len(shown))
        names = [f"{formats.label(f.group, 18)} · {formats.label(f.parser, 18)} (n={counts(f)})" for f in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
        scale(axes, shown)
        canvas.say(figure, canvas.left_out((len(shown), len(figures), "rows")))

    return canvas.draw(title, 0.8 + 0.34 * len(shown), paint)


@canvas.drawn_once
def cer_by_class(rows_by_parser: Mapping[str, Rows]) -> bytes:
    """parse_quality rows by parser: character error rate of each document class, pooled; marks: its worst documents."""
    return _cer("Character error rate by class and parser", facts.parse_figures(rows_by_parser))


@canvas.drawn_once
def cer_by_stratum(rows_by_parser: Mapping[str, Rows]) -> bytes:
    """parse_quality rows by parser: character error rate of each stratum that has references, pooled; marks: its worst documents."""
    return _cer("Character error rate by stratum and parser", facts.parse_figures(rows_by_parser, "stratum"))


def _cer(title: str, every: Sequence[facts.ParseFigures]) -> bytes:
    figures = [f for f in every if "cer" in f.figures]
    if not figures:
        return canvas.nothing(title, "no document has a hand-checked reference")

    def marks(axes: Axes, place: int, each: facts.ParseFigures, look: dict[str, Any], most: int) -> None:
        pooled = each.figures["cer"]["value"]
        dots = sorted(each.each_cer)[-max(3, most) :]
        axes.plot(dots, [place] * len(dots), **look)
        canvas.note(axes, f"{formats.percent(pooled)} pooled", (max([pooled, *dots]), place), (7, 0), va="center")

    def scale(axes: Axes, shown: Sequence[facts.ParseFigures]) -> None:
        axes.set_xlim(0, max(0.02, 1.12 * max(max([f.figures["cer"]["value"], *f.each_cer]) for f in shown)))
        canvas.percent_axis(axes, "x", 0 if axes.get_xlim()[1] >= 0.1 else 1)
        axes.set_xlabel("character error rate (edits in % of reference characters) · bar: pooled · mark: a document")

    return _bars(title, figures, lambda f: f.with_reference, lambda f: f.figures["cer"]["value"], marks, scale)


@canvas.drawn_once
def teds_distribution(rows_by_parser: Mapping[str, Rows]) -> bytes:
    """parse_quality rows by parser: TEDS of every reference table, by class and parser; bar: the mean."""
    title = "Tables: TEDS by class and parser"
    figures = [f for f in facts.parse_figures(rows_by_parser) if f.each_teds]
    if not figures:
        return canvas.nothing(title, "no table has a hand-checked reference")

    def marks(axes: Axes, place: int, each: facts.ParseFigures, look: dict[str, Any], most: int) -> None:
        values = sorted(each.each_teds)
        # Equal tables are one above the other, so that ten perfect ones do not look like one.
        step = 0.5 / max(Counter(values).most_common(1)[0][1], 2)
        seen: Counter[float] = Counter()
        for value in values[:most]:
            axes.plot([value], [place - 0.25 + step * seen[value]], **look)
            seen[value] += 1

    def scale(axes: Axes, _: Sequence[facts.ParseFigures]) -> None:
        axes.set_xlim(0, 1.02)
        axes.set_xlabel("TEDS (1 is the same table) · bar: mean · mark: a table")

    return _bars(title, figures, lambda f: len(f.each_teds), lambda f: math.fsum(f.each_teds) / len(f.each_teds), marks, scale)


# --------------------------------------------------------------------------------------------------------------- dedup
def _dedup_series(rows: Rows) -> dict[str, list[Row]]:
    """Points of the sweep by permutations, and by bands where these were swept too; the series in force first."""
    swept = Counter((r["permutations"], r["threshold"]) for r in rows if not r["used"])
    series: dict[str, list[Row]] = {}
    for r in sorted(rows, key=lambda r: (r["permutations"], r["bands"], r["threshold"])):
        name = f"{r['permutations']} permutations" + (f", {r['bands']} bands" if max(swept.values(), default=0) > 1 else "")
        series.setdefault(name, []).append(r)
    return dict(sorted(series.items(), key=lambda item: not any(r["used"] for r in item[1])))


@canvas.drawn_once
def dedup_curve(rows: Rows) -> bytes:
    """dedup_quality rows: precision against recall on labelled pairs, and either against the threshold, a line a MinHash setting."""
    title = "Near-duplicate detection"
    scored = [r for r in rows if r["status"] == SCORED]
    sides = ("precision", "recall")
    if not any(formats.is_number(r[side]) for r in scored for side in sides):
        return canvas.nothing(title, "no labelled pair of documents to measure on")
    thresholds = sorted({r["threshold"] for r in scored})
    there = _dedup_series(scored)
    shown = dict([*there.items()][: max(1, _MAX_DEDUP_POINTS // len(thresholds))])

    def paint(figure: Figure) -> None:
        axes = canvas.panels(figure, 3)
        for i, (name, points) in enumerate(shown.items()):
            both = [r for r in points if all(formats.is_number(r[side]) for side in sides)]
            axes[0].plot([r["recall"] for r in both], [r["precision"] for r in both], **canvas.look(i))
            canvas.ring(axes[0], *([r[side] for r in both if r["used"]] for side in reversed(sides)))
            nudge = 0.006 * (i - (len(shown) - 1) / 2)  # so that the intervals of two lines do not hide each other
            for panel, side in zip(axes[1:], sides, strict=True):
                own = [r for r in points if formats.is_number(r[side])]
                errors = canvas.errors(own, side, f"{side}_lower", f"{side}_upper")
                look = canvas.look(i) | {"elinewidth": 1, "capsize": 2, "label": name}
                panel.errorbar([r["threshold"] + nudge for r in own], [r[side] for r in own], yerr=errors, **look)
                used = [r for r in own if r["used"]]
                if used:
                    canvas.ring(panel, [r["threshold"] + nudge for r in used], [r[side] for r in used], "in force")
        axes[0].set_title("precision by recall")
        axes[0].set_xlim(-0.03, 1.05)
        canvas.percent_axis(axes[0], "x")
        axes[0].set_xlabel("recall (%)")
        for panel, side in zip(axes[1:], sides, strict=True):
            panel.set_title(f"{side} by threshold")
            if len(thresholds) <= 10:
                panel.set_xticks(thresholds)
            panel.set_xlabel("threshold (Jaccard, 0 to 1)")
        for panel in axes:
            panel.set_ylim(-0.03, 1.05)
            canvas.percent_axis(panel, "y")
        axes[0].set_ylabel("share of labelled pairs (%)")
        canvas.legend(figure, axes)
        canvas.say(figure, canvas.left_out((len(shown), len(there), "settings")))

    return canvas.draw(title, 3.0, paint)


# -------------------------------------------------------------------------------------------------------------- chunks
def token_lengths(rows: Iterable[Row]) -> bytes:
    """chunks rows: how many chunks have how many tokens."""
    title = "Chunk lengths"
    lengths = sorted(r["tokens"] for r in rows)
    if not lengths:
        return canvas.nothing(title, "no chunk was made")
    high = max(lengths[-1], 1)
    width = max(1, math.ceil((high + 1) / 32))
    bins = Counter(n // width for n in lengths)
    middle = lengths[len(lengths) // 2]

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        axes.bar([(b + 0.5) * width for b in sorted(bins)], [bins[b] for b in sorted(bins)], width=0.92 * width, color=canvas.KEPT)
        axes.axvline(middle, color=canvas.LOST, linewidth=1.4, linestyle=canvas.DASHES[1])
        left = middle < 0.75 * high
        where = {"xycoords": ("data", "axes fraction"), "va": "top", "ha": "left" if left else "right"}
        canvas.note(axes, f"median {middle:,}", (middle, 1), (5 if left else -5, -4), **where)
        axes.grid(False, axis="x")
        axes.set_xlim(0, (high // width + 1) * width)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("chunk length (tokens)")
        axes.set_ylabel("chunks")
        axes.set_title(f"{len(lengths):,} chunks, {sum(lengths):,} tokens, longest {high:,}")

    return canvas.draw(title, 2.6, paint)
