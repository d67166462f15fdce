"""What may run next, on a hand-made graph: a -> b[p] -> c[p] -> d, and e beside."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.storage.staleness import Group, Status, plan

A, D, E = AssetPartition("a"), AssetPartition("d"), AssetPartition("e")
B = {p: AssetPartition("b", p) for p in ("x", "y")}
C = {p: AssetPartition("c", p) for p in ("x", "y")}


@dataclass
class HandGraph:
    edges: dict[AssetPartition, list[AssetPartition]] = field(
        default_factory=lambda: {
            A: [],
            E: [],
            B["x"]: [A],
            B["y"]: [A],
            C["x"]: [B["x"]],
            C["y"]: [B["y"]],
            D: [C["x"], C["y"]],
        }
    )
    assets: Any = field(
        default_factory=lambda: {
            n: SimpleNamespace(contract=SimpleNamespace(family="chunking" if n in ("b", "c") else None)) for n in ("a", "b", "c", "d", "e")
        }
    )

    def upstream(self, node: AssetPartition) -> list[AssetPartition]:
        return self.edges[node]


def states(**named: str) -> dict[AssetPartition, Status]:
    """Every node fresh but the named ones, such as b_x='stale'."""
    graph = HandGraph()
    found = {}
    for node in graph.edges:
        name = node.asset + (f"_{node.partition}" if node.partition else "")
        found[node] = Status(node, named.get(name, "fresh"))  # type: ignore[arg-type]
    return found


def run(failed: tuple[AssetPartition, ...] = (), **named: str) -> list[Group]:
    return plan(HandGraph(), states(**named), failed)  # type: ignore[arg-type]


def test_nothing_runs_where_everything_is_fresh() -> None:
    assert run() == []


def test_only_the_topmost_stale_level_runs_where_files_stand_below() -> None:
    assert run(a="stale", b_x="stale", d="stale") == [Group(None, (A,))]


def test_missing_partitions_join_the_run_of_what_stands_above_them_in_the_same_partition() -> None:
    assert run(b_x="missing", c_x="missing") == [Group("x", (B["x"], C["x"]))]
    assert run(b_x="stale", c_x="missing") == [Group("x", (B["x"], C["x"]))]


def test_a_missing_partition_below_another_partition_waits() -> None:
    assert run(b_x="missing", c_x="missing", d="missing") == [Group("x", (B["x"], C["x"]))]


def test_a_stale_partition_below_a_stale_one_waits_to_see_whether_that_changes() -> None:
    assert run(b_x="stale", c_x="stale") == [Group("x", (B["x"],))]


def test_a_fresh_file_in_between_stops_the_wave() -> None:
    assert run(a="stale", d="missing") == [Group(None, (A,))]


def test_partitions_are_runs_of_their_own_and_unpartitioned_assets_share_one() -> None:
    assert run(a="stale", e="missing") == [Group(None, (A, E))]
    assert run(b_x="stale", b_y="stale") == [Group("x", (B["x"],)), Group("y", (B["y"],))]


def test_a_failed_partition_stops_only_what_is_below_it() -> None:
    assert run(failed=(B["x"],), b_x="missing", c_x="missing", b_y="missing", c_y="missing", d="missing") == [Group("y", (B["y"], C["y"]))]


@pytest.mark.parametrize("state", ["missing", "stale"])
def test_a_root_and_an_independent_asset_do_not_wait_for_each_other(state: str) -> None:
    assert run(a=state, e=state, b_x="stale") == [Group(None, (A, E))]
