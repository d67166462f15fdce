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

from rag_eval_assets.assets._answering import REPLAY, answer, answer_keys, never_reused, reader_limits
from rag_eval_assets.assets._rerankers import open_reranker
from rag_eval_assets.assets._rows import by, grouped
from rag_eval_assets.generation import context
from rag_eval_assets.generation.answer_rows import answer_row
from rag_eval_assets.graph import Step
from rag_eval_assets.retrieval.ordering import NoRanking
from rag_eval_assets.scoring.diagnosis import Replay, Score, Trials, diagnose
from rag_eval_assets.scoring.experiments import Plan, Tried, replay_experiments, tried
from rag_eval_assets.settings import Folder, Settings
from rag_eval_assets.storage.versions import work_key
from rag_eval_assets.tables import FAILED

Row = dict[str, Any]
Rows = dict[str, list[Row]]

_SPEC = ("kind", "chunking", "top_k", "token_budget", "ordering", "require_citations", "answer_sha256")
_RANKED = ("rank", "chunk_id", "doc_id", "start", "end", "text_sha256", "tokens", "status", "reason")
"""What a replay sees of a system and of its ranking: scores, which every document shifts a little, are not among it."""


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
    """Rows of diagnosis, without work_key, from the tables that it is made from, by name."""
    return _diagnosed(step, {name: table.to_pylist() for name, table in tables.items()}, tried)


def diagnosed_anew(step: Step, tables: Mapping[str, pa.Table]) -> tuple[pa.Table, list[Row], int]:
    """Kept rows of diagnosis, rows of the questions of which something changed, and how many questions these are."""
    rows = {name: table.to_pylist() for name, table in tables.items()}
    wanted = _work(step, rows)
    kept, todo = step.reuse(wanted)
    keys = {question["question_id"]: key for key, question in wanted.items()}
    made = _diagnosed(step, {**rows, "golden_questions": todo}, trials(step.folder)) if todo else []
    return kept, [{**row, "work_key": keys[row["question_id"]]} for row in made], len(todo)


def _work(step: Step, rows: Rows) -> dict[str, Row]:
    """Questions by work key: what was asked, labelled, ranked, delivered, answered and hidden of it, its verdict, and what is tried."""
    spec, tries = rows["system_specs"][0], _tries(step.settings)
    metric = step.settings.scoring.pass_metric
    system = {name: spec[name] for name in _SPEC}
    found = {name: by(rows[name], "question_id") for name in ("contexts", "answers", "filter_exclusion")}
    verdicts = by((r for r in rows["system_scores"] if r["metric"] == metric), "question_id")
    ranked, labels = grouped(rows["system_retrievals"], "question_id"), grouped(rows["golden_evidence"], "question_id")
    never = never_reused(spec)
    keys = {}
    for question in rows["golden_questions"]:
        name = question["question_id"]
        given, verdict = found["answers"].get(name), verdicts.get(name)
        own = (
            labels.get(name),
            [[r[column] for column in _RANKED] for r in ranked.get(name, ())],
            found["contexts"].get(name),
            given and [given["answer"], given["status"]],
            verdict and [verdict["value"], verdict["status"], verdict["reason"]],
            found["filter_exclusion"].get(name),
        )
        keys[work_key(step.code, tries, system, never, question, *own)] = question
    return keys


def _diagnosed(step: Step, rows: Rows, tried: Trials) -> list[Row]:
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


def answered_anew(step: Step, tables: Mapping[str, pa.Table]) -> tuple[pa.Table, list[Row], Counter[str]]:
    """Kept rows of replayed_answers, rows of the contexts that nobody answered yet, and what the model was asked for."""
    counts, plan = Counter[str](), planned(step)
    rows = {name: table.to_pylist() for name, table in tables.items()} if plan else {}
    spec = rows["system_specs"][0] if plan else {}
    new = _tried(rows, plan).new[0] if plan else {}
    wanted = answer_keys(step, spec, list(new.values()))
    kept, todo = step.reuse(wanted)
    keys = {(question["question_id"], delivered["context_sha256"]): key for key, (question, delivered) in wanted.items()}
    made = answer(step, spec, todo, counts) if todo else []
    return kept, [{**row, "work_key": keys[row["question_id"], row["context_sha256"]]} for row in made], counts


def experimented(step: Step, tables: Mapping[str, pa.Table]) -> list[Row]:
    """Rows of replay_experiments from the tables that it is made from, by name; nobody is asked for an answer."""
    plan = planned(step)
    if not plan:
        return []
    rows = {name: table.to_pylist() for name, table in tables.items()}
    answered = {(row["question_id"], row["context_sha256"]): row for row in rows["replayed_answers"]}
    return replay_experiments(
        _tried(rows, plan),
        lambda pairs: [answered[question["question_id"], delivered["context_sha256"]] for question, delivered in pairs],
        step.settings.scoring.pass_metric,
        step.settings.answer_schema,
    )


def planned(step: Step) -> Plan:
    """What the settings try of the step's system; nothing where they do not name it."""
    chosen = step.settings.experiments.get(step.partition)
    return Plan(chosen.top_k, chosen.token_budget, context.ORDERINGS if chosen.order else ()) if chosen else Plan()


def _tried(rows: Rows, plan: Plan) -> Tried:
    return tried(
        rows["golden_questions"],
        rows["golden_evidence"],
        rows["system_specs"][0],
        rows["system_retrievals"],
        rows["contexts"],
        rows["answers"],
        plan,
        context.assemble,
        context.reorder,
    )


def tried_settings(settings: Settings, system: str | None) -> dict[str, Any]:
    """What the answers that experiments need depend on; nothing where none is asked for."""
    chosen = settings.experiments.get(system) if system else None
    return {} if chosen is None else {"tries": chosen.model_dump(), **reader_limits(settings, system)}


def experiment_settings(settings: Settings, system: str | None) -> dict[str, Any]:
    """What the experiments on a system depend on; nothing where none is asked for."""
    chosen = settings.experiments.get(system) if system else None
    if chosen is None:
        return {}
    return {"tries": chosen.model_dump(), "pass_metric": settings.scoring.pass_metric, "answer_schema": settings.answer_schema}


def replay_settings(settings: Settings, system: str | None) -> dict[str, Any]:
    """What a diagnosis depends on: what it tries, its rerankers, and the limits under which answers may be missing."""
    return {**_tries(settings), **reader_limits(settings, system)}


def _tries(settings: Settings) -> dict[str, Any]:
    chosen = settings.diagnosis
    rerankers = {name: settings.rerankers[name].model_dump(mode="json") for name in chosen.rerankers}
    return {"pass_metric": settings.scoring.pass_metric, "tries": chosen.model_dump(), "rerankers": rerankers}


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
