"""The contract of every table: one pyarrow schema an asset, each column described, and the closed lists of statuses and reasons.

What belongs here: names, types, keys and meanings of columns, a module for each part of the graph. What does not: how a
row is computed (pure packages), how a file is written (`storage`).
"""

from rag_eval_assets.tables.chunks import CHUNKS
from rag_eval_assets.tables.contract import (
    AS_LOGGED,
    CONTENT_STATUSES,
    DERIVED_SLICES,
    FAILED,
    MISSING,
    NOT_APPLICABLE,
    OK,
    REASONS,
    SCORE_STATUSES,
    SCORED,
    SPLITS,
    STAGES,
    TRANSIENT,
    UNITS,
    WHOLE_LOG,
    Family,
    Role,
    Table,
    col,
)
from rag_eval_assets.tables.corpus import CORPUS
from rag_eval_assets.tables.generation import GENERATION
from rag_eval_assets.tables.golden import GOLDEN
from rag_eval_assets.tables.release import RELEASE
from rag_eval_assets.tables.retrieval import RETRIEVAL

__all__ = [
    "AS_LOGGED",
    "CONTENT_STATUSES",
    "DERIVED_SLICES",
    "FAILED",
    "MISSING",
    "NOT_APPLICABLE",
    "OK",
    "REASONS",
    "SCORED",
    "SCORE_STATUSES",
    "SPLITS",
    "STAGES",
    "TABLES",
    "TRANSIENT",
    "UNITS",
    "WHOLE_LOG",
    "Family",
    "Role",
    "Table",
    "col",
]

TABLES: dict[str, Table] = {table.name: table for table in (*CORPUS, *GOLDEN, *CHUNKS, *RETRIEVAL, *GENERATION, *RELEASE)}
"""Contracts by asset, in the order of the graph."""
