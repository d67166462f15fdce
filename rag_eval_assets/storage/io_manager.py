"""The Parquet IO manager: Dagster's way to the catalogue.

What belongs here: writing a finished table with the facts Dagster shows, and giving one to whoever asks Dagster for it. What does not:
paths, bytes and checks (`catalogue`, `parquet`), and what our own bodies read (`produce`: to load an input for a step, Dagster stores two
events and checks a type, for each of hundreds in a sync).
"""

from __future__ import annotations

import dagster as dg
import pyarrow as pa

from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.produce import Finished


class ParquetIOManager(dg.IOManager):
    """One Parquet file an asset partition."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def load_input(self, context: dg.InputContext) -> pa.Table:
        """The whole table of one asset partition."""
        partition = context.asset_partition_key if context.has_asset_partitions else None
        return self.catalogue.read(AssetPartition(context.asset_key.to_user_string(), partition))[0]

    def handle_output(self, context: dg.OutputContext, obj: Finished) -> None:
        """Write the finished table atomically and tell Dagster where it is and what its bytes hash to."""
        path, sha256 = self.catalogue.write(obj.node, obj.table, obj.footer(context.run_id))
        self.catalogue.save()
        context.add_output_metadata({"dagster/uri": dg.MetadataValue.path(str(path)), "file_sha256": sha256})
