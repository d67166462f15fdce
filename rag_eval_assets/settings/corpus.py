"""Settings of what becomes of files: parsing, cleaning, duplicates, chunks.

What belongs here: fields, defaults and bounds of these. What does not: names that must stand for something (`checks`).
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rag_eval_assets.settings.base import Name, Share, Strict, sound
from rag_eval_assets.settings.checks import glob_problem

Permutations = Annotated[int, Field(ge=16, le=4096, description="MinHash permutations, 16 to 4096; each costs 4 bytes a document.")]


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
