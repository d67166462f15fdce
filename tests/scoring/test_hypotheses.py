"""Decisions err no more often than they say, by simulation, and Holm's step-down gives its worked values."""

from __future__ import annotations

import os

import numpy as np
import pytest

from rag_eval_assets.scoring.clusters import question_clusters
from rag_eval_assets.scoring.hypotheses import decide, holm, questions_for_half_width, questions_for_margin, weigh
from tests.scoring.builders import question

DRAWS = int(os.environ.get("RAG_EVAL_DRAWS", "400"))
"""Simulated comparisons a case."""

LEVEL = 0.025


def allowed(rate: float) -> float:
    """Share of draws that a true error rate exceeds once in a thousand."""
    return rate + 3.1 * (rate * (1 - rate) / DRAWS) ** 0.5


def pairs(random: np.random.Generator, kind: str, clusters: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Scores of two systems that do not differ in the mean, and the cluster of each question."""
    sizes = random.integers(1, 6, clusters) if kind.startswith("clustered") else np.ones(clusters, dtype=int)
    inside = np.repeat(np.arange(clusters), sizes)
    if kind.endswith("rate"):
        # One draw a cluster: its questions turn together, as far from independent as they can be.
        flip = random.random((2, clusters))[:, inside] < 0.8
        return flip[0].astype(float), flip[1].astype(float), inside.tolist()
    level = random.beta(5, 2, clusters)[inside]
    now, before = (np.clip(level + random.normal(0, 0.1, clusters)[inside], 0, 1) for _ in range(2))
    return now, before, inside.tolist()


@pytest.mark.parametrize("clusters", [13, 80])
@pytest.mark.parametrize("kind", ["rate", "score", "clustered rate", "clustered score"])
def test_intervals_of_differences_cover_at_least_as_often_as_they_say(kind: str, clusters: int) -> None:
    random = np.random.default_rng(5)
    covered = 0
    for _ in range(DRAWS):
        evidence = weigh(*pairs(random, kind, clusters), "superiority", 0.0)
        covered += evidence.lower <= 0 <= evidence.upper
    assert covered / DRAWS >= 0.94


@pytest.mark.parametrize("kind", ["rate", "clustered score"])
def test_without_a_difference_a_family_of_claims_decides_at_most_one_time_in_twenty(kind: str) -> None:
    random = np.random.default_rng(6)
    wrong = 0
    for _ in range(DRAWS):
        family = [weigh(*pairs(random, kind, 60), "superiority", 0.0, family=4) for _ in range(4)]
        adjusted, harm = holm([e.p_value for e in family]), holm([e.p_harm for e in family])
        found = [decide("superiority", e, p, q, level=LEVEL, in_the_way=None)[0] for e, p, q in zip(family, adjusted, harm, strict=True)]
        wrong += found != ["INSUFFICIENT_EVIDENCE"] * 4
    assert wrong / DRAWS <= 0.05


def test_a_candidate_that_is_worse_by_the_margin_passes_as_not_inferior_at_most_one_time_in_forty() -> None:
    random = np.random.default_rng(7)
    passed = 0
    for _ in range(DRAWS):
        worse = random.random(150) < 0.1
        evidence = weigh(np.where(worse, 0.0, 1.0), np.ones(150), range(150), "non_inferiority", 0.1)
        passed += evidence.p_value <= LEVEL
    assert passed / DRAWS <= allowed(LEVEL)


def test_the_p_value_and_the_interval_say_the_same() -> None:
    random = np.random.default_rng(8)
    for _ in range(50):
        evidence = weigh(*pairs(random, "clustered score", 40), "non_inferiority", 0.05)
        assert (evidence.p_value <= LEVEL) == (evidence.lower > -0.05)


def test_holms_adjusted_values_are_those_of_the_worked_example() -> None:
    """Four p-values: the least times 4, the next times 3, ..., none below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_as_many_questions_as_asked_for_show_the_margin_as_often_as_asked_for() -> None:
    needed = questions_for_margin(0.1, changed=0.2)
    assert needed is not None
    random = np.random.default_rng(9)

    def shown(questions: int) -> float:
        passed = 0
        for _ in range(DRAWS):
            change = random.choice([-1, 0, 1], questions, p=[0.1, 0.8, 0.1])
            evidence = weigh((change > 0) * 1.0, (change < 0) * 1.0, range(questions), "non_inferiority", 0.1)
            passed += evidence.p_value <= LEVEL
        return passed / DRAWS

    assert 0.7 <= shown(needed) <= 0.9
    assert shown(needed // 2) < 0.6


def test_planning_refuses_what_cannot_be_and_gives_up_where_no_number_will_do() -> None:
    with pytest.raises(ValueError, match=r"0\.2 cannot come from a share of 0\.1"):
        questions_for_margin(0.05, difference=0.2, changed=0.1)
    assert questions_for_margin(0.02, difference=-0.05, changed=0.1) is None


def test_two_hundred_questions_know_a_rate_of_four_fifths_within_six_points() -> None:
    """The normal approximation gives 5.5 points for 200; the exact interval is a little wider."""
    needed = questions_for_half_width(0.055)
    assert needed is not None
    assert 200 < needed < 260


def test_clusters_are_questions_linked_by_gold_documents() -> None:
    def of(name: str, *documents: str, grade: int = 1) -> dict[str, object]:
        return question(name, evidence=[{"document": d, "grade": grade} for d in documents])

    asked = [of("a", "x"), of("b", "x", "y"), of("c", "y"), of("d", "z"), of("e"), of("f", "z", grade=0)]
    assert question_clusters(asked) == {"a": "a", "b": "a", "c": "a", "d": "d", "e": "e", "f": "f"}
    assert question_clusters(asked[::-1]) == question_clusters(asked)
