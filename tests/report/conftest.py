"""Hand-made rows in exactly the schema of the tables, enough of them to fill every section of the page."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest

from rag_eval_assets.report import page
from tests.report.rows.answered import comparison, costs, coverage, experiments, gates, judges, questions_and_answers
from tests.report.rows.ingested import cleaning, dedup, ingestion, parse_quality
from tests.report.rows.made import Row, Tables, make_row
from tests.report.rows.retrieved import (
    ann,
    embedders,
    filter_decision,
    filter_quality,
    retrievers,
    run_file_finding,
    summaries,
    sweep,
)


def make_sample() -> Tables:
    """Every table the page reads, filled."""
    specs = {
        system: [make_row("system_specs", system=system, chunking=chunking, retriever=retriever, depth=50, top_k=5, token_budget=1500,
                          ordering="best_first", reader="extractive", prompt="Answer.", parameters="{}", require_citations=True)]
        for system, chunking, retriever in (("baseline", "window-256-o0", "bm25"), ("hybrid-512", "recursive-512-o64", "hybrid"))
    }  # fmt: skip
    return {
        "system_specs": specs, "system_summary": summaries(), "gate_results": {None: gates()}, "chunk_sweep": {None: sweep()},
        "retriever_comparison": retrievers(), "run_file_findings": {None: [run_file_finding()]}, "embedder_ranking": {None: embedders()}, "filter_quality": {None: filter_quality()},
        "replay_experiments": {"baseline": experiments(), "hybrid-512": []},
        "system_costs": {"baseline": costs(), "hybrid-512": []},
        "filter_decision": {"structural-256": filter_decision()}, "ann_recall": ann(), "parse_quality": parse_quality(), "comparison": comparison(), "golden_coverage": {None: coverage()},
        "label_holes": {"baseline": [
            make_row("label_holes", question_id="rel-002", split="release", doc_id="pdf/pump.pdf", rank=2, text="The pump is greased every spring."),
            make_row("label_holes", question_id="dev-002", split="development", doc_id="pdf/other.pdf", rank=1, text="Not of this split."),
        ]},
        "dedup_quality": {None: dedup()}, "cleaning_quality": {None: cleaning()},
        **judges(),
        **questions_and_answers(), **ingestion(),
    }  # fmt: skip


@pytest.fixture(scope="session")
def row() -> Callable[..., Row]:
    return make_row


@pytest.fixture(scope="session")
def made() -> Tables:
    return make_sample()


@pytest.fixture
def sample(made: Tables) -> Tables:
    """The sample, free to be changed."""
    return deepcopy(made)


@pytest.fixture(scope="session")
def html(made: Tables) -> str:
    """The page of the sample, drawn once."""
    return page.render(made, name="Company knowledge base")
