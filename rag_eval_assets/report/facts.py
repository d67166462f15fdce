"""What a picture or a section shows of a table: selecting, ordering and counting rows.

What belongs here: pure functions from rows to small facts that pictures and page share, so that both say the same. What does
not: scores, intervals and decisions (they are read from the rows as they stand) and how a number is printed (`formats`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rag_eval_assets.partitions import parse_chunking
from rag_eval_assets.tables import NOT_APPLICABLE, OK, SCORED, SPLITS, STAGES

Row = Mapping[str, Any]
Rows = Sequence[Row]

DECISIONS = ("FAIL", "INSUFFICIENT_EVIDENCE", "PASS")
"""Decisions of a gate, worst first."""

HEADLINE_RANK = 10
NOT_IMPLICATED = ("", "none")
"""Labels of the diagnosis of a question that did not fail."""

_SCORED_STAGES = ("ranking", "context", "answer", "citations")
_METRIC_ORDER = ("correct", "nDCG", "R", "RR", "AP", "Success", "P")
_KEY_MEASURES = (
    ("nDCG", "document"),
    ("R", "group"),
    ("context_recall", "group"),
    ("R", "document"),
    ("refusal_correct", "question"),
    ("citation_validity", "question"),
    ("token_f1", "question"),
    ("RR", "document"),
)


# ------------------------------------------------------------------------------------------------------------- scores
def headline_split(summaries: Iterable[Rows]) -> str:
    """The split the page is about: release where it was scored, else the first of SPLITS that was."""
    seen = {row["split"] for rows in summaries for row in rows if row["questions"]}
    order = ("release", *SPLITS)
    return next((split for split in order if split in seen), "release")


def _place(value: str, order: Sequence[str]) -> int:
    return order.index(value) if value in order else len(order)


def _score_order(row: Row) -> tuple[Any, ...]:
    return (
        _place(row["stage"], _SCORED_STAGES), _place(row["metric"], _METRIC_ORDER), row["metric"], row["cutoff"] == "tokens",
        _place(row["unit"], ("document", "group", "chunk", "question")), row["k"],
    )  # fmt: skip


def whole_split(rows: Rows, split: str) -> list[Row]:
    """Summary rows over all questions of a split, in reading order."""
    return sorted((r for r in rows if r["split"] == split and r["slice"] == "all"), key=_score_order)


def rank_cutoff(rows: Rows) -> int:
    """The cut-off shown first: 10, or the largest below it, or the smallest there is; 0 where nothing is cut by rank."""
    ks = {r["k"] for r in rows if r["cutoff"] == "rank" and r["k"] > 0}
    return max((k for k in ks if k <= HEADLINE_RANK), default=min(ks, default=0))


def headline(rows: Rows, split: str) -> list[Row]:
    """Measures of the whole split that a reader looks at first: one cut-off, no chunk units, none that applies nowhere.

    Precision is left to the full list: with one relevant document a question it says what recall says, divided by k.
    """
    whole = whole_split(rows, split)
    k = rank_cutoff(whole)
    cut = {(r["metric"], r["unit"]) for r in whole if r["k"] == k and r["cutoff"] == "rank"}
    first = [r for r in whole if is_headline(r, k) and (r["k"] or (r["metric"], r["unit"]) not in cut)]
    return [r for r in first if r["questions"] or r["failed"] or r["missing"]]


def is_headline(row: Row, k: int) -> bool:
    """Whether a measure is one a reader looks at first, `k` being the cut-off shown."""
    return row["cutoff"] != "tokens" and row["unit"] != "chunk" and row["metric"] != "P" and row["k"] in (0, k)


def key_measures(rows: Rows, split: str, pass_metric: str, most: int = 4) -> list[Row]:
    """The few headline rows that stand for a system: what it got right first, then how well it found and cited."""
    found = {(r["metric"], r["unit"]): r for r in headline(rows, split)}
    wanted = [(pass_metric, "question"), *_KEY_MEASURES]
    chosen = [found[key] for key in dict.fromkeys(wanted) if key in found]
    return chosen[:most]


def measure_key(row: Row) -> tuple[str, int, str, str]:
    """What makes two score rows the same measure."""
    return row["metric"], row["k"], row["cutoff"], row["unit"]


def in_score_order(rows_by_system: Mapping[str, Rows]) -> list[tuple[tuple[str, int, str, str], dict[str, Row]]]:
    """Measures in reading order, each with its row under every system that has it."""
    order: dict[tuple[str, int, str, str], tuple[Any, ...]] = {}
    found: dict[tuple[str, int, str, str], dict[str, Row]] = defaultdict(dict)
    for system in sorted(rows_by_system):
        for row in rows_by_system[system]:
            order[measure_key(row)] = _score_order(row)
            found[measure_key(row)][system] = row
    return [(key, found[key]) for key in sorted(order, key=lambda key: order[key])]


# --------------------------------------------------------------------------------------------------------------- sweep
@dataclass(frozen=True, order=True)
class Measure:
    """One measure of the chunk sweep."""

    metric: str
    k: int
    cutoff: str
    unit: str


def deciding(rows: Rows) -> tuple[Measure | None, list[Row]]:
    """The measure the sweep decides on (its rows carry a verdict) and its rows; nDCG@10 by document where none does."""
    by_measure: dict[Measure, list[Row]] = defaultdict(list)
    for row in rows:
        by_measure[Measure(row["metric"], row["k"], row["cutoff"], row["unit"])].append(row)
    if not by_measure:
        return None, []
    decides = sorted(m for m, own in by_measure.items() if any(r["verdict"] for r in own))
    usual = Measure("nDCG", HEADLINE_RANK, "rank", "document")
    measure = decides[0] if decides else usual if usual in by_measure else min(by_measure)
    return measure, sorted(by_measure[measure], key=lambda r: (r["retriever"], r["chunking"]))


def tokens_per_chunk(row: Row) -> float | None:
    """Mean tokens of a chunk: the length that was got, which exists for every strategy, not the length that was asked for."""
    return row["index_tokens"] / row["chunks"] if row["chunks"] and row["index_tokens"] else None


def chunking_size(key: str) -> int:
    """The size in tokens that a chunking asks for; 0 where it asks for none."""
    try:
        return parse_chunking(key).size
    except ValueError:
        return 0


def chunking_series(key: str) -> str:
    """The line a chunking belongs to in a curve over lengths: its strategy and its overlap as a share of its size."""
    try:
        chunking = parse_chunking(key)
    except ValueError:
        return key
    if not chunking.size:
        return chunking.strategy
    return f"{chunking.strategy}, {round(100 * chunking.overlap / chunking.size)}% overlap"


# ----------------------------------------------------------------------------------------------------------------- ANN
def pareto(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of (cost, recall) points those that no other point beats on both, by rising cost."""
    front: list[tuple[float, float]] = []
    for cost, recall in sorted(points, key=lambda p: (p[0], -p[1])):
        if not front or recall > front[-1][1]:
            front.append((cost, recall))
    return front


