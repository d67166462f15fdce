"""What a table is: statuses, reasons, stages, a described column, and the contract that an asset's table keeps.

What belongs here: the closed lists and the form of a contract. What does not: the columns of any one table (the modules
beside this one). A column marked *volatile* (timings, positions in a file) or *work* (what a row's work depended on)
never enters a data version; one marked *vector* has a tolerance and is stood for by its row's `work_key`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

Family = Literal["parser", "chunking", "system"]
Role = Literal["content", "volatile", "vector", "work"]

OK = "ok"  # a content row (an element, a chunk, a ranking) is there
SCORED = "scored"  # a measure has a value
FAILED = "failed"
NOT_APPLICABLE = "not_applicable"
MISSING = "missing"

CONTENT_STATUSES = (OK, FAILED, NOT_APPLICABLE, MISSING)
SCORE_STATUSES = (SCORED, FAILED, NOT_APPLICABLE, MISSING)

REASONS: dict[str, str] = {
    "class_not_declared": "the parser partition does not declare this document class",
    "corrupt": "the file could not be opened as what it is",
    "encrypted": "the file needs a password",
    "empty_file": "the file has zero bytes",
    "wrong_extension": "the content is not what the file name says",
    "unsupported_media_type": "no chosen parser reads this media type",
    "no_import": "no text was imported for this document",
    "timeout": "the time limit for one item was reached",
    "memory": "the memory limit for one item was reached",
    "crashed": "the worker process died or raised an unexpected error",
    "too_large": "the item is over a stated size limit",
    "no_text": "nothing readable was found",
    "parse_failed": "the chosen parser failed on this document",
    "personal_data": "the policy leaves out documents with personal data",
    "document_failed": "the document did not reach canonical text",
    "undecodable": "the bytes are in no known text encoding",
    "no_reference": "no hand-checked reference stands for this document",
    "empty_stratum": "no document of the corpus names this stratum",
    "no_labels": "no human label covers this measure",
    "no_pairs": "no labelled pair to measure on",
    "no_predictions": "no predictions were imported beside the labels",
    "no_relevance_labels": "the question has no relevance label",
    "no_span_labels": "the labels name documents only, no quotation",
    "no_gold_context": "the question has no gold context to execute with",
    "no_gold_answer": "the question has no reference answer",
    "unanswerable": "the corpus does not answer this question, so the measure does not apply",
    "answerable": "the measure applies to unanswerable questions only",
    "no_claims": "the answer makes no claim",
    "no_citations": "the answer cites nothing",
    "refused": "the system refused to answer",
    "not_refused": "the system answered, and the measure is of refusals",
    "evidence_delivered": "the question's evidence was delivered, and the measure is of those without",
    "evidence_not_delivered": "the question's evidence was not delivered whole, and the measure is of those with it",
    "nothing_to_compare": "nothing of the kind that is compared is stated",
    "empty_context": "no passage was delivered",
    "empty_ranking": "the retriever found nothing",
    "not_entitled_gold_only": "all gold is outside the caller's entitlement",
    "no_eligible_gold": "no gold document is eligible for this caller",
    "no_filter": "the question has no relevance filter",
    "made_elsewhere": "the ranking, or a lane of it, was made elsewhere, under a filter of its own",
    "no_embedder": "no embedder is installed or configured",
    "no_judge": "no judge model is configured",
    "same_answer": "both systems gave the same answer, so nobody was asked",
    "position_dependent": "the judge prefers what stands at one place, whatever it says",
    "orders_not_aggregated": "no audit shows that both orders together agree better with people than one",
    "no_threshold": "no threshold is set from which the scorer approves",
    "uninformative_judge": "the judge approves what people reject as often as what they approve",
    "not_installed": "an optional library, engine or language is not installed",
    "no_reranker": "no reranker is configured",
    "no_baseline": "no baseline is saved for this system",
    "tokens_unknown": "nobody says how many tokens a text has",
    "no_vectors": "too few vectors to build the index",
    "duplicate_ids": "one ranking names the same unit twice",
    "non_finite_score": "a score is NaN or infinite",
    "missing_run": "the expected ranking or answer is not there",
    "upstream_failed": "the row this one is made from failed",
    "unknown_unit": "the ranking names a chunk or document that is not there",
    "not_permitted": "the ranking holds a document that the caller may not read",
    "unusable_reply": "a model's or service's reply is not what was asked for",
    "rate_limited": "the endpoint refused too many calls in a row for their rate",
    "endpoint_failed": "the endpoint refused the call, failed, or could not be reached",
    "spend_limit": "the spend limit of the model left no room for the call",
    "no_key": "the environment variable that holds the endpoint's key is not set",
    "truncated_reply": "the model's reply was cut at its token limit",
    "withheld_reply": "the endpoint's content filter withheld the reply",
    "unparsable_reply": "the model's reply does not follow its schema",
    "wrong_model": "another model replied than was asked for",
    "unparsable_judgment": "the judge's reply does not follow its schema",
    "too_few_questions": "fewer questions than the stated minimum",
    "not_failed": "the question did not fail, so there is nothing to diagnose",
    "not_diagnosable": "the failed question lacks what the intervention needs",
    "not_replayable": "what was recorded lacks what the replay needs",
    "not_locatable": "the quotation could not be located in the text",
    "incomparable": "an identity that must match differs",
    "not_used": "the setting is not used by any system",
    "nothing_to_measure": "nothing of the kind measured is there",
}

TRANSIENT = ("timeout", "memory", "crashed", "too_large", "rate_limited", "endpoint_failed", "spend_limit", "no_key")
"""Reasons that another try, or another limit, may mend."""

WHOLE_LOG, AS_LOGGED = 1_000_000, "as logged"
"""Depth and top_k of a log that settings do not cut, and what is said in their place."""

STAGES: dict[str, str] = {
    "acquired": "source_documents",
    "parsed": "parsed_documents",
    "cleaned": "documents",
    "kept": "near_duplicates",
    "chunked": "chunks",
    "eligible": "golden_questions",
    "filtered": "filter_exclusion",
    "exact_search": "retrieval_runs",
    "index_search": "ann_recall",
    "ranked": "system_retrievals",
    "in_context": "contexts",
    "answered": "system_scores",
}
"""The funnel's stages in order, each with the table to open when evidence is lost there."""

