"""Partition keys and the parameters they stand for, both ways; what a grid of chunkings refuses."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion.chunking import STRATEGIES, Chunking
from rag_eval_assets.partitions import chunking_key, chunking_keys, chunkings, parse_chunking
from rag_eval_assets.settings import ChunkGrid


def grid(strategy: str, size: int | tuple[int, ...] = (), overlap: int | tuple[int, ...] = (), **more: Any) -> ChunkGrid:
    return ChunkGrid(strategy=strategy, size=size, overlap=overlap, **more)  # type: ignore[arg-type]


NAMES = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,20}", fullmatch=True)


@st.composite
def parameters(draw: st.DrawFn) -> Chunking:
    strategy = draw(st.sampled_from(sorted(STRATEGIES)))
    size = draw(st.integers(8, 10**6)) if STRATEGIES[strategy].sized else 0
    overlap = draw(st.integers(0, size - 1)) if STRATEGIES[strategy].overlaps else 0
    kind = STRATEGIES[strategy]
    parent = draw(st.integers(size + 1, 10**7)) if kind.parents else 0
    percentile = draw(st.integers(1, 99)) if kind.embeds else 0
    return Chunking(strategy, size, overlap, parent, percentile, draw(NAMES) if kind.embeds else "")


@settings(deadline=None)
@given(chunking=parameters())
def test_a_key_stands_for_its_parameters(chunking: Chunking) -> None:
    assert parse_chunking(chunking_key(chunking)) == chunking
    given = {name: value for name, value in asdict(chunking).items() if value}
    assert chunking_keys([ChunkGrid(**given)]) == [chunking_key(chunking)]


@settings(deadline=None)
@given(one=parameters(), other=parameters())
def test_different_parameters_have_different_keys(one: Chunking, other: Chunking) -> None:
    assert (chunking_key(one) == chunking_key(other)) == (one == other)


def test_keys_are_those_of_the_documentation() -> None:
    grids = [grid("recursive", 512, 64), grid("window", 256), grid("structural", 256), grid("page"), grid("whole")]
    assert sorted(chunking_keys(grids)) == ["page", "recursive-512-o64", "structural-256", "whole", "window-256-o0"]
    grids = [grid("sentence", 256, 32), grid("parent_child", 128, parent=512), grid("semantic", 512, percentile=95, embedder="minilm")]
    assert chunking_keys(grids) == ["parent_child-128-p512", "sentence-256-o32", "semantic-512-q95-minilm"]


def test_a_grid_is_the_product_of_its_sizes_and_overlaps_with_most_chunks_first() -> None:
    found = chunking_keys([grid("whole"), grid("window", (256, 128), (0, 32)), grid("recursive", 128, 0)])
    assert found == ["window-128-o32", "recursive-128-o0", "window-128-o0", "window-256-o32", "window-256-o0", "whole"]


def test_one_number_is_a_list_of_one() -> None:
    assert grid("window", 64, 8) == grid("window", (64,), (8,))


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        (
            [grid("cluster", 200)],
            "no strategy 'cluster'; known: page, parent_child, recursive, semantic, sentence, structural, whole, window",
        ),
        ([grid("window")], "strategy 'window' needs size"),
        ([grid("page", 100)], "strategy 'page' takes no size"),
        ([grid("structural", 100, 10)], "strategy 'structural' takes no overlap"),
        ([grid("window", 100, 100)], "window size 100 overlap 100: size at least 8, overlap below size"),
        ([grid("window", 7)], "window size 7 overlap 0: size at least 8"),
        ([grid("window", 64, -1)], "window size 64 overlap -1: size at least 8, overlap below size"),
        ([grid("parent_child", 128)], "strategy 'parent_child' needs parent"),
        ([grid("parent_child", 128, parent=(512, 128))], "parent_child size 128 parent 128: a parent is larger than its children"),
        ([grid("recursive", 128, parent=512)], "strategy 'recursive' takes no parent"),
        ([grid("semantic", 256, percentile=95)], "strategy 'semantic' needs embedder"),
        ([grid("sentence", 256, percentile=95)], "strategy 'sentence' takes no percentile"),
        ([grid("semantic", 256, percentile=(95, 100), embedder="minilm")], "semantic percentile 100: from 1 to 99"),
        ([grid("window", 64), grid("window", (32, 64))], "window-64-o0 stands more than once"),
    ],
)
def test_a_grid_that_cannot_be_cut_is_refused_by_name(grids: list[ChunkGrid], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chunkings(grids)


@pytest.mark.parametrize(
    "key", ["", "Window-1", "window-o", "window--1", "-64", "window-64-o8-x", "window 64", "semantic-64-q95", "a-64-p8-o8"]
)
def test_a_text_that_is_no_key_is_refused_with_the_form_wanted(key: str) -> None:
    with pytest.raises(ValueError, match="is not of the form strategy"):
        parse_chunking(key)
