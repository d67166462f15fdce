"""Chunkings compared on development questions, and the recommended one, or undecided.

What belongs here: the paired comparison and its decision rule, set before looking. What does not: scores, and the release split, which
steers no choice and is not read here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.scoring.chunk_quality import COSTS
from rag_eval_assets.scoring.intervals import bounded_mean, paired_difference
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, REASONS, SCORED

Measure = tuple[str, int, str, str]
"""Metric, k, what k counts, unit."""

Costs = Mapping[str, Mapping[str, tuple[int | None, int]]]
"""Chunking -> embedder -> (tokens embedded, None where they are not known; bytes of vectors)."""

BEST, RECOMMENDED, NON_INFERIOR, INFERIOR, UNDECIDED = "best", "recommended", "non_inferior", "inferior", "undecided"


def chunk_sweep(
    scores: Mapping[str, pa.Table],
    sizes: Mapping[str, Mapping[str, int]],
    *,
    metric: str,
    k: int,
    margin: float,
    minimum_questions: int,
    costs: Costs | None = None,
    embedders: Mapping[str, Sequence[str]] | None = None,
) -> list[dict[str, Any]]:
    """Rows of chunk_sweep from the retrieval_scores of every chunking; `sizes` holds chunks, index_tokens, size and overlap of each.

    Reported: nDCG@10 and R@10 by document, recall of evidence groups at each k, recall of groups and nDCG by document at each token
    budget, and the deciding `metric` at `k` by document. `costs` and `embedders` (of each retriever) say what its vectors cost. Failed
    and missing questions count 0. A chunking is non-inferior if the 95% interval of its paired difference to the best stays above
    -margin. Recommended is the smallest, then least overlapping, of the best and those; under `minimum_questions` questions every verdict
    is undecided. Only the deciding measure carries verdicts; where it was not scored, its rows say so.
    """
    read = {chunking: _development(table) for chunking, table in sorted(scores.items())}
    deciding: Measure = (metric, k, "rank", "document")
    wanted = {deciding, ("nDCG", 10, "rank", "document"), ("R", 10, "rank", "document")}
    rows = []
    for retriever in sorted({key[0] for found in read.values() for key in found}):
        measures = {key[1] for found in read.values() for key in found if key[0] == retriever}
        for measure in sorted(measures | {deciding}):
            if measure in wanted or (measure[0], measure[3]) == ("R", "group") or (measure[0], measure[2]) == ("nDCG", "tokens"):
                own = {
                    chunking: found.get((retriever, measure), _Scores())
                    for chunking, found in read.items()
                    if any(key[0] == retriever for key in found)
                }
                rows += _compare(retriever, measure, own, sizes, margin, minimum_questions, decides=measure == deciding)
    return [row | _vectors(row, costs or {}, embedders or {}) for row in rows]


def index_sizes(chunks: Mapping[str, pa.Table], points: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    """`sizes` of `chunk_sweep` from rows of chunks (tokens) and the size and overlap of each chunking."""
    tokens = {key: pc.sum(table["tokens"]).as_py() or 0 for key, table in chunks.items()}
    facts = {key: (table.num_rows, tokens[key], *points[key]) for key, table in chunks.items()}
    return {key: dict(zip(("chunks", "index_tokens", "size", "overlap"), found, strict=True)) for key, found in facts.items()}


def vector_costs(chunk_quality: pa.Table) -> dict[str, tuple[int | None, int]]:
    """Embedder -> (tokens embedded, None where they are not known; bytes of vectors), read off rows of chunk_quality."""
    rows = chunk_quality.filter(pc.is_in(chunk_quality["measure"], pa.array(COSTS))).to_pylist()
    value = {(r["scope"], r["measure"]): int(r["value"]) for r in rows if r["value"] is not None}
    tokens, size = COSTS
    return {scope.removeprefix("embedder="): (value.get((scope, tokens)), value[scope, size]) for scope, name in value if name == size}


def _vectors(row: Mapping[str, Any], costs: Costs, embedders: Mapping[str, Sequence[str]]) -> dict[str, int | None]:
    """Cost of the retriever's embedders over the row's chunking: 0 without one, null where one embedded nothing or does not tell."""
    found = [costs.get(row["chunking"], {}).get(name) for name in embedders.get(row["retriever"], ())]
    known = [cost for cost in found if cost is not None]
    if len(known) < len(found):
        return {"embedding_tokens": None, "vector_bytes": None}
    tokens = [read for read, _ in known if read is not None]
    return {"embedding_tokens": sum(tokens) if len(tokens) == len(known) else None, "vector_bytes": sum(size for _, size in known)}


class _Scores(dict[str, float]):
    """Scores by question, with the number that failed or were missing, and why where there are none."""

    failed: int = 0
    reason: str | None = None


def _development(table: pa.Table) -> dict[tuple[str, Measure], _Scores]:
    table = table.filter(pc.equal(table["split"], "development"))
    found: dict[tuple[str, Measure], _Scores] = {}
    names = ("retriever", "metric", "k", "cutoff", "unit", "question_id", "value", "status", "reason")
    for lane, metric, k, cutoff, unit, question, value, status, reason in zip(*(table[n].to_pylist() for n in names), strict=True):
        own = found.setdefault((lane, (metric, k, cutoff, unit)), _Scores())
        if status == SCORED:
            own[question] = value
        elif status in (FAILED, MISSING):
            own[question] = 0.0
            own.failed += 1
        elif status == NOT_APPLICABLE:
            own.reason = reason
    return found


def _compare(
    retriever: str,
    measure: Measure,
    scores: Mapping[str, _Scores],
    sizes: Mapping[str, Mapping[str, int]],
    margin: float,
    minimum_questions: int,
    *,
    decides: bool,
) -> list[dict[str, Any]]:
    means = {c: float(np.mean(list(own.values()))) for c, own in scores.items() if own}
    order = sorted(means, key=lambda c: _size(c, sizes))
    best = max(order, key=lambda c: means[c]) if order else None
    differences = {c: _difference(scores[c], scores[best]) for c in order if best is not None}
    paired = min((n for _, n, _ in differences.values()), default=0)
    enough = paired >= minimum_questions
    verdicts = {c: _verdict(c == best, d[2], margin) if enough else UNDECIDED for c, d in differences.items()}
    good = [c for c in order if verdicts[c] in (BEST, NON_INFERIOR)]
    chosen = good[0] if good else None
    rows = []
    for chunking, own in scores.items():
        nothing = (None, 0, (None, None))  # the best differs from itself by nothing, and no interval is about that
        difference, _, limits = nothing if chunking == best else differences.get(chunking, nothing)
        lower, upper = bounded_mean(list(own.values())) if own else (None, None)
        verdict = RECOMMENDED if chunking == chosen else verdicts.get(chunking, UNDECIDED)
        rows.append(
            {
                "chunking": chunking,
                "retriever": retriever,
                "metric": measure[0],
                "k": measure[1],
                "cutoff": measure[2],
                "unit": measure[3],
                "questions": len(own),
                "failed": own.failed,
                "mean": means.get(chunking),
                "lower": lower,
                "upper": upper,
                "difference": difference,
                "difference_lower": limits[0],
                "difference_upper": limits[1],
                "chunks": sizes[chunking]["chunks"],
                "index_tokens": sizes[chunking]["index_tokens"],
                "embedding_tokens": None,
                "vector_bytes": None,
                "verdict": verdict if decides else "",
                "detail": _detail(chunking, own, best, paired, enough, chosen, margin, minimum_questions) if decides else None,
            }
        )
    return rows


def _difference(own: Mapping[str, float], best: Mapping[str, float]) -> tuple[float, int, tuple[float, float]]:
    shared = sorted(own.keys() & best.keys())
    a: npt.NDArray[np.float64] = np.array([own[q] for q in shared])
    b: npt.NDArray[np.float64] = np.array([best[q] for q in shared])
    return float((a - b).mean()) if shared else 0.0, len(shared), paired_difference(a, b)


def _verdict(is_best: bool, limits: tuple[float, float], margin: float) -> str:
    if is_best:
        return BEST
    if limits[0] >= -margin:
        return NON_INFERIOR
    return INFERIOR if limits[1] < 0 else UNDECIDED


def _size(chunking: str, sizes: Mapping[str, Mapping[str, int]]) -> tuple[float, int, str]:
    """Order of preference: size in tokens (the mean length where the strategy takes no size), overlap, name."""
    own = sizes[chunking]
    return own["size"] or own["index_tokens"] / max(1, own["chunks"]), own["overlap"], chunking


def _detail(
    chunking: str,
    own: _Scores,
    best: str | None,
    paired: int,
    enough: bool,
    chosen: str | None,
    margin: float,
    minimum_questions: int,
) -> str | None:
    if not own:
        return REASONS[own.reason] if own.reason else "not scored on any development question: is its k among the cut-offs scored?"
    if not enough:
        return f"undecided: {paired} development questions, {minimum_questions} are wanted"
    if chunking != chosen:
        return None
    reason = "the best" if chunking == best else f"non-inferior to {best} within {margin:g}"
    return f"smallest, least overlapping setting that is {reason}, on {paired} development questions"
