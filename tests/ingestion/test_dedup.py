from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasketch import LeanMinHash, MinHash, MinHashLSH
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from ingestion import dedup
from ingestion.dedup import DedupPolicy, bands, dedup_quality, near_duplicates, shingles, similarity, unique_documents
from rag_eval_assets.settings import Dedup
from rag_eval_assets.tables import TABLES

POLICY = DedupPolicy()
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


def document(doc_id: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "doc_class": "text",
        "parser": "x",
        "title": None,
        "language": "en",
        "text": text,
        "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
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


def judged(*documents: dict[str, Any], policy: DedupPolicy = POLICY, protected: Sequence[str] = ()) -> list[dict[str, Any]]:
    return near_duplicates(list(documents), policy, protected)


def verdicts(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str, bool, str]]:
    return {r["doc_id"]: (r["other_doc_id"], r["relation"], r["kept"], r["rule"]) for r in rows if r["row"] == "document"}


def pairs(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(r["doc_id"], r["other_doc_id"]): r for r in rows if r["row"] == "pair"}


def set_jaccard(one: str, other: str, length: int = 5) -> float:
    a, b = ({text.lower()[i : i + length] for i in range(len(text) - length + 1)} for text in (one, other))
    return len(a & b) / len(a | b)


class TestSimilarity:
    def test_the_worked_example_has_its_published_similarity(self) -> None:
        other = MARS.replace(".", "!")
        measured, contained = similarity(shingles(MARS, 5), shingles(other, 5))
        assert measured == pytest.approx(0.943, abs=0.0005)
        assert measured == pytest.approx(set_jaccard(MARS, other))
        assert contained == pytest.approx(33 / 34)

    def test_the_worked_example_is_a_near_duplicate_and_the_third_sentence_is_not(self) -> None:
        rows = judged(document("a", MARS), document("b", MARS.replace(".", "!")), document("c", "Curiosity rover landed on Mars in 2012."))
        assert verdicts(rows) == {
            "a": ("a", "near", True, "smallest_doc_id"),
            "b": ("a", "near", False, "smallest_doc_id"),
            "c": ("c", "unique", True, "no_duplicate"),
        }
        [pair] = pairs(rows).values()
        assert (pair["doc_id"], pair["other_doc_id"], pair["cluster"]) == ("a", "b", "a")
        assert pair["jaccard"] == pytest.approx(0.943, abs=0.0005)
        assert (pair["shingle"], pair["permutations"], pair["threshold"]) == ("char-5", 128, 0.8)

    @given(st.text("abc \n", max_size=40), st.text("abC \n", max_size=40), st.integers(1, 7))
    def test_similarity_equals_that_of_the_shingle_sets(self, one: str, other: str, length: int) -> None:
        def plain(text: str) -> set[str]:
            text = " ".join(text.lower().split())
            return {text[i : i + length] for i in range(max(len(text) - length + 1, 1))} if text else set()

        a, b = plain(one), plain(other)
        expected = (len(a & b) / len(a | b), len(a & b) / min(len(a), len(b))) if a and b else (0.0, 0.0)
        assert similarity(shingles(one, length), shingles(other, length)) == pytest.approx(expected)
        assert len(shingles(one, length)) == len(a)

    def test_signatures_are_those_of_datasketch(self) -> None:
        hashes = shingles(LONG * 3 + " ".join(str(n) for n in range(4_000)), 5)
        assert len(hashes) > dedup._BATCH
        sketch = MinHash(num_perm=64, seed=1, hashfunc=lambda value: value)
        for value in hashes:
            sketch.update(int(value) >> 32)
        assert np.array_equal(dedup._signature(hashes, 64), sketch.hashvalues)

    @pytest.mark.parametrize("permutations", [16, 64, 128, 256])
    @pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.95, 1.0])
    def test_the_index_misses_one_pair_in_a_hundred_at_most(self, permutations: int, threshold: float) -> None:
        count, rows = bands(permutations, threshold)
        assert count * rows <= permutations
        assert count >= 2
        assert rows == 1 or (1 - threshold**rows) ** count <= 0.01

    def test_pairs_on_labels_are_proposed_as_the_index_proposes_them(self) -> None:
        random.seed(2)
        words = LONG.split()
        texts = [
            " ".join(random.choice(words) if random.random() < share else w for w in words) for share in (0, 0.02, 0.05, 0.1, 0.2, 0.4)
        ]
        signatures = [dedup._signature(shingles(text, 5), 128) for text in texts]
        count, rows = bands(128, 0.8)
        index = MinHashLSH(num_perm=128, params=(count, rows))
        sketches = [LeanMinHash(seed=1, hashvalues=s, scheme="affine32") for s in signatures]
        for position, sketch in enumerate(sketches):
            index.insert(position, sketch)
        outcomes = set()
        for one, other in combinations(range(len(texts)), 2):
            proposed = dedup._share_a_band(signatures[one], signatures[other], count, rows)
            assert proposed == (other in index.query(sketches[one]))
            outcomes.add(proposed)
        assert outcomes == {True, False}


