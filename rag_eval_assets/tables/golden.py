"""Tables of the golden set: questions, their evidence in the documents, its coverage, and saved baselines."""

from __future__ import annotations

import pyarrow as pa

from rag_eval_assets.tables.columns import (
    CONTENT,
    DETAIL,
    DOC_ID,
    EVIDENCE,
    NUGGET,
    QUESTION_ID,
    RELEVANT,
    SCORE_ROW,
    boolean,
    f64,
    i32,
    string,
    strings,
)
from rag_eval_assets.tables.contract import SPLITS, col, table

# A column a line reads better than a bracket a line.
# fmt: off
GOLDEN = (
    table("golden_questions", "golden", "a question", ("question_id",), [
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
    ], root=True),
    table("golden_evidence", "golden", "a (question, group, item)", ("question_id", "label", "group", "item"), [
        QUESTION_ID,
        col("label", string, "evidence or relevant: which list of the question it comes from."),
        col("group", string, "Evidence group; for relevant labels the document."),
        col("item", i32, "Number of the alternative in its group, from 0."),
        DOC_ID,
        col("kept_doc_id", string, "Document that carries it after dedup; null where none does.", null=True),
        col("quotation", string, "Quoted evidence.", null=True),
        col("start", i32, "Start in the kept document's canonical text.", null=True),
        col("end", i32, "End in the kept document's canonical text.", null=True),
        col("document_characters", i32, "Length of that text; null where nothing was located in it.", null=True),
        col("grade", i32, "Relevance grade."),
        col("match", string, "exact, normalised, aligned, document (no quotation) or none."),
        col("similarity", f64, "Similarity of the quotation and the text located.", null=True),
        col("lost_at", string, "First stage that lost it; null where it stands.", null=True),
        col("found_text", string, "Closest text at the losing stage, for reading side by side.", null=True),
        col("entitled", boolean, "Whether the question's caller may read the document."),
        col("eligible", boolean, "Entitled and in the kept corpus: counts in denominators."),
        *CONTENT,
    ]),
    table("golden_coverage", "golden", "a cell, a leak, or a half-width", ("kind", "split", "intent", "doc_class", "language", "other"), [
        col("kind", string, "cell, split_leak, duplicate_question or half_width."),
        col("split", string, "Split."),
        col("intent", string, "Intent; * for all."),
        col("doc_class", string, "Class of the evidence's document; * for all."),
        col("language", string, "Language of the question; * for all."),
        col("other", string, "Leak: the questions or document; half-width: the metric; else empty."),
        col("questions", i32, "Questions in the cell."),
        col("value", f64, "Half-width of the 95% interval of a rate of .8, or similarity of the leak.", null=True),
        DETAIL,
    ]),
    table("baselines", "golden", "a saved score row with the identities it was made under",
            ("baseline", "question_id", "metric", "k", "cutoff", "unit"), [
        col("baseline", string, "Name of the baseline."),
        col("system", string, "System it was saved from."),
        *SCORE_ROW,
        col("identities", string, "Corpus, golden set, scorer and spec versions as canonical JSON."),
    ], root=True),
)
