"""Databases of Dagster that are damaged or cannot be written, told as one error.

What does not belong here: reading or mending them (they can be made anew).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rag_eval_assets.resources.stores import is_damage
from rag_eval_assets.unwritable import GOES_ON, causes, unwritable


class DamagedDatabaseError(RuntimeError):
    """A database of Dagster that cannot be read: names the file and the mend."""


class UnreachableDatabaseError(RuntimeError):
    """The server of Dagster's instance does not answer: says why and the mend."""


@contextmanager
def telling_damage(folder: Path) -> Iterator[None]:
    """Raise DamagedDatabaseError for whatever is raised within because a database below `folder` is damaged, UnreachableDatabaseError
    where Postgres is gone, UnwritableError where something cannot be written."""
    try:
        yield
    except Exception as error:
        if (told := unwritable(error, folder)) is not None:
            raise told from error
        if (gone := next((str(e) for e in causes(error) if _is_gone(e)), None)) is not None:
            raise UnreachableDatabaseError(
                f"Dagster's Postgres does not answer ({' '.join(gone.split())}). Start it, or mend DAGSTER_POSTGRES_*, and sync again: "
                f"{GOES_ON}."
            ) from error
        if not any(map(is_damage, causes(error))):
            raise
        damaged = [str(path) for path in sorted(folder.rglob("*.db")) if _is_damaged(path)]
        raise DamagedDatabaseError(
            f"{', '.join(damaged) or folder}: a database of Dagster is damaged. Remove the folder {folder}: the tables stay, and the next "
            "sync tells Dagster of them again."
        ) from error


def _is_gone(error: BaseException) -> bool:
    """Whether the driver says that a server cannot be reached, or went away; it is an optional package."""
    return type(error).__module__.partition(".")[0] == "psycopg2" and type(error).__name__ in ("OperationalError", "InterfaceError")


def _is_damaged(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
    except sqlite3.Error:
        return True
