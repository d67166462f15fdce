"""Baselines: keeps a system's scores with the identities they were made under, and compares a system with one of them.

What does not belong here: the rules of a comparison (`scoring.comparison`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_eval_assets.assets.release import identities
from rag_eval_assets.baselines import read_baselines, save_baseline
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.scoring.comparison import compare
from rag_eval_assets.settings import Folder, sound_policy
from rag_eval_assets.storage.staleness import evaluate
from rag_eval_assets.storage.sync import open_catalogue, rescan_roots
from rag_eval_assets.storage.versions import canonical_json


def save_snapshot(folder: Folder, name: str, system: str, *, policy: Path | None = None, replace: bool = False) -> Path:
    """Save the scores of `system` as baselines/<name>.parquet, for comparisons under `policy` (that of the settings without it) alone.

    Raises LookupError for an unknown system, FileNotFoundError for an unscored one, FileExistsError for a name that is taken, unless
    `replace`.
    """
    scores, _, made_under = _scored(folder, system, _policy(folder, policy))
    rows = [
        {
            "baseline": name,
            "system": system,
            **{k: row[k] for k in ("question_id", "split", "metric", "k", "cutoff", "unit", "value", "status", "reason")},
            "identities": canonical_json(made_under),
        }
        for row in scores.to_pylist()
    ]
    return save_baseline(folder.baselines, name, rows, replace=replace)


def compare_with_snapshot(folder: Folder, candidate: str, baseline: str, policy: Path | None = None) -> list[dict[str, Any]]:
    """Rows of comparison of a system's last scores with one baseline, of whatever system, under a policy file.

    Without `policy` that of the settings is used. Raises LookupError for an unknown system or baseline, or where there is no policy at
    all; FileNotFoundError for an unscored system; RuntimeError where its scores are stale.
    """
    rules = _policy(folder, policy)
    if rules is None:
        raise LookupError("no policy: pass --policy FILE, or name one in evaluation.yaml (data/policy.yaml is an example)")
    scores, questions, made_under = _scored(folder, candidate, rules)
    saved = [row for row in read_baselines(folder.baselines) if row["baseline"] == baseline]
    if not saved:
        known = sorted(path.stem for path in folder.baselines.glob("*.parquet"))
        raise LookupError(f"no baseline {baseline!r}; known: {', '.join(known) or 'none'}")
    if told := stale(folder, AssetPartition("system_scores", candidate)):
        raise RuntimeError(f"{told}: run 'rag-eval sync' first")
    return compare(scores.to_pylist(), saved, questions.to_pylist(), made_under, rules)


def stale(folder: Folder, wanted: AssetPartition) -> str | None:
    """What an asset partition is made from, or it itself, that is stale, and why; None where all is fresh."""
    graph, catalogue = Graph(folder), open_catalogue(folder)
    statuses = evaluate(graph, catalogue, {node: finished.data_version for node, finished in rescan_roots(graph, catalogue).items()})
    seen, waiting = {wanted}, [wanted]
    while waiting:
        node = waiting.pop()
        if reasons := statuses[node].reasons:
            return f"{wanted} stands on {node}, which is stale ({'; '.join(reasons[:2])})"
        above = sorted(set(graph.upstream(node)) - seen, key=str)
        seen.update(above)
        waiting += above
    return None


def _policy(folder: Folder, path: Path | None) -> dict[str, Any] | None:
    chosen = sound_policy(path, folder.settings) if path else folder.settings.claims
    return chosen.model_dump() if chosen else None


def _scored(folder: Folder, system: str, policy: dict[str, Any] | None) -> tuple[pa.Table, pa.Table, dict[str, Any]]:
    """Scores of a system, the golden questions, and the identities of both."""
    if system not in folder.settings.systems:
        raise LookupError(f"no system {system!r}; known: {', '.join(folder.settings.systems)}")
    catalogue = open_catalogue(folder)
    scores = catalogue.read(AssetPartition("system_scores", system))[0]
    spec = catalogue.read(AssetPartition("system_specs", system))[0].to_pylist()[0]
    questions = catalogue.read(AssetPartition("golden_questions"))[0]
    sources = catalogue.read(AssetPartition("source_documents"))[0]
    return scores, questions, identities(spec, sources, questions, folder.settings, policy)
