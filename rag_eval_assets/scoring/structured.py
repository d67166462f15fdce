"""Answers that must be JSON of a given schema: whether they have its form, and whether they keep to its words.

What belongs here: the part of JSON Schema (draft 2020-12) that structured answers use. What does not: whether what the answer says is
right (`answers`). A keyword that is not understood is refused where the schema is read, for a rule that nobody checks would always hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rag_eval_assets.scoring.outcomes import Outcome, not_applicable

Schema = Mapping[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "null": (type(None),), "integer": (int,),
    "number": (int, float),
}  # fmt: skip
_TOLD = frozenset({"$schema", "$id", "title", "description", "default", "examples"})
_RULES: dict[str, tuple[type, ...]] = {
    "type": (str, list), "properties": (dict,), "required": (list,), "additionalProperties": (bool,), "items": (dict,),
    "minItems": (int,), "maxItems": (int,), "minLength": (int,), "maxLength": (int,), "minimum": (int, float), "maximum": (int, float),
    "pattern": (str,), "enum": (list,),
}  # fmt: skip


def schema_problems(schema: Any, place: str = "schema") -> Iterator[str]:
    """What is wrong with a schema: a keyword that is not understood, or a value that its keyword may not have."""
    if not isinstance(schema, dict):
        yield f"{place}: is no object; a schema is {{...}}"
        return
    for name, value in schema.items():
        own: Any = value
        if name not in _RULES:
            if name not in _TOLD:
                yield f"{place}: keyword {name!r} is not understood; known: {', '.join(sorted(_RULES))}"
        elif not isinstance(value, _RULES[name]) or (isinstance(value, bool) and bool not in _RULES[name]):
            yield f"{place}.{name}: has a value of the wrong kind"
        elif name == "type":
            kinds = own if isinstance(own, list) else [own]
            yield from (f"{place}.type: {k!r} is unknown; known: {', '.join(_TYPES)}" for k in kinds if k not in _TYPES)
        elif name == "pattern":
            try:
                re.compile(own)
            except re.error as error:
                yield f"{place}.pattern: {error}"
        elif name == "properties":
            for key, part in own.items():
                yield from schema_problems(part, f"{place}.properties.{key}")
        elif name == "items":
            yield from schema_problems(own, f"{place}.items")


def schema_conformance(answer: str, schema: Schema) -> Outcome:
    """1 for an answer that is JSON, with nothing around it, in the form the schema asks for; 0 with what is wrong. `enum` is not form."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError) as error:
        return Outcome(0.0, explanation=f"no JSON: {error}")
    wrong = list(_faults(value, schema, "answer"))
    return Outcome(float(not wrong), explanation="; ".join(wrong[:5]) or None)


def vocabulary_conformance(answer: str, schema: Schema) -> Outcome:
    """Share of the values at places with an `enum` that are of its words; no_claims where the answer has no such value."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return not_applicable("no_claims")
    found = list(_words(value, schema))
    if not found:
        return not_applicable("no_claims")
    strange = [json.dumps(word, ensure_ascii=False) for word, known in found if not known]
    return Outcome(1 - len(strange) / len(found), explanation=("not in the vocabulary: " + ", ".join(strange)) if strange else None)


def _is(value: Any, kind: str) -> bool:
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind]) and (not isinstance(value, bool) or kind == "boolean")


def _faults(value: Any, schema: Schema, place: str) -> Iterator[str]:
    kinds = schema.get("type", list(_TYPES))
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not any(_is(value, kind) for kind in kinds):
        yield f"{place} is no {' or '.join(kinds)}"
        return
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (f"{place} lacks {name!r}" for name in schema.get("required", ()) if name not in value)
        if not schema.get("additionalProperties", True):
            yield from (f"{place} has {name!r}, which is not asked for" for name in value if name not in known)
        for name, part in known.items():
            if name in value:
                yield from _faults(value[name], part, f"{place}.{name}")
    elif isinstance(value, list):
        yield from _outside(len(value), schema, "minItems", "maxItems", place, "items")
        for i, item in enumerate(value):
            yield from _faults(item, schema.get("items", {}), f"{place}[{i}]")
    elif isinstance(value, str):
        yield from _outside(len(value), schema, "minLength", "maxLength", place, "characters")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{place} does not match {schema['pattern']!r}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _outside(value, schema, "minimum", "maximum", place, "")


def _outside(size: float, schema: Schema, least: str, most: str, place: str, unit: str) -> Iterator[str]:
    if not schema.get(least, size) <= size <= schema.get(most, size):
        yield f"{place} has {size} {unit}".rstrip() if unit else f"{place} is {size}"


def _words(value: Any, schema: Schema) -> Iterator[tuple[Any, bool]]:
    """Values at places with a vocabulary, each with whether it is of it; 1 and true are different words."""
    if "enum" in schema:
        yield value, any(type(value) is type(word) and value == word for word in schema["enum"])
    if isinstance(value, dict):
        for name, part in schema.get("properties", {}).items():
            if name in value:
                yield from _words(value[name], part)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item, schema.get("items", {}))
