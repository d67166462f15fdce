"""Rows of `documents` and a content store for tests of dedup."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

MARS = "Mars has two moons, Phobos and Deimos."
LONG = (
    "The heating element of the kettle is covered for five years after purchase. The lid and the cord are covered for two years. "
    "A customer who wants a repair sends the kettle to the service desk in Zwolle with a copy of the invoice. "
)


class Store(dict[str, bytes]):
    """A content store in memory that counts what is written."""

    written = 0

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        return {key: self[key] for key in keys if key in self}

    def put_many(self, items: Mapping[str, bytes]) -> None:
        self.written += len(items)
        self.update(items)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def document(doc_id: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "doc_class": "text",
        "parser": "x",
        "title": None,
        "language": "en",
        "text": text,
        "text_sha256": sha256(text),
        "elements": [],
        "tenant": None,
        "groups": [],
        "jurisdiction": None,
        "publication_state": "published",
        "locale": None,
        "version": None,
        "version_of": None,
        "published": None,
        "fields": "{}",
        "status": "ok",
    } | more


def pairs(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Pair rows of `near_duplicates` by their documents."""
    return {(r["doc_id"], r["other_doc_id"]): r for r in rows if r["row"] == "pair"}


def set_similarity(one: str, other: str, length: int = 5) -> tuple[float, float]:
    """Jaccard similarity and containment of the sets of character shingles, by Python's own sets."""
    one, other = (" ".join(text.lower().split()) for text in (one, other))
    a, b = ({text[i : i + length] for i in range(len(text) - length + 1)} for text in (one, other))
    return len(a & b) / len(a | b), len(a & b) / min(len(a), len(b))


def set_jaccard(one: str, other: str) -> float:
    return set_similarity(one, other)[0]
