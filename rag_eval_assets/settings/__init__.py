"""Typed view of an evaluation folder's `evaluation.yaml` and of the environment.

What belongs here: every setting with its type, default and meaning (`corpus`, `retrieval`, `systems`, `models`, `deciding`), policy
files (`policy`), and one clear error for a bad one (`checks`). What does not: what a setting does (the pure packages take plain values)
and secrets (environment only; settings name the variable).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, PrivateAttr, field_validator, model_validator

from rag_eval_assets.settings.base import Name, Strict, sound
from rag_eval_assets.settings.checks import policy_problems, storage_problem, unresolved, workers_problem
from rag_eval_assets.settings.corpus import ChunkGrid, ClassRule, Cleaning, Dedup, Parser, Transcripts
from rag_eval_assets.settings.deciding import Gate, Judge, Nightly, Scoring
from rag_eval_assets.settings.models import Model, Scorer
from rag_eval_assets.settings.policy import Policy, read_policy
from rag_eval_assets.settings.retrieval import Ann, Embedder, FilterDecision, Gain, Reranker, Retriever, Sweep
from rag_eval_assets.settings.systems import Diagnosis, Experiment, System
from rag_eval_assets.strict import Problem, SettingsError, UnresolvedNames, problem_line, read_strict
from rag_eval_assets.tables import DERIVED_SLICES

__all__ = [
    "DATA_VARIABLE",
    "SETTINGS_FILE",
    "STATE_FOLDER",
    "Ann",
    "ChunkGrid",
    "ClassRule",
    "Cleaning",
    "Dedup",
    "Diagnosis",
    "Embedder",
    "Experiment",
    "FilterDecision",
    "Folder",
    "Gain",
    "Gate",
    "Judge",
    "Limits",
    "Model",
    "Nightly",
    "Parser",
    "Reranker",
    "Retriever",
    "Scorer",
    "Scoring",
    "Settings",
    "Sweep",
    "System",
    "Transcripts",
    "read_settings",
    "sound_policy",
]

DATA_VARIABLE = "RAG_EVAL_DATA"
STATE_FOLDER = ".rag_eval"
SETTINGS_FILE = "evaluation.yaml"


class Limits(Strict):
    """Bounds on one unit of work and on this machine's use."""

    workers: int = Field(2, ge=1, description="Worker processes for parsing.")
    threads: int = Field(2, ge=1, description="Threads of numeric libraries.")
    file_seconds: float = Field(120, gt=0, description="Time limit for one file, seconds.")
    file_megabytes: int = Field(2048, ge=128, description="Memory limit of a parse worker, MiB.")
    source_megabytes: int = Field(256, ge=1, description="Largest source file read, MiB.")
    pages: int = Field(2000, ge=1, description="Largest number of pages read of one file.")


class Settings(Strict):
    """Everything `evaluation.yaml` may say."""

    name: str = "evaluation"
    seed: int = 7
    tokenizer: Literal["cl100k_base", "o200k_base", "minilm"] = "cl100k_base"
    storage: str | None = Field(None, description="Root of the tables, any UPath, a path from this folder; null for the state folder.")
    workers: str | None = Field(
        None, description="Dask scheduler that parsing, embedding and quoting readers hand batches to, tcp://host:8786; null: this machine."
    )
    limits: Limits = Limits()
    classes: tuple[ClassRule, ...] = ()
    parsers: dict[Name, Parser]
    parser_of: dict[str, str] = Field(description="The chosen parser of each document class.")
    transcripts: Transcripts = Transcripts()
    cleaning: Cleaning = Cleaning()
    dedup: Dedup = Dedup()
    filters: tuple[str, ...] = Field(("locale", "language"), description="Fields that dedup must not merge across.")
    chunkings: tuple[ChunkGrid, ...] = Field(min_length=1)
    embedders: dict[Name, Embedder] = Field({"minilm": Embedder()})
    rerankers: dict[Name, Reranker] = Field({})
    retrievers: dict[Name, Retriever] = Field(min_length=1)
    ann: Ann = Ann()
    sweep: Sweep = Sweep()
    gain: Gain = Gain()
    filter_decision: FilterDecision = FilterDecision()
    scoring: Scoring = Scoring()
    diagnosis: Diagnosis = Diagnosis()
    experiments: dict[Name, Experiment] = Field({}, description="Experiments on recorded rankings, by system; none where it is left out.")
    systems: dict[Name, System] = Field(min_length=1)
    models: dict[Name, Model] = Field({}, description="Language models that readers and judges name.")
    judges: dict[Name, Judge] = Field({})
    scorers: dict[Name, Scorer] = Field({}, description="Entailment scorers (NLI, HHEM) by path, reported as entailment@NAME.")
    gates: dict[Name, Gate] = Field({})
    policy: str | None = Field(None, description="Policy file of comparisons, a path from this folder; its claims gate.")
    slices: tuple[str, ...] = Field(
        ("language", "intent", "kinds", *DERIVED_SLICES), description="Question fields reported as slices, and slices derived from labels."
    )
    minimum_support: int = Field(10, ge=1, description="Questions from which a slice's mean is not marked as thin.")
    nightly: Nightly = Nightly()

    _claims: Policy | None = PrivateAttr(None)
    _schema: dict[str, Any] | None = PrivateAttr(None)
    _files: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def claims(self) -> Policy | None:
        """The policy that `policy` names; None where none is named."""
        return self._claims

    @property
    def answer_schema(self) -> dict[str, Any] | None:
        """The schema that `scoring.answer_schema` names; None where none is named."""
        return self._schema

    @property
    def decided(self) -> list[str]:
        """Names that gate_results decides: gates, then claims of the policy."""
        return [*self.gates, *(self._claims.claims if self._claims else ())]

    @property
    def judge_parameters(self) -> dict[str, dict[str, Any]]:
        """Every judge with its model, by name; without its pairs, which shape no score of a system."""
        return {
            name: {**judge.model_dump(mode="json", exclude={"pairs"}), "endpoint": self.models[judge.model].identity}
            for name, judge in sorted(self.judges.items())
        }

    @property
    def scorer_parameters(self) -> dict[str, dict[str, Any]]:
        """What shapes a scorer's probabilities, by name: its settings without the threshold, and the SHA-256 of its files."""
        own = {name: chosen.model_dump(mode="json", exclude={"threshold"}) for name, chosen in sorted(self.scorers.items())}
        return {name: {**part, "files": self._files.get(name)} for name, part in own.items()}

    @field_validator("storage")
    @classmethod
    def _reachable(cls, value: str | None) -> str | None:
        return None if value is None else sound(value, storage_problem(value))

    @field_validator("workers")
    @classmethod
    def _reachable_in_principle(cls, value: str | None) -> str | None:
        return None if value is None else sound(value, workers_problem(value))

    @model_validator(mode="after")
    def _names_resolve(self) -> Settings:
        try:
            problems = list(unresolved(self))
        except ValueError as error:
            problems = [(("chunkings",), str(error).removeprefix("chunkings: "))]
        if problems:
            raise UnresolvedNames(problems)
        return self