class TestSurvivors:
    @pytest.mark.parametrize(
        ("changes", "survivor", "rule"),
        [
            ({}, "a", "smallest_doc_id"),
            ({"b": {"text": LONG + "!!"}}, "b", "most_complete"),
            ({"b": {"published": "2024-05-01"}, "a": {"published": "2023-05-01"}}, "b", "newest_date"),
            ({"b": {"published": "2024-05-01"}}, "b", "newest_date"),
            ({"b": {"version": "2.10"}, "a": {"version": "2.9", "published": "2030-01-01"}}, "b", "newest_version"),
        ],
    )
    def test_the_survivor_is_chosen_by_the_stated_rule(self, changes: dict[str, dict[str, Any]], survivor: str, rule: str) -> None:
        documents = []
        for name in "ab":
            changed = changes.get(name, {})
            text = changed.get("text", LONG)
            documents.append(document(name, text, **{k: v for k, v in changed.items() if k != "text"}))
        rows = verdicts(judged(*documents))
        other = "a" if survivor == "b" else "b"
        assert rows[survivor][2:] == (True, rule)
        assert rows[other][0] == survivor
        assert rows[other][2:] == (False, rule)

    def test_copies_of_one_text_are_exact(self) -> None:
        rows = judged(*[document(name, LONG) for name in ("c", "a", "b")])
        assert verdicts(rows) == {
            "a": ("a", "exact", True, "smallest_doc_id"),
            "b": ("a", "exact", False, "smallest_doc_id"),
            "c": ("a", "exact", False, "smallest_doc_id"),
        }
        assert {key: row["jaccard"] for key, row in pairs(rows).items()} == {("a", "b"): 1.0, ("a", "c"): 1.0}

    def test_a_chain_of_small_changes_never_merges_its_ends(self) -> None:
        words = LONG.split()
        texts = []
        for step in range(8):
            changed = [f"step{i}" if i < 2 * step else word for i, word in enumerate(words)]
            texts.append(" ".join(changed))
        assert set_jaccard(texts[0], texts[1]) >= 0.8 > set_jaccard(texts[0], texts[-1])
        documents = [document(f"d{i}", text) for i, text in enumerate(texts)]
        rows = judged(*documents)
        for row in rows:
            if row["row"] == "document" and not row["kept"]:
                assert row["jaccard"] >= 0.8
                one, other = (texts[int(row[name][1:])] for name in ("doc_id", "other_doc_id"))
                assert row["jaccard"] == pytest.approx(set_jaccard(one, other))
        kept = [r for r in rows if r["row"] == "document" and r["kept"]]
        assert len(kept) >= 2
        assert len({r["cluster"] for r in rows if r["row"] == "document"}) == 1

    def test_empty_and_one_character_texts_are_no_copies_of_others(self) -> None:
        rows = verdicts(judged(document("a", "x"), document("b", "y"), document("c", "x.")))
        assert {row[1] for row in rows.values()} == {"unique"}

    def test_only_documents_with_text_are_judged(self) -> None:
        failed = document("f", "", status="failed")
        assert [r["doc_id"] for r in judged(document("a", LONG), failed)] == ["a"]
        assert judged(failed) == []


