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
from rag_eval_assets.storage.sync import open_catalogue


@dataclass(frozen=True)
class Problem:
    """One thing wrong with the storage, and what to do about it."""

    kind: Literal["torn", "foreign", "missing", "unexplained", "left over", "not_permitted"]
    what: str
    mend: str

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
    """Every problem of the table root, in a fixed order.

    Torn: pages, rows or footer do not match their checksums. Foreign: a file that is no table. Left over: the table of a partition that
    settings no longer have. Missing: an asset partition without a file. Unexplained: a footer that names an input version which is not
    the one on disk. Not permitted: a ranking that holds a document which its question's caller may not read.
    """
    graph, catalogue = Graph(folder), open_catalogue(folder)
    problems: list[Problem] = []
    expected = set(graph.nodes())
    versions: dict[str, str] = {}
    whole = {}
    for path, node in catalogue.files():
        if path.name == MARKER and path.parent == catalogue.root:
            continue
        if node is not None and node not in expected:
            problems.append(Problem("left over", f"{path} is the table of a partition that is no longer there", "Run 'rag-eval prune'."))
            continue
        if node is None:
            problems.append(Problem("foreign", f"{path} belongs to no asset partition of this graph", "Move it away or delete it."))
            continue
        try:
            footer = catalogue.verify(node)
        except (TornFileError, ContractError) as error:
            problems.append(Problem("torn", str(error), "Run 'rag-eval sync'."))
            expected.discard(node)
            continue
        if footer is not None:
            whole[node] = footer
            versions[str(node)] = footer.data_version
    for node in graph.nodes():
        if node in expected and node not in whole:
            problems.append(Problem("missing", f"{node} has no file", "Run 'rag-eval sync'."))
    for node, footer in whole.items():
        moved = [name for name, version in footer.inputs.items() if versions.get(name, version) != version]
        if moved:
            problems.append(Problem("unexplained", f"{node} was made from other versions of {', '.join(moved)}", "Run 'rag-eval sync'."))
    if {AssetPartition("golden_questions"), AssetPartition("unique_documents")} <= whole.keys():
        for node, found in entitlements(catalogue, [node for node in whole if node.asset in RANKINGS]).items():
            for question, doc_id in found.examples:
                told = f"{node} answers question {question} with {doc_id}, which its caller may not read ({found.violations} such hits)"
                problems.append(Problem("not_permitted", told, "Run 'rag-eval sync'; if it stands then, use none of these rankings."))
    catalogue.save()
    return problems
