"""Language models as settings name them, opened with the folder's response store.

What belongs here: from a name to a model, and the limits under which its rows may have failed. What does not: what is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rag_eval_assets.graph import Step
from rag_eval_assets.resources.language_models import ChatModel, LanguageModel, Prices
from rag_eval_assets.resources.responses import RESPONSES, ResponseStore
from rag_eval_assets.settings import Folder, Settings

_LIMITS = {"spend_limit", "deadline_seconds", "attempts"}


def open_model(step: Step, name: str) -> LanguageModel:
    """A model of `models` with the folder's response store."""
    return model_of(step.folder, name)


def model_of(folder: Folder, name: str) -> LanguageModel:
    """A model of the folder's settings with its response store."""
    chosen = folder.settings.models[name].model_dump()
    prices = chosen.pop("prices")
    return LanguageModel(ChatModel(**chosen, prices=Prices(**prices) if prices else None), ResponseStore(folder.stores / RESPONSES))


def model_limits(settings: Settings, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Limits of models under which rows may be missing: a changed one is a reason to try again."""
    return {name: settings.models[name].model_dump(include=_LIMITS) for name in sorted(set(names))}
