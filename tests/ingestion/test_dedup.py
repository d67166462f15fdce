"""Verdicts on documents: survivors, boundaries, versions, containment, copies across formats."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docx
import pymupdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion import media_types, minhash
from ingestion.cleaning import CleaningPolicy, clean_document
from ingestion.dedup import BOUNDARY, READ_COLUMNS, DedupPolicy, near_duplicates, parted, survivors, unique_documents
from ingestion.minhash import bands, shingles, similarity
from ingestion.parsers import ParseLimits, ParseRequest, parse_files
from rag_eval_assets.retrieval.filters import FILTER_COLUMNS
from rag_eval_assets.settings import Dedup
from rag_eval_assets.tables import TABLES
from tests.ingestion.documents import LONG, MARS, Store, document, pairs, set_jaccard, set_similarity

POLICY = DedupPolicy()


def judged(*documents: dict[str, Any], policy: DedupPolicy = POLICY, protected: Sequence[str] = ()) -> list[dict[str, Any]]:
    return near_duplicates(list(documents), policy, protected)


def verdicts(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str, bool, str]]:
    return {r["doc_id"]: (r["other_doc_id"], r["relation"], r["kept"], r["rule"]) for r in rows if r["row"] == "document"}


class TestWorkedExample:
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
        assert (pair["shingle"], pair["permutations"], pair["bands"], pair["threshold"]) == ("char-5", 128, bands(128, 0.8)[0], 0.8)


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


class TestContainment:
    FRAME = (
        "You are reading a page of our help centre. Was this useful? Vote below, or ask a colleague in the forum. "
        "Opening hours: Monday to Friday, nine until half past four."
    )
    ARTICLE = LONG + "Parcels leave the warehouse before noon. Engraved kettles cannot be returned unless they arrive damaged."

    def test_an_article_inside_a_frame_is_linked_to_it_and_not_merged(self) -> None:
        framed = f"{self.FRAME} {self.ARTICLE}"
        jaccard, containment = set_similarity(self.ARTICLE, framed)
        assert jaccard < 0.8
        assert containment == 1.0
        rows = judged(document("framed", framed), document("plain", self.ARTICLE), document("other", MARS))
        assert verdicts(rows) == {
            "framed": ("framed", "contained", True, "contains_shorter"),
            "other": ("other", "unique", True, "no_duplicate"),
            "plain": ("plain", "contained", True, "contained_in_longer"),
        }
        [pair] = pairs(rows).values()
        assert (pair["relation"], pair["rule"], pair["kept"]) == ("contained", "contains_shorter", True)
        assert (pair["jaccard"], pair["containment"]) == pytest.approx((jaccard, containment))
        assert {r["doc_id"]: r["cluster"] for r in rows if r["row"] == "document"} == {
            "framed": "framed",
            "other": "other",
            "plain": "plain",
        }

    def test_the_share_that_counts_as_contained_is_a_setting(self) -> None:
        changed = self.ARTICLE.replace("noon", "eight in the morning on working days and before ten on Saturdays")
        documents = [document("a", changed), document("b", f"{self.FRAME} {self.ARTICLE}")]
        measured = set_similarity(changed, documents[1]["text"])[1]
        assert 0.8 < measured < 0.95
        relations = {
            share: {r["relation"] for r in judged(*documents, policy=DedupPolicy(containment=share))} for share in (None, 0.95, measured)
        }
        assert relations == {None: {"unique"}, 0.95: {"unique"}, measured: {"contained"}}

    def test_a_containment_merges_nothing_whatever_the_boundary_and_the_policy(self) -> None:
        for more in ({}, {"tenant": "x"}, {"language": "nl"}):
            for policy in (POLICY, DedupPolicy(versions="newest")):
                rows = verdicts(judged(document("a", self.ARTICLE), document("b", f"{self.FRAME} {self.ARTICLE}", **more), policy=policy))
                assert [row[1:3] for row in rows.values()] == [("contained", True)] * 2

    def test_a_version_that_holds_the_one_before_it_is_a_version(self) -> None:
        first = document("a", self.ARTICLE, title="Returns", version="1")
        second = document("b", f"{self.ARTICLE} {self.FRAME}", title="Returns", version="2")
        assert verdicts(judged(first, second))["a"] == ("a", "version", True, "versions_kept")


class TestFormats:
    def test_a_word_file_and_a_print_of_it_are_copies(self, tmp_path: Path) -> None:
        paragraphs = [f"{number}. {LONG.replace('five', str(number))}".strip() for number in range(2, 12)]
        word = docx.Document()
        word.add_heading("Warranty of kettles", 1)
        for paragraph in paragraphs:
            word.add_paragraph(paragraph)
        word.save(str(tmp_path / "terms.docx"))
        with pymupdf.open() as pdf:
            for start in range(0, 10, 5):
                page = pdf.new_page()
                page.insert_text((72, 40), "Kettles B.V., terms of service", fontsize=9)
                page.insert_text((290, 810), f"Page {start // 5 + 1}", fontsize=9)
                if not start:
                    page.insert_text((72, 80), "Warranty of kettles", fontsize=18)
                for row, paragraph in enumerate(paragraphs[start : start + 5]):
                    page.insert_textbox((72, 110 + 90 * row, 520, 195 + 90 * row), paragraph, fontsize=11)
            page.insert_text((72, 570), "Printed for the service desk on 3 May 2024, not valid without a signature.", fontsize=11)
            pdf.save(tmp_path / "terms.pdf")
        documents = []
        for kind, name, doc_class in (("unstructured", "terms.docx", "docx"), ("pymupdf", "terms.pdf", "pdf")):
            media_type = media_types.DOCX if doc_class == "docx" else media_types.PDF
            sha256 = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
            request = ParseRequest(name, tmp_path / name, media_type, doc_class, sha256)
            [elements] = parse_files(kind, [request], ParseLimits(workers=1))
            source = document(name, "") | {"media_type": media_type, "doc_class": doc_class, "sha256": sha256, "language": None}
            documents.append(clean_document(source, elements, kind, CleaningPolicy()))
        assert [(d["status"], d["detail"]) for d in documents] == [("ok", None)] * 2
        assert documents[0]["text_sha256"] != documents[1]["text_sha256"]
        rows = judged(*documents)
        assert {row[1] for row in verdicts(rows).values()} == {"near"}
        assert sorted(row[2] for row in verdicts(rows).values()) == [False, True]


PARTS = [LONG.replace("five", word) for word in ("five", "six", "ten")] + [
    LONG.upper(),
    LONG[: len(LONG) // 2],
    MARS,
    f"{MARS} {LONG}",
    LONG * 2,
]
DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.sampled_from(PARTS),
            "tenant": st.sampled_from([None, "x"]),
            "groups": st.sampled_from([[], ["staff"]]),
            "language": st.sampled_from(["en", "nl"]),
            "publication_state": st.sampled_from(["published", "archived"]),
            "version": st.sampled_from([None, "1", "2"]),
            "version_of": st.sampled_from([None, "warranty"]),
            "published": st.sampled_from([None, "2024-01-01"]),
            "fields": st.sampled_from(["{}", '{"product": "lid"}']),
        }
    ),
    max_size=12,
)
POLICIES = st.builds(
    DedupPolicy,
    threshold=st.sampled_from([0.5, 0.8, 0.95]),
    versions=st.sampled_from(["keep", "newest"]),
    bands=st.sampled_from([None, 32]),
    containment=st.sampled_from([None, 0.9]),
)


class TestProperties:
    @given(DOCUMENTS, POLICIES, st.randoms(use_true_random=False))
    @settings(max_examples=60)
    def test_what_holds_of_every_corpus(self, found: list[dict[str, Any]], policy: DedupPolicy, chance: random.Random) -> None:
        documents = {f"d{n:02}": document(f"d{n:02}", **values) for n, values in enumerate(found)}
        rows = judged(*documents.values(), policy=policy, protected=("product",))
        kept = {row["doc_id"] for row in rows if row["row"] == "document" and row["kept"]}
        assert {row["doc_id"] for row in rows if row["row"] == "document"} == set(documents)
        for row in rows:
            one, other = documents[row["doc_id"]], documents[row["other_doc_id"]]
            if one is not other and row["jaccard"] is not None:
                measured = set_similarity(one["text"], other["text"])
                assert (row["jaccard"], row["containment"]) == pytest.approx(measured)
                if row["relation"] == "contained":
                    assert measured[0] < policy.threshold
                    assert policy.containment is not None
                    assert measured[1] >= policy.containment
            if row["row"] == "pair":
                continue
            assert row["other_doc_id"] in kept
            assert row["kept"] == (row["doc_id"] == row["other_doc_id"])
            if not row["kept"]:
                assert all(one[name] == other[name] for name in (*BOUNDARY, "fields"))
                assert row["relation"] in ("exact", "near", "version")
                assert row["jaccard"] is None or row["jaccard"] >= policy.threshold or row["relation"] == "version"
        shuffled = list(documents.values())
        chance.shuffle(shuffled)
        assert judged(*shuffled, policy=policy, protected=("product",)) == rows

    @given(DOCUMENTS, st.lists(POLICIES, max_size=3))
    @settings(max_examples=30)
    def test_survivors_are_those_of_the_verdicts(self, found: list[dict[str, Any]], policies: list[DedupPolicy]) -> None:
        documents = [document(f"d{n:02}", **values) for n, values in enumerate(found)]
        expected = [
            {r["doc_id"]: r["other_doc_id"] for r in judged(*documents, policy=policy, protected=("product",)) if r["row"] == "document"}
            for policy in policies
        ]
        assert list(survivors(*parted(documents), policies, ["product"])) == expected


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
        unique = list(unique_documents(documents, near_duplicates(documents, POLICY, [])))
        assert [(row["doc_id"], row["absorbed"]) for row in unique] == [("a", ["b"]), ("c", [])]
        assert all(list(row) == TABLES["unique_documents"].columns for row in unique)
        with pytest.raises(ValueError, match="no verdict on c"):
            list(unique_documents(documents, near_duplicates(documents[:2], POLICY, [])))

    def test_the_columns_that_are_read_hold_all_that_a_filter_may_name(self) -> None:
        assert set(FILTER_COLUMNS) <= set(READ_COLUMNS) <= {f.name for f in TABLES["documents"].schema}
        documents = [document("a", LONG, tenant="x"), document("b", LONG, tenant="x"), document("c", LONG, locale="nl-NL")]
        narrow = [{name: d[name] for name in READ_COLUMNS} for d in documents]
        assert judged(*narrow, protected=("locale",)) == judged(*documents, protected=("locale",))

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
        monkeypatch.setattr(minhash, "minima", lambda sets, permutations: iter(()))
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


def test_one_changed_text_among_many_costs_one_signature() -> None:
    chance = random.Random(9)
    words = ["".join(chance.choice("bcdlmnrst") + chance.choice("aeiou") for _ in range(chance.randint(1, 4))) for _ in range(3_000)]
    documents = [document(f"d{n:03}", " ".join(chance.choice(words) for _ in range(1_500))) for n in range(147)]
    documents += [document(f"e{n}", documents[n]["text"] + " tail") for n in range(3)]
    store = Store()
    cold = near_duplicates(documents, POLICY, ["locale"], store)
    assert sorted(pairs(cold)) == [(f"d{n:03}", f"e{n}") for n in range(3)]
    assert store.written == 150
    documents[0] = document("d000", documents[0]["text"] + " end")
    warm = near_duplicates(documents, POLICY, ["locale"], store)
    assert store.written == 151
    assert warm == near_duplicates(documents, POLICY, ["locale"])


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
