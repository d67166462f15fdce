"""Systems that are not built in: a class of the user's own, and rankings and answers that another program logged.

What belongs here: calling the class or reading the log, one question at a time, so that a fault is that question's own; and where a
passage stands in the canonical text. What does not: the shapes (`protocol`), cutting the context and scoring. No ranking is re-ranked:
the order given is the order recorded.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ingestion.quotations import locate
from rag_eval_assets.generation.answer_rows import Row, answer_row, citation, cited_by_number
from rag_eval_assets.generation.protocol import Passage
from rag_eval_assets.tables import FAILED, MISSING, OK

REQUIRED = ("retrieve", "generate")
LOGGED_RANKING = frozenset({"id", "passages"})
LOGGED_PASSAGE = frozenset({"id", "document", "text", "score", "tokens"})
LOGGED_ANSWER = frozenset(
    {"id", "answer", "refused", "citations", "prompt_tokens", "completion_tokens", "seconds", "first_token_seconds", "cost"}
)
_NUMBERS = {"prompt_tokens": int, "completion_tokens": int, "seconds": float, "first_token_seconds": float, "cost": float}


class OwnSystemError(ValueError):
    """A class or a log that cannot be used: what is wrong with it and the mend."""


# --------------------------------------------------------------------------------------------------------------- class
def load_system(path: str, options: Mapping[str, Any], folder: Path) -> Any:
    """An object of the class at `module:Class`, made with `options`; the module may stand in `folder`. Raises OwnSystemError."""
    module_name, _, class_name = path.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        made = getattr(importlib.import_module(module_name), class_name)(**options)
    except (Exception, SystemExit) as error:
        raise OwnSystemError(f"{path} cannot be made: {_told(error)}") from error
    lacking = [name for name in REQUIRED if not callable(getattr(made, name, None))]
    if lacking:
        raise OwnSystemError(
            f"{path} has no {' and no '.join(lacking)}: a system offers retrieve(question, depth) and generate(question, passages)"
        )
    return made


def declared(system: Any, path: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Effective depth, top_k, token_budget and index_version: the class's own, `overrides` in their place. Raises OwnSystemError."""
    found: dict[str, Any] = {
        name: overrides[name] if name in overrides else getattr(system, name, None) for name in ("depth", "top_k", "token_budget")
    }
    for name in ("depth", "top_k"):
        if not isinstance(found[name], int) or isinstance(found[name], bool) or found[name] < 1:
            raise OwnSystemError(f"{path}: {name} is {found[name]!r}; declare a whole number from 1 in the class or in the settings")
    if found["top_k"] > found["depth"]:
        raise OwnSystemError(f"{path}: top_k {found['top_k']} is over depth {found['depth']}: raise depth or lower top_k")
    if found["token_budget"] is not None and not callable(getattr(system, "count_tokens", None)):
        raise OwnSystemError(f"{path}: a token budget needs count_tokens(text): tokens are never guessed")
    version = getattr(system, "index_version", None)
    return {**found, "index_version": None if version is None else str(version)}


def source_sha256(system: Any) -> str | None:
    """SHA-256 of the module that defines the class; None where it has no file."""
    try:
        file = inspect.getsourcefile(type(system))
    except TypeError:
        file = None
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file and Path(file).is_file() else None


def retrieve(system: Any, question: Row, depth: int) -> list[dict[str, Any]]:
    """Rows of system_retrievals of one question, not yet located: passages in the order given, at most `depth`.

    The question fails, with the reason, where the class raises, returns something else than passages, names one twice, or scores one
    with NaN or infinity.
    """
    started = time.perf_counter()
    arguments = {"entitlement": json.loads(question["entitlement"])} if _takes(system.retrieve, "entitlement") else {}
    counts = callable(getattr(system, "count_tokens", None))
    try:
        found = [_passage(p) for p in list(system.retrieve(question["text"], depth, **arguments))[:depth]]
        tokens = [int(system.count_tokens(p.text)) if counts else None for p in found]
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever the user's code raises is this question's failure
        return ranking_rows(question, [], [], (FAILED, "crashed", _told(error)), time.perf_counter() - started)
    return ranking_rows(question, found, tokens, None, time.perf_counter() - started)


