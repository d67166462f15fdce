"""What is kept and what is forgotten, by hand."""

from __future__ import annotations

from ingestion.recent import Recent


def test_the_value_used_longest_ago_is_forgotten_first() -> None:
    kept: Recent[str, int] = Recent(5)
    kept.put("a", 1, 2)
    kept.put("b", 2, 2)
    assert kept.get("a") == 1
    kept.put("c", 3, 3)
    assert (kept.kept(), kept.get("b")) == (["a", "c"], None)


def test_a_key_put_again_weighs_what_its_last_value_weighs() -> None:
    kept: Recent[str, int] = Recent(5)
    kept.put("a", 1, 5)
    kept.put("a", 2, 1)
    kept.put("b", 3, 4)
    assert (kept.get("a"), kept.get("b")) == (2, 3)


def test_a_value_over_the_bound_is_kept_alone() -> None:
    kept: Recent[str, int] = Recent(5)
    kept.put("a", 1, 1)
    kept.put("b", 2, 9)
    assert kept.kept() == ["b"]
