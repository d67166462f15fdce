"""Rankings in files: TREC runs and qrels, and JSON lines, read with errors that name file, line and id, and written back.

What belongs here: the formats. What does not: which chunk or document an id stands for in a chunking (`retrieval.corpus`), BEIR folders
(`importing`, `exporting`) and any score.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from rag_eval_assets.golden import GoldenError

SHOWN_ERRORS = 50
Hit = tuple[str, float | None]


class RunFileError(GoldenError):
    """A run file that cannot be used: one line a problem, each naming file, line, id and the mend."""


def read_runs(folder: Path, paths: Mapping[str, str], documents: Collection[str]) -> list[dict[str, Any]]:
    """Rows of imported_runs: the files of `paths` (retriever to path below `folder`), ids resolved against document ids of the corpus.

    `.jsonl` holds {"question", "hits": [{"id", "score"?}]} lines, best first; any other file is a TREC run of lines
    `question Q0 id rank score tag`, whose rank rules. An id is a chunk's, a document's (percent-encoded where it has white space), or a
    document's without its suffix .txt, as BEIR has it; one of a document that the corpus does not hold stands as it is. Raises
    RunFileError for files that are not there, not readable or without a ranking, repeated ids, questions or ranks and scores that are
    not finite.
    """
    problems: list[str] = []
    rows: list[dict[str, Any]] = []
    for retriever, name in sorted(paths.items()):
        path = folder / name
        if not path.is_file():
            problems.append(f"{path}: no such file; retriever {retriever!r} names it in 'path'")
            continue
        read = _json_lines if path.suffix == ".jsonl" else _trec_run
        before = len(problems)
        found = read(path, problems)
        if not found and len(problems) == before:
            problems.append(f"{path}: no ranking in it; export it anew, or remove retriever {retriever!r}")
        for question, hits in sorted(_resolved(path, found, documents, problems).items()):
            own = {"retriever": retriever, "question_id": question, "file": name}
            placed = [(rank, *hit) for rank, hit in enumerate(hits, 1)] or [(0, found[question][0], None, None)]
            rows += [{**own, "rank": rank, "line": line, "item": item, "score": score} for rank, line, item, score in placed]
    if problems:
        raise RunFileError("\n".join(problems[:SHOWN_ERRORS]))
    return rows


_Placed = tuple[int, str, float | None]
"""The line a hit stands on, its id, its score."""
_Read = dict[str, tuple[int, list[_Placed]]]
"""By question the first line that names it, and its hits with ids as written."""


def _resolved(path: Path, runs: _Read, documents: Collection[str], problems: list[str]) -> dict[str, list[_Placed]]:
    found: dict[str, list[_Placed]] = {}
    for question, (_, hits) in runs.items():
        own: dict[str, _Placed] = {}
        for line, written, score in hits:
            place, item = f"{path}:{line}", _item(written, documents)
            if item in own:
                problems.append(f"{place}: question {question!r}: {written!r} is there twice; keep one")
            elif score is not None and not math.isfinite(score):
                problems.append(f"{place}: question {question!r}: the score of {written!r} is not finite; give a number")
            else:
                own[item] = (line, item, score)
        found[question] = list(own.values())
    return found


def _item(written: str, documents: Collection[str]) -> str:
    """The chunk or document id that is meant."""
    names = [unicodedata.normalize("NFC", name) for name in (written, unquote(written))]
    for item in names:
        if item in documents or document_of(item) in documents:
            return item
        if f"{item}.txt" in documents:
            return f"{item}.txt"
    return names[-1]


def document_of(item: str) -> str:
    """The document of a chunk's id; a document's id itself."""
    return re.sub(r"#\d+-\d+$", "", item)


def _lines(path: Path, problems: list[str]) -> Iterator[tuple[int, str]]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                problems.append(f"{path}:{number}: not UTF-8: {error.reason}; save the file as UTF-8")
                continue
            if text.strip():
                yield number, text


def _trec_run(path: Path, problems: list[str]) -> _Read:
    ranked: dict[str, dict[int, _Placed]] = {}
    for number, line in _lines(path, problems):
        place, parts = f"{path}:{number}", line.split()
        if len(parts) != 6 or not re.fullmatch(r"\d{1,9}", parts[3]):
            problems.append(f"{place}: not 'question Q0 id rank score tag' with a whole number for rank")
            continue
        question, rank = unicodedata.normalize("NFC", unquote(parts[0])), int(parts[3])
        try:
            score = float(parts[4])
        except ValueError:
            problems.append(f"{place}: question {question!r}: score {parts[4]!r} is no number")
            continue
        own = ranked.setdefault(question, {})
        if rank in own:
            problems.append(f"{place}: question {question!r}: rank {rank} is there twice; the rank rules, so give each hit its own")
            continue
        own[rank] = (number, parts[2], score)
    return {question: (min(own.values())[0], [own[rank] for rank in sorted(own)]) for question, own in ranked.items()}


def _json_lines(path: Path, problems: list[str]) -> _Read:
    found: _Read = {}
    for number, text in _lines(path, problems):
        place = f"{path}:{number}"
        try:
            line = json.loads(text)
            json.dumps(line, ensure_ascii=False).encode()  # half a surrogate pair, which an escape can write, has no UTF-8
        except (ValueError, RecursionError) as error:
            problems.append(f"{place}: no JSON: {error}; one object a line")
            continue
        question, hits = (line.get("question"), line.get("hits")) if isinstance(line, dict) else (None, None)
        if not isinstance(question, str) or not isinstance(hits, list) or set(line) != {"question", "hits"}:
            problems.append(f'{place}: not {{"question": "...", "hits": [{{"id": "...", "score": 1.5}}]}}')
            continue
        question = unicodedata.normalize("NFC", question)
        if question in found:
            problems.append(f"{place}: question {question!r} has a line above; keep one")
            continue
        found[question] = (number, [])
        for at, hit in enumerate(hits, 1):
            known = isinstance(hit, dict) and set(hit) <= {"id", "score"} and isinstance(hit.get("id"), str)
            score = hit.get("score") if known else None
            if not known or isinstance(score, bool) or not isinstance(score, int | float | None):
                problems.append(f'{place}: question {question!r}: hit {at} is not {{"id": "...", "score": 1.5}}')
                continue
            # By way of its text: a whole number past the largest float is infinity, and told as such.
            found[question][1].append((number, hit["id"], None if score is None else float(str(score))))
    return found


# ------------------------------------------------------------------------------------------------------------ writing
def trec_id(name: str) -> str:
    """An id as one word: white space and '%' percent-encoded, so that reading it back gives the same."""
    return "".join(quote(c, safe="") if c.isspace() or c == "%" else c for c in name)


def trec_run(rankings: Mapping[str, Sequence[Hit]], tag: str) -> Iterator[str]:
    """Lines of a TREC run. trec_eval orders by score, then by id, both descending, and reads no rank: where that order is not the
    ranking's own, or a hit has no score, the whole run is written with scores that fall by one a rank.
    """
    faithful = all(_in_trec_order(hits) for hits in rankings.values())
    for question, hits in sorted(rankings.items()):
        for rank, (item, score) in enumerate(hits, 1):
            written = repr(float(score)) if faithful and score is not None else str(len(hits) - rank + 1)
            yield f"{trec_id(question)} Q0 {trec_id(item)} {rank} {written} {tag}\n"


def _in_trec_order(hits: Sequence[Hit]) -> bool:
    if any(score is None for _, score in hits):
        return False
    keys = [(float(np.float32(score)), trec_id(item).encode()) for item, score in hits]  # C strings compare as bytes
    return keys == sorted(keys, reverse=True)


def trec_qrels(grades: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Lines of TREC qrels, `question 0 id grade`."""
    for question, own in sorted(grades.items()):
        yield from (f"{trec_id(question)} 0 {trec_id(item)} {grade}\n" for item, grade in sorted(own.items()))


def collapsed(hits: Iterable[tuple[str, float | None]]) -> list[Hit]:
    """Units at their first rank, in order."""
    first: dict[str, float | None] = {}
    for item, score in hits:
        first.setdefault(item, score)
    return list(first.items())
