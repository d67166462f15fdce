"""Stored rankings are compared with what callers may read, whatever made them, and every hit is accounted for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from rag_eval_assets.retrieval.entitlement import Entitlement, verify_entitlement

Row = dict[str, Any]


def hits(*pairs: tuple[str, str | None]) -> pa.Table:
    """Hits of (question, document), and an empty ranking's row."""
    rows = [{"question_id": question, "rank": rank, "doc_id": doc} for rank, (question, doc) in enumerate(pairs, 1)]
    return pa.Table.from_pylist([*rows, {"question_id": "open", "rank": 0, "doc_id": None}])


@pytest.fixture
def verified(document: Callable[..., Row], question: Callable[..., Row]) -> Callable[..., Entitlement]:
    documents = [document("all.txt"), document("acme.txt", tenant="acme"), document("draft.txt", publication_state="draft")]
    questions = [
        question("open"),
        question("acme", entitlement={"tenant": ["acme"]}, filter={"locale": "nl-NL"}),
        question("editor", entitlement={"publication_state": ["draft"]}),
    ]
    return lambda *pairs: verify_entitlement(hits(*pairs), questions, documents)


def test_hits_that_their_callers_may_read_are_counted_and_nothing_else_is_said(verified: Callable[..., Entitlement]) -> None:
    # The filter of the second question matches nothing, and is no matter of entitlement.
    assert verified(("open", "all.txt"), ("acme", "acme.txt"), ("acme", "all.txt")) == Entitlement(3, 0, (), 0)


def test_every_hit_that_a_caller_may_not_read_is_counted_and_named(verified: Callable[..., Entitlement]) -> None:
    found = verified(("open", "acme.txt"), ("open", "acme.txt"), ("open", "draft.txt"), ("editor", "all.txt"), ("editor", "draft.txt"))
    assert (found.compared, found.violations) == (5, 4)
    assert found.examples == (("editor", "all.txt"), ("open", "acme.txt"), ("open", "draft.txt"))


def test_what_cannot_be_compared_is_told_apart_from_what_is_permitted(verified: Callable[..., Entitlement]) -> None:
    assert verified(("open", None), ("open", "gone.txt"), ("removed", "all.txt")) == Entitlement(0, 0, (), 3)
