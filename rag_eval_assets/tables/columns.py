"""Columns and structures that several tables share."""

from __future__ import annotations

import pyarrow as pa

from rag_eval_assets.tables.contract import CONTENT_STATUSES, SCORE_STATUSES, UNITS, col

string, i32, i64, f64, boolean = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()
strings = pa.list_(pa.string())


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
ORIGIN = col(
    "origin",
    string,
    "Where the last run had it from: reused (the row was kept), store (a kept reply), asked (a model, now) or made; first_store, "
    "first_asked or first_made where there was no earlier row to keep; null if unknown.",
    null=True,
    role="volatile",
)
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


def interval(what: str) -> list[pa.Field]:
    """Limits of a 95% interval; null where there is none."""
    return [
        col("lower", f64, f"Lower limit of the 95% interval of {what}.", null=True),
        col("upper", f64, f"Upper limit of the 95% interval of {what}.", null=True),
    ]


# A column a line reads better than a bracket a line.
# fmt: off
MEASURE = [
    col("measure", string, "Name of the measure."),
    col("scope", string, "What it is measured on: all, short, language=nl, type=email, class=pdf, parser=NAME, document=ID, ..."),
    col("value", f64, "The measure.", null=True),
    col("numerator", f64, "What was counted.", null=True),
    col("denominator", f64, "Out of how many.", null=True),
    *interval("the value"),
    *SCORE, DETAIL,
]

SCORE_ROW = [
    QUESTION_ID,
    col("split", string, "Split of the question."),
    col("metric", string, "Metric as in ir_measures: R, P, Success, RR, AP, nDCG; or an answer metric's name."),
    col("k", i32, "Cut-off: rank or tokens; 0 for none."),
    col("cutoff", string, "What k counts: rank, tokens or none."),
    col("unit", string, f"What is counted: {', '.join(UNITS)}."),
    col("value", f64, "The score.", null=True),
    *SCORE,
]
