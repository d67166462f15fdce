"""Gates fail closed and say why."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rag_eval_assets.scoring.decisions import DECISION_REASONS
from rag_eval_assets.scoring.gates import judge_claims, judge_gates
from rag_eval_assets.settings import Gate
from tests.scoring.builders import Row, complete, table


def judged(gate: dict[str, Any], tables: dict[str, Any]) -> list[Row]:
    full = Gate(**gate)
    rows = judge_gates({"gate": full.model_dump()}, {full.source: tables})
    assert all(r["decision_reason"] in DECISION_REASONS for r in rows)
    return rows


def summary(mean: float | None, scored: int = 100, **more: Any) -> Any:
    own = {"metric": "R", "k": 10, "cutoff": "rank", "unit": "document", "stage": "ranking", "split": "release", "slice": "all"}
    counts = {"slice_value": "", "questions": scored, "scored": scored, "failed": 0, "missing": 0, "not_applicable": 0, "method": "x"}
    return table("system_summary", [complete("system_summary", **{**own, **counts, "mean": mean, "lower": 0.7, "upper": 0.95, **more})])


RECALL = {"source": "system_summary", "metric": "R", "k": 10, "at_least": 0.85, "minimum_questions": 50, "starting_value": True}


@pytest.mark.parametrize(
    ("row", "decision", "reason"),
    [
        (summary(0.85), "PASS", "meets_threshold"),
        (summary(0.8499), "FAIL", "misses_threshold"),
        (summary(0.9, scored=49), "INSUFFICIENT_EVIDENCE", "too_few_questions"),
        (summary(0.9, failed=1), "FAIL", "coverage_short"),
        (summary(0.9, missing=1), "FAIL", "coverage_short"),
        (summary(0.5, scored=10), "FAIL", "misses_threshold"),
        (summary(None, scored=0, not_applicable=30), "INSUFFICIENT_EVIDENCE", "not_applicable"),
        (summary(None, scored=0, missing=30), "FAIL", "coverage_short"),
        (summary(0.9, k=5), "FAIL", "missing_run"),
        (summary(0.9, split="development"), "FAIL", "missing_run"),
        (summary(0.9, slice="language", slice_value="en"), "FAIL", "missing_run"),
    ],
)
def test_a_gate_decides_by_coverage_then_value_then_number(row: Any, decision: str, reason: str) -> None:
    (found,) = judged(RECALL, {"baseline": row})
    assert (found["decision"], found["decision_reason"], found["scope"]) == (decision, reason, "baseline")


def test_a_fifth_of_the_samples_skipped_fails_a_coverage_gate() -> None:
    (found,) = judged({**RECALL, "minimum_coverage": 0.9}, {"s": summary(0.99, scored=80, missing=20)})
    assert (found["decision"], found["coverage"]) == ("FAIL", 0.8)


def test_the_interval_stands_beside_the_value() -> None:
    (found,) = judged(RECALL, {"s": summary(0.9)})
    assert (found["value"], found["lower"], found["upper"], found["threshold"], found["direction"]) == (0.9, 0.7, 0.95, 0.85, "at_least")
    assert found["starting_value"]


def test_a_gate_without_anything_to_judge_fails() -> None:
    for tables in ({}, {"s": summary(0.9)}):
        rows = judged({**RECALL, "scope": ("other",)}, tables)
        assert [(r["scope"], r["decision"], r["decision_reason"]) for r in rows] == [("other", "FAIL", "missing_run")]
    (row,) = judged(RECALL, {})
    assert (row["decision"], row["decision_reason"]) == ("FAIL", "missing_run")


def test_scopes_are_judged_apart_and_can_be_chosen() -> None:
    tables = {"a": summary(0.9), "b": summary(0.1)}
    assert [(r["scope"], r["decision"]) for r in judged(RECALL, tables)] == [("a", "PASS"), ("b", "FAIL")]
    assert [r["scope"] for r in judged({**RECALL, "scope": ("b",)}, tables)] == ["b"]


# --------------------------------------------------------------------------------------------------------------- exclusion
EXCLUSION = {"source": "filter_exclusion", "metric": "false_exclusion", "at_most": 0.02}


def exclusion(*values: float | None, reason: str = "no_filter") -> Any:
    rows = [
        complete(
            "filter_exclusion",
            question_id=f"q{i}",
            split="release",
            value=v,
            status="not_applicable" if v is None else "scored",
            reason=reason if v is None else None,
        )
        for i, v in enumerate(values)
    ]
    return {None: table("filter_exclusion", rows)}


def test_half_of_the_gold_excluded_fails_the_exclusion_gate() -> None:
    (found,) = judged(EXCLUSION, exclusion(1.0, 0.0, 1.0, 0.0, None))
    assert (found["value"], found["questions"], found["decision"], found["scope"]) == (0.5, 4, "FAIL", "corpus")


def test_without_any_filter_there_is_no_rate_of_zero() -> None:
    (found,) = judged(EXCLUSION, exclusion(None, None))
    assert (found["value"], found["decision"], found["decision_reason"]) == (None, "INSUFFICIENT_EVIDENCE", "no_filter")


def test_a_missing_exclusion_row_fails_closed() -> None:
    rows = [complete("filter_exclusion", question_id="q", split="release", status="missing", reason="no_eligible_gold")]
    (found,) = judged(EXCLUSION, {None: table("filter_exclusion", rows)})
    assert found["decision"] == "FAIL"


# --------------------------------------------------------------------------------------------------------------------- ANN
ANN = {"source": "ann_recall", "metric": "recall", "k": 10, "unit": "chunk", "at_least": 0.95}


def ann(*points: tuple[str, str, float, float, bool], status: str = "scored", reason: str | None = None) -> Any:
    rows = [
        complete(
            "ann_recall",
            embedder="minilm",
            index=index,
            setting=setting,
            filtering="none" if selectivity == 1.0 else "pre",
            selectivity=selectivity,
            k=10,
            queries=40,
            status=status,
            reason=reason,
            recall_mean=recall if status == "scored" else None,
            recommended=recommended,
        )
        for index, setting, selectivity, recall, recommended in points
    ]
    return table("ann_recall", rows)


def test_an_index_is_judged_at_its_worst_selectivity_under_the_recommended_setting() -> None:
    points = ann(
        ("hnsw", "ef64", 1.0, 0.99, True),
        ("hnsw", "ef16", 1.0, 0.80, False),
        ("hnsw", "ef64", 0.1, 0.45, False),
        ("hnsw", "ef16", 0.1, 0.99, False),
        ("flat", "-", 0.1, 1.0, False),
    )
    (found,) = judged(ANN, {"window-256-o0": points})
    assert (found["scope"], found["value"], found["decision"]) == ("window-256-o0/minilm", 0.45, "FAIL")
    assert "selectivity 0.1" in found["detail"]


def test_a_good_index_passes_and_one_without_vectors_is_no_evidence() -> None:
    (good,) = judged(ANN, {"c": ann(("hnsw", "ef64", 1.0, 0.99, True))})
    assert good["decision"] == "PASS"
    (none,) = judged(ANN, {"c": ann(("hnsw", "-", 1.0, 0.0, False), status="not_applicable", reason="no_embedder")})
    assert (none["decision"], none["decision_reason"]) == ("INSUFFICIENT_EVIDENCE", "not_applicable")


# ----------------------------------------------------------------------------------------------------------------- parsing
def quality(metric: str, documents: dict[str, float | None], **figure: Any) -> pa.Table:
    """parse_quality of one class: a row a document (None is a failure), and the class's row."""
    shared = {"doc_class": "scan", "metric": metric, "item": 0, "policy": "", "confusions": []}
    rows = [
        complete("parse_quality", scope="document", doc_id=d, value=v, status="failed" if v is None else "scored", **shared)
        for d, v in documents.items()
    ]
    rows.append(complete("parse_quality", scope="class", doc_id="", status="scored", **shared, **figure))
    # A stratum's figure, which no class's gate reads.
    rows.append(complete("parse_quality", scope="stratum", doc_id="", status="scored", **shared | {"doc_class": "", "value": 1.0}))
    return table("parse_quality", rows)


