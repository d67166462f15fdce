"""The default chain opens no socket beyond loopback, in any of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.conftest import CHANGES
from tests.small import small_folder

GUARD = """
import os, socket

def refused(address):
    with open(os.environ["GUARD_LOG"], "a") as log:
        log.write(f"{address!r}\\n")
    raise OSError(f"no network here: {address!r}")

def local(address):
    return not isinstance(address, tuple) or str(address[0]).startswith("127.") or address[0] in ("localhost", "::1")

for name in ("connect", "connect_ex", "sendto"):
    def guarded(self, *args, _original=getattr(socket.socket, name)):
        address = args[-1]
        return _original(self, *args) if self.family == socket.AF_UNIX or local(address) else refused(address)
    setattr(socket.socket, name, guarded)

_resolve = socket.getaddrinfo
def resolve(host, *args, **kwargs):
    return _resolve(host, *args, **kwargs) if host in (None, "", "localhost", socket.gethostname()) or local((host,)) else refused(host)
socket.getaddrinfo = resolve
open(os.environ["GUARD_LOG"] + ".alive", "a").write("x")
"""


def test_the_default_chain_opens_no_socket_beyond_loopback(tmp_path: Path) -> None:
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "sitecustomize.py").write_text(GUARD)
    folder = small_folder(tmp_path / "small", CHANGES)
    log = tmp_path / "log"
    environment = {k: v for k, v in os.environ.items() if k not in ("DO_NOT_TRACK", "RAGAS_DO_NOT_TRACK", "DAGSTER_DISABLE_TELEMETRY")}
    environment |= {"PYTHONPATH": os.pathsep.join([str(tmp_path / "guard"), *sys.path]), "GUARD_LOG": str(log)}
    done = subprocess.run(
        [sys.executable, "-m", "rag_eval_assets", "--data", str(folder.path), "sync"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "log.alive").read_text()) >= 2  # the guard stood in the parse workers too
    assert not log.exists(), log.read_text()
