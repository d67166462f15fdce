"""The Parquet IO manager: Dagster's inputs and outputs over the catalogue.

What belongs here: reading inputs by partition mapping, writing a finished table with the versions of what was really read, and the
facts Dagster shows. What does not: paths, bytes and checks (`catalogue`, `parquet`).
"""

from __future__ import annotations

import dagster as dg
import pyarrow as pa

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.parquet import to_table
from rag_eval_assets.storage.produce import Finished
from rag_eval_assets.tables import TABLES


class ParquetIOManager(dg.IOManager):
    """One Parquet file an asset partition. A footer names the data version of every input partition this step read."""

    def __init__(self, graph: Graph, catalogue: Catalogue) -> None:
        self.graph = graph
        self.catalogue = catalogue
        self._read: dict[tuple[str, str], dict[str, str]] = {}

    def load_input(self, context: dg.InputContext) -> pa.Table | dict[str, pa.Table]:
        """The upstream table; a dict by partition key where the asset fans in."""
        step = context.step_context
        name, consumer = context.asset_key.to_user_string(), step.step.key
        versions = self._read.setdefault((step.run_id, consumer), {})
        partition = step.partition_key if step.has_partition_key else None
        columns = self.graph.assets[consumer].columns_of(name, self.graph.settings, partition)

        def load(partition: str | None) -> pa.Table:
            node = AssetPartition(name, partition)
            table, footer = self.catalogue.read(node, columns)
            versions[str(node)] = footer.data_version
            return table

        if not context.has_asset_partitions:
            return load(None)
        keys = list(context.asset_partition_keys)
        if self.graph.fans_in(consumer, name):
            return {key: load(key) for key in keys}
        if not keys:
            empty = to_table([], TABLES[name])
            return empty.select(list(columns)) if columns else empty
        if len(keys) != 1:
            raise ValueError(f"{consumer} reads one partition of {name}, the mapping gave {keys}")
        return load(keys[0])

    def handle_output(self, context: dg.OutputContext, obj: Finished) -> None:
        """Write the finished table atomically and tell Dagster where it is and what its bytes hash to."""
        inputs = self._read.pop((context.run_id, context.step_key), {})
        footer = obj.footer(context.run_id, inputs)
        path, sha256 = self.catalogue.write(obj.node, obj.table, footer)
        self.catalogue.save()
        context.add_output_metadata({"dagster/uri": dg.MetadataValue.path(str(path)), "file_sha256": sha256})