def scored_ann(rows: Rows) -> list[Row]:
    """ANN rows that have both coordinates of the Pareto picture; a filter is drawn as the retriever applies it, within the search."""
    scored = [r for r in rows if r["status"] == SCORED and r["recall_mean"] is not None and r["filtering"] != "post"]
    return [r for r in scored if r["distance_computations"] is not None]


# ------------------------------------------------------------------------------------------------------------- parsing
@dataclass(frozen=True)
class ParseFigures:
    """How one parser reads one class or stratum of documents: its scored rows by metric, and what stands behind them."""

    group: str
    parser: str
    documents: int
    figures: Mapping[str, Row]
    length_ratio: tuple[float, float] | None
    each_cer: tuple[float, ...]
    each_teds: tuple[float, ...]
    lost: tuple[Row, ...]

    def value(self, metric: str) -> float | None:
        """The group's figure; None where nothing was scored."""
        row = self.figures.get(metric)
        return row["value"] if row else None

    @property
    def with_reference(self) -> int:
        """Documents behind the error rate."""
        row = self.figures.get("cer")
        return row["documents"] if row else 0


def parse_figures(rows_by_parser: Mapping[str, Rows], by: Literal["class", "stratum"] = "class") -> list[ParseFigures]:
    """Quality of every (class, parser), or of every (stratum, parser), by group, then parser."""
    column = "doc_class" if by == "class" else "stratum"
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for parser in sorted(rows_by_parser):
        for row in rows_by_parser[parser]:
            if row["scope"] in ("document", by) and row[column]:
                groups[row[column], parser].append(row)
    figures = []
    for (group, parser), rows in sorted(groups.items()):
        own = sorted((r for r in rows if r["scope"] == "document"), key=lambda r: (r["doc_id"], r["item"]))
        each: dict[str, list[float]] = defaultdict(list)
        for row in own:
            if row["status"] == SCORED and row["value"] is not None:
                each[row["metric"]].append(row["value"])
        ratios = each["length_ratio"]
        figures.append(
            ParseFigures(
                group=group,
                parser=parser,
                documents=len({r["doc_id"] for r in own}),
                figures={r["metric"]: r for r in rows if r["scope"] == by and r["status"] == SCORED},
                length_ratio=(min(ratios), max(ratios)) if ratios else None,
                each_cer=tuple(each["cer"]),
                each_teds=tuple(each["teds"]),
                lost=tuple(r for r in own if r["metric"] == "quotation_lost"),
            )
        )
    return figures


