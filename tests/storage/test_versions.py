"""Data versions, work keys and code versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_assets.storage import versions
from rag_eval_assets.storage.versions import SourceTree, code_differences, data_version, digest, schema_hash
from rag_eval_assets.tables import TABLES, Table, col

CONTRACT = Table(
    "example",
    "corpus",
    "a row",
    ("id",),
    pa.schema(
        [
            col("id", pa.string(), "Id."),
            col("number", pa.float64(), "Number.", null=True),
            col("words", pa.list_(pa.string()), "Words.", null=True),
            col("span", pa.list_(pa.struct([pa.field("type", pa.string()), pa.field("start", pa.int32())])), "Spans.", null=True),
            col("seconds", pa.float64(), "Time.", null=True, role="volatile"),
            col("vector", pa.list_(pa.float32()), "Vector.", null=True, role="vector"),
        ]
    ),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "number": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "words": st.none() | st.lists(st.text(max_size=4), max_size=3),
            "span": st.none() | st.lists(st.fixed_dictionaries({"type": st.text(max_size=2), "start": st.integers(0, 9)}), max_size=2),
        }
    ),
    max_size=8,
)


def table(rows: list[dict]) -> pa.Table:
    full = [{"id": f"{i:03}", "seconds": 1.0, "vector": None, **row} for i, row in enumerate(rows)]
    return pa.table({f.name: pa.array([r[f.name] for r in full], f.type) for f in CONTRACT.schema})


@given(ROWS, st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_equal_content_has_one_version_however_the_table_is_cut_into_chunks(rows: list[dict], cut: int) -> None:
    whole = table(rows)
    pieces = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    assert data_version(whole, CONTRACT) == data_version(pieces, CONTRACT)


@given(ROWS, ROWS)
@settings(max_examples=60, deadline=None)
def test_different_content_has_another_version(left: list[dict], right: list[dict]) -> None:
    def normal(rows: list[dict]) -> list[dict]:
        return [{**r, "number": None if r["number"] is None else r["number"] + 0.0} for r in rows]

    same = normal(left) == normal(right)
    assert (data_version(table(left), CONTRACT) == data_version(table(right), CONTRACT)) == same


def test_null_and_empty_are_told_apart() -> None:
    assert data_version(table([{"number": None, "words": None, "span": None}]), CONTRACT) != data_version(
        table([{"number": None, "words": [], "span": None}]), CONTRACT
    )


def test_text_that_moves_between_neighbouring_cells_changes_the_version() -> None:
    first = table([{"number": 1, "words": ["ab", "c"], "span": []}])
    second = table([{"number": 1, "words": ["a", "bc"], "span": []}])
    assert data_version(first, CONTRACT) != data_version(second, CONTRACT)


def test_a_volatile_column_and_a_vector_do_not_enter_the_version() -> None:
    rows = table([{"number": 1.5, "words": ["x"], "span": []}])
    moved = rows.set_column(4, rows.schema.field("seconds"), pa.array([99.0]))
    moved = moved.set_column(5, rows.schema.field("vector"), pa.array([[0.5, 0.5]], pa.list_(pa.float32())))
    assert data_version(rows, CONTRACT) == data_version(moved, CONTRACT)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_volatile_column_of_every_table_is_outside_its_version(name: str) -> None:
    contract = TABLES[name]
    random = np.random.default_rng(1)
    empty = {f.name: pa.nulls(1, f.type) for f in contract.schema}
    base = data_version(pa.table(empty), contract)
    for field in contract.schema:
        if contract.role(field.name) == "volatile":
            value = (
                random.integers(1, 99) if pa.types.is_integer(field.type) else "x" if pa.types.is_string(field.type) else random.random()
            )
            assert data_version(pa.table({**empty, field.name: pa.array([value], field.type)}), contract) == base


def test_a_schema_hash_ignores_descriptions_and_notices_types() -> None:
    reworded = replace(CONTRACT, schema=pa.schema([f.with_metadata({**f.metadata, b"description": b"Other."}) for f in CONTRACT.schema]))
    retyped = replace(CONTRACT, schema=CONTRACT.schema.set(0, col("id", pa.int64(), "Id.")))
    assert schema_hash(CONTRACT) == schema_hash(reworded) != schema_hash(retyped)


def test_a_digest_does_not_depend_on_the_order_of_a_mapping() -> None:
    assert digest({"a": 1, "b": [2, None]}) == digest({"b": [2, None], "a": 1}) != digest({"a": 1, "b": [None, 2]})


BODY = "from ingestion.chunking import chunk_document\n\ndef body(step):\n    return helper(step)\n\ndef helper(step):\n    return chunk_document(step)\n"


def tree(**modules: str) -> SourceTree:
    return SourceTree(overrides={name.replace("__", "."): text for name, text in modules.items()})


def test_a_comment_a_docstring_and_blank_lines_leave_a_module_hash_alone() -> None:
    plain = tree(ingestion__x="def f(a):\n    return a + 1\n")
    dressed = tree(ingestion__x='"""Doc."""\n\n# why\ndef f(a):\n    """Doc."""\n    return a + 1  # one more\n')
    changed = tree(ingestion__x="def f(a):\n    return a + 2\n")
    assert plain.module_hash("ingestion.x") == dressed.module_hash("ingestion.x") != changed.module_hash("ingestion.x")


def test_a_closure_follows_imports_inside_functions_and_stops_at_modules_that_only_move_rows() -> None:
    source = tree(
        ingestion__a="def f():\n    from ingestion import b\n    return b\n",
        ingestion__b="import rag_eval_assets.storage.versions\nfrom rag_eval_assets.tables import OK\nimport json\n",
    )
    assert list(source.closure(["ingestion.a"])) == ["ingestion.a", "ingestion.b"]


def test_a_body_hash_covers_helpers_of_its_module_and_nothing_beside_them() -> None:
    first, reached = tree(rag_eval_assets__assets__x=BODY).function("rag_eval_assets.assets.x", "body")
    neighbour, _ = tree(rag_eval_assets__assets__x=BODY + "\ndef other():\n    return 3\n").function("rag_eval_assets.assets.x", "body")
    helper, _ = tree(rag_eval_assets__assets__x=BODY.replace("chunk_document(step)", "chunk_document(step, 1)")).function(
        "rag_eval_assets.assets.x", "body"
    )
    assert first == neighbour != helper
    assert reached == ["ingestion.chunking"]


def test_differences_name_the_module_the_setting_and_the_library() -> None:
    old = {"schema": "s", "body": "b", "modules": {"m": "1"}, "settings": {"size": 256}, "libraries": {"faiss-cpu": "1.0"}}
    new = {"schema": "s", "body": "b", "modules": {"m": "2"}, "settings": {"size": 512}, "libraries": {"faiss-cpu": "1.1"}}
    assert code_differences(old, new) == ["code: m changed", "setting: size 256 -> 512", 'library: faiss-cpu "1.0" -> "1.1"']


def test_a_list_read_from_a_footer_is_the_tuple_that_was_written() -> None:
    old = {"schema": "s", "body": "b", "settings": {"classes": ["pdf"], "k": 1}}
    assert code_differences(old, {**old, "modules": {}, "libraries": {}, "settings": {"classes": ("pdf",), "k": 2}}) == [
        "setting: k 1 -> 2"
    ]


def test_a_parameter_that_is_named_like_another_asset_does_not_pull_in_its_code() -> None:
    text = "from ingestion import cleaning\n\ndef documents(step):\n    return cleaning\n\ndef unique(step, documents):\n    return documents\n"
    _, reached = tree(rag_eval_assets__assets__x=text).function("rag_eval_assets.assets.x", "unique")
    assert reached == []


def test_a_helper_of_another_asset_module_is_followed_alone() -> None:
    user = "from rag_eval_assets.assets.y import shared\n\ndef body(step):\n    return shared(step)\n"
    owner = "from ingestion import a, b\n\ndef shared(step):\n    return a.f(step)\n\ndef asset(step):\n    return b.f(step)\n"

    def version(text: str) -> tuple[str, list[str]]:
        source = tree(rag_eval_assets__assets__x=user, rag_eval_assets__assets__y=text, ingestion__a="X = 1\n", ingestion__b="Y = 1\n")
        return source.function("rag_eval_assets.assets.x", "body")

    assert version(owner)[1] == ["ingestion.a"]
    assert version(owner)[0] == version(owner.replace("b.f(step)", "b.g(step)"))[0]
    assert version(owner)[0] != version(owner.replace("a.f(step)", "a.g(step)"))[0]


def test_an_unchanged_source_is_not_parsed_again_by_the_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, memory = tmp_path / "project", tmp_path / "source.json"
    (root / "ingestion").mkdir(parents=True)
    for name, text in {"a": "from ingestion import b\nX = b.Y\n", "b": "Y = 1\n"}.items():
        (root / "ingestion" / f"{name}.py").write_text(text)

    def facts() -> tuple[dict[str, str], tuple[str, list[str]]]:
        source = SourceTree(root, memory=memory)
        found = source.closure(["ingestion.a"]), source.function("ingestion.a", "X")
        source.remember()
        return found

    parsed: list[str] = []
    inner = versions._parsed
    monkeypatch.setattr(versions, "_parsed", lambda text: parsed.append(text) or inner(text))
    first = facts()
    assert list(first[0]) == ["ingestion.a", "ingestion.b"]
    assert len(parsed) > 0
    parsed.clear()
    assert facts() == first
    assert parsed == []
    (root / "ingestion" / "b.py").write_text("Y = 2\n")
    assert facts()[0]["ingestion.b"] != first[0]["ingestion.b"]
    memory.write_text("{")
    assert facts()[0]["ingestion.a"] == first[0]["ingestion.a"]
