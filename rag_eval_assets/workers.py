"""Batches of rows on other machines: a Dask cluster that `workers` of the settings names.

What belongs here: handing out batches from the run's process, their order, what a lost worker or another installation means. What does
not: what a batch is made of (parsing, embedding and answering say) and work on this machine, which needs none of this.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from threading import Event
from typing import Any

from rag_eval_assets.storage.versions import PACKAGES

Work = Callable[[list[Any]], list[Any]]

AHEAD = 2
"""Batches under way for each thread of the cluster: enough to keep it busy, few enough to hold in memory."""
PATIENCE = 60.0
"""Seconds a batch waits for the cluster to have a worker at all."""
_LOOK = 2.0
_GOODBYE = 5.0


class ClusterError(RuntimeError):
    """A cluster that cannot be used: nobody there, another installation, or a batch that ends every worker."""


@cache
def installation() -> dict[str, str]:
    """What shapes rows on this machine: Python, the project's source, and the versions of the libraries it names."""
    root = Path(__file__).resolve().parents[1]
    source = hashlib.sha256()
    for path in sorted(p for package in PACKAGES for p in (root / package).rglob("*.py")):
        source.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    found = {"python": platform.python_version(), "rag_eval_assets' source": source.hexdigest()[:12]}
    for requirement in importlib.metadata.requires("rag-eval-assets") or ():
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def _checked(expected: dict[str, str], work: Work, batch: list[Any]) -> list[Any]:
    """`work` of one batch, on the cluster, where what is installed is what the run's process has."""
    mine = installation()
    other = [f"{name} {mine.get(name)}, here {wanted}" for name, wanted in expected.items() if mine.get(name) != wanted]
    if other:
        raise ClusterError(f"the worker on {socket.gethostname()} is installed otherwise ({'; '.join(other[:3])}): give it the same lock")
    return work(batch)


def spread_over(address: str) -> Callable[[Work, Sequence[list[Any]]], Iterator[list[Any]]]:
    """A function that applies work to batches on the cluster of the scheduler at `address` and gives the results in order.

    It is called in the run's process, so no step waits for a worker that it holds itself. A batch whose worker dies is made by another
    one; what a batch raises is raised here. Raises ClusterError.
    """
    return partial(_spread, address)


def _spread(address: str, work: Work, batches: Sequence[list[Any]]) -> Iterator[list[Any]]:
    from distributed import Client

    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False, name="rag_eval_assets")
    except (OSError, TimeoutError) as error:
        raise ClusterError(f"no Dask scheduler answers at {address} (workers in evaluation.yaml): {error}") from error
    waiting, under_way = deque(batches), deque[Any]()
    try:
        while waiting or under_way:
            while waiting and len(under_way) < AHEAD * max(1, sum(client.ncores().values())):
                under_way.append(client.submit(partial(_checked, installation(), work), waiting.popleft(), pure=False))
            yield _result(client, address, under_way.popleft())
    finally:
        client.close(timeout=_GOODBYE)  # the scheduler drops what only this client waited for


def _result(client: Any, address: str, future: Any) -> list[Any]:
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    done = Event()
    future.add_done_callback(lambda _: done.set())
    alone_since: float | None = None
    while not done.wait(_LOOK):  # to ask for the result itself with a time limit cancels the asking, and sometimes the result
        alone_since = None if client.ncores() else alone_since or time.monotonic()
        if alone_since is not None and time.monotonic() - alone_since > PATIENCE:
            raise ClusterError(f"the Dask scheduler at {address} has had no worker for {PATIENCE:.0f} s")
    try:
        found: list[Any] = future.result()
    except KilledWorker as error:
        raise ClusterError(f"a batch of rows ended every worker that took it; the workers' logs say why: {error}") from error
    except FutureCancelledError as error:
        raise ClusterError(f"the Dask scheduler at {address} is gone: {error}") from error
    return found
