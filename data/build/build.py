"""Builds the sample evaluation folder: corpus, sidecars, references, labels and golden questions.

What belongs here: the command line. What is built is described in `content/`, how in `sample_builder/`. `evaluation.yaml` is
written by hand and left alone.

    python data/build/build.py [--target FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from sample_builder.tree import build  # noqa: E402


def main() -> int:
    """Build into the target folder and print what was made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=Path, default=HERE.parent, help="evaluation folder to write into (default: data/)")
    counts = build(HERE / "content", parser.parse_args().target)
    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
