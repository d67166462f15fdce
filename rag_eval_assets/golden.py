"""The golden set and saved baselines: what a question may say, reading with errors that name the line, and what the set covers.

What belongs here: files below golden/ and baselines/ of an evaluation folder, and facts about the questions themselves. What does
not: where evidence stands (`ingestion.evidence`), who may read it (`retrieval.filters`) and any score.
"""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from rag_eval_assets.storage.versions import canonical_json
from rag_eval_assets.tables import TABLES

Row = dict[str, Any]
DEVELOPMENT = "development"
UNSPECIFIED = "unspecified"
LINE_BYTES = 4 << 20
DEPTH = 8
SHOWN_ERRORS = 50
DUPLICATE_SIMILARITY = 92.0
"""rapidfuzz's token_sort_ratio, 0 to 100, from which two questions of two splits are reported as one."""


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
    """Names by which questions can be sliced: columns of golden_questions that hold short values, and keys of `slices`."""
    columns = ("answerable", "file", "intent", "kinds", "language", "session", "split")
    return [*columns, *sorted({name for question in questions for name in json.loads(question["slices"])} - {*columns})]


# ----------------------------------------------------------------------------------------------------------- coverage
def golden_coverage(questions: list[Row], evidence: list[Row], documents: Mapping[str, Row]) -> list[Row]:
    """Rows of `golden_coverage`: cells, split leaks, near-equal questions across splits, and half-widths.

    `questions`, `evidence` and `documents` are rows of golden_questions, golden_evidence and documents. A question stands in the
    cell of every class that its evidence comes from, `none` where it has none; cells without questions are there too.
    """
    gold: dict[str, set[str]] = {question["question_id"]: set() for question in questions}
    for row in evidence:
        if row["grade"] > 0 and row["question_id"] in gold:
            gold[row["question_id"]].add(row["kept_doc_id"] or row["doc_id"])
    rows = [
        *_cells(questions, gold, documents),
        *_leaks(questions, gold),
        *_duplicates(questions),
        *_half_widths(questions, gold, documents),
    ]
    return sorted(rows, key=lambda row: tuple(row[name] for name in TABLES["golden_coverage"].key))


def _row(kind: str, split: str, questions: int, **more: Any) -> Row:
    blank = {"intent": "*", "doc_class": "*", "language": "*", "other": "", "value": None, "detail": None}
    return {"kind": kind, "split": split, **blank, "questions": questions, **more}


def _classes(question: Row, gold: Mapping[str, set[str]], documents: Mapping[str, Row]) -> set[str]:
    return {documents[d]["doc_class"] for d in gold[question["question_id"]] if d in documents} or {"none"}


def _cells(questions: list[Row], gold: Mapping[str, set[str]], documents: Mapping[str, Row]) -> list[Row]:
    counts: defaultdict[tuple[str, str, str, str], int] = defaultdict(int)
    for question in questions:
        for doc_class in _classes(question, gold, documents):
            counts[question["split"], question["intent"], doc_class, question["language"]] += 1
    splits = {DEVELOPMENT, "release", *(key[0] for key in counts)}
    intents, languages = {key[1] for key in counts}, {key[3] for key in counts}
    classes = {row["doc_class"] for row in documents.values()} | {key[2] for key in counts}
    return [
        _row(
            "cell",
            split,
            counts.get((split, intent, doc_class, language), 0),
            intent=intent,
            doc_class=doc_class,
            language=language,
        )
        for split, intent, doc_class, language in product(splits, intents, classes, languages)
    ]


def _leaks(questions: list[Row], gold: Mapping[str, set[str]]) -> Iterator[Row]:
    """Documents and sessions that questions of more than one split share."""
    shared: defaultdict[str, list[Row]] = defaultdict(list)
    for question in sorted(questions, key=lambda q: q["question_id"]):
        for doc_id in gold[question["question_id"]]:
            shared[f"document {doc_id}"].append(question)
        if question["session"] is not None:
            shared[f"session {question['session']}"].append(question)
    for what, found in sorted(shared.items()):
        splits = sorted({question["split"] for question in found})
        if len(splits) > 1:
            listed = "; ".join(f"{s}: {', '.join(q['question_id'] for q in found if q['split'] == s)}" for s in splits)
            yield _row("split_leak", "+".join(splits), len(found), other=what, value=1.0, detail=listed)


