"""Rerankers as assets and commands open them: one that is named in settings, or a function of the user's own.

What belongs here: that a function's module may stand in the evaluation folder, and why a reranker is not there. What does not: scoring
passages (`resources.rerankers`) and what becomes of a ranking.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from rag_eval_assets.resources.rerankers import load_reranker
from rag_eval_assets.retrieval.ordering import NoRanking
from rag_eval_assets.settings import Folder
from rag_eval_assets.tables import FAILED, NOT_APPLICABLE


def open_reranker(folder: Folder, name: str) -> Any:
    """The reranker of that name, or why there is none. A function's module may stand in the evaluation folder."""
    if str(folder.path) not in sys.path:
        sys.path.insert(0, str(folder.path))
    try:
        opened = load_reranker(folder.settings.rerankers[name].model_dump())
    except Exception as error:  # noqa: BLE001 - a model that does not open fails its own rows, and the others go on
        return NoRanking(FAILED, "crashed", f"reranker {name}: {type(error).__name__}: {error}")
    return opened or NoRanking(NOT_APPLICABLE, "not_installed", f"reranker {name} needs sentence-transformers")


def open_function(folder: Folder, path: str) -> Callable[[str, list[str]], list[float]]:
    """The user's own `module:function` as a reranker. Raises LookupError where it is not there."""
    if str(folder.path) not in sys.path:
        sys.path.insert(0, str(folder.path))
    try:
        opened: Any = load_reranker({"kind": "function", "model": path})
    except Exception as error:
        told = f"reranker={path}: {type(error).__name__}: {error}"
        raise LookupError(f"{told}; name module:function, of an installed module or one in {folder.path}") from error
    score: Callable[[str, list[str]], list[float]] = opened.score
    return score
