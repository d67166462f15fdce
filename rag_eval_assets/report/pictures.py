"""Scores, sweeps and the funnel as SVG pictures, for the report page and for Dagster metadata.

What belongs here: a chart of what questions scored, a function of its rows alone. What does not: charts of the corpus
(`corpus_pictures`), what charts share (`canvas`), which rows matter (`facts`) and anything read from a file or a clock. Without
rows a picture says that there is nothing to show.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_eval_assets.report import canvas, facts, formats
from rag_eval_assets.report.facts import Row, Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_SERIES = 8
_MAX_PANELS = 6
_MAX_MEASURES = 14
_MAX_POINTS = 160
_MAX_ANN_POINTS = 240
_MAX_CELLS = 96
_MAX_INTERVALS = 72


# --------------------------------------------------------------------------------------------------------------- sweep
_SWEEP = "Chunk sweep"


def _sweep_rows(rows: Rows) -> tuple[str, list[Row]]:
    measure, own = facts.deciding(rows)
    if measure is None:
        return "", []
    name = formats.measure_with_unit(measure.metric, measure.k, measure.cutoff, measure.unit)
    return name, [r for r in own if formats.is_number(r["mean"])]


@canvas.drawn_once
def sweep_curve(rows: Rows) -> bytes:
    """chunk_sweep rows: the deciding measure against the mean chunk length in tokens, one panel a retriever, 95% intervals."""
    name, scored = _sweep_rows(rows)
    drawn = [r for r in scored if facts.tokens_per_chunk(r)]
    if not drawn:
        return canvas.nothing(_SWEEP, "no chunking has a score yet")
    retrievers = sorted({r["retriever"] for r in drawn})
    best: dict[str, float] = {}
    for row in drawn:
        name_of_series = facts.chunking_series(row["chunking"])
        best[name_of_series] = max(best.get(name_of_series, -1.0), row["mean"])
    series = sorted(sorted(best, key=lambda s: (-best[s], s))[:_MAX_SERIES])
    drawn = [r for r in drawn if facts.chunking_series(r["chunking"]) in series]
    most = max(Counter(r["retriever"] for r in drawn).values())
    shown = retrievers[: min(_MAX_PANELS, max(1, _MAX_POINTS // most))]
    left_out = canvas.left_out((len(shown), len(retrievers), "retrievers"), (len(series), len(best), "series"))
    lengths = [facts.tokens_per_chunk(r) or 1.0 for r in drawn]
    heights = [v for r in drawn for v in (r["mean"], r["lower"], r["upper"]) if formats.is_number(v)]

    def paint(figure: Figure) -> None:
        axes = canvas.panels(figure, len(shown))
        for panel, retriever in zip(axes, shown, strict=True):
            own = [r for r in drawn if r["retriever"] == retriever]
            for name_of_series in series:
                points = sorted(
                    (r for r in own if facts.chunking_series(r["chunking"]) == name_of_series),
                    key=lambda r: (facts.tokens_per_chunk(r), r["chunking"]),
                )
                if not points:
                    continue
                x = [facts.tokens_per_chunk(r) or 1.0 for r in points]
                y = [r["mean"] for r in points]
                look = canvas.look(series.index(name_of_series))
                panel.errorbar(x, y, yerr=canvas.errors(points), fmt="none", ecolor=look["color"], elinewidth=1, alpha=0.55)
                panel.plot(x, y, **look, label=formats.label(name_of_series))
            for row in own:
                if row["verdict"] == "recommended":
                    at = (facts.tokens_per_chunk(row) or 1.0, row["mean"])
                    canvas.ring(panel, at[:1], at[1:])
                    canvas.note(panel, "recommended", at, (0, 11), ha="center")
            panel.set_title(formats.label(retriever))
            canvas.length_axis(panel, lengths)
            panel.set_ylim(*canvas.share_limits(heights))
            canvas.percent_axis(panel, "y")
        for panel in axes:
            panel.set_xlabel("mean chunk length (tokens)")
        columns = min(len(shown), 3)
        for panel in axes[::columns]:
            panel.set_ylabel(f"{name} (%)")
        canvas.legend(figure, axes)
        canvas.say(figure, left_out)

    lines = math.ceil(len(shown) / 3)
    legend = 0.25 * math.ceil(len(series) / 4)
    return canvas.draw(f"{name} against chunk length", 2.9 * lines + legend, paint)


@canvas.drawn_once
def sweep_heat_map(rows: Rows) -> bytes:
    """chunk_sweep rows: the deciding measure in percent, a row a chunking (best first), a column a retriever."""
    name, drawn = _sweep_rows(rows)
    if not drawn:
        return canvas.nothing(_SWEEP, "no chunking has a score yet")
    retrievers = sorted({r["retriever"] for r in drawn})[: 2 * _MAX_SERIES]
    value = {(r["chunking"], r["retriever"]): r["mean"] for r in drawn if r["retriever"] in retrievers}
    verdict = {(r["chunking"], r["retriever"]): r["verdict"] for r in drawn}
    best = {c: max(v for (other, _), v in value.items() if other == c) for c, _ in value}
    chunkings = sorted(best, key=lambda c: (-best[c], c))
    shown = chunkings[: max(1, _MAX_CELLS // len(retrievers))]
    cells = [[value.get((c, r), math.nan) for r in retrievers] for c in shown]
    seen = [v for line in cells for v in line if not math.isnan(v)]
    low, high = min(seen), max(seen)
    if high - low < 0.02:  # a spread below two points is shown as the small thing it is
        low, high = (low + high) / 2 - 0.01, (low + high) / 2 + 0.01

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import PercentFormatter

        axes = figure.subplots()
        mesh = axes.pcolormesh(cells, cmap="cividis", vmin=low, vmax=high, edgecolors=canvas.PAPER, linewidth=1.5)
        axes.grid(False)
        axes.invert_yaxis()
        names = [formats.label(r, 20) for r in retrievers]
        slant: dict[str, Any] = {"rotation": 25, "ha": "right"} if len(names) * max(map(len, names)) > 80 else {}
        axes.set_xticks([i + 0.5 for i in range(len(names))], names, **slant)
        axes.set_yticks([i + 0.5 for i in range(len(shown))], [formats.label(c) for c in shown])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("retriever")
        axes.set_ylabel("chunking")
        for y, chunking in enumerate(shown):
            for x, retriever in enumerate(retrievers):
                mean = value.get((chunking, retriever))
                if mean is None:
                    axes.text(x + 0.5, y + 0.5, formats.DASH, ha="center", va="center", color=canvas.MUTED)
                    continue
                mark = " ★" if verdict[chunking, retriever] == "recommended" else ""
                ink = "#ffffff" if mean < low + 0.55 * (high - low) else "#010101"
                axes.text(x + 0.5, y + 0.5, f"{100 * mean:.1f}{mark}", ha="center", va="center", color=ink, fontsize=9)
        bar = figure.colorbar(mesh, ax=axes, pad=0.02, aspect=max(8, 1.2 * len(shown)))
        bar.ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=1 if high - low < 0.08 else 0))
        bar.outline.set_visible(False)
        bar.set_label(f"{name} (%)")
        if any(verdict[key] == "recommended" for key in value):
            figure.supxlabel("★ recommended", fontsize=8.5, color=canvas.MUTED, ha="right", x=0.98)
        canvas.say(figure, canvas.left_out((len(shown), len(chunkings), "chunkings")))

    return canvas.draw(f"{name} by chunking and retriever", 1.1 + 0.3 * len(shown) + 0.05 * len(retrievers), paint)


@canvas.drawn_once
def sweep_grid(rows: Rows) -> bytes:
    """chunk_sweep rows: the deciding measure in percent by size (columns) and by strategy and overlap (lines), one panel a retriever."""
    name, drawn = _sweep_rows(rows)
    sized = [(r, size) for r in drawn if (size := facts.chunking_size(r["chunking"]))]
    if not sized:
        return canvas.nothing(_SWEEP, "no chunking of a stated size has a score yet")
    every = sorted({r["retriever"] for r, _ in sized})
    retrievers = every[: _MAX_PANELS // 2]
    sizes = sorted({size for _, size in sized})
    lines = sorted({facts.chunking_series(r["chunking"]) for r, _ in sized})
    shown = lines[: max(1, _MAX_CELLS // (len(sizes) * len(retrievers)))]
    seen = [r["mean"] for r, _ in sized]
    low, high = min(seen), max(max(seen), min(seen) + 0.02)

    def paint(figure: Figure) -> None:
        axes = canvas.panels(figure, len(retrievers))
        for panel, retriever in zip(axes, retrievers, strict=True):
            own = {(facts.chunking_series(r["chunking"]), size): r for r, size in sized if r["retriever"] == retriever}
            cells = [[own[line, size]["mean"] if (line, size) in own else math.nan for size in sizes] for line in shown]
            panel.pcolormesh(cells, cmap="cividis", vmin=low, vmax=high, edgecolors=canvas.PAPER, linewidth=1.5)
            panel.grid(False)
            panel.invert_yaxis()
            panel.set_xticks([i + 0.5 for i in range(len(sizes))], [str(size) for size in sizes])
            panel.set_yticks([i + 0.5 for i in range(len(shown))], [formats.label(line, 24) for line in shown])
            panel.tick_params(length=0)
            panel.spines[:].set_visible(False)
            panel.set_title(formats.label(retriever))
            panel.set_xlabel("chunk size (tokens)")
            for y, line in enumerate(shown):
                for x, size in enumerate(sizes):
                    row = own.get((line, size))
                    mark = " ★" if row and row["verdict"] == "recommended" else ""
                    ink = canvas.MUTED if row is None else "#ffffff" if row["mean"] < low + 0.55 * (high - low) else "#010101"
                    text = f"{100 * row['mean']:.1f}{mark}" if row else formats.DASH
                    panel.text(x + 0.5, y + 0.5, text, ha="center", va="center", color=ink, fontsize=8)
        if any(r["verdict"] == "recommended" for r, _ in sized):
            figure.supxlabel("★ recommended", fontsize=8.5, color=canvas.MUTED, ha="right", x=0.98)
        canvas.say(figure, canvas.left_out((len(retrievers), len(every), "retrievers"), (len(shown), len(lines), "lines")))

    return canvas.draw(f"{name} by chunk size and overlap", (1.1 + 0.28 * len(shown)) * math.ceil(len(retrievers) / 3), paint)


# ----------------------------------------------------------------------------------------------------------------- ANN
def _thinned(points: Sequence[tuple[str, Row]]) -> list[tuple[str, Row]]:
    """Of a large grid what no other setting of its kind beats, and of that at most eight points."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for chunking, row in points:
        groups[chunking, row["embedder"], row["index"], row["selectivity"]].append(row)
    kept: list[tuple[str, Row]] = []
    for (chunking, *_), rows in groups.items():
        front = facts.pareto((r["distance_computations"], r["recall_mean"]) for r in rows)
        front = front[:: math.ceil(len(front) / 8)]
        kept += [(chunking, r) for r in rows if r["recommended"] or (r["distance_computations"], r["recall_mean"]) in front]
    return kept


