"""Systems that are not built in, as assets see them: their row of system_specs, and their rankings with only new questions asked.

What belongs here: which settings and files a class or a log depends on, and errors that name the line of evaluation.yaml. What does not:
calling and reading (`generation.own_systems`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from rag_eval_assets.generation import own_systems
from rag_eval_assets.generation.answer_rows import answer_row, without_reading
from rag_eval_assets.generation.deadlines import Deadlined
from rag_eval_assets.generation.own_systems import Locator, OwnSystemError
from rag_eval_assets.golden import GoldenError, read_golden
from rag_eval_assets.graph import Step
from rag_eval_assets.retrieval.filters import entitled, predicate
from rag_eval_assets.settings import Folder, Settings
from rag_eval_assets.storage.versions import canonical_json, digest, work_key
from rag_eval_assets.tables import FAILED, WHOLE_LOG
from rag_eval_assets.tables.groups import Values

Row = dict[str, Any]
MOST_UNKNOWN = 10
"""Lines of a log that are named whose question is unknown; the rest is counted."""


def open_class(folder: Folder, name: str) -> Any:
    """The object of a system of kind class. Raises SettingsError."""
    chosen = folder.settings.systems[name]
    try:
        return own_systems.load_system(str(chosen.path), chosen.options, folder.path)
    except OwnSystemError as error:
        raise folder.settings_error([(("systems", name, "path"), str(error))]) from error


def open_log(folder: Folder, name: str, kind: str) -> dict[str, Row] | None:
    """The log of a system of kind import by question id; None where it names no file of this kind. Raises SettingsError."""
    named = getattr(folder.settings.systems[name], kind)
    if named is None:
        return None
    try:
        return own_systems.read_log(folder.path / named, kind)
    except OwnSystemError as error:
        raise folder.settings_error([(("systems", name, kind), str(error))]) from error


def external_spec(folder: Folder, name: str) -> Row:
    """What system_specs holds of a class or a log: its own declarations, those of the settings in their place."""
    chosen = folder.settings.systems[name]
    overrides = {field: getattr(chosen, field) for field in ("depth", "top_k", "token_budget") if field in chosen.model_fields_set}
    if chosen.kind == "class":
        own = open_class(folder, name)
        try:
            found = own_systems.declared(own, str(chosen.path), overrides)
        except OwnSystemError as error:
            raise folder.settings_error([(("systems", name), str(error))]) from error
        identity: Row = {"path": chosen.path, "options": chosen.options, "source": own_systems.source_sha256(own)}
        shown = str(chosen.path)
    else:
        logs = {kind: open_log(folder, name, kind) for kind in ("retrievals", "answers")}
        _refuse_unknown(folder, name, logs)
        identity = {kind: None if lines is None else digest(lines) for kind, lines in logs.items()}
        found = {"depth": WHOLE_LOG, "top_k": WHOLE_LOG, "token_budget": None, **overrides, "index_version": digest(identity)}
        shown = str(chosen.retrievals)
    return {
        **found,
        "chunking": None,
        "retriever": shown,
        "ordering": chosen.ordering,
        "reader": shown if chosen.kind == "class" else str(chosen.answers),
        "prompt": "",
        "parameters": canonical_json({"kind": chosen.kind, **identity}),
    }


def external_rankings(step: Step, spec: Row, questions: list[Row], unique_documents: pa.Table) -> tuple[list[Row], int]:
    """Rows of system_retrievals, and how many questions were asked for them.

    Only new questions are asked; every passage is located in today's canonical text: an edited document moves spans and calls nobody.
    """
    never = None if spec["index_version"] is not None else uuid.uuid4().hex
    asked = {work_key(step.code, spec["retrieval_sha256"], never, q["question_id"], q["text"], q["entitlement"]): q for q in questions}
    kept, todo = step.reuse(asked)
    if spec["kind"] == "class":
        with _deadlined(step) as own:
            made = [row for question in todo for row in _retrieved(own, question, spec["depth"])]
    else:
        log = open_log(step.folder, step.partition, "retrievals") or {}
        made = [row for question in todo for row in own_systems.logged_ranking(question, log.get(question["question_id"]), spec["depth"])]
    keys = {q["question_id"]: key for key, q in asked.items()}
    documents = unique_documents.drop_columns("text").to_pylist()
    locator = Locator(documents, Values(unique_documents, "doc_id", "text"))
    rows = [locator.place({**row, "work_key": keys[row["question_id"]]}) for row in [*kept.to_pylist(), *made]]
    return permitted(rows, questions, documents), len(todo)


def permitted(rows: list[Row], questions: Iterable[Row], documents: Iterable[Row]) -> list[Row]:
    """Rows of system_retrievals, where a question whose ranking holds a document that its caller may not read is one failed row.

    Such a row is never reused: the question is asked again as soon as anything above it changes.
    """
    asked = {q["question_id"]: q for q in questions}
    by_id = {name: document for document in documents for name in (*document["absorbed"], document["doc_id"])}
    outside: dict[str, Row] = {}
    for row in rows:
        document = by_id.get(row["doc_id"] or "")
        if document is not None and not entitled(predicate(asked[row["question_id"]]["entitlement"]), document):
            outside.setdefault(row["question_id"], row)
    refused = [
        {**failed, "work_key": digest(row["work_key"], "not_permitted")}
        for name, row in outside.items()
        for failed in own_systems.ranking_rows(
            asked[name], [], [], (FAILED, "not_permitted", f"the caller may not read {row['doc_id']!r}"), row["seconds"]
        )
    ]
    return [*(row for row in rows if row["question_id"] not in outside), *refused]


def call_limits(settings: Settings, system: str | None) -> dict[str, Any]:
    """The time limit of a class's calls: a changed one is a reason to try again."""
    chosen = settings.systems[system] if system else None
    return {"limits": {"call_seconds": chosen.call_seconds}} if chosen is not None and chosen.kind == "class" else {}


