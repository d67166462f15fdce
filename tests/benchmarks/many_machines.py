"""What each step from one machine to many costs or brings, measured in turns in one run: S3, Postgres, Dask workers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import yaml

from ingestion import media_types, parsers
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage import files
from rag_eval_assets.storage.sync import sync
from rag_eval_assets.workers import spread_over
from tests.benchmarks import no_change
from tests.benchmarks.no_change import ROOT
from tests.benchmarks.synthetic import write_folder
from tests.dask_cluster import dask_cluster
from tests.object_store import BUCKET, object_store
from tests.postgres import postgres

RUNS_AT_ONCE = 4


@dataclass(frozen=True)
class Result:
    """Seconds of each turn by what was measured; ratios are of medians."""

    told: str
    seconds: Mapping[str, list[float]]
    ratios: tuple[tuple[str, str], ...]

    def ratio(self, one: str, other: str) -> float:
        return median(self.seconds[one]) / median(self.seconds[other])

    def lines(self) -> Iterator[str]:
        yield self.told
        for name, seconds in self.seconds.items():
            yield f"{name:34} {', '.join(f'{s:.2f}' for s in seconds)} s"
        for one, other in self.ratios:
            yield f"{one} / {other}: {self.ratio(one, other):.2f}"


def _in_turns(turns: int, ways: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Seconds of each way, one after the other, `turns` times."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, run in ways.items():
            seconds[name].append(run())
    return seconds


def _built(path: Path, chunkings: int) -> Folder:
    folder = write_folder(path / "folder", 8, 300, no_change.settings(chunkings))
    report = sync(folder)
    if report.failed:
        raise RuntimeError(f"partitions failed: {report.failed}")
    return folder


def measure_s3(path: Path, chunkings: int = 48, turns: int = 5) -> Result:
    """A sync with nothing stale, each in a fresh process and without its imports: local tables, the same on S3, and S3 unknown to the state."""
    local = _built(path, chunkings)
    with object_store() as store:
        shutil.copytree(local.path, path / "on-s3")
        settings = yaml.safe_load((local.path / "evaluation.yaml").read_text())
        (path / "on-s3" / "evaluation.yaml").write_text(yaml.safe_dump({**settings, "storage": f"s3://{BUCKET}/tables"}, sort_keys=False))
        remote = Folder(path / "on-s3")
        root = files.open_root(remote.tables)
        for file in sorted((local.state / "tables").rglob("*.parquet")):
            files.write(root / file.relative_to(local.state / "tables").as_posix(), file.read_bytes())

        def timed(folder: Folder, *, known: bool = True) -> float:
            if not known:
                (folder.state / "state.json").unlink()
            command = [sys.executable, "-W", "ignore", "-c", no_change._IN_A_FRESH_PROCESS, str(folder.path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            told = json.loads(done.stdout.splitlines()[-1])
            if told["runs"]:
                raise RuntimeError(f"{folder.path}: {told['runs']} runs where nothing is stale")
            return float(told["seconds"])

        timed(local), timed(remote)  # the first looks at everything anew
        store.requests.clear()
        timed(remote)
        requests = len(store.requests)
        ways = {
            "local": partial(timed, local),
            "S3": partial(timed, remote),
            "S3, state.json lost": partial(timed, remote, known=False),
        }
        return Result(
            f"sync with nothing stale, {chunkings} chunkings, {requests} requests to S3 on loopback (its server takes processor time too)",
            _in_turns(turns, ways),
            (("S3", "local"), ("S3, state.json lost", "local")),
        )


_RUNS = """
import sys, time
from rag_eval_assets.definitions import build_definitions
from rag_eval_assets.graph import Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue, open_instance
import dagster as dg
folder = Folder(sys.argv[1])
graph = Graph(folder)
job = build_definitions(graph, open_catalogue(folder)).resolve_implicit_global_asset_job_def()
instance = open_instance(folder)
print("ready", flush=True)
sys.stdin.readline()
for key in sys.argv[2:]:
    result = job.execute_in_process(instance=instance, partition_key=key, asset_selection=[dg.AssetKey(n) for n in ("chunks", "retrieval_runs")],
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}})
    assert result.success
