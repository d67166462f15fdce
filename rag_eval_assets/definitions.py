"""The code location: turns the declared graph into Dagster assets and puts checks, jobs, schedule and sensor beside them.

What belongs here: the translation, once for all assets. What does not: bodies (`assets`), contracts (`tables`), writing (`storage`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from rag_eval_assets.automation import jobs, nightly_schedule, reconcile_sensor
from rag_eval_assets.checks import check_name, file_checks, gate_evaluations
from rag_eval_assets.graph import OWNER, AssetPartition, Graph, TableAsset
from rag_eval_assets.progress import Paced
from rag_eval_assets.report import canvas
from rag_eval_assets.settings import Folder, Settings
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.dagster_private import RUN_TAG
from rag_eval_assets.storage.io_manager import ParquetIOManager
from rag_eval_assets.storage.produce import Finished, produce
from rag_eval_assets.storage.sync import open_catalogue
from rag_eval_assets.tables import TABLES
from rag_eval_assets.unwritable import unwritable

PREVIEW_ROWS = 5
PREVIEW_CHARACTERS = 48  # the UI's cells are narrow: longer texts push the next row off the page
HASH_CHARACTERS = 12
PICTURE_BYTES = 100_000
OWN_COLUMNS = frozenset({"status", "reason", "detail", "seconds", "work_key", "value", "threshold", "permutations", "label"})
"""Columns that every table fills for itself: the same name upstream is no source of them."""

Progress = Callable[[AssetPartition, int, int], None]


def column_lineage(asset: TableAsset, settings: Settings) -> dg.TableColumnLineage:
    """Each column with the columns of the same name it is carried over from; a hash only where it is of the same thing."""
    contract = asset.contract
    sources: dict[str, list[dg.TableColumnDep]] = {}
    for name in asset.inputs:
        for column in asset.columns_of(name, settings, None) or TABLES[name].columns:
            if column not in contract.columns or column in OWN_COLUMNS:
                continue
            if column.endswith("sha256") and contract.description(column) != TABLES[name].description(column):
                continue
            sources.setdefault(column, []).append(dg.TableColumnDep(asset_key=dg.AssetKey(name), column_name=column))
    return dg.TableColumnLineage({column: sources[column] for column in contract.columns if column in sources})


def column_schema(asset: TableAsset, lineage: dg.TableColumnLineage) -> dg.TableSchema:
    """The contract as Dagster shows it. The open-source UI draws no column lineage, so a description names the sources."""
    contract = asset.contract

    def described(f: pa.Field) -> str:
        told = [contract.description(f.name)]
        inner = f.type.value_type if pa.types.is_list(f.type) else f.type
        if pa.types.is_struct(inner):
            told.append(f"Fields: {', '.join(part.name for part in inner)}.")
        if sources := lineage.deps_by_column.get(f.name):
            told.append(f"From {', '.join(dep.asset_key.to_user_string() for dep in sources)}.")
        return " ".join(told)

    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=f.name,
                type=re.sub(r"<item: (?:(struct)<.*|(.*))>$", r"<\1\2>", str(f.type)),  # a struct in full leaves the page no room
                description=described(f),
                constraints=dg.TableColumnConstraints(nullable=f.nullable, unique=contract.key == (f.name,)),
                tags={} if contract.role(f.name) == "content" else {"role": contract.role(f.name)},
            )
            for f in contract.schema
        ]
    )


def _short(column: str, value: Any) -> str | int | float | bool | None:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    most = HASH_CHARACTERS if column.endswith("sha256") or column == "work_key" else PREVIEW_CHARACTERS
    return text if len(text) <= most else text[: most - 1] + "…"


def preview(finished: Finished) -> dg.TableMetadataValue | None:
    """The first rows in key order, texts cut short; only columns of the data version, so no vectors and no times."""
    rows = finished.table.select(TABLES[finished.node.asset].versioned_columns).slice(0, PREVIEW_ROWS).to_pylist()
    if not rows:
        return None
    return dg.MetadataValue.table([dg.TableRecord({k: _short(k, v) for k, v in row.items()}) for row in rows])


def materialization_metadata(finished: Finished, lineage: dg.TableColumnLineage) -> dict[str, Any]:
    """What the UI shows of one materialization."""
    count = "dagster/row_count" if finished.node.partition is None else "dagster/partition_row_count"
    metadata: dict[str, Any] = {count: finished.table.num_rows, "rows_computed": finished.computed, **finished.product.notes}
    shown = preview(finished)
    if shown is not None:
        metadata["preview"] = shown
    for title, svg in finished.product.pictures.items():
        if len(svg) <= PICTURE_BYTES:
            metadata[title] = dg.MetadataValue.md(canvas.as_markdown(svg, title))
    return {**metadata, "dagster/column_lineage": lineage}


def _typed_failures() -> tuple[type[Exception], ...]:
    from ingestion.labels import LabelError
    from ingestion.sources import CorpusError
    from rag_eval_assets.golden import GoldenError
    from rag_eval_assets.resources.responses import DamagedReplyError
    from rag_eval_assets.storage.parquet import ContractError, TornFileError
    from rag_eval_assets.strict import SettingsError

    return (ContractError, TornFileError, CorpusError, DamagedReplyError, GoldenError, LabelError, SettingsError)


def _partitions(graph: Graph) -> dict[str | None, dg.StaticPartitionsDefinition | None]:
    return {None: None, **{family: dg.StaticPartitionsDefinition(list(keys)) for family, keys in graph.families.items()}}


def _mapping(graph: Graph, name: str, table: str) -> dg.PartitionMapping | None:
    """Dagster's form of Graph.input_partitions, where its default would be another."""
    mine, theirs = TABLES[name].family, TABLES[table].family
    if (mine, theirs) == ("system", "chunking"):
        reads: dict[str, set[str]] = {}
        for system in graph.families["system"]:
            for key in graph.input_partitions(name, system, table):
                reads.setdefault(str(key), set()).add(system)
        return dg.StaticPartitionMapping({key: sorted(systems) for key, systems in sorted(reads.items())})
    if mine is None and theirs is not None:
        return dg.SpecificPartitionsPartitionMapping([str(p) for p in graph.input_partitions(name, None, table)])
    return None


