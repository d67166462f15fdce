"""A nightly run of many questions through several systems against a model endpoint that faults: is the set concurrency used up?

The endpoint is a process of its own that answers after a fixed latency and faults on one call in twenty: 429, 500, a reply cut in the
middle, no reply at all. The run is `rag-eval sync` in another process, so that its peak memory is the run's alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.resources.responses import RESPONSES, ResponseStore
from rag_eval_assets.settings import Folder, Limits
from rag_eval_assets.storage.sync import open_catalogue
from tests.benchmarks.synthetic import sentences
from tests.small import write_questions, write_settings

LATENCY_SECONDS = 0.2
DEADLINE_SECONDS = 2.0
CONCURRENCY = 32
FAULTS = ("429", "500", "cut", "silent")
ONE_FAULT_IN = 20
SATURATED = 0.9
DOCUMENTS = 40
ROOT = Path(__file__).resolve().parents[2]


class FaultyEndpoint:
    """The running endpoint: calls as (system, question, seconds of the clock), faults by kind, and how many calls were open when."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.calls: list[tuple[str, str, float]] = []
        self.faults: Counter[str] = Counter()
        self.connections = self.open = 0
        self.levels: list[tuple[float, int]] = []
        self.url = ""

    def _step(self, by: int) -> None:
        self.open += by
        self.levels.append((time.monotonic(), self.open))

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one connection, until the client closes it."""
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
                body = json.loads(await reader.readexactly(length))
                for _ in range(3):  # connections that the client closed before are counted off first
                    await asyncio.sleep(0)
                system, question = body["messages"][0]["content"].split(".", 1)[0], body["messages"][-1]["content"].rsplit("\n", 1)[1]
                number = len(self.calls)
                self.calls.append((system, question, time.monotonic()))
                fault = FAULTS[number // ONE_FAULT_IN % len(FAULTS)] if number % ONE_FAULT_IN == 0 else None
                self.faults.update([fault] if fault else [])
                self._step(1)
                try:
                    reply = await self._reply(fault, reader)
                finally:
                    self._step(-1)
                writer.write(reply)
                await writer.drain()
        writer.close()

    async def _reply(self, fault: str | None, reader: asyncio.StreamReader) -> bytes:
        if fault == "silent":
            await reader.read(1)  # nothing more is sent: this returns when the client gives up
            raise ConnectionResetError
        await asyncio.sleep(self.latency)
        if fault in ("429", "500"):
            return f"HTTP/1.1 {fault} No\r\ncontent-length: 0\r\n\r\n".encode()
        pieces = [
            {"delta": {"content": "It says so "}},
            {"delta": {"content": "in the passage [1]."}},
            {"delta": {}, "finish_reason": "stop"},
        ]
        events = [{"model": "m", "choices": [{"index": 0, **piece}]} for piece in pieces]
        events.append({"model": "m", "choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 12}})
        whole = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        sent = (whole[: len(whole) // 3] if fault == "cut" else whole).encode()
        return f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(sent)}\r\n\r\n".encode() + sent

    def seen(self) -> dict[str, Any]:
        """By system, while questions waited to be sent for the first time: mean calls open at once; over everything, the most."""
        begun: dict[str, dict[str, float]] = {}
        for system, question, at in self.calls:
            begun.setdefault(system, {}).setdefault(question, at)
        spans = {system: (min(first.values()), max(first.values())) for system, first in begun.items()}
        means = {system: self._mean(*span) for system, span in spans.items()}
        seconds = {system: end - start for system, (start, end) in spans.items()}
        most = max((level for _, level in self.levels), default=0)
        told = {"calls": len(self.calls), "connections": self.connections, "faults": self.faults}
        return {**told, "means": means, "seconds": seconds, "most": most}

    def _mean(self, start: float, end: float) -> float:
        area, level, since = 0.0, 0, start
        for at, now in self.levels:
            if at > start:
                area += level * (min(at, end) - since)
                since = min(at, end)
            level = now
            if at >= end:
                break
        return area / (end - start) if end > start else 0.0


def serve(latency: float) -> None:
    """Serve until a line comes in on standard input, then say what was seen: the body of the endpoint's process."""

    async def run() -> None:
        own = FaultyEndpoint(latency)
        async with await asyncio.start_server(own.connected, "127.0.0.1", 0, backlog=512) as server:
            print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            print(json.dumps(own.seen()), flush=True)

    asyncio.run(run())


