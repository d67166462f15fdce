"""How a recorded run is replayed: who answers again, and the rerankers that its ranking is tried with.

What belongs here: opening what settings name for replays. What does not: which replays are made and what they say (`scoring.diagnosis`,
`scoring.experiments`).
No retriever is called from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from rag_eval_assets.assets._answering import REPLAY, answer, reader_limits
from rag_eval_assets.assets._rerankers import open_reranker
from rag_eval_assets.generation import context
from rag_eval_assets.generation.answer_rows import answer_row
from rag_eval_assets.graph import Step
from rag_eval_assets.retrieval.ordering import NoRanking
from rag_eval_assets.scoring.diagnosis import Replay, Score, Trials, diagnose
from rag_eval_assets.scoring.experiments import Plan, replay_experiments
from rag_eval_assets.settings import Folder, Settings
from rag_eval_assets.tables import FAILED

Row = dict[str, Any]


def replaying(step: Step) -> Callable[[Row, Row, Row], Row]:
    """Answers one question again; what was only logged cannot be."""

    def read(question: Row, delivered: Row, spec: Row) -> Row:
        if spec["kind"] == "import":
            return answer_row(question, delivered, spec, status=FAILED, reason="not_diagnosable")
        return answer(step, {**spec, "repeat": REPLAY}, [(question, delivered)])[0]

    return read


def trials(folder: Folder) -> Trials:
    """What `diagnosis` of the settings tries."""
    chosen = folder.settings.diagnosis
    return Trials(chosen.larger_top_k, chosen.larger_budget, {name: replayed_reranker(folder, name) for name in chosen.rerankers})


def diagnosed(step: Step, tables: Mapping[str, pa.Table], tried: Trials) -> list[Row]:
    """Rows of diagnosis from the tables that it is made from, by name."""
    rows = {name: table.to_pylist() for name, table in tables.items()}
    return diagnose(
        rows["golden_questions"],
        rows["golden_evidence"],
        rows["system_specs"][0],
        rows["system_retrievals"],
        rows["contexts"],
        rows["answers"],
        rows["system_scores"],
        replaying(step),
        assemble=context.assemble,
        pass_metric=step.settings.scoring.pass_metric,
        exclusion=rows["filter_exclusion"],
        trials=tried,
    )


def experimented(step: Step, tables: Mapping[str, pa.Table]) -> tuple[list[Row], Counter[str]]:
    """Rows of replay_experiments from the tables that it is made from, by name, and what the model was asked for."""
    chosen, counts = step.settings.experiments.get(step.partition), Counter[str]()
    if chosen is None:
        return [], counts
    rows = {name: table.to_pylist() for name, table in tables.items()}
    spec = rows["system_specs"][0]
    found = replay_experiments(
        rows["golden_questions"],
        rows["golden_evidence"],
        spec,
        rows["system_retrievals"],
        rows["contexts"],
        rows["answers"],
        Plan(chosen.top_k, chosen.token_budget, context.ORDERINGS if chosen.order else ()),
        lambda pairs: answer(step, spec, pairs, counts),
        assemble=context.assemble,
        reorder=context.reorder,
        pass_metric=step.settings.scoring.pass_metric,
        answer_schema=step.settings.answer_schema,
    )
    return found, counts


def experiment_settings(settings: Settings, system: str | None) -> dict[str, Any]:
    """What the experiments on a system depend on; nothing where none is asked for."""
    chosen = settings.experiments.get(system) if system else None
    if chosen is None:
        return {}
    scoring = {"pass_metric": settings.scoring.pass_metric, "answer_schema": settings.answer_schema}
    return {"tries": chosen.model_dump(), **scoring, **reader_limits(settings, system)}


def replay_settings(settings: Settings, system: str | None) -> dict[str, Any]:
    """What a diagnosis depends on: what it tries, its rerankers, and the limits under which answers may be missing."""
    chosen = settings.diagnosis
    rerankers = {name: settings.rerankers[name].model_dump(mode="json") for name in chosen.rerankers}
    return {
        "pass_metric": settings.scoring.pass_metric,
        "tries": chosen.model_dump(),
        "rerankers": rerankers,
        **reader_limits(settings, system),
    }


def replay_libraries(settings: Settings) -> list[str]:
    """Distributions that shape a replay."""
    models = any(settings.rerankers[name].kind == "cross_encoder" for name in settings.diagnosis.rerankers)
    return ["PyStemmer", *(["sentence-transformers"] if models else [])]


def replayed_reranker(folder: Folder, name: str) -> Score | Replay:
    """A reranker of the settings, or the replay that says why there is none."""
    found = open_reranker(folder, name)
    if isinstance(found, NoRanking):
        return Replay(None, found.status, found.reason, note=found.detail)
    score: Score = found.score
    return score
