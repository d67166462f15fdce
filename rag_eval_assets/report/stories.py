"""Texts for a terminal: the lineage of a table, the story of one question, a sample to read by hand.

What belongs here: putting facts of tables and footers into lines. What does not: computing any of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from rag_eval_assets import coverage, run_findings
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.sync import open_catalogue
from rag_eval_assets.tables import FAILED

NAMED = 5
"""Files and questions that `losses` names before it counts."""

NEAREST = 120
"""Characters shown of the text nearest to a quotation."""

LOST_AT = {
    "acquired": "its document is not in the corpus",
    "parsed": "not found in what the parser read",
    "cleaned": "in what the parser read, not found in the cleaned text",
    "kept": "in its document, not found in the copy that was kept",
}
"""What it means that ingestion lost a quotation at a stage."""

NO_QUESTIONS = "The golden set holds no question: write some in golden/*.jsonl, one JSON object a line."


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
    """What the tables of the last sync lack that a person may not expect: files that gave no text, quotations that were not found,
    what run files name that is not there."""
    catalogue = open_catalogue(folder)
    questions = catalogue.footer(AssetPartition("golden_questions"))
    if questions is not None and questions.rows == 0:
        yield NO_QUESTIONS

    def table(name: str, *columns: str) -> list[dict[str, Any]]:
        node = AssetPartition(name)
        return catalogue.read(node, columns)[0].to_pylist() if catalogue.footer(node) is not None else []

    documents = table("documents", "doc_id", "status", "reason", "removed_characters")
    unread = [f"{row['doc_id']} ({row['reason']})" for row in documents if row["status"] == FAILED]
    if unread:
        every = "select doc_id, reason, detail from documents where status = 'failed'"
        yield f"{len(unread)} of {len(documents)} files gave no text: {', '.join(unread[:NAMED])}{_rest(unread, every)}"
    lengths: list[int | None] = []
    if any(row["removed_characters"] for row in documents):  # texts are long: counted where they lie
        lengths = pc.utf8_length(catalogue.read(AssetPartition("documents"), ("text",))[0].column("text")).to_pylist()
    sizes = [(row["doc_id"], kept or 0, row["removed_characters"]) for row, kept in zip(documents, lengths, strict=False)]
    thinned = [f"{doc_id} (kept {kept} of {kept + gone} characters)" for doc_id, kept, gone in sizes if 0 < kept < gone]
    if thinned:
        every = "select doc_id, length(text) as kept, removed_characters, removed from documents where removed_characters > length(text)"
        yield f"cleaning left out more than half of {len(thinned)} documents: {', '.join(thinned[:NAMED])}{_rest(thinned, every)}"
    place = {row["question_id"]: f"{row['file']}:{row['line']}" for row in table("golden_questions", "question_id", "file", "line")}
    evidence = table("golden_evidence", "question_id", "doc_id", "quotation", "match", "lost_at", "found_text")
    quoted = [row for row in evidence if row["quotation"] is not None and row["question_id"] in place]
    lost = [
        f"{row['question_id']} ({place[row['question_id']]}) in {row['doc_id']}: {LOST_AT[row['lost_at']]}{_nearest(row)}"
        for row in quoted
        if row["match"] == "none"
    ]
    if lost:
        every = "select question_id, doc_id, quotation, found_text from golden_evidence where match = 'none'"
        yield f"{len(lost)} of {len(quoted)} quotations were not found: {'; '.join(lost[:NAMED])}{_rest(lost, every)}"
    findings = table("run_file_findings", "file", "line", "retriever", "finding", "detail")
    yield from (run_findings.told(row) for row in sorted(findings, key=run_findings.in_line_order))


def _rest(names: list[str], every: str) -> str:
    return f' and {len(names) - NAMED} more; all: rag-eval sql --format csv "{every}"' if len(names) > NAMED else ""


def _nearest(evidence: Mapping[str, Any]) -> str:
    return f"; nearest: {_quoted(evidence['found_text'], NEAREST)}" if evidence["found_text"] else ""


def _quoted(text: str, most: int) -> str:
    """A text on one line, in quotation marks, cut to `most` characters."""
    line = " ".join(text.split())
    return f'"{line if len(line) <= most else line[: most - 1] + "…"}"'


def _expected(question: Mapping[str, Any]) -> str:
    return str(question["reference_answer"] or ("no reference answer" if question["answerable"] else "a refusal"))


def _rows(catalogue: Catalogue, node: AssetPartition, question_id: str) -> list[dict[str, Any]]:
    if catalogue.footer(node) is None:
        return []
    return [row for row in catalogue.read(node)[0].to_pylist() if row["question_id"] == question_id]


def question_story(folder: Folder, question_id: str) -> Iterator[str]:
    """What was asked, where its evidence stands, and what each system did with it.

    Raises LookupError for an unknown id, FileNotFoundError where there is no table of questions to find it in.
    """
    graph, catalogue = Graph(folder), open_catalogue(folder)
    questions = catalogue.read(AssetPartition("golden_questions"))[0].to_pylist()
    question = next((row for row in questions if row["question_id"] == question_id), None)
    if question is None:
        raise LookupError(f"no asset and no question {question_id!r}: give an asset's name, or an id of the golden set")
    yield f"{question_id} ({question['split']}, {question['intent']}, {question['language']}): {question['text']}"
    yield f"  expected: {_expected(question)}"
    yield f"  caller {question['entitlement']}, filter {question['filter'] or 'none'}"
    for e in _rows(catalogue, AssetPartition("golden_evidence"), question_id):
        place = f"[{e['start']}, {e['end']}) by {e['match']} match" if e["start"] is not None else e["match"]
        lost = f"{LOST_AT[e['lost_at']]}{_nearest(e)}" if e["lost_at"] else ""
        yield f"  evidence {e['group']}: {e['doc_id']} {lost or place}"
        if e["quotation"]:
            yield f'    "{e["quotation"]}"'
    for system in graph.partitions("answers"):
        yield f"  system {system}"
        for hit in _rows(catalogue, AssetPartition("system_retrievals", system), question_id)[:10]:
            yield f"    {hit['rank']:>3}. {hit['chunk_id'] or hit['reason']}  {'' if hit['score'] is None else round(hit['score'], 4)}"
        for delivered in _rows(catalogue, AssetPartition("contexts", system), question_id):
            cut, tokens = len(delivered["cut_by_budget"]), "unknown" if delivered["tokens"] is None else delivered["tokens"]
            yield f"    delivered {len(delivered['passages'])} passages, {tokens} tokens, {cut} cut by the budget"
        for answer in _rows(catalogue, AssetPartition("answers", system), question_id):
            yield f"    answer ({answer['status']}): {'refused' if answer['refused'] else answer['answer']}"
        for score in _rows(catalogue, AssetPartition("system_scores", system), question_id):
            if score["stage"] != "ranking":
                shown = score["reason"] if score["value"] is None else round(score["value"], 4)
                yield f"      {score['metric']}: {shown}{' — ' + score['explanation'] if score['explanation'] else ''}"
        for group in _rows(catalogue, AssetPartition("evidence_funnel", system), question_id):
            yield f"    evidence {group['group']}: {_way(group)}"
        for tried in _rows(catalogue, AssetPartition("diagnosis", system), question_id):
            if tried["status"] != "not_applicable":
                result = {True: "recovered", False: "not recovered", None: tried["reason"]}[tried["recovered"]]
                yield f"    intervention {tried['intervention']}: {result}; implicated: {tried['label']}"


def _way(group: Mapping[str, Any]) -> str:
    """How far a group's evidence got, from a row of evidence_funnel."""
    if group["lost_at"]:
        return f"reached {group['furthest'] or 'nothing'}, lost at {group['lost_at']}; open {group['open_next']}"
    if group["furthest"] == "answered":
        return "in the context, and the answer passed"
    return f"in the context; {group['detail'] or 'nothing was lost'}" if group["furthest"] else f"not followed ({group['reason']})"


