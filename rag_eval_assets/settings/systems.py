"""Settings of systems under test, and of what is tried on their recorded rankings.

What belongs here: fields, defaults and bounds of these. What does not: their readers and models (`models`), and names that must stand
for something (`checks`).
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, model_validator

from rag_eval_assets.settings.base import Count, Name, Strict
from rag_eval_assets.settings.models import Reader


class System(Strict):
    """A system under test: the built-in one, a class of your own, or what another program logged.

    A class declares depth, top_k and token_budget itself; what stands here is in their place. A log is delivered whole unless
    top_k says otherwise.
    """

    kind: Literal["builtin", "class", "import"] = "builtin"
    chunking: str | None = Field(None, description="Chunking that kind builtin retrieves from.")
    retriever: Name | None = Field(None, description="Retriever of kind builtin.")
    path: str | None = Field(None, description="Your class as module:Class; the module may stand in the evaluation folder.")
    options: dict[str, Any] = Field({}, description="Arguments your class is made with.")
    call_seconds: float = Field(300, gt=0, description="Time limit of one call of your class's retrieve or generate.")
    retrievals: str | None = Field(None, description="JSONL file of logged rankings, a path in the evaluation folder.")
    answers: str | None = Field(None, description="JSONL file of logged answers, a path in the evaluation folder.")
    depth: int = Field(50, ge=1)
    top_k: int = Field(5, ge=1)
    token_budget: int | None = Field(1500, ge=1)
    ordering: Literal["best_first", "best_last", "both_ends"] = "best_first"
    reader: Reader = Reader()
    prompt: str = "Answer from the passages alone and cite them as [n]. If they do not hold the answer, say so."
    require_citations: bool = True

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> System:
        kinds = {"builtin": ("chunking", "retriever"), "class": ("path",), "import": ("retrievals",)}
        lacking = [name for name in kinds[self.kind] if getattr(self, name) is None]
        if lacking:
            raise ValueError(f"kind {self.kind} needs {' and '.join(map(repr, lacking))}")
        others = {"chunking", "retriever", "path", "options", "call_seconds", "retrievals", "answers"} - {*kinds[self.kind]}
        others -= {"class": {"options", "call_seconds"}, "import": {"answers"}}.get(self.kind, set())
        others |= set() if self.kind == "builtin" else {"reader", "prompt"}
        strange = sorted(others & self.model_fields_set)
        if strange:
            raise ValueError(f"{', '.join(map(repr, strange))}: no setting of kind {self.kind}; leave it out")
        if self.path is not None and not re.fullmatch(r"[\w.]+:\w+", self.path):
            raise ValueError(f"path {self.path!r} is not module:Class")
        return self

    @model_validator(mode="after")
    def _keeps_what_it_asks_for(self) -> System:
        if self.kind != "builtin" and not {"top_k", "depth"} <= self.model_fields_set:
            return self
        if self.top_k > self.depth:
            raise ValueError(f"top_k {self.top_k} is over depth {self.depth}: raise depth or lower top_k")
        return self


class Diagnosis(Strict):
    """What is tried of failed questions on their recorded ranking, one change at a time; no retriever is called."""

    larger_top_k: Count | None = Field(None, description="top_k tried; null for twice the system's own.")
    larger_budget: Count | None = Field(None, description="Token budget tried; null for twice the system's own.")
    rerankers: tuple[Name, ...] = Field((), description="Rerankers whose order of the recorded ranking is tried, by name.")


class Experiment(Strict):
    """What is tried of one system on its recorded rankings of development questions; no retriever is called."""

    top_k: tuple[Count, ...] = Field((), description="Values of top_k tried, up to the depth.")
    token_budget: tuple[Count, ...] = Field((), description="Token budgets tried.")
    order: bool = Field(False, description="Try every ordering, and the relevant passages first, in the middle and last.")

    @model_validator(mode="after")
    def _tries_something(self) -> Experiment:
        if not (self.top_k or self.token_budget or self.order):
            raise ValueError("tries nothing: give top_k, token_budget or order, or leave the system out")
        return self
