"""Tables on S3, against a real S3 API server: requests, races and faults. The whole graph on it: tests/integration."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.storage import files
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.parquet import TornFileError
from rag_eval_assets.storage.sync import sync
from rag_eval_assets.strict import SettingsError
from tests.object_store import BUCKET, ObjectStore, Request
from tests.small import small_folder
from tests.storage.test_parquet import NODE, chunk, finished

ROOT = f"s3://{BUCKET}/tables"


def catalogue(tmp_path: Path, name: str = "state.json") -> Catalogue:
    return Catalogue(ROOT, tmp_path / name)


def test_a_table_is_one_put_and_one_get(store: ObjectStore, tmp_path: Path) -> None:
    table, footer = finished(chunk())
    mine = catalogue(tmp_path)
    mine.write(NODE, table, footer)
    assert [r.method for r in store.requests] == ["PUT"]
    store.requests.clear()
    assert mine.read(NODE)[0].equals(table)
    assert [r.method for r in store.requests] == ["GET"]
    store.requests.clear()
    assert mine.footer(NODE) == footer
    assert [r.method for r in store.requests] == ["HEAD"]


def test_a_footer_nobody_knows_is_read_by_one_ranged_request_and_an_absent_file_is_not_looked_for_in_a_listing(
    store: ObjectStore, tmp_path: Path
) -> None:
    other = catalogue(tmp_path, "other.json")
    assert other.footer(NODE) is None
    assert [r.method for r in store.requests] == ["HEAD"]
    rows = [chunk(n, chunk_id=f"a.md#{n}-9", text=f"{n} " * 2000) for n in range(300)]
    _, footer = finished(*rows)
    path, _ = catalogue(tmp_path).write(NODE, finished(*rows)[0], footer)
    store.requests.clear()
    assert other.footer(NODE) == footer
    size = len(files.read(path))
    assert [(r.method, bool(r.range)) for r in store.requests[:2]] == [("HEAD", False), ("GET", True)]
    first, last = map(int, store.requests[1].range.removeprefix("bytes=").split("-"))
    assert (last, last - first < 65_536) == (size - 1, True)


def test_an_object_that_was_swapped_cut_or_altered_by_hand_is_never_taken_for_the_table(store: ObjectStore, tmp_path: Path) -> None:
    mine = catalogue(tmp_path)
    path, _ = mine.write(NODE, *finished(chunk()))
    data = files.read(path)
    altered = bytearray(data)
    altered[len(data) // 3] ^= 1
    for bytes_there in (data[:-9], data[: len(data) // 2], b"", bytes(altered)):
        files.write(path, bytes_there)
        with pytest.raises(TornFileError, match="s3://"):
            mine.footer(NODE)
    swapped = mine.path(AssetPartition("chunks", "whole"))
    files.write(swapped, data)
    with pytest.raises(TornFileError, match=r"the file is chunks\[window-256-o0\]"):
        mine.footer(AssetPartition("chunks", "whole"))


def _write_often(url: str, state: str, writer: str, times: int) -> None:
    mine = Catalogue(url, Path(state))
    for turn in range(times):
        rows = [chunk(n, text=f"{writer} {turn}") for n in range(50)]
        table, footer = finished(*rows)
        mine.write(NODE, table, type(footer)(**{**footer.__dict__, "run_id": f"{writer}-{turn}"}))


def test_of_two_writers_of_one_partition_the_last_whole_one_stands_and_a_reader_sees_only_whole_ones(
    store: ObjectStore, tmp_path: Path
) -> None:
    mine = catalogue(tmp_path)
    _write_often(ROOT, str(tmp_path / "first.json"), "first", 1)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(ROOT, str(tmp_path / f"{w}.json"), w, 20)) for w in ("one", "two")]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        table, footer = mine.read(NODE)
        texts = set(table.column("text").to_pylist())
        assert texts == {footer.run_id.replace("-", " ")}
        seen.add(footer.run_id)
    assert [writer.exitcode for writer in writers] == [0, 0]
    last = mine.footer(NODE)
    assert last is not None
    assert last.run_id in ("one-19", "two-19")
    assert len(seen) > 1
    # What a writer remembers of its own file does not hide the other's.
    for writer in ("one", "two"):
        assert Catalogue(ROOT, tmp_path / f"{writer}.json").footer(NODE) == last


def test_a_busy_a_broken_and_a_silent_store_are_tried_again(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "READ_SECONDS", 1)
    troubles: list[int | None] = []

    def trouble(request: Request) -> int | None:
        if not troubles:
            return None
        status = troubles.pop(0)
        if status is None:
            time.sleep(1.5)
            return 500
        return status

    store.trouble = trouble
    table, footer = finished(chunk())
    mine = catalogue(tmp_path)
    troubles[:] = [503, 500]
    mine.write(NODE, table, footer)
    assert [r.method for r in store.requests] == ["PUT"] * 3
    troubles[:] = [502, None]
    assert mine.read(NODE)[0].equals(table)
    troubles[:] = [503]
    assert mine.footer(NODE) == footer


def test_a_store_that_stays_broken_is_asked_a_bounded_number_of_times_and_nothing_is_taken_for_absent(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ATTEMPTS", 2)
    mine = catalogue(tmp_path)
    mine.write(NODE, *finished(chunk()))
    store.requests.clear()
    store.trouble = lambda request: 500
    with pytest.raises(OSError, match=r"Internal Server Error|500"):
        mine.footer(NODE)
    assert 2 <= len(store.requests) <= 4


def test_a_bucket_that_is_not_there_or_not_ours_is_told_with_the_setting_before_anything_runs(store: ObjectStore, tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "small", {"storage": "s3://nobody/tables"})
    with pytest.raises(SettingsError, match=r"storage: s3://nobody/tables cannot be reached: .*bucket does not exist"):
        sync(folder)
    store.trouble = lambda request: 403
    with pytest.raises(SettingsError, match="storage: s3://nobody/tables cannot be reached"):
        sync(folder)
