"""Rows to SVG pictures, for the report page and for Dagster metadata.

What belongs here: drawing. What does not: which rows matter (`facts`) and anything read from a file or a clock. Every picture
is a function of its rows alone and gives the same bytes for the same rows: letters are drawn as paths of the font matplotlib
ships, ids are salted with a constant, nothing is dated. Without rows it says in a small picture that there is nothing to show.
"""

from __future__ import annotations

import base64
import io
import math
import re
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rag_eval_assets.report import facts, formats
from rag_eval_assets.report.facts import Row, Rows
from rag_eval_assets.tables import SCORED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 8.33  # inches at 72 points: 600 pt, which a browser shows 800 px wide
_MAX_BARS = 20
_MAX_SERIES = 8
_MAX_PANELS = 6
_MAX_MEASURES = 14
_MAX_POINTS = 160
_MAX_ANN_POINTS = 240
_MAX_CELLS = 96
_MAX_DOTS = 120
_MAX_DEDUP_POINTS = 40
_MAX_INTERVALS = 72

# Okabe and Ito's palette, told apart under the common colour-vision deficiencies; marker and dash repeat what colour says.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f5fc7", "#6b6b6b")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
_INK, _MUTED, _GRID, _PAPER = "#1b1f24", "#59626c", "#dfe3e8", "#fefefe"
_KEPT, _LOST = _COLOURS[0], _COLOURS[1]

# The picture follows the reader's colour scheme by itself: inside an <img> it sees no style sheet of the page.
_DARK = {
    _INK: "#e6e9ed", _MUTED: "#a3adb8", _GRID: "#333b45", _PAPER: "#171b20",
    "#0072b2": "#4aa8e8", "#d55e00": "#f0813a", "#009e73": "#2fc79a", "#7f5fc7": "#a78ff0", "#6b6b6b": "#a0a0a0",
}  # fmt: skip

_STYLE: dict[Any, Any] = {
    "savefig.format": "svg", "svg.hashsalt": "rag-eval", "svg.fonttype": "path", "text.parse_math": False, "axes.unicode_minus": True,
    "font.family": ["DejaVu Sans"], "font.size": 9.5, "axes.titlesize": 10,
    "axes.titleweight": "bold", "axes.titlelocation": "left",
    "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _MUTED, "axes.titlecolor": _INK,
    "xtick.color": _MUTED, "ytick.color": _MUTED, "xtick.labelcolor": _INK, "ytick.labelcolor": _INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": _GRID, "grid.linewidth": 0.7,
    "axes.axisbelow": True, "figure.facecolor": _PAPER, "axes.facecolor": _PAPER, "savefig.facecolor": _PAPER,
    "legend.frameon": False, "legend.fontsize": 9, "lines.linewidth": 1.6, "lines.markersize": 6,
}  # fmt: skip
_LOCK = threading.Lock()  # matplotlib's rcParams belong to the process


# -------------------------------------------------------------------------------------------------------------- canvas
def _hundredths(numbers: str) -> str:
    """Coordinates to 1/100 of a point: half the bytes, and nothing hangs on the last digits of a platform's arithmetic."""
    return re.sub(r"-?\d+\.\d+", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), numbers)


def _themed(svg: str, title: str) -> bytes:
    pairs = [(part, light, dark) for light, dark in _DARK.items() for part in ("fill", "stroke")]
    rules = "".join(f'[style*="{part}: {light}"]{{{part}:{dark}!important}}' for part, light, dark in pairs)
    body = svg[svg.index("<svg") :]
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->\s*|(?<=>)\s+(?=<)", "", body, flags=re.DOTALL)
    body = body.replace("DejaVuSans-", "g")  # the name of a glyph is repeated at each letter
    body = re.sub(r' (?:d|x|y)="[^"]*"|translate\([^)]*\)', lambda found: _hundredths(found[0]), body)
    head = f"<title>{escape(formats.label(title, 200))}</title><style>@media screen and (prefers-color-scheme:dark){{{rules}}}</style>"
    end = body.index(">") + 1
    return (body[:end] + head + body[end:]).encode()


