"""Settings of scores, judges and gates, and of when the nightly run is due.

What belongs here: fields, defaults and bounds of these. What does not: claims of a comparison (`policy`).
"""

from __future__ import annotations

from typing import Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field, field_validator, model_validator

from rag_eval_assets.settings.base import Name, Strict, sound
from rag_eval_assets.settings.checks import cron_problem


class Judge(Strict):
    """A model of `models` that judges. Its metrics are reported as METRIC@JUDGE, and gate only once its audit passes."""

    model: Name = Field(description="Model, a name of `models`.")
    metrics: tuple[str, ...] = ("claim_faithfulness",)
    repeats: int = Field(1, ge=1, le=20, description="How often the audit has every label judged, to see how steady the judge is.")
    relevance_threshold: float = Field(0.5, ge=0, le=1, description="Relevance from which a passage counts as relevant; calibrate it.")
    embedder: Name | None = Field(None, description="Embedder that answer_relevancy compares questions with; null: not applicable.")
    pairs: tuple[tuple[Name, Name], ...] = Field(
        (), description="Pairs of systems, [candidate, other], between whose answers it prefers, each question in both orders."
    )


class Scoring(Strict):
    ks: tuple[int, ...] = (1, 3, 5, 10, 20)
    token_budgets: tuple[int, ...] = (500, 1000, 2000)
    depth: int = Field(100, ge=1, description="Hits kept of every ranking.")
    pass_metric: str = Field("correct", description="Answer metric that says a question failed.")
    answer_schema: str | None = Field(
        None, description="JSON Schema of structured answers, a path from this folder; adds schema_conformance and vocabulary_conformance."
    )

    @field_validator("ks", "token_budgets")
    @classmethod
    def _positive(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(k <= 0 for k in value) or len(set(value)) != len(value):
            raise ValueError("cut-offs must be positive and differ from each other")
        return tuple(sorted(value))


class Gate(Strict):
    """A bound on one quality figure. `source` says which table it is read from."""

    source: Literal["system_summary", "system_costs", "ann_recall", "filter_exclusion", "parse_quality", "dedup_quality"]
    metric: str
    k: int = 0
    unit: str = "document"
    at_least: float | None = None
    at_most: float | None = None
    split: Literal["development", "release", "calibration", "monitoring"] = "release"
    scope: tuple[str, ...] = Field((), description="Systems, chunkings or classes judged; empty for all in use.")
    minimum_coverage: float = Field(1.0, ge=0, le=1)
    minimum_questions: int = Field(1, ge=1)
    starting_value: bool = False

    @model_validator(mode="after")
    def _one_bound(self) -> Gate:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give exactly one of at_least and at_most")
        return self


class Nightly(Strict):
    cron: str = "0 2 * * *"
    timezone: str = "UTC"

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, value: str) -> str:
        return sound(value, cron_problem(value))

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        if value not in available_timezones():
            raise ValueError(f"{value!r} is no IANA time zone such as Europe/Amsterdam")
        return ZoneInfo(value).key
