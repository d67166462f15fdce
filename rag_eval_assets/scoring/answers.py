"""Deterministic scores of contexts, answers, citations and refusals, one row a question and metric.

What belongs here: measures that read words, spans and labels; those that read words only say `lexical` or are named after the
string measure they are. What does not: model verdicts (`ragas_metrics`) and ranking measures (`ranking`).

A refusal is a class of its own. Asked what the corpus answers, it scores 0 for correctness (reason refused) and has neither
claims nor citations to measure; asked what the corpus does not answer, it is the correct answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_eval_assets.scoring import texts
from rag_eval_assets.scoring.relevance import Alternative, Labels, Row, Span, read_labels
from rag_eval_assets.storage_free import canonical_json
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, OK, SCORED

F1_PASSES = 0.6
"""Token F1 with the reference from which an answer counts as agreeing with it."""

NUGGET_WORDS = 0.8
"""Share of a nugget's content words that the answer must hold."""
