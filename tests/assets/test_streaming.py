"""Assets over all texts hold few of them as Python objects: three times the corpus takes hardly more of Python's memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.parquet import enforce, to_table
from rag_eval_assets.storage.produce import step_for
from rag_eval_assets.storage.sync import open_catalogue
from rag_eval_assets.tables import TABLES
from tests.benchmarks import size
from tests.benchmarks.synthetic import sentences

WORDS = 1_000
SMALL, LARGE = 20, 60
WALKED = ("documents", "cleaning_quality", "near_duplicates", "unique_documents", "golden_evidence", "chunks", "chunk_quality")
PARSER = "unstructured"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Two documents, a question about each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(size, "WORDS", WORDS)
        return size.size_folder(tmp_path_factory.mktemp("size") / "folder", 2)


def made(graph: Graph, asset: str, tables: dict[str, Any]) -> pa.Table:
    """What an asset's body makes of `tables`, which is given as Dagster would."""
    node = AssetPartition(asset, next(iter(graph.partitions(asset))))
    inputs: dict[str, Any] = {}
    for name in graph.assets[asset].inputs:
        columns = graph.assets[asset].columns_of(name, graph.settings, node.partition)
        table = tables.get(name, TABLES[name].schema.empty_table())
        table = table.select(list(columns)) if columns else table
        inputs[name] = {PARSER: table} if graph.fans_in(asset, name) else table
    product = graph.assets[asset].body(step_for(graph, open_catalogue(graph.folder), node), **inputs)
    return enforce(to_table(product.rows, TABLES[asset]), TABLES[asset])


def corpus(graph: Graph, documents: int) -> dict[str, Any]:
    """What was read of a corpus of so many documents, in the form of a real one of two, and the questions about those."""
    tables = {name: made(graph, name, {}) for name in ("source_documents", "golden_questions")}
    tables["parsed_documents"] = made(graph, "parsed_documents", tables)
    [source, *_], [element, *_] = (tables[name].to_pylist() for name in ("source_documents", "parsed_documents"))
    names = [f"report-{number:05d}.txt" for number in range(documents)]
    texts = {name: sentences(number, WORDS) for number, name in enumerate(names)}
    rows = [{**element, "doc_id": name, "order": order, "text": text} for name in names for order, text in enumerate(texts[name])]
    sources = [{**source, "doc_id": name, "path": name} for name in names]
    return {
        **tables,
        "source_documents": pa.Table.from_pylist(sources, tables["source_documents"].schema),
        "parsed_documents": pa.Table.from_pylist(rows, tables["parsed_documents"].schema),
    }


def peaks(graph: Graph, documents: int) -> dict[str, int]:
    """The most that each asset's body held of Python's memory, in bytes."""
    tables, found = corpus(graph, documents), {}
    for asset in WALKED:
        tracemalloc.start()
        try:
            tables[asset] = made(graph, asset, tables)
            found[asset] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert tables["unique_documents"].num_rows == documents
    assert tables["golden_evidence"]["status"].to_pylist() == ["ok", "ok"]
    return found


def test_three_times_the_corpus_is_hardly_more_python_objects(folder: Folder) -> None:
    graph = Graph(folder)
    peaks(graph, 2)  # what is imported and kept once
    small, large = peaks(graph, SMALL), peaks(graph, LARGE)
    # Chunks keep the tokens of texts for the next chunking, which are numbers.
    assert {asset: large[asset] / small[asset] for asset in WALKED if large[asset] > 1.5 * small[asset]} == {}
