"""Entitlement of stored rankings as a blocking asset check and in `rag-eval verify`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg

from rag_eval_assets.assets._external import permitted
from rag_eval_assets.checks import file_checks
from rag_eval_assets.generation.own_systems import ranking_rows
from rag_eval_assets.generation.protocol import Passage
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.retrieval.entitlement import RANKINGS
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue, sync
from rag_eval_assets.storage.verify import verify_tables
from rag_eval_assets.storage.versions import data_version
from rag_eval_assets.tables import TABLES


def results(folder: Folder) -> dict[str, dg.AssetCheckResult]:
    """What the entitlement checks of the code location say, by asset; each of them blocks."""
    graph = Graph(folder)
    found = {}
    for check in file_checks(graph, open_catalogue(folder)):
        (spec,) = check.check_specs
        if spec.name == "entitlement_holds":
            assert spec.blocking
            found[spec.asset_key.to_user_string()] = check(dg.build_asset_check_context())
    return found


def test_rankings_of_before_a_document_was_closed_fail_the_check_until_they_are_made_anew(synced: Folder) -> None:
    before = results(synced)
    assert set(before) == set(RANKINGS)
    assert all(result.passed for result in before.values())
    assert before["system_retrievals"].metadata["compared"].value > 0
    (synced.corpus / "shipping.md.meta.yaml").write_text("tenant: acme\n")
    assert sync(synced, select=["unique_documents"]).failed == {}
    after = results(synced)
    assert not after["retrieval_runs"].passed
    assert not after["system_retrievals"].passed
    assert after["system_retrievals"].metadata["violations"].value >= 1
    assert any("shipping.md" in str(told.value) for told in after["system_retrievals"].metadata.values())
    (problem,) = [p for p in verify_tables(synced) if p.kind == "not_permitted"]
    assert problem.mend == "Run 'rag-eval sync'."
    assert sync(synced, select=sorted(RANKINGS)).failed == {}
    assert all(result.passed for result in results(synced).values())
    below = verify_tables(synced)
    assert {problem.kind for problem in below} == {"unexplained"}  # what is below rankings was not asked for

    # The same hit where nothing above has changed: a sync keeps it, and what is told instead does mend it.
    node, catalogue = AssetPartition("retrieval_runs", "whole"), open_catalogue(synced)
    table, footer = catalogue.read(node)
    owners = ["shipping.md" if rank > 0 else None for rank in table["rank"].to_pylist()]
    changed = table.set_column(table.schema.get_field_index("doc_id"), table.schema.field("doc_id"), [owners])
    catalogue.write(node, changed, replace(footer, data_version=data_version(changed, TABLES[node.asset])))
    catalogue.save()
    problems = {p.kind: p for p in verify_tables(synced)}
    told = problems["not_permitted"]
    assert told.count == sum(owner is not None for owner in owners)
    assert len(told.examples) == 5
    assert told.what.startswith(f"{told.count} hits are documents that the caller of their question may not read: retrieval_runs[whole] ")
    assert told.what.count(str(told.count)) == 1
    assert "delete the file of each, then run 'rag-eval sync'" in told.mend
    assert problems["unexplained"].mend == "Run 'rag-eval sync'."
    assert sync(synced, select=["retrieval_runs"]).runs == []
    Path(synced.tables, "retrieval_runs", "whole.parquet").unlink()
    assert sync(synced, select=["retrieval_runs"]).failed == {}
    assert verify_tables(synced) == below


def test_a_ranking_from_outside_with_a_closed_document_fails_its_question_alone() -> None:
    questions = [
        {"question_id": name, "split": "release", "text": "?", "entitlement": access}
        for name, access in (("q1", "{}"), ("q2", '{"groups": ["board"]}'))
    ]
    closed = {
        "doc_id": "secret",
        "absorbed": ["copy"],
        "tenant": None,
        "groups": ["board"],
        "jurisdiction": None,
        "publication_state": "published",
    }
    documents = [closed, {**closed, "doc_id": "open", "absorbed": [], "groups": []}]
    found = [Passage("a", "open", "x"), Passage("b", "secret", "y")]
    rows = [{**row, "work_key": f"key of {q['question_id']}"} for q in questions for row in ranking_rows(q, found, [None, None], None, 0.1)]
    kept = permitted(rows, questions, documents)
    refused = [row for row in kept if row["question_id"] == "q1"]
    assert [(r["rank"], r["status"], r["reason"], r["detail"]) for r in refused] == [
        (0, "failed", "not_permitted", "the caller may not read 'secret'")
    ]
    assert refused[0]["work_key"] != "key of q1"  # nobody takes it for the ranking again
    assert [r for r in kept if r["question_id"] == "q2"] == rows[2:]
    assert set(refused[0]) == set(rows[0])
