"""`rag-eval compare` as continuous integration calls it: exit codes, JUnit, JSON, and the same decisions as gates."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue, sync
from tests.command import rag_eval
from tests.integration.conftest import CHANGES
from tests.small import SETTINGS, write_settings

POLICY = """\
claims:
  ranking: {metric: nDCG, k: 10, claim: non_inferiority, margin: 0.05}
  better: {metric: correct, unit: question, claim: superiority}
exploratory: {slices: [intent]}
"""


def test_a_comparison_exits_three_where_evidence_is_thin_and_one_where_it_cannot_be_made(synced: Folder, tmp_path: Path) -> None:
    policy, junit, rows = (tmp_path / name for name in ("policy.yaml", "junit.xml", "rows.json"))
    policy.write_text(POLICY)
    rag_eval(synced, "baseline", "save", "june", "first")
    words = ("compare", "second", "june", "--policy", str(policy))
    said = rag_eval(synced, *words, "--junit", str(junit), "--json", str(rows), code=3)
    assert "INSUFFICIENT_EVIDENCE: second against june" in said
    assert 'changed  chunking: "window-16-o0" -> "whole"' in said
    assert "Undecided for lack of questions: " in said
    assert "'rag-eval power --margin 0.05' says how many" in said.replace("\n", " ")
    told = json.loads(rows.read_text())
    ranking = next(r for r in told["rows"] if r["claim_name"] == "ranking")
    assert (ranking["decision"], ranking["decision_reason"], ranking["role"]) == (
        "INSUFFICIENT_EVIDENCE",
        "interval_spans_margin",
        "declared",
    )
    assert ranking["detectable"] > 0.05
    assert {r["slice"] for r in told["rows"] if r["role"] == "exploratory"} == {"all", "intent"}
    suite = ET.fromstring(junit.read_text())
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "2", "0")
    assert {case.get("name") for case in suite} == {"ranking", "better"}

    policy.write_text(POLICY.replace("metric: nDCG", "metric: ndgc"))
    assert f"{policy}:2: claims.ranking.metric: no metric of system_summary 'ndgc'" in rag_eval(synced, *words, code=1).replace("\n", "")
    policy.write_text(POLICY.replace("margin: 0.05", "margins: 0.05"))
    assert "policy.yaml:2: claims.ranking.margins: no such setting" in rag_eval(synced, *words, code=1)
    policy.write_text(POLICY)
    assert "no baseline 'july'; known: june" in rag_eval(synced, "compare", "second", "july", "--policy", str(policy), code=1)
    (synced.corpus / "safety.txt").write_text("Safety\n\nNever immerse the base in water. Unplug it first.\n")
    assert "is stale" in rag_eval(synced, *words, code=1)
    sync(synced, select=["system_scores"])
    said = rag_eval(synced, *words, code=1)
    assert "second and june cannot be compared: corpus: " in said


def test_claims_of_a_policy_in_the_settings_are_gates(synced: Folder) -> None:
    rag_eval(synced, "baseline", "save", "june", "first")
    (synced.path / "policy.yaml").write_text(POLICY)
    write_settings(synced.path, {**CHANGES, "policy": "policy.yaml"})
    folder = Folder(synced.path)
    sync(folder)
    catalogue = open_catalogue(folder)
    gates = {(r["gate"], r["scope"]): r for r in catalogue.read(AssetPartition("gate_results"))[0].to_pylist()}
    found = gates["ranking", "first/june"]
    assert (found["value"], found["threshold"], found["direction"], found["decision"]) == (0, -0.05, "at_least", "INSUFFICIENT_EVIDENCE")
    assert ("better", "first/june") in gates
    assert SETTINGS["gates"].keys() <= {gate for gate, _ in gates}
    rows = catalogue.read(AssetPartition("comparison", "first"))[0].to_pylist()
    decided = {r["claim_name"]: (r["decision"], r["decision_reason"]) for r in rows if r["role"] == "declared"}
    assert decided == {gate: (r["decision"], r["decision_reason"]) for (gate, scope), r in gates.items() if scope == "first/june"}


def test_power_says_what_to_change_where_fewer_questions_or_none_are_enough(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert "Fewer are enough for a larger --margin" in rag_eval(folder, "power", "--margin", "0.1")
    worse = rag_eval(folder, "power", "--margin", "0.02", "--difference", "-0.05")
    assert "no number of questions is enough" in worse
    assert "a larger --margin or a better candidate is needed" in worse
