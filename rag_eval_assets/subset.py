"""A small evaluation folder beside a large one: a fixed, stratified draw of its questions over the same corpus, with a state of its own.

What belongs here: the draw, and writing the folder that the rest of the product runs on as it is. What does not: reading questions
(`golden`) and any score. A subset is for a quick look at a change; so few questions seldom decide a gate.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingestion import sources
from rag_eval_assets.golden import GoldenError, read_golden, replace_file
from rag_eval_assets.settings import Folder

SUBSET_FOLDER = "pr"
"""Below the state folder, where a subset stands unless told otherwise."""
_MARKER = "subset.json"


def draw(strata: Mapping[str, tuple[str, ...]], number: int, seed: int) -> list[str]:
    """Ids of `number` questions, or of all where there are no more, in order.

    `strata` gives each question's stratum. Every stratum gives its share of the number (largest remainders), and of each the questions
    with the lowest hash of seed and id are taken: a question that is added moves few others.
    """
    if number < 1:
        raise ValueError(f"{number} questions are no subset: draw one or more")
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for question in strata:
        groups[strata[question]].append(question)
    number = min(number, len(strata))
    quota = {key: divmod(number * len(members), len(strata)) for key, members in groups.items()}
    left = number - sum(whole for whole, _ in quota.values())
    extra = set(sorted(groups, key=lambda key: (-quota[key][1], key))[:left])
    found: list[str] = []
    for key, members in groups.items():
        members.sort(key=lambda name: hashlib.sha256(f"{seed}\0{name}".encode()).digest())
        found += members[: quota[key][0] + (key in extra)]
    return sorted(found)


def write_subset(folder: Folder, target: Path | None = None, number: int = 50) -> tuple[Path, dict[str, int]]:
    """Write the subset's folder; where it is, and its questions by split.

    Its questions are lines of the golden set as they stand, drawn by split, intent, classes of evidence and language with the seed of the
    settings. All else is a link to this folder's own files, so that a change of corpus or settings is seen. Written anew, it keeps
    its state. Raises FileExistsError for a target that holds something else, GoldenError for a golden set without questions.
    """
    target = (target or folder.state / SUBSET_FOLDER).absolute()
    if target.is_dir() and any(target.iterdir()) and not (target / _MARKER).is_file():
        raise FileExistsError(17, "holds something that is no subset; name another folder", str(target))
    rules = [(rule.glob, rule.doc_class) for rule in folder.settings.classes]
    classes = {row["doc_id"]: row["doc_class"] for row in sources.scan(folder.corpus, rules)}
    questions = {row["question_id"]: row for row in read_golden(folder.golden, classes)}
    if not questions:
        raise GoldenError(f"{folder.golden}: holds no question to draw")
    chosen = draw({name: _stratum(row, classes) for name, row in questions.items()}, number, folder.settings.seed)
    (target / "golden").mkdir(parents=True, exist_ok=True)
    replace_file(target / _MARKER, json.dumps({"of": str(folder.path), "number": number}).encode())
    lines: dict[str, list[int]] = defaultdict(list)
    for name in chosen:
        lines[questions[name]["file"]].append(questions[name]["line"])
    for old in (target / "golden").iterdir():
        if old.name not in lines:
            old.unlink()
    for file, wanted in lines.items():
        all_lines = (folder.golden / file).read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
        _write(target / "golden" / file, b"".join(all_lines[n - 1].rstrip(b"\r") + b"\n" for n in sorted(wanted)))
    _link(folder.path, target)
    return target, dict(sorted(Counter(questions[name]["split"] for name in chosen).items()))


def _stratum(question: Mapping[str, Any], classes: Mapping[str, str]) -> tuple[str, ...]:
    named = {item["document"] for item in (*question["evidence"], *question["relevant"]) if item["grade"] > 0}
    found = "+".join(sorted({classes[doc_id] for doc_id in named if doc_id in classes})) or "none"
    return question["split"], question["intent"], found, question["language"]


def _write(path: Path, content: bytes) -> None:
    """Only where it differs, so that an unchanged file keeps its time."""
    if not path.is_file() or path.read_bytes() != content:
        replace_file(path, content)


def _link(source: Path, target: Path) -> None:
    """Every entry of the folder but its questions and its hidden ones, as a link; links to what is gone are removed."""
    entries = {e.name: e for e in source.iterdir() if not e.name.startswith(".") and e.name != "golden" and e != target}
    for link in target.iterdir():
        if link.is_symlink() and (link.name not in entries or link.readlink() != entries[link.name]):
            link.unlink()
    for name, entry in entries.items():
        if not (target / name).is_symlink():
            (target / name).symlink_to(entry)
