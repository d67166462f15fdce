"""Questions that are not independent: those that share a source document of their gold.

What belongs here: which questions form one cluster. What does not: what an interval makes of clusters (`ingestion.rates`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def question_clusters(questions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Cluster of each question, named by its first question: questions linked by gold documents, directly or through others.

    `questions` are rows of golden_questions with `relevant` and `evidence`. Labels of grade 0 link nothing; a question without gold stands
    alone.
    """
    leader: dict[str, str] = {}

    def first(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    seen: dict[str, str] = {}
    for question in sorted(questions, key=lambda q: q["question_id"]):
        name = leader[question["question_id"]] = question["question_id"]
        for label in (*(question["evidence"] or ()), *(question["relevant"] or ())):
            if label["grade"] > 0:
                one, other = sorted((first(seen.setdefault(label["document"], name)), first(name)))
                leader[other] = one
    return {name: first(name) for name in leader}
