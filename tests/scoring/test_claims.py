"""Verdicts are a partition of the claims or no score, and RAGChecker's stored verdicts give its published figures."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from rag_eval_assets.scoring.claims import merged, ragchecker, supported_share


def test_the_share_of_supported_claims_is_the_score() -> None:
    assert supported_share(["a", "b"], ["a"], ["b"]).value == 0.5
    assert supported_share(["a", "b", "c", "d"], ["a", "c", "d"], ["b"]).value == 0.75


def test_no_claims_is_no_score() -> None:
    found = supported_share([], [], [])
    assert (found.value, found.status, found.reason) == (None, "not_applicable", "no_claims")


@pytest.mark.parametrize(
    ("claims", "supported", "unsupported", "told"),
    [
        (["a", "b"], ["a", "b"], ["b"], "both lists"),
        (["a", "b"], ["a"], [], "neither list"),
        (["a"], ["a", "z"], [], "no claim of the answer"),
        (["a"], ["a", "A "], [], "judged twice"),
        (["a", "a"], ["a"], [], "not merged"),
        (["a", " "], ["a"], [], "blank"),
        ([], ["a"], [], "no claim of the answer"),
        (["a"], [], [], "neither list"),
    ],
)
def test_verdicts_that_are_no_partition_fail_the_row(claims: list[str], supported: list[str], unsupported: list[str], told: str) -> None:
    found = supported_share(claims, supported, unsupported)
    assert (found.value, found.status, found.reason) == (None, "failed", "unparsable_judgment")
    assert told in str(found.explanation)


def test_equal_claims_merge_before_judging() -> None:
    assert merged(["The lid  is blue.", "the lid is blue.", "It boils."]) == ["The lid is blue.", "It boils."]


def test_unequal_lists_of_verdicts_are_refused() -> None:
    with pytest.raises(ValueError, match="one verdict"):
        ragchecker([True], [True], [[True]], [])
    with pytest.raises(ValueError, match="delivered chunk"):
        ragchecker([True], [True], [[True]], [[True, False]])


@pytest.mark.reference
def test_stored_verdicts_give_the_published_figures(shared: Path) -> None:
    stored = json.loads((shared / "ragchecker/examples/checking_outputs.json").read_text())

    def entailed(verdicts: list[str]) -> list[bool]:
        return [verdict == "Entailment" for verdict in verdicts]

    rows = [
        ragchecker(
            entailed(row["answer2response"]),
            entailed(row["response2answer"]),
            [entailed(by_chunk) for by_chunk in row["retrieved2answer"]],
            [entailed(by_chunk) for by_chunk in row["retrieved2response"]],
        )
        for row in stored["results"]
    ]
    for ours, theirs in zip(rows, stored["results"], strict=True):
        assert ours == pytest.approx({name: theirs["metrics"][name] for name in ours})
    means = {name: round(100 * fmean(row[name] for row in rows if row[name] is not None), 1) for name in rows[0]}
    assert means == {
        "precision": 76.4, "recall": 62.5, "f1": 68.3, "claim_recall": 61.4, "context_precision": 87.5, "context_utilization": 87.5,
        "faithfulness": 68.2, "hallucination": 4.5, "self_knowledge": 27.3,
    }  # fmt: skip
