"""What a sync left behind, so that the next one sees without Dagster that nothing has to be repaired.

What belongs here: the marks of Dagster's SQLite files, and which run's tables stood there beside them. What does not: the repair
itself (`sync`). Whatever cannot be told from marks, Postgres for one, counts as no agreement.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.parquet import Footer
from rag_eval_assets.storage.state import read_json, write_cache

Footers = Mapping[AssetPartition, Footer | None]


def _memory(folder: Folder) -> Path:
    return Path(folder.state) / "agreed.json"


def _databases(folder: Folder, home: str) -> dict[str, Any] | None:
    """Size and time of the files that tell of runs and tables, and what names them; None where they are not there."""
    history = folder.state / "dagster" / "history"
    found: dict[str, Any] = {}
    try:
        found["dagster.yaml"] = hashlib.sha256(Path(home, "dagster.yaml").read_bytes()).hexdigest()
        for path in (history / "runs.db", history / "runs" / "index.db"):
            for file in (path, path.with_name(f"{path.name}-wal")):
                if file == path or file.exists():
                    stat = os.stat(file)
                    found[file.name] = [stat.st_size, stat.st_mtime_ns]
    except OSError:
        return None
    return found


def _tables(footers: Footers) -> dict[str, Any]:
    return {str(node): [footer.run_id, footer.data_version] for node, footer in footers.items() if footer is not None}


def stands(folder: Folder, home: str, footers: Footers) -> bool:
    """Whether Dagster's databases are as the last sync left them, and every table one that was there then."""
    memory, databases = read_json(_memory(folder)), _databases(folder, home)
    if not memory or databases is None or memory.get("databases") != databases:
        return False
    then = memory["tables"]
    return all(then.get(name) == wrote for name, wrote in _tables(footers).items())


def remember(folder: Folder, home: str, footers: Footers) -> None:
    """Keep what `stands` compares. To be called when Dagster's connections are closed and it knows every table."""
    databases = _databases(folder, home)
    if databases is not None:
        write_cache(_memory(folder), {"databases": databases, "tables": _tables(footers)})
