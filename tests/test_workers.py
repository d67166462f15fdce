"""Batches on a real Dask cluster: order, typed failures and limits of parsing, killed workers, other installations, nobody there."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ingestion import media_types, parsers
from ingestion.parsers import ParseLimits, ParseRequest
from ingestion.parsers.isolation import WorkerError
from rag_eval_assets import workers
from rag_eval_assets.resources.embedders import embed_texts, load_embedder
from rag_eval_assets.settings import Settings
from rag_eval_assets.workers import ClusterError, spread_over
from tests.dask_cluster import Cluster, dask_cluster
from tests.small import SETTINGS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with dask_cluster(tmp_path_factory.mktemp("dask")) as running:
        yield running


def files(folder: Path, number: int) -> list[ParseRequest]:
    """Markdown files, one of them not what the list says any more."""
    made = []
    for n in range(number):
        path = folder / f"{n:03}.md"
        path.write_text(f"# Kettle {n}\n\nIt holds {n} litres.\n")
        made.append(ParseRequest(path.name, path, media_types.MARKDOWN, "markdown", hashlib.sha256(path.read_bytes()).hexdigest()))
    made[1].path.write_text("changed")
    return made


def test_files_parsed_on_the_cluster_give_the_rows_of_this_machine_in_order_typed_failures_among_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    requests = files(tmp_path, 2 * parsers.BATCH + 3)
    limits = ParseLimits(workers=1)
    timeless = lambda made: [[{**row, "seconds": None} for row in rows] for rows in made]  # noqa: E731
    told: list[tuple[int, int]] = []
    there = parsers.parse_files(
        "unstructured", requests, limits, spread=spread_over(cluster.address), on_done=lambda *done: told.append(done)
    )
    made = timeless(there)
    assert made == timeless(parsers.parse_files("unstructured", requests, limits))
    assert [(row["status"], row["reason"]) for row in made[1]] == [("failed", "corrupt")]
    assert told[-1] == (len(requests), len(requests))


def test_the_time_limit_of_one_file_holds_on_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    request = files(tmp_path, 2)[0]
    request.path.write_text("# A part\n\nThe kettle holds a litre.\n\n" * 20_000)  # minutes of work
    request = request._replace(sha256=hashlib.sha256(request.path.read_bytes()).hexdigest())
    made = list(parsers.parse_files("unstructured", [request], ParseLimits(seconds=1), spread=spread_over(cluster.address)))
    assert [(row["status"], row["reason"]) for row in made[0]] == [("failed", "timeout")]


def test_a_machine_that_does_not_see_the_corpus_is_told_and_no_file_is_blamed(cluster: Cluster, tmp_path: Path) -> None:
    request = files(tmp_path, 2)[0]
    work = partial(
        parsers.run_batch, module="ingestion.parsers.unstructured_elements", options=parsers.ParseOptions(), seconds=9, megabytes=512
    )
    request.path.unlink()
    with pytest.raises(WorkerError, match=r"does not see .*000\.md: mount the evaluation folder there at the same path"):
        list(spread_over(cluster.address)(work, [[request]]))


def test_vectors_made_on_the_cluster_are_those_of_this_machine(cluster: Cluster) -> None:
    embedder = load_embedder("minilm", "minilm", batch=8, threads=1)
    if embedder is None:
        pytest.skip("the minilm extra is not installed")
    from rag_eval_assets.assets.embedding import embed_batch

    texts = [f"The kettle of {n} litres boils in {n % 7} minutes." for n in range(150)]
    work = partial(embed_batch, recipe='{"name": "minilm", "kind": "minilm", "batch": 8, "threads": 1}', query=False)
    there = embed_texts(texts, embedder, None, elsewhere=partial(spread_over(cluster.address), work))
    assert (there == embed_texts(texts, embedder, None)).all()


def test_a_worker_killed_in_the_midst_of_its_batch_loses_nothing(tmp_path: Path) -> None:
    with dask_cluster(tmp_path / "logs") as mine:
        requests = files(tmp_path, 6 * parsers.BATCH)
        done = threading.Event()
        killed: list[int] = []

        def kill_one() -> None:
            while not done.is_set() and not killed:
                if len(progress) > parsers.BATCH:
                    os.kill(mine.workers[0].pid, signal.SIGKILL)
                    killed.append(mine.workers[0].wait(60))
                time.sleep(0.01)

        progress: list[int] = []
        killer = threading.Thread(target=kill_one)
        killer.start()
        made = list(
            parsers.parse_files(
                "unstructured", requests, ParseLimits(workers=1), spread=spread_over(mine.address), on_done=lambda d, _: progress.append(d)
            )
        )
        done.set()
        killer.join()
        assert killed == [-signal.SIGKILL]
        assert [rows[0]["doc_id"] for rows in made] == [request.doc_id for request in requests]
        assert [n for n, rows in enumerate(made) if rows[0]["status"] != "ok"] == [1]


def test_a_worker_with_another_installation_is_refused_and_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "installation", lambda: {"python": "3.11.0", "faiss-cpu": "0.0.1"})
    with pytest.raises(ClusterError, match=r"installed otherwise \(python 3\..*faiss-cpu .*, here 0\.0\.1\): give it the same lock"):
        list(spread_over(cluster.address)(len, [[1]]))  # type: ignore[arg-type]


def test_a_cluster_without_workers_and_a_scheduler_that_is_not_there_end_in_time_with_the_setting_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 4.0)
    with dask_cluster(tmp_path / "logs", workers=0) as empty:
        with pytest.raises(ClusterError, match="has had no worker for 4 s"):
            list(spread_over(empty.address)(sorted, [[1]]))
        address = empty.address
    with pytest.raises(ClusterError, match=rf"no Dask scheduler answers at {address} \(workers in evaluation.yaml\)"):
        list(spread_over(address)(sorted, [[1]]))


@pytest.mark.parametrize("address", ["scheduler:8786", "tcp://scheduler", "http://scheduler:8786", ""])
def test_an_address_that_is_none_is_an_error_of_settings(address: str) -> None:
    with pytest.raises(ValueError, match="no address such as tcp://scheduler:8786"):
        Settings.model_validate({**SETTINGS, "workers": address})
