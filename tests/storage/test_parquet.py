"""The Parquet file: schema both ways, footer, atomic write, what is torn."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upath import UPath

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.storage import files
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.parquet import (
    ContractError,
    Footer,
    TornFileError,
    bare_schema,
    check_partition_key,
    decode,
    encode,
    enforce,
    read_footer,
    to_table,
    verify,
)
from rag_eval_assets.storage.versions import data_version
from rag_eval_assets.tables import TABLES

CHUNKS = TABLES["chunks"]
NODE = AssetPartition("chunks", "window-256-o0")


def chunk(ordinal: int = 0, **changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "chunk_id": f"a.md#{ordinal}-9",
        "doc_id": "a.md",
        "ordinal": ordinal,
        "start": 0,
        "end": 9,
        "text": "some text",
        "text_sha256": "0" * 64,
        "tokens": 2,
        "section_path": ["Top"],
        "page": None,
        "parent_start": None,
        "parent_end": None,
        "parent_tokens": None,
        "work_key": "k",
    }
    return {**row, **changes}


def finished(*rows: dict[str, object]) -> tuple[pa.Table, Footer]:
    table = enforce(to_table(list(rows), CHUNKS), CHUNKS)
    footer = Footer(
        "chunks", NODE.partition, "run-1", "code-1", data_version(table, CHUNKS), table.num_rows, table.num_rows, {"settings": {"size": 256}},
        {"unique_documents": "v1"}, {"chunk_id": "Id."},
    )  # fmt: skip
    return table, footer


def test_a_table_comes_back_with_its_footer() -> None:
    table, footer = finished(chunk(0), chunk(1))
    back, told = decode(encode(table, footer), CHUNKS)
    assert back.equals(table)
    assert told == footer


@given(st.lists(st.text(max_size=40), min_size=1, max_size=6), st.integers(0, 2**31 - 1))
@settings(max_examples=40, deadline=None)
def test_any_text_survives_the_file(texts: list[str], page: int) -> None:
    rows = [chunk(i, text=t.encode("utf-8", "replace").decode(), page=page) for i, t in enumerate(texts)]
    table, footer = finished(*rows)
    assert decode(encode(table, footer), CHUNKS)[0].to_pylist() == table.to_pylist()


def test_rows_are_written_in_key_order_whatever_order_they_came_in() -> None:
    rows = [chunk(i) for i in range(9)]
    shuffled = random.Random(3).sample(rows, 9)
    assert finished(*rows)[0].equals(finished(*shuffled)[0])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([chunk(tokens="two")], "chunks.tokens: expected int32"),
        ([chunk(text=None)], "chunks.text: expected no nulls, found 1"),
        ([chunk(0), chunk(0)], "ordinal=0 stands 2 times"),
        ([{k: v for k, v in chunk().items() if k != "page"}], "lacks ['page']"),
        ([chunk(extra=1)], "unknown columns ['extra']"),
    ],
)
def test_rows_that_break_the_contract_are_refused_with_table_and_column(rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(ContractError) as error:
        enforce(to_table(rows, CHUNKS), CHUNKS)
    assert message in str(error.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_never_enters_a_table(value: float) -> None:
    contract = TABLES["retrieval_scores"]
    row = {"question_id": "q", "split": "release", "retriever": "r", "metric": "nDCG", "k": 10, "cutoff": "rank", "unit": "document"}
    with pytest.raises(ContractError, match=r"retrieval_scores.value: expected finite numbers"):
        enforce(to_table([{**row, "value": value, "status": "scored", "reason": None}], contract), contract)


def test_a_file_of_another_schema_is_refused_when_read() -> None:
    table, footer = finished(chunk())
    wrong = table.set_column(7, "tokens", table["tokens"].cast(pa.int64()))
    with pytest.raises(ContractError, match=r"chunks.tokens: expected int32, found int64"):
        decode(encode(wrong, footer), CHUNKS)


def test_every_flipped_byte_is_noticed_when_the_file_is_verified() -> None:
    table, footer = finished(*[chunk(i, text=f"text number {i} " * 20) for i in range(20)])
    data = encode(table, footer)
    assert verify(data, CHUNKS, NODE.partition) == footer
    missed = []
    for place in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        try:
            found = verify(bytes(damaged), CHUNKS, NODE.partition)
        except (TornFileError, ContractError):
            continue
        # A byte that no reader looks at (padding, the writer's name) may change; what is read must not.
        if found != footer or decode(bytes(damaged), CHUNKS)[0] != table:
            missed.append(place)
    assert not missed


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_torn(share: float) -> None:
    data = encode(*finished(*[chunk(i) for i in range(50)]))
    with pytest.raises(TornFileError):
        verify(data[: int(len(data) * share)], CHUNKS, NODE.partition)


def test_a_file_of_another_partition_in_this_place_is_torn() -> None:
    with pytest.raises(TornFileError, match=r"is chunks\[window-256-o0\], not chunks\[page\]"):
        verify(encode(*finished(chunk())), CHUNKS, "page")


def test_a_parquet_file_of_somebody_else_has_no_footer_of_ours(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(TornFileError, match="no readable footer"):
        read_footer((tmp_path / "x.parquet").read_bytes())


def test_a_killed_writer_leaves_the_last_version_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = UPath(tmp_path / "t" / "x.parquet")
    files.write(path, b"first")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        files.write(path, b"second")
    assert path.read_bytes() == b"first"
    assert [p.name for p in path.parent.iterdir()] == ["x.parquet"]


@pytest.mark.parametrize(
    "key",
    [
        "..",
        "a/b",
        "../x",
        "A",
        "",
        "a\\b",
        "a..b",
        "nul\0",
        "é",
        "a b",
        "x" * 129,
        "a\n",
        "a.",
        "con",
        "nul.x",
        "com1",
        "\uff0e\uff0e",
        ".a",
    ],
)
def test_a_partition_key_that_is_unsafe_as_a_file_name_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="partition key"):
        check_partition_key(key)


def test_the_file_says_what_every_column_is_without_dagster(tmp_path: Path) -> None:
    catalogue = Catalogue(str(tmp_path / "tables"), tmp_path / "state.json")
    table, footer = finished(chunk())
    path, _ = catalogue.write(NODE, table, footer)
    told = read_footer(path.read_bytes())
    assert told.columns == {"chunk_id": "Id."}
    assert told.inputs == {"unique_documents": "v1"}
    assert pq.read_schema(str(path)).names == bare_schema(CHUNKS).names


def test_a_file_that_did_not_change_is_not_read_again_and_one_that_did_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue(str(tmp_path / "tables"), tmp_path / "state.json")
    table, footer = finished(chunk())
    path, _ = catalogue.write(NODE, table, footer)
    catalogue.save()
    reads: list[str] = []
    original = files.read
    monkeypatch.setattr(files, "read", lambda path: (reads.append(str(path)), original(path))[1])
    again = Catalogue(str(tmp_path / "tables"), tmp_path / "state.json")
    assert again.footer(NODE) == footer
    assert reads == []
    data = bytearray(original(path))
    data[len(data) // 3] ^= 1
    Path(str(path)).write_bytes(bytes(data))
    with pytest.raises((TornFileError, ContractError)):
        again.footer(NODE)
    assert len(reads) == 1


def test_the_cache_may_be_deleted_or_damaged(tmp_path: Path) -> None:
    catalogue = Catalogue(str(tmp_path / "tables"), tmp_path / "state.json")
    _, footer = finished(chunk())
    catalogue.write(NODE, finished(chunk())[0], footer)
    (tmp_path / "state.json").write_text("{not json")
    assert Catalogue(str(tmp_path / "tables"), tmp_path / "state.json").footer(NODE) == footer


def test_files_that_belong_to_no_asset_partition_are_told_apart(tmp_path: Path) -> None:
    catalogue = Catalogue(str(tmp_path / "tables"), tmp_path / "state.json")
    catalogue.write(NODE, *finished(chunk()))
    (tmp_path / "tables" / "notes.txt").write_text("mine")
    (tmp_path / "tables" / "chunks.parquet").write_text("an unpartitioned file of a partitioned asset")
    assert [(p.name, n) for p, n in catalogue.files()] == [
        ("chunks.parquet", None), ("window-256-o0.parquet", NODE), ("notes.txt", None),
    ]  # fmt: skip


def test_a_table_keeps_its_place_on_an_object_store(tmp_path: Path) -> None:
    catalogue = Catalogue("memory://bucket/tables", tmp_path / "state.json")
    table, footer = finished(chunk())
    catalogue.write(NODE, table, footer)
    assert catalogue.read(NODE)[0].equals(table)
    assert Catalogue("memory://bucket/tables", tmp_path / "other.json").footer(NODE) == footer
