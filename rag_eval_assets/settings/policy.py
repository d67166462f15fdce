"""The policy of a comparison: which claims about a candidate are decided, with which margins, set before looking.

What belongs here: the fields of a policy file. What does not: deciding (`scoring.comparison`), and bounds on a single system (gates of
`settings`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, model_validator

from rag_eval_assets.settings.base import Name, Strict
from rag_eval_assets.strict import SettingsError, read_strict


class Claim(Strict):
    """One claim about the mean difference, candidate minus baseline, of one measure. All claims of a policy are one family."""

    metric: str = Field(description="Metric as in system_scores.")
    k: int = Field(0, ge=0, description="Cut-off; 0 for none.")
    cutoff: Literal["rank", "tokens"] = Field("rank", description="What k counts.")
    unit: str = Field("document", description="What is counted: document, chunk, group or question.")
    claim: Literal["superiority", "non_inferiority", "equivalence"] = "non_inferiority"
    margin: float | None = Field(None, ge=0, lt=1, description="In points of the score; superiority may leave it out: 0.")

    @model_validator(mode="after")
    def _has_its_margin(self) -> Claim:
        if self.claim != "superiority" and not self.margin:
            raise ValueError(f"{self.claim} needs a margin over 0, such as 0.02")
        return self


class Exploratory(Strict):
    """What is shown beside the family and decides nothing."""

    margin: float = Field(0.02, gt=0, lt=1, description="Margin of non-inferiority.")
    slices: tuple[str, ...] = Field((), description="Question fields by whose values the claimed measures are also shown.")
    minimum_support: int = Field(20, ge=2, description="Paired questions under which a slice says too_few_questions.")


class Policy(Strict):
    """Everything a policy file may say."""

    confidence: float = Field(0.95, gt=0.5, lt=1, description="Of intervals; claims are decided at half of the rest, one-sided.")
    split: Literal["development", "release", "calibration", "monitoring"] = "release"
    claims: dict[Name, Claim] = Field(min_length=1, description="The declared family, by name; Holm's step-down goes over all of it.")
    maximum_excluded: float = Field(0.1, ge=0, le=1, description="Share of questions to which a measure applies on one side only.")
    exploratory: Exploratory = Exploratory()


def read_policy(path: Path) -> tuple[Policy, yaml.Node | None]:
    """Read and check one policy file; its nodes tell the line of what names contradict.

    Raises SettingsError that names file, line, field and what is wrong.
    """
    if not path.is_file():
        raise SettingsError(f"{path}: no such policy file; data/policy.yaml is an example")
    return read_strict(path, Policy, " (data/policy.yaml is an example)")
