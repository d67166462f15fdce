"""Synthetic questions: a language model writes questions about drawn passages into golden/synthetic.jsonl, marked as such.

What belongs here: the draw, the requests, and what of a reply is kept. What does not: sending (`resources.language_models`) and the golden
set's own rules (`golden`). They are questions of the development split with the kind `synthetic`, a slice of its own: they never decide a
release unless somebody has read them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rag_eval_assets.assets._models import model_of
from rag_eval_assets.fences import RULE, fence, fenced
from rag_eval_assets.golden import DEVELOPMENT, SYNTHETIC, Question, replace_file
from rag_eval_assets.graph import AssetPartition, Graph
from rag_eval_assets.resources.language_models import Completion, Request
from rag_eval_assets.scoring.texts import normal_tokens
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue

FILE = "synthetic.jsonl"
LEAST_TOKENS = 12
"""Tokens of the shortest passage that is drawn: a heading alone has nothing to be asked about."""

Row = Mapping[str, Any]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Asked(_Reply):
    question: str
    answer: str
    quotations: list[str] = Field(min_length=1, description="One from each passage, word for word.")


class Single(_Reply):
    questions: list[Asked] = Field(min_length=1, max_length=3)


class MultiHop(_Reply):
    questions: list[Asked] = Field(min_length=1, max_length=1)


class Adversarial(_Reply):
    question: str
    why: str


_COMMON = """\
Write as somebody would who looks for the answer and has not seen the material: no "according to the passage". Use the language of the \
material. Names, numbers and conditions must be as they stand there."""
_TASKS: dict[str, tuple[str, type[_Reply]]] = {
    "single": (
        f"Write three different questions that the passage answers, each with its short answer and the words of the passage that hold it, "
        f"quoted exactly. {_COMMON}",
        Single,
    ),
    "multi_hop": (
        f"Write one question that only both passages together answer, with its short answer and from each passage the words that are "
        f"needed, quoted exactly, in the order of the passages. {_COMMON}",
        MultiHop,
    ),
    "adversarial": (
        f"Write one question on the subject of the passage that looks as if it were answered there and is not, neither there nor by "
        f"common knowledge, and say why. {_COMMON}",
        Adversarial,
    ),
}


@dataclass(frozen=True)
class Job:
    """What is asked about one passage, or about two."""

    kind: str
    passages: tuple[Row, ...]


def draw(chunks: Sequence[Row], taken: set[str], number: int, seed: int) -> list[Row]:
    """Up to `number` chunks, one a document first, by the lowest hash of seed and text; none of a document that is `taken`.

    Documents that questions of another split rest on are taken: a question about them would leak.
    """
    able = [c for c in chunks if c["doc_id"] not in taken and c["tokens"] >= LEAST_TOKENS]
    able.sort(key=lambda c: hashlib.sha256(f"{seed}\0{c['text_sha256']}\0{c['chunk_id']}".encode()).digest())
    turns: Counter[str] = Counter()
    ranked = []
    for chunk in able:
        ranked.append((turns[chunk["doc_id"]], len(ranked), chunk))
        turns[chunk["doc_id"]] += 1
    return [chunk for _, _, chunk in sorted(ranked, key=lambda r: r[:2])[:number]]


def jobs_of(drawn: Sequence[Row]) -> list[Job]:
    """Of each passage three questions and an adversarial one; of neighbours in the draw from two documents one over both."""
    found = [Job(kind, (chunk,)) for chunk in drawn for kind in ("single", "adversarial")]
    return found + [Job("multi_hop", (one, two)) for one, two in pairwise(drawn) if one["doc_id"] != two["doc_id"]]


def request_of(job: Job) -> Request[Any]:
    """The request of one job, its material between lines that it cannot hold."""
    task, schema = _TASKS[job.kind]
    texts = [chunk["text"] for chunk in job.passages]
    word = fence(*texts)
    system = f"{task}\n\n{RULE.format(fence=word)}"
    return Request(({"role": "system", "content": system}, {"role": "user", "content": fenced(word, enumerate(texts, 1))}), schema)


def lines_of(
    jobs: Sequence[Job], replies: Sequence[Completion[Any]], known: Sequence[str], languages: Mapping[str, str], model: str
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Golden lines in order of their ids, and how many were kept or left out, by reason.

    A quotation that does not stand in its passage, a blank question or answer, and a question that the golden set (`known`: its texts) or
    an earlier line asks already are left out. `languages` gives a document's language.
    """
    counts: Counter[str] = Counter()
    lines: dict[str, dict[str, Any]] = {}
    seen = {tuple(normal_tokens(text)) for text in known}
    for job, found in zip(jobs, replies, strict=True):
        if found.value is None:
            counts[found.reason or "unparsable_reply"] += 1
            continue
        made = [found.value] if isinstance(found.value, Adversarial) else found.value.questions
        for one in made:
            words = tuple(normal_tokens(one.question))
            fault = "blank" if not words else "asked_already" if words in seen else _fault(one, job)
            counts[fault or job.kind] += 1
            if fault is None:
                seen.add(words)
                line = _line(one, job, languages, model)
                lines[line["id"]] = line
    return [lines[key] for key in sorted(lines)], counts


