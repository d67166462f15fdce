"""What every picture shares: the canvas with its style and colours, and the pieces that charts are drawn from.

What belongs here: anything that more than one chart draws with. What does not: charts (`pictures`, `corpus_pictures`) and which rows
matter (`facts`). A picture gives the same bytes for the same rows: letters are drawn as paths of the font matplotlib ships, ids
are salted with a constant, nothing is dated.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any

from rag_eval_assets.report import formats
from rag_eval_assets.report.facts import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 8.33  # inches at 72 points: 600 pt, which a browser shows 800 px wide

# Okabe and Ito's palette, told apart under the common colour-vision deficiencies; marker and dash repeat what colour says.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f5fc7", "#6b6b6b")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
INK, MUTED, GRID, PAPER = "#1b1f24", "#59626c", "#dfe3e8", "#fefefe"
KEPT, LOST = COLOURS[0], COLOURS[1]

# The picture follows the reader's colour scheme by itself: inside an <img> it sees no style sheet of the page.
_DARK = {
    INK: "#e6e9ed", MUTED: "#a3adb8", GRID: "#333b45", PAPER: "#171b20",
    "#0072b2": "#4aa8e8", "#d55e00": "#f0813a", "#009e73": "#2fc79a", "#7f5fc7": "#a78ff0", "#6b6b6b": "#a0a0a0",
}  # fmt: skip

_STYLE: dict[Any, Any] = {
    "savefig.format": "svg", "svg.hashsalt": "rag-eval", "svg.fonttype": "path", "text.parse_math": False, "axes.unicode_minus": True,
    "font.family": ["DejaVu Sans"], "font.size": 9.5, "axes.titlesize": 10,
    "axes.titleweight": "bold", "axes.titlelocation": "left",
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": MUTED, "axes.titlecolor": INK,
    "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.7,
    "axes.axisbelow": True, "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER,
    "legend.frameon": False, "legend.fontsize": 9, "lines.linewidth": 1.6, "lines.markersize": 6,
}  # fmt: skip
_MOST_DRAWN = 128
_drawn: dict[tuple[str, str, bytes], bytes] = {}
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


def draw(title: str, inches: float, paint: Callable[[Figure], None]) -> bytes:
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


def drawn_once(chart: Callable[..., bytes]) -> Callable[..., bytes]:
    """A chart that is not drawn again of rows that it was drawn of: a sync shows it to Dagster and in the report, and what a process
    syncs next has seldom changed all its rows."""

    @wraps(chart)
    def kept(*rows: Any) -> bytes:
        key = (chart.__module__, chart.__qualname__, hashlib.sha256(repr(rows).encode()).digest())
        svg = _drawn.pop(key, None) or chart(*rows)
        _drawn[key] = svg  # the last one used stands last
        while len(_drawn) > _MOST_DRAWN:
            _drawn.pop(next(iter(_drawn)), None)
        return svg

    return kept


def nothing(title: str, why: str) -> bytes:
    def paint(figure: Figure) -> None:
        figure.text(0.5, 0.62, f"{title}: nothing to show", ha="center", va="center", fontsize=11, color=INK)
        figure.text(0.5, 0.32, why, ha="center", va="center", fontsize=9, color=MUTED)

    return draw(title, 1.0, paint)


def as_data_uri(svg: bytes) -> str:
    """The picture as a data URI, for the src of an image."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def as_markdown(svg: bytes, title: str) -> str:
    """The picture as a Markdown image that carries its own bytes, for Dagster metadata."""
    alt = re.sub(r"([\\\[\]])", r"\\\1", formats.label(title, 200))
    return f"![{alt}]({as_data_uri(svg)})"


# -------------------------------------------------------------------------------------------------------------- pieces
def look(i: int) -> dict[str, Any]:
    """Colour, marker and dash of the i-th series."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": _MARKERS[i % len(_MARKERS)], "linestyle": DASHES[i % len(DASHES)]}


def percent_axis(axes: Axes, which: str, decimals: int = 0) -> None:
    from matplotlib.ticker import PercentFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(PercentFormatter(xmax=1, decimals=decimals))


def length_axis(axes: Axes, values: Iterable[float]) -> None:
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


def errors(rows: Rows, value: str = "mean", lower: str = "lower", upper: str = "upper") -> list[list[float]]:
    """Distances from each value down to its lower and up to its upper limit, as errorbar takes them; 0 without interval."""
    down = [max(r[value] - r[lower], 0.0) if formats.is_number(r[lower]) else 0.0 for r in rows]
    up = [max(r[upper] - r[value], 0.0) if formats.is_number(r[upper]) else 0.0 for r in rows]
    return [down, up]


def ring(axes: Axes, x: Sequence[float], y: Sequence[float], label: str | None = None) -> None:
    """Mark points with a ring, which stays visible on any colour."""
    axes.plot(x, y, marker="o", markersize=14, markerfacecolor="none", markeredgecolor=INK, linestyle="none", label=label)


def note(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **where: Any) -> None:
    """A short text beside a point, `offset` points away."""
    axes.annotate(text, at, xytext=offset, textcoords="offset points", fontsize=9, color=INK, **where)


def panels(figure: Figure, n: int, *, columns: int = 3) -> list[Axes]:
    columns = min(n, columns)
    grid = figure.subplots(math.ceil(n / columns), columns, squeeze=False, sharey=True)
    axes: list[Axes] = list(grid.flat)
    for spare in axes[n:]:
        spare.set_visible(False)
    return axes[:n]


def legend(figure: Figure, axes: Sequence[Axes], columns: int = 4) -> None:
    """One legend below all panels, in as many columns as its longest name lets fit."""
    found: dict[str, Any] = {}
    for each in axes:
        for handle, name in zip(*each.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    if found:
        fitting = max(1, 110 // (max(map(len, found)) + 8))
        figure.legend([*found.values()], [*found], loc="outside lower center", ncols=min(columns, fitting, len(found)))


def share_limits(values: Sequence[float]) -> tuple[float, float]:
    """Limits of an axis of shares: the values with some air, never far outside 0 to 1, never a spread blown up from nothing."""
    low, high = min(values), max(values)
    air = max((high - low) * 0.12, 0.025)
    return max(low - air, -0.02), min(high + air, 1.02)


def left_out(*counts: tuple[int, int, str]) -> str:
    """What does not fit in a picture, from (shown, there, name); empty where all does."""
    parts = [f"{shown} of {there} {name}" for shown, there, name in counts if shown < there]
    return f"shown: {', '.join(parts)}; the table has all" if parts else ""


def say(figure: Figure, text: str) -> None:
    if text:
        figure.suptitle(text, fontsize=8.5, color=MUTED, ha="left", x=0.01)
