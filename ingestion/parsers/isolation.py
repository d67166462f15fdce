"""One file at a time in a worker process with a time and a memory limit, so that a hostile file costs one typed row.

What belongs here: the worker pool, its limits, and turning every way to die into a reason. What does not: parsing (the parser modules,
imported by name in the worker), or which files go to which parser (`parsers`).
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import importlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol

from ingestion.parsers.elements import Parsed, ParseFailure, ParseOptions, ParseRequest, failed_rows, ok_rows

Rows = list[dict[str, Any]]

_AHEAD = 32  # tasks queued a worker: enough to keep it busy, few enough that closing early wastes little
_ATTEMPTS = 2
_LIFELESS = 3  # files given up before any worker took one: then it is no file's fault
_BLOCK = 1024 * 1024


class WorkerError(RuntimeError):
    """Worker processes cannot be started at all: no file's fault."""


class ParserModule(Protocol):
    """What a parser module offers."""

    def warm(self, threads: int) -> None: ...

    def parse(self, path: Any, media_type: str, options: ParseOptions) -> Parsed: ...


# ------------------------------------------------------------------------------------------------------ in the worker
_parser: ParserModule | None = None
_broken: str = ""


def _start_worker(module: str, threads: int, megabytes: int) -> None:
    """Make this process a quiet, bounded parse worker. Never raises: the pool would start workers for ever."""
    global _parser, _broken
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        loaded: ParserModule = importlib.import_module(module)
        loaded.warm(threads)
        gc.freeze()  # what a parser has loaded stays for good: no collection walks through it again
        _parser = loaded
    except Exception as error:  # noqa: BLE001 - every file of this worker becomes a typed row that says so
        _parser, _broken = None, f"the parser cannot start: {type(error).__name__}: {error}"
    _limit_memory(megabytes)


def _die_with_parent() -> None:
    """End this worker when the process that started it is gone, killed ones included."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _limit_memory(megabytes: int) -> None:
    """Let files take `megabytes` MiB of address space beyond what the warm parser holds. Without /proc there is no limit."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not sys.platform.startswith("linux"):
        return
    with open("/proc/self/statm", encoding="ascii") as stream:
        held = int(stream.read().split()[0]) * resource.getpagesize()
    limit = held + megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _work(request: ParseRequest, options: ParseOptions) -> Rows:
    started = time.perf_counter()

    def failed(reason: str, detail: str) -> Rows:
        return failed_rows(request, reason, detail, time.perf_counter() - started)

    if _parser is None:
        return failed("crashed", _broken)
    try:
        if _sha256(request) != request.sha256:
            return failed("corrupt", "the file changed after the corpus was listed; list it again")
        parsed = _parser.parse(request.path, request.media_type, options)
        return ok_rows(request, parsed, time.perf_counter() - started)
    except ParseFailure as failure:
        # A library that ran out of memory may have said so in an error that the parser took for a broken file.
        memory = failure.__cause__ is not None and _is_memory(failure.__cause__)
        return failed("memory" if memory else failure.reason, failure.detail)
    except FileNotFoundError:
        return failed("corrupt", "the file is no longer there; list the corpus again")
    except Exception as error:  # noqa: BLE001 - whatever a library raises on a bad file is this file's failure, not the run's
        text = f"{type(error).__name__}: {error}"
        return failed("memory" if _is_memory(error) else "crashed", text)


