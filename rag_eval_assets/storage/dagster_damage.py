"""Damaged databases of Dagster, told as one error. What does not belong here: reading or mending them (they can be made anew)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rag_eval_assets.resources.stores import is_damage


class DamagedDatabaseError(RuntimeError):
    """A database of Dagster that cannot be read: names the file and the mend."""


@contextmanager
def telling_damage(folder: Path) -> Iterator[None]:
    """Raise DamagedDatabaseError for whatever is raised within because a database below `folder` is damaged."""
    try:
        yield
    except Exception as error:
        if not _tells_of_damage(error):
            raise
        damaged = [str(path) for path in sorted(folder.rglob("*.db")) if _is_damaged(path)]
        raise DamagedDatabaseError(
            f"{', '.join(damaged) or folder}: a database of Dagster is damaged. Remove the folder {folder}: the tables stay, and the next "
            "sync tells Dagster of them again."
        ) from error


def _tells_of_damage(error: BaseException | None) -> bool:
    """Whether SQLite's code for damage stands anywhere among an error's causes; SQLAlchemy and Dagster wrap it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if is_damage(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_damaged(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
    except sqlite3.Error:
        return True
