"""The SQLite store keeps what it was given, for many writers, over forks and kills."""

from __future__ import annotations

import multiprocessing
import pickle
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_assets.resources.stores import KEYS_PER_QUERY, SqliteStore


def _write(path: Path, writer: int) -> None:
    store = SqliteStore(path)
    for turn in range(20):
        store.put_many({f"{writer}-{turn}-{i}": bytes([writer, turn, i]) for i in range(10)})


def _use_inherited(store: SqliteStore, failures: multiprocessing.SimpleQueue[str]) -> None:
    if store.get_many(["parent"]) != {"parent": b"1"}:
        failures.put("the child cannot read")
    store.put_many({"child": b"2"})
    if len(store._inherited) != 1:
        failures.put("the child works on its parent's connection")


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "below" / "store.sqlite")


def test_what_was_put_comes_back_and_absent_keys_are_left_out(store: SqliteStore) -> None:
    store.put_many({"b": b"\x00\xff", "a": b""})
    assert list(store.get_many(["c", "b", "a", "b"]).items()) == [("b", b"\x00\xff"), ("a", b"")]
    assert len(store) == 2


def test_more_keys_than_one_query_may_bind_are_read(store: SqliteStore) -> None:
    items = {str(i): str(i).encode() for i in range(KEYS_PER_QUERY * 3 + 1)}
    store.put_many(items)
    assert store.get_many(list(items)) == items


def test_keys_are_data_and_never_sql(store: SqliteStore) -> None:
    hostile = "x'); DROP TABLE blobs; --"
    store.put_many({hostile: b"1"})
    assert store.get_many([hostile]) == {hostile: b"1"}


def test_a_batch_with_a_bad_item_leaves_nothing_behind(store: SqliteStore) -> None:
    with pytest.raises(sqlite3.Error):
        store.put_many({"a": b"1", "b": None})  # type: ignore[dict-item]
    assert store.get_many(["a", "b"]) == {}
    store.put_many({"a": b"2"})
    assert store.get_many(["a"]) == {"a": b"2"}


def test_processes_that_open_and_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(path, number)) for number in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 6
    assert len(SqliteStore(path)) == 6 * 20 * 10


def test_threads_share_one_store(store: SqliteStore) -> None:
    threads = [threading.Thread(target=store.put_many, args=({f"{n}": bytes([n])},)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get_many([str(n) for n in range(8)]) == {str(n): bytes([n]) for n in range(8)}


def test_a_store_opened_before_a_fork_works_on_both_sides(store: SqliteStore) -> None:
    store.put_many({"parent": b"1"})
    context = multiprocessing.get_context("fork")
    failures = context.SimpleQueue()
    child = context.Process(target=_use_inherited, args=(store, failures))
    child.start()
    child.join(60)
    assert (child.exitcode, failures.empty()) == (0, True)
    assert store.get_many(["parent", "child"]) == {"parent": b"1", "child": b"2"}


def test_a_store_travels_to_another_process_as_its_path(store: SqliteStore) -> None:
    store.put_many({"a": b"1"})
    assert pickle.loads(pickle.dumps(store)).get_many(["a"]) == {"a": b"1"}


def test_a_closed_store_opens_again(store: SqliteStore) -> None:
    store.put_many({"a": b"1"})
    store.close()
    assert store.get_many(["a"]) == {"a": b"1"}


def test_a_file_that_is_no_store_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    store = SqliteStore(path)
    assert store.get_many(["a"]) == {}
    store.put_many({"a": b"1"})
    assert SqliteStore(path).get_many(["a"]) == {"a": b"1"}


@pytest.mark.parametrize("use", ["get_many", "put_many", "__len__"])
def test_damage_that_is_met_late_costs_the_cache_and_no_error(store: SqliteStore, use: str) -> None:
    store.put_many({f"{i:04}": bytes(2_000) for i in range(500)})
    store.close()
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))  # the header is whole, so the file opens
    arguments: dict[str, list[object]] = {"get_many": [["0001", "0499"]], "put_many": [{"0250": b"1"}], "__len__": []}
    assert getattr(store, use)(*arguments[use]) in ({}, None, 0)
    store.put_many({"later": b"2"})
    assert store.get_many(["later", "0001"]) == {"later": b"2"}


def test_what_is_no_damage_is_raised_and_costs_nothing(store: SqliteStore) -> None:
    store.put_many({"a": b"1"})
    with pytest.raises(sqlite3.ProgrammingError):
        store.get_many([object()])  # type: ignore[list-item]
    assert store.get_many(["a"]) == {"a": b"1"}


@settings(max_examples=25, deadline=None)
@given(items=st.dictionaries(st.text(max_size=8).filter(lambda t: "\x00" not in t and t.isascii()), st.binary(max_size=32)))
def test_any_batch_reads_back_equal(tmp_path_factory: pytest.TempPathFactory, items: dict[str, bytes]) -> None:
    store = SqliteStore(tmp_path_factory.mktemp("any") / "store.sqlite")
    store.put_many(items)
    assert store.get_many(list(items)) == items