def generate(system: Any, question: Row, context: Row, spec: Row) -> dict[str, Any]:
    """A row of answers of one question from the delivered passages; it fails, with the error, where the class raises."""
    started = time.perf_counter()
    given = [Passage(p["chunk_id"], p["doc_id"], p["text"]) for p in context["passages"]]
    try:
        reply = system.generate(question["text"], given)
        refused = bool(getattr(reply, "refused", False))
        text = _text("the answer", reply if isinstance(reply, str) else reply.text)
        if not text and not refused:
            raise ValueError("the answer is empty and refused is not true")
        positions = None if isinstance(reply, str) else [(int(c.position), _text("a quotation", c.quotation)) for c in reply.citations]
        raw = getattr(reply, "raw", None)
        facts = {"raw": None if raw is None else _text("raw", raw)}
        for name in ("prompt_tokens", "completion_tokens"):
            facts[name] = getattr(reply, name, None)
            if not _number(facts[name], int):
                raise TypeError(f"{name} is {facts[name]!r}, no whole number from 0")
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return answer_row(
            question, context, spec, status=FAILED, reason="crashed", detail=_told(error), seconds=time.perf_counter() - started
        )
    cited = cited_by_number(text, context) if positions is None else _cited(positions, context)
    values = {"answer": "" if refused else text, "refused": refused, "citations": [] if refused else cited}
    return answer_row(question, context, spec, **values, **{**facts, "raw": facts["raw"] or text}, seconds=time.perf_counter() - started)


def _cited(positions: Iterable[tuple[int, str]], context: Row) -> list[dict[str, Any]]:
    delivered = {p["position"]: p for p in context["passages"]}
    return [
        {**citation(delivered.get(at), quotation or f"[{at + 1}]"), **({"quotation": quotation} if at in delivered else {})}
        for at, quotation in positions
    ]


def _takes(function: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)


def _passage(given: Any) -> Passage:
    text = {name: _text(f"a passage's {name}", getattr(given, name)) for name in ("id", "document", "text")}
    score = getattr(given, "score", None)
    return Passage(**text, score=None if score is None else float(score))


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}, not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is no Unicode text: {error.reason} at {error.start}") from None
    return value


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