def to_dagster(
    graph: Graph, catalogue: Catalogue, asset: TableAsset, grids: Mapping[str | None, Any], on_progress: Progress | None
) -> dg.AssetsDefinition:
    """One declared asset as Dagster's."""
    contract = asset.contract
    gates = graph.settings.decided if asset.name == "gate_results" else []
    lineage = column_lineage(asset, graph.settings)

    def compute(context):  # type: ignore[no-untyped-def]  # Dagster reads these annotations and wants none or real ones
        node = AssetPartition(asset.name, context.partition_key if context.has_partition_key and contract.family else None)
        tell = on_progress or Paced(context.log.info)
        try:
            finished = produce(graph, catalogue, node, lambda done, total: tell(node, done, total))
        except _typed_failures() as error:
            raise dg.Failure(f"{node}: {error}", allow_retries=False) from error
        except Exception as error:
            if (told := unwritable(error, graph.folder.state)) is not None:
                raise told from error
            raise
        return dg.MaterializeResult(
            value=finished,
            data_version=dg.DataVersion(finished.data_version),
            metadata=materialization_metadata(finished, lineage),
            tags={RUN_TAG: context.run_id},
            check_results=gate_evaluations(finished.table, gates) if gates else None,
        )

    return dg.asset(
        name=asset.name,
        deps=[dg.AssetDep(t, partition_mapping=_mapping(graph, asset.name, t)) for t in asset.inputs],
        partitions_def=grids[contract.family],
        code_version=graph.dagster_code_version(asset.name),
        group_name=contract.group,
        description=f"{asset.description}\n\nA row is {contract.row}; key: {', '.join(contract.key)}.",
        kinds=set(asset.kinds),
        owners=[OWNER],
        pool=asset.pool,
        tags={"root": "true"} if contract.root else None,
        metadata={
            "dagster/column_schema": column_schema(asset, lineage),
            "dagster/column_lineage": lineage,
            "dagster/uri": str(catalogue.root / asset.name if contract.family else catalogue.path(AssetPartition(asset.name))),
        },
        io_manager_key="tables",
        check_specs=[dg.AssetCheckSpec(check_name(g), asset=asset.name, description=f"{g} of evaluation.yaml or its policy") for g in gates]
        or None,
    )(compute)


def build_definitions(graph: Graph, catalogue: Catalogue, on_progress: Progress | None = None) -> dg.Definitions:
    """Everything Dagster is told, for one evaluation folder.

    A sync, which hears of progress, has no file checks: it verifies what it reads, and Dagster would run them in each of its runs.
    """
    grids = _partitions(graph)
    return dg.Definitions(
        assets=[to_dagster(graph, catalogue, graph.assets[name], grids, on_progress) for name in graph.order],
        asset_checks=file_checks(graph, catalogue) if on_progress is None else [],
        jobs=jobs(graph),
        schedules=[nightly_schedule(graph.settings)],
        sensors=[reconcile_sensor(graph)],
        resources={"tables": ParquetIOManager(catalogue)},
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The folder named by RAG_EVAL_DATA."""
    folder = Folder.from_environment()
    return build_definitions(Graph(folder), open_catalogue(folder))
