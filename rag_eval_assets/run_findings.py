"""What the rankings of a run file name that is not there: questions, chunks and documents, and questions that have no ranking.

What belongs here: counting against the golden set and a chunking, and the mend. What does not: reading the file (`run_files`) and what
becomes of its rankings (`retrieval.runs`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from rag_eval_assets.run_files import RunFileError

Row = Mapping[str, Any]
NAMED = 5
"""Ids that a finding names before it counts."""


def run_file_findings(
    hits: Iterable[Row],
    chunkings: Mapping[str, str],
    splits: Mapping[str, str],
    asked: Callable[[str], Container[str]],
    units: Callable[[str], Container[str]],
) -> list[dict[str, Any]]:
    """Rows of run_file_findings from rows of imported_runs, for the retrievers in `chunkings`, which names the chunking of each.

    `splits` are the golden set's questions with their splits, `asked(chunking)` the splits that are searched there, `units(chunking)` the
    ids that stand for a chunk of it (empty where there is nothing to search, which is no fault of the file). A finding is an error where
    nothing in the file is known, else a warning: an unknown question counts nowhere, a question with an unknown hit fails and one without
    a ranking is missing, and both count 0 as in trec_eval with -c.
    """
    own: dict[str, list[Row]] = {name: [] for name in sorted(chunkings)}
    for row in hits:
        own.get(row["retriever"], []).append(row)
    found = []
    for retriever, rows in own.items():
        if not rows:
            continue
        chunking, first = chunkings[retriever], min(rows, key=lambda row: row["line"])
        about = {"retriever": retriever, "chunking": chunking, "file": first["file"]}
        lines: dict[str, int] = {}
        for row in rows:
            lines[row["question_id"]] = min(row["line"], lines.get(row["question_id"], row["line"]))
        strange = {question: line for question, line in lines.items() if question not in splits}
        found += _finding(about, "unknown_question", strange, len(strange), len(lines))
        known, written = units(chunking), [row for row in rows if row["item"] is not None]
        unknown = [row for row in written if row["item"] not in known] if known else []
        places: dict[str, int] = {}
        for row in sorted(unknown, key=lambda row: (row["line"], row["rank"])):
            places.setdefault(row["item"], row["line"])
        found += _finding(about, "unknown_unit", places, len(unknown), len(written))
        searched = asked(chunking)
        wanted = [question for question, split in splits.items() if split in searched]
        lacking = [question for question in wanted if question not in lines]
        gone, all_of = (Counter(splits[question] for question in some) for some in (lacking, wanted))
        by_split = ", ".join(f"{split} {gone[split]} of {all_of[split]}" for split in sorted(gone))
        found += _finding(about, "missing_run", dict.fromkeys(lacking, first["line"]), len(lacking), len(wanted), by_split)
    return found


def _finding(about: Row, kind: str, places: Mapping[str, int], count: int, of: int, more: str = "") -> list[dict[str, Any]]:
    if not count:
        return []
    first = sorted(places, key=lambda name: (places[name], name))[:NAMED]
    told = ", ".join(repr(name) for name in first) + (f" and {len(places) - NAMED} more" if len(places) > NAMED else "")
    share = f"{count} of {of}"
    error = count == of and kind != "missing_run"
    if kind == "unknown_question":
        said = f"{share} questions are not in the golden set and count nowhere: {told}; write its ids, or add them to golden/"
    elif kind == "missing_run":
        said = (
            f"{share} questions have no ranking, are missing and count 0 ({more}): {told}; add them, with no hits where nothing was found"
        )
    else:
        cut = re.search(r"#\d+-\d+$", first[0])
        other = "the chunking that they were cut by" if cut else "whole, or write ids of its chunks"
        # Where most hits fit, another chunking would fit fewer.
        mend = f"let 'chunkings' be {other}" if 2 * count > of else "correct or remove these lines"
        said = f"{share} hits stand for no chunk of {about['chunking']}: {told}; their questions fail and count 0; {mend}"
    return [
        {
            **about,
            "finding": kind,
            "severity": "error" if error else "warning",
            "line": min(places.values()),
            "count": count,
            "total": of,
            "share": count / of,
            "first": first,
            "detail": said,
        }
    ]


def told(finding: Row) -> str:
    """A finding on one line, from its place in the file."""
    return f"{finding['file']}:{finding['line']}: retriever {finding['retriever']!r}: {finding['detail']}"


def refuse_errors(findings: Sequence[Row]) -> None:
    """Raises RunFileError where a finding is an error: rankings of which nothing is known would be zeros that nobody asked about."""
    errors = [told(finding) for finding in findings if finding["severity"] == "error"]
    if errors:
        raise RunFileError("\n".join(errors))