def test_a_class_over_its_ceiling_fails_with_its_worst_pages_and_lost_evidence_named() -> None:
    named = "worst: b.pdf page 2 30.0%. 1 quotations lost: b.pdf 'Close the lid.'"
    own = quality("cer", {"a.pdf": 0.0, "b.pdf": 0.03}, value=0.021, lower=0.001, upper=0.4, detail=named)
    (found,) = judged({"source": "parse_quality", "metric": "cer", "at_most": 0.02, "scope": ("scan",)}, {"ocr": own})
    assert (found["scope"], found["value"], found["questions"], found["decision"]) == ("ocr/scan", 0.021, 2, "FAIL")
    assert (found["lower"], found["upper"], found["detail"]) == (0.001, 0.4, named)
    (found,) = judged({"source": "parse_quality", "metric": "cer", "at_most": 0.03}, {"ocr": own})
    assert found["decision"] == "PASS"


@pytest.mark.parametrize(
    ("bound", "worst", "decision"), [({"at_least": 0.9}, 0.5, "FAIL"), ({"at_most": 1.1}, 1.5, "FAIL"), ({"at_most": 1.6}, 1.5, "PASS")]
)
def test_a_doubled_document_does_not_make_up_for_a_lost_one(bound: dict[str, float], worst: float, decision: str) -> None:
    own = quality("length_ratio", {"half.pdf": 0.5, "twice.pdf": 1.5}, value=1.0)
    (found,) = judged({"source": "parse_quality", "metric": "length_ratio", **bound}, {"ocr": own})
    assert (found["value"], found["decision"], found["detail"]) == (worst, decision, "half.pdf" if worst < 1 else "twice.pdf")


def test_a_document_that_failed_to_parse_shortens_the_coverage() -> None:
    own = quality("teds", {"a": 1.0, "b": None}, value=1.0)
    (found,) = judged({"source": "parse_quality", "metric": "teds", "at_least": 0.5, "scope": ("scan",)}, {"pymupdf": own})
    assert (found["decision"], found["decision_reason"], found["coverage"]) == ("FAIL", "coverage_short", 0.5)