class TestBoundaries:
    @pytest.mark.parametrize(
        ("field", "one", "other"),
        [
            ("tenant", "acme", "umbrella"),
            ("tenant", "acme", None),
            ("groups", ["staff"], ["staff", "partners"]),
            ("jurisdiction", "NL", "DE"),
            ("publication_state", "published", "draft"),
            ("language", "en", "nl"),
            ("locale", "en-GB", "en-US"),
            ("fields", '{"product": "AX200"}', '{"product": "AX300"}'),
        ],
    )
    def test_equal_texts_are_never_merged_across_a_boundary(self, field: str, one: Any, other: Any) -> None:
        rows = judged(document("a", LONG, **{field: one}), document("b", LONG, **{field: other}), protected=("locale", "product"))
        named = "product" if field == "fields" else field
        assert verdicts(rows) == {name: (name, "blocked", True, f"protected: {named}") for name in "ab"}
        assert pairs(rows)["a", "b"]["relation"] == "blocked"
        assert pairs(rows)["a", "b"]["jaccard"] == 1.0

    def test_a_field_that_nothing_protects_does_not_keep_copies_apart(self) -> None:
        rows = judged(document("a", LONG, locale="en-GB", fields='{"product": 1}'), document("b", LONG, locale="en-US"))
        assert verdicts(rows)["b"][0] == "a"

    def test_the_order_of_groups_is_no_boundary(self) -> None:
        assert verdicts(judged(document("a", LONG, groups=["x", "y"]), document("b", LONG, groups=["y", "x"])))["b"][0] == "a"

    def test_copies_in_many_tenants_are_linked_without_listing_every_pair(self) -> None:
        rows = judged(*[document(f"d{n:03}", LONG, tenant=f"t{n}") for n in range(60)])
        assert all(row[1:3] == ("blocked", True) for row in verdicts(rows).values())
        assert len(pairs(rows)) < 200


class TestVersions:
    FIRST = document("v1", LONG, version_of="warranty", version="1", published="2022-01-01")
    SECOND = document("v2", LONG.replace("five", "six"), version_of="warranty", version="2", published="2023-01-01")

    def test_versions_are_linked_and_kept(self) -> None:
        rows = judged(self.FIRST, self.SECOND)
        assert verdicts(rows) == {name: (name, "version", True, "versions_kept") for name in ("v1", "v2")}
        assert pairs(rows)["v1", "v2"]["relation"] == "version"

    def test_equal_texts_of_two_versions_are_both_kept(self) -> None:
        rows = judged(self.FIRST, self.SECOND | {"text": LONG, "text_sha256": self.FIRST["text_sha256"]})
        assert all(row[1:3] == ("version", True) for row in verdicts(rows).values())

    def test_metadata_links_versions_that_share_no_text(self) -> None:
        rows = judged(self.FIRST, document("v9", "Something else entirely, rewritten from scratch.", version_of="warranty", version="9"))
        assert pairs(rows)["v1", "v9"]["relation"] == "version"
        assert pairs(rows)["v1", "v9"]["jaccard"] < 0.2

    def test_a_shared_title_with_two_versions_is_a_version_too(self) -> None:
        one, other = document("a", LONG, title="Warranty", version="1"), document("b", LONG + "!", title=" warranty", version="2")
        assert verdicts(judged(one, other))["a"][1] == "version"
        assert verdicts(judged(one, other | {"version": "1"}))["a"][1] == "near"
        assert verdicts(judged(one, other | {"title": "Guarantee"}))["a"][1] == "near"

    def test_a_copy_of_two_versions_does_not_merge_them(self) -> None:
        copy = document("copy", self.FIRST["text"])
        rows = verdicts(judged(self.FIRST, self.SECOND, copy))
        assert rows["v1"][2]
        assert rows["v2"][2]
        assert rows["copy"][0] == "v1"

    def test_the_newest_policy_drops_older_versions_inside_a_boundary(self) -> None:
        policy = DedupPolicy(versions="newest")
        copy = document("copy", self.FIRST["text"])
        rows = judged(self.FIRST, self.SECOND, copy, policy=policy)
        assert verdicts(rows)["v1"] == ("v2", "version", False, "newest_version")
        assert verdicts(rows)["copy"][0] == "v2"
        assert verdicts(rows)["v2"][2]
        archived = self.FIRST | {"publication_state": "archived"}
        kept = verdicts(judged(archived, self.SECOND, policy=policy))
        assert kept["v1"] == ("v1", "version", True, "protected: publication_state")
        assert verdicts(judged(self.FIRST, self.SECOND, policy=policy, protected=("version",)))["v1"][2]


