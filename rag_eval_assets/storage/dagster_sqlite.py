"""Dagster's own SQLite storage, with engines that live as long as the process.

Dagster makes an engine for every event it stores, and with it forgets the compiled statements, asks the dialect what the database
can do, and closes the file to the disk; that is most of the time of a short run. Here an engine is made once for each database,
and a run's database starts as a copy of an empty one. Files and tables are Dagster's: either storage reads what the other wrote.

What belongs here: connections. What does not: anything that is stored.
"""

from __future__ import annotations

import os
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import sqlalchemy as db
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.schedules import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._core.storage.sqlite_storage import (
    DagsterSqliteStorage,
    _event_logs_directory,
    _runs_directory,
    _schedule_directory,
)
from dagster._serdes import ConfigurableClassData
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DisconnectionError

RUN_ENGINES = 8
"""Run databases whose engines are kept; a sync writes one at a time, a page of the UI reads a few."""


def _engine(url: str) -> Engine:
    """An engine that syncs at checkpoints: a kill loses nothing, a power cut perhaps the last events, which `sync` reports anew."""
    engine = db.create_engine(url, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})

    @db.event.listens_for(engine, "connect")
    def _(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA synchronous=NORMAL")
        record.info["file"] = _file(engine)

    @db.event.listens_for(engine, "checkout")
    def _(_: Any, record: Any, __: Any) -> None:
        if record.info["file"] != _file(engine):
            raise DisconnectionError("the database was deleted or replaced; connect to the one that is there now")

    return engine


def _file(engine: Engine) -> tuple[int, int] | None:
    """Which file stands at the database's path."""
    try:
        found = os.stat(str(engine.url.database))
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class WarmEventLogStorage(SqliteEventLogStorage):
    """One engine for the index, one for each of the last run databases."""

    _template: ClassVar[bytes | None] = None

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            engine = self._engine(shard)
            if shard not in self._initialized_dbs:
                self._start(shard, engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection

    def store_event(self, event: EventLogEntry) -> None:
        super().store_event(event)
        # The UI watches this file; what stands in the write-ahead log alone does not change it.
        os.utime(self.path_for_shard(event.run_id))

    def _engine(self, shard: str) -> Engine:
        if shard not in self._engines:
            self._engines[shard] = _engine(self.conn_string_for_shard(shard))
        self._engines.move_to_end(shard)
        runs = [name for name in self._engines if name != INDEX_SHARD_NAME]
        for name in runs[:-RUN_ENGINES]:
            self._engines.pop(name).dispose()
        return self._engines[shard]

    def _start(self, shard: str, engine: Engine) -> None:
        """Make the database: a run's as a copy, because Dagster's own way replays its migrations for each."""
        path = Path(self.path_for_shard(shard))
        if shard != INDEX_SHARD_NAME and not path.exists():
            temporary = path.with_name(f".{shard}.{uuid.uuid4().hex}.tmp")
            temporary.write_bytes(self._empty())
            try:
                os.link(temporary, path)
                return
            except OSError:
                pass  # another process was first, or this file system has no links
            finally:
                temporary.unlink()
        self._initdb(engine)

    def _empty(self) -> bytes:
        """A run database without events."""
        if self._template is None:
            with TemporaryDirectory() as folder:
                engine = db.create_engine(create_db_conn_string(folder, "empty"))
                self._initdb(engine)
                engine.dispose()  # the last connection takes the write-ahead log with it
                type(self)._template = Path(folder, "empty.db").read_bytes()
        assert self._template is not None
        return self._template

    def dispose(self) -> None:
        super().dispose()
        while self._engines:
            self._engines.popitem()[1].dispose()


class _OneEngine:
    """What `connect` of a storage with one database becomes."""

    def __init__(self, conn_string: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._warm = _engine(conn_string)
        super().__init__(conn_string, inst_data)  # type: ignore[call-arg]  # of the storage beside this class

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with self._warm.begin() as connection:
            yield connection

    def dispose(self) -> None:
        self._warm.dispose()


class WarmRunStorage(_OneEngine, SqliteRunStorage):
    """The runs."""


class WarmScheduleStorage(_OneEngine, SqliteScheduleStorage):
    """Schedules, sensors and their ticks."""


class WarmSqliteStorage(DagsterSqliteStorage):
    """What dagster.yaml names as the storage of an evaluation folder's Dagster."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self.base_dir = base_dir
        self._run_storage = WarmRunStorage.from_local(_runs_directory(base_dir))
        self._event_log_storage = WarmEventLogStorage(_event_logs_directory(base_dir))
        self._schedule_storage = WarmScheduleStorage.from_local(_schedule_directory(base_dir))
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]
        self._inst_data = inst_data

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> WarmSqliteStorage:
        return cls.from_local(inst_data=inst_data, **config_value)
