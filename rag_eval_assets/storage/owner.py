"""Which evaluation folder a table root belongs to.

What belongs here: the folder's identity, the marker in the table root that names it, and the refusal of another folder's root. What does
not: the tables (`catalogue`). A folder gets its identity from its first sync; its `name` may change freely.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from upath import UPath

from rag_eval_assets.settings import SETTINGS_FILE, STATE_FOLDER, Folder
from rag_eval_assets.storage import files
from rag_eval_assets.storage.state import read_json, write_json
from rag_eval_assets.strict import SettingsError
from rag_eval_assets.unwritable import UnwritableError

MARKER = "owner.json"
IDENTITY = "identity.json"


class ForeignStateError(RuntimeError):
    """A table root that belongs to another evaluation folder, or to nobody knows whom."""


def check_owner(root: UPath, folder: Folder) -> None:
    """Raise ForeignStateError where the marker of `root` names another folder than this one, or cannot be read.

    A folder that was copied with its state has its original's identity: it is refused while the original is there. Raises
    SettingsError where the root cannot be reached.
    """
    marker = root / MARKER
    mend = f"give this folder another 'storage' in {SETTINGS_FILE}, or remove the tables in {root} and sync again"
    try:
        facts = json.loads(files.read(marker))
        owner, home = str(facts["owner"]), Path(facts["folder"])
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        raise ForeignStateError(f"{marker}: does not say whose tables stand beside it: {mend}") from error
    except Exception as error:  # whatever a file system or a store's client raises
        raise _unreachable(root, folder, error) from error
    own = _identity(folder.path)
    if owner != own:
        mine = f"this folder is {folder.path} (identity {own[:8] if own else 'none yet'})"
        raise ForeignStateError(f"{root} holds the tables of {home} (identity {owner[:8]}), {mine}: {mend}")
    if folder.settings.storage is not None and home != folder.path and owner == _identity(home):
        raise ForeignStateError(f"{root} holds the tables of {home}, and this folder, {folder.path}, is a copy of that one: {mend}")


def take_ownership(root: UPath, folder: Folder) -> None:
    """Give the folder an identity where it has none, and write it into its table root. Raises like `check_owner`."""
    owner = _identity(folder.path)
    if owner is None:
        owner = uuid.uuid4().hex
        write_json(folder.state / IDENTITY, {"identity": owner})
    marker = root / MARKER
    facts = json.dumps({"owner": owner, "folder": str(folder.path)}).encode()
    if _content(marker) != facts:
        check_owner(root, folder)
        try:
            files.write(marker, facts)
        except UnwritableError:
            raise
        except Exception as error:  # whatever a file system or a store's client raises
            raise _unreachable(root, folder, error) from error
    check_owner(root, folder)  # two first syncs of two folders at one time: one of them sees the other's marker


def _unreachable(root: UPath, folder: Folder, error: Exception) -> SettingsError:
    return SettingsError(f"{folder.path / SETTINGS_FILE}: storage: {root} cannot be reached: {error}")


def _content(path: UPath) -> bytes | None:
    try:
        return files.read(path)
    except FileNotFoundError:
        return None


def _identity(folder: Path) -> str | None:
    found = read_json(folder / STATE_FOLDER / IDENTITY).get("identity")
    return found if isinstance(found, str) else None
