"""What is fresh, missing or stale, and why, computed from footers for any number of partitions; and what may run next.

What belongs here: the comparison of footers with the present graph, and the grouping of stale partitions into runs. What does
not: running them (`sync`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.parquet import ContractError, Footer, TornFileError
from rag_eval_assets.storage.versions import code_differences

State = Literal["fresh", "missing", "stale"]
RootVersions = Mapping[AssetPartition, str]


@dataclass(frozen=True)
class Status:
    """State of one asset partition with its reasons, one short sentence each."""

    node: AssetPartition
    state: State
    reasons: tuple[str, ...] = ()
    footer: Footer | None = None


def status_of(graph: Graph, catalogue: Catalogue, node: AssetPartition, roots: RootVersions) -> Status:
    """One hop: the file, its code version, its inputs' data versions, the set of its inputs; for a root the rescanned content."""
    try:
        footer = catalogue.footer(node)
    except (TornFileError, ContractError) as error:
        return Status(node, "missing", (f"unreadable: {error}",))
    if footer is None:
        return Status(node, "missing", ("no file",))
    reasons: list[str] = []
    code = graph.code_version(node)
    if footer.code_version != code.hash:
        reasons += code_differences(footer.code, code.facts) or ["code: the code version differs"]
    expected = graph.upstream(node)
    for name in sorted({str(u) for u in expected} - set(footer.inputs)):
        reasons.append(f"input: {name} is new")
    for name in sorted(set(footer.inputs) - {str(u) for u in expected}):
        reasons.append(f"input: {name} is gone")
    for up in expected:
        if str(up) not in footer.inputs:
            continue
        try:
            theirs = catalogue.footer(up)
        except (TornFileError, ContractError):
            theirs = None
        if theirs is not None and theirs.data_version != footer.inputs[str(up)]:
            reasons.append(f"input: {up} changed ({footer.inputs[str(up)][:8]} -> {theirs.data_version[:8]})")
    if node in roots and roots[node] != footer.data_version:
        reasons.append(f"input: files changed ({footer.data_version[:8]} -> {roots[node][:8]})")
    return Status(node, "stale" if reasons else "fresh", tuple(reasons), footer)


def evaluate(graph: Graph, catalogue: Catalogue, roots: RootVersions) -> dict[AssetPartition, Status]:
    """Status of every asset partition of the graph, inputs first."""
    with catalogue.one_look(graph.nodes()):
        return {node: status_of(graph, catalogue, node, roots) for node in graph.nodes()}


@dataclass(frozen=True)
class Group:
    """Asset partitions that share one run: one partition key (or none), inputs first."""

    partition: str | None
    nodes: tuple[AssetPartition, ...]


def plan(
    graph: Graph,
    statuses: Mapping[AssetPartition, Status],
    failed: Collection[AssetPartition] = (),
    selected: Callable[[AssetPartition], bool] = lambda node: True,
) -> list[Group]:
    """The runs that may start now.

    A partition may run when it is not fresh and nothing above it is. Missing partitions join the run of what stands above them in
    the same partition; where a file exists below, the wave stops there to look again. What failed, and all below it, waits.
    """
    settled: dict[AssetPartition, bool] = {}
    for node in statuses:
        settled[node] = statuses[node].state == "fresh" and all(settled[u] for u in graph.upstream(node))

    groups: dict[tuple[str | None, str | None], list[AssetPartition]] = {}
    taken: set[AssetPartition] = set()
    for node, status in statuses.items():
        if status.state == "fresh" or node in failed or not selected(node):
            continue
        key = (graph.assets[node.asset].contract.family, node.partition)
        above = [u for u in graph.upstream(node) if not settled[u]]
        joins = status.state == "missing" and all(u in taken and u in groups.get(key, ()) for u in above)
        if not above or joins:
            groups.setdefault(key, []).append(node)
            taken.add(node)
    return [Group(partition, tuple(nodes)) for (_, partition), nodes in groups.items()]
