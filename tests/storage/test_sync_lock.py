"""The storage lock and the marks of ownership."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import ForeignStateError, LockedError, is_alive, open_catalogue, process_identity, storage_lock
from tests.small import small_folder

HOLD = """
import sys, time
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import storage_lock
with storage_lock(Folder(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_sync_refuses_and_names_the_holder_and_a_killed_holder_blocks_nobody(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "e")
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder.path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match=rf":{holder.pid}:"), storage_lock(folder):
            pass
    finally:
        holder.kill()
        holder.wait()
    with storage_lock(folder):
        pass


def test_tables_of_another_evaluation_are_refused(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "e")
    tables = Path(folder.tables)
    tables.mkdir(parents=True)
    (tables / "owner.json").write_text(json.dumps({"evaluation": "another"}))
    with pytest.raises(ForeignStateError, match="'another'"):
        open_catalogue(Folder(folder.path))


def test_a_process_is_alive_until_it_ends_and_a_reused_pid_is_not_it() -> None:
    identity = process_identity()
    host, pid, started = identity.rsplit(":", 2)
    assert is_alive(identity)
    assert not is_alive(f"{host}:{pid}:{float(started) - 100}")
    assert is_alive(f"elsewhere:{pid}:{started}")