def _draw(title: str, inches: float, paint: Callable[[Figure], None]) -> bytes:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with _LOCK, mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # drawn as a box: the table beside it has the name
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(_WIDTH, inches), layout="constrained", dpi=72)  # the dots of SVG
        paint(figure)
        # Saving would lay the figure out twice, each time as dear as drawing it.
        if figure.axes:
            figure.get_layout_engine().execute(figure)
        figure.set_layout_engine(None)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _themed(out.getvalue(), title)


def _nothing(title: str, why: str) -> bytes:
    def paint(figure: Figure) -> None:
        figure.text(0.5, 0.62, f"{title}: nothing to show", ha="center", va="center", fontsize=11, color=_INK)
        figure.text(0.5, 0.32, why, ha="center", va="center", fontsize=9, color=_MUTED)

    return _draw(title, 1.0, paint)


def as_data_uri(svg: bytes) -> str:
    """The picture as a data URI, for the src of an image."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def as_markdown(svg: bytes, title: str) -> str:
    """The picture as a Markdown image that carries its own bytes, for Dagster metadata."""
    alt = re.sub(r"([\\\[\]])", r"\\\1", formats.label(title, 200))
    return f"![{alt}]({as_data_uri(svg)})"


# -------------------------------------------------------------------------------------------------------------- pieces
def _look(i: int) -> dict[str, Any]:
    """Colour, marker and dash of the i-th series."""
    return {"color": _COLOURS[i % len(_COLOURS)], "marker": _MARKERS[i % len(_MARKERS)], "linestyle": _DASHES[i % len(_DASHES)]}


def _percent_axis(axes: Axes, which: str, decimals: int = 0) -> None:
    from matplotlib.ticker import PercentFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(PercentFormatter(xmax=1, decimals=decimals))


def _length_axis(axes: Axes, values: Iterable[float]) -> None:
    """Token lengths or distances on a log scale, with ticks that read as plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    low, high = min(values), max(values)
    axes.set_xscale("log")
    wide = math.log10(high / low) > 1.6
    steps = (1,) if wide else (1, 2, 5)
    ticks = [m * 10**e for e in range(-1, 10) for m in steps if low / 1.5 <= m * 10**e <= high * 1.5]
    axes.set_xlim(low / 1.3, high * 1.3)
    axes.xaxis.set_major_locator(FixedLocator([t for t in ticks if low / 1.3 <= t <= high * 1.3] or [low, high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))


def _errors(rows: Rows, value: str = "mean", lower: str = "lower", upper: str = "upper") -> list[list[float]]:
    """Distances from each value down to its lower and up to its upper limit, as errorbar takes them; 0 without interval."""
    down = [max(r[value] - r[lower], 0.0) if formats.is_number(r[lower]) else 0.0 for r in rows]
    up = [max(r[upper] - r[value], 0.0) if formats.is_number(r[upper]) else 0.0 for r in rows]
    return [down, up]


def _ring(axes: Axes, x: Sequence[float], y: Sequence[float], label: str | None = None) -> None:
    """Mark points with a ring, which stays visible on any colour."""
    axes.plot(x, y, marker="o", markersize=14, markerfacecolor="none", markeredgecolor=_INK, linestyle="none", label=label)


def _note(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **where: Any) -> None:
    """A short text beside a point, `offset` points away."""
    axes.annotate(text, at, xytext=offset, textcoords="offset points", fontsize=9, color=_INK, **where)


def _panels(figure: Figure, n: int, *, columns: int = 3) -> list[Axes]:
    columns = min(n, columns)
    grid = figure.subplots(math.ceil(n / columns), columns, squeeze=False, sharey=True)
    axes: list[Axes] = list(grid.flat)
    for spare in axes[n:]:
        spare.set_visible(False)
    return axes[:n]


def _legend(figure: Figure, axes: Sequence[Axes], columns: int = 4) -> None:
    """One legend below all panels, in as many columns as its longest name lets fit."""
    found: dict[str, Any] = {}
    for each in axes:
        for handle, name in zip(*each.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    if found:
        fitting = max(1, 110 // (max(map(len, found)) + 8))
        figure.legend([*found.values()], [*found], loc="outside lower center", ncols=min(columns, fitting, len(found)))


def _share_limits(values: Sequence[float]) -> tuple[float, float]:
    """Limits of an axis of shares: the values with some air, never far outside 0 to 1, never a spread blown up from nothing."""
    low, high = min(values), max(values)
    air = max((high - low) * 0.12, 0.025)
    return max(low - air, -0.02), min(high + air, 1.02)


def _left_out(*counts: tuple[int, int, str]) -> str:
    """What does not fit in a picture, from (shown, there, name); empty where all does."""
    parts = [f"{shown} of {there} {name}" for shown, there, name in counts if shown < there]
    return f"shown: {', '.join(parts)}; the table has all" if parts else ""


def _say(figure: Figure, text: str) -> None:
    if text:
        figure.suptitle(text, fontsize=8.5, color=_MUTED, ha="left", x=0.01)


# --------------------------------------------------------------------------------------------------------------- sweep
_SWEEP = "Chunk sweep"


def _sweep_rows(rows: Rows) -> tuple[str, list[Row]]:
    measure, own = facts.deciding(rows)
    if measure is None:
        return "", []
    name = formats.measure_with_unit(measure.metric, measure.k, measure.cutoff, measure.unit)
    return name, [r for r in own if formats.is_number(r["mean"])]


def sweep_curve(rows: Rows) -> bytes:
    """chunk_sweep rows: the deciding measure against the mean chunk length in tokens, one panel a retriever, 95% intervals."""
    name, scored = _sweep_rows(rows)
    drawn = [r for r in scored if facts.tokens_per_chunk(r)]
    if not drawn:
        return _nothing(_SWEEP, "no chunking has a score yet")
    retrievers = sorted({r["retriever"] for r in drawn})
    best: dict[str, float] = {}
    for row in drawn:
        name_of_series = facts.chunking_series(row["chunking"])
        best[name_of_series] = max(best.get(name_of_series, -1.0), row["mean"])
    series = sorted(sorted(best, key=lambda s: (-best[s], s))[:_MAX_SERIES])
    drawn = [r for r in drawn if facts.chunking_series(r["chunking"]) in series]
    most = max(Counter(r["retriever"] for r in drawn).values())
    shown = retrievers[: min(_MAX_PANELS, max(1, _MAX_POINTS // most))]
    left_out = _left_out((len(shown), len(retrievers), "retrievers"), (len(series), len(best), "series"))
    lengths = [facts.tokens_per_chunk(r) or 1.0 for r in drawn]
    heights = [v for r in drawn for v in (r["mean"], r["lower"], r["upper"]) if formats.is_number(v)]

    def paint(figure: Figure) -> None:
        axes = _panels(figure, len(shown))
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
                look = _look(series.index(name_of_series))
                panel.errorbar(x, y, yerr=_errors(points), fmt="none", ecolor=look["color"], elinewidth=1, alpha=0.55)
                panel.plot(x, y, **look, label=formats.label(name_of_series))
            for row in own:
                if row["verdict"] == "recommended":
                    at = (facts.tokens_per_chunk(row) or 1.0, row["mean"])
                    _ring(panel, at[:1], at[1:])
                    _note(panel, "recommended", at, (0, 11), ha="center")
            panel.set_title(formats.label(retriever))
            _length_axis(panel, lengths)
            panel.set_ylim(*_share_limits(heights))
            _percent_axis(panel, "y")
        for panel in axes:
            panel.set_xlabel("mean chunk length (tokens)")
        columns = min(len(shown), 3)
        for panel in axes[::columns]:
            panel.set_ylabel(f"{name} (%)")
        _legend(figure, axes)
        _say(figure, left_out)

    lines = math.ceil(len(shown) / 3)
    legend = 0.25 * math.ceil(len(series) / 4)
    return _draw(f"{name} against chunk length", 2.9 * lines + legend, paint)


def sweep_heat_map(rows: Rows) -> bytes:
    """chunk_sweep rows: the deciding measure in percent, a row a chunking (best first), a column a retriever."""
    name, drawn = _sweep_rows(rows)
    if not drawn:
        return _nothing(_SWEEP, "no chunking has a score yet")
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
        mesh = axes.pcolormesh(cells, cmap="cividis", vmin=low, vmax=high, edgecolors=_PAPER, linewidth=1.5)
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
                    axes.text(x + 0.5, y + 0.5, formats.DASH, ha="center", va="center", color=_MUTED)
                    continue
                mark = " ★" if verdict[chunking, retriever] == "recommended" else ""
                ink = "#ffffff" if mean < low + 0.55 * (high - low) else "#010101"
                axes.text(x + 0.5, y + 0.5, f"{100 * mean:.1f}{mark}", ha="center", va="center", color=ink, fontsize=9)
        bar = figure.colorbar(mesh, ax=axes, pad=0.02, aspect=max(8, 1.2 * len(shown)))
        bar.ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=1 if high - low < 0.08 else 0))
        bar.outline.set_visible(False)
        bar.set_label(f"{name} (%)")
        if any(verdict[key] == "recommended" for key in value):
            figure.supxlabel("★ recommended", fontsize=8.5, color=_MUTED, ha="right", x=0.98)
        _say(figure, _left_out((len(shown), len(chunkings), "chunkings")))

    return _draw(f"{name} by chunking and retriever", 1.1 + 0.3 * len(shown) + 0.05 * len(retrievers), paint)


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


def ann_pareto(rows_by_chunking: Mapping[str, Rows]) -> bytes:
    """ann_recall rows by chunking: recall against distance computations a query, one panel a selectivity of the filter."""
    title = "ANN recall against work"
    drawn = [(chunking, r) for chunking in sorted(rows_by_chunking) for r in facts.scored_ann(rows_by_chunking[chunking])]
    drawn = [(c, r) for c, r in drawn if r["distance_computations"] > 0]
    if len(drawn) > _MAX_ANN_POINTS:
        drawn = _thinned(drawn)
    if not drawn:
        return _nothing(title, "no approximate index was measured")
    shares = sorted({r["selectivity"] for _, r in drawn}, reverse=True)[:_MAX_PANELS]
    kinds = sorted({r["index"] for _, r in drawn})
    every = sorted({(c, r["embedder"]) for c, r in drawn})
    most = max(Counter((c, r["embedder"]) for c, r in drawn if r["selectivity"] in shares).values())
    sources = every[: min(_MAX_SERIES, max(1, _MAX_ANN_POINTS // most))]
    k = max(r["k"] for _, r in drawn)
    one_embedder = len({e for _, e in sources}) == 1

    def paint(figure: Figure) -> None:
        axes = _panels(figure, len(shares))
        for panel, share in zip(axes, shares, strict=True):
            for i, (chunking, embedder) in enumerate(sources):
                own = [r for c, r in drawn if c == chunking and r["embedder"] == embedder and r["selectivity"] == share]
                front = facts.pareto((r["distance_computations"], r["recall_mean"]) for r in own if r["index"] != "flat")
                dash = _DASHES[i % len(_DASHES)]
                panel.plot([p[0] for p in front], [p[1] for p in front], color=_MUTED, linewidth=1, linestyle=dash, zorder=1.5)
                source = formats.label(chunking if one_embedder else f"{chunking}, {embedder}")
                for j, kind in enumerate(kinds):
                    points = [r for r in own if r["index"] == kind]
                    if points:
                        x = [r["distance_computations"] for r in points]
                        look = _look(i) | {"color": _COLOURS[j % len(_COLOURS)], "linestyle": "none"}
                        panel.plot(x, [r["recall_mean"] for r in points], **look, label=f"{formats.label(kind, 12)}, {source}")
                chosen = [r for r in own if r["recommended"]]
                _ring(panel, [r["distance_computations"] for r in chosen], [r["recall_mean"] for r in chosen])
            panel.set_title("no filter" if share >= 1 else f"filter leaves {formats.percent(share, 0 if share >= 0.01 else 1)}")
            _length_axis(panel, [r["distance_computations"] for _, r in drawn])
            panel.set_ylim(*_share_limits([r["recall_mean"] for _, r in drawn]))
            _percent_axis(panel, "y")
            panel.set_xlabel("distance computations a query")
        for panel in axes[:: min(len(shares), 3)]:
            panel.set_ylabel(f"recall@{k} against exact search (%)")
        _ring(axes[0], [], [], "recommended")
        _legend(figure, axes, columns=3)
        _say(figure, _left_out((len(sources), len(every), "chunkings")))

    legend = 0.25 * math.ceil((len(kinds) * len(sources) + 1) / 3)
    return _draw(title, 3.0 * math.ceil(len(shares) / 3) + legend, paint)


# ------------------------------------------------------------------------------------------------------------- parsing
def cer_by_class(rows_by_parser: Mapping[str, Rows]) -> bytes:
    """parse_quality rows by parser: character error rate of each document class, pooled; marks: its worst documents."""
    title = "Character error rate by class and parser"
    figures = [f for f in facts.parse_figures(rows_by_parser) if "cer" in f.figures]
    if not figures:
        return _nothing(title, "no document has a hand-checked reference")
    shown = figures[:_MAX_BARS]
    parsers = sorted({f.parser for f in shown})

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for place, each in enumerate(shown):
            i = parsers.index(each.parser)
            colour = _COLOURS[i % len(_COLOURS)]
            row = each.figures["cer"]
            axes.barh(place, row["value"], height=0.62, color=colour, alpha=0.35, label=formats.label(each.parser))
            dots = sorted(each.each_cer)[-max(3, _MAX_DOTS // len(shown)) :]
            look = _look(i) | {"linestyle": "none", "markersize": 4, "alpha": 0.8}
            axes.plot(dots, [place] * len(dots), **look)
            _note(axes, f"{formats.percent(row['value'])} pooled", (max([row["value"], *dots]), place), (7, 0), va="center")
        names = [f"{formats.label(f.doc_class, 18)} · {formats.label(f.parser, 18)} (n={f.with_reference})" for f in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, max(0.02, 1.12 * max(max([f.figures["cer"]["value"], *f.each_cer]) for f in shown)))
        _percent_axis(axes, "x", 0 if axes.get_xlim()[1] > 0.05 else 1)
        axes.set_xlabel("character error rate (edits in % of reference characters) · bar: pooled · mark: a document")
        _say(figure, _left_out((len(shown), len(figures), "rows")))

    return _draw(title, 0.8 + 0.34 * len(shown), paint)


def teds_distribution(rows_by_parser: Mapping[str, Rows]) -> bytes:
    """parse_quality rows by parser: TEDS of every reference table, by class and parser; bar: the mean."""
    title = "Tables: TEDS by class and parser"
    figures = [f for f in facts.parse_figures(rows_by_parser) if f.each_teds]
    if not figures:
        return _nothing(title, "no table has a hand-checked reference")
    shown = figures[:_MAX_BARS]
    parsers = sorted({f.parser for f in shown})

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for place, each in enumerate(shown):
            i, values = parsers.index(each.parser), sorted(each.each_teds)
            mean = sum(values) / len(values)
            axes.barh(place, mean, height=0.62, color=_COLOURS[i % len(_COLOURS)], alpha=0.35, label=formats.label(each.parser))
            # Equal tables are one above the other, so that ten perfect ones do not look like one.
            step = 0.5 / max(Counter(values).most_common(1)[0][1], 2)
            seen: Counter[float] = Counter()
            for value in values[: _MAX_DOTS // len(shown)]:
                axes.plot([value], [place - 0.25 + step * seen[value]], **(_look(i) | {"linestyle": "none", "markersize": 4, "alpha": 0.8}))
                seen[value] += 1
        names = [f"{formats.label(f.doc_class, 18)} · {formats.label(f.parser, 18)} (n={len(f.each_teds)})" for f in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, 1.02)
        axes.set_xlabel("TEDS (1 is the same table) · bar: mean · mark: a table")
        _say(figure, _left_out((len(shown), len(figures), "rows")))

    return _draw(title, 0.8 + 0.34 * len(shown), paint)


# -------------------------------------------------------------------------------------------------------------- funnel
def funnel(rows: Rows) -> bytes:
    """evidence_funnel rows: evidence groups left after each stage, how many it lost, and of how many nobody knows."""
    title = "Evidence funnel"
    stages, _ = facts.funnel_stages(rows)
    if not stages:
        return _nothing(title, "no evidence was followed")
    total = stages[0].reached + stages[0].lost + stages[0].unknown

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        for place, stage in enumerate(stages):
            axes.barh(place, stage.reached, height=0.66, color=_KEPT, label="left after the stage")
            if stage.lost:
                look: dict[str, Any] = {"color": _LOST, "hatch": "////", "edgecolor": _PAPER, "label": "lost by the stage"}
                axes.barh(place, stage.lost, left=stage.reached, height=0.66, **look)
            if stage.unknown:
                look = {"color": _GRID, "label": "not known"}
                axes.barh(place, stage.unknown, left=stage.reached + stage.lost, height=0.66, **look)
            note = f"{stage.reached:,}" + (f"  ({formats.MINUS}{stage.lost:,})" if stage.lost else "")
            _note(axes, note, (stage.reached + stage.lost + stage.unknown, place), (6, 0), va="center")
        axes.set_yticks(range(len(stages)), [facts.stage_name(s.name) for s in stages])
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, 1.14 * total)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("evidence groups (a passage a question needs)")
        axes.set_ylabel("stage")
        _legend(figure, [axes])

    return _draw(title, 0.95 + 0.27 * len(stages), paint)


# -------------------------------------------------------------------------------------------------------------- scores
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
        return _nothing(title, "no question was scored")
    shown = measures[:_MAX_MEASURES]
    systems = [s for s, own in drawn.items() if own][: min(_MAX_SERIES, max(1, _MAX_INTERVALS // len(shown)))]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        step = 0.62 / len(systems)
        for i, system in enumerate(systems):
            points = [(place, found[system]) for place, (_, found) in enumerate(shown) if system in found]
            y = [place + step * (i - (len(systems) - 1) / 2) for place, _ in points]
            own = [r for _, r in points]
            look = _look(i) | {"linestyle": "none", "capsize": 2.5, "label": formats.label(system)}
            axes.errorbar([r["mean"] for r in own], y, xerr=_errors(own), **look)
        names = [formats.label(formats.measure_with_unit(*key), 40) for key, _ in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(-0.02, 1.02)
        _percent_axis(axes, "x")
        axes.set_xlabel(f"mean over the {formats.label(split)} split (%), with its 95% interval")
        if systems != [""]:
            _legend(figure, [axes])
        _say(figure, _left_out((len(shown), len(measures), "measures"), (len(systems), len(drawn), "systems")))

    height = 0.75 + len(shown) * max(0.3, 0.17 * len(systems)) + (0.3 if systems != [""] else 0)
    return _draw(title, height, paint)


# --------------------------------------------------------------------------------------------------------------- dedup
def _dedup_series(rows: Rows) -> dict[str, list[Row]]:
    """Points of the sweep by permutations, and by bands where these were swept too; the series in force first."""
    swept = Counter((r["permutations"], r["threshold"]) for r in rows if not r["used"])
    series: dict[str, list[Row]] = {}
    for r in sorted(rows, key=lambda r: (r["permutations"], r["bands"], r["threshold"])):
        name = f"{r['permutations']} permutations" + (f", {r['bands']} bands" if max(swept.values(), default=0) > 1 else "")
        series.setdefault(name, []).append(r)
    return dict(sorted(series.items(), key=lambda item: not any(r["used"] for r in item[1])))


def dedup_curve(rows: Rows) -> bytes:
    """dedup_quality rows: precision against recall on labelled pairs, and either against the threshold, a line a MinHash setting."""
    title = "Near-duplicate detection"
    scored = [r for r in rows if r["status"] == SCORED]
    sides = ("precision", "recall")
    if not any(formats.is_number(r[side]) for r in scored for side in sides):
        return _nothing(title, "no labelled pair of documents to measure on")
    thresholds = sorted({r["threshold"] for r in scored})
    there = _dedup_series(scored)
    shown = dict([*there.items()][: max(1, _MAX_DEDUP_POINTS // len(thresholds))])

    def paint(figure: Figure) -> None:
        axes = _panels(figure, 3)
        for i, (name, points) in enumerate(shown.items()):
            both = [r for r in points if all(formats.is_number(r[side]) for side in sides)]
            axes[0].plot([r["recall"] for r in both], [r["precision"] for r in both], **_look(i))
            _ring(axes[0], *([r[side] for r in both if r["used"]] for side in reversed(sides)))
            nudge = 0.006 * (i - (len(shown) - 1) / 2)  # so that the intervals of two lines do not hide each other
            for panel, side in zip(axes[1:], sides, strict=True):
                own = [r for r in points if formats.is_number(r[side])]
                errors = _errors(own, side, f"{side}_lower", f"{side}_upper")
                look = _look(i) | {"elinewidth": 1, "capsize": 2, "label": name}
                panel.errorbar([r["threshold"] + nudge for r in own], [r[side] for r in own], yerr=errors, **look)
                used = [r for r in own if r["used"]]
                if used:
                    _ring(panel, [r["threshold"] + nudge for r in used], [r[side] for r in used], "in force")
        axes[0].set_title("precision by recall")
        axes[0].set_xlim(-0.03, 1.05)
        _percent_axis(axes[0], "x")
        axes[0].set_xlabel("recall (%)")
        for panel, side in zip(axes[1:], sides, strict=True):
            panel.set_title(f"{side} by threshold")
            if len(thresholds) <= 10:
                panel.set_xticks(thresholds)
            panel.set_xlabel("threshold (Jaccard, 0 to 1)")
        for panel in axes:
            panel.set_ylim(-0.03, 1.05)
            _percent_axis(panel, "y")
        axes[0].set_ylabel("share of labelled pairs (%)")
        _legend(figure, axes)
        _say(figure, _left_out((len(shown), len(there), "settings")))

    return _draw(title, 3.0, paint)


# -------------------------------------------------------------------------------------------------------------- chunks
def token_lengths(rows: Rows) -> bytes:
    """chunks rows: how many chunks have how many tokens."""
    title = "Chunk lengths"
    lengths = sorted(r["tokens"] for r in rows)
    if not lengths:
        return _nothing(title, "no chunk was made")
    high = max(lengths[-1], 1)
    width = max(1, math.ceil((high + 1) / 32))
    bins = Counter(n // width for n in lengths)
    middle = lengths[len(lengths) // 2]

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        axes.bar([(b + 0.5) * width for b in sorted(bins)], [bins[b] for b in sorted(bins)], width=0.92 * width, color=_KEPT)
        axes.axvline(middle, color=_LOST, linewidth=1.4, linestyle=_DASHES[1])
        left = middle < 0.75 * high
        where = {"xycoords": ("data", "axes fraction"), "va": "top", "ha": "left" if left else "right"}
        _note(axes, f"median {middle:,}", (middle, 1), (5 if left else -5, -4), **where)
        axes.grid(False, axis="x")
        axes.set_xlim(0, (high // width + 1) * width)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("chunk length (tokens)")
        axes.set_ylabel("chunks")
        axes.set_title(f"{len(lengths):,} chunks, {sum(lengths):,} tokens, longest {high:,}")

    return _draw(title, 2.6, paint)
