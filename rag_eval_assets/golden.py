"""The golden set: what a question may say, reading with errors that name the line, and moving a question to the development split.

What belongs here: files below golden/ of an evaluation folder. What does not: what the set covers (`coverage`), where evidence
stands (`ingestion.evidence`), who may read it (`retrieval.filters`) and any score.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from rag_eval_assets.storage.versions import canonical_json
from rag_eval_assets.tables import DERIVED_SLICES
from rag_eval_assets.unwritable import writing_to

Row = dict[str, Any]
DEVELOPMENT = "development"
UNSPECIFIED = "unspecified"
SYNTHETIC, REVIEWED = "synthetic", "reviewed"
"""Kinds of a question that a model wrote, and of one of those that somebody has read."""
LINE_BYTES = 4 << 20
DEPTH = 8
SHOWN_ERRORS = 50


class GoldenError(ValueError):
    """A golden set or baseline that cannot be used: names file, line, question, field, what is wrong and the mend."""


def _composed(text: str) -> str:
    """NFC, as document ids are."""
    return unicodedata.normalize("NFC", text)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


def _plain(text: str) -> str:
    if text != text.strip() or any(unicodedata.category(c) == "Cc" for c in text):
        raise ValueError("it has white space at an end or a control character in it")
    return text


Identifier = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_composed), AfterValidator(_plain)]
Text = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
Grade = Annotated[int, Field(ge=0, le=1 << 20)]
Scalar = str | int | float | bool


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Relevant(_Strict):
    """A document-level relevance label, as in BEIR; with `chunk`, a label on a passage id of an imported system."""

    document: Identifier = Field(description="Id of a document of the corpus.")
    chunk: Identifier | None = Field(None, description="Passage id, where an imported system's own chunks are labelled.")
    grade: Grade = Field(1, description="Relevance, a whole number from 0 (judged not relevant).")


class Evidence(_Strict):
    """A passage that answers. Items of one group are alternatives; all groups of a question are required."""

    group: Identifier = Field(description="Name of the group: one fact that the answer needs.")
    document: Identifier = Field(description="Id of a document of the corpus.")
    quotation: Text | None = Field(None, description="The passage word for word; without it the whole document counts.")
    grade: Grade = Field(1, description="Relevance, a whole number from 0 (judged not relevant).")


class Entitlement(_Strict):
    """What the caller may read. Each field is a list; a document without the field is open to everyone."""

    tenant: list[Identifier] = Field([], description="A list of tenants the caller belongs to.")
    groups: list[Identifier] = Field([], description="A list of groups the caller belongs to.")
    jurisdiction: list[Identifier] = Field([], description="A list of jurisdictions the caller acts in.")
    publication_state: list[Identifier] = Field(["published"], description="A list of publication states the caller sees.")


class Nugget(_Strict):
    """A fact that a good answer holds."""

    text: Text = Field(description="The fact, as text.")
    vital: bool = Field(True, description="true for a fact without which the answer is wrong, false for one that is nice to have.")


class Question(_Strict):
    """One line of golden/*.jsonl.

    An answerable question needs something to be scored against: evidence or relevant of a grade over 0, a reference_answer,
    gold_context or nuggets; questions of split monitoring, fresh traffic, may have none yet. An unanswerable question may carry
    labels of grade 0 only (passages judged not to answer it).
    """

    id: Identifier = Field(description="Id of the question, unlike any other of the set.")
    question: Text = Field(description="The question, as text.")
    reference_answer: Text | None = Field(None, description="A right answer, as text.")
    answerable: bool = Field(True, description="true, or false where the corpus does not answer it.")
    split: Literal["development", "release", "calibration", "monitoring"] = Field(
        description="development (tunes), release (decides), calibration (checks judges) or monitoring (fresh traffic)."
    )
    language: str = Field("en", pattern=r"^[a-z]{2,3}$", description="Language of the question, ISO 639-1, such as nl.")
    intent: Identifier = Field(UNSPECIFIED, description="What the asker is after, one name: a slice of the report.")
    kinds: list[Identifier] = Field([], description="A list of kinds such as lookup, multi_document, negation.")
    slices: dict[Identifier, Scalar] = Field({}, description="Further slices, {name: text, number, true or false}.")
    relevant: list[Relevant] = Field([], description="A list of document labels {document, chunk?, grade}.")
    evidence: list[Evidence] = Field([], description="A list of passages {group, document, quotation?, grade}.")
    gold_context: Text | None = Field(None, description="Text that suffices to answer.")
    entitlement: Entitlement = Field(
        Entitlement(), description="What the caller may read, {tenant, groups, jurisdiction, publication_state}."
    )
    filter: dict[Identifier, Scalar | Annotated[list[Scalar], Field(min_length=1)]] = Field(
        {}, description="Relevance filter, {document field: value, or a list of values}."
    )
    nuggets: list[Nugget] = Field([], description="A list of facts {text, vital}.")
    session: Identifier | None = Field(None, description="Session or author it comes from; a session stays in one split.")


_MODELS: dict[str, type[BaseModel]] = {
    "relevant": Relevant,
    "evidence": Evidence,
    "entitlement": Entitlement,
    "nuggets": Nugget,
}


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one line of golden/*.jsonl, every field described."""
    schema = Question.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


# ------------------------------------------------------------------------------------------------------------ reading
@dataclass(frozen=True)
class _Problem:
    place: str
    question: str | None
    field: str | None
    text: str

    def __str__(self) -> str:
        named = [self.place, f"question {self.question!r}" if self.question else None, self.field, self.text]
        return ": ".join(part for part in named if part)


class _Unusable(ValueError):
    """One line that is no question."""


def read_golden(folder: Path, doc_ids: Collection[str] | None = None, fields: Collection[str] | None = None) -> list[Row]:
    """Rows of `golden_questions` from folder/*.jsonl, sorted by question id.

    One question a line, UTF-8; blank lines are skipped. With `doc_ids`, every document named must be one of them, with `fields`
    every field that a filter names. Raises GoldenError with every problem of every file (the first 50 in full).
    """
    problems: list[_Problem] = []
    rows: dict[str, Row] = {}
    places: dict[str, str] = {}
    known = None if doc_ids is None else frozenset(doc_ids)
    for path in _files(folder):
        for number, line in _lines(path):
            place = f"{path}:{number}"
            try:
                question = _parse(line, place, problems)
            except _Unusable as error:
                problems.append(_Problem(place, None, None, str(error)))
                continue
            if question is None:
                continue
            if question.id in places:
                first = places[question.id]
                problems.append(_Problem(place, question.id, "id", f"stands at {first} too; give each question its own id"))
                continue
            places[question.id] = place
            problems += (_Problem(place, question.id, *found) for found in _contradictions(question))
            if known is not None:
                problems += (_Problem(place, question.id, *found) for found in _unknown_documents(question, known, len(problems)))
            if fields is not None:
                problems += (_Problem(place, question.id, *found) for found in _unknown_fields(question, fields))
            rows[question.id] = _question_row(question, path.name, number)
    if problems:
        raise GoldenError(_report(problems))
    return [rows[key] for key in sorted(rows)]


def _report(problems: Sequence[_Problem]) -> str:
    lines = [str(problem) for problem in problems[:SHOWN_ERRORS]]
    if len(problems) > SHOWN_ERRORS:
        lines.append(f"and {len(problems) - SHOWN_ERRORS} more")
    return "\n".join(lines)


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=lambda path: path.name)
        stray = [path for path in found if path.suffix != ".jsonl" or path.is_dir()]
    except OSError as error:
        raise GoldenError(f"{folder}: {error.strerror}; a golden set is a folder of .jsonl files, one question a line") from error
    if stray:
        mend = "questions stand in .jsonl files directly in this folder; move, rename or remove it"
        raise GoldenError(_report([_Problem(str(path), None, None, mend) for path in stray]))
    if not found:
        raise GoldenError(f"{folder}: holds no .jsonl file; write questions there, one JSON object a line")
    return found


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, numbered from 1; of an overlong line only the start, which is still overlong."""
    try:
        with path.open("rb") as file:
            number = 0
            while raw := file.readline(LINE_BYTES + 1):
                number += 1
                rest = raw
                while len(rest) > LINE_BYTES and not rest.endswith(b"\n"):
                    rest = file.readline(LINE_BYTES + 1)
                if number == 1:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                if raw.strip() or len(raw) > LINE_BYTES:
                    yield number, raw.rstrip(b"\r\n")
    except OSError as error:
        raise GoldenError(f"{path}: {error.strerror}; make it a readable file") from error


def _parse(line: bytes, place: str, problems: list[_Problem]) -> Question | None:
    """The question on a line; None after adding its problems. Raises _Unusable for a line that is no JSON object."""
    if len(line) > LINE_BYTES:
        raise _Unusable(f"the line is over {LINE_BYTES >> 20} MiB; a question takes a few kilobytes")
    try:
        raw = json.loads(line.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise _Unusable(f"byte {error.start + 1} is no UTF-8; save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise _Unusable(f"no JSON: {error.msg} at column {error.colno}; one object a line") from error
    except RecursionError as error:
        raise _Unusable(f"nested too deeply; a question is nested {DEPTH} deep at most") from error
    except _Unusable:
        raise
    except ValueError as error:
        raise _Unusable(f"a number has too many digits ({error})") from error
    if not isinstance(raw, dict):
        raise _Unusable("no JSON object; a question is {...}")
    if _deeper_than(raw, DEPTH):
        raise _Unusable(f"nested too deeply; a question is nested {DEPTH} deep at most")
    try:
        return Question.model_validate(raw)
    except ValidationError as error:
        identifier = raw.get("id")
        named = _printable(identifier) if isinstance(identifier, str) else None
        problems += (_Problem(place, named, field, text) for field, text in _explained(raw, error))
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        doubled = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Unusable(f"field {_printable(doubled)!r} stands twice in one object; keep one")
    return found


def _no_constant(name: str) -> Any:
    raise _Unusable(f"{name} is no JSON value; leave the field out")


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [item for node in level if isinstance(node, dict | list) for item in (node.values() if isinstance(node, dict) else node)]
    return bool(level)


def _explained(raw: dict[str, Any], error: ValidationError) -> Iterator[tuple[str, str]]:
    """(field, what is wrong and what is wanted) of each problem; members of a union that failed together count once."""
    seen = set()
    for problem in error.errors(include_url=False):
        field, description = "", "a question is {...}"
        model: type[BaseModel] = Question
        value: Any = raw
        for step in problem["loc"]:
            if isinstance(value, dict) and (step in value or problem["type"] == "missing"):
                field = f"{field}.{_printable(str(step))}" if field else _printable(str(step))
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int):
                field, value = f"{field}[{step}]", value[step]
                continue
            else:
                break
            info = model.model_fields.get(str(step))
            if info is not None:
                description = info.description or description
                model = _MODELS.get(str(step), model)
        if field in seen:
            continue
        seen.add(field)
        if problem["type"] == "missing":
            yield field, f"is missing; wanted: {description}"
        elif problem["type"] == "extra_forbidden":
            yield field, f"is no known field; known here: {', '.join(model.model_fields)}"
        elif problem["type"] == "value_error":
            yield field, f"is {_shown(value)}: {problem['ctx']['error']}; wanted: {description}"
        else:
            message = problem["msg"].removeprefix("Input ")
            yield field, f"is {_shown(value)}, {message[0].lower()}{message[1:]}; wanted: {description}"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _printable(text: str) -> str:
    short = text if len(text) <= 80 else f"{text[:77]}..."
    return short.encode("utf-8", "backslashreplace").decode()


def _contradictions(question: Question) -> Iterator[tuple[str, str]]:
    """(field, problem) of what no single field shows."""
    labels: dict[str, list[tuple[str | None, ...]]] = {
        "relevant": [(item.document, item.chunk) for item in question.relevant],
        "evidence": [(item.group, item.document, item.quotation) for item in question.evidence],
    }
    for name, keys in labels.items():
        first: dict[tuple[str | None, ...], int] = {}
        for i, key in enumerate(keys):
            if first.setdefault(key, i) != i:
                yield f"{name}[{i}]", f"the same label stands at {name}[{first[key]}]; keep one"
    if SYNTHETIC in question.kinds and REVIEWED not in question.kinds and question.split == "release":
        yield "split", f"is release, but a model wrote the question; read it and add the kind {REVIEWED!r}, or move it to {DEVELOPMENT}"
    graded = any(item.grade for item in question.relevant) or any(item.grade for item in question.evidence)
    if graded and not question.answerable:
        yield "answerable", "is false, but a label has a grade over 0; set the grade to 0, or answerable to true"
    scored_by = graded or question.reference_answer or question.gold_context or question.nuggets
    if question.answerable and question.split != "monitoring" and not scored_by:
        mend = "add evidence, relevant or reference_answer, or set answerable to false"
        yield "evidence", f"is missing, and so is all else to score by; {mend}"


def _unknown_documents(question: Question, doc_ids: frozenset[str], earlier: int) -> Iterator[tuple[str, str]]:
    named = [(f"relevant[{i}].document", item.document) for i, item in enumerate(question.relevant)]
    named += [(f"evidence[{i}].document", item.document) for i, item in enumerate(question.evidence)]
    for field, document in named:
        if document not in doc_ids:
            # Looking through a large corpus for each of thousands of errors would take longer than anyone waits.
            near = _nearest(document, doc_ids) if earlier < SHOWN_ERRORS else None
            hint = f"did you mean {near!r}?" if near else "write the id of a file below corpus/"
            yield field, f"{_shown(document)} is no document of the corpus; {hint}"


def _unknown_fields(question: Question, fields: Collection[str]) -> Iterator[tuple[str, str]]:
    for name in question.filter:
        if name not in fields:
            yield f"filter.{_printable(name)}", f"is a field that no document has; known: {', '.join(sorted(fields))}"


def _nearest(name: str, names: Collection[str]) -> str | None:
    from rapidfuzz import fuzz, process

    found = process.extractOne(name, sorted(names), scorer=fuzz.ratio, score_cutoff=75)
    return found[0] if found else None


def _question_row(question: Question, file: str, line: int) -> Row:
    filters = {name: value if isinstance(value, list) else [value] for name, value in question.filter.items()}
    return {
        "question_id": question.id,
        "text": question.question,
        "reference_answer": question.reference_answer,
        "answerable": question.answerable,
        "split": question.split,
        "language": question.language,
        "intent": question.intent,
        "kinds": sorted(set(question.kinds)),
        "slices": canonical_json(question.slices),
        "relevant": [item.model_dump() for item in question.relevant],
        "evidence": [item.model_dump() for item in question.evidence],
        "gold_context": question.gold_context,
        "entitlement": canonical_json({name: sorted(set(values)) for name, values in question.entitlement}),
        "filter": canonical_json(filters) if filters else None,
        "nuggets": [item.model_dump() for item in question.nuggets],
        "session": question.session,
        "file": file,
        "line": line,
    }


def slice_names(questions: Iterable[Row]) -> list[str]:
    """Names by which questions can be sliced: short columns of golden_questions, what is derived, and keys of `slices`."""
    columns = ("answerable", "file", "intent", "kinds", "language", "session", "split", *DERIVED_SLICES)
    return [*columns, *sorted({name for question in questions for name in json.loads(question["slices"])} - {*columns})]


# ------------------------------------------------------------------------------------------------------------- moving
def move_to_development(folder: Path, question_id: str) -> Path:
    """Move a question that steered a choice to the development split; the file that now holds it.

    A file named after the question's split gives it to development.jsonl; in any other file the line is changed in place. Every
    other line keeps its bytes. Raises LookupError for an unknown question, GoldenError for a golden set with errors or a
    question that is in development already.
    """
    row = next((row for row in read_golden(folder) if row["question_id"] == _composed(question_id)), None)
    if row is None:
        raise LookupError(f"no question {question_id!r} below {folder}")
    source: Path = folder / row["file"]
    if row["split"] == DEVELOPMENT:
        raise GoldenError(f"{source}:{row['line']}: question {question_id!r}: split: is development already")
    with source.open("rb") as file:
        lines = list(file)
    position = row["line"] - 1
    moved = json.loads(lines[position].decode("utf-8-sig")) | {"split": DEVELOPMENT}
    line = json.dumps(moved, ensure_ascii=False).encode() + b"\n"
    if source.stem != row["split"]:
        replace_file(source, b"".join([*lines[:position], line, *lines[position + 1 :]]))
        return source
    target = folder / f"{DEVELOPMENT}.jsonl"
    before = target.read_bytes() if target.exists() else b""
    # Written before it is removed: a crash between leaves the question twice, which the next read names, and never lost.
    replace_file(target, before + (b"" if before.endswith(b"\n") or not before else b"\n") + line)
    replace_file(source, b"".join([*lines[:position], *lines[position + 1 :]]))
    return target


def replace_file(path: Path, content: bytes) -> None:
    """Write beside, flush, rename. Raises UnwritableError where the place cannot be written, and leaves nothing beside it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing_to(path, again="try again"):
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