class TestRows:
    def test_rows_hold_the_columns_and_the_key_of_the_contract(self) -> None:
        table = TABLES["near_duplicates"]
        rows = judged(
            *[document(name, LONG) for name in "abc"], document("d", LONG + "?"), document("e", MARS, tenant="x"), document("f", MARS)
        )
        assert all(list(row) == table.columns for row in rows)
        keys = [tuple(row[name] for name in table.key) for row in rows]
        assert keys == sorted(set(keys))
        assert all(r["doc_id"] < r["other_doc_id"] for r in rows if r["row"] == "pair")

    @given(st.randoms(use_true_random=False))
    @settings(max_examples=20)
    def test_the_order_of_the_documents_changes_nothing(self, chance: random.Random) -> None:
        documents = [document(f"d{n}", LONG.replace("five", word)) for n, word in enumerate(("five", "six", "ten", "five"))]
        documents += [document("m1", MARS), document("m2", MARS.upper()), document("v1", LONG, version_of="w", version="1")]
        expected = judged(*documents)
        chance.shuffle(documents)
        assert judged(*documents) == expected

    def test_unique_documents_are_the_survivors_with_what_they_absorbed(self) -> None:
        documents = [document("b", LONG), document("a", LONG), document("c", MARS), document("f", "", status="failed")]
        unique = unique_documents(documents, near_duplicates(documents, POLICY, []))
        assert [(row["doc_id"], row["absorbed"]) for row in unique] == [("a", ["b"]), ("c", [])]
        assert all(list(row) == TABLES["unique_documents"].columns for row in unique)
        with pytest.raises(ValueError, match="no verdict on c"):
            unique_documents(documents, near_duplicates(documents[:2], POLICY, []))

    def test_the_policy_mirrors_the_settings(self) -> None:
        values = Dedup().model_dump()
        assert DedupPolicy(**{name: values[name] for name in POLICY.__dataclass_fields__}) == POLICY


class TestStore:
    def test_a_warm_store_computes_nothing_and_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        store = Store()
        documents = [document(f"d{n}", f"{LONG}{n * n}") for n in range(5)]
        seen: list[tuple[int, int]] = []
        cold = near_duplicates(documents, POLICY, [], store, lambda done, total: seen.append((done, total)))
        assert seen == [(n, 5) for n in range(1, 6)]
        assert store.written == 5
        monkeypatch.setattr(dedup, "_signature", None)
        assert near_duplicates(documents, POLICY, [], store) == cold
        assert store.written == 5

    def test_other_parameters_and_torn_values_are_computed_again(self) -> None:
        store = Store()
        documents = [document("a", LONG), document("b", LONG + "!")]
        cold = near_duplicates(documents, POLICY, [], store)
        near_duplicates(documents, DedupPolicy(permutations=64), [], store)
        near_duplicates(documents, DedupPolicy(shingle_length=4), [], store)
        assert store.written == 6
        for key in list(store):
            store[key] = store[key][:-3]
        assert near_duplicates(documents, POLICY, [], store) == cold