class Folder:
    """An evaluation folder: its settings, and where its state is kept."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser().resolve()

    @classmethod
    def from_environment(cls) -> Folder:
        """The folder named by RAG_EVAL_DATA; the repository's own sample without it."""
        named = os.environ.get(DATA_VARIABLE)
        return cls(named or Path(__file__).resolve().parents[2] / "data")

    @cached_property
    def settings(self) -> Settings:
        return read_settings(self.path / SETTINGS_FILE)

    corpus = property(lambda self: self.path / "corpus")
    golden = property(lambda self: self.path / "golden")
    references = property(lambda self: self.path / "references")
    labels = property(lambda self: self.path / "labels")
    baselines = property(lambda self: self.path / "baselines")
    state = property(lambda self: self.path / STATE_FOLDER)
    stores = property(lambda self: self.state / "stores")

    @property
    def tables(self) -> str:
        """Root of the tables; a `storage` without a protocol is a path below this folder, or an absolute one."""
        chosen = self.settings.storage
        if chosen is None:
            return str(self.state / "tables")
        return chosen if "://" in chosen else str(self.path / Path(chosen).expanduser())

    def settings_error(self, problems: Sequence[Problem]) -> SettingsError:
        """The error of settings that the folder's files contradict, with the line of each."""
        path = self.path / SETTINGS_FILE
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        return SettingsError("\n".join(problem_line(path, root, location, text) for location, text in problems))


def read_settings(path: Path) -> Settings:
    """Read and check one `evaluation.yaml`. Raises SettingsError that names file, line, field and what is wrong."""
    if not path.is_file():
        raise SettingsError(f"{path}: no such file. An evaluation folder holds {SETTINGS_FILE}, corpus/ and golden/.")
    settings, root = read_strict(path, Settings, " (README.md has the smallest evaluation.yaml)")
    if settings.storage is not None and "://" not in settings.storage:
        place = path.parent / Path(settings.storage).expanduser()
        held = next(p for p in (place, *place.parents) if p.exists())
        if not held.is_dir():
            raise SettingsError(problem_line(path, root, ("storage",), f"{held} is no folder; name a folder for the tables"))
    if settings.policy is not None:
        settings._claims = sound_policy(path.parent / Path(settings.policy).expanduser(), settings)
    for name, scorer in settings.scorers.items():
        parts = [(field, getattr(scorer, field)) for field in ("model", "tokenizer")] if scorer.kind == "onnx" else []
        for field, part in parts:
            if not (path.parent / part).is_file():
                raise SettingsError(problem_line(path, root, ("scorers", name, field), f"{path.parent / part} is no file"))
        settings._files[name] = " ".join(_sha256(path.parent / part) for _, part in parts)
    if settings.scoring.answer_schema is not None:
        schema = _answer_schema(path.parent / Path(settings.scoring.answer_schema).expanduser())
        if isinstance(schema, str):
            raise SettingsError(problem_line(path, root, ("scoring", "answer_schema"), schema))
        settings._schema = schema
    return settings


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _answer_schema(path: Path) -> dict[str, Any] | str:
    """A schema of structured answers, or what is wrong with it."""
    from rag_eval_assets.scoring.structured import schema_problems

    try:
        schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        return f"{path}: {error.strerror}; name a file with a JSON Schema"
    except (ValueError, RecursionError) as error:
        return f"{path}: no JSON: {error}"
    return next((f"{path}: {problem}" for problem in schema_problems(schema)), None) or schema


def sound_policy(path: Path, settings: Settings) -> Policy:
    """A policy file whose names stand for something under these settings. Raises SettingsError that names file, line and field."""
    policy, root = read_policy(path)
    problems = [problem_line(path, root, *problem) for problem in policy_problems(policy, settings)]
    if problems:
        raise SettingsError("\n".join(problems))
    return policy
