"""One intervention on a system's failed questions, as the command line asks for it, and the results of those that no table holds.

What belongs here: whether `diagnosis` has it already, and a replay now where it has not: a reranker that settings do not name. What does
not: what a replay is (`scoring.diagnosis`) and how a result is told (`report.addresses`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_eval_assets.assets._replaying import diagnosed, replayed_reranker
from rag_eval_assets.assets._rerankers import open_function
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.scoring.diagnosis import INTERVENTIONS, NOT_FAILED, Replay, Score, Trials, reranker_name
from rag_eval_assets.settings import Folder
from rag_eval_assets.snapshots import stale
from rag_eval_assets.storage.produce import step_for
from rag_eval_assets.storage.state import read_json, write_json
from rag_eval_assets.storage.sync import open_catalogue

Row = dict[str, Any]


def intervene(folder: Folder, system: str, intervention: str) -> list[Row]:
    """Rows of diagnosis of a system's failed questions under one intervention: control, gold-context, larger-top-k, larger-budget, or
    reranker=NAME of the settings, or reranker=module:function.

    A reranker that `diagnosis` was not made with is tried now on the recorded ranking and its results kept under their ids; no retriever
    is called. Raises LookupError for an unknown system, intervention or function, RuntimeError where the table is stale or a reranker of
    the settings does not open.
    """
    if system not in folder.settings.systems:
        raise LookupError(f"no system {system!r}; known: {', '.join(folder.settings.systems)}")
    kind, separator, name = intervention.partition("=")
    reranks = bool(separator) and kind == "reranker" and bool(name)
    wanted = reranker_name(name) if reranks else intervention.replace("-", "_")
    if not reranks and wanted not in INTERVENTIONS:
        known = [*(each.replace("_", "-") for each in INTERVENTIONS), "reranker=NAME", "reranker=module:function"]
        raise LookupError(f"no intervention {intervention!r}; known: {', '.join(known)}")
    node = AssetPartition("diagnosis", system)
    if told := stale(folder, node):
        raise RuntimeError(f"{told}: run 'rag-eval sync' first")
    rows = open_catalogue(folder).read(node)[0].to_pylist()
    if reranks and name not in folder.settings.diagnosis.rerankers:
        rows = _now(folder, node, name)
        for row in rows:
            if row["intervention"] == wanted:
                write_json(_kept(folder) / f"{row['result_id']}.json", {"system": system, **row}, again="try again")
    return [row for row in rows if row["intervention"] == wanted and row["label"] != NOT_FAILED]


def kept_results(folder: Folder) -> Iterator[Row]:
    """Results of replays that no table holds, with their system."""
    yield from (read_json(path) for path in sorted(_kept(folder).glob("*.json")))


def _kept(folder: Folder) -> Path:
    return folder.stores / "diagnoses"


def _now(folder: Folder, node: AssetPartition, reranker: str) -> list[Row]:
    score: Score | Any
    if ":" in reranker:
        score = open_function(folder, reranker)
    elif reranker in folder.settings.rerankers:
        score = replayed_reranker(folder, reranker)
        if isinstance(score, Replay):
            raise RuntimeError(f"{score.note}; see its entry below 'rerankers' in {folder.path / 'evaluation.yaml'}")
    else:
        known = ", ".join(folder.settings.rerankers) or "none"
        raise LookupError(f"no reranker {reranker!r}; known: {known}; or name a function of yours, reranker=module:function")
    graph, catalogue = Graph(folder), open_catalogue(folder)
    above = {up.asset: catalogue.read(up)[0] for up in graph.upstream(node)}
    return diagnosed(step_for(graph, catalogue, node), above, Trials(rerankers={reranker: score}))
