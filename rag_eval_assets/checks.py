"""Asset checks: gate decisions as Dagster shows them, and whether a table's file still is what its footer says.

What belongs here: mirrors of facts that stand in tables and files. What does not: decisions (`scoring.gates` makes them; nothing
reads them back from the event log).
"""

import re
from collections.abc import Sequence

import dagster as dg
import pyarrow as pa

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.retrieval.entitlement import RANKINGS
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.parquet import ContractError, TornFileError
from rag_eval_assets.storage.verify import entitlements
from rag_eval_assets.tables import FAILED


def check_name(gate: str) -> str:
    """A gate's name in Dagster's alphabet."""
    return re.sub(r"[^A-Za-z0-9_]", "_", gate)


def gate_evaluations(gate_results: pa.Table, gates: Sequence[str]) -> list[dg.AssetCheckResult]:
    """One evaluation a gate; it passes when the gate passes in every scope."""
    rows = gate_results.to_pylist()
    results = []
    for gate in gates:
        mine = [row for row in rows if row["gate"] == gate]
        results.append(
            dg.AssetCheckResult(
                check_name=check_name(gate),
                passed=bool(mine) and all(row["decision"] == "PASS" for row in mine),
                severity=dg.AssetCheckSeverity.ERROR,
                metadata={
                    row["scope"]: f"{row['decision']}: {row['value']} ({row['direction']} {row['threshold']}, {row['decision_reason']})"
                    for row in mine
                },
            )
        )
    return results


def _file_check(graph: Graph, catalogue: Catalogue, name: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=name,
        name="file_matches_footer",
        description=(
            "Reads every file of the table whole, or the one its run made: page checksums, schema, and the data version recomputed "
            "from its rows."
        ),
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        mine = context.partition_key if context.has_partition_key else None
        partitions = [mine] if mine in graph.partitions(name) else graph.partitions(name)
        broken: dict[str, str] = {}
        files = rows = failed = 0
        for partition in partitions:
            node = AssetPartition(name, partition)
            try:
                footer = catalogue.verify(node)
                table = catalogue.read(node)[0] if footer else None
            except (TornFileError, ContractError) as error:
                broken[str(node)] = str(error)
                continue
            if table is not None:
                files += 1
                rows += table.num_rows
                if "status" in table.column_names:
                    failed += table.column("status").to_pylist().count(FAILED)
        return dg.AssetCheckResult(
            passed=not broken,
            severity=dg.AssetCheckSeverity.ERROR,
            metadata={"files": files, "rows": rows, "failed_rows": failed, **broken},
        )

    return check


def _entitlement_check(graph: Graph, catalogue: Catalogue, name: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=name,
        name="entitlement_holds",
        blocking=True,
        description=(
            "Counts hits in documents that their question's caller may not read, from the stored rankings, the golden set and the "
            "documents alone. One is enough: what is made from these rankings in the same run is not made."
        ),
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        mine = context.partition_key if context.has_partition_key else None
        partitions = [mine] if mine in graph.partitions(name) else graph.partitions(name)
        found = entitlements(catalogue, [AssetPartition(name, partition) for partition in partitions])
        told = {
            str(node): "; ".join(f"question {question} finds {doc_id}" for question, doc_id in each.examples)
            for node, each in found.items()
            if each.violations
        }
        counts = {what: sum(getattr(each, what) for each in found.values()) for what in ("compared", "violations", "unknown")}
        return dg.AssetCheckResult(passed=not counts["violations"], severity=dg.AssetCheckSeverity.ERROR, metadata={**counts, **told})

    return check


def file_checks(graph: Graph, catalogue: Catalogue) -> list[dg.AssetChecksDefinition]:
    """Checks of what is stored, run on demand, with their assets in the UI, and by the `verify_files` job: one an asset of its file, and
    one of entitlement for each table of rankings. A sync verifies by itself, as does `rag-eval verify`."""
    return [
        *(_file_check(graph, catalogue, name) for name in graph.order),
        *(_entitlement_check(graph, catalogue, name) for name in RANKINGS),
    ]