class TestQuality:
    @staticmethod
    def label(one: str, other: str, value: str, annotator: str = "x") -> dict[str, Any]:
        return {"kind": "duplicate", "doc_id": one, "other_doc_id": other, "value": value, "annotator": annotator}

    def sweep(self, *labels: dict[str, Any]) -> dict[tuple[int, float], dict[str, Any]]:
        documents = [
            document("a", MARS), document("b", MARS.replace(".", "!")), document("c", "Curiosity rover landed on Mars in 2012."),
            document("d", MARS.replace("two", "2")), document("f", "", status="failed"),
        ]  # fmt: skip
        rows = dedup_quality(documents, list(labels), POLICY, (64, 128), (0.6, 0.95))
        assert all(list(row) == TABLES["dedup_quality"].columns for row in rows)
        return {(row["permutations"], row["threshold"]): row for row in rows}

    def test_each_point_is_measured_on_the_labelled_pairs(self) -> None:
        # True similarities: a-b .943, a-d and b-d under .8 but over .6, a-c nearly none.
        assert 0.6 < set_jaccard(MARS, MARS.replace("two", "2")) < 0.8
        rows = self.sweep(
            self.label("a", "b", "yes"), self.label("a", "d", "no"), self.label("a", "c", "no"), self.label("b", "c", "yes"),
            self.label("a", "f", "yes"),
        )  # fmt: skip
        assert sorted(rows) == [(64, 0.6), (64, 0.95), (128, 0.6), (128, 0.8), (128, 0.95)]
        assert [key for key, row in rows.items() if row["used"]] == [(128, 0.8)]
        loose, used, strict = rows[128, 0.6], rows[128, 0.8], rows[128, 0.95]
        assert (loose["precision"], loose["recall"], loose["false_merge_rate"], loose["missed_merge_rate"]) == (0.5, 0.5, 0.5, 0.5)
        assert (used["precision"], used["recall"], used["false_merge_rate"], used["missed_merge_rate"]) == (1.0, 0.5, 0.0, 0.5)
        assert (strict["precision"], strict["precision_lower"], strict["recall"]) == (None, None, 0.0)
        exact = binomtest(1, 2).proportion_ci(0.95, "exact")
        assert (loose["recall_lower"], loose["recall_upper"]) == pytest.approx((exact.low, exact.high))
        assert used["false_merge_rate_upper"] > 0
        assert {row["labelled_pairs"] for row in rows.values()} == {4}
        assert {row["status"] for row in rows.values()} == {"scored"}
        assert used["bands"] == bands(128, 0.8)[0]

    def test_annotators_are_heard_by_majority_and_a_tie_leaves_the_pair_out(self) -> None:
        rows = self.sweep(
            self.label("a", "b", "yes", "1"), self.label("b", "a", "yes", "2"), self.label("a", "b", "no", "3"),
            self.label("a", "c", "yes", "1"), self.label("a", "c", "no", "2"),
        )  # fmt: skip
        assert (rows[128, 0.8]["labelled_pairs"], rows[128, 0.8]["recall"]) == (1, 1.0)

    def test_without_a_labelled_pair_nothing_is_measured(self) -> None:
        for row in self.sweep().values():
            assert (row["status"], row["reason"], row["recall"], row["labelled_pairs"]) == ("not_applicable", "no_pairs", None, 0)


def test_a_hundred_and_fifty_documents_of_1500_words_are_compared_in_seconds() -> None:
    random.seed(9)
    words = ["".join(random.choice("bcdlmnrst") + random.choice("aeiou") for _ in range(random.randint(1, 4))) for _ in range(3_000)]
    documents = [document(f"d{n:03}", " ".join(random.choice(words) for _ in range(1_500))) for n in range(147)]
    documents += [document(f"e{n}", documents[n]["text"] + " tail") for n in range(3)]
    store = Store()
    started = time.perf_counter()
    cold = near_duplicates(documents, POLICY, ["locale"], store)
    between = time.perf_counter()
    warm = near_duplicates(documents, POLICY, ["locale"], store)
    ended = time.perf_counter()
    assert sorted(pairs(cold)) == [(f"d{n:03}", f"e{n}") for n in range(3)]
    assert warm == cold
    assert between - started < 15
    assert ended - between < (between - started) / 3


SIGNATURES = Store()
"""Signatures do not depend on the threshold, so the cases below share them."""


@pytest.mark.reference
@pytest.mark.parametrize("count", [100, 1_000])
@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.95])
def test_labelled_articles_give_precision_and_recall_of_one(shared: Path, count: int, threshold: float) -> None:
    folder = shared / "minhash_truth" / "data"
    lines = (folder / f"articles_{count}.train").read_text(encoding="utf-8").splitlines()
    documents = [document(name, text) for name, text in (line.split(" ", 1) for line in lines)]
    truth = {tuple(sorted(line.split())) for line in (folder / f"articles_{count}.truth").read_text(encoding="utf-8").splitlines()}
    assert len(documents) == count
    found = pairs(near_duplicates(documents, DedupPolicy(threshold=threshold), [], SIGNATURES))
    assert set(found) == truth
    texts = {d["doc_id"]: d["text"] for d in documents}
    one, other = min(found)
    assert found[one, other]["jaccard"] == pytest.approx(set_jaccard(texts[one], texts[other]))
