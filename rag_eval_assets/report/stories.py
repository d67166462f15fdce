"""Texts for a terminal: the lineage of a table, the story of one question, a sample to read by hand.

What belongs here: putting facts of tables and footers into lines. What does not: computing any of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.sync import open_catalogue
from rag_eval_assets.tables import FAILED

NAMED = 5
"""Files and questions that `losses` names before it counts."""


def lineage(folder: Folder, name: str, partition: str | None) -> Iterator[str]:
    """An asset partition with everything it was made from, up to the source files. Raises LookupError naming the partitions."""
    graph, catalogue = Graph(folder), open_catalogue(folder)
    keys = graph.partitions(name)
    if partition not in keys:
        raise LookupError(f"{name} has the partitions {', '.join(str(k) for k in keys)}" if keys != [None] else f"{name} has no partitions")
    seen: set[AssetPartition] = set()

    def walk(node: AssetPartition, depth: int) -> Iterator[str]:
        footer = catalogue.footer(node)
        indent = "  " * depth
        if footer is None:
            yield f"{indent}{node}: no file"
            return
        again = " (above)" if node in seen else ""
        made = f"data {footer.data_version[:12]}, code {footer.code_version[:12]}, {footer.rows} rows, run {footer.run_id[:8]}"
        yield f"{indent}{node}: {made}{again}"
        if again:
            return
        seen.add(node)
        for key, value in sorted(footer.code.get("settings", {}).items()):
            yield f"{indent}  setting {key} = {value}"
        for library, version in sorted(footer.code.get("libraries", {}).items()):
            yield f"{indent}  library {library} {version}"
        for up in graph.upstream(node):
            used = footer.inputs.get(str(up))
            now = catalogue.footer(up)
            if used and now and used != now.data_version:
                yield f"{indent}  made from {up} at {used[:12]}, which is {now.data_version[:12]} now"
            yield from walk(up, depth + 1)
        if graph.assets[node.asset].contract.root:
            yield f"{indent}  read from {folder.path}"

    yield from walk(AssetPartition(name, partition), 0)
    if name == "source_documents" or AssetPartition("source_documents") in seen:
        for row in catalogue.read(AssetPartition("source_documents"))[0].to_pylist():
            yield f"    {row['doc_id']}  sha256 {row['sha256'][:12]}  {row['bytes']} bytes"


def losses(folder: Folder) -> Iterator[str]:
    """What the tables of the last sync lack that a person may not expect: files that gave no text, quotations that were not found."""
    catalogue = open_catalogue(folder)

    def table(name: str, *columns: str) -> list[dict[str, Any]]:
        node = AssetPartition(name)
        return catalogue.read(node, columns)[0].to_pylist() if catalogue.footer(node) is not None else []

    documents = table("documents", "doc_id", "status", "reason")
    unread = [f"{row['doc_id']} ({row['reason']})" for row in documents if row["status"] == FAILED]
    if unread:
        yield f"{len(unread)} of {len(documents)} files gave no text: {', '.join(unread[:NAMED])}{_rest(unread)}"
    place = {row["question_id"]: f"{row['file']}:{row['line']}" for row in table("golden_questions", "question_id", "file", "line")}
    evidence = table("golden_evidence", "question_id", "doc_id", "quotation", "match", "lost_at")
    quoted = [row for row in evidence if row["quotation"] is not None and row["question_id"] in place]
    lost = [
        f"{row['question_id']} ({place[row['question_id']]}) in {row['doc_id']}, lost at {row['lost_at']}"
        for row in quoted
        if row["match"] == "none"
    ]
    if lost:
        yield f"{len(lost)} of {len(quoted)} quotations were not found: {'; '.join(lost[:NAMED])}{_rest(lost)}"


def _rest(names: list[str]) -> str:
    return f" and {len(names) - NAMED} more" if len(names) > NAMED else ""


def _rows(catalogue: Catalogue, node: AssetPartition, question_id: str) -> list[dict[str, Any]]:
    if catalogue.footer(node) is None:
        return []
    return [row for row in catalogue.read(node)[0].to_pylist() if row["question_id"] == question_id]


def question_story(folder: Folder, question_id: str) -> Iterator[str]:
    """What was asked, where its evidence stands, and what each system did with it. Raises LookupError for an unknown id."""
    graph, catalogue = Graph(folder), open_catalogue(folder)
    questions = _rows(catalogue, AssetPartition("golden_questions"), question_id)
    if not questions:
        raise LookupError(f"no asset and no question {question_id!r}: give an asset's name, or an id of the golden set")
    question = questions[0]
    yield f"{question_id} ({question['split']}, {question['intent']}, {question['language']}): {question['text']}"
    yield f"  expected: {question['reference_answer'] or ('a refusal' if not question['answerable'] else 'no reference answer')}"
    yield f"  caller {question['entitlement']}, filter {question['filter'] or 'none'}"
    for e in _rows(catalogue, AssetPartition("golden_evidence"), question_id):
        place = f"[{e['start']}, {e['end']}) by {e['match']} match" if e["start"] is not None else e["match"]
        yield f"  evidence {e['group']}: {e['doc_id']} {place}{', lost at ' + e['lost_at'] if e['lost_at'] else ''}"
        if e["quotation"]:
            yield f'    "{e["quotation"]}"'
    for system in graph.partitions("answers"):
        yield f"  system {system}"
        for hit in _rows(catalogue, AssetPartition("system_retrievals", system), question_id)[:10]:
            yield f"    {hit['rank']:>3}. {hit['chunk_id'] or hit['reason']}  {'' if hit['score'] is None else round(hit['score'], 4)}"
        for delivered in _rows(catalogue, AssetPartition("contexts", system), question_id):
            cut = len(delivered["cut_by_budget"])
            yield f"    delivered {len(delivered['passages'])} passages, {delivered['tokens']} tokens, {cut} cut by the budget"
        for answer in _rows(catalogue, AssetPartition("answers", system), question_id):
            yield f"    answer ({answer['status']}): {'refused' if answer['refused'] else answer['answer']}"
        for score in _rows(catalogue, AssetPartition("system_scores", system), question_id):
            if score["stage"] != "ranking":
                shown = score["reason"] if score["value"] is None else round(score["value"], 4)
                yield f"      {score['metric']}: {shown}{' — ' + score['explanation'] if score['explanation'] else ''}"
        for group in _rows(catalogue, AssetPartition("evidence_funnel", system), question_id):
            lost = f"lost at {group['lost_at']}; open {group['open_next']}" if group["lost_at"] else "answered"
            yield f"    evidence {group['group']}: reached {group['furthest'] or 'nothing'}, {lost}"
        for tried in _rows(catalogue, AssetPartition("diagnosis", system), question_id):
            if tried["status"] != "not_applicable":
                result = {True: "recovered", False: "not recovered", None: tried["reason"]}[tried["recovered"]]
                yield f"    intervention {tried['intervention']}: {result}; implicated: {tried['label']}"


def reading_sample(folder: Folder, number: int, seed: int, system: str | None) -> Iterator[str]:
    """`number` questions drawn with `seed`, each with answer, context and sources. Raises LookupError for an unknown system."""
    graph, catalogue = Graph(folder), open_catalogue(folder)
    system = system or str(graph.partitions("answers")[0])
    if system not in graph.partitions("answers"):
        raise LookupError(f"no system {system!r}; known: {', '.join(map(str, graph.partitions('answers')))}")
    questions = catalogue.read(AssetPartition("golden_questions"))[0].to_pylist()
    answers = {r["question_id"]: r for r in catalogue.read(AssetPartition("answers", system))[0].to_pylist()}
    contexts = {r["question_id"]: r for r in catalogue.read(AssetPartition("contexts", system))[0].to_pylist()}
    for question in random.Random(seed).sample(questions, min(number, len(questions))):
        answer, delivered = answers[question["question_id"]], contexts[question["question_id"]]
        yield f"{question['question_id']} ({question['split']}): {question['text']}"
        yield f"  expected: {question['reference_answer']}"
        yield f"  {system}: {'refused' if answer['refused'] else answer['answer']}"
        cited = {c["position"] for c in answer["citations"]}
        for passage in delivered["passages"]:
            mark = "*" if passage["position"] in cited else " "
            yield f"  {mark}[{passage['position'] + 1}] {passage['doc_id']} {passage['text'][:200]!r}"
        yield ""
