"""What the golden set covers: cells without questions, leaks and near-equal questions between splits, holes, and how sure a rate can be.

What belongs here: facts about the questions and their labels. What does not: reading them (`golden`) and any score.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any

from rag_eval_assets.golden import DEVELOPMENT, Row
from rag_eval_assets.tables import TABLES

DUPLICATE_SIMILARITY = 92.0
"""rapidfuzz's token_sort_ratio, 0 to 100, from which two questions of two splits are reported as one."""


def golden_coverage(questions: list[Row], evidence: list[Row], documents: Mapping[str, Row]) -> list[Row]:
    """Rows of `golden_coverage`: cells, split leaks, near-equal questions across splits, and half-widths.

    `questions`, `evidence` and `documents` are rows of golden_questions, golden_evidence and documents. A question stands in the
    cell of every class that its evidence comes from, `none` where it has none; cells without questions are there too.
    """
    gold: dict[str, set[str]] = {question["question_id"]: set() for question in questions}
    for row in evidence:
        if row["grade"] > 0 and row["question_id"] in gold:
            gold[row["question_id"]].add(row["kept_doc_id"] or row["doc_id"])
    rows = [
        *_cells(questions, gold, documents),
        *_leaks(questions, gold),
        *_duplicates(questions),
        *_half_widths(questions, gold, documents),
    ]
    return sorted(rows, key=lambda row: tuple(row[name] for name in TABLES["golden_coverage"].key))


def _row(kind: str, split: str, questions: int, **more: Any) -> Row:
    blank = {"intent": "*", "doc_class": "*", "language": "*", "other": "", "value": None, "detail": None}
    return {"kind": kind, "split": split, **blank, "questions": questions, **more}


def _classes(question: Row, gold: Mapping[str, set[str]], documents: Mapping[str, Row]) -> set[str]:
    return {documents[d]["doc_class"] for d in gold[question["question_id"]] if d in documents} or {"none"}


def _cells(questions: list[Row], gold: Mapping[str, set[str]], documents: Mapping[str, Row]) -> list[Row]:
    counts: defaultdict[tuple[str, str, str, str], int] = defaultdict(int)
    for question in questions:
        for doc_class in _classes(question, gold, documents):
            counts[question["split"], question["intent"], doc_class, question["language"]] += 1
    splits = {DEVELOPMENT, "release", *(key[0] for key in counts)}
    intents, languages = {key[1] for key in counts}, {key[3] for key in counts}
    classes = {row["doc_class"] for row in documents.values()} | {key[2] for key in counts}
    return [
        _row(
            "cell",
            split,
            counts.get((split, intent, doc_class, language), 0),
            intent=intent,
            doc_class=doc_class,
            language=language,
        )
        for split, intent, doc_class, language in product(splits, intents, classes, languages)
    ]


def _leaks(questions: list[Row], gold: Mapping[str, set[str]]) -> Iterator[Row]:
    """Documents and sessions that questions of more than one split share."""
    shared: defaultdict[str, list[Row]] = defaultdict(list)
    for question in sorted(questions, key=lambda q: q["question_id"]):
        for doc_id in gold[question["question_id"]]:
            shared[f"document {doc_id}"].append(question)
        if question["session"] is not None:
            shared[f"session {question['session']}"].append(question)
    for what, found in sorted(shared.items()):
        splits = sorted({question["split"] for question in found})
        if len(splits) > 1:
            listed = "; ".join(f"{s}: {', '.join(q['question_id'] for q in found if q['split'] == s)}" for s in splits)
            yield _row("split_leak", "+".join(splits), len(found), other=what, value=1.0, detail=listed)


def _duplicates(questions: list[Row]) -> Iterator[Row]:
    """Questions of two splits that are nearly the same text and name the same numbers."""
    from rapidfuzz import fuzz, process, utils

    by_split: defaultdict[str, list[Row]] = defaultdict(list)
    for question in sorted(questions, key=lambda q: q["question_id"]):
        by_split[question["split"]].append(question)
    for one, other in combinations(sorted(by_split), 2):
        right = [utils.default_process(q["text"]) for q in by_split[other]]
        for start in range(0, len(by_split[one]), 256):
            block = by_split[one][start : start + 256]
            left = [utils.default_process(q["text"]) for q in block]
            close = process.cdist(left, right, scorer=fuzz.token_sort_ratio, score_cutoff=DUPLICATE_SIMILARITY)
            for i, j in zip(*close.nonzero(), strict=True):
                pair = (block[i], by_split[other][j])
                if len({tuple(sorted(re.findall(r"\d+", q["text"]))) for q in pair}) == 1:
                    yield _row(
                        "duplicate_question",
                        f"{one}+{other}",
                        2,
                        other=" | ".join(q["question_id"] for q in pair),
                        value=round(float(close[i, j]) / 100, 4),
                        detail=" | ".join(q["text"] for q in pair),
                    )


def _half_widths(questions: list[Row], gold: Mapping[str, set[str]], documents: Mapping[str, Row]) -> list[Row]:
    """How far a rate of .8 can be known with the questions there are, for ranking and answer metrics, by slice."""
    counts: defaultdict[tuple[str, str, str, str, str], int] = defaultdict(int)
    for question in questions:
        split = question["split"]
        slices = {("*", "*", "*"), (question["intent"], "*", "*"), ("*", "*", question["language"])}
        slices |= {("*", doc_class, "*") for doc_class in _classes(question, gold, documents)}
        for key in slices:
            counts[(split, *key, "answer metrics")] += 1
            counts[(split, *key, "ranking metrics")] += bool(gold[question["question_id"]])
    return [
        _row("half_width", split, n, intent=intent, doc_class=doc_class, language=language, other=metric, value=half_width(n))
        for (split, intent, doc_class, language, metric), n in counts.items()
    ]


def label_holes(questions: list[Row], evidence: list[Row], rankings: list[Row], depth: int = 10) -> list[Row]:
    """Rows of label_holes: documents among the first `depth` of a ranking that no label of their question names, rank by document.

    `rankings` are rows of system_retrievals; `text` is a document's best passage. A label of grade 0 is a judgment too, and so is one on a
    document's kept copy. Questions without any label have nothing but holes and are left out, like those that the corpus does not answer.
    """
    judged: defaultdict[str, set[str]] = defaultdict(set)
    for row in evidence:
        judged[row["question_id"]] |= {row["doc_id"], row["kept_doc_id"] or row["doc_id"]}
    split = {q["question_id"]: q["split"] for q in questions if q["answerable"] and judged[q["question_id"]]}
    found: defaultdict[str, dict[str, tuple[int, str]]] = defaultdict(dict)
    for row in sorted(rankings, key=lambda r: (r["question_id"], r["rank"])):
        if row["rank"] > 0 and row["question_id"] in split:
            own = found[row["question_id"]]
            own.setdefault(row["doc_id"], (len(own) + 1, row["text"]))
    return [
        {"question_id": question, "split": split[question], "doc_id": doc_id, "rank": rank, "text": text}
        for question, own in sorted(found.items())
        for doc_id, (rank, text) in own.items()
        if rank <= depth and doc_id not in judged[question]
    ]


def half_width(questions: int, rate: float = 0.8) -> float | None:
    """Half of the 95% interval of a rate over so many questions (normal approximation: for planning, not for deciding)."""
    return min(1.959964 * math.sqrt(rate * (1 - rate) / questions), 1.0) if questions else None
