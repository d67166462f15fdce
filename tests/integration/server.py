"""Dagster's webserver and daemon on an evaluation folder, in processes of their own, and questions to them by GraphQL."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from rag_eval_assets.settings import Folder

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600.0

Run = dict[str, Any]
T = TypeVar("T")


def wait_for(what: str, probe: Callable[[], T | None], patience: float = PATIENCE) -> T:
    """What `probe` gives, once it gives something."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        found = probe()
        if found:
            return found
        time.sleep(1)
    raise AssertionError(f"after {patience:.0f} s still no {what}")


class Server:
    """`rag-eval ui` in a session of its own."""

    def __init__(self, folder: Folder, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                self.command("ui", "--port", str(port)), cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "rag_eval_assets", "--data", str(self.folder.path), *arguments]

    def ask(self, query: str, **variables: Any) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            told = json.load(answer)
        assert "errors" not in told, told
        return told["data"]

    def ready(self) -> bool:
        """Whether the code location is loaded and every daemon that the test needs beats."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            told = self.ask(
                "{ workspaceOrError { ... on Workspace { locationEntries { loadStatus locationOrLoadError { __typename } } } }"
                "  instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } } }"
            )
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        locations = told["workspaceOrError"]["locationEntries"]
        daemons = told["instance"]["daemonHealth"]["allDaemonStatuses"]
        loaded = [x for x in locations if x["loadStatus"] == "LOADED" and x["locationOrLoadError"]["__typename"] == "RepositoryLocation"]
        return bool(loaded) and all(d["healthy"] for d in daemons if d["required"])

    def runs(self, **tags: str) -> list[Run]:
        """Runs that carry these tags, the last first."""
        told = self.ask(
            "query ($filter: RunsFilter) { runsOrError(filter: $filter) { ... on Runs { results {"
            "  runId status jobName assetSelection { path } tags { key value } } } } }",
            filter={"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        )
        return [{**run, "tags": {t["key"]: t["value"] for t in run["tags"]}} for run in told["runsOrError"]["results"]]

    def succeeded(self, run_id: str) -> Run:
        """The run, once it has succeeded; fails at once when it fails."""

        def ended() -> Run | None:
            run = next(r for r in self.runs() if r["runId"] == run_id)
            assert run["status"] not in ("FAILURE", "CANCELED"), (run, self.log.read_text()[-3000:])
            return run if run["status"] == "SUCCESS" else None

        return wait_for(f"success of run {run_id}", ended)

    def backfill(self, assets: Sequence[str], partitions: Sequence[str]) -> str:
        """Start a backfill; its id, which its runs carry as the tag dagster/backfill."""
        told = self.ask(
            "mutation ($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {"
            " __typename ... on LaunchBackfillSuccess { backfillId } } }",
            p={"assetSelection": [{"path": [name]} for name in assets], "partitionNames": list(partitions)},
        )
        return str(told["launchPartitionBackfill"]["backfillId"])

    def processes(self, word: str) -> list[psutil.Process]:
        """Processes of this session whose command names `word`."""
        mine = [process for process in psutil.process_iter(["cmdline"]) if _session(process.pid) == self.process.pid]
        return [process for process in mine if word in " ".join(process.info["cmdline"] or ())]

    def launched_by(self, act: Callable[[], object], **tags: str) -> Run:
        """The first run that did not exist before `act`."""
        before = {run["runId"] for run in self.runs(**tags)}
        act()
        return wait_for("new run", lambda: next((run for run in reversed(self.runs(**tags)) if run["runId"] not in before), None))

    def stop(self) -> list[psutil.Process]:
        """Terminate as a service manager does, and give what was still there after a minute; nothing is left in any case."""
        mine = [process for process in psutil.process_iter() if _session(process.pid) == self.process.pid]
        self.process.terminate()
        _, alive = psutil.wait_procs(mine, timeout=60)
        for process in alive:
            process.kill()
        self.process.wait(60)
        return alive


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None