def _is_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, in the words of Python, C++ or MuPDF."""
    seen: BaseException | None = error
    while seen is not None:
        text = str(seen).lower()
        if isinstance(seen, MemoryError) or any(
            words in text
            for words in ("bad_alloc", "malloc", "out of memory", "cannot allocate", "failed to allocate", "unable to allocate")
        ):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _sha256(request: ParseRequest) -> str:
    digest = hashlib.sha256()
    with request.path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------------------ in the caller
def run_isolated(
    module: str,
    requests: Sequence[ParseRequest],
    options: ParseOptions,
    *,
    workers: int,
    seconds: float,
    megabytes: int,
    keep: bool = False,
) -> Generator[Rows, None, None]:
    """Parse files with `module` in worker processes and yield each file's rows, in order.

    A worker that dies or overruns is replaced; its file becomes a failed row (timeout, memory, crashed). Closing the iterator
    stops the workers; once all files are read, `keep` leaves them warm for the next call like this one. Raises WorkerError where no
    worker comes to life.
    """
    from pebble import ProcessExpired

    workers = max(1, min(workers, len(requests)))
    options = replace(options, threads=max(1, (os.cpu_count() or 1) // workers))
    waiting, queue = deque(requests), deque[tuple[ParseRequest, Any]]()
    kind = (module, workers, options.threads, megabytes)
    workforce = _Workers.kept(kind) or _Workers.start(*kind)
    attempts, lifeless, lived = 0, 0, False
    try:
        while waiting or queue:
            try:
                while waiting and len(queue) < _AHEAD * workers:
                    queue.append((waiting[0], workforce.pool.schedule(_work, args=(waiting[0], options), timeout=seconds)))
                    waiting.popleft()
                request, future = queue[0]
                rows: Rows = future.result()
            except TimeoutError:
                rows, lived = failed_rows(request, "timeout", f"over the limit of {seconds:g} s for one file", seconds), True
            except ProcessExpired as death:
                rows, lived = failed_rows(request, *_cause(death.exitcode)), True
            except (BrokenProcessPool, RuntimeError):
                # A worker died while none was known to hold a task, so nobody knows whose fault it was: start again from here.
                waiting.extendleft(reversed([request for request, _ in queue]))
                queue.clear()
                workforce.stop()
                workforce = _Workers.start(*kind)
                attempts += 1
                if attempts < _ATTEMPTS:
                    continue
                lifeless += 1
                if lifeless == _LIFELESS and not lived:
                    raise WorkerError(
                        "parser workers end before they take a file. A worker imports the script that started it: keep what the script "
                        "does under 'if __name__ == \"__main__\":'"
                    ) from None
                request = waiting.popleft()
                queue.append((request, None))
                rows = failed_rows(request, "crashed", "no worker lived long enough to take this file")
            except Exception as error:  # noqa: BLE001 - rows that cannot travel back: this file's failure, not the run's
                rows = failed_rows(request, "memory" if _is_memory(error) else "crashed", f"{type(error).__name__}: {error}")
            else:
                lived = True
            attempts = 0
            queue.popleft()
            yield rows
    except BaseException:
        keep = False
        raise
    finally:
        if keep:
            workforce.put_away(kind)
        else:
            workforce.stop()


def run_batch(requests: Sequence[ParseRequest], *, module: str, options: ParseOptions, seconds: float, megabytes: int) -> list[Rows]:
    """Each file's rows, on a machine that was handed a batch: one worker process, kept warm between batches.

    Raises WorkerError where this machine does not see a file: that is no file's fault either.
    """
    unseen = next((request.path for request in requests if not request.path.is_file()), None)
    if unseen is not None:
        raise WorkerError(f"{socket.gethostname()} does not see {unseen}: mount the evaluation folder there at the same path")
    return list(run_isolated(module, requests, options, workers=1, seconds=seconds, megabytes=megabytes, keep=True))


class _Spawning(SpawnContext):
    """Spawns workers and remembers them. A fork would copy the caller's locks, and its memory into every worker's limit."""

    def __init__(self) -> None:
        super().__init__()
        self.born: list[SpawnProcess] = []
        self.locks: list[Any] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        self.born.append(SpawnProcess(*args, **kwargs))
        return self.born[-1]

    def RLock(self) -> Any:
        """Keep the pool's locks until its last process is gone: one that is being started would miss them aloud."""
        self.locks.append(super().RLock())
        return self.locks[-1]


@dataclass(frozen=True)
class _Workers:
    """A pool and every process that it started."""

    pool: Any
    context: _Spawning

    @classmethod
    def start(cls, module: str, workers: int, threads: int, megabytes: int) -> _Workers:
        from pebble import ProcessPool

        context = _Spawning()
        with _deaf_to_interrupts():
            pool = ProcessPool(max_workers=workers, initializer=_start_worker, initargs=(module, threads, megabytes), context=context)
            bool(pool.active)  # asking starts its threads, and the first workers
        return cls(pool, context)

    @classmethod
    def kept(cls, kind: Kind) -> _Workers | None:
        """The workers that were put away for this kind, if there are any; those of other kinds are stopped."""
        with _shelf_lock:
            found = _shelf.pop(kind, None)
            others = list(_shelf.values())
            _shelf.clear()
        for other in others:
            other.stop()
        return found

    def put_away(self, kind: Kind) -> None:
        """Keep these workers for the next call of this kind, until this process ends."""
        with _shelf_lock:
            before = _shelf.pop(kind, None)
            _shelf[kind] = self
        if before is not None:
            before.stop()

    def stop(self) -> None:
        """Stop the pool, and workers that were being started meanwhile: the pool forgets those, and they would die aloud."""
        self.pool.stop()
        self.pool.join()
        for process in self.context.born:
            if process.pid is not None and process.is_alive():
                process.kill()
                process.join()


Kind = tuple[str, int, int, int]
"""What workers were started for: module, number, threads, MiB."""

_shelf: dict[Kind, _Workers] = {}
_shelf_lock = threading.Lock()


@atexit.register
def _empty_shelf() -> None:
    """Stop what is kept: at its end Python waits for every process that still lives."""
    while _shelf:
        _shelf.popitem()[1].stop()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let threads and processes started within inherit a blocked SIGINT: one met while Python starts would end in a traceback.

    An interrupt from the keyboard goes to the workers too; they end with the pool, which this process stops. It comes here once
    this is over.
    """
    resource_tracker.ensure_running()  # where a worker's start began it, it would unblock SIGINT again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _cause(exitcode: int) -> tuple[str, str]:
    if exitcode >= 0:
        return "crashed", f"the worker process ended with exit code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    hints: dict[int, str] = {
        signal.SIGKILL: "; the kernel kills this way when memory runs out",
        signal.SIGABRT: "; C++ code ends this way when memory runs out",
    }
    return "crashed", f"the worker process died of {name}{hints.get(-exitcode, '')}"
