"""A judge's rate is corrected for its errors, with an interval that knows how little the labels say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rag_eval_assets.scoring.corrected import METHOD, corrected_rates, rogan_gladen
from rag_eval_assets.tables import REASONS, TABLES
from tests.scoring.builders import Row, complete, score


def test_the_estimate_is_that_of_a_published_worked_example() -> None:
    # RSurveillance's example: 20 of 120, sensitivity .9, specificity .99, true prevalence .17603.
    found = rogan_gladen((20, 120), (900_000, 1_000_000), (990_000, 1_000_000))
    assert found is not None
    assert found[0] == pytest.approx(0.17603, abs=5e-6)


def test_the_interval_is_lang_and_reiczigels_worked_by_hand() -> None:
    # 60 of 100 approved; 45 of 50 approved rightly; 40 of 50 rejected rightly. z = 1.96 to two digits:
    # p' = (60 + 1.92) / 103.84 = .5963; Se' = 46/52 = .8846; Sp' = 41/52 = .7885; P' = (.5963 + .7885 - 1) / .6731 = .5717
    # Se'(1 - Se')/52 = .001963; Sp'(1 - Sp')/52 = .003207; shift = 7.683 (.5717 x .001963 - .4283 x .003207) = -.00193
    # variance = (.5963 x .4037 / 103.84 + .3268 x .001963 + .1834 x .003207) / .4530 = .007832; half width = 1.96 x .0885 = .1735
    found = rogan_gladen((60, 100), (45, 50), (40, 50))
    assert found is not None
    assert found[0] == pytest.approx((0.6 + 0.8 - 1) / 0.7)
    assert found[1:] == (pytest.approx(0.5717 - 0.0019 - 0.1735, abs=5e-4), pytest.approx(0.5717 - 0.0019 + 0.1735, abs=5e-4))


def test_a_faultless_judge_with_endless_labels_keeps_its_rate_and_the_interval_of_agresti_and_coull() -> None:
    # Agresti and Coull for 9 of 13, by hand: (9 + 1.9207) / 16.8415 = .6484, half width 1.96 x sqrt(.6484 x .3516 / 16.8415) = .2280.
    found = rogan_gladen((9, 13), (10**9, 10**9), (10**9, 10**9))
    assert found == (pytest.approx(9 / 13), pytest.approx(0.4206, abs=1e-3), pytest.approx(0.8766, abs=1e-3))


def test_a_judge_no_better_than_chance_corrects_nothing() -> None:
    assert rogan_gladen((6, 10), (5, 10), (5, 10)) is None
    with pytest.raises(ValueError, match="needs a trial"):
        rogan_gladen((6, 10), (0, 0), (5, 10))


def test_fewer_labels_make_a_wider_interval_within_the_unit_interval() -> None:
    widths = []
    for labels in (10, 100, 10_000):
        found = rogan_gladen((50, 100), (labels * 9 // 10, labels), (labels * 9 // 10, labels))
        assert found is not None
        assert 0 <= found[1] <= found[0] <= found[2] <= 1
        widths.append(found[2] - found[1])
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(
    ("rate", "sensitivity", "specificity", "labels"), [(0.8, 0.9, 0.85, 60), (0.5, 0.8, 0.8, 40), (0.95, 0.95, 0.7, 50)]
)
def test_at_least_94_of_100_intervals_hold_the_true_rate(rate: float, sensitivity: float, specificity: float, labels: int) -> None:
    draw = np.random.default_rng(20261130)
    held = 0
    for _ in range(2_000):
        approved = int(draw.binomial(200, rate * sensitivity + (1 - rate) * (1 - specificity)))
        found = rogan_gladen(
            (approved, 200), (int(draw.binomial(labels, sensitivity)), labels), (int(draw.binomial(labels, specificity)), labels)
        )
        held += found is None or found[1] <= rate <= found[2]
    assert held / 2_000 >= 0.94


def audit(sensitivity: float | None, specificity: float | None, labels: int = 50, metric: str = "claim_faithfulness") -> list[Row]:
    given = {"sensitivity": sensitivity, "specificity": specificity}
    return [
        complete("judge_audit", judge="panel", metric=metric, measure=m, value=v, labels=labels if v is not None else 0)
        for m, v in given.items()
    ]


def test_only_the_audited_metric_is_corrected_and_each_split_by_itself() -> None:
    scores = [score(f"q{n}", "claim_faithfulness@panel", v) for n, v in enumerate((1.0, 0.5, 0.49, 0.0))]
    scores += [
        score("d", "claim_faithfulness@panel", 1.0, split="development"),
        score("q0", "hallucination@panel", 0.1),
        score("q0", "correct", 1.0),
    ]
    scores += [score("q9", "claim_faithfulness@panel", None, status="failed", reason="timeout")]
    rows = corrected_rates(scores, audit(0.9, 0.8))
    assert [(r["metric"], r["split"]) for r in rows] == [
        ("claim_faithfulness@panel", "development"),
        ("claim_faithfulness@panel", "release"),
    ]
    release = rows[1]
    assert set(release) == set(TABLES["corrected_rates"].columns)
    assert (release["apparent"], release["questions"], release["sensitivity"], release["specificity"]) == (0.5, 4, 0.9, 0.8)
    assert release["value"] == pytest.approx((0.5 + 0.8 - 1) / 0.7)
    assert release["method"] == METHOD
    assert "Rogan-Gladen" in METHOD


@pytest.mark.parametrize(
    ("scores", "known", "reason"),
    [
        ([score("q", "ragas_faithfulness@panel", 1.0)], [], "no_labels"),
        ([score("q", "ragas_faithfulness@panel", 1.0)], audit(0.9, None, metric="faithfulness"), "no_labels"),
        ([score("q", "ragas_faithfulness@panel", 1.0)], audit(0.5, 0.4, metric="faithfulness"), "uninformative_judge"),
        ([score("q", "ragas_faithfulness@panel", None, status="failed", reason="timeout")], audit(0.9, 0.9, metric="faithfulness"), "nothing_to_measure"),
    ],
)  # fmt: skip
def test_what_cannot_be_corrected_says_why(scores: list[Row], known: list[Row], reason: str) -> None:
    (row,) = corrected_rates(scores, known)
    assert (row["status"], row["reason"], row["value"]) == ("not_applicable", reason, None)
    assert reason in REASONS
    assert row["apparent"] is None or not math.isnan(row["apparent"])