def test_dedup_is_judged_at_the_setting_in_force() -> None:
    rows = [
        complete(
            "dedup_quality",
            permutations=64,
            threshold=t,
            labelled_pairs=20,
            recall=r,
            recall_lower=0.1,
            recall_upper=1.0,
            used=u,
            status="scored",
        )
        for t, r, u in ((0.5, 1.0, False), (0.8, 0.7, True))
    ]
    (found,) = judged({"source": "dedup_quality", "metric": "recall", "at_least": 0.9}, {None: table("dedup_quality", rows)})
    assert (found["value"], found["questions"], found["decision"], found["scope"]) == (0.7, 20, "FAIL", "corpus")


@pytest.mark.parametrize(
    ("pairs", "quotations", "metric", "decision"),
    [
        (0, 4, "evidence_loss", "FAIL"),
        (20, 0, "evidence_loss", "INSUFFICIENT_EVIDENCE"),
        (0, 4, "missed_merge_rate", "INSUFFICIENT_EVIDENCE"),
    ],
)
def test_evidence_lost_to_a_merge_is_judged_on_quotations_and_rates_on_pairs(
    pairs: int, quotations: int, metric: str, decision: str
) -> None:
    row = complete("dedup_quality", permutations=64, bands=16, threshold=0.8, labelled_pairs=pairs, merged_quotations=quotations,
                   lost_quotations=quotations // 2, evidence_loss=0.5 if quotations else None, evidence_loss_lower=0.1,
                   evidence_loss_upper=0.9, missed_merge_rate=0.5 if pairs else None, used=True, status="scored")  # fmt: skip
    (found,) = judged({"source": "dedup_quality", "metric": metric, "at_most": 0.0}, {None: table("dedup_quality", [row])})
    assert (found["decision"], found["questions"]) == (decision, quotations if decision == "FAIL" else 0)


def test_claims_without_any_baseline_are_rows_without_evidence() -> None:
    claim = {"claim": "superiority", "margin": None, "metric": "R"}
    none = complete("comparison", role="exploratory", metric="all", baseline="none", decision_reason="no_baseline")
    (row,) = judge_claims({"better": claim}, {"first": table("comparison", [none])})
    assert (row["gate"], row["scope"], row["decision"], row["decision_reason"]) == (
        "better", "corpus", "INSUFFICIENT_EVIDENCE", "no_baseline",
    )  # fmt: skip


def test_a_refused_comparison_blocks_every_claim() -> None:
    claims = {name: {"claim": "equivalence", "margin": 0.1, "metric": "R"} for name in ("one", "two")}
    refused = {"role": "exploratory", "metric": "all", "paired": 0, "missing": 0, "decision": "INSUFFICIENT_EVIDENCE"}
    row = complete("comparison", baseline="june", decision_reason="incomparable", detail="corpus: 'a' is now 'b'", **refused)
    found = judge_claims(claims, {"first": table("comparison", [row])})
    assert {(r["gate"], r["scope"], r["decision_reason"], r["direction"]) for r in found} == {
        (name, "first/june", "incomparable", "within") for name in claims
    }


@pytest.mark.parametrize(
    ("audit", "decision", "reason"),
    [
        ([], "INSUFFICIENT_EVIDENCE", "judge_not_audited"),
        ([{"judge": "panel", "metric": "claim_faithfulness", "may_gate": False}], "INSUFFICIENT_EVIDENCE", "judge_not_audited"),
        ([{"judge": "other", "metric": "claim_faithfulness", "may_gate": True}], "INSUFFICIENT_EVIDENCE", "judge_not_audited"),
        ([{"judge": "panel", "metric": "faithfulness", "may_gate": True}], "INSUFFICIENT_EVIDENCE", "judge_not_audited"),
        ([{"judge": "panel", "metric": "claim_faithfulness", "may_gate": True}], "PASS", "meets_threshold"),
    ],
)
def test_a_judge_without_a_passing_audit_reports_and_does_not_gate(audit: list[Row], decision: str, reason: str) -> None:
    metric = "hallucination@panel"
    gate = Gate(source="system_summary", metric=metric, unit="question", at_least=0.5).model_dump()
    own = summary(0.9, metric=metric, k=0, cutoff="none", unit="question")
    (row,) = judge_gates({"gate": gate}, {"system_summary": {"s": own}}, audit)
    assert (row["value"], row["decision"], row["decision_reason"]) == (0.9, decision, reason)
    claim = {"claim": "superiority", "margin": None, "metric": metric}
    compared = complete("comparison", role="declared", claim_name="c", baseline="b", decision="PASS", decision_reason="improved",
                        paired=9, missing=0, excluded=0)  # fmt: skip
    (claimed,) = judge_claims({"c": claim}, {"s": table("comparison", [compared])}, audit)
    assert (claimed["decision"] == "PASS") == (decision == "PASS")
