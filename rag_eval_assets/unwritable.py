"""Places that cannot be written, because their disk is full or they are read-only, told as one error.

What belongs here: the error, and which errors of the operating system and of SQLite mean it. What does not: writing, and damage
to what was written before (`storage.dagster_damage`).
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GOES_ON = "what stands there is whole, and the next sync goes on from it"
SYNC_AGAIN = f"sync again: {GOES_ON}"
_WHY = {
    errno.ENOSPC: "the disk is full. Free space there",
    errno.EDQUOT: "the quota is used up. Free space there",
    errno.EROFS: "it is read-only. Make it writable",
    errno.EACCES: "this user may not write there. Give the right to",
}
_ALWAYS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors that only a write meets."""
_SQLITE = {
    sqlite3.SQLITE_FULL: _WHY[errno.ENOSPC],
    sqlite3.SQLITE_READONLY: _WHY[errno.EROFS],
    sqlite3.SQLITE_IOERR: "writing fails. See that the disk there has room and is sound",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened. See that the disk there has room and may be written",
}


class UnwritableError(RuntimeError):
    """A file or folder that cannot be written: names it, the reason and the mend."""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from, the members of groups included; SQLAlchemy, Dagster and asyncio wrap."""
    todo, seen = [error], set()
    while todo:
        found = todo.pop(0)
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            yield found
            todo += [*getattr(found, "exceptions", ()), found.__cause__, found.__context__]


def unwritable(
    error: BaseException, place: str | os.PathLike[str], writing: bool = False, again: str = SYNC_AGAIN
) -> UnwritableError | None:
    """What `error` tells of a place that cannot be written; None where it tells of something else.

    `place` is named where the error names no file. While `writing`, a refused right counts too. `again` is what to do once it is mended.
    """
    for found in causes(error):
        if isinstance(found, UnwritableError):
            return found
        if isinstance(found, sqlite3.Error):
            why = _SQLITE.get(getattr(found, "sqlite_errorcode", 0) & 0xFF)
        elif isinstance(found, OSError) and (writing or found.errno in _ALWAYS):
            why = _WHY.get(found.errno or 0)
            place = found.filename if isinstance(found.filename, (str, Path)) and not writing else place
        else:
            continue
        if why is not None:
            return UnwritableError(f"{os.fspath(place)}: {why} and {again}.")
    return None


@contextmanager
def writing_to(place: str | os.PathLike[str], again: str = SYNC_AGAIN) -> Iterator[None]:
    """Writes `place`: whatever keeps the block from it is told of that place, and not of a file beside it."""
    try:
        yield
    except OSError as error:
        if (told := unwritable(error, place, writing=True, again=again)) is not None:
            raise told from error
        raise
