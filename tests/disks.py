"""A small disk of its own for a folder: it can be filled, freed and made read-only, also for root, whom no permission stops."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A file system in memory at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def leave(self, kibibytes: int) -> None:
        """Fill the disk until this much room is left."""
        self.free()
        room = os.statvfs(self.path)
        with (self.path / ".filling").open("wb") as filling:
            os.posix_fallocate(filling.fileno(), 0, max(1, room.f_bavail * room.f_frsize - kibibytes * 1024))

    def free(self) -> None:
        (self.path / ".filling").unlink(missing_ok=True)

    def writable(self, yes: bool) -> None:
        subprocess.run(["mount", "-o", f"remount,{'rw' if yes else 'ro'}", str(self.path)], check=True)


@contextmanager
def small_disk(path: Path, content: Path | None = None) -> Iterator[Disk]:
    """A disk of 64 MiB at the empty folder `path`, holding a copy of `content`. Skips the test where nothing may be mounted."""
    path.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(path)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        if content is not None:
            shutil.copytree(content, path, dirs_exist_ok=True)
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
