"""Shingles, signatures, bands and candidates: against Python's own sets and against datasketch."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest
from datasketch import LeanMinHash, MinHash, MinHashLSH
from hypothesis import given
from hypothesis import strategies as st

from ingestion import minhash
from ingestion.minhash import Comparisons, bands, candidates, minima, share_a_band, shingles, signatures, similarity
from tests.ingestion.documents import LONG, Store, sha256

WORDS = LONG.split()


def edited(share: float, chance: random.Random) -> str:
    """The long text with about a share of its words drawn anew."""
    return " ".join(chance.choice(WORDS) if chance.random() < share else word for word in WORDS)


def edited_texts(count: int) -> dict[str, str]:
    chance = random.Random(2)
    made = [edited(share, chance) for _ in range(count) for share in (0, 0.02, 0.05, 0.1, 0.2, 0.4)]
    return {sha256(text): text for text in made}


class TestShingles:
    @given(st.text("abc \n", max_size=40), st.text("abC \n", max_size=40), st.integers(1, 7))
    def test_similarity_equals_that_of_the_shingle_sets(self, one: str, other: str, length: int) -> None:
        def plain(text: str) -> set[str]:
            text = " ".join(text.lower().split())
            return {text[i : i + length] for i in range(max(len(text) - length + 1, 1))} if text else set()

        a, b = plain(one), plain(other)
        expected = (len(a & b) / len(a | b), len(a & b) / min(len(a), len(b))) if a and b else (0.0, 0.0)
        assert similarity(shingles(one, length), shingles(other, length)) == pytest.approx(expected)
        assert len(shingles(one, length)) == len(a)

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_similarity_is_symmetric_and_one_of_a_text_with_itself(self, one: str, other: str) -> None:
        a, b = shingles(one, 5), shingles(other, 5)
        assert similarity(a, b) == similarity(b, a)
        assert similarity(a, a) == ((1.0, 1.0) if one.split() else (0.0, 0.0))
        jaccard, containment = similarity(a, b)
        assert 0.0 <= jaccard <= containment <= 1.0

    def test_comparisons_forget_sets_and_never_a_result(self, monkeypatch: pytest.MonkeyPatch) -> None:
        texts = edited_texts(2)
        expected = {pair: similarity(*(shingles(texts[sha], 5) for sha in pair)) for pair in combinations(sorted(texts), 2)}
        monkeypatch.setattr(minhash, "_KEPT_SHINGLES", 500)
        compare = Comparisons(texts, 5)
        assert {pair: compare(*pair) for pair in expected} == expected
        assert sum(map(len, compare._sets.values())) <= 500
        assert {pair: compare(*reversed(pair)) for pair in expected} == expected


class TestSignatures:
    @pytest.mark.parametrize("permutations", [1, 64, 100, 256])
    def test_signatures_are_those_of_datasketch(self, permutations: int) -> None:
        texts = [LONG, "x", LONG * 3 + " ".join(str(n) for n in range(400))]
        sets = [shingles(text, 5) >> np.uint64(32) for text in texts]
        plain = []
        for values in sets:
            sketch = MinHash(num_perm=permutations, seed=1, hashfunc=int)
            for value in values:
                sketch.update(value)
            plain.append(sketch.hashvalues)
        assert np.array_equal(list(minima(sets, permutations)), plain)

    @given(st.lists(st.integers(0, 2**32 - 1), max_size=50), st.integers(1, 40))
    def test_a_set_longer_than_a_batch_has_the_same_signature(self, values: list[int], cells: int) -> None:
        array = np.array(values, dtype=np.uint64)
        [whole] = minima([array], 16)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(minhash, "_CELLS", cells)
            [parts] = minima([array], 16)
        assert np.array_equal(whole, parts)

    def test_signatures_stand_in_order_with_their_sizes_whatever_the_store_held(self) -> None:
        texts = edited_texts(60)
        assert len(texts) > minhash._STORED
        store = Store()
        half = {sha: texts[sha] for sha in sorted(texts)[::2]}
        signatures(half, 5, 32, store)
        assert store.written == len(half)
        mixed, alone = signatures(texts, 5, 32, store), signatures(texts, 5, 32)
        assert store.written == len(texts)
        assert mixed.shas == alone.shas == sorted(texts)
        assert np.array_equal(mixed.values, alone.values)
        assert mixed.sizes.tolist() == alone.sizes.tolist() == [len(shingles(texts[sha], 5)) for sha in alone.shas]


class TestBands:
    @pytest.mark.parametrize("permutations", [16, 64, 128, 256])
    @pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.95, 1.0])
    def test_the_index_misses_one_pair_in_a_hundred_at_most(self, permutations: int, threshold: float) -> None:
        count, rows = bands(permutations, threshold)
        assert count * rows <= permutations
        assert count >= 2
        assert rows == 1 or (1 - threshold**rows) ** count <= 0.01

    @pytest.mark.parametrize("shape", [(21, 6), (16, 8), (64, 2), (8, 16), (3, 40)])
    def test_candidates_are_the_pairs_that_datasketch_proposes(self, shape: tuple[int, int]) -> None:
        found = signatures(edited_texts(8), 5, 128)
        index = MinHashLSH(num_perm=128, params=shape)
        proposed = set()
        for sha, values in zip(found.shas, found.values, strict=True):
            sketch = LeanMinHash(seed=1, hashvalues=values, scheme="affine32")
            proposed |= {tuple(sorted((other, sha))) for other in index.query(sketch)}
            index.insert(sha, sketch)
        # A threshold and a containment so low that no proposed pair is left out for its estimate.
        assert list(candidates(found, shape, 1e-9, 1e-9)) == sorted(proposed)
        row = {sha: position for position, sha in enumerate(found.shas)}
        sharing = {pair for pair in combinations(found.shas, 2) if share_a_band(*(found.values[row[sha]] for sha in pair), shape)}
        assert sharing == proposed
        assert 0 < len(proposed) < len(row) * (len(row) - 1) / 2 or shape == (64, 2)

    def test_pairs_left_out_for_their_estimate_are_under_the_threshold_and_not_contained(self) -> None:
        texts = edited_texts(20)
        texts |= {sha256(text): text for text in (f"{LONG}{' '.join(map(str, range(n)))}" for n in (5, 20, 60, 150))}
        found = signatures(texts, 5, 128)
        everything = set(candidates(found, (64, 2), 1e-9, 1e-9))
        kept = set(candidates(found, (64, 2), 0.8, 0.95))
        compare = Comparisons(texts, 5)
        assert kept < everything
        for pair in everything - kept:
            jaccard, containment = compare(*pair)
            assert jaccard < 0.8
            assert containment < 0.95

    def test_a_text_alone_and_no_text_have_no_candidates(self) -> None:
        for texts in ({}, {sha256(LONG): LONG}, {sha256(""): "", sha256(" "): " "}):
            assert list(candidates(signatures(texts, 5, 128), (21, 6), 0.8, 0.95)) == []
