"""Writes the report's page beside the tables, from the release_report asset. What does not belong here: what the page shows (`page`)."""

from __future__ import annotations

from pathlib import Path

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue


def export_report(folder: Folder, target: Path | None = None) -> Path:
    """Write the page of the last materialization to `target` (the state folder's report.html without one). Raises OSError."""
    table, _ = open_catalogue(folder).read(AssetPartition("release_report"), ["html"])
    path = target or folder.state / "report.html"
    if target is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table["html"][0].as_py(), encoding="utf-8")
    return path
