"""Relevance filters through the whole chain: searched with and without, never past an entitlement, decided by chunking."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue, sync
from tests.small import QUESTIONS, SETTINGS, small_folder, write_questions, write_settings

MARKDOWN = {"doc_class": ["markdown"]}
CHANGES = {
    "retrievers": {
        "bm25": {"kind": "bm25"},
        "plain": {"kind": "bm25", "analyser": "plain"},
        "tuned": {"kind": "convex", "of": ["bm25", "plain"]},
    },
    "systems": {"first": SETTINGS["systems"]["first"]},
}


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """q3, q6 and q8 have a filter; the filter of q8 is right and that of q3 hides its gold. One document is another tenant's."""
    folder = small_folder(tmp_path_factory.mktemp("filters") / "small", CHANGES)
    questions = copy.deepcopy(QUESTIONS)
    questions[2]["filter"] = {"doc_class": ["text"]}
    questions[5]["filter"] = questions[7]["filter"] = MARKDOWN
    write_questions(folder.path, questions)
    (folder.corpus / "secret.txt").write_text(
        "Parcels of the other tenant leave the warehouse in Assen. Filters fit the kettle of Assen.\n"
    )
    (folder.corpus / "secret.txt.meta.yaml").write_text("tenant: other\n")
    (folder.path / "labels").mkdir()
    label = {"kind": "predicate", "question": "q3", "document": "warranty.md", "value": "yes"}
    (folder.path / "labels" / "filters.jsonl").write_text(json.dumps(label) + "\n")
    assert sync(folder).failed == {}
    return folder


def rows(folder: Folder, asset: str, partition: str | None = None) -> list[dict[str, object]]:
    return open_catalogue(folder).read(AssetPartition(asset, partition))[0].to_pylist()


def test_questions_with_a_filter_and_no_others_are_searched_without_it(filtered: Folder) -> None:
    found = rows(filtered, "unfiltered_runs", "window-16-o0")
    assert {(r["question_id"], r["retriever"]) for r in found} == {(q, r) for q in ("q3", "q6", "q8") for r in CHANGES["retrievers"]}
    assert {r["doc_id"] for r in found} & {"descaling.txt", "safety.txt"}
    hard = [r for r in rows(filtered, "retrieval_runs", "window-16-o0") if r["question_id"] == "q6" and r["rank"]]
    assert {str(r["doc_id"]).rpartition(".")[2] for r in hard} == {"md"}


def test_entitlement_stays_hard_without_the_filter(filtered: Folder) -> None:
    assert "secret.txt" not in {r["doc_id"] for r in rows(filtered, "unfiltered_runs", "window-16-o0")}


def test_a_tuned_fusion_keeps_its_weights_without_the_filter(filtered: Folder) -> None:
    sides = [
        {tuple(json.loads(str(r["parameters"]))["weights"]) for r in rows(filtered, asset, "window-16-o0") if r["retriever"] == "tuned"}
        for asset in ("retrieval_runs", "unfiltered_runs")
    ]
    assert sides[0] == sides[1]
    assert len(sides[0]) == 1


def test_the_decision_stands_where_a_system_retrieves_and_nowhere_else(filtered: Folder) -> None:
    used = {(r["retriever"], r["against"]): r for r in rows(filtered, "filter_decision", "window-16-o0")}
    assert {key for key, r in used.items() if r["decision"]} == {(name, "soft") for name in CHANGES["retrievers"]}
    assert {r["questions"] for r in used.values()} == {2}
    assert {r["decision"] for r in used.values()} == {"soft", ""}
    unused = rows(filtered, "filter_decision", "whole")
    assert {(r["status"], r["reason"]) for r in unused} == {("not_applicable", "not_used")}
    assert rows(filtered, "unfiltered_runs", "whole") == []


def test_the_filter_that_hides_its_gold_is_told_by_document_and_by_label(filtered: Folder) -> None:
    found = {(r["measure"], r["scope"]): (r["numerator"], r["denominator"]) for r in rows(filtered, "filter_quality")}
    assert found["false_exclusion", "all"] == (1, 3)
    assert found["false_exclusion", "document=warranty.md"] == (1, 1)
    assert found["predicate_recall", "all"] == (0, 1)
    assert found["errors_hiding_gold", "all"] == (1, 1)


def test_the_page_tells_the_decision(filtered: Folder) -> None:
    html = str(rows(filtered, "release_report")[0]["html"])
    assert "Hard filter against a boost" in html
    assert "warranty.md" in html


def test_another_boost_searches_nothing_again(filtered: Folder, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(filtered.path, tmp_path / "small")
    write_settings(tmp_path / "small", {**CHANGES, "filter_decision": {"boost": [0.5, 2], "k": 5}})
    report = sync(Folder(tmp_path / "small"))
    ran = {str(node) for node in report.materialized}
    assert ran == {"filter_decision[window-16-o0]", "filter_decision[whole]", "release_report"}


def test_without_a_filter_the_decision_says_so(synced: Folder) -> None:
    assert {(r["status"], r["reason"], r["exclusion"]) for r in rows(synced, "filter_decision", "whole")} == {
        ("not_applicable", "no_filter", None)
    }
    assert {(r["status"], r["value"]) for r in rows(synced, "filter_quality")} == {("not_applicable", None)}
    assert "Hard filter against a boost" not in str(rows(synced, "release_report")[0]["html"])