def located_after(evidence: Rows, documents: Rows) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """By (class, parser of the text): distinct golden quotations, and how many of them still stand after parsing, cleaning and dedup."""
    home = {d["doc_id"]: (d["doc_class"], d["parser"]) for d in documents if d["parser"]}
    gone = {"parsed": 1, "cleaned": 2, "kept": 3}
    first_lost: dict[tuple[str, str], int] = {}
    for row in evidence:
        if row["quotation"] and row["doc_id"] in home:
            quotation = (row["doc_id"], row["quotation"])
            first_lost[quotation] = min(first_lost.get(quotation, 4), gone.get(row["lost_at"], 1) if row["lost_at"] else 4)
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for (doc_id, _), lost in first_lost.items():
        count = counts[home[doc_id]]
        for stage in range(lost):
            count[stage] += 1
    return {key: (c[0], c[1], c[2], c[3]) for key, c in sorted(counts.items())}


# -------------------------------------------------------------------------------------------------------------- funnel
@dataclass(frozen=True)
class Stage:
    """A stage of the evidence funnel: evidence groups that came out of it, that it lost, of which that is not known; what to open."""

    name: str
    open_next: str
    reached: int
    lost: int
    unknown: int = 0


def funnel_stages(rows: Rows) -> tuple[list[Stage], dict[tuple[str, str], int]]:
    """The stages in order, and by (status, reason) the rows that could not be followed. KeyError for a stage not in STAGES."""
    followed = [r for r in rows if r["status"] == OK]
    place = {name: i for i, name in enumerate(STAGES)}
    lost = Counter(place[r["lost_at"]] for r in followed if r["lost_at"])
    # Lost nowhere, yet not followed to the last stage: where no answer is due, nobody knows whether the evidence led to one.
    unknown = Counter(place[r["furthest"]] + 1 for r in followed if not r["lost_at"] and r["furthest"] in place)
    stages, left = [], len(followed)
    for i, (name, table) in enumerate(STAGES.items()):
        left -= lost[i] + unknown[i]
        stages.append(Stage(name, table, left, lost[i], unknown[i]))
    others = Counter((r["status"], r["reason"] or "") for r in rows if r["status"] != OK)
    return (stages if followed else []), dict(sorted(others.items()))


def stage_name(name: str | None) -> str:
    """A stage as it is printed."""
    return (name or "").replace("_", " ")


# ------------------------------------------------------------------------------------------------------------ failures
def failed_questions(scores: Rows, diagnosis: Rows, funnel: Rows, split: str, pass_metric: str) -> tuple[list[str], str]:
    """Failed questions of a split, and what says so: "score", "diagnosis" or "funnel".

    The pass metric says it where it applies to any question: a value below 1, or no value where one was due. Else the diagnosis
    does; and where no answer can be checked, as with labels on documents alone, questions whose evidence never reached the context.
    """
    due = [r for r in scores if r["split"] == split and r["metric"] == pass_metric and r["status"] != NOT_APPLICABLE]
    if due:
        return sorted({r["question_id"] for r in due if r["value"] is None or not r["value"] >= 1}), "score"
    diagnosed = {r["question_id"] for r in diagnosis if r["split"] == split and r["label"] not in NOT_IMPLICATED}
    if diagnosed:
        return sorted(diagnosed), "diagnosis"
    followed = [r for r in funnel if r["split"] == split and r["status"] == OK]
    return sorted({r["question_id"] for r in followed if r["lost_at"] not in (None, "answered")}), "funnel"
