"""What the rankings of a run file name that is not there (questions, chunks, documents) or was merged away, and what they lack.

What belongs here: counting against the golden set and a chunking, and the mend. What does not: reading the file (`run_files`) and what
becomes of its rankings (`retrieval.runs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from rag_eval_assets.run_files import RunFileError, document_of

Row = Mapping[str, Any]
NAMED = 5
"""Ids that a finding names before it counts."""


def run_file_findings(
    hits: Iterable[Row],
    chunkings: Mapping[str, str],
    splits: Mapping[str, str],
    asked: Callable[[str], Container[str]],
    units: Callable[[str], Container[str]],
    survivors: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Rows of run_file_findings from rows of imported_runs, for the retrievers in `chunkings`, which names the chunking of each.

    `splits` are the golden set's questions with their splits, `asked(chunking)` the splits that are searched there, `units(chunking)` the
    ids that stand for a chunk of it (empty where there is nothing to search, which is no fault of the file), `survivors` every document
    that has text with the one that dedup kept of it. A finding is an error where nothing in the file is known, else a warning: an unknown
    question counts nowhere, a question with an unknown hit fails and one without a ranking is missing, and both count 0 as in trec_eval
    with -c; a hit on a merged document counts for the kept one.
    """
    own: dict[str, list[Row]] = {name: [] for name in sorted(chunkings)}
    for row in hits:
        own.get(row["retriever"], []).append(row)
    found = []
    for retriever, rows in own.items():
        if not rows:
            continue
        chunking, start = chunkings[retriever], min(rows, key=lambda row: row["line"])
        about = {"retriever": retriever, "chunking": chunking, "file": start["file"]}
        lines = _first_lines(rows, "question_id")
        strange = {question: line for question, line in lines.items() if question not in splits}
        said = "questions are not in the golden set and count nowhere: ", "; write its ids, or add them to golden/"
        own_findings = _finding(about, "unknown_question", strange, len(strange), len(lines), said)

        known, written = units(chunking), [row for row in rows if row["item"] is not None]
        unknown = [row for row in written if row["item"] not in known] if known else []
        mend = _mend([row["item"] for row in sorted(unknown, key=_in_file)], len(written), survivors)
        said = f"hits stand for no chunk of {chunking}: ", f"; their questions fail and count 0; {mend}"
        own_findings += _finding(about, "unknown_unit", _first_lines(unknown, "item"), len(unknown), len(written), said)

        merged = [row for row in written if row["item"] in known and survivors.get(row["item"], row["item"]) != row["item"]]
        counts = "each counts for the kept one, at the first rank of either, so figures can differ from trec_eval's"
        said = "hits are on documents that dedup merged into others: ", f"; {counts}; write the id of the kept one"
        copies = {name: f"{name!r} into {survivors[name]!r}" for name in _first_lines(merged, "item")}
        own_findings += _finding(about, "merged_unit", _first_lines(merged, "item"), len(merged), len(written), said, copies)

        searched = asked(chunking)
        wanted = [question for question, split in splits.items() if split in searched]
        lacking = [question for question in wanted if question not in lines]
        gone, all_of = (Counter(splits[question] for question in some) for some in (lacking, wanted))
        by_split = ", ".join(f"{split} {gone[split]} of {all_of[split]}" for split in sorted(gone))
        said = f"questions have no ranking, are missing and count 0 ({by_split}): ", "; add them, with no hits where nothing was found"
        own_findings += _finding(about, "missing_run", dict.fromkeys(lacking, start["line"]), len(lacking), len(wanted), said)
        found += sorted(own_findings, key=in_line_order)
    return found


def _in_file(row: Row) -> tuple[int, int]:
    return row["line"], row["rank"]


def _first_lines(rows: Iterable[Row], name: str) -> dict[str, int]:
    """Each value of a column with the first line that it stands on, in the order of the file."""
    lines: dict[str, int] = {}
    for row in sorted(rows, key=_in_file):
        lines.setdefault(row[name], row["line"])
    return lines


def _finding(
    about: Row, kind: str, places: Mapping[str, int], count: int, of: int, said: tuple[str, str], names: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """A finding on ids, with what is said before and after them; `names` are what stands for them where it is more than the id."""
    if not count:
        return []
    first = sorted(places, key=lambda name: (places[name], name))[:NAMED]
    listed = ", ".join(names[name] if names else repr(name) for name in first)
    listed += f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    return [
        {
            **about,
            "finding": kind,
            "severity": "error" if count == of and kind.startswith("unknown_") else "warning",
            "line": min(places.values()),
            "count": count,
            "total": of,
            "share": count / of,
            "first": first,
            "detail": f"{count} of {of} {said[0]}{listed}{said[1]}",
        }
    ]


def _mend(unknown: Sequence[str], of: int, survivors: Mapping[str, str]) -> str:
    """What to do about hits on ids that stand for no chunk, in the order of the file, of `of` hits: one mend a reason."""
    absent, merged, other = [], [], []
    for item in unknown:
        document = item if item in survivors else document_of(item)
        (absent if document not in survivors else merged if item != document != survivors[document] else other).append(item)
    mends = []
    if absent:
        mends.append(f"{len(absent)} are of no document with text, {absent[0]!r} first: add it to corpus/, or correct or remove the line")
    if merged:
        kept = survivors[document_of(merged[0])]
        mends.append(f"{len(merged)} are chunks of a merged document, {merged[0]!r} first: write ids of chunks of {kept!r}")
    if 2 * len(other) > of:  # where most hits fit, another chunking would fit fewer
        cut = other[0] not in survivors
        mends.append(f"let 'chunkings' be {'the chunking that they were cut by' if cut else 'whole, or write ids of its chunks'}")
    elif other:
        mends.append("correct or remove these lines")
    return "; ".join(mends)


def in_line_order(finding: Row) -> tuple[str, str, int, str]:
    """Key by which findings are shown: those on one file from its top to its end."""
    return finding["file"], finding["retriever"], finding["line"], finding["finding"]


def told(finding: Row) -> str:
    """A finding on one line, from its place in the file."""
    return f"{finding['file']}:{finding['line']}: retriever {finding['retriever']!r}: {finding['detail']}"


def refuse_errors(findings: Sequence[Row]) -> None:
    """Raises RunFileError where a finding is an error: rankings of which nothing is known would be zeros that nobody asked about."""
    errors = [told(finding) for finding in findings if finding["severity"] == "error"]
    if errors:
        raise RunFileError("\n".join(errors))
