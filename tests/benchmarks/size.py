"""How the chain grows with the corpus: processor seconds, peak memory and bytes of each asset at several numbers of chunks.

Every asset runs its real body on the tables before it, in a process forked for it alone: reading its inputs, the body, the contract, the
data version and the write all count, with the parse workers it starts. Documents are long texts, so that files and questions, at most 40,
weigh little. Vectors are not here: the default embedder does tens of texts a second (`cost_growth` has its exponent and the graph's).
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.produce import produce
from rag_eval_assets.storage.sync import open_catalogue
from tests.benchmarks.synthetic import QUESTIONS, sentences
from tests.small import write_questions, write_settings

WANTED = 1.1
WORDS = 8_000
CHUNKS_OF_A_DOCUMENT = 117
"""What `recursive-128-o0` makes of WORDS words, about; the lines say how many there were."""
SIZES = (10_000, 40_000)
MEASURED = (
    "source_documents", "parsed_documents", "documents", "golden_questions", "near_duplicates", "unique_documents", "golden_evidence",
    "cleaning_quality", "chunks", "chunk_quality", "retrieval_runs", "system_retrievals", "contexts", "answers", "system_scores", "system_summary",
)  # fmt: skip
NEEDED = ("quality_labels", "imported_runs", "written_queries", "written_contexts", "chunk_embeddings", "system_specs", "judged_scores")
"""Empty or tiny here: made, since others read them, and not shown."""


def size_folder(path: Path, chunks: int) -> Folder:
    """An evaluation folder of as many long texts as give about `chunks` chunks; BM25, the reader that quotes sentences."""
    (path / "corpus").mkdir(parents=True)
    documents = max(2, round(chunks / CHUNKS_OF_A_DOCUMENT))
    asked = []
    for number in range(documents):
        body = sentences(number, WORDS)
        paragraphs = [" ".join(body[at : at + 5]) for at in range(0, len(body), 5)]
        (path / "corpus" / f"report-{number:05d}.txt").write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")
        if number * QUESTIONS // documents != (number - 1) * QUESTIONS // documents:
            quotation = body[len(body) // 2]
            evidence = [{"group": "g1", "document": f"report-{number:05d}.txt", "quotation": quotation}]
            asked.append(
                {"id": f"q{number:05d}", "question": f"What is said about {' '.join(quotation.split()[:6])}?", "split": "release",
                 "language": "en", "reference_answer": quotation, "intent": "lookup", "kinds": ["lookup"], "evidence": evidence}
            )  # fmt: skip
    write_questions(path, asked)
    system = {"chunking": "recursive-128-o0", "retriever": "bm25", "depth": 10, "top_k": 5}
    write_settings(path, {"chunkings": [{"strategy": "recursive", "size": 128}], "systems": {"bm25": system}, "gates": {}})
    return Folder(path)


@dataclass(frozen=True)
class Cost:
    """Processor seconds of a process and its workers, its peak memory in MiB, bytes and rows of the file written."""

    seconds: float
    peak: float
    size: int
    rows: int


def _run(graph: Graph, catalogue: Catalogue, node: AssetPartition) -> Cost:
    """Make one asset partition in a fork, where the memory of the others is not held."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            finished = produce(graph, catalogue, node)
            catalogue.write(node, finished.table, finished.footer("size"))
            code = 0
        except BaseException:  # a fork must not return into the code that made it
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    if status:
        raise RuntimeError(f"{node} was not made; see above")
    footer = catalogue.footer(node)
    assert footer is not None
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, Path(catalogue.path(node)).stat().st_size, footer.rows)


@dataclass(frozen=True)
class Result:
    """`costs` by asset, in the order of `chunks`, the sizes there really were."""

    chunks: list[int]
    costs: dict[str, list[Cost]]
    base: float
    """MiB of the process that each is forked from."""

    def exponent(self, seconds: Sequence[float]) -> float:
        """Slope of log seconds over log chunks, least squares."""
        return float(np.polyfit(np.log(self.chunks), np.log(seconds), 1)[0])

    def lines(self) -> Iterator[str]:
        yield f"chunks: {', '.join(map(str, self.chunks))}; for each: processor s, peak MiB, MB written. Before the work {self.base:.0f} MiB are held"
        whole = [sum(costs[at].seconds for costs in self.costs.values()) for at in range(len(self.chunks))]
        for asset, costs in self.costs.items():
            told = "; ".join(f"{c.seconds:7.1f} s {c.peak:6.0f} MiB {c.size / 1e6:7.2f} MB" for c in costs)
            yield f"{asset:<18} {told}{self._growth([c.seconds for c in costs])}"
        yield f"whole chain        {'; '.join(f'{s:.1f} s' for s in whole)}{self._growth(whole)}  (wanted: {WANTED} or less)"
        for smaller, larger in pairwise(range(len(self.chunks))):
            peaks = [max(costs[at].peak for costs in self.costs.values()) for at in (smaller, larger)]
            times = self.chunks[larger] / self.chunks[smaller]
            above = [peak - self.base for peak in peaks]
            told = f"{peaks[1] / peaks[0]:.2f} times as high at {times:.1f} times the corpus; what the work adds {above[1] / above[0]:.2f} times"
            yield f"peak memory        {told}"

    def _growth(self, seconds: Sequence[float]) -> str:
        return f"; grows as size to the {self.exponent(seconds):.2f}" if len(self.chunks) > 1 else ""


def measure(scratch: Path, sizes: Sequence[int] = SIZES) -> Result:
    """Make the chain at every size, one asset after the other. Linux only: processes are forked."""
    import psutil

    import rag_eval_assets.definitions  # noqa: F401  imported once, before anything is forked

    chunks: list[int] = []
    costs: dict[str, list[Cost]] = {name: [] for name in MEASURED}
    base = psutil.Process().memory_info().rss / 2**20
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=scratch) as own:
            folder = size_folder(Path(own) / "size", size)
            graph, catalogue = Graph(folder), open_catalogue(folder)
            for node in graph.nodes():
                if node.asset in MEASURED:
                    costs[node.asset].append(_run(graph, catalogue, node))
                    print(f"  {size}: {node} {costs[node.asset][-1]}", file=sys.stderr, flush=True)
                elif node.asset in NEEDED:
                    _run(graph, catalogue, node)
            chunks.append(costs["chunks"][-1].rows)
    return Result(chunks, costs, base)
