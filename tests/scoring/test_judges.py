"""An audit says how a judge errs against people, how steady it is, and whether it may gate."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_eval_assets.assets._judging import asking
from rag_eval_assets.resources.language_models import Prices
from rag_eval_assets.scoring.judges import MEASURES, judge_audit, may_gate
from rag_eval_assets.tables import TABLES
from tests.recorded import Play, judge_model, recorded_endpoint
from tests.scoring.builders import Row, complete

CLAIM = json.dumps({"claims": ["c"], "no_claims": False})
YES = json.dumps({"supported": [{"claim": 1, "texts": [1], "rationale": "r"}], "unsupported": []})
NO = json.dumps({"supported": [], "unsupported": [{"claim": 1, "failure_mode": "fabrication", "rationale": "r"}]})


def label(number: int, value: str, words: str = "") -> Row:
    own = {"label_id": f"l{number:03d}", "kind": "judgment", "value": value, "question_id": "q", "doc_id": "d"}
    return complete("quality_labels", **own, answer=f"claim {number}{words}", quotation=f"A is {value}, {number}.")


def audited(
    labels: list[Row], tmp_path: Path, verdict: Callable[[str], str], repeats: int = 1, extract: bool = False, **more: Any
) -> dict[str, Row]:
    """The audit of a judge whose verdict on passages is played; with `extract` the claim is the answer's own line."""

    def script(body: dict[str, Any], number: int) -> Play:
        text = body["messages"][-1]["content"]
        own = json.dumps({"claims": [text.splitlines()[3]], "no_claims": False}) if extract else CLAIM
        return Play(verdict(text) if "Claims:" in text else own, usage=(1000, 100))

    with recorded_endpoint(script) as endpoint:
        opened = asking(judge_model(endpoint, tmp_path, **more))
        rows = judge_audit(labels, {"panel": {"metrics": ["hallucination"], "repeats": repeats}}, lambda name: opened)
    assert all(set(r) == set(TABLES["judge_audit"].columns) for r in rows)
    assert {(r["judge"], r["metric"]) for r in rows} == {("panel", "claim_faithfulness")}
    return {r["measure"]: r for r in rows}


def test_a_judge_that_always_approves_is_known_bad(tmp_path: Path) -> None:
    found = audited([label(i, "yes" if i < 4 else "no") for i in range(6)], tmp_path, lambda text: YES, prices=Prices(1.0, 10.0))
    assert set(found) == set(MEASURES)
    assert found["accuracy"]["value"] == pytest.approx(4 / 6)
    assert found["kappa"]["value"] == pytest.approx(0)
    assert found["false_approval_rate"]["value"] == 1
    assert found["false_rejection_rate"]["value"] == 0
    assert not any(r["may_gate"] for r in found.values())
    # A label costs the claims of its answer and verdicts on its quotation alone, behind another and before another; each request
    # 1,000 tokens at 1 and 100 at 10 a million.
    assert found["cost"]["value"] == pytest.approx(6 * 4 * 0.002)


def test_without_a_judge_the_audit_says_so_in_one_row() -> None:
    (row,) = judge_audit([label(1, "yes")], {}, lambda name: pytest.fail("asked"))
    assert (row["judge"], row["status"], row["reason"], row["may_gate"]) == ("none", "not_applicable", "no_judge", False)


def test_a_judge_without_labels_is_not_measured(tmp_path: Path) -> None:
    assert {r["reason"] for r in audited([], tmp_path, lambda text: YES).values()} == {"no_labels"}


def test_failed_judgments_earn_no_credit_and_enough_agreement_may_gate(tmp_path: Path) -> None:
    labels = [label(i, "yes" if i % 2 else "no") for i in range(60)]
    good = audited(labels, tmp_path / "good", lambda text: YES if "A is yes" in text else NO)
    assert good["accuracy"]["value"] == good["kappa"]["value"] == 1
    assert may_gate(good.values()) == {("panel", "claim_faithfulness")}
    bad = audited(labels, tmp_path / "bad", lambda text: "no JSON")
    assert bad["accuracy"]["value"] == 0
    assert "60 of 60" in str(bad["accuracy"]["detail"])
    assert may_gate(bad.values()) == set()


def test_repeats_are_asked_anew_and_a_wavering_judge_shows(tmp_path: Path) -> None:
    turns: dict[str, int] = {}

    def wavering(text: str) -> str:
        turns[text] = turns.get(text, 0) + 1
        return YES if turns[text] == 1 or "A is yes, 0." in text else NO

    found = audited([label(i, "yes") for i in range(2)], tmp_path, wavering, repeats=2)
    # One label is approved twice, the other once: variances 0 and 1/4.
    assert found["verdict_flip_rate"]["value"] == 0.5
    assert found["score_variance"]["value"] == pytest.approx(0.125)


def test_a_judge_that_rewards_length_has_a_length_effect_of_one(tmp_path: Path) -> None:
    labels = [label(0, "no"), label(1, "no", " and a good many further words")]

    def verdict(text: str) -> str:
        return YES if "A is no, 1." in text else NO

    assert audited(labels, tmp_path, verdict)["length_effect"]["value"] == pytest.approx(1.0)


def test_disagreements_are_named_and_rates_that_correct_leave_failed_judgments_out(tmp_path: Path) -> None:
    def verdict(text: str) -> str:
        if "A is no, 3." in text:
            return "no JSON"
        return NO if "A is yes, 0." in text else YES

    found = audited([label(i, "yes" if i < 2 else "no") for i in range(4)], tmp_path, verdict)
    # Label 0 is rejected wrongly, 2 approved wrongly; 3 failed, which is an error of the judge and no verdict.
    assert (found["false_approval_rate"]["value"], found["false_approval_rate"]["labels"]) == (1, 2)
    assert found["false_approval_rate"]["detail"] == "1 of 4 judgments failed; labels l002, l003"
    assert str(found["false_rejection_rate"]["detail"]).endswith("labels l000")
    assert (found["sensitivity"]["value"], found["sensitivity"]["labels"]) == (0.5, 2)
    assert (found["specificity"]["value"], found["specificity"]["labels"]) == (0, 1)


@pytest.mark.parametrize(("judge", "flips"), [("first", 1.0), ("all", 0.0)])
def test_a_judge_that_reads_the_first_passage_alone_changes_its_verdicts_with_their_order(judge: str, flips: float, tmp_path: Path) -> None:
    def verdict(text: str) -> str:
        claim = re.search(r"claim (\d)", text)
        assert claim
        passages = re.findall(r"A is \w+, (\d)\.", text)
        read = passages[:1] if judge == "first" else passages
        return json.dumps(_supported(passages.index(claim[1]) + 1)) if claim[1] in read else NO

    found = audited([label(i, "yes") for i in range(4)], tmp_path, verdict, extract=True)
    assert found["accuracy"]["value"] == 1
    assert (found["order_flip_rate"]["value"], found["order_flip_rate"]["labels"]) == (flips, 4)
    assert found["order_flip_rate"]["upper"] > 0


def _supported(text: int) -> dict[str, Any]:
    return {"supported": [{"claim": 1, "texts": [text], "rationale": "r"}], "unsupported": []}


def test_with_one_quotation_there_is_no_order(tmp_path: Path) -> None:
    found = audited([label(0, "yes")], tmp_path, lambda text: YES)
    assert (found["order_flip_rate"]["status"], found["order_flip_rate"]["reason"]) == ("not_applicable", "no_labels")
