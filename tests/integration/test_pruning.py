"""What nothing points to goes, and only that: tables of removed partitions, what killed writers left, caches of older code."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rag_eval_assets.pruning import leftovers, prune
from rag_eval_assets.settings import Folder
from rag_eval_assets.snapshots import save_snapshot
from rag_eval_assets.storage.sync import LockedError, storage_lock, sync
from rag_eval_assets.storage.verify import verify_tables
from tests.integration.conftest import CHANGES
from tests.small import SETTINGS, write_settings


def contents(folder: Folder) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(folder.tables).rglob("*.parquet"))}


def without_the_second_system(folder: Folder) -> Folder:
    write_settings(folder.path, {**CHANGES, "systems": {"first": SETTINGS["systems"]["first"]}})
    return Folder(folder.path)


def test_a_folder_that_is_in_order_has_no_leftovers(synced: Folder) -> None:
    assert leftovers(synced) == []


def test_tables_of_a_removed_partition_go_and_every_other_file_stays(synced: Folder) -> None:
    before = contents(synced)
    folder = without_the_second_system(synced)
    assert sync(folder).failed == {}
    problems = verify_tables(folder)
    assert {problem.kind for problem in problems} == {"left over"}
    assert all(problem.harmless for problem in problems)
    assert [problem.mend for problem in problems] == ["Run 'rag-eval prune --delete'."]
    assert (len(problems[0].examples), problems[0].what.endswith(" and more")) == (5, True)
    told = leftovers(folder)
    assert {left.kind for left in told} == {"table"}
    assert {Path(str(left.path)).stem for left in told} == {"second"}
    kept = {path: sha for path, sha in contents(folder).items() if not path.endswith("/second.parquet")}
    assert prune(folder) == told
    assert contents(folder) == kept
    assert len(kept) == len(before) - len(told)
    assert verify_tables(folder) == []
    assert sync(folder).runs == []


def test_temporaries_and_caches_of_older_code_go_and_replies_and_baselines_stay(synced: Folder) -> None:
    save_snapshot(synced, "june", "first")
    sync(synced)
    replies = synced.stores / "responses.sqlite"
    current = sorted(synced.stores.glob("terms-*.sqlite"))
    assert current
    replies.write_bytes(b"paid for")
    torn = Path(synced.tables) / ".chunks.parquet.1234.tmp"
    old = [synced.stores / "terms-00000000.sqlite", synced.stores / "vectors-minilm-00000000.sqlite"]
    for path in (torn, *old):
        path.write_bytes(b"x" * 10)
    assert [(left.kind, left.path.name, left.size) for left in prune(synced)] == [
        ("cache", "terms-00000000.sqlite", 10),
        ("cache", "vectors-minilm-00000000.sqlite", 10),
        ("temporary", ".chunks.parquet.1234.tmp", 10),
    ]
    assert replies.read_bytes() == b"paid for"
    assert sorted(synced.stores.glob("terms-*.sqlite")) == current
    assert [problem.kind for problem in verify_tables(synced)] == []
    assert sync(synced).runs == []


def test_a_file_that_is_no_table_is_named_by_verify_and_never_removed(synced: Folder) -> None:
    stray = Path(synced.tables) / "notes.txt"
    stray.write_text("mine")
    assert prune(synced) == []
    assert stray.read_text() == "mine"
    assert [problem.kind for problem in verify_tables(synced)] == ["foreign"]


def test_nothing_is_removed_while_a_sync_holds_the_folder(synced: Folder) -> None:
    old = synced.stores / "terms-00000000.sqlite"
    old.write_bytes(b"x")
    with storage_lock(synced), pytest.raises(LockedError, match="another sync holds"):
        prune(synced)
    assert old.exists()
