"""Baselines: keeps a system's scores with the identities they were made under.

What does not belong here: comparing (`scoring.comparison`).
"""

from __future__ import annotations

from pathlib import Path

from rag_eval_assets.assets.release import identities
from rag_eval_assets.baselines import save_baseline
from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue
from rag_eval_assets.storage.versions import canonical_json


def save_snapshot(folder: Folder, name: str, system: str, *, replace: bool = False) -> Path:
    """Save the scores of `system` as baselines/<name>.parquet.

    Raises LookupError for an unknown system, FileNotFoundError for an unscored one, FileExistsError for a name that is taken, unless
    `replace`.
    """
    if system not in folder.settings.systems:
        raise LookupError(f"no system {system!r}; known: {', '.join(folder.settings.systems)}")
    catalogue = open_catalogue(folder)
    scores = catalogue.read(AssetPartition("system_scores", system))[0]
    spec = catalogue.read(AssetPartition("system_specs", system))[0].to_pylist()[0]
    questions = catalogue.read(AssetPartition("golden_questions"))[0]
    sources = catalogue.read(AssetPartition("source_documents"))[0]
    made_under = canonical_json(identities(spec, sources, questions, folder.settings))
    rows = [
        {
            "baseline": name,
            "system": system,
            **{k: row[k] for k in ("question_id", "split", "metric", "k", "cutoff", "unit", "value", "status", "reason")},
            "identities": made_under,
        }
        for row in scores.to_pylist()
    ]
    return save_baseline(folder.baselines, name, rows, replace=replace)
