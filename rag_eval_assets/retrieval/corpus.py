"""The chunks that are searched, numbered in the order of their ids, and who may see which.

What belongs here: positions, names that stand for chunks, and predicates turned into masks. What does not: any search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_assets.retrieval.filters import entitled, passes, predicate
from rag_eval_assets.retrieval.ordering import Mask, Positions
from rag_eval_assets.retrieval.passages import Passages

Row = Mapping[str, Any]


class Corpus:
    """Chunks numbered in ascending order of their ids, and who may see them."""

    def __init__(self, chunks: pa.Table, documents: Sequence[Row], texts: Mapping[str, str] | None = None) -> None:
        """`texts` are canonical texts by document, which parents are pieces of."""
        self.table = chunks.take(pc.sort_indices(chunks, sort_keys=[("chunk_id", "ascending")])).combine_chunks()
        self.ids: list[str] = self.table["chunk_id"].to_pylist()
        self.position: dict[str, int] = unique({chunk: at for at, chunk in enumerate(self.ids)}, len(self.ids), "two chunks have one id")
        self.passages = Passages(self.table)
        self.documents, self.texts = documents, texts or {}
        number = unique({row["doc_id"]: at for at, row in enumerate(documents)}, len(documents), "two documents have one id")
        owners = self.table["doc_id"].to_pylist()
        unknown = sorted(set(owners) - set(number))
        if unknown:
            raise ValueError(f"{len(unknown)} documents have chunks and no row in unique_documents, {unknown[0]!r} among them")
        self._owner = np.array([number[owner] for owner in owners], dtype=np.int64)
        self._open: dict[tuple[str, str | None], npt.NDArray[np.bool_]] = {}
        self._readable: dict[tuple[str, int], bool] = {}
        self._named: dict[str, int] | None = None

    def languages(self) -> list[str]:
        return [self.documents[at]["language"] for at in self._owner]

    def mask(self, question: Row) -> Mask | None:
        """Chunks that the question's caller may read and its filter lets through; None for all of them."""
        key = (question["entitlement"], question["filter"])
        if key not in self._open:
            access, wanted = predicate(key[0]), predicate(key[1])
            self._open[key] = np.array([entitled(access, row) and passes(wanted, row) for row in self.documents], dtype=np.bool_)
        visible = self._open[key]
        return None if visible.all() else visible[self._owner]

    def unreadable(self, question: Row, positions: Positions) -> str | None:
        """The first chunk that the question's caller may not read; None where all may be. Asked of the documents, not of a mask."""
        for at in positions.tolist():
            key = (question["entitlement"], int(self._owner[at]))
            if key not in self._readable:
                self._readable[key] = entitled(predicate(key[0]), self.documents[key[1]])
            if not self._readable[key]:
                return str(self.ids[at])
        return None

    def delivered_texts(self, positions: Positions) -> list[str]:
        """What is delivered where these chunks are found: their own texts or their parents'. KeyError names a document without text."""
        rows = self.table.select(["text", "doc_id", "parent_start", "parent_end"]).take(pa.array(positions)).to_pylist()
        return [r["text"] if r["parent_start"] is None else self.texts[r["doc_id"]][r["parent_start"] : r["parent_end"]] for r in rows]

    def named(self, item: str) -> int | None:
        """Position of a chunk by its id, or by the id of a document that is one chunk, merged documents included; None for neither."""
        if self._named is None:
            self._named = named_units(self.ids, self.table["doc_id"].to_pylist(), self.documents)
        return self._named.get(item)


def named_units(chunks: Sequence[str], owners: Sequence[str], documents: Sequence[Row]) -> dict[str, int]:
    """Ids that stand for one chunk with its position: the chunk's own, its document's where that is one chunk, and those merged into it."""
    owned: dict[str, list[int]] = {}
    for at, doc_id in enumerate(owners):
        owned.setdefault(doc_id, []).append(at)
    single = {doc_id: found[0] for doc_id, found in owned.items() if len(found) == 1}
    merged = {other: single[row["doc_id"]] for row in documents for other in row.get("absorbed") or () if row["doc_id"] in single}
    return merged | single | {chunk: at for at, chunk in enumerate(chunks)}


def unique(mapping: dict[str, Any], count: int, complaint: str) -> dict[str, Any]:
    """`mapping` itself; ValueError with the complaint where keys have fallen together."""
    if len(mapping) != count:
        raise ValueError(complaint)
    return mapping