@canvas.drawn_once
def ann_pareto(rows_by_chunking: Mapping[str, Rows]) -> bytes:
    """ann_recall rows by chunking: recall against distance computations a query, one panel a selectivity of the filter."""
    title = "ANN recall against work"
    drawn = [(chunking, r) for chunking in sorted(rows_by_chunking) for r in facts.scored_ann(rows_by_chunking[chunking])]
    drawn = [(c, r) for c, r in drawn if r["distance_computations"] > 0]
    if len(drawn) > _MAX_ANN_POINTS:
        drawn = _thinned(drawn)
    if not drawn:
        return canvas.nothing(title, "no approximate index was measured")
    shares = sorted({r["selectivity"] for _, r in drawn}, reverse=True)[:_MAX_PANELS]
    kinds = sorted({r["index"] for _, r in drawn})
    every = sorted({(c, r["embedder"]) for c, r in drawn})
    most = max(Counter((c, r["embedder"]) for c, r in drawn if r["selectivity"] in shares).values())
    sources = every[: min(_MAX_SERIES, max(1, _MAX_ANN_POINTS // most))]
    k = max(r["k"] for _, r in drawn)
    one_embedder = len({e for _, e in sources}) == 1

    def paint(figure: Figure) -> None:
        axes = canvas.panels(figure, len(shares))
        for panel, share in zip(axes, shares, strict=True):
            for i, (chunking, embedder) in enumerate(sources):
                own = [r for c, r in drawn if c == chunking and r["embedder"] == embedder and r["selectivity"] == share]
                front = facts.pareto((r["distance_computations"], r["recall_mean"]) for r in own if r["index"] != "flat")
                dash = canvas.DASHES[i % len(canvas.DASHES)]
                panel.plot([p[0] for p in front], [p[1] for p in front], color=canvas.MUTED, linewidth=1, linestyle=dash, zorder=1.5)
                source = formats.label(chunking if one_embedder else f"{chunking}, {embedder}")
                for j, kind in enumerate(kinds):
                    points = [r for r in own if r["index"] == kind]
                    if points:
                        x = [r["distance_computations"] for r in points]
                        look = canvas.look(i) | {"color": canvas.COLOURS[j % len(canvas.COLOURS)], "linestyle": "none"}
                        panel.plot(x, [r["recall_mean"] for r in points], **look, label=f"{formats.label(kind, 12)}, {source}")
                chosen = [r for r in own if r["recommended"]]
                canvas.ring(panel, [r["distance_computations"] for r in chosen], [r["recall_mean"] for r in chosen])
            panel.set_title("no filter" if share >= 1 else f"filter leaves {formats.percent(share, 0 if share >= 0.01 else 1)}")
            canvas.length_axis(panel, [r["distance_computations"] for _, r in drawn])
            panel.set_ylim(*canvas.share_limits([r["recall_mean"] for _, r in drawn]))
            canvas.percent_axis(panel, "y")
            panel.set_xlabel("distance computations a query")
        for panel in axes[:: min(len(shares), 3)]:
            panel.set_ylabel(f"recall@{k} against exact search (%)")
        canvas.ring(axes[0], [], [], "recommended")
        canvas.legend(figure, axes, columns=3)
        canvas.say(figure, canvas.left_out((len(sources), len(every), "chunkings")))

    legend = 0.25 * math.ceil((len(kinds) * len(sources) + 1) / 3)
    return canvas.draw(title, 3.0 * math.ceil(len(shares) / 3) + legend, paint)


# -------------------------------------------------------------------------------------------------------------- funnel
@canvas.drawn_once
def funnel(rows: Rows) -> bytes:
    """evidence_funnel rows: evidence groups left after each stage, how many it lost, and of how many nobody knows."""
    title = "Evidence funnel"
    stages, _ = facts.funnel_stages(rows)
    if not stages:
        return canvas.nothing(title, "no evidence was followed")
    total = stages[0].reached + stages[0].lost + stages[0].unknown

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        for place, stage in enumerate(stages):
            axes.barh(place, stage.reached, height=0.66, color=canvas.KEPT, label="left after the stage")
            if stage.lost:
                look: dict[str, Any] = {"color": canvas.LOST, "hatch": "////", "edgecolor": canvas.PAPER, "label": "lost by the stage"}
                axes.barh(place, stage.lost, left=stage.reached, height=0.66, **look)
            if stage.unknown:
                look = {"color": canvas.GRID, "label": "not known"}
                axes.barh(place, stage.unknown, left=stage.reached + stage.lost, height=0.66, **look)
            note = f"{stage.reached:,}" + (f"  ({formats.MINUS}{stage.lost:,})" if stage.lost else "")
            canvas.note(axes, note, (stage.reached + stage.lost + stage.unknown, place), (6, 0), va="center")
        axes.set_yticks(range(len(stages)), [facts.stage_name(s.name) for s in stages])
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, 1.14 * total)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("evidence groups (a passage a question needs)")
        axes.set_ylabel("stage")
        canvas.legend(figure, [axes])

    return canvas.draw(title, 0.95 + 0.27 * len(stages), paint)


# -------------------------------------------------------------------------------------------------------------- scores
@canvas.drawn_once
def scores_with_intervals(rows: Rows | Mapping[str, Rows]) -> bytes:
    """system_summary rows (of one system, or by system): headline shares of the split shown, with 95% intervals."""
    title = "Headline scores"
    by_system: Mapping[str, Rows] = rows if isinstance(rows, Mapping) else {"": rows}
    split = facts.headline_split(by_system.values())
    drawn = {
        system: [
            r for r in facts.headline(own, split)
            if formats.is_number(r["mean"]) and formats.is_share(r["metric"], r["mean"], r["lower"], r["upper"])
        ]
        for system, own in sorted(by_system.items())
    }  # fmt: skip
    measures = facts.in_score_order(drawn)
    if not measures:
        return canvas.nothing(title, "no question was scored")
    shown = measures[:_MAX_MEASURES]
    systems = [s for s, own in drawn.items() if own][: min(_MAX_SERIES, max(1, _MAX_INTERVALS // len(shown)))]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        step = 0.62 / len(systems)
        for i, system in enumerate(systems):
            points = [(place, found[system]) for place, (_, found) in enumerate(shown) if system in found]
            y = [place + step * (i - (len(systems) - 1) / 2) for place, _ in points]
            own = [r for _, r in points]
            look = canvas.look(i) | {"linestyle": "none", "capsize": 2.5, "label": formats.label(system)}
            axes.errorbar([r["mean"] for r in own], y, xerr=canvas.errors(own), **look)
        names = [formats.label(formats.measure_with_unit(*key), 40) for key, _ in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(-0.02, 1.02)
        canvas.percent_axis(axes, "x")
        axes.set_xlabel(f"mean over the {formats.label(split)} split (%), with its 95% interval")
        if systems != [""]:
            canvas.legend(figure, [axes])
        canvas.say(figure, canvas.left_out((len(shown), len(measures), "measures"), (len(systems), len(drawn), "systems")))

    height = 0.75 + len(shown) * max(0.3, 0.17 * len(systems)) + (0.3 if systems != [""] else 0)
    return canvas.draw(title, height, paint)
