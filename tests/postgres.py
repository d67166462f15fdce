"""A real Postgres server for tests: Debian's, on loopback, with a folder of its own that is gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

PASSWORD = "a p@ss:word of its own"


def _program(name: str) -> str | None:
    """Debian keeps the server's programs out of the path."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[-3]))
    return str(versions[-1]) if versions else shutil.which(name)


class Postgres:
    """A server that may be killed and started again."""

    def __init__(self, data: Path, programs: dict[str, str], *, durable: bool) -> None:
        self.data, self.programs, self.durable = data, programs, durable
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DAGSTER_POSTGRES_HOST": "127.0.0.1",
            "DAGSTER_POSTGRES_PORT": str(self.port),
            "DAGSTER_POSTGRES_DB": "postgres",
            "DAGSTER_POSTGRES_USER": "dagster",
            "DAGSTER_POSTGRES_PASSWORD": PASSWORD,
        }

    def run(self, program: str, *arguments: str) -> None:
        """One of the server's programs, which refuse to work for root."""
        nobody: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        subprocess.run([self.programs[program], *arguments], check=True, stdout=subprocess.DEVNULL, cwd=self.data.parent, **nobody)

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='{self.data.parent}'"
        if not self.durable:
            options += " -c fsync=off -c synchronous_commit=off"
        self.run("pg_ctl", "-D", str(self.data), "-l", str(self.data.parent / "log"), "-o", options, "-w", "-t", "120", "start")

    def kill(self) -> None:
        """End the server and all its processes without a word."""
        server = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
        everything = [server, *server.children(recursive=True)]
        for process in everything:
            process.kill()
        psutil.wait_procs(everything, timeout=60)

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "-t", "120", "stop")


@contextmanager
def postgres(*, durable: bool = False) -> Iterator[Postgres]:
    """A running server, empty. `durable` waits for the disk as a real one does. Skips the test where there is no server to start."""
    programs = {name: _program(name) for name in ("initdb", "pg_ctl")}
    if not all(programs.values()):
        pytest.skip("no Postgres server is installed (Debian: postgresql)")
    pytest.importorskip("dagster_postgres", reason="dagster-postgres is not installed; the lock has it")
    memory = "/dev/shm" if not durable and os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="postgres-", dir=memory))
    server = Postgres(home / "data", {name: str(path) for name, path in programs.items()}, durable=durable)
    try:
        (home / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (home, home / "password"):
                shutil.chown(path, "postgres", "postgres")
        server.run("initdb", "-D", str(home / "data"), "-U", "dagster", "-A", "scram-sha-256", f"--pwfile={home / 'password'}", "-N")
        server.start()
        try:
            with pytest.MonkeyPatch.context() as patch:
                for name, value in server.environment.items():
                    patch.setenv(name, value)
                yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)
