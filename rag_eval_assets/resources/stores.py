"""One SQLite file that many processes, threads and forks may use, and a content-addressed blob store in one.

What belongs here: opening, waiting, transactions, and keeping bytes under a key. What does not: what the bytes mean or how a key is
made. A blob store is a cache: nothing in a table depends on it being there, and it may be deleted whenever no run is going.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from rag_eval_assets.unwritable import unwritable

BUSY_SECONDS = 60.0
KEYS_PER_QUERY = 500  # below SQLite's oldest limit of 999 bound parameters
Found = TypeVar("Found")


def is_damage(error: BaseException) -> bool:
    """Whether SQLite says with this error that a file is no whole database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteFile:
    """One SQLite file. Each process and thread opens its own connection at first use: share, pickle or fork an instance freely.

    Write-ahead logging lets readers go on while one writer commits; other writers wait up to `BUSY_SECONDS`. A damaged file is removed
    and made anew, unless a subclass keeps what cannot be made again. Subclasses name their tables and how far a commit reaches.
    """

    TABLES: ClassVar[tuple[str, ...]]
    SYNCHRONOUS: ClassVar[Literal["NORMAL", "FULL"]] = "NORMAL"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._local = threading.local()
        self._inherited: list[sqlite3.Connection] = []

    def __reduce__(self) -> tuple[type[SqliteFile], tuple[str]]:
        return type(self), (str(self.path),)

    def write(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        """`work` in one transaction: after the call all of it survives a kill, before it nothing."""

        def write(connection: sqlite3.Connection) -> Found:
            # IMMEDIATE: a transaction that upgrades from read to write would fail at once instead of waiting for its turn.
            connection.execute("BEGIN IMMEDIATE")
            try:
                found = work(connection)
            except BaseException:
                if connection.in_transaction:  # SQLite has ended it where the file is damaged
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            return found

        return self._whole(write)

    def _whole(self, use: Callable[[sqlite3.Connection], Found]) -> Found:
        """What `use` gives of a whole file: a damaged one is put away, and `use` begins again on an empty one.

        Raises UnwritableError where the file cannot be written.
        """
        try:
            return use(self._connection())
        except (sqlite3.DatabaseError, OSError) as error:
            if (told := unwritable(error, self.path)) is not None:
                raise told from error
            if not is_damage(error):
                raise
        self.close()
        self._put_away()
        return use(self._connection())

    def _put_away(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def close(self) -> None:
        """Close the calling thread's connection; the store opens again when used."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is not None and self._local.pid == os.getpid():
            connection.close()
        self._local.connection = None

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is not None and self._local.pid == os.getpid():
            return connection
        if connection is not None:
            # SQLite forbids touching a connection carried over a fork, closing included: keep it alive instead.
            self._inherited.append(connection)
        self._local.connection = connection = self._open()
        self._local.pid = os.getpid()
        return connection

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
            _enter_wal(connection)
            connection.execute(f"PRAGMA synchronous = {self.SYNCHRONOUS}")
            for statement in self.TABLES:
                connection.execute(statement)
        except sqlite3.Error:
            connection.close()
            raise
        return connection


class SqliteStore(SqliteFile):
    """Blobs by key, a cache. The last writer of a key wins: for content-addressed keys, equal bytes are written twice."""

    TABLES = ("CREATE TABLE IF NOT EXISTS blobs (key TEXT PRIMARY KEY, value BLOB NOT NULL)",)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The blobs that are there, in the order of `keys`; absent keys are left out."""
        wanted = list(dict.fromkeys(keys))

        def read(connection: sqlite3.Connection) -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            for start in range(0, len(wanted), KEYS_PER_QUERY):
                part = wanted[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(part))
                found.update(connection.execute(f"SELECT key, value FROM blobs WHERE key IN ({marks})", part).fetchall())
            return found

        found = self._whole(read)
        return {key: found[key] for key in wanted if key in found}

    def put_many(self, items: Mapping[str, bytes]) -> None:
        """Keep all items in one transaction: after the call all of them survive a kill, before it none."""
        if items:
            self.write(
                lambda connection: connection.executemany("INSERT OR REPLACE INTO blobs (key, value) VALUES (?, ?)", sorted(items.items()))
            )

    def __len__(self) -> int:
        return self._whole(lambda connection: int(connection.execute("SELECT count(*) FROM blobs").fetchone()[0]))


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging. SQLite does not wait for a lock here, so openers that race ask again."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