# ----------------------------------------------------------------------------------------------------------------- log
def read_log(path: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Lines of a JSONL log by question id; `kind` is retrievals or answers. Raises OwnSystemError that names every faulty line."""
    if not path.is_file():
        raise OwnSystemError(f"{path}: no such file")
    found: dict[str, dict[str, Any]] = {}
    problems = []
    for number, raw in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw, parse_constant=_no_constant)
            if not isinstance(line, dict) or not isinstance(line.get("id"), str) or not line["id"]:
                raise ValueError("a line is an object with the question's id as text")
            fault = _ranking_fault(line) if kind == "retrievals" else _answer_fault(line)
            if line["id"] in found:
                fault = "the id stands on an earlier line too; keep one"
        except (ValueError, RecursionError) as error:
            problems.append(f"{path}:{number}: {error}")
            continue
        if fault:
            problems.append(f"{path}:{number}: {line['id']!r}: {fault}")
        found[line["id"]] = line
    if problems:
        raise OwnSystemError("\n".join(problems[:50]))
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def log_lines(path: Path) -> dict[str, int]:
    """Line of each question id in a log that `read_log` found nothing wrong with."""
    lines = enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1)
    return {json.loads(raw)["id"]: number for number, raw in lines if raw.strip()}


def _ranking_fault(line: Row) -> str | None:
    strange = sorted(set(line) - LOGGED_RANKING)
    if strange:
        return f"unknown field {', '.join(strange)}; known: {', '.join(sorted(LOGGED_RANKING))}"
    passages = line.get("passages")
    if not isinstance(passages, list) or not all(isinstance(p, dict) for p in passages):
        return "passages is no list of objects"
    for rank, passage in enumerate(passages, 1):
        strange = sorted(set(passage) - LOGGED_PASSAGE)
        if strange:
            return f"passage {rank}: unknown field {', '.join(strange)}; known: {', '.join(sorted(LOGGED_PASSAGE))}"
        if not all(isinstance(passage.get(name), str) for name in ("id", "document", "text")):
            return f"passage {rank}: id, document and text are required, as text"
        if not _number(passage.get("score"), float) or not _number(passage.get("tokens"), int):
            return f"passage {rank}: score is a number and tokens a whole one from 0, or neither stands there"
    named = [p["id"] for p in passages]
    doubled = sorted({name for name in named if named.count(name) > 1})
    return f"names {', '.join(doubled)} twice" if doubled else None


def _answer_fault(line: Row) -> str | None:
    strange = sorted(set(line) - LOGGED_ANSWER)
    if strange:
        return f"unknown field {', '.join(strange)}; known: {', '.join(sorted(LOGGED_ANSWER))}"
    if not isinstance(line.get("answer", ""), str) or not isinstance(line.get("refused", False), bool):
        return "answer is text and refused true or false"
    if not line.get("refused") and not line.get("answer"):
        return "has neither an answer nor refused: true"
    if not isinstance(line.get("citations", []), list) or not all(isinstance(c, str) for c in line.get("citations", [])):
        return "citations is a list of passage ids"
    wrong = [name for name, type_ in _NUMBERS.items() if not _number(line.get(name), type_) or (line.get(name) or 0) < 0]
    return f"{wrong[0]} is no number from 0" if wrong else None


def _number(value: Any, type_: type) -> bool:
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int if type_ is int else int | float):
        return False
    return math.isfinite(value) and (type_ is float or value >= 0)


def logged_ranking(question: Row, line: Row | None, depth: int) -> list[dict[str, Any]]:
    """Rows of system_retrievals of one question from its line of the log; missing_run without one."""
    if line is None:
        return ranking_rows(question, [], [], (MISSING, "missing_run", None), None)
    kept = line["passages"][:depth]
    found = [Passage(p["id"], p["document"], p["text"], p.get("score")) for p in kept]
    return ranking_rows(question, found, [p.get("tokens") for p in kept], None, None)


def logged_answer(question: Row, context: Row, spec: Row, line: Row | None) -> dict[str, Any]:
    """A row of answers of one question from its line of the log; missing_run without one. Citations name delivered passages by id."""
    if line is None:
        return answer_row(question, context, spec, status=MISSING, reason="missing_run")
    refused = line.get("refused", False)
    delivered = {p["chunk_id"]: p for p in context["passages"]}
    text = line.get("answer") or ""
    ids = line.get("citations")
    cited = cited_by_number(text, context) if ids is None else [citation(delivered.get(name), name) for name in ids]
    facts = {name: line.get(name) for name in ("prompt_tokens", "completion_tokens", "first_token_seconds", "cost")}
    values = {"answer": "" if refused else text, "refused": refused, "citations": [] if refused else cited, "raw": text or None}
    return answer_row(question, context, spec, **values, **facts, reply_seconds=line.get("seconds"))


# ------------------------------------------------------------------------------------------------------------ rankings
def ranking_rows(
    question: Row,
    passages: Sequence[Passage],
    tokens: Sequence[int | None],
    failure: tuple[str, str, str | None] | None,
    seconds: float | None,
) -> list[dict[str, Any]]:
    """Rows of system_retrievals in the order given; one of rank 0 for an empty or failed ranking."""
    named = [p.id for p in passages]
    doubled = sorted({name for name in named if named.count(name) > 1})
    if doubled:
        failure = (FAILED, "duplicate_ids", ", ".join(doubled))
    elif any(p.score is not None and not math.isfinite(p.score) for p in passages):
        failure = (FAILED, "non_finite_score", None)
    elif not passages and failure is None:
        failure = (OK, "empty_ranking", None)
    base = {"question_id": question["question_id"], "split": question["split"], "seconds": seconds, "origin": "made"}
    nothing = dict.fromkeys(("chunk_id", "doc_id", "start", "end", "text", "text_sha256", "tokens", "score", "similarity"))
    if failure is not None:
        status, reason, detail = failure
        return [{**base, "rank": 0, **nothing, "status": status, "reason": reason, "detail": detail}]
    return [
        {
            **base,
            "rank": rank,
            **nothing,
            "chunk_id": passage.id,
            "doc_id": passage.document,
            "text": passage.text,
            "text_sha256": hashlib.sha256(passage.text.encode()).hexdigest(),
            "tokens": count,
            "score": passage.score,
            "status": OK,
            "reason": None,
            "detail": None,
        }
        for rank, (passage, count) in enumerate(zip(passages, tokens, strict=True), 1)
    ]


class Locator:
    """Where passages stand in the canonical texts. A passage of a document that was merged is looked for in its survivor."""

    def __init__(self, documents: Iterable[Row], texts: Mapping[str, str]) -> None:
        """`documents` have `doc_id` and `absorbed`, `texts` are theirs."""
        self._owner: dict[str, str] = {}
        self._texts = texts
        for document in documents:
            for name in (document["doc_id"], *document["absorbed"]):
                self._owner.setdefault(name, document["doc_id"])
        self._found: dict[tuple[str, str], tuple[int, int, float] | None] = {}

    def place(self, row: Row) -> dict[str, Any]:
        """The row with document, span and similarity of its passage; one that cannot be located keeps its document and has no span."""
        if row["rank"] == 0:
            return dict(row)
        named: str = row["doc_id"]
        doc_id = self._owner.get(named, named)
        key = (doc_id, row["text_sha256"])
        if key not in self._found:
            located = locate(row["text"], self._texts.get(doc_id, ""))
            self._found[key] = None if located is None else (located.start, located.end, located.similarity)
        start, end, similarity = self._found[key] or (None, None, None)
        return {**row, "doc_id": doc_id, "start": start, "end": end, "similarity": similarity}
