"""Rows to SVG: always a picture, always small, always the same bytes, never anything but shapes."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from rag_eval_assets.report import canvas, corpus_pictures, judges, pictures

Row = dict[str, Any]
Maker = Callable[..., Row]
Tables = dict[str, dict[str | None, list[Row]]]

SVG = "{http://www.w3.org/2000/svg}"
EMPTY: dict[str, Callable[[], bytes]] = {
    "sweep_curve": lambda: pictures.sweep_curve([]),
    "sweep_grid": lambda: pictures.sweep_grid([]),
    "sweep_heat_map": lambda: pictures.sweep_heat_map([]),
    "ann_pareto": lambda: pictures.ann_pareto({}),
    "cer_by_class": lambda: corpus_pictures.cer_by_class({"pymupdf": []}),
    "teds_distribution": lambda: corpus_pictures.teds_distribution({"pymupdf": []}),
    "funnel": lambda: pictures.funnel([]),
    "scores_with_intervals": lambda: pictures.scores_with_intervals({}),
    "scores of one system": lambda: pictures.scores_with_intervals([]),
    "dedup_curve": lambda: corpus_pictures.dedup_curve([]),
    "audit_rates": lambda: judges.audit_rates([]),
    "preference_bars": lambda: judges.preference_bars([], []),
    "corrected_intervals": lambda: judges.corrected_intervals({"baseline": []}),
    "token_lengths": lambda: corpus_pictures.token_lengths([]),
}


def parsed(svg: bytes) -> ET.Element:
    """The picture as a tree, after the checks that hold for every picture."""
    assert len(svg) < 100_000
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert {element.tag for element in root.iter()} <= {
        SVG + t
        for t in ("svg", "g", "path", "use", "defs", "clipPath", "rect", "style", "title", "image", "linearGradient", "pattern", "stop")
    }
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on")
            if name.endswith("href"):
                assert value.startswith(("#", "data:image/png;base64,"))
    assert b"DOCTYPE" not in svg
    assert not re.search(rb"20\d\d-\d\d-\d\d", svg)  # nothing is dated
    return root


@pytest.mark.parametrize("name", EMPTY)
def test_without_rows_a_small_picture_says_that_there_is_nothing_to_show(name: str) -> None:
    root = parsed(EMPTY[name]())
    assert float(root.attrib["height"].rstrip("pt")) < 100
    assert not root.findall(f".//{SVG}g[@id='axes_1']")


def test_every_picture_of_the_page_is_800_pixels_wide_and_drawn(html: str) -> None:
    found = [base64.b64decode(data) for data in re.findall(r'src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)"', html)]
    # scores, sweep thrice, retrievers, embedders, index, parsing thrice, two funnels, costs, experiments, three of judges, duplicates
    assert len(found) == 18
    for svg in found:
        root = parsed(svg)
        assert root.attrib["width"] == "599.76pt"  # 800 CSS pixels
        assert root.findtext(f"{SVG}title")
        assert root.findall(f".//{SVG}g[@id='axes_1']")


def test_a_picture_depends_on_its_rows_alone_and_not_on_their_order(row: Maker, sample: Tables) -> None:
    rows = sample["evidence_funnel"]["baseline"]
    assert pictures.funnel(rows) == pictures.funnel(list(reversed(rows)))
    assert pictures.funnel(rows) != pictures.funnel(rows[:-1])


def test_settings_of_the_process_do_not_reach_a_picture(row: Maker) -> None:
    import matplotlib as mpl

    rows = [row("chunks", tokens=n) for n in (12, 80, 81)]
    before = corpus_pictures.token_lengths(rows)
    with mpl.rc_context({"font.size": 30, "svg.fonttype": "none", "svg.hashsalt": "other", "axes.facecolor": "red"}):
        assert corpus_pictures.token_lengths(rows) == before
        assert mpl.rcParams["font.size"] == 30


@pytest.mark.filterwarnings("error")
def test_any_text_is_drawn_as_shapes(row: Maker) -> None:
    names = ["</title><script>alert(1)</script>", "$\\frac{1}{$", "a\x00b\x1b[31m", "日本語 🙂", "", "_hidden", "x" * 500, "--> & <"]
    for name in names[:3]:
        measured = {"metric": name, "unit": name, "mean": 0.5, "chunks": 3, "index_tokens": 300, "verdict": "best"}
        rows = [row("chunk_sweep", chunking=each, retriever=name, **measured) for each in names]
        assert not parsed(pictures.sweep_curve(rows)).findall(f".//{SVG}script")
    shared = {"recall_mean": 0.9, "distance_computations": 30.0, "selectivity": 1.0, "status": "scored"}
    parsed(pictures.ann_pareto({name: [row("ann_recall", index=name, setting=name, embedder=name, **shared)] for name in names}))


def test_values_without_interval_and_single_points_are_drawn(row: Maker) -> None:
    rows = [row("chunk_sweep", chunking="page", retriever="bm25", metric="nDCG", mean=0.0, chunks=1, index_tokens=1, verdict="undecided")]
    parsed(pictures.sweep_curve(rows))
    parsed(pictures.sweep_heat_map(rows))
    parsed(pictures.sweep_grid([rows[0] | {"chunking": "window-128-o16"}]))
    parsed(corpus_pictures.token_lengths([row("chunks", tokens=0)]))
    parsed(pictures.ann_pareto({"page": [row("ann_recall", status="scored", recall_mean=1.0, distance_computations=0.0)]}))


def test_large_grids_still_give_small_pictures(row: Maker) -> None:
    sweep = [
        row("chunk_sweep", chunking=f"{s}-{n}-o{n * o // 10}", retriever=f"retriever-{q}", metric="nDCG", k=10, cutoff="rank",
            unit="document", mean=0.3 + n / 4000 + 0.02 * o, lower=0.2 + n / 4000, upper=0.5 + n / 4000, chunks=100_000 // n,
            index_tokens=100_000, verdict="inferior")
        for s in ("recursive", "window", "sentence") for n in (64, 128, 192, 256, 384, 512, 768, 1024) for o in range(5) for q in range(6)
    ]  # fmt: skip
    ann = {
        f"recursive-{n}-o64": [
            row("ann_recall", embedder="minilm", index=i, setting=str(a), selectivity=s, k=10, recall_mean=0.5 + a / 200,
                distance_computations=10 + a * 13.7, status="scored")
            for i in ("hnsw", "ivf", "flat") for a in range(40) for s in (1.0, 0.3, 0.1, 0.01)
        ]
        for n in (128, 256, 512)
    }  # fmt: skip
    cer = {
        f"parser-{i}": [
            row("parse_quality", scope=scope, doc_id=str(d), doc_class=f"class-{k}", metric=metric, value=d % 17 / 100, errors=d % 17,
                units=100, documents=50, status="scored")
            for k in range(8) for d in range(50) for metric in ("cer", "teds") for scope in (("document", "class") if d == 3 else ("document",))
        ]
        for i in range(4)
    }  # fmt: skip
    summaries = {
        f"system-{s}": [
            row("system_summary", metric=f"a_rather_long_metric_{m}", cutoff="none", unit="question", stage="answer", split="release",
                slice="all", mean=m / 20, lower=m / 20, upper=m / 20 + 0.05, questions=9)
            for m in range(20)
        ]
        for s in range(12)
    }  # fmt: skip
    for svg in (
        pictures.sweep_curve(sweep), pictures.sweep_heat_map(sweep), pictures.sweep_grid(sweep), pictures.ann_pareto(ann), corpus_pictures.cer_by_class(cer), corpus_pictures.teds_distribution(cer),
        pictures.scores_with_intervals(summaries),
    ):  # fmt: skip
        parsed(svg)


def test_a_chart_is_drawn_once_of_the_same_rows_and_anew_of_others(row: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(canvas, "_drawn", {})

    def draw(title: str, *_: object) -> bytes:
        drawn.append(title)
        return b"<svg>%d" % len(drawn)

    monkeypatch.setattr(canvas, "draw", draw)
    rows = [row("ann_recall", status="scored", recall_mean=1.0, distance_computations=float(n)) for n in (3, 5)]
    first, again = (pictures.ann_pareto({"page": [dict(r) for r in rows]}) for _ in range(2))
    assert (first, again, len(drawn)) == (b"<svg>1", b"<svg>1", 1)
    rows[1]["recall_mean"] = 0.5
    assert pictures.ann_pareto({"page": rows}) == b"<svg>2"
    assert pictures.funnel([]) not in (b"<svg>1", b"<svg>2")


def test_a_picture_in_markdown_carries_its_own_bytes(row: Maker) -> None:
    svg = pictures.funnel([])
    markdown = canvas.as_markdown(svg, "Where [evidence]\nwas lost")
    found = re.fullmatch(r"!\[Where \\\[evidence\\\] was lost\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", markdown)
    assert found
    assert base64.b64decode(found[1]) == svg


def test_colours_that_change_with_the_reader_s_scheme_have_a_light_and_a_dark_form() -> None:
    svg = pictures.funnel([]).decode()
    assert "prefers-color-scheme:dark" in svg
    assert '[style*="fill: #1b1f24"]{fill:#e6e9ed!important}' in svg
    assert "fill: #1b1f24" in svg.split("</style>", 1)[1]
