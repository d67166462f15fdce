"""The body of `near_duplicates` over many documents, in a fresh process: peak memory, and what it costs when one text changed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ingestion.dedup import READ_COLUMNS
from tests.benchmarks.synthetic import SEED
from tests.ingestion.documents import document

WANTED = 3.0
"""GiB at most, for 100,000 documents of 200 words."""
ROOT = Path(__file__).resolve().parents[2]
_PART = 1_000
COPIES = 10
"""In each hundred documents, so many are copies of one before them with one word in a hundred changed."""


def _texts(documents: int, words: int) -> Iterator[list[str]]:
    """Parts of the corpus: invented words in Zipf's frequencies."""
    chance = np.random.default_rng(SEED)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    known = np.array(["".join(letters[chance.integers(0, 26, chance.integers(2, 10))]) for _ in range(20_000)])
    weights = 1 / (np.arange(len(known)) + 2.7)
    weights /= weights.sum()
    for start in range(0, documents, _PART):
        drawn = chance.choice(len(known), (min(_PART, documents - start), words), p=weights)
        for row in range(len(drawn)):
            if row % 100 >= 100 - COPIES:
                drawn[row] = np.where(chance.random(words) < 0.01, chance.integers(0, len(known), words), drawn[row - 50])
        yield [" ".join(known[row]) for row in drawn]


def write_documents(path: Path, documents: int, words: int) -> None:
    """A table of documents with one text changed in `path`/changed.parquet, else as in `path`/documents.parquet."""
    for name in ("documents", "changed"):
        writer: pq.ParquetWriter | None = None
        number = 0
        for texts in _texts(documents, words):
            if name == "changed" and not number:
                texts[0] = f"One new sentence stands first. {texts[0]}"
            rows = [document(f"d{number + i:06d}", text) for i, text in enumerate(texts)]
            number += len(rows)
            table = pa.Table.from_pylist([{column: row[column] for column in READ_COLUMNS} for row in rows], schema=_schema())
            writer = writer or pq.ParquetWriter(path / f"{name}.parquet", table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()


def _schema() -> pa.Schema:
    from rag_eval_assets.tables import TABLES

    return pa.schema([TABLES["documents"].schema.field(name) for name in READ_COLUMNS])


_IN_A_FRESH_PROCESS = """
import json, re, sys, time
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from rag_eval_assets.assets import corpus
from rag_eval_assets.graph import Step
from rag_eval_assets.settings import Folder

def megabytes(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

folder = Path(sys.argv[1])
golden = pa.table({"question_id": pa.array([], pa.string()), "filter": pa.array([], pa.string())})
step = Step("near_duplicates", "", Folder(folder), "")
before = megabytes("VmRSS")
started = time.perf_counter()
product = corpus.near_duplicates(step, pq.read_table(folder / f"{sys.argv[2]}.parquet"), golden)
seconds = time.perf_counter() - started
dropped = sum(row["row"] == "document" and not row["kept"] for row in product.rows)
print(json.dumps({"imports": before, "peak": megabytes("VmHWM"), "seconds": seconds, "rows": len(product.rows), "dropped": dropped}))
"""


@dataclass(frozen=True)
class Run:
    """Memory in MiB: after the imports, and at most."""

    imports: float
    peak: float
    seconds: float
    rows: int
    dropped: int


@dataclass(frozen=True)
class Result:
    documents: int
    words: int
    copies: int
    cold: Run
    warm: Run
    """With one text changed since, and the signatures of the others in their store."""

    def lines(self) -> Iterator[str]:
        yield f"{self.documents} documents of {self.words} words, {self.copies} of them edited copies; {self.cold.dropped} dropped"
        yield f"peak memory       {self.cold.peak / 1024:6.2f} GiB, {self.cold.imports / 1024:.2f} of it before the work  (wanted for 100,000 of 200: {WANTED:g} or less)"
        yield f"one text changed  1/{self.cold.seconds / self.warm.seconds:.1f} of the time, peak memory {self.warm.peak / 1024:.2f} GiB"
        yield f"                  {self.cold.seconds:.0f} s and {self.warm.seconds:.0f} s, {self.cold.rows} and {self.warm.rows} rows"


def measure(path: Path, documents: int, words: int = 200) -> Result:
    """Write the documents below `path` and judge them twice, each time in a process of its own. Linux only: memory is read from /proc."""
    from tests.small import SETTINGS

    (path / "evaluation.yaml").write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    write_documents(path, documents, words)
    runs = []
    for name in ("documents", "changed"):
        command = [sys.executable, "-W", "ignore", "-c", _IN_A_FRESH_PROCESS, str(path), name]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        runs.append(Run(**json.loads(done.stdout.splitlines()[-1])))
    copies = sum(number % 100 >= 100 - COPIES for number in range(documents))
    return Result(documents, words, copies, *runs)
