"""The sweep on labelled pairs, and golden evidence that a merge loses."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.stats import binomtest

from ingestion.dedup import DedupPolicy
from ingestion.dedup_quality import dedup_quality
from ingestion.minhash import bands
from rag_eval_assets.tables import TABLES
from tests.benchmarks import dedup_curve
from tests.ingestion.documents import LONG, MARS, document, set_jaccard

POLICY = DedupPolicy()


class TestQuality:
    @staticmethod
    def label(one: str, other: str, value: str, annotator: str = "x") -> dict[str, Any]:
        return {"kind": "duplicate", "doc_id": one, "other_doc_id": other, "value": value, "annotator": annotator}

    def sweep(self, *labels: dict[str, Any]) -> dict[tuple[int, float], dict[str, Any]]:
        documents = [
            document("a", MARS), document("b", MARS.replace(".", "!")), document("c", "Curiosity rover landed on Mars in 2012."),
            document("d", MARS.replace("two", "2")), document("f", "", status="failed"),
        ]  # fmt: skip
        rows = dedup_quality(documents, list(labels), POLICY, (64, 128), (), (0.6, 0.95))
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

    def test_versions_of_one_document_are_no_false_merge(self) -> None:
        one, other = (document(f"v{n}", MARS, version_of="moons", version=str(n)) for n in (1, 2))
        for documents, rate in (([one, other], 0.0), ([one, other | {"version_of": None}], 1.0)):
            [row] = dedup_quality(documents, [self.label("v1", "v2", "no")], POLICY, (128,), (), (0.8,))
            assert row["false_merge_rate"] == rate

    def test_bands_are_swept_beside_permutations_and_thresholds(self) -> None:
        # Ten words of sixty changed: too unlike for bands of 16 rows, alike enough for bands of 2.
        words = [f"word{n}" for n in range(60)]
        changed = [f"other{n}" if n % 6 == 0 else word for n, word in enumerate(words)]
        documents = [document("a", " ".join(words)), document("b", " ".join(changed))]
        jaccard = set_jaccard(documents[0]["text"], documents[1]["text"])
        assert 0.5 < jaccard < 0.7
        assert 1 - (1 - jaccard**16) ** 4 < 0.02
        assert 1 - (1 - jaccard**2) ** 32 > 0.999
        rows = dedup_quality(documents, [self.label("a", "b", "yes")], DedupPolicy(bands=8), (64,), (4, 32), (0.5,))
        assert {(r["permutations"], r["bands"], r["threshold"]): (r["recall"], r["used"]) for r in rows} == {
            (64, 4, 0.5): (0.0, False),
            (64, 32, 0.5): (1.0, False),
            (128, 8, 0.8): (0.0, True),
        }
        assert [tuple(r[name] for name in TABLES["dedup_quality"].key) for r in rows] == [(64, 4, 0.5), (64, 32, 0.5), (128, 8, 0.8)]

    def test_a_point_that_is_the_setting_in_force_stands_once(self) -> None:
        documents = [document("a", MARS), document("b", MARS)]
        for policy in (POLICY, DedupPolicy(bands=bands(128, 0.8)[0])):
            rows = dedup_quality(documents, [self.label("a", "b", "yes")], policy, (128,), (bands(128, 0.8)[0],), (0.8,))
            assert [(row["used"], row["recall"]) for row in rows] == [(True, 1.0)]


class TestEvidence:
    """A quotation that a merge loses: the copies differ in the one word that is quoted."""

    KEPT, COPY = LONG.replace("five years", "5 years"), LONG.replace("five years", "9 years")
    QUOTED = "The heating element of the kettle is covered for 9 years after purchase."

    def loss(self, quotations: list[tuple[str, str]], *more: dict[str, Any], **policy: Any) -> dict[float, dict[str, Any]]:
        documents = [document("a", self.KEPT), document("b", self.COPY), *more]
        rows = dedup_quality(documents, [], DedupPolicy(**policy), (128,), (), (0.8, 0.99), quotations, ["product"])
        return {row["threshold"]: row for row in rows}

    def test_a_quotation_of_a_dropped_copy_that_its_survivor_lacks_is_lost(self) -> None:
        assert 0.8 < set_jaccard(self.KEPT, self.COPY) < 0.99
        also = "The lid and the cord are covered for two years."
        rows = self.loss(
            [("b", self.QUOTED), ("b", also), ("a", also), ("b", "Nobody wrote this sentence in any of the two."), ("z", also)]
        )
        merged, apart = rows[0.8], rows[0.99]
        assert (merged["merged_quotations"], merged["lost_quotations"], merged["evidence_loss"]) == (2, 1, 0.5)
        exact = binomtest(1, 2).proportion_ci(0.95, "exact")
        assert (merged["evidence_loss_lower"], merged["evidence_loss_upper"]) == pytest.approx((exact.low, exact.high))
        assert (merged["status"], merged["precision"], merged["labelled_pairs"]) == ("scored", None, 0)
        assert (apart["merged_quotations"], apart["lost_quotations"], apart["evidence_loss"]) == (0, 0, None)
        assert (apart["status"], apart["reason"]) == ("not_applicable", "no_pairs")

    def test_what_keeps_documents_apart_keeps_their_evidence(self) -> None:
        for more in ({"tenant": "x"}, {"fields": '{"product": "lid"}'}):
            other = document("c", f"{self.COPY}!", **more)
            rows = self.loss([("c", self.QUOTED)], other)
            assert rows[0.8]["merged_quotations"] == 0

    def test_an_older_version_that_the_policy_drops_takes_its_evidence_along(self) -> None:
        old = document("c", "Rewritten from scratch since then: the base is covered for one year.", version_of="w", version="1")
        new = document("d", "Every part of every kettle is covered as the law says.", version_of="w", version="2")
        quoted = [("c", "the base is covered for one year")]
        assert self.loss(quoted, old, new)[0.8]["merged_quotations"] == 0
        assert self.loss(quoted, old, new, versions="newest")[0.8]["lost_quotations"] == 1


def test_edited_texts_give_a_curve_whose_index_loses_no_similar_pair_and_finds_no_other() -> None:
    result = dedup_curve.measure(bases=10)
    assert result.texts == 130
    for point in result.points:
        assert point.similar > 20
        assert point.found >= 0.99 * point.similar
        assert point.under == 0
    recalls = [point.labelled["recall"] for point in result.points]
    assert recalls == sorted(recalls, reverse=True)
    assert (recalls[0], recalls[-1]) == (1.0, pytest.approx(3 / 7))  # at .9 words-1, words-2 and moved of the seven edits called copies
    precisions = [point.labelled["precision"] for point in result.points]
    assert precisions[0] < 0.7
    assert precisions[-1] == 1.0
    # A changed word touches more runs of five characters than it has characters, so similarity falls faster than the share of equal words.
    similarities = [result.edits[f"words-{percent}"][0] for percent in (1, 2, 5, 10, 20, 30, 40, 60)]
    assert similarities == sorted(similarities, reverse=True)
    assert all(similarity < 1 - percent / 100 for similarity, percent in zip(similarities, (1, 2, 5, 10, 20, 30, 40, 60), strict=True))
    assert result.edits["moved"][0] > 0.95
