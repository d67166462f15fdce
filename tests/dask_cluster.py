"""A real Dask cluster for tests: a scheduler and workers, each a process of its own on loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Cluster:
    """Where the scheduler is, and its workers' processes."""

    def __init__(self, logs: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.logs = logs
        self.scheduler = self._start("scheduler", "--port", self.address.rsplit(":", 1)[1])
        self.workers: list[subprocess.Popen[bytes]] = []

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{program}-{time.monotonic_ns()}.log").open("wb") as log:
            command = [sys.executable, "-m", "dask", program, "--host", "127.0.0.1", "--no-dashboard", *arguments]
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)

    def add_worker(self) -> subprocess.Popen[bytes]:
        """One more worker, of one thread, without a nanny: a killed one stays dead."""
        self.workers.append(
            self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--local-directory", str(self.logs / "scratch"))
        )
        return self.workers[-1]

    def wait(self, workers: int, patience: float = 300) -> None:
        """Until the scheduler and so many workers are there."""
        from distributed import Client

        with Client(self.address, timeout=patience, set_as_default=False) as client:
            if workers:
                client.wait_for_workers(workers, timeout=patience)

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait(60)

    def said(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.logs.glob("*.log")))


@contextmanager
def dask_cluster(logs: Path, workers: int = 2) -> Iterator[Cluster]:
    """A scheduler and its workers, as long as the block runs. Skips the test where distributed is not installed."""
    pytest.importorskip("distributed", reason="distributed is not installed; the lock has it")
    cluster = Cluster(logs)
    try:
        for _ in range(workers):
            cluster.add_worker()
        cluster.wait(workers)
        yield cluster
    finally:
        cluster.stop()
