"""The contract of every table: one pyarrow schema an asset, each column described, and the closed lists of statuses and reasons.

What belongs here: names, types, keys and meanings of columns. What does not: how a row is computed (pure packages), how
a file is written (`storage`). A column marked *volatile* (timings, positions in a file) or *work* (what a row's
work depended on) never enters a data version; one marked *vector* has a tolerance and is stood for by its row's `work_key`.
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
    "not_installed": "an optional library, engine or language is not installed",
    "no_reranker": "no reranker is configured",
    "no_baseline": "no baseline is saved for this system",
    "tokens_unknown": "the embedder does not say how many tokens a text has",
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
    "not_locatable": "the quotation could not be located in the text",
    "incomparable": "an identity that must match differs",
    "not_used": "the setting is not used by any system",
    "nothing_to_measure": "nothing of the kind measured is there",
}

TRANSIENT = ("timeout", "memory", "crashed", "too_large", "rate_limited", "endpoint_failed", "spend_limit", "no_key")
"""Reasons that another try, or another limit, may mend."""

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

string, i32, i64, f64, boolean = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()
strings = pa.list_(pa.string())


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


def _status(statuses: tuple[str, ...]) -> list[pa.Field]:
    return [
        col("status", string, f"One of {', '.join(statuses)}."),
        col("reason", string, "Why the status is not the good one, from the closed list; null otherwise.", null=True),
    ]


CONTENT = _status(CONTENT_STATUSES)
SCORE = _status(SCORE_STATUSES)
DETAIL = col("detail", string, "Human-readable detail: the error text, the measured quantity's parts.", null=True)
WORK_KEY = col("work_key", string, "Hash of all that this row's work depends on; unchanged means the row is reused.", role="work")
SECONDS = col("seconds", f64, "Wall time of this row's unit of work, in seconds.", null=True, role="volatile")
DOC_ID = col("doc_id", string, "Document id: POSIX path in the corpus, NFC, or the id its metadata gives.")
QUESTION_ID = col("question_id", string, "Question id from the golden set.")

PREDICATE_FIELDS = [
    col("tenant", string, "Tenant that owns the document; null is visible to every tenant.", null=True),
    col("groups", strings, "Groups allowed to read it; empty means everyone of the tenant."),
    col("jurisdiction", string, "Jurisdiction it holds for; null is everywhere.", null=True),
    col("publication_state", string, "published, draft, archived, ..."),
    col("locale", string, "Locale such as nl-NL, from metadata.", null=True),
    col("version", string, "Version of the document, from metadata.", null=True),
    col("version_of", string, "Name shared by the versions of one document, from metadata.", null=True),
    col("published", string, "Publication date, ISO 8601, from metadata.", null=True),
    col("fields", string, "Further metadata fields as canonical JSON."),
]
ELEMENT = pa.struct(
    [
        pa.field("order", i32),
        pa.field("start", i32),
        pa.field("end", i32),
        pa.field("category", string),
        pa.field("page", i32),
        pa.field("heading_path", strings),
        pa.field("html", string),
    ]
)
IMPORT = pa.struct([pa.field("parser", string), pa.field("path", string), pa.field("sha256", string)])
SPAN = pa.struct([pa.field("type", string), pa.field("start", i32), pa.field("end", i32)])
CONFUSION = pa.struct([pa.field("expected", string), pa.field("found", string), pa.field("count", i32), pa.field("edits", i32)])
REMOVED = pa.struct([pa.field("order", i32), pa.field("category", string), pa.field("rule", string), pa.field("text", string)])
RELEVANT = pa.struct([pa.field("document", string), pa.field("chunk", string), pa.field("grade", i32)])
EVIDENCE = pa.struct([pa.field("group", string), pa.field("document", string), pa.field("quotation", string), pa.field("grade", i32)])
NUGGET = pa.struct([pa.field("text", string), pa.field("vital", boolean)])
PASSAGE = pa.struct(
    [
        pa.field("position", i32),
        pa.field("rank", i32),
        pa.field("chunk_id", string),
        pa.field("doc_id", string),
        pa.field("start", i32),
        pa.field("end", i32),
        pa.field("text", string),
        pa.field("tokens", i32),
    ]
)
CITATION = pa.struct(
    [
        pa.field("position", i32),
        pa.field("chunk_id", string),
        pa.field("doc_id", string),
        pa.field("start", i32),
        pa.field("end", i32),
        pa.field("quotation", string),
    ]
)

TABLES: dict[str, Table] = {}


def _table(
    name: str, group: str, row: str, key: tuple[str, ...], columns: list[pa.Field], family: Family | None = None, root: bool = False
) -> None:
    TABLES[name] = Table(name, group, row, key, pa.schema(columns), family, root)


def _interval(what: str) -> list[pa.Field]:
    return [
        col("lower", f64, f"Lower limit of the 95% interval of {what}.", null=True),
        col("upper", f64, f"Upper limit of the 95% interval of {what}.", null=True),
    ]


# A column a line reads better than a bracket a line.
# fmt: off
# ------------------------------------------------------------------------------------------------------------- corpus
_table("source_documents", "corpus", "a file of the corpus folder", ("doc_id",), [
    DOC_ID,
    col("path", string, "POSIX path relative to the corpus folder, NFC."),
    col("sha256", string, "SHA-256 of the file's bytes."),
    col("bytes", i64, "File size in bytes."),
    col("media_type", string, "Media type read from content and name."),
    col("doc_class", string, "Document class: decides the parser, groups the quality figures."),
    col("title", string, "Title from metadata.", null=True),
    col("language", string, "Language from metadata, ISO 639-1.", null=True),
    *PREDICATE_FIELDS,
    col("stratum", string, "Stratum that parsers are compared on, from metadata: clean_scan, photo, tables, multilingual, mathematics, "
        "handwriting.", null=True),
    col("imports", pa.list_(IMPORT), "Text of this file from outside readers: parser partition, path, SHA-256; a file beside it each."),
], root=True)

_table("parsed_documents", "corpus", "an element of a document, or a typed failure", ("doc_id", "order"), [
    DOC_ID,
    col("order", i32, "Position in reading order, from 0."),
    col("page", i32, "Page, from 1; null where the format has none.", null=True),
    col("category", string, "unstructured's element name: Title, NarrativeText, ListItem, Table, Header, Footer, ...", null=True),
    col("heading_level", i32, "Heading level from 1 for Title elements.", null=True),
    col("heading_path", strings, "Headings above this element, outermost first."),
    col("text", string, "The element's text."),
    col("html", string, "Table as HTML.", null=True),
    col("box", pa.list_(f64), "x0, y0, x1, y1 on the page in points, origin top left.", null=True),
    col("doc_class", string, "Document class."),
    col("stratum", string, "Stratum of the comparison of parsers, from the sidecar.", null=True),
    col("source_sha256", string, "SHA-256 of the file parsed."),
    *CONTENT, DETAIL, SECONDS, WORK_KEY,
], "parser")

_table("reference_transcripts", "corpus", "a hand-checked text or table", ("doc_id", "kind", "item"), [
    DOC_ID,
    col("kind", string, "text (a whole document or page), table, or a part of a marked transcript: heading, list, caption, footnote."),
    col("item", i32, "Number of the item in its document and kind, from 0; for text of a page: its page."),
    col("page", i32, "Page, from 1; null for the whole document.", null=True),
    col("level", i32, "Level of a heading, from 1.", null=True),
    col("text", string, "Reference text; of a list, an item a line."),
    col("html", string, "Reference table as HTML.", null=True),
    col("file", string, "File below references/ that holds it."),
], root=True)

_table("quality_labels", "corpus", "a human label, or a prediction imported beside them", ("label_id",), [
    col("label_id", string, "Hash of the label's content."),
    col("kind", string, "boilerplate, language, pii, duplicate, cut, judgment, predicate, title, heading, heading_path, entity "
        "or relation."),
    DOC_ID,
    col("other_doc_id", string, "The other document of a pair.", null=True),
    col("quotation", string, "Text the label stands on.", null=True),
    col("other_quotation", string, "The other end of a relation.", null=True),
    col("occurrence", i32, "Which occurrence of the quotation is meant, from 1; null is the first.", null=True),
    col("value", string, "The label: a language, a type of PII, entity or relation, a title, a heading's level or path, yes or no."),
    col("annotator", string, "Who labelled it.", null=True),
    col("source", string, "Tool whose prediction this is; null for a label of a person.", null=True),
    col("question_id", string, "Question of a judgment or predicate.", null=True),
    col("answer", string, "Answer judged.", null=True),
    col("file", string, "File below labels/."),
    col("line", i32, "Line in that file.", role="volatile"),
], root=True)

_table("parse_quality", "corpus", "a measure of one document, of a document class or of a stratum, as one parser reads it",
       ("scope", "doc_class", "stratum", "doc_id", "metric", "item"), [
    col("scope", string, "document; class or stratum: the figure over all documents of the class or stratum that the parser declares."),
    col("doc_id", string, "Document id; empty for a class or stratum."),
    col("doc_class", string, "Document class; empty for a stratum."),
    col("stratum", string, "Stratum; empty for a class, and for a document that names none."),
    col("metric", string, "parsed, cer, wer, page_cer, order_tau, length_ratio, headings_recall, headings_precision, lists_whole, "
        "captions_kept, footnotes_kept, furniture_leak, teds, teds_s, table_content, evidence_located, quotation_lost."),
    col("item", i32, "Page, table, number of a lost quotation, or 0."),
    col("value", f64, "The measure, a share unless its name says otherwise; of a lost quotation its nearest text's likeness.", null=True),
    *_interval("a class's or stratum's figure, documents being the independent units"),
    col("errors", i64, "Numerator: edits, parts or quotations missed, pages that leak; of length_ratio the characters found.", null=True),
    col("units", i64, "Denominator: reference characters, words, parts, cells, pages, quotations.", null=True),
    col("documents", i32, "Documents behind a class's or stratum's figure.", null=True),
    col("confusions", pa.list_(CONFUSION), "What was mistaken for what, most edits first; nothing found is an omission."),
    col("expected", string, "The quotation that was lost.", null=True),
    col("found", string, "The text nearest to it.", null=True),
    col("policy", string, "Normalisation policy applied to both sides."),
    col("dpi", i32, "Resolution at which the parser draws the pages it reads as pictures; null where it reads none.", null=True),
    *SCORE, DETAIL,
], "parser")

_DOCUMENT = [
    DOC_ID,
    col("doc_class", string, "Document class."),
    col("parser", string, "Parser partition the text comes from.", null=True),
    col("title", string, "Title: metadata, else the first heading, else the first line.", null=True),
    col("language", string, "Language identified in the text, ISO 639-1; und where there is too little text."),
    col("text", string, "Canonical text; every span of the project is [start, end) in characters of it."),
    col("text_sha256", string, "SHA-256 of the canonical text, UTF-8."),
    col("elements", pa.list_(ELEMENT), "Elements with their spans in the canonical text."),
    *PREDICATE_FIELDS,
]
_table("documents", "corpus", "a document with its canonical text", ("doc_id",), [
    *_DOCUMENT,
    col("language_score", f64, "Probability of the identified language.", null=True),
    col("flags", strings, "What the checks saw: pii, invisible_characters, mixed_script, nfkc_drift, short_text."),
    col("pii", pa.list_(SPAN), "Personal data found: type and span in the text before masking."),
    col("removed", pa.list_(REMOVED), "Elements left out of the text, each with the rule that removed it."),
    col("source_sha256", string, "SHA-256 of the source file."),
    *CONTENT, DETAIL, WORK_KEY,
])

_MEASURE = [
    col("measure", string, "Name of the measure."),
    col("scope", string, "What it is measured on: all, short, language=nl, type=email, class=pdf, parser=NAME, document=ID, ..."),
    col("value", f64, "The measure.", null=True),
    col("numerator", f64, "What was counted.", null=True),
    col("denominator", f64, "Out of how many.", null=True),
    *_interval("the value"),
    *SCORE, DETAIL,
]
_table("cleaning_quality", "corpus", "a measure of cleaning, language, PII, structure or extraction", ("measure", "scope"), _MEASURE)

_table("near_duplicates", "corpus", "a document's verdict, or a verified pair", ("row", "doc_id", "other_doc_id"), [
    col("row", string, "document (one for each) or pair (verified, doc_id < other_doc_id)."),
    DOC_ID,
    col("other_doc_id", string, "Pair: the other document. Document: the survivor it is merged into, or itself."),
    col("relation", string, "unique, exact, near, version, blocked (similar but across an access or filter boundary), or contained "
        "(one text stands in the other, longer one: linked, never merged)."),
    col("cluster", string, "Smallest doc_id of the cluster."),
    col("jaccard", f64, "True Jaccard similarity of the shingle sets.", null=True),
    col("containment", f64, "Shared shingles over those of the smaller set.", null=True),
    col("kept", boolean, "Whether doc_id survives."),
    col("rule", string, "Rule that chose the survivor, or that kept both; of a containment, which side doc_id is on."),
    col("shingle", string, "Shingle unit and length, such as char-5."),
    col("permutations", i32, "MinHash permutations."),
    col("bands", i32, "LSH bands."),
    col("threshold", f64, "Similarity from which a pair counts as near-duplicate."),
    *CONTENT,
])

_table("dedup_quality", "corpus", "a point of the sweep", ("permutations", "bands", "threshold"), [
    col("permutations", i32, "MinHash permutations."),
    col("bands", i32, "LSH bands: swept, or chosen for the threshold."),
    col("threshold", f64, "Similarity threshold."),
    col("labelled_pairs", i32, "Labelled pairs in the corpus."),
    *[
        field
        for name in ("precision", "recall", "false_merge_rate", "missed_merge_rate")
        for field in (
            col(name, f64, f"{name.replace('_', ' ')} on the labelled pairs.", null=True),
            col(f"{name}_lower", f64, "Lower limit of its 95% interval.", null=True),
            col(f"{name}_upper", f64, "Upper limit of its 95% interval.", null=True),
        )
    ],
    col("merged_quotations", i32, "Quotations of golden questions that stand in a document dropped for another at this point."),
    col("lost_quotations", i32, "Of these, quotations that do not stand in its survivor: golden evidence lost to a merge."),
    col("evidence_loss", f64, "Lost quotations over merged ones.", null=True),
    col("evidence_loss_lower", f64, "Lower limit of its 95% interval.", null=True),
    col("evidence_loss_upper", f64, "Upper limit of its 95% interval.", null=True),
    col("used", boolean, "Whether this is the setting in force."),
    *SCORE,
])

_table("unique_documents", "corpus", "a surviving document", ("doc_id",), [
    *_DOCUMENT,
    col("absorbed", strings, "Documents merged into this one."),
])

# ------------------------------------------------------------------------------------------------------------- golden
_table("golden_questions", "golden", "a question", ("question_id",), [
    QUESTION_ID,
    col("text", string, "The question."),
    col("reference_answer", string, "Reference answer.", null=True),
    col("answerable", boolean, "Whether the corpus answers it."),
    col("split", string, f"One of {', '.join(SPLITS)}."),
    col("language", string, "Language of the question, ISO 639-1."),
    col("intent", string, "Intent slice."),
    col("kinds", strings, "Kinds: lookup, multi_document, distractor, counterfactual, negation, quantifier, ..."),
    col("slices", string, "Further slices as canonical JSON."),
    col("relevant", pa.list_(RELEVANT), "Document-level relevance labels (BEIR)."),
    col("evidence", pa.list_(EVIDENCE), "Evidence: items of a group are alternatives, all groups are required."),
    col("gold_context", string, "Text that suffices to answer, for re-execution.", null=True),
    col("entitlement", string, "What the caller may read, as canonical JSON: tenant, groups, jurisdiction, publication_state."),
    col("filter", string, "Relevance filter as canonical JSON, {field: [values]}.", null=True),
    col("nuggets", pa.list_(NUGGET), "Facts a good answer holds; vital or okay."),
    col("session", string, "Session or author the question comes from.", null=True),
    col("file", string, "File below golden/."),
    col("line", i32, "Line in that file.", role="volatile"),
], root=True)

_table("golden_evidence", "golden", "a (question, group, item)", ("question_id", "label", "group", "item"), [
    QUESTION_ID,
    col("label", string, "evidence or relevant: which list of the question it comes from."),
    col("group", string, "Evidence group; for relevant labels the document."),
    col("item", i32, "Number of the alternative in its group, from 0."),
    DOC_ID,
    col("kept_doc_id", string, "Document that carries it after dedup; null where none does.", null=True),
    col("quotation", string, "Quoted evidence.", null=True),
    col("start", i32, "Start in the kept document's canonical text.", null=True),
    col("end", i32, "End in the kept document's canonical text.", null=True),
    col("grade", i32, "Relevance grade."),
    col("match", string, "exact, normalised, aligned, document (no quotation) or none."),
    col("similarity", f64, "Similarity of the quotation and the text located.", null=True),
    col("lost_at", string, "First stage that lost it; null where it stands.", null=True),
    col("found_text", string, "Closest text at the losing stage, for reading side by side.", null=True),
    col("entitled", boolean, "Whether the question's caller may read the document."),
    col("eligible", boolean, "Entitled and in the kept corpus: counts in denominators."),
    *CONTENT,
])

_table("golden_coverage", "golden", "a cell, a leak, or a half-width", ("kind", "split", "intent", "doc_class", "language", "other"), [
    col("kind", string, "cell, split_leak, duplicate_question or half_width."),
    col("split", string, "Split."),
    col("intent", string, "Intent; * for all."),
    col("doc_class", string, "Class of the evidence's document; * for all."),
    col("language", string, "Language of the question; * for all."),
    col("other", string, "Leak: the questions or document; half-width: the metric; else empty."),
    col("questions", i32, "Questions in the cell."),
    col("value", f64, "Half-width of the 95% interval of a rate of .8, or similarity of the leak.", null=True),
    DETAIL,
])

_SCORE_ROW = [
    QUESTION_ID,
    col("split", string, "Split of the question."),
    col("metric", string, "Metric as in ir_measures: R, P, Success, RR, AP, nDCG; or an answer metric's name."),
    col("k", i32, "Cut-off: rank or tokens; 0 for none."),
    col("cutoff", string, "What k counts: rank, tokens or none."),
    col("unit", string, f"What is counted: {', '.join(UNITS)}."),
    col("value", f64, "The score.", null=True),
    *SCORE,
]
_table("baselines", "golden", "a saved score row with the identities it was made under",
       ("baseline", "question_id", "metric", "k", "cutoff", "unit"), [
    col("baseline", string, "Name of the baseline."),
    col("system", string, "System it was saved from."),
    *_SCORE_ROW,
    col("identities", string, "Corpus, golden set, scorer and spec versions as canonical JSON."),
], root=True)

# ------------------------------------------------------------------------------------------------------------- chunks
_table("chunks", "chunks", "a chunk", ("doc_id", "ordinal"), [
    col("chunk_id", string, "doc_id#start-end, a name inside one version."),
    DOC_ID,
    col("ordinal", i32, "Position among the document's chunks, from 0."),
    col("start", i32, "Start in the canonical text."),
    col("end", i32, "End in the canonical text."),
    col("text", string, "Canonical text [start, end)."),
    col("text_sha256", string, "SHA-256 of the chunk's text."),
    col("tokens", i32, "Tokens of the named tokenizer."),
    col("section_path", strings, "Headings above the chunk's first element."),
    col("page", i32, "Page of the chunk's first element.", null=True),
    col("parent_start", i32, "Start of the parent, which is delivered where this chunk is found; null for a chunk without.", null=True),
    col("parent_end", i32, "End of the parent.", null=True),
    col("parent_tokens", i32, "Tokens of the parent.", null=True),
    WORK_KEY,
], "chunking")

_table("chunk_embeddings", "index", "a vector", ("chunk_id", "embedder"), [
    col("chunk_id", string, "Chunk."),
    col("text_sha256", string, "SHA-256 of the chunk's text."),
    col("embedder", string, "Embedder."),
    col("vector", pa.list_(pa.float32()), "Unit-length vector; null where there is none.", null=True, role="vector"),
    col("tokens", i32, "Tokens of the embedder's own tokenizer before truncation, prefix included; null where it is not known.", null=True),
    col("truncated", boolean, "Whether the text was longer than the embedder sees.", null=True),
    *CONTENT, DETAIL,
    col("work_key", string, "Hash of model, text and code behind the vector, for which it stands in the data version."),
], "chunking")

_table("chunk_quality", "index", "a measure of one chunking", ("measure", "scope"), _MEASURE, "chunking")

_table("ann_recall", "index", "an index setting at one selectivity",
       ("embedder", "index", "setting", "filtering", "selectivity", "k"), [
    col("embedder", string, "Embedder."),
    col("index", string, "flat, hnsw or ivf; with _sq8 (8 bits a number) or _pq (product quantisation) where it is quantised."),
    col("setting", string, "Readable setting, such as m16-efc100-efs64."),
    col("filtering", string, "none, pre (filter within the search) or post (search deeper without it, then drop what it hides)."),
    col("selectivity", f64, "Share of the vectors that the filter leaves, 0 to 1."),
    col("k", i32, "Neighbours asked for."),
    col("queries", i32, "Queries measured."),
    col("recall_mean", f64, "Mean over queries of |found and true| / min(k, available), ties in distance count as found.", null=True),
    col("recall_p5", f64, "5th percentile over queries.", null=True),
    col("recall_by_id", f64, "Mean recall by id, ties not forgiven.", null=True),
    col("agreement", f64, "Mean share of the first k that a second build finds too (other order of insertion, or other seed).", null=True),
    col("ndcg_cost", f64, "nDCG@k by document of exact search minus that of the index.", null=True),
    col("distance_computations", f64, "Mean distance computations a query.", null=True),
    col("bytes", i64, "Bytes of the serialised index.", null=True),
    col("recommended", boolean, "Cheapest setting by distance computations that reaches the recall wanted."),
    col("queries_per_second", f64, "Queries per second, one after another.", null=True, role="volatile"),
    *(col(f"latency_p{p}", f64, f"{p}th percentile of a query's milliseconds.", null=True, role="volatile") for p in (50, 95, 99)),
    col("build_seconds", f64, "Build time in seconds.", null=True, role="volatile"),
    *SCORE, DETAIL,
], "chunking")

# ---------------------------------------------------------------------------------------------------------- retrieval
_table("filter_exclusion", "retrieval", "a question", ("question_id",), [
    QUESTION_ID,
    col("split", string, "Split of the question."),
    col("entitlement", string, "Entitlement predicate applied, canonical JSON."),
    col("filter", string, "Relevance predicate applied, canonical JSON.", null=True),
    col("entitled_documents", i32, "Documents the caller may read."),
    col("filtered_documents", i32, "Of those, documents past the filter."),
    col("eligible_gold", i32, "Gold documents the caller may read."),
    col("surviving_gold", i32, "Of those, gold documents past the filter."),
    col("excluded_documents", strings, "Gold documents the filter excluded."),
    col("value", f64, "False exclusion: excluded eligible gold / eligible gold.", null=True),
    *SCORE,
])

_table("filter_quality", "retrieval", "a measure of relevance filters", ("measure", "scope"), _MEASURE)

_table("imported_runs", "retrieval", "a hit of a ranking made elsewhere", ("retriever", "question_id", "rank"), [
    col("retriever", string, "Retriever of kind run_file."),
    QUESTION_ID,
    col("rank", i32, "Rank from 1; 0 on the one row of an empty ranking."),
    col("item", string, "Chunk or document id.", null=True),
    col("score", f64, "Score given in the file.", null=True),
    col("file", string, "File, from the evaluation folder."),
], root=True)

_RANKING = [
    QUESTION_ID,
    col("split", string, "Split of the question."),
    col("retriever", string, "Retriever."),
    col("parameters", string, "All that shaped this ranking as canonical JSON: analyser, index, lanes, weights with what they were tuned "
        "on, reranker with device, batch and depth."),
    col("rank", i32, "Rank from 1; 0 on the one row of an empty or failed ranking."),
    col("chunk_id", string, "Chunk found; of a parent, delivered once, its best ranked chunk.", null=True),
    col("text_sha256", string, "SHA-256 of the chunk's text.", null=True),
    col("doc_id", string, "Document of the chunk.", null=True),
    col("start", i32, "Start of what is delivered: the chunk, or its parent where it has one.", null=True),
    col("end", i32, "End of what is delivered.", null=True),
    col("tokens", i32, "Tokens of what is delivered.", null=True),
    col("score", f64, "Score as ranked; ties by chunk id descending. Null below the depth that was reranked, and where "
        "a run file gives none.", null=True),
    *CONTENT, DETAIL, SECONDS, WORK_KEY,
]
_table("retrieval_runs", "retrieval", "a ranked hit, or a typed failure", ("question_id", "retriever", "rank"), _RANKING, "chunking")

_table("unfiltered_runs", "retrieval", "a ranked hit of a question with a filter, without the filter, or a typed failure",
       ("question_id", "retriever", "rank"), _RANKING, "chunking")

_table("filter_decision", "retrieval", "a retriever under hard filters against softer ones", ("retriever", "against"), [
    col("retriever", string, "Retriever."),
    col("against", string, "soft: the filter as a boost; none: no filter. The decision stands against soft."),
    col("split", string, "Split of the questions: release."),
    col("metric", string, "Metric as in ir_measures, by document."),
    col("k", i32, "Cut-off, a rank."),
    col("boost", f64, "Boost of a passing passage: 1 / (60 + rank without the filter) + boost / (60 + rank under it); 0 for none."),
    col("tuned_on", i32, "Development questions that the boost was chosen on; 0 where one was given."),
    col("questions", i32, "Questions with a filter, paired."),
    col("failed", i32, "Of those, failed or missing on either side, counted 0."),
    col("hard_mean", f64, "Mean of the metric under hard filters.", null=True),
    col("against_mean", f64, "Mean of the other side.", null=True),
    col("gain", f64, "Mean paired gain of hard filters.", null=True),
    *_interval("the gain"),
    col("recall_loss", f64, "Mean paired loss of R at k under hard filters.", null=True),
    col("recall_loss_lower", f64, "Lower limit of its 95% interval.", null=True),
    col("recall_loss_upper", f64, "Upper limit of its 95% interval.", null=True),
    col("exclusion", f64, "False exclusion of the split: eligible gold documents that filters hide / all of them.", null=True),
    col("exclusion_lower", f64, "Lower limit of its 95% interval.", null=True),
    col("exclusion_upper", f64, "Upper limit of its 95% interval.", null=True),
    col("minimum_gain", f64, "Least lower limit of the gain, set before looking."),
    col("epsilon", f64, "Most false exclusion, set before looking."),
    col("maximum_recall_loss", f64, "Most recall loss, set before looking."),
    col("decision", string, "Against soft: hard where all three limits hold, else soft. Empty against none and where nothing is filtered."),
    *SCORE, DETAIL,
], "chunking")

_table("retrieval_scores", "retrieval", "a question's score under one retriever",
       ("question_id", "retriever", "metric", "k", "cutoff", "unit"),
       [col("retriever", string, "Retriever."), *_SCORE_ROW], "chunking")

_table("retriever_comparison", "retrieval", "a retriever under one measure, by itself or against one that it is built on",
       ("retriever", "against", "split", "metric", "k", "cutoff", "unit"), [
    col("retriever", string, "Retriever."),
    col("against", string, "Retriever it is built on (a fusion's lane, what was expanded or reranked); empty for itself alone."),
    col("kind", string, "Kind of retriever."),
    col("split", string, "Split of the questions."),
    col("metric", string, "Metric as in ir_measures."),
    col("k", i32, "Cut-off."),
    col("cutoff", string, "What k counts: rank, tokens or none."),
    col("unit", string, "What is counted."),
    col("measure", string, "The measure's name, such as nDCG@10."),
    col("questions", i32, "Questions in the mean, or paired."),
    col("failed", i32, "Of the retriever's questions, failed, counted 0."),
    col("missing", i32, "Of the retriever's questions, missing, counted 0."),
    col("mean", f64, "Mean of the retriever.", null=True),
    col("observed", f64, "Mean over what was scored; by itself only.", null=True),
    col("against_mean", f64, "Mean of the other one over the same questions.", null=True),
    col("difference", f64, "Mean of the paired differences.", null=True),
    *_interval("the difference; by itself, of the mean"),
    col("lowest", f64, "Mean under the worst order of equal scores.", null=True),
    col("highest", f64, "Mean under the best order of equal scores.", null=True),
    col("tied", i32, "Questions with equal scores in their ranking.", null=True),
    col("unjudged", f64, "Unjudged@k: mean share of the first k documents without any label.", null=True),
    col("against_unjudged", f64, "The same of the other one.", null=True),
    col("model_tokens", f64, "Tokens of passages that a reranker reads for a question, on average."),
    col("minimum_gain", f64, "Least gain, set before looking."),
    col("verdict", string, "gain, loss or undecided by the interval; empty by itself."),
    col("decision", string, "On the deciding measure keep, drop or undecided; empty elsewhere."),
    col("parameters", string, "What shaped the retriever's rankings, as in retrieval_runs."),
    col("seconds_p50", f64, "Median seconds of a question, lanes left out.", null=True, role="volatile"),
    col("seconds_p95", f64, "95th percentile of the same.", null=True, role="volatile"),
    DETAIL,
], "chunking")

_table("chunk_sweep", "retrieval", "a (chunking, retriever) under one measure",
       ("retriever", "metric", "cutoff", "k", "unit", "chunking"), [
    col("chunking", string, "Chunking."),
    col("retriever", string, "Retriever."),
    col("metric", string, "Metric as in ir_measures."),
    col("k", i32, "Cut-off."),
    col("cutoff", string, "What k counts: rank or tokens."),
    col("unit", string, "What is counted."),
    col("questions", i32, "Development questions in the mean."),
    col("failed", i32, "Of those, failed or missing, counted 0."),
    col("mean", f64, "Mean over development questions.", null=True),
    *_interval("the mean"),
    col("difference", f64, "Paired mean difference to the best chunking of this retriever and measure; null for the best.", null=True),
    col("difference_lower", f64, "Lower limit of its 95% interval.", null=True),
    col("difference_upper", f64, "Upper limit of its 95% interval.", null=True),
    col("chunks", i64, "Chunks in the index."),
    col("index_tokens", i64, "Tokens indexed, overlap counted each time."),
    col("embedding_tokens", i64, "Tokens that the retriever's embedders read, by their own tokenizers; 0 without one, null where unknown.",
        null=True),
    col("vector_bytes", i64, "Bytes of the retriever's vectors as float32; 0 without an embedder.", null=True),
    col("verdict", string, "recommended, non_inferior, inferior, best, undecided or empty for measures that do not decide."),
    DETAIL,
])

_table("embedder_ranking", "retrieval", "an embedder's exact search under one measure, chunking and language",
       ("chunking", "language", "metric", "k", "retriever"), [
    col("chunking", string, "Chunking."),
    col("language", string, "Language of the questions, ISO 639-1; nothing is pooled over languages."),
    col("metric", string, "Metric as in ir_measures."),
    col("k", i32, "Cut-off, a rank."),
    col("split", string, "Split of the questions: development."),
    col("protocol", string, "What was searched, and how it was scored."),
    col("retriever", string, "Dense retriever with exact search."),
    col("embedder", string, "Its embedder."),
    col("place", i32, "Place by mean, from 1; null where nothing was scored.", null=True),
    col("questions", i32, "Questions in the mean."),
    col("failed", i32, "Of those, failed or missing, counted 0."),
    col("mean", f64, "Mean over the questions, by document.", null=True),
    *_interval("the mean"),
    col("best", string, "Retriever in the first place; null on its own row.", null=True),
    col("paired", i32, "Questions that both sides were scored on."),
    col("difference", f64, "Paired mean difference to the best.", null=True),
    col("difference_lower", f64, "Lower limit of its 95% interval.", null=True),
    col("difference_upper", f64, "Upper limit of its 95% interval.", null=True),
    col("verdict", string, "best, worse (the interval lies below 0), not_shown_worse or no_score."),
    col("warning", string, "Said where fewer than 200 questions stand behind the row.", null=True),
    *SCORE,
])

# --------------------------------------------------------------------------------------------------------- generation
_table("system_specs", "generation", "a system under test, resolved", ("system",), [
    col("system", string, "Name of the system."),
    col("kind", string, "builtin, class or import."),
    col("chunking", string, "Chunking partition it retrieves from.", null=True),
    col("retriever", string, "Retriever; of another kind of system its class or log."),
    col("index_version", string, "Version of a class's index, or of a log; null where none is declared, which reuses nothing.", null=True),
    col("reranker", string, "Reranker; null for none.", null=True),
    col("depth", i32, "Passages asked of the retriever."),
    col("top_k", i32, "Passages kept after reranking."),
    col("token_budget", i32, "Tokens of passages delivered at most; null for no budget.", null=True),
    col("ordering", string, "best_first, best_last or both_ends."),
    col("reader", string, "Reader: extractive or a model's name."),
    col("prompt", string, "Prompt template."),
    col("parameters", string, "Reader parameters as canonical JSON."),
    col("require_citations", boolean, "Whether an uncited answer fails."),
    col("retrieval_sha256", string, "Identity of the retrieval part of this spec."),
    col("answer_sha256", string, "Identity of the answering part of this spec."),
], "system", root=True)

_table("system_retrievals", "generation", "a passage in this system's ranking", ("question_id", "rank"), [
    QUESTION_ID,
    col("split", string, "Split of the question."),
    col("rank", i32, "Rank from 1; 0 on the one row of an empty or failed ranking."),
    col("chunk_id", string, "Passage id.", null=True),
    col("doc_id", string, "Document.", null=True),
    col("start", i32, "Start in the canonical text.", null=True),
    col("end", i32, "End in the canonical text.", null=True),
    col("text", string, "Passage text.", null=True),
    col("text_sha256", string, "SHA-256 of the passage's text.", null=True),
    col("tokens", i32, "Tokens of the passage.", null=True),
    col("score", f64, "Score.", null=True),
    col("similarity", f64, "Likeness of a passage from outside and the canonical text it was located in; null for none.", null=True),
    *CONTENT, DETAIL, SECONDS, WORK_KEY,
], "system")

_table("contexts", "generation", "a question's delivered context", ("question_id",), [
    QUESTION_ID,
    col("split", string, "Split of the question."),
    col("passages", pa.list_(PASSAGE), "Passages delivered, in the order delivered."),
    col("tokens", i32, "Tokens delivered."),
    col("cut_by_top_k", strings, "Chunk ids retrieved but past top_k."),
    col("cut_by_budget", strings, "Chunk ids within top_k that the budget cut."),
    col("context_truncated", boolean, "Whether the budget cut anything."),
    col("context_sha256", string, "SHA-256 of the delivered passages in order: texts, ids and offsets."),
    *CONTENT,
], "system")

_table("answers", "generation", "a question's answer", ("question_id",), [
    QUESTION_ID,
    col("split", string, "Split of the question."),
    col("answer", string, "Answer text; empty when refused or failed."),
    col("refused", boolean, "Whether the system declined to answer."),
    col("citations", pa.list_(CITATION), "Citations; position -1 for one that names no delivered passage."),
    col("raw", string, "The reply as it came.", null=True),
    col("reader", string, "Reader or model."),
    col("replied_by", string, "Model that the reply says it comes from.", null=True),
    col("prompt_tokens", i32, "Prompt tokens reported or counted.", null=True),
    col("completion_tokens", i32, "Completion tokens.", null=True),
    col("reply_seconds", f64, "Time to the whole reply, recorded with it: the same however often this row is made.", null=True),
    col("first_token_seconds", f64, "Time to the reply's first text, recorded with it; null where it was not streamed.", null=True),
    col("cost", f64, "Cost of the reply by its recorded tokens and the price table.", null=True),
    col("attempts", i32, "Calls made until the reply arrived.", null=True),
    col("context_sha256", string, "Context it was made from."),
    *CONTENT, DETAIL, SECONDS, WORK_KEY,
], "system")

_table("system_scores", "generation", "a question's score", ("question_id", "metric", "k", "cutoff", "unit"), [
    *_SCORE_ROW,
    col("stage", string, "What is scored: ranking, context, answer or citations."),
    col("explanation", string, "Evidence for the verdict.", null=True),
], "system")

_table("judge_audit", "generation", "a judge against human labels", ("judge", "metric", "measure"), [
    col("judge", string, "Judge; none where none is configured."),
    col("metric", string, "Metric audited: faithfulness for a judge's ragas metrics, claim_faithfulness for those on claims."),
    col("measure", string, "accuracy, kappa, false_approval_rate, false_rejection_rate; over repeats verdict_flip_rate and score_variance; "
        "length_effect, Spearman's correlation of an answer's length with verdict minus label; cost of all judgments."),
    col("value", f64, "The measure.", null=True),
    *_interval("the value"),
    col("labels", i32, "Human labels compared."),
    col("may_gate", boolean, "Whether the audit allows this judge to gate."),
    *SCORE, DETAIL,
])

# ------------------------------------------------------------------------------------------------------------ release
_table("evidence_funnel", "release", "a (question, group)", ("question_id", "group"), [
    QUESTION_ID,
    col("split", string, "Split of the question."),
    col("group", string, "Evidence group."),
    col("furthest", string, "Furthest stage that its evidence reached.", null=True),
    col("lost_at", string, "Stage that lost it; null where it was answered.", null=True),
    col("open_next", string, "Table to open next; null where nothing was lost.", null=True),
    col("cited", boolean, "Whether the answer cites it."),
    col("best_rank", i32, "Best rank of a passage that covers it; null for none.", null=True),
    *CONTENT, DETAIL,
], "system")

_table("diagnosis", "release", "a failed question under one intervention", ("question_id", "intervention"), [
    QUESTION_ID,
    col("split", string, "Split of the question."),
    col("intervention", string, "control, gold_context, larger_top_k or larger_budget."),
    col("recovered", boolean, "Whether the question passed under it.", null=True),
    col("label", string, "Implicated step: retrieval_miss, ranked_out, context_assembly_loss, generation_failure, filtered_out, "
        "evidence_lost_in_ingestion, unstable, not_diagnosable; none where the question did not fail."),
    col("why", string, "relevant_not_retrieved, relevant_ranked_out, relevant_dropped_from_context, fails_with_gold_context, ...",
        null=True),
    col("best_rank", i32, "Best relevant rank in the ranking; null for none.", null=True),
    col("result_id", string, "Content-hash id of this result."),
    *SCORE, DETAIL,
], "system")

_table("system_summary", "release", "a metric in one slice", ("metric", "k", "cutoff", "unit", "split", "slice", "slice_value"), [
    col("metric", string, "Metric."),
    col("k", i32, "Cut-off."),
    col("cutoff", string, "What k counts."),
    col("unit", string, "What is counted."),
    col("stage", string, "ranking, context, answer or citations."),
    col("split", string, "Split."),
    col("slice", string, "Slice name; all for everything."),
    col("slice_value", string, "Slice value."),
    col("mean", f64, "Headline: ranking metrics count missing and failed as 0; others are the observed mean.", null=True),
    *_interval("the headline"),
    col("observed", f64, "Mean over scored questions only.", null=True),
    col("if_failed_zero", f64, "Mean if every failed or missing row were 0.", null=True),
    col("if_failed_one", f64, "Mean if every failed or missing row were 1.", null=True),
    col("questions", i32, "Questions in the headline's denominator."),
    col("scored", i32, "Scored rows."),
    col("failed", i32, "Failed rows."),
    col("not_applicable", i32, "Rows to which the metric does not apply."),
    col("missing", i32, "Missing rows."),
    col("supported", boolean, "Whether the headline stands on the minimum of questions that settings ask of a slice."),
    col("method", string, "Method of the interval."),
], "system")

_table("system_costs", "release", "a recorded cost of answers in one split", ("split", "measure"), [
    col("split", string, "Split."),
    col("measure", string, "reply_seconds, first_token_seconds, prompt_tokens, completion_tokens or cost."),
    col("stage", string, "What it measures: total (the whole reply), first_token, prompt, completion or query."),
    col("unit", string, "Unit of the figures."),
    *[col(f"p{p}", f64, f"Figure that {p}% of the answers do not exceed (nearest rank).", null=True) for p in (50, 95, 99)],
    col("mean", f64, "Mean.", null=True),
    col("total", f64, "Sum.", null=True),
    col("questions", i32, "Questions to be answered."),
    col("scored", i32, "Of those, answers that recorded the figure: stable, since it is kept with the reply."),
    col("failed", i32, "Of those, answers that failed."),
    *SCORE,
], "system")

_table("comparison", "release", "a paired difference to a baseline",
       ("baseline", "role", "metric", "k", "cutoff", "unit", "split", "slice", "slice_value", "claim", "claim_name"), [
    col("baseline", string, "Baseline; none where none is saved."),
    col("role", string, "declared: a claim of the policy, decided with its whole family; exploratory: decides nothing."),
    col("claim_name", string, "Claim of the policy; empty where exploratory."),
    col("claim", string, "superiority, non_inferiority or equivalence."),
    col("margin", f64, "Margin of the claim, in points of the score.", null=True),
    col("metric", string, "Metric."),
    col("k", i32, "Cut-off."),
    col("cutoff", string, "What k counts."),
    col("unit", string, "What is counted."),
    col("split", string, "Split."),
    col("slice", string, "Slice name; all for everything."),
    col("slice_value", string, "Slice value."),
    col("difference", f64, "Candidate minus baseline, mean over paired questions.", null=True),
    *_interval("the difference, by bets on clusters"),
    col("p_value", f64, "How probable such pairs are at most where the claim does not hold.", null=True),
    col("p_adjusted", f64, "The same after Holm's step-down over the family; null where exploratory.", null=True),
    col("detectable", f64, "Beside an undecided row: distance to a bound that such pairs would decide with probability .8.", null=True),
    col("paired", i32, "Questions scored on both sides."),
    col("clusters", i32, "Independent groups of paired questions: those linked by gold documents are one."),
    col("missing", i32, "Questions without a score on one side."),
    col("excluded", i32, "Questions to which the measure does not apply on one side or both."),
    col("decision", string, "PASS, FAIL or INSUFFICIENT_EVIDENCE."),
    col("decision_reason", string, "Reason code of the decision."),
    col("what_changed", string, "Treatments that differ, canonical JSON."),
    *SCORE, DETAIL,
], "system")

_table("gate_results", "release", "a gate in one scope", ("gate", "scope"), [
    col("gate", string, "Gate from settings, or claim of the policy."),
    col("scope", string, "System, chunking, class or corpus it is judged on; system/baseline for a claim."),
    col("value", f64, "Value judged.", null=True),
    *_interval("the value"),
    col("threshold", f64, "Threshold."),
    col("direction", string, "at_least or at_most; within for a claim of equivalence."),
    col("questions", i32, "Items behind the value."),
    col("coverage", f64, "Share of expected items that were scored.", null=True),
    col("decision", string, "PASS, FAIL or INSUFFICIENT_EVIDENCE."),
    col("decision_reason", string, "Reason code of the decision."),
    col("starting_value", boolean, "Whether the threshold is a shipped starting value."),
    DETAIL,
])

_table("release_report", "release", "the report", ("name",), [
    col("name", string, "report."),
    col("facts_sha256", string, "Hash of the data versions shown."),
    col("decision", string, "Worst decision of the gates."),
    col("html", string, "The self-contained page.", role="volatile"),
])
