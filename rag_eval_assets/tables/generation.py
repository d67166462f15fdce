"""Tables of systems under test: specification, retrieval, context, answer, scores and audited judges."""

from __future__ import annotations

import pyarrow as pa

from rag_eval_assets.tables.columns import (
    CITATION,
    CONTENT,
    DETAIL,
    DOC_ID,
    ORIGIN,
    PASSAGE,
    QUESTION_ID,
    SCORE,
    SCORE_ROW,
    SECONDS,
    WORK_KEY,
    boolean,
    f64,
    i32,
    interval,
    string,
    strings,
)
from rag_eval_assets.tables.contract import col, table

# A column a line reads better than a bracket a line.
# fmt: off
ANSWER = [
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
    *CONTENT, DETAIL, SECONDS, ORIGIN, WORK_KEY,
]

GENERATION = (
    table("system_specs", "generation", "a system under test, resolved", ("system",), [
        col("system", string, "Name of the system."),
        col("kind", string, "builtin, class or import."),
        col("chunking", string, "Chunking partition it retrieves from.", null=True),
        col("retriever", string, "Retriever; of another kind of system its class or log."),
        col("index_version", string, "Version of a class's index, or of a log; null where none is declared, which "
            "reuses nothing.", null=True),
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
    ], "system", root=True),
    table("system_retrievals", "generation", "a passage in this system's ranking", ("question_id", "rank"), [
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
        *CONTENT, DETAIL, SECONDS, ORIGIN, WORK_KEY,
    ], "system"),
    table("label_holes", "generation", "a document among a question's first ten that no label judges", ("question_id", "doc_id"), [
        QUESTION_ID,
        col("split", string, "Split of the question."),
        DOC_ID,
        col("rank", i32, "Rank of the document among the ranking's documents, from 1."),
        col("text", string, "Its best passage, to read and label.", null=True),
    ], "system"),
    table("contexts", "generation", "a question's delivered context", ("question_id",), [
        QUESTION_ID,
        col("split", string, "Split of the question."),
        col("passages", pa.list_(PASSAGE), "Passages delivered, in the order delivered."),
        col("tokens", i32, "Tokens delivered; null where those of a passage are unknown.", null=True),
        col("cut_by_top_k", strings, "Chunk ids retrieved but past top_k."),
        col("cut_by_budget", strings, "Chunk ids within top_k that the budget cut."),
        col("context_truncated", boolean, "Whether the budget cut anything."),
        col("context_sha256", string, "SHA-256 of the delivered passages in order: texts, ids and offsets."),
        *CONTENT,
    ], "system"),
    table("answers", "generation", "a question's answer", ("question_id",), ANSWER, "system"),
    table("judged_scores", "generation", "a question's score by a judge or an entailment scorer",
            ("question_id", "metric", "k", "cutoff", "unit"), [
        *SCORE_ROW,
        col("stage", string, "What is scored: context, answer or citations."),
        col("explanation", string, "Evidence for the verdict.", null=True),
        WORK_KEY,
    ], "system"),
    table("system_scores", "generation", "a question's score", ("question_id", "metric", "k", "cutoff", "unit"), [
        *SCORE_ROW,
        col("stage", string, "What is scored: ranking, context, answer or citations."),
        col("explanation", string, "Evidence for the verdict.", null=True),
    ], "system"),
    table("preferences", "generation", "a question on which a judge compares two systems",
            ("judge", "candidate", "other", "question_id"), [
        col("judge", string, "Judge."),
        col("candidate", string, "System preferred or not."),
        col("other", string, "System it is compared with."),
        QUESTION_ID,
        col("split", string, "Split of the question."),
        col("when_first", string, "What is preferred where the candidate's answer stands first: candidate, other or tie.", null=True),
        col("when_second", string, "What is preferred where it stands second.", null=True),
        col("consistent", boolean, "Whether both orders say the same.", null=True),
        col("value", f64, "1 where both orders prefer the candidate, 0 where both prefer the other, .5 for a tie and for a verdict that "
            "follows the place.", null=True),
        *SCORE, DETAIL, WORK_KEY,
    ]),
    table("judge_audit", "generation", "a judge against human labels", ("judge", "metric", "measure"), [
        col("judge", string, "Judge or entailment scorer; none where no judge is configured."),
        col("metric", string, "Metric audited: faithfulness for a judge's ragas metrics, claim_faithfulness for those on claims, "
            "preference for its verdicts on pairs, entailment for a scorer."),
        col("measure", string, "accuracy, kappa, false_approval_rate, false_rejection_rate; sensitivity and specificity over the "
            "labels that were judged; over repeats verdict_flip_rate and score_variance; order_flip_rate, verdicts that change with the "
            "place of the quotation; length_effect, Spearman's correlation of an answer's length with verdict minus label; cost of all "
            "requests; of preferences accuracy_first and accuracy_second by order, aggregation_gain of both over the better one, and "
            "swap_consistency; of a scorer its threshold and suggested_threshold."),
        col("value", f64, "The measure.", null=True),
        *interval("the value"),
        col("labels", i32, "Human labels compared; of a rate its denominator."),
        col("may_gate", boolean, "Whether the audit allows this judge to gate."),
        *SCORE, DETAIL,
    ]),
)
