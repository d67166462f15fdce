"""What `inspect` says of a name: a question, a document, a chunk, a gate, or a result of a diagnosis.

What belongs here: finding everything that goes by a name, and its lines. What does not: the story of a question and the lineage of a table
(`stories`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.report.stories import question_story
from rag_eval_assets.scoring.diagnosis import SAME_CONTEXT
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue

Row = dict[str, Any]
_SHOWN = 300


def addressed(folder: Folder, name: str, kept: Iterable[Row] = ()) -> Iterator[str]:
    """Everything that goes by `name` in the tables of the last sync; `kept` are results of replays that no table holds.

    Raises LookupError for a name that nothing goes by, FileNotFoundError where there is no table of questions to look in.
    """
    graph, catalogue = Graph(folder), open_catalogue(folder)

    def rows(table: str, column: str, columns: Iterable[str] | None = None) -> Iterator[Row]:
        for partition in graph.partitions(table):
            node = AssetPartition(table, partition)
            if catalogue.footer(node) is not None:
                found = catalogue.read(node, columns)[0]
                yield from ({"partition": partition, **row} for row in found.filter(pc.equal(found[column], name)).to_pylist())

    lines = [line for gate in rows("gate_results", "gate") for line in _gate(gate)]
    here = [{**row, "system": row["partition"]} for row in rows("diagnosis", "result_id")]
    lines += [line for result in (*here, *(r for r in kept if r.get("result_id") == name)) for line in _result(result)]
    for document in rows("documents", "doc_id", ("doc_id", "doc_class", "parser", "status", "reason", "text")):
        named = sorted({e["question_id"] for e in rows("golden_evidence", "doc_id", ("doc_id", "question_id"))})
        lines.append(f"document {name} ({document['doc_class']}, read by {document['parser']}): {document['reason'] or document['status']}")
        lines.append(f"  {len(document['text'] or '')} characters; golden evidence of {', '.join(named) or 'no question'}")
    for chunk in rows("chunks", "chunk_id", ("chunk_id", "doc_id", "start", "end", "tokens", "section_path", "page", "text")):
        where = f"{chunk['doc_id']} [{chunk['start']}, {chunk['end']})"
        lines += [f"chunk of {chunk['partition']}: {where}, {chunk['tokens']} tokens, page {chunk['page']}"]
        lines += [f"  under {' > '.join(chunk['section_path'])}"] if chunk["section_path"] else []
        lines += [f"  {_line(chunk['text'])}"]
    for hit in rows("system_retrievals", "chunk_id", ("question_id", "rank", "chunk_id")):
        lines.append(f"ranked {hit['rank']} by {hit['partition']} for {hit['question_id']}")
    if lines:
        yield from lines
        return
    try:
        yield from question_story(folder, name)
    except LookupError:
        raise LookupError(
            f"nothing goes by {name!r}: give an asset, or the id of a question, a document, a chunk, a gate or a result of a diagnosis"
        ) from None


def _gate(row: Mapping[str, Any]) -> Iterator[str]:
    value = "none" if row["value"] is None else f"{row['value']:.4f}"
    interval = "" if row["lower"] is None else f" [{row['lower']:.4f}, {row['upper']:.4f}]"
    yield f"gate {row['gate']} on {row['scope']}: {row['decision']} ({row['decision_reason']})"
    yield f"  {value}{interval}, {row['direction'].replace('_', ' ')} {row['threshold']}, {row['questions']} questions"
    if row["detail"]:
        yield f"  {row['detail']}"


def _result(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"result {row['result_id']}: {row['system']}, question {row['question_id']}, {row['intervention']}"
    yield f"  {told(row)}"
    if row["detail"]:
        yield f"  {row['detail']}"


def told(row: Mapping[str, Any]) -> str:
    """What came of one replay and the step it implicates."""
    result = {True: "recovered", False: "not recovered", None: f"no verdict ({row['reason']})"}[row["recovered"]]
    result += f", {SAME_CONTEXT}" if SAME_CONTEXT in (row["detail"] or "") else ""
    return f"{result}; implicated: {row['label'].replace('_', ' ')}{' (' + row['why'].replace('_', ' ') + ')' if row['why'] else ''}"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
