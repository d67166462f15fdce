"""A small evaluation folder that was synced once; every test gets a copy of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import sync
from tests.small import small_folder

CHANGES = {
    "retrievers": {
        "bm25": {"kind": "bm25"},
        "dense": {"kind": "dense", "chunkings": ["whole"]},
    },
    "ann": {"hnsw_m": [4], "hnsw_ef_construction": [8], "hnsw_ef_search": [8], "ivf_nprobe": [1], "selectivities": [1.0]},
}


@pytest.fixture(scope="session")
def synced_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, synced by the first worker that wants it, for all of them."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "synced"
    with FileLock(f"{place}.lock"):
        if not place.exists():
            making = tmp_path_factory.mktemp("making")
            assert sync(small_folder(making / "small", CHANGES)).failed == {}
            making.rename(place)
    return place / "small"


@pytest.fixture
def synced(synced_once: Path, tmp_path: Path) -> Folder:
    """A copy of the synced folder, times of its files kept."""
    shutil.copytree(synced_once, tmp_path / "small")
    return Folder(tmp_path / "small")
