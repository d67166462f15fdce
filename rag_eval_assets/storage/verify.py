"""Reads every table file whole and names what is torn, foreign or missing, and rankings that break an entitlement.

What does not belong here: mending (`sync` does).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.retrieval.entitlement import RANKINGS, Entitlement, verify_entitlement
from rag_eval_assets.retrieval.filters import FILTER_COLUMNS
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.owner import MARKER
from rag_eval_assets.storage.parquet import ContractError, TornFileError
from rag_eval_assets.storage.staleness import evaluate
from rag_eval_assets.storage.sync import open_catalogue

Kind = Literal["torn", "foreign", "missing", "unexplained", "left over", "not_permitted"]
NAMED = 5
"""Examples that a problem names before it counts."""

_SYNC = "Run 'rag-eval sync'."
_KEPT = "Use none of these rankings. A sync alone keeps them: delete the file of each, then run 'rag-eval sync'."
_MENDS: dict[Kind, str] = {
    "torn": _SYNC,
    "foreign": "Move them away or delete them.",
    "left over": "Run 'rag-eval prune --delete'.",
    "missing": _SYNC,
    "unexplained": _SYNC,
    "not_permitted": _SYNC,
}
_TOLD: dict[Kind, str] = {
    "torn": "{n} files do not hold what was written",
    "foreign": "{n} files belong to no asset partition of this graph",
    "left over": "{n} files are tables of partitions that are no longer there",
    "missing": "{n} asset partitions have no file",
    "unexplained": "{n} tables were made from other versions than those that are there",
    "not_permitted": "{n} hits are documents that the caller of their question may not read",
}


@dataclass(frozen=True)
class Problem:
    """One kind of thing wrong with the storage: how often, examples, and the mend that works for all of them."""

    kind: Kind
    count: int
    examples: tuple[str, ...]
    mend: str

    @property
    def what(self) -> str:
        """The problem without its mend: how many, then examples, `NAMED` at most."""
        more = " and more" if self.count > len(self.examples) else ""
        return f"{_TOLD[self.kind].format(n=self.count)}: {'; '.join(self.examples)}{more}"

    @property
    def harmless(self) -> bool:
        """Whether every table that the graph expects can still be trusted."""
        return self.kind == "left over"


def entitlements(catalogue: Catalogue, nodes: Iterable[AssetPartition]) -> dict[AssetPartition, Entitlement]:
    """What entitlement comes to in each table of rankings that is there, by the golden set and the documents as they are stored."""

    def rows(asset: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = catalogue.read(AssetPartition(asset), columns)[0].to_pylist()
        return found

    questions, documents = rows("golden_questions", ("question_id", "entitlement")), rows("unique_documents", FILTER_COLUMNS)
    return {
        node: verify_entitlement(catalogue.read(node, ("question_id", "rank", "doc_id"))[0], questions, documents)
        for node in nodes
        if catalogue.footer(node) is not None
    }


def verify_tables(folder: Folder) -> list[Problem]:
    """Every problem of the table root, one of each kind and mend, in a fixed order.

    Torn: pages, rows or footer do not match their checksums. Foreign: a file that is no table. Left over: the table of a partition that
    settings no longer have. Missing: an asset partition without a file. Unexplained: a footer that names an input version which is not
    the one on disk. Not permitted: a ranking that holds a document which its question's caller may not read; a sync makes it anew only
    where something above it changed.
    """
    graph, catalogue = Graph(folder), open_catalogue(folder)
    found: dict[Kind, list[str]] = {kind: [] for kind in ("foreign", "torn", "left over", "missing", "unexplained")}
    expected = set(graph.nodes())
    versions: dict[str, str] = {}
    whole = {}
    for path, node in catalogue.files():
        if path.name == MARKER and path.parent == catalogue.root:
            continue
        if node is None or node not in expected:
            found["foreign" if node is None else "left over"].append(str(path))
            continue
        try:
            footer = catalogue.verify(node)
        except (TornFileError, ContractError) as error:
            found["torn"].append(str(error))
            expected.discard(node)
            continue
        if footer is not None:
            whole[node] = footer
            versions[str(node)] = footer.data_version
    found["missing"] = [str(node) for node in graph.nodes() if node in expected and node not in whole]
    for node, footer in whole.items():
        moved = [name for name, version in footer.inputs.items() if versions.get(name, version) != version]
        if moved:
            found["unexplained"].append(f"{node} from {', '.join(moved)}")
    problems = [Problem(kind, len(told), tuple(told[:NAMED]), _MENDS[kind]) for kind, told in found.items() if told]
    if {AssetPartition("golden_questions"), AssetPartition("unique_documents")} <= whole.keys():
        problems += _not_permitted(graph, catalogue, [node for node in whole if node.asset in RANKINGS])
    catalogue.save()
    return problems


def _not_permitted(graph: Graph, catalogue: Catalogue, rankings: Sequence[AssetPartition]) -> list[Problem]:
    """Hits that are not permitted: those of tables that the next sync makes anew, and those that it keeps."""
    broken = {node: each for node, each in entitlements(catalogue, rankings).items() if each.violations}
    if not broken:
        return []
    statuses = evaluate(graph, catalogue, {})

    def kept(node: AssetPartition) -> bool:
        return statuses[node].state == "fresh" and all(map(kept, graph.upstream(node)))

    problems = []
    for mend, nodes in ((_MENDS["not_permitted"], [n for n in broken if not kept(n)]), (_KEPT, [n for n in broken if kept(n)])):
        told = [f"{node} answers question {question} with {doc_id}" for node in nodes for question, doc_id in broken[node].examples]
        if told:
            problems.append(Problem("not_permitted", sum(broken[node].violations for node in nodes), tuple(told[:NAMED]), mend))
    return problems
