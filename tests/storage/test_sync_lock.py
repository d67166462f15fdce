"""The storage lock and the marks of ownership."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.owner import ForeignStateError, take_ownership
from rag_eval_assets.storage.sync import LockedError, is_alive, open_catalogue, process_identity, storage_lock, sync
from tests.small import small_folder, write_settings

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
        told = rf"another sync holds {folder.path}: process {holder.pid} on {socket.gethostname()} since \d{{4}}-\d\d-\d\d "
        with pytest.raises(LockedError, match=told), storage_lock(folder):
            pass
        with pytest.raises(LockedError, match=told):
            sync(folder)
        threading.Timer(1, holder.kill).start()
        with storage_lock(folder, wait=True):  # until the holder is dead
            assert holder.wait(10) == -signal.SIGKILL
    finally:
        holder.kill()
        holder.wait()
    assert not (folder.state / "sync.holder.json").exists()
    with storage_lock(folder):
        pass


@pytest.mark.parametrize("left", ['{"pid": 7, "host": "elsewhere", "since": "2020-01-01 00:00:00"}', "{", "{}"])
def test_what_a_dead_holder_left_written_holds_nothing_and_a_damaged_note_still_gives_one_error(tmp_path: Path, left: str) -> None:
    folder = small_folder(tmp_path / "e")
    note = folder.state / "sync.holder.json"
    folder.state.mkdir()
    note.write_text(left)
    with storage_lock(folder):
        assert str(os.getpid()) in note.read_text()
        note.write_text(left)
        with pytest.raises(LockedError, match=r"another sync holds .*: process (7 on elsewhere|unknown on an unknown host) since"):
            sync(folder)


def sharing(path: Path, name: str = "small") -> Folder:
    """A small folder whose tables stand in a root beside it."""
    return small_folder(path, {"storage": "../tables", "name": name})


def own(folder: Folder) -> None:
    """What the first sync does with the table root."""
    take_ownership(open_catalogue(folder).root, folder)


def test_a_table_root_has_one_folder_whatever_the_folders_are_called(tmp_path: Path) -> None:
    one, two = sharing(tmp_path / "one"), sharing(tmp_path / "two")
    own(one)
    with pytest.raises(ForeignStateError, match=r"tables of .*/one .*this folder is .*/two .*another 'storage' .*or remove the tables in"):
        open_catalogue(two)
    write_settings(one.path, {"storage": "../tables", "name": "renamed"})
    own(Folder(one.path))
    shutil.rmtree(tmp_path / "tables")
    own(two)
    with pytest.raises(ForeignStateError, match=r"tables of .*/two "):
        open_catalogue(one)


def test_a_folder_that_moved_keeps_its_root_and_a_copy_of_it_does_not_get_it(tmp_path: Path) -> None:
    own(sharing(tmp_path / "one"))
    moved = Folder((tmp_path / "one").rename(tmp_path / "moved"))
    own(moved)
    shutil.copytree(moved.path, tmp_path / "copy")
    with pytest.raises(ForeignStateError, match=r"/copy, is a copy of that one"):
        open_catalogue(Folder(tmp_path / "copy"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"evaluation": "small"}', '{"owner": "x", "folder": 5}'])
def test_a_marker_that_names_nobody_is_refused_with_the_mend(tmp_path: Path, text: str) -> None:
    folder = sharing(tmp_path / "one")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "owner.json").write_text(text)
    with pytest.raises(ForeignStateError, match=r"owner\.json: does not say whose .* remove the tables in"):
        open_catalogue(folder)


def test_a_process_is_alive_until_it_ends_and_a_reused_pid_is_not_it() -> None:
    identity = process_identity()
    host, pid, started = identity.rsplit(":", 2)
    assert is_alive(identity)
    assert not is_alive(f"{host}:{pid}:{float(started) - 100}")
    assert is_alive(f"elsewhere:{pid}:{started}")
