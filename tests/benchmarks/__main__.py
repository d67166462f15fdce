"""`python -m tests.benchmarks [name] [--files N]`: run the benchmarks and print what they measured."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.benchmarks import (
    ann_speed,
    bm25_speed,
    chunking_speed,
    cost_growth,
    dedup_curve,
    dedup_memory,
    edit_one_file,
    embedding_speed,
    icdar_parsers,
    late_sweep,
    load,
    many_machines,
    metrics_speed,
    minhash_speed,
    no_change,
    parsing,
    responses_speed,
    size,
    statistics_speed,
)


def main() -> None:
    benchmarks = {
        "no_change": lambda scratch: no_change.measure(scratch, chosen.chunkings),
        "text_pdf": lambda scratch: parsing.measure_text_pdfs(scratch),
        "error_rate": lambda scratch: parsing.measure_error_rate(),
        "edit_one_file": lambda scratch: edit_one_file.measure(scratch, chosen.files),
        "chunking_speed": lambda scratch: chunking_speed.measure(chosen.megabytes),
        "minhash_speed": lambda scratch: minhash_speed.measure(chosen.texts),
        "ann_speed": lambda scratch: ann_speed.measure(chosen.vectors),
        "cost_growth": lambda scratch: cost_growth.measure(),
        "bm25_speed": lambda scratch: bm25_speed.measure(chosen.searched),
        "metrics_speed": lambda scratch: metrics_speed.measure(scratch, chosen.questions or 10_000),
        "embedding_speed": lambda scratch: embedding_speed.measure(chosen.embedded),
        "late_sweep": lambda scratch: late_sweep.measure(scratch, chosen.swept),
        "statistics_speed": lambda scratch: statistics_speed.measure(),
        "responses_speed": lambda scratch: responses_speed.measure(scratch, chosen.responses),
        "dedup_curve": lambda scratch: dedup_curve.measure(chosen.bases),
        "dedup_memory": lambda scratch: dedup_memory.measure(scratch, chosen.documents),
        "s3_no_change": lambda scratch: many_machines.measure_s3(scratch, chosen.chunkings),
        "postgres_backfill": lambda scratch: many_machines.measure_postgres(scratch, chosen.chunkings),
        "dask_workers": lambda scratch: many_machines.measure_dask(scratch),
        "size": lambda scratch: size.measure(scratch, chosen.chunks),
        "load": lambda scratch: load.measure(scratch, chosen.questions or 5_000, chosen.systems, chosen.concurrency),
        "icdar_parsers": lambda scratch: icdar_parsers.measure(chosen.parsers.split(",")),
    }
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=benchmarks, help="one benchmark; all without it")
    parser.add_argument("--files", type=int, default=1_000, help="files of edit_one_file (1,000 take about half an hour on two cores)")
    parser.add_argument("--chunkings", type=int, default=48, help="chunkings of no_change, s3_no_change and postgres_backfill")
    parser.add_argument("--texts", type=int, default=100, help="texts of minhash_speed")
    parser.add_argument("--bases", type=int, default=50, help="unedited texts of dedup_curve; each has twelve edits")
    parser.add_argument("--documents", type=int, default=100_000, help="documents of dedup_memory")
    parser.add_argument("--vectors", type=int, default=200_000, help="vectors of ann_speed")
    parser.add_argument("--parsers", default="pymupdf,auto,tesseract,ocr", help="parsers of icdar_parsers (ocr takes about ten minutes)")
    parser.add_argument(
        "--megabytes",
        type=float,
        default=10,
        help="millions of characters of chunking_speed (10 take a quarter of an hour with every competitor)",
    )
    parser.add_argument("--searched", type=int, default=5_000, help="documents of bm25_speed")
    parser.add_argument("--questions", type=int, help="questions of metrics_speed (10,000) and load (5,000)")
    parser.add_argument("--systems", type=int, default=3, help="systems of load")
    parser.add_argument("--concurrency", type=int, default=load.CONCURRENCY, help="calls in flight at once of load")
    parser.add_argument("--embedded", type=int, default=200, help="texts of embedding_speed")
    parser.add_argument("--chunks", type=int, nargs="+", default=size.SIZES, help="sizes of size, in chunks")
    parser.add_argument("--swept", type=int, default=10, help="documents of 2,000 words of late_sweep")
    parser.add_argument("--responses", type=int, default=10_000, help="replies of responses_speed")
    chosen = parser.parse_args()
    for name in [chosen.name] if chosen.name else benchmarks:
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            print("\n".join(benchmarks[name](Path(scratch)).lines()), flush=True)


if __name__ == "__main__":
    main()
