"""The benchmarks at a small size: what was done, not how long it took."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import (
    dedup_memory,
    edit_one_file,
    late_sweep,
    load,
    many_machines,
    minhash_speed,
    no_change,
    parsing,
    responses_speed,
    size,
    statistics_speed,
)
from tests.benchmarks.chunking_speed import GRID

pytestmark = pytest.mark.torture


def test_an_edited_file_among_others_costs_its_own_work_alone(tmp_path: Path) -> None:
    result = edit_one_file.measure(tmp_path, files=12, words=300)
    assert result.computed("parsed_documents") == {"pymupdf": 0, "unstructured": 1}
    assert result.computed("documents") == {None: 1}
    assert result.computed("chunks") == result.chunks_of_edited
    for chunking, embedded in result.computed("chunk_embeddings").items():
        assert 1 <= embedded <= result.chunks_of_edited[str(chunking)]
    assert 1 <= result.new_vectors <= sum(result.computed("chunk_embeddings").values())
    assert result.runs_after == 0


def test_a_sync_without_a_change_starts_no_run(tmp_path: Path) -> None:
    result = no_change.measure(tmp_path, chunkings=3, files=2, words=100)
    assert result.runs == 0


def test_text_pdfs_and_error_rates_are_measured_on_the_same_work(tmp_path: Path) -> None:
    assert parsing.measure_text_pdfs(tmp_path, files=4, pages=2).pages == 8
    assert 0.01 < parsing.measure_error_rate(2_000).rate < 0.05


def test_signatures_in_bulk_equal_those_of_the_loop() -> None:
    result = minhash_speed.measure(4)  # raises where they do not
    assert {"loop sha1", "bulk sha1", "loop crc32", "bulk crc32", "loop product", "bulk product"} <= set(result.seconds)


def test_copies_among_many_documents_are_dropped_and_one_changed_text_changes_no_other(tmp_path: Path) -> None:
    result = dedup_memory.measure(tmp_path, documents=1_000, words=60)
    assert result.copies == 100
    assert 0.9 * result.copies <= result.cold.dropped <= result.copies
    assert abs(result.warm.dropped - result.cold.dropped) <= 1
    assert 0 < result.cold.imports < result.cold.peak


def test_every_metric_is_summarised_and_compared_in_every_slice() -> None:
    result = statistics_speed.measure(questions=200, metrics=3, slices=8)
    # All, answerable, and eight values: ten means a metric. A claim a metric, and each metric in eight slices.
    assert result.summary[2] == 3 * 10
    assert result.comparison[2] >= 3 + 3 * 8


def test_replies_read_back_are_those_that_were_kept(tmp_path: Path) -> None:
    assert responses_speed.measure(tmp_path, 50).rows == 50  # raises where one is not


def test_a_late_sweep_sends_each_document_through_the_model_once(tmp_path: Path) -> None:
    result = late_sweep.measure(tmp_path, 2, words=500)
    windows, *later = result.windows_by_chunking
    assert result.passes[late_sweep.LATE] == windows
    assert later == [0] * (len(GRID) - 1)
    # Windows of 510 tokens every 384: one and as many more as the rest needs.
    assert windows <= 2 + result.tokens // late_sweep.STRIDE
    assert result.passes[late_sweep.SHIPPED] == result.passes[late_sweep.WHOLE] <= result.chunks
    assert result.tokens < result.positions[late_sweep.LATE] < result.positions[late_sweep.SHIPPED] / 4


def test_a_sync_with_nothing_stale_is_measured_on_s3_and_beside_it(tmp_path: Path) -> None:
    result = many_machines.measure_s3(tmp_path, chunkings=2, turns=1)  # raises where something runs
    assert set(result.seconds) == {"local", "S3", "S3, state.json lost"}


def test_the_same_files_and_texts_go_to_one_worker_and_to_two(tmp_path: Path) -> None:
    result = many_machines.measure_dask(tmp_path, parsed=16, embedded=48, turns=1)  # raises where a file is not parsed
    assert len(result.seconds) == 4


def test_a_night_against_an_endpoint_that_faults_accounts_for_every_row_and_reply(tmp_path: Path) -> None:
    result = load.measure(tmp_path, questions=100, systems=2, concurrency=8, latency=0.05)
    assert sum(result.rows.values()) == 2 * 100
    assert result.kept == result.rows["ok"]
    assert 0 < result.seen["most"] <= 8
    # 200 questions with one fault in twenty calls: each 429, 500 and cut reply is asked for again, a silent call is not.
    faults = result.seen["faults"]
    assert result.seen["calls"] - 200 == sum(faults.values()) - faults["silent"]


def test_every_asset_of_the_chain_is_made_at_each_size(tmp_path: Path) -> None:
    result = size.measure(tmp_path, sizes=(200, 400))
    assert result.chunks[0] < result.chunks[1]
    assert {name: len(costs) for name, costs in result.costs.items()} == dict.fromkeys(size.MEASURED, 2)
    # A table of chunks that are twice as many is about twice as large; each process held at least what it was forked from.
    small, large = (cost.size for cost in result.costs["chunks"])
    assert 1.5 < large / small < 2.5
    assert all(cost.peak > 0.9 * result.base for costs in result.costs.values() for cost in costs)