@contextlib.contextmanager
def endpoint_process(latency: float) -> Iterator[tuple[str, Any]]:
    """URL of an endpoint in a process of its own, and a function that ends it and gives what it saw."""
    command = [sys.executable, "-c", f"from tests.benchmarks import load; load.serve({latency})"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def end() -> dict[str, Any]:
            told, _ = process.communicate("\n", timeout=30)
            return dict(json.loads(told))

        try:
            yield process.stdout.readline().strip(), end
        finally:
            process.kill()


def load_folder(path: Path, questions: int, systems: int, url: str, concurrency: int) -> Folder:
    """An evaluation folder of DOCUMENTS texts whose systems differ in their prompt alone and ask one model."""
    (path / "corpus").mkdir(parents=True)
    bodies = [sentences(number, 1_500) for number in range(DOCUMENTS)]
    for number, body in enumerate(bodies):
        (path / "corpus" / f"report-{number:02d}.txt").write_text("\n\n".join(body), encoding="utf-8")
    lines = []
    for number in range(questions):
        body = bodies[number % DOCUMENTS]
        about = body[number // DOCUMENTS % len(body)]
        evidence = [{"group": "g1", "document": f"report-{number % DOCUMENTS:02d}.txt", "quotation": body[0]}]
        lines.append(
            {"id": f"q{number:05d}", "question": f"Case {number}: what follows from {about}", "split": "release", "language": "en",
             "reference_answer": body[0], "intent": "lookup", "kinds": ["lookup"], "evidence": evidence}
        )  # fmt: skip
    write_questions(path, lines)
    model = {"base_url": url, "model": "m", "concurrency": concurrency, "deadline_seconds": DEADLINE_SECONDS}
    system = {"chunking": "recursive-256-o0", "retriever": "bm25", "depth": 10, "top_k": 5, "reader": {"kind": "chat", "model": "m"}}
    write_settings(
        path,
        {
            "chunkings": [{"strategy": "recursive", "size": 256}],
            "models": {"m": model},
            "systems": {f"s{number}": {**system, "prompt": f"System {number}. Answer briefly."} for number in range(systems)},
            "gates": {},
        },
    )
    return Folder(path)


@dataclass(frozen=True)
class Result:
    """`rows` by status and reason over all systems; `seen` as the endpoint tells it; memory in MiB."""

    questions: int
    systems: int
    concurrency: int
    rows: Mapping[str, int]
    kept: int
    seen: Mapping[str, Any]
    peak: float
    seconds: float
    log: list[str]

    @property
    def saturation(self) -> float:
        """The least share of the concurrency that a system used while questions waited."""
        return float(min(self.seen["means"].values()) / self.concurrency)

    def lines(self) -> Iterator[str]:
        asked = self.questions * self.systems
        seen = self.seen
        yield f"{self.questions} questions x {self.systems} systems, {LATENCY_SECONDS:g} s a call, one fault in {ONE_FAULT_IN} calls"
        yield f"concurrency set   {self.concurrency}"
        yield f"concurrency seen  mean {', '.join(f'{mean:.1f}' for mean in seen['means'].values())} of a system while questions waited, most {seen['most']}"
        yield f"saturation        {self.saturation:.3f} at least  (wanted: {SATURATED} or more; never more than {self.concurrency} at once)"
        yield f"rows              {sum(self.rows.values())} of {asked}: {', '.join(f'{count} {what}' for what, count in sorted(self.rows.items()))}"
        yield f"calls             {seen['calls']} over {seen['connections']} connections, {seen['calls'] - asked} of them retries; faults: {', '.join(f'{n} {f}' for f, n in seen['faults'].items())}"
        yield f"replies kept      {self.kept}"
        limit = Limits().file_megabytes
        yield f"peak memory       {self.peak:.0f} MiB, {self.peak / limit:.2f} of limits.file_megabytes ({limit})"
        yield f"machine           load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end; a starved client cannot fill the endpoint"
        yield f"answering         {', '.join(f'{s:.0f} s' for s in seen['seconds'].values())}; whole sync {self.seconds:.0f} s"
        yield f"progress          {len(self.log)} lines, such as"
        yield from (f"  {line}" for line in self.log[:: max(1, len(self.log) // 3)])


def measure(scratch: Path, questions: int, systems: int, concurrency: int = CONCURRENCY, latency: float = LATENCY_SECONDS) -> Result:
    """Run the sync up to the answers in a process of its own."""
    with endpoint_process(latency) as (url, end):
        folder = load_folder(scratch / "load", questions, systems, url, concurrency)
        started = time.monotonic()
        command = [sys.executable, "-W", "ignore", "-m", "rag_eval_assets", "--data", str(folder.path), "sync", "--select", "answers"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stderr is not None
            told: list[str] = []
            reading = threading.Thread(target=lambda: told.extend(process.stderr or ()))
            reading.start()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            reading.join()
        assert process.returncode == 0, "".join(told)
        seconds, seen = time.monotonic() - started, end()
    catalogue = open_catalogue(folder)
    rows: Counter[str] = Counter()
    for number in range(systems):
        table = catalogue.read(AssetPartition("answers", f"s{number}"), ("status", "reason"))[0]
        rows.update(" ".join(filter(None, (row["status"], row["reason"]))) for row in table.to_pylist())
    kept = len(ResponseStore(folder.stores / RESPONSES))
    log = [line.strip() for line in told if re.search(r"answers\[.*\d+ of \d+", line)]
    return Result(questions, systems, concurrency, rows, kept, seen, used.ru_maxrss / 1024, seconds, log)
