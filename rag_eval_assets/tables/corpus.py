"""Tables of the corpus: files, parsed elements, canonical texts, and what the checks of ingestion measured."""

from __future__ import annotations

import pyarrow as pa

from rag_eval_assets.tables.columns import (
    CONFUSION,
    CONTENT,
    DETAIL,
    DOC_ID,
    ELEMENT,
    IMPORT,
    MEASURE,
    PREDICATE_FIELDS,
    REMOVED,
    SCORE,
    SECONDS,
    SPAN,
    WORK_KEY,
    boolean,
    f64,
    i32,
    i64,
    interval,
    string,
    strings,
)
from rag_eval_assets.tables.contract import col, table

# A column a line reads better than a bracket a line.
# fmt: off
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

CORPUS = (
    table("source_documents", "corpus", "a file of the corpus folder", ("doc_id",), [
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
    ], root=True),
    table("parsed_documents", "corpus", "an element of a document, or a typed failure", ("doc_id", "order"), [
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
    ], "parser"),
    table("reference_transcripts", "corpus", "a hand-checked text or table", ("doc_id", "kind", "item"), [
        DOC_ID,
        col("kind", string, "text (a whole document or page), table, or a part of a marked transcript: heading, list, caption, footnote."),
        col("item", i32, "Number of the item in its document and kind, from 0; for text of a page: its page."),
        col("page", i32, "Page, from 1; null for the whole document.", null=True),
        col("level", i32, "Level of a heading, from 1.", null=True),
        col("text", string, "Reference text; of a list, an item a line."),
        col("html", string, "Reference table as HTML.", null=True),
        col("file", string, "File below references/ that holds it."),
    ], root=True),
    table("quality_labels", "corpus", "a human label, or a prediction imported beside them", ("label_id",), [
        col("label_id", string, "Hash of the label's content."),
        col("kind", string, "boilerplate, language, pii, duplicate, cut, judgment, predicate, title, heading, heading_path, entity, "
            "relation or preference."),
        DOC_ID,
        col("other_doc_id", string, "The other document of a pair.", null=True),
        col("quotation", string, "Text the label stands on.", null=True),
        col("other_quotation", string, "The other end of a relation.", null=True),
        col("occurrence", i32, "Which occurrence of the quotation is meant, from 1; null is the first.", null=True),
        col("value", string, "The label: a language, a type of PII, entity or relation, a title, a heading's level or path, yes or no, "
            "the preferred answer."),
        col("annotator", string, "Who labelled it.", null=True),
        col("source", string, "Tool whose prediction this is; null for a label of a person.", null=True),
        col("question_id", string, "Question of a judgment, preference or predicate.", null=True),
        col("answer", string, "Answer judged.", null=True),
        col("other_answer", string, "Answer that a preference holds against it.", null=True),
        col("file", string, "File below labels/."),
        col("line", i32, "Line in that file.", role="volatile"),
    ], root=True),
    table("parse_quality", "corpus", "a measure of one document, of a document class or of a stratum, as one parser reads it",
            ("scope", "doc_class", "stratum", "doc_id", "metric", "item"), [
        col("scope", string, "document; class or stratum: the figure over all documents of the class or stratum that the parser declares."),
        col("doc_id", string, "Document id; empty for a class or stratum."),
        col("doc_class", string, "Document class; empty for a stratum."),
        col("stratum", string, "Stratum; empty for a class, and for a document that names none."),
        col("metric", string, "parsed, cer, wer, page_cer, order_tau, length_ratio, headings_recall, headings_precision, lists_whole, "
            "captions_kept, footnotes_kept, furniture_leak, teds, teds_s, table_content, evidence_located, quotation_lost."),
        col("item", i32, "Page, table, number of a lost quotation, or 0."),
        col("value", f64, "The measure, a share unless its name says otherwise; of a lost quotation its nearest text's "
            "likeness.", null=True),
        *interval("a class's or stratum's figure, documents being the independent units"),
        col("errors", i64, "Numerator: edits, parts or quotations missed, pages that leak; of length_ratio the "
            "characters found.", null=True),
        col("units", i64, "Denominator: reference characters, words, parts, cells, pages, quotations.", null=True),
        col("documents", i32, "Documents behind a class's or stratum's figure.", null=True),
        col("confusions", pa.list_(CONFUSION), "What was mistaken for what, most edits first; nothing found is an omission."),
        col("expected", string, "The quotation that was lost.", null=True),
        col("found", string, "The text nearest to it.", null=True),
        col("policy", string, "Normalisation policy applied to both sides."),
        col("dpi", i32, "Resolution at which the parser draws the pages it reads as pictures; null where it reads none.", null=True),
        *SCORE, DETAIL,
    ], "parser"),
    table("documents", "corpus", "a document with its canonical text", ("doc_id",), [
        *_DOCUMENT,
        col("language_score", f64, "Probability of the identified language.", null=True),
        col("flags", strings, "What the checks saw: pii, invisible_characters, mixed_script, nfkc_drift, short_text."),
        col("pii", pa.list_(SPAN), "Personal data found: type and span in the text before masking."),
        col("removed_characters", i32, "Characters of the elements left out; what was kept is the length of the text."),
        col("removed", pa.list_(REMOVED), "Elements left out of the text, each with the rule that removed it."),
        col("source_sha256", string, "SHA-256 of the source file."),
        *CONTENT, DETAIL, WORK_KEY,
    ]),
    table("cleaning_quality", "corpus", "a measure of cleaning, language, PII, structure or extraction", ("measure", "scope"), MEASURE),
    table("near_duplicates", "corpus", "a document's verdict, or a verified pair", ("row", "doc_id", "other_doc_id"), [
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
    ]),
    table("dedup_quality", "corpus", "a point of the sweep", ("permutations", "bands", "threshold"), [
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
    ]),
    table("unique_documents", "corpus", "a surviving document", ("doc_id",), [
        *_DOCUMENT,
        col("absorbed", strings, "Documents merged into this one."),
    ]),
)