SPLITS = ("development", "release", "calibration", "monitoring")
UNITS = ("document", "chunk", "group", "question")

DERIVED_SLICES: dict[str, str] = {
    "doc_class": "class of a relevant document",
    "tenant": "tenant of the caller; none for a caller without",
    "relevant_documents": "relevant documents that the caller may read: 1, 2, 3, 4 or more",
    "relevant_position": "best rank of a relevant document in the system's ranking: 1, 2-3, 4-5, 6-10, over 10, none",
    "evidence_position": "third of its document in which the quoted evidence stands: beginning, middle, end",
}
"""Slices of system_summary that follow from labels, caller, documents and ranking."""

_ROLE = b"role"
_TEXT = b"description"


def col(name: str, type_: pa.DataType, text: str, *, null: bool = False, role: Role = "content") -> pa.Field:
    """One described column. `null` allows missing values; `role` says whether it enters the data version."""
    return pa.field(name, type_, nullable=null, metadata={_TEXT: text.encode(), _ROLE: role.encode()})


@dataclass(frozen=True)
class Table:
    """Contract of one asset's table: schema, unique key (also the row order), partition family, what a row is.

    `references` are (columns, table, columns of that table): values that must exist there. `reuse` names the columns that
    hold one unit of work for row reuse (all rows that share them share one `work_key`).
    """

    name: str
    group: str
    row: str
    key: tuple[str, ...]
    schema: pa.Schema
    family: Family | None = None
    root: bool = False

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    def description(self, column: str) -> str:
        return (self.schema.field(column).metadata or {})[_TEXT].decode()

    def role(self, column: str) -> Role:
        return (self.schema.field(column).metadata or {})[_ROLE].decode()  # type: ignore[return-value]

    @property
    def versioned_columns(self) -> list[str]:
        """Columns that make up the data version."""
        return [name for name in self.schema.names if self.role(name) == "content"]


def table(
    name: str, group: str, row: str, key: tuple[str, ...], columns: list[pa.Field], family: Family | None = None, root: bool = False
) -> Table:
    """The contract of one asset's table; `columns` in the order of the file."""
    return Table(name, group, row, key, pa.schema(columns), family, root)
