"""What every group of settings shares: strictness, names, and numbers that are no truth values.

What belongs here: the base class and bounds that many use. What does not: any setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Share = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]
_RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))})


def file_name_problem(name: str) -> str | None:
    """Why a name that becomes a file's may not be one everywhere, or None: it climbs, ends in a dot, or is a device of Windows."""
    if ".." in name or name.endswith("."):
        return "must hold no '..' and end in no dot, for files are named after it"
    return "is the name of a device on Windows, and files are named after it; choose another" if name.split(".")[0] in _RESERVED else None


Name = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$", description="Lower case, digits, '.', '-', '_'."),
    AfterValidator(lambda name: sound(name, file_name_problem(name))),
]


def sound(value: str, problem: str | None) -> str:
    """`value` itself where there is no problem."""
    if problem:
        raise ValueError(problem)
    return value


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, field: ValidationInfo) -> Any:
        """YAML's true, yes and on are not 1, as Python has it."""
        kinds = set(_leaves(cls.model_fields[str(field.field_name)].annotation))
        held = value if isinstance(value, list | tuple) else [value]
        if kinds & {int, float} and bool not in kinds and any(isinstance(item, bool) for item in held):
            raise ValueError("is true or false; a number is wanted")
        return value


def _leaves(kind: Any) -> Iterator[Any]:
    """The types in an annotation that hold no other."""
    inner = [part for part in get_args(kind) if get_origin(kind) is not Literal]
    if inner:
        for part in inner:
            yield from _leaves(part)
    else:
        yield kind if isinstance(kind, type) else None