print("done", flush=True)
"""


def measure_postgres(path: Path, chunkings: int = 48, turns: int = 3) -> Result:
    """A backfill of chunkings, two tables each, by four processes at once, their start left out: SQLite, and Postgres that waits for its disk."""
    folder = _built(path, chunkings)
    keys = [f"window-{32 + 8 * i}-o0" for i in range(chunkings)]
    shares = [keys[at::RUNS_AT_ONCE] for at in range(RUNS_AT_ONCE)]
    with postgres(durable=True):
        (path / "home").mkdir()
        shutil.copy(ROOT / "docs" / "dagster.postgres.yaml", path / "home" / "dagster.yaml")

        def timed(home: str) -> float:
            environment = {**os.environ, "DAGSTER_HOME": home}
            with ExitStack() as stack:
                started = [
                    stack.enter_context(
                        subprocess.Popen(
                            [sys.executable, "-W", "ignore", "-c", _RUNS, str(folder.path), *share],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
                        )
                    )
                    for share in shares
                ]  # fmt: skip
                for process in started:
                    _expect(process, "ready")
                began = time.perf_counter()
                for process in started:
                    assert process.stdin is not None
                    process.stdin.write("go\n")
                    process.stdin.flush()
                for process in started:
                    _expect(process, "done")
                return time.perf_counter() - began

        timed(str(path / "home"))  # makes its tables
        ways = {"SQLite": partial(timed, str(ROOT)), "Postgres": partial(timed, str(path / "home"))}
        told = f"{chunkings} partitions of chunks and retrieval_runs, {RUNS_AT_ONCE} runs at once"
        return Result(told, _in_turns(turns, ways), (("Postgres", "SQLite"),))


def _expect(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if said != word:
        raise RuntimeError(f"a process of the backfill said {said!r} where {word!r} was due")


def measure_dask(path: Path, parsed: int = 64, embedded: int = 256, turns: int = 3) -> Result:
    """The same files and texts on one Dask worker of one thread and on two, their parsers and models warm."""
    from rag_eval_assets.resources.embedders import embed_batch, embed_texts, load_embedder

    recipe = {"name": "minilm", "kind": "minilm", "batch": 8, "threads": 1}
    embedder = load_embedder(**recipe)
    if embedder is None:
        raise RuntimeError("the minilm extra is not installed")
    requests = []
    for n in range(parsed):
        file = path / f"{n:04}.md"
        file.write_text("".join(f"## Part {i}\n\nThe kettle of {n} litres boils in {i} minutes, and rests.\n\n" for i in range(60)))
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        requests.append(parsers.ParseRequest(file.name, file, media_types.MARKDOWN, "markdown", sha256))
    texts = [" ".join(f"Kettle {n} holds {i} litres." for i in range(12)) for n in range(embedded)]
    work = partial(embed_batch, recipe=json.dumps(recipe), query=False)
    with dask_cluster(path / "one", workers=1) as one, dask_cluster(path / "two", workers=2) as two:

        def parse(address: str, files_read: int = parsed) -> float:
            began = time.perf_counter()
            made = list(parsers.parse_files("unstructured", requests[:files_read], parsers.ParseLimits(), spread=spread_over(address)))
            if any(rows[0]["status"] != "ok" for rows in made):
                raise RuntimeError("a file was not parsed")
            return time.perf_counter() - began

        def embed(address: str, texts_read: int = embedded) -> float:
            began = time.perf_counter()
            embed_texts(texts[:texts_read], embedder, None, elsewhere=partial(spread_over(address), work))
            return time.perf_counter() - began

        for address in (one.address, two.address):
            parse(address, 8), embed(address, 32)
        ways = {
            f"{what}, {name}": partial(do, address)
            for what, do in (("parse", parse), ("embed", embed))
            for name, address in (("one worker", one.address), ("two workers", two.address))
        }
        told = f"{parsed} Markdown files, {embedded} texts; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        pairs = tuple((f"{what}, one worker", f"{what}, two workers") for what in ("parse", "embed"))
        return Result(told, _in_turns(turns, ways), pairs)
