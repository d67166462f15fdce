"""A reader of strict settings files that names the line of every mistake.

What belongs here: reading one YAML file as one model. What does not: the models (`settings`) and what their names stand for
(`settings.checks`), and their base (`settings.base`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Location = tuple[str | int, ...]
Problem = tuple[Location, str]
Model = TypeVar("Model", bound=BaseModel)

MOST_NODES = 100_000
"""Values of a settings file with its aliases written out; a sound one has hundreds, and a few lines of aliases can stand for billions."""


class SettingsError(ValueError):
    """A setting that cannot be used: names file, line, field and the mend."""


class UnresolvedNames(ValueError):
    """Names in settings that stand for nothing: (location, what is wrong) of each."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{dotted(location)}: {text}" for location, text in problems))
        self.problems = problems


def dotted(location: Location) -> str:
    return ".".join(map(str, location))


def problem_line(path: Path, root: yaml.Node | None, location: Location, text: str) -> str:
    return f"{path}:{_line_of(root, location)}: {dotted(location) or 'settings'}: {text}"


def _line_of(root: yaml.Node | None, location: Sequence[int | str]) -> int:
    """Line (from 1) of the deepest node on `location` that the file holds."""
    node, line = root, 1
    for step in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(step)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line


def read_strict(path: Path, model: type[Model], hint: str = "") -> tuple[Model, yaml.Node | None]:
    """One YAML file as a model, with its nodes for `problem_line`. `hint` is the mend where a key at the top is missing.

    Raises SettingsError, a line a mistake: file, line, field, what is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None and (swollen := _swollen(root)) is not None:
            told = f"its aliases stand for more than {MOST_NODES:,} values, or for themselves; write out what is meant"
            raise SettingsError(f"{path}:{swollen.start_mark.line + 1}: {told}")
        raw = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise SettingsError(f"{path}:{line}: no UTF-8 text; save the file as UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise SettingsError(f"{path}{where}: not readable as YAML: {getattr(error, 'problem', None) or error}") from error
    except RecursionError as error:
        raise SettingsError(f"{path}:1: nested too deeply") from error
    doubled = [f"{path}:{key.start_mark.line + 1}: {key.value}: stands twice in one mapping; keep one" for key in _doubled_keys(root)]
    if doubled:
        raise SettingsError("\n".join(doubled))
    try:
        return model.model_validate(raw if raw is not None else {}), root
    except ValidationError as error:
        raise SettingsError("\n".join(problem_line(path, root, *problem) for problem in _problems(error, model, hint))) from error


def _swollen(root: yaml.Node) -> yaml.Node | None:
    """The innermost first node that comes to more than MOST_NODES nodes or holds itself, each alias counted with all that it stands
    for; None where there is none."""
    known: dict[int, float] = {}

    def find(node: yaml.Node) -> yaml.Node | None:
        if id(node) in known:
            return None
        known[id(node)] = math.inf
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        parts = parts if isinstance(node, yaml.CollectionNode) else []
        found = next((inner for part in parts if (inner := find(part)) is not None), None)
        if found is None:
            known[id(node)] = 1 + sum(known[id(part)] for part in parts)
        return node if found is None and known[id(node)] > MOST_NODES else found

    return find(root)


def _problems(error: ValidationError, model: type[BaseModel], hint: str) -> Iterator[Problem]:
    """(location, text) of each problem; of names that stand for nothing, of each name."""
    for problem in error.errors():
        named = problem.get("ctx", {}).get("error")
        if isinstance(named, UnresolvedNames):
            yield from named.problems
        else:
            # What pydantic says of a name in a mapping stands below that name, in a place of its own.
            yield problem["loc"][:-1] if problem["loc"][-1:] == ("[key]",) else problem["loc"], _told(problem, model, hint)


def _told(problem: ErrorDetails, model: type[BaseModel], hint: str) -> str:
    """A problem with its mend, where pydantic tells the fault alone."""
    if problem["type"] == "extra_forbidden":
        return f"no such setting; known: {', '.join(_fields_at(model, problem['loc'][:-1]))}"
    if problem["type"] == "missing":
        return "is required" + (hint if len(problem["loc"]) == 1 else "")
    if problem["type"] in ("tuple_type", "list_type"):
        given = problem["input"]
        mend = "begin each of its items with '- '" if isinstance(given, dict) else f"write [{given}]"
        return f"is no list; {mend}"
    if problem["type"] == "too_short":
        return f"is a list of {problem['ctx']['actual_length']}; give at least {problem['ctx']['min_length']}"
    if problem["type"] in ("dict_type", "model_type", "model_attributes_type"):
        return "is no mapping; write each of its parts as 'name: value' on a line of its own"
    return problem["msg"].removeprefix("Value error, ")


def _fields_at(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """Settings that may stand at a location."""
    kind: Any = model
    for part in location:
        kind = kind.model_fields[part].annotation if hasattr(kind, "model_fields") else _held(kind)
        if get_origin(kind) in (Union, UnionType):
            kind = _held(kind)
    return list(kind.model_fields)


def _held(kind: Any) -> Any:
    """What a mapping, a tuple or an optional field holds."""
    return next(held for held in reversed(get_args(kind)) if held not in (NoneType, ...))


def _doubled_keys(node: yaml.Node | None) -> Iterator[yaml.Node]:
    """Keys that YAML would let overwrite an earlier one without a word."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield key
                seen.add(key.value)
            yield from _doubled_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _doubled_keys(item)
