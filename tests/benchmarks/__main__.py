"""`python -m tests.benchmarks [name] [--files N]`: run the benchmarks and print what they measured."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.benchmarks import edit_one_file, no_change, parsing

BENCHMARKS = ("no_change", "text_pdf", "error_rate", "edit_one_file")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=BENCHMARKS, help="one benchmark; all without it")
    parser.add_argument("--files", type=int, default=1_000, help="files of edit_one_file (1,000 take about half an hour on two cores)")
    parser.add_argument("--chunkings", type=int, default=48, help="chunkings of no_change")
    chosen = parser.parse_args()
    for name in [chosen.name] if chosen.name else BENCHMARKS:
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            if name == "no_change":
                lines = no_change.measure(Path(scratch), chosen.chunkings).lines()
            elif name == "text_pdf":
                lines = parsing.measure_text_pdfs(Path(scratch)).lines()
            elif name == "error_rate":
                lines = parsing.measure_error_rate().lines()
            else:
                lines = edit_one_file.measure(Path(scratch), chosen.files).lines()
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