def _deadlined(step: Step) -> Deadlined:
    return Deadlined(lambda: open_class(step.folder, step.partition), step.settings.systems[step.partition].call_seconds)


def _retrieved(own: Deadlined, question: Row, depth: int) -> list[Row]:
    try:
        return own.call(lambda system: own_systems.retrieve(system, question, depth))
    except TimeoutError as error:
        return own_systems.ranking_rows(question, [], [], (FAILED, "timeout", str(error)), own.seconds)


def _generated(own: Deadlined, question: Row, context: Row, spec: Row) -> Row:
    try:
        return own.call(lambda system: own_systems.generate(system, question, context, spec))
    except TimeoutError as error:
        return answer_row(question, context, spec, status=FAILED, reason="timeout", detail=str(error), seconds=own.seconds)


def _refuse_unknown(folder: Folder, name: str, logs: Mapping[str, Mapping[str, Row] | None]) -> None:
    """Raise SettingsError for lines of the logs, by kind, whose question the golden set does not have."""
    try:
        known = {question["question_id"] for question in read_golden(folder.golden)}
    except GoldenError:  # golden_questions says so, line by line
        return
    problems = []
    for kind, log in logs.items():
        if not log or log.keys() <= known:
            continue
        path = folder.path / str(getattr(folder.settings.systems[name], kind))
        unknown = sorted((line, key) for key, line in own_systems.log_lines(path).items() if key not in known)
        more = f"; and {len(unknown) - MOST_UNKNOWN} more lines like it" if len(unknown) > MOST_UNKNOWN else ""
        told = [f"{path}:{line}: no golden question has the id {key!r}" for line, key in unknown[:MOST_UNKNOWN]]
        problems.append((("systems", name, kind), "\n".join(told) + more + "; remove the line or add the question"))
    if problems:
        raise folder.settings_error(problems)


def external_answers(step: Step, spec: Row, pairs: Iterable[tuple[Row, Row]]) -> list[Row]:
    """Rows of answers without work_key from a class or a log."""
    if spec["kind"] == "class":
        rows, given = [], list(pairs)
        with _deadlined(step) as own:
            for done, (question, context) in enumerate(given, 1):
                row = without_reading(question, context, spec)
                # Of an empty context the class itself says what it makes.
                rows.append(_generated(own, question, context, spec) if row is None or row["refused"] else row)
                step.progress(done, len(given))
        return rows
    log = open_log(step.folder, step.partition, "answers") or {}
    return [own_systems.logged_answer(q, context, spec, log.get(q["question_id"])) for q, context in pairs]
