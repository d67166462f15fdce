"""A support desk of the user's own: it searches its paragraphs by shared words and quotes the sentence that shares most of them.

Every call is noted in calls.txt beside it, one word a call, so that a test can count what an evaluation cost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rag_eval_assets.generation.protocol import Answer, Citation, Passage

_HERE = Path(__file__).parent
_FUNCTION_WORDS = re.compile(
    r"\b(a|an|and|are|at|be|by|do|does|for|from|how|i|in|is|it|long|many|my|of|on|or|the|to|was|what|when|which)\b"
)


def _words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in re.findall(r"[a-z]+", _FUNCTION_WORDS.sub(" ", text.lower()))}


class Desk:
    """Word overlap in search and in reading: vocabulary it does not share with the question, it cannot find."""

    index_version = "paragraphs-1"
    depth, top_k, token_budget = 6, 2, 40

    def __init__(self) -> None:
        self.paragraphs = [
            Passage(f"{path.stem}-{number}", path.name, paragraph.strip())
            for path in sorted((_HERE / "corpus").glob("*.md"))
            for number, paragraph in enumerate(path.read_text(encoding="utf-8").split("\n\n")[1:], 1)
        ]

    def retrieve(self, question: str, depth: int) -> Sequence[Passage]:
        self._note("retrieve")
        asked = _words(question)
        shared = [(len(asked & _words(p.text)), p) for p in self.paragraphs]
        found = sorted((pair for pair in shared if pair[0]), key=lambda pair: (-pair[0], pair[1].id))
        return [Passage(p.id, p.document, p.text, float(score)) for score, p in found[:depth]]

    def generate(self, question: str, passages: Sequence[Passage]) -> Answer:
        self._note("generate")
        asked = _words(question)
        sentences = [
            (len(asked & _words(sentence)), -at, sentence)
            for at, passage in enumerate(passages)
            for sentence in re.split(r"(?<=[.!?])\s+", passage.text)
        ]
        shared, at, sentence = max(sentences, default=(0, 0, ""), key=lambda s: s[:2])
        return Answer(sentence, citations=[Citation(-at, sentence)]) if shared else Answer("", refused=True)

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def _note(self, call: str) -> None:
        with (_HERE / "calls.txt").open("a", encoding="utf-8") as file:
            file.write(call + "\n")


def opening(query: str, passages: list[str]) -> list[float]:
    """A reranker: words a passage shares with the first eight of the question, which say what is asked for."""
    asked = _words(" ".join(query.split()[:8]))
    return [float(len(asked & _words(passage))) for passage in passages]
