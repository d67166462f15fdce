"""Settings of language models, of the readers and judges that use them, and of systems under test.

What belongs here: fields, defaults and bounds of these. What does not: names that must stand for something (`settings.checks`) and
keys, which are read from the environment variable that `key_variable` names.
"""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from rag_eval_assets.settings.base import Name, Strict, sound

OWN_PARAMETERS = ("model", "messages", "stream", "stream_options", "response_format", "n", "temperature", "seed", "max_tokens")
"""Parameters of a request that `parameters` may not name: they are fields of their own, or the client's."""


def _endpoint_problem(url: str) -> str | None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "is no http or https URL such as http://127.0.0.1:8080/v1"
    if parts.username or parts.password or parts.query or parts.fragment:
        return "holds more than an address; a key belongs in the environment variable that key_variable names"
    return None


class Prices(Strict):
    """Price of a million tokens, in whatever currency `spend_limit` counts in."""

    prompt: float = Field(ge=0)
    completion: float = Field(ge=0)


class Model(Strict):
    """A language model behind an OpenAI-compatible chat endpoint."""

    base_url: str = Field(description="Address below which /chat/completions stands.")
    model: str = Field(min_length=1, description="Name the endpoint knows it by.")
    key_variable: str | None = Field(None, description="Environment variable that holds the key; null for an endpoint that asks for none.")
    temperature: float | None = Field(0.0, ge=0, description="null: not sent.")
    seed: int | None = 7
    max_tokens: int | None = Field(512, ge=1, description="Tokens of a reply at most; null: not sent.")
    parameters: dict[str, Any] = Field({}, description="Further parameters of the request, sent as they stand.")
    accepts: tuple[str, ...] = Field((), description="Names that may stand in a reply beside `model`, such as a dated version of it.")
    stream: bool = Field(True, description="Stream replies, which gives the time to the first token.")
    refresh: str = Field("", description="A label; under a new one everything is asked again, and earlier replies are kept beside.")
    prices: Prices | None = None
    deadline_seconds: float = Field(60, gt=0, description="Time limit of one call.")
    concurrency: int = Field(4, ge=1, le=256, description="Calls in flight at once.")
    attempts: int = Field(5, ge=1, le=20, description="Calls made for one reply at most, after 429, 5xx and broken connections.")
    longest_wait_seconds: float = Field(60, gt=0, description="Longest wait before another attempt, whatever the endpoint asks for.")
    spend_limit: float | None = Field(None, gt=0, description="What the calls of one asset partition's run may cost at most; needs prices.")

    @field_validator("base_url")
    @classmethod
    def _an_address(cls, value: str) -> str:
        return sound(value, _endpoint_problem(value)).rstrip("/")

    @field_validator("key_variable")
    @classmethod
    def _a_name_and_no_key(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("names an environment variable (letters, digits, '_'); the key itself stands in no file")
        return value

    @field_validator("parameters")
    @classmethod
    def _further_ones(cls, value: dict[str, Any]) -> dict[str, Any]:
        own = [name for name in OWN_PARAMETERS if name in value]
        if own:
            raise ValueError(f"may not name {', '.join(own)}: a field of the model, or the client's own")
        return value

    @model_validator(mode="after")
    def _a_limit_can_be_counted(self) -> Model:
        if self.spend_limit is not None and self.prices is None:
            raise ValueError("spend_limit needs prices: {prompt: ..., completion: ...}, per million tokens")
        if self.spend_limit is not None and self.max_tokens is None and "max_completion_tokens" not in self.parameters:
            raise ValueError("spend_limit needs max_tokens: without it the cost of a call has no bound")
        return self

    @property
    def identity(self) -> dict[str, Any]:
        """What shapes a reply and its reading: no limit, no key."""
        return self.model_dump(
            mode="json", exclude={"key_variable", "deadline_seconds", "concurrency", "attempts", "longest_wait_seconds", "spend_limit"}
        )


class Scorer(Strict):
    """An entailment scorer by path. Its metric is reported as entailment@NAME, and gates only with a threshold that its audit confirms."""

    kind: Literal["onnx", "function"] = "onnx"
    model: str = Field(min_length=1, description="ONNX file, a path from this folder; or module:function of your own.")
    tokenizer: str | None = Field(None, description="The model's tokenizer.json, a path from this folder; kind onnx.")
    entailment: int = Field(0, ge=0, description="Number of the label that means support; a model with one logit has none.")
    max_tokens: int = Field(512, ge=8, description="Tokens of a pair at most; the passage is cut.")
    threshold: float | None = Field(None, ge=0, le=1, description="Probability from which an answer counts as supported; calibrate it.")
    version: str | None = Field(None, description="What tells this function from a later one of its name; a function needs it.")

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Scorer:
        needed = {"onnx": "tokenizer", "function": "version"}[self.kind]
        if getattr(self, needed) is None:
            raise ValueError(f"kind {self.kind} needs {needed!r}")
        if self.kind == "function" and not re.fullmatch(r"[\w.]+:\w+", self.model):
            raise ValueError(f"model {self.model!r} is not module:function")
        strange = sorted({"tokenizer", "entailment", "max_tokens"} & self.model_fields_set) if self.kind == "function" else []
        if strange or (self.kind == "onnx" and self.version is not None):
            raise ValueError(f"{', '.join(strange) or 'version'}: no option of kind {self.kind}; leave it out")
        return self


class Reader(Strict):
    """What answers from the delivered passages: the extractive reader, or a model of `models`."""

    kind: Literal["extractive", "chat"] = "extractive"
    sentences: int = Field(2, ge=1, description="Sentences an extractive answer holds at most.")
    threshold: float = Field(0.275, ge=0, le=1, description="Support below which the extractive reader refuses.")
    model: Name | None = Field(None, description="Model of kind chat, a name of `models`.")

    @model_validator(mode="after")
    def _options_of_its_kind(self) -> Reader:
        if (self.kind == "chat") != (self.model is not None):
            raise ValueError("'model' names the model of kind chat, and of no other kind")
        lexical = sorted({"sentences", "threshold"} & self.model_fields_set)
        if self.kind == "chat" and lexical:
            raise ValueError(f"{', '.join(lexical)}: options of kind extractive; leave them out")
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """What shapes an answer, save the model itself."""
        return self.model_dump(exclude={"model"} if self.kind == "extractive" else {"sentences", "threshold"})
