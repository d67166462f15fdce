"""Judges on the page and as pictures: their audit against people, their preferences between two systems, and rates corrected for them.

What belongs here: rows of judge_audit, preferences, preference_summary and corrected_rates as they are shown. What does not: how they come
about (`scoring.judges`, `scoring.preference`, `scoring.corrected`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ingestion.rates import clopper_pearson
from rag_eval_assets.report import canvas, formats
from rag_eval_assets.report.facts import Row, Rows
from rag_eval_assets.report.pieces import QUOTED, Tables, Values, parts_of, picture, reason, rows_of
from rag_eval_assets.tables import SCORED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AUDITED = {"accuracy": "accuracy", "false_approval_rate": "false approvals", "false_rejection_rate": "false rejections"}
"""Measures of an audit that are drawn, with their names: the share of labels agreed with, of rejected labels approved, and of approved
labels rejected."""

_CANDIDATE, _TIE, _OTHER = "candidate", "tie", "other"
_VERDICTS = {_CANDIDATE: "candidate better", _TIE: "neither", _OTHER: "other better"}
_ORDERS = {"when_first": "candidate first", "when_second": "candidate second"}
_MOST_LINES = 16
_AUDIT, _PREFERENCES, _CORRECTED = "Judges against people", "Preferences between two systems", "Rates corrected for the judge"
_NAME = 46


def judges(tables: Tables, split: str) -> Values:
    """Audits, preferences and corrected rates with their pictures; empty lists where no judge has any."""
    audit = [r for r in rows_of(tables, "judge_audit") if r["reason"] != "no_judge"]
    compared = [r for r in rows_of(tables, "preferences") if r["split"] == split]
    summary = [r for r in rows_of(tables, "preference_summary") if r["split"] == split]
    corrected = {s: [r for r in rows if r["split"] == split] for s, rows in parts_of(tables, "corrected_rates").items()}
    return {
        "audits": _audits(audit),
        "audit_picture": picture(audit_rates(audit), _AUDIT, "Shares of human labels with 95% intervals. A judge without a passing audit "
                                "may report, and gates nothing.") if _audited(audit) else None,
        "preferences": _preferences(summary),
        "preference_picture": picture(preference_bars(compared, summary), _PREFERENCES, "Verdicts with the candidate's answer in first and "
                                     "in second place. Where the two bars differ, the place decides and not the answer.")
        if _pairs(compared) else None,
        "corrected": [_corrected(system, row) for system, rows in corrected.items() for row in rows],
        "corrected_picture": picture(corrected_intervals(corrected), _CORRECTED, "What the judge approves, and what people would approve "
                                    "by the judge's errors on human labels; both with 95% intervals.")
        if _estimated(corrected) else None,
    }  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- audit
def _audited(rows: Rows) -> list[tuple[str, str]]:
    """(judge, metric) pairs with a rate, sorted."""
    return sorted({(r["judge"], r["metric"]) for r in rows if r["measure"] in AUDITED and formats.is_number(r["value"])})


def _audits(rows: Rows) -> list[Values]:
    known = {(r["judge"], r["metric"], r["measure"]): r for r in rows}
    lines = []
    for judge, metric in sorted({(r["judge"], r["metric"]) for r in rows}):
        found = {measure: known.get((judge, metric, measure)) for measure in (*AUDITED, "kappa", "cost")}
        first = next(r for r in rows if (r["judge"], r["metric"]) == (judge, metric))
        lines.append(
            {
                "judge": formats.readable(judge, QUOTED),
                "metric": formats.metric_name(metric),
                "may_gate": any(r["may_gate"] for r in rows if (r["judge"], r["metric"]) == (judge, metric)),
                "why": "" if any(r and r["status"] == SCORED for r in found.values()) else reason(first["reason"]),
                "rates": [_rate(found[measure]) for measure in AUDITED],
                "labels": formats.count((found["accuracy"] or first)["labels"]),
                "kappa": formats.fixed((found["kappa"] or {}).get("value"), 2),
                "cost": formats.plain((found["cost"] or {}).get("value")),
            }
        )
    return lines


def _rate(row: Row | None) -> tuple[str, str]:
    return (formats.percent(row["value"]), formats.interval(row["lower"], row["upper"])) if row else (formats.DASH, "")


@canvas.drawn_once
def audit_rates(rows: Rows) -> bytes:
    """judge_audit rows: accuracy, false approvals and false rejections of each judge and metric, with 95% intervals."""
    pairs = _audited(rows)
    if not pairs:
        return canvas.nothing(_AUDIT, "no judge was audited")
    shown = pairs[:_MOST_LINES]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for i, (measure, name) in enumerate(AUDITED.items()):
            own = [(shown.index((r["judge"], r["metric"])), r) for r in rows
                   if r["measure"] == measure and formats.is_number(r["value"]) and (r["judge"], r["metric"]) in shown]  # fmt: skip
            own.sort(key=lambda found: found[0])
            look = canvas.look(i) | {"linestyle": "none", "capsize": 2.5}
            axes.errorbar(
                [r["value"] for _, r in own], [place + 0.22 * (i - 1) for place, _ in own],
                xerr=canvas.errors([r for _, r in own], "value"), label=name, **look,
            )  # fmt: skip
        _lines(axes, [f"{judge}, {metric.replace('_', ' ')}" for judge, metric in shown])
        axes.set_xlabel("share of human labels (%), with its 95% interval")
        canvas.legend(figure, [axes])
        canvas.say(figure, canvas.left_out((len(shown), len(pairs), "judges")))

    return canvas.draw(_AUDIT, 1.15 + 0.5 * len(shown), paint)


# --------------------------------------------------------------------------------------------------------- preferences
def _pairs(rows: Rows) -> list[tuple[str, str, str]]:
    return sorted({(r["judge"], r["candidate"], r["other"]) for r in rows if r["status"] == SCORED})


def _preferences(summary: Rows) -> list[Values]:
    known = {(r["judge"], r["candidate"], r["other"], r["measure"]): r for r in summary}
    lines = []
    for judge, candidate, other in sorted({(r["judge"], r["candidate"], r["other"]) for r in summary}):
        found = {m: known.get((judge, candidate, other, m)) for m in ("win_rate_first", "win_rate_second", "swap_consistency", "win_rate")}
        first = found["win_rate_first"] or next(iter(r for r in summary if r["judge"] == judge))
        both = found["win_rate"]
        lines.append(
            {
                "judge": formats.readable(judge, QUOTED),
                "candidate": formats.readable(candidate, QUOTED),
                "other": formats.readable(other, QUOTED),
                "rates": [_rate(row) for row in found.values()],
                "questions": formats.count(first["questions"]),
                "failed": formats.count(first["failed"]),
                "why": reason(both["reason"]) if both and both["status"] != SCORED else "",
            }
        )
    return lines


@canvas.drawn_once
def preference_bars(rows: Rows, summary: Rows) -> bytes:
    """preferences rows of one split: shares of verdicts for the candidate, neither and the other, one bar for each order of each pair;
    beside each pair its swap consistency from preference_summary."""
    pairs = _pairs(rows)
    if not pairs:
        return canvas.nothing(_PREFERENCES, "no pair of answers was judged")
    shown = pairs[: _MOST_LINES // 2]
    consistency = {
        (r["judge"], r["candidate"], r["other"]): r for r in summary if r["measure"] == "swap_consistency" and formats.is_number(r["value"])
    }

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        names = []
        for at, pair in enumerate(shown):
            own = [r for r in rows if (r["judge"], r["candidate"], r["other"]) == pair and r["status"] == SCORED]
            for order, (column, said) in enumerate(_ORDERS.items()):
                counts, left, place = Counter(r[column] for r in own), 0.0, 2.4 * at + order
                for i, verdict in enumerate(_VERDICTS):
                    share = counts[verdict] / len(own)
                    colour = canvas.COLOURS[(0, 7, 1)[i]]
                    axes.barh(place, share, left=left, height=0.7, color=colour, alpha=0.75, label=_VERDICTS[verdict])
                    if share >= 0.06:
                        axes.text(left + share / 2, place, str(counts[verdict]), ha="center", va="center", fontsize=8.5, color=canvas.INK)
                    left += share
                names.append((place, f"{formats.label(pair[1], 14)} : {formats.label(pair[2], 14)}, {said}"))
            found = consistency.get(pair)
            told = "order not compared"
            if found:
                told = f"same verdict\nin both orders:\n{formats.percent(found['value'], 0)} of {found['questions']}"
            axes.text(1.02, 2.4 * at + 0.5, f"{formats.label(pair[0], 16)}\n{told}", va="center", fontsize=8.5, color=canvas.MUTED)
        axes.set_yticks([place for place, _ in names], [name for _, name in names])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(2.4 * len(shown) - 0.8, -0.6)
        axes.set_xlim(0, 1.24)
        axes.grid(visible=False, axis="y")
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        canvas.percent_axis(axes, "x")
        axes.set_xlabel("share of verdicts (%); the numbers count questions")
        canvas.legend(figure, [axes])
        canvas.say(figure, canvas.left_out((len(shown), len(pairs), "pairs")))

    return canvas.draw(_PREFERENCES, 1.15 + 0.72 * len(shown), paint)


# ----------------------------------------------------------------------------------------------------- corrected rates
def _raw(row: Row) -> Row:
    """The uncorrected rate as a value with its exact interval."""
    lower, upper = clopper_pearson(round(row["apparent"] * row["questions"]), row["questions"])
    return {"value": row["apparent"], "lower": lower, "upper": upper}


def _estimated(by_system: dict[str, Rows]) -> list[tuple[str, Row]]:
    return [(s, r) for s, rows in sorted(by_system.items()) for r in sorted(rows, key=lambda r: (r["metric"], r["split"]))
            if r["status"] == SCORED]  # fmt: skip


def _corrected(system: str, row: Row) -> Values:
    measured = formats.is_number(row["apparent"])
    return {
        "system": formats.readable(system, QUOTED),
        "metric": " @ ".join(map(formats.metric_name, row["metric"].split("@"))),
        "raw": _rate(_raw(row)) if measured else (formats.DASH, ""),
        "corrected": _rate(row),
        "why": "" if row["status"] == SCORED else reason(row["reason"]),
        "sensitivity": f"{formats.percent(row['sensitivity'])} of {formats.count(row['approved_labels'])}",
        "specificity": f"{formats.percent(row['specificity'])} of {formats.count(row['rejected_labels'])}",
        "questions": formats.count(row["questions"]),
        "method": row["method"],
    }


@canvas.drawn_once
def corrected_intervals(by_system: dict[str, Rows]) -> bytes:
    """corrected_rates rows by system: the judge's rate beside the corrected one, both with 95% intervals."""
    found = _estimated(by_system)
    if not found:
        return canvas.nothing(_CORRECTED, "no rate could be corrected")
    shown = found[:_MOST_LINES]
    splits = len({r["split"] for _, r in shown}) > 1

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for i, (name, rows) in enumerate((("as judged", [_raw(r) for _, r in shown]), ("corrected", [r for _, r in shown]))):
            look = canvas.look(i) | {"linestyle": "none", "capsize": 2.5, "label": name}
            places = [at + 0.3 * (i - 0.5) for at in range(len(shown))]
            axes.errorbar([r["value"] for r in rows], places, xerr=canvas.errors(rows, "value"), **look)
        _lines(axes, [f"{system + ', ' if system else ''}{r['metric']}{', ' + r['split'] if splits else ''}" for system, r in shown])
        axes.set_xlabel("share of answers approved (%), with its 95% interval")
        canvas.legend(figure, [axes])
        canvas.say(figure, canvas.left_out((len(shown), len(found), "rates")))

    return canvas.draw(_CORRECTED, 1.15 + 0.45 * len(shown), paint)


def _lines(axes: Axes, names: list[str]) -> None:
    """One line a name, the first on top, over an axis of shares."""
    axes.set_yticks(range(len(names)), [formats.label(name, _NAME) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    canvas.percent_axis(axes, "x")