def _fault(one: Asked | Adversarial, job: Job) -> str | None:
    if isinstance(one, Adversarial):
        return None
    if not one.answer.strip():
        return "blank"
    held = len(one.quotations) == len(job.passages) or job.kind == "single"
    sources = job.passages if job.kind == "multi_hop" else [job.passages[0]] * len(one.quotations)
    quoted = held and all(q.strip() and q in c["text"] for q, c in zip(one.quotations, sources, strict=True))
    return None if quoted else "not_quoted"


def _line(one: Asked | Adversarial, job: Job, languages: Mapping[str, str], model: str) -> dict[str, Any]:
    source = "\0".join(chunk["text_sha256"] for chunk in job.passages)
    digest = hashlib.sha256(f"{job.kind}\0{source}\0{one.question}".encode()).hexdigest()
    line: dict[str, Any] = {
        "id": f"syn-{digest[:12]}",
        "question": one.question.strip(),
        "split": DEVELOPMENT,
        "language": languages[job.passages[0]["doc_id"]],
        "kinds": [SYNTHETIC, job.kind],
        "slices": {"written_by": model},
    }
    if isinstance(one, Adversarial):
        return {**line, "answerable": False}
    documents = [c["doc_id"] for c in job.passages] if job.kind == "multi_hop" else [job.passages[0]["doc_id"]] * len(one.quotations)
    # The quotations of one passage are needed together, like those of two.
    cited = dict.fromkeys(zip(documents, one.quotations, strict=True))
    evidence = [{"group": f"g{n}", "document": document, "quotation": words} for n, (document, words) in enumerate(cited, 1)]
    return {**line, "reference_answer": one.answer.strip(), "evidence": evidence}


def write_synthetic(folder: Folder, model: str, number: int, chunking: str | None = None) -> tuple[Path, Counter[str]]:
    """Write golden/synthetic.jsonl anew from `number` passages of a synced chunking; where it is, and how many questions by kind or reason.

    Every request goes through the response store: the same draw again asks nothing. Raises LookupError for an unknown model or chunking,
    and FileNotFoundError for tables that were not made.
    """
    graph, catalogue = Graph(folder), open_catalogue(folder)
    if model not in folder.settings.models:
        raise LookupError(f"no model {model!r}; known: {', '.join(folder.settings.models) or 'none; add one under models'}")
    known = graph.families["chunking"]
    chosen = chunking or (graph.used_chunkings or known)[0]
    if chosen not in known:
        raise LookupError(f"no chunking {chosen!r}; known: {', '.join(known)}")

    def rows(name: str, *columns: str, partition: str | None = None) -> list[dict[str, Any]]:
        return catalogue.read(AssetPartition(name, partition))[0].select(list(columns)).to_pylist()

    questions = rows("golden_questions", "question_id", "text", "split", "file")
    split = {q["question_id"]: q["split"] for q in questions}
    labels = rows("golden_evidence", "question_id", "doc_id", "kept_doc_id")
    taken = {name for r in labels if split[r["question_id"]] != DEVELOPMENT for name in (r["doc_id"], r["kept_doc_id"]) if name}
    chunks = rows("chunks", "chunk_id", "doc_id", "text", "text_sha256", "tokens", partition=chosen)
    jobs = jobs_of(draw(chunks, taken, number, folder.settings.seed))
    replies = model_of(folder, model).ask_many([request_of(job) for job in jobs])
    languages = {r["doc_id"]: "en" if r["language"] in (None, "und") else r["language"] for r in rows("documents", "doc_id", "language")}
    asked = [q["text"] for q in questions if q["file"] != FILE]
    lines, counts = lines_of(jobs, replies, asked, languages, folder.settings.models[model].model)
    for line in lines:
        Question.model_validate(line)
    path = folder.golden / FILE
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    if content and not (path.is_file() and path.read_bytes() == content):
        replace_file(path, content)
    return path, counts