def reading_sample(folder: Folder, number: int, seed: int, system: str | None) -> Iterator[str]:
    """`number` questions drawn with `seed`, each with answer, context and sources. Raises LookupError for an unknown system."""
    graph, catalogue = Graph(folder), open_catalogue(folder)
    system = system or str(graph.partitions("answers")[0])
    if system not in graph.partitions("answers"):
        raise LookupError(f"no system {system!r}; known: {', '.join(map(str, graph.partitions('answers')))}")
    questions = catalogue.read(AssetPartition("golden_questions"))[0].to_pylist()
    if not questions:
        yield NO_QUESTIONS
        return
    answers = {r["question_id"]: r for r in catalogue.read(AssetPartition("answers", system))[0].to_pylist()}
    contexts = {r["question_id"]: r for r in catalogue.read(AssetPartition("contexts", system))[0].to_pylist()}
    for question in random.Random(seed).sample(questions, min(number, len(questions))):
        answer, delivered = answers[question["question_id"]], contexts[question["question_id"]]
        yield f"{question['question_id']} ({question['split']}): {question['text']}"
        yield f"  expected: {_expected(question)}"
        yield f"  {system}: {'refused' if answer['refused'] else answer['answer']}"
        cited = {c["position"] for c in answer["citations"]}
        for passage in delivered["passages"]:
            mark = "*" if passage["position"] in cited else " "
            yield f"  {mark}[{passage['position'] + 1}] {passage['doc_id']} {_quoted(passage['text'], 200)}"
        yield ""


def label_holes(folder: Folder, system: str | None, depth: int) -> Iterator[str]:
    """Unjudged documents among the first `depth` of each system's rankings, then their number. Raises LookupError for an unknown system."""
    graph, catalogue = Graph(folder), open_catalogue(folder)
    known = [str(key) for key in graph.partitions("system_retrievals")]
    if system is not None and system not in known:
        raise LookupError(f"no system {system!r}; known: {', '.join(known)}")
    questions = catalogue.read(AssetPartition("golden_questions"))[0].to_pylist()
    evidence = catalogue.read(AssetPartition("golden_evidence"))[0].to_pylist()
    for name in [system] if system is not None else known:
        ranked = catalogue.read(AssetPartition("system_retrievals", name))[0].select(["question_id", "rank", "doc_id", "text"]).to_pylist()
        holes = coverage.label_holes(questions, evidence, ranked, depth)
        for hole in holes:
            yield f"{name}  {hole['question_id']}  {hole['rank']}  {hole['doc_id']}"
        yield f"{name}: {len(holes)} unjudged documents in the first {depth} of {len({hole['question_id'] for hole in holes})} questions"