def _duplicates(questions: list[Row]) -> Iterator[Row]:
    """Questions of two splits that are nearly the same text and name the same numbers."""
    from rapidfuzz import fuzz, process, utils

    by_split: defaultdict[str, list[Row]] = defaultdict(list)
    for question in sorted(questions, key=lambda q: q["question_id"]):
        by_split[question["split"]].append(question)
    for one, other in combinations(sorted(by_split), 2):
        right = [utils.default_process(q["text"]) for q in by_split[other]]
        for start in range(0, len(by_split[one]), 256):
            block = by_split[one][start : start + 256]
            left = [utils.default_process(q["text"]) for q in block]
            close = process.cdist(left, right, scorer=fuzz.token_sort_ratio, score_cutoff=DUPLICATE_SIMILARITY)
            for i, j in zip(*close.nonzero(), strict=True):
                pair = (block[i], by_split[other][j])
                if len({tuple(sorted(re.findall(r"\d+", q["text"]))) for q in pair}) == 1:
                    yield _row(
                        "duplicate_question",
                        f"{one}+{other}",
                        2,
                        other=" | ".join(q["question_id"] for q in pair),
                        value=round(float(close[i, j]) / 100, 4),
                        detail=" | ".join(q["text"] for q in pair),
                    )


def _half_widths(questions: list[Row], gold: Mapping[str, set[str]], documents: Mapping[str, Row]) -> list[Row]:
    """How far a rate of .8 can be known with the questions there are, for ranking and answer metrics, by slice."""
    counts: defaultdict[tuple[str, str, str, str, str], int] = defaultdict(int)
    for question in questions:
        split = question["split"]
        slices = {("*", "*", "*"), (question["intent"], "*", "*"), ("*", "*", question["language"])}
        slices |= {("*", doc_class, "*") for doc_class in _classes(question, gold, documents)}
        for key in slices:
            counts[(split, *key, "answer metrics")] += 1
            counts[(split, *key, "ranking metrics")] += bool(gold[question["question_id"]])
    return [
        _row("half_width", split, n, intent=intent, doc_class=doc_class, language=language, other=metric, value=half_width(n))
        for (split, intent, doc_class, language, metric), n in counts.items()
    ]


def half_width(questions: int, rate: float = 0.8) -> float | None:
    """Half of the 95% interval of a rate over so many questions (normal approximation: for planning, not for deciding)."""
    return min(1.959964 * math.sqrt(rate * (1 - rate) / questions), 1.0) if questions else None


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
        _replace(source, b"".join([*lines[:position], line, *lines[position + 1 :]]))
        return source
    target = folder / f"{DEVELOPMENT}.jsonl"
    before = target.read_bytes() if target.exists() else b""
    # Written before it is removed: a crash between leaves the question twice, which the next read names, and never lost.
    _replace(target, before + (b"" if before.endswith(b"\n") or not before else b"\n") + line)
    _replace(source, b"".join([*lines[:position], *lines[position + 1 :]]))
    return target


def _replace(path: Path, content: bytes) -> None:
    """Write beside, flush, rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


# ---------------------------------------------------------------------------------------------------------- baselines
_BASELINE_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def read_baselines(folder: Path) -> list[Row]:
    """Rows of `baselines` from folder/*.parquet, sorted by the table's key; none where the folder is not there.

    Raises GoldenError for a file that is no Parquet, lacks a column, or holds a row twice or of another baseline.
    """
    table = TABLES["baselines"]
    rows: list[Row] = []
    for path in sorted(folder.glob("*.parquet"), key=lambda path: path.name):
        try:
            found = pq.read_table(path, page_checksum_verification=True).select(table.columns).cast(table.schema).to_pylist()
        except (pa.ArrowException, OSError, KeyError) as error:
            raise GoldenError(f"{path}: no baseline: {error}; save it again with `rag-eval baseline save`") from error
        foreign = next((row["baseline"] for row in found if row["baseline"] != path.stem), None)
        if foreign is not None:
            raise GoldenError(f"{path}: holds rows of baseline {foreign!r}; name the file {foreign}.parquet")
        rows += found
    ordered = sorted(rows, key=lambda row: tuple(row[name] for name in table.key))
    for one, other in pairwise(ordered):
        key = tuple(one[name] for name in table.key)
        if key == tuple(other[name] for name in table.key):
            raise GoldenError(f"{folder / key[0]}.parquet: question {one['question_id']!r}: stands twice under {key[2:]}; save it again")
    return ordered


def save_baseline(folder: Path, name: str, rows: Iterable[Row], *, replace: bool = False) -> Path:
    """Write rows of `baselines` as folder/<name>.parquet, atomically; the file written.

    Raises GoldenError for a name that is no file name or rows that do not fit the table, FileExistsError for a baseline that is there
    unless `replace`.
    """
    if not _BASELINE_NAME.fullmatch(name):
        raise GoldenError(f"baseline {name!r}: use lower case letters and digits, and '.', '-', '_' after the first")
    try:
        table = pa.Table.from_pylist(list(rows), schema=TABLES["baselines"].schema)
        table.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise GoldenError(f"baseline {name!r}: rows do not fit the table: {error}") from error
    path: Path = folder / f"{name}.parquet"
    if path.exists() and not replace:
        raise FileExistsError(f"{path}: baseline {name!r} is there; choose another name, or pass --replace")
    folder.mkdir(parents=True, exist_ok=True)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    _replace(path, sink.getvalue().to_pybytes())
    return path
