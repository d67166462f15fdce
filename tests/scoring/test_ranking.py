"""Ranking scores: worked examples, parity with trec_eval, units, statuses, and properties that no ranking may break."""

from __future__ import annotations

import math
import random as randomness
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_assets.scoring.ranking import measures, score_rankings, tie_spread
from tests.scoring.builders import Row, evidence, hit, no_hit, question, quoted, ranking, relevant, runs

KS = (1, 3, 5, 10)
GOLD = "The filter is changed every two years."


def scored(rows: list[Row], questions: list[Row], labels: list[Row], **more: Any) -> dict[tuple[Any, ...], Row]:
    """Rows of the result by (question, metric, k, unit), for one retriever and cut-offs at ranks."""
    found = score_rankings(runs(rows), questions, labels, **{"ks": KS, "token_budgets": (), "by": "retriever", **more}).to_pylist()
    return {(r["question_id"], r["metric"], r["k"], r["unit"]): r for r in found}


def value(found: dict[tuple[Any, ...], Row], metric: str, k: int, unit: str = "document", name: str = "q") -> float | None:
    return found[name, metric, k, unit]["value"]


# --------------------------------------------------------------------------------------------------- published values
WORKED = {
    "q1": (["d3"], "d8 d3 d1 d4 d2 d9 d6 d10 d12 d13"),
    "q2": (["d7", "d2"], "d2 d6 d4 d7 d1 d3 d8 d11 d5 d9"),
    "q3": (["d11"], "d11 d2 d3 d4 d1 d6 d7 d8 d10 d12"),
    "q4": (["d5"], "d1 d2 d3 d6 d8 d9 d10 d12 d13 d14"),
}


def test_the_four_worked_queries_give_their_published_means() -> None:
    questions = [question(q) for q in WORKED]
    labels = [relevant(q, d) for q, (gold, _) in WORKED.items() for d in gold]
    found = scored([h for q, (_, run) in WORKED.items() for h in ranking(q, run.split())], questions, labels)

    def mean(metric: str, k: int) -> float:
        return round(float(np.mean([value(found, metric, k, name=q) for q in WORKED])), 3)

    assert (mean("R", 5), mean("RR", 0), mean("nDCG", 5)) == (0.750, 0.625, 0.627)


def test_average_precision_divides_by_the_gold_and_not_by_what_was_found() -> None:
    labels = [relevant("q", f"g{i}") for i in range(5)]
    assert value(scored(ranking("q", ["g0", "x", "y"]), [question()], labels), "AP", 0) == pytest.approx(0.2)


def test_the_ideal_ranking_comes_from_the_labels_and_not_from_what_was_returned() -> None:
    labels = [relevant("q", "a"), relevant("q", "b")]
    assert value(scored(ranking("q", ["a", "x"]), [question()], labels), "nDCG", 10) == pytest.approx(0.613, abs=5e-4)


def test_gains_are_linear_in_the_grade_as_in_trec_eval() -> None:
    labels = [relevant("q", "a", 3), relevant("q", "b", 1)]
    found = scored(ranking("q", ["b", "a"]), [question()], labels)
    assert value(found, "nDCG", 3) == pytest.approx((1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3)))


# ------------------------------------------------------------------------------------------------- parity with trec_eval
@pytest.mark.parametrize("seed", range(6))
def test_scores_equal_trec_eval_on_random_runs_with_ties(seed: int) -> None:
    import pytrec_eval

    random = np.random.default_rng(seed)
    run: dict[str, dict[str, float]] = {}
    qrel: dict[str, dict[str, int]] = {}
    rows: list[Row] = []
    for name in (f"q{i}" for i in range(12)):
        documents = [f"d{i}" for i in random.permutation(40)[: random.integers(1, 30)]]
        # Few distinct scores, some apart only beyond float32: trec_eval takes those for ties too.
        run[name] = {d: float(random.integers(0, 5) + random.choice([0.0, 1e-12])) for d in documents}
        qrel[name] = {f"d{i}": int(random.integers(0, 4)) for i in random.permutation(40)[:8]} | {"d0": 1}
        by_id = sorted(run[name], reverse=True)
        order = sorted(by_id, key=lambda d, own=run[name]: -float(np.float32(own[d])))
        rows += [hit(name, rank, d, score=run[name][d]) for rank, d in enumerate(order, 1)]
    labels = [relevant(q, d, grade) for q, own in qrel.items() for d, grade in own.items()]
    found = scored(rows, [question(q) for q in run], labels)
    names = {"recall.1,3,5,10", "P.1,3,5,10", "success.1,3,5,10", "ndcg_cut.1,3,5,10", "map", "recip_rank"}
    reference = pytrec_eval.RelevanceEvaluator(qrel, names).evaluate(run)
    for name, expected in reference.items():
        for metric, measure in {"R": "recall", "P": "P", "Success": "success", "nDCG": "ndcg_cut"}.items():
            for k in KS:
                assert value(found, metric, k, name=name) == pytest.approx(expected[f"{measure}_{k}"], abs=1e-9)
        assert value(found, "AP", 0, name=name) == pytest.approx(expected["map"], abs=1e-9)
        assert value(found, "RR", 0, name=name) == pytest.approx(expected["recip_rank"], abs=1e-9)


def test_ids_kept_in_dictionaries_and_in_several_chunks_are_the_same_rankings() -> None:
    labels = [quoted("q", "a", 0, GOLD), relevant("q", "b", 2), relevant("p", "b")]
    rows = [*ranking("q", ["c", "a", "b"]), hit("q", 4, "a", 100, 200), *ranking("p", ["b", "z"]), hit("p", 3, None, chunk_id=None)]
    plain = runs(rows)
    asked = [question("q"), question("p")]
    coded = pa.concat_tables([plain.slice(0, 3), plain.slice(3)])
    for name in ("question_id", "chunk_id", "doc_id"):
        parts = [chunk.dictionary_encode() for chunk in coded[name].chunks]  # each part with a dictionary of its own
        coded = coded.set_column(coded.schema.get_field_index(name), name, pa.chunked_array(parts))
    found = [score_rankings(table, asked, labels, ks=KS, token_budgets=(), by="retriever") for table in (plain, coded)]
    assert found[1].equals(found[0])
    by_measure = {(r["question_id"], r["metric"], r["k"], r["unit"]): r["value"] for r in found[1].to_pylist()}
    assert by_measure["q", "RR", 0, "document"] == 0.5
    assert by_measure["p", "P", 3, "document"] == pytest.approx(1 / 3)


def test_the_spread_over_tie_orders_is_reported() -> None:
    # Three tied documents, the relevant one between: 1.0 at best, 1/3 at worst, and trec_eval's rule puts c first.
    rows = [hit("q", rank, d, score=0.5) for rank, d in enumerate(["c", "b", "a"], 1)]
    spread = {(r["metric"], r["k"]): r for r in tie_spread(runs(rows), [question()], [relevant("q", "b")], ks=(1, 3), by="retriever")}
    reciprocal = spread["RR", 0]
    assert (reciprocal["lowest"], reciprocal["mean"], reciprocal["highest"]) == pytest.approx((1 / 3, 1 / 2, 1))
    assert reciprocal["tied"] == 1


def test_without_ties_there_is_no_spread() -> None:
    for row in tie_spread(runs(ranking("q", ["a", "b", "c"])), [question()], [relevant("q", "b")], ks=(1, 3), by="retriever"):
        assert row["lowest"] == row["mean"] == row["highest"]
        assert row["tied"] == 0


# ----------------------------------------------------------------------------------------------------------------- units
def test_chunks_collapse_to_the_first_rank_of_their_document() -> None:
    rows = [hit("q", 1, "a", 0, 10), hit("q", 2, "a", 10, 20), hit("q", 3, "b", 0, 10)]
    found = scored(rows, [question()], [relevant("q", "a"), relevant("q", "b")])
    assert value(found, "R", 3) == 1
    assert value(found, "nDCG", 3) == 1  # a, b; never 1.63 for [a, a, b]
    assert value(found, "P", 3) == pytest.approx(2 / 3)


def test_a_chunk_named_twice_fails_the_question_and_no_other() -> None:
    rows = [hit("q", 1, "a"), hit("q", 2, "a"), *ranking("p", ["a"])]
    found = scored(rows, [question("q"), question("p")], [relevant("q", "a"), relevant("p", "a")])
    assert found["q", "nDCG", 5, "document"]["status"] == "failed"
    assert found["q", "nDCG", 5, "document"]["reason"] == "duplicate_ids"
    assert found["q", "nDCG", 5, "document"]["value"] is None
    assert value(found, "nDCG", 5, name="p") == 1


def test_a_score_that_is_not_finite_fails_the_question() -> None:
    for bad in (float("nan"), float("inf")):
        found = scored([hit("q", 1, "a", score=bad)], [question()], [relevant("q", "a")])
        assert found["q", "nDCG", 5, "document"]["reason"] == "non_finite_score"


def test_overlapping_chunks_neither_lower_nor_raise_what_they_find() -> None:
    labels = [quoted("q", "a", 100, GOLD)]
    apart = [hit("q", 1, "a", 0, 200), hit("q", 2, "b")]
    overlapping = [hit("q", 1, "a", 0, 200), hit("q", 2, "a", 90, 300), hit("q", 3, "b")]
    for metric in ("R", "nDCG", "Success", "P"):
        assert value(scored(overlapping, [question()], labels), metric, 1, "chunk") == 1
        assert value(scored(apart, [question()], labels), metric, 1, "chunk") == 1


def test_a_chunk_with_two_groups_finds_both_and_a_perfect_ranking_is_one() -> None:
    labels = [quoted("q", "a", 0, GOLD, group="g1"), quoted("q", "a", 60, GOLD, group="g2"), quoted("q", "b", 0, GOLD, group="g3")]
    found = scored([hit("q", 1, "a", 0, 200), hit("q", 2, "b", 0, 100)], [question()], labels)
    assert value(found, "nDCG", 10, "chunk") == 1
    assert value(found, "AP", 0, "chunk") == 1
    assert value(found, "R", 3, "chunk") == 1
    assert value(found, "R", 1, "group") == pytest.approx(2 / 3)


def test_a_chunk_is_relevant_from_half_of_the_span_or_wholly_inside_it() -> None:
    labels = [quoted("q", "a", 100, "x" * 40)]
    for start, end, counts in ((100, 120, 1), (110, 112, 1), (0, 119, 0), (0, 120, 1), (121, 300, 0)):
        found = scored([hit("q", 1, "a", start, end)], [question()], labels)
        assert value(found, "R", 1, "chunk") == counts, (start, end)


def test_a_group_counts_once_its_span_is_whole_over_all_leading_chunks() -> None:
    labels = [quoted("q", "a", 10, GOLD)]
    halves = [hit("q", 1, "a", 0, 30), hit("q", 2, "z"), hit("q", 3, "a", 29, 60)]
    found = scored(halves, [question()], labels)
    assert value(found, "R", 1, "group") == 0
    assert value(found, "R", 3, "group") == 1


def test_white_space_between_two_chunks_is_not_missed() -> None:
    quotation = "one two\n\n\n\nthree four"
    found = scored([hit("q", 1, "a", 0, 7), hit("q", 2, "a", 11, 21)], [question()], [quoted("q", "a", 0, quotation)])
    assert value(found, "R", 3, "group") == 1


def test_alternatives_of_a_group_stand_for_each_other_and_groups_do_not() -> None:
    labels = [quoted("q", "a", 0, GOLD), quoted("q", "b", 0, GOLD, item=1), quoted("q", "c", 0, GOLD, group="g2")]
    assert value(scored([hit("q", 1, "b", 0, 100)], [question()], labels), "R", 1, "group") == 0.5


def test_a_document_level_alternative_counts_when_the_document_is_there() -> None:
    labels = [quoted("q", "a", 0, GOLD), evidence("q", "b", item=1)]
    assert value(scored(ranking("q", ["b"]), [question()], labels), "R", 1, "group") == 1


def test_token_budgets_count_whole_leading_chunks() -> None:
    labels = [quoted("q", "b", 0, GOLD)]
    rows = [hit("q", 1, "a", tokens=400), hit("q", 2, "b", 0, 60, tokens=150)]
    found = score_rankings(runs(rows), [question()], labels, ks=(1,), token_budgets=(500, 550), by="retriever").to_pylist()
    by_budget = {(r["unit"], r["k"]): r["value"] for r in found if r["cutoff"] == "tokens"}
    # The gold document stands second: its gain is divided by log2(3).
    assert by_budget == {
        ("group", 500): 0.0,
        ("group", 550): 1.0,
        ("document", 500): 0.0,
        ("document", 550): pytest.approx(1 / math.log2(3)),
    }


def test_ndcg_at_a_token_budget_is_that_of_the_ranking_cut_there() -> None:
    """trec_eval itself on the documents whose first chunk fits, the ideal ranking uncut."""
    import pytrec_eval

    grades = {"b": 2, "c": 1, "z": 1}
    labels = [quoted("q", doc, 0, GOLD, group=f"g-{doc}") | {"grade": grade} for doc, grade in grades.items()]
    rows = [hit("q", 1, "a", tokens=100), hit("q", 2, "c", tokens=100), hit("q", 3, "c", 60, 90, tokens=100), hit("q", 4, "b", tokens=100)]
    found = score_rankings(runs(rows), [question()], labels, ks=(1,), token_budgets=(50, 200, 399, 400), by="retriever").to_pylist()
    reported = {r["k"]: r["value"] for r in found if (r["cutoff"], r["unit"]) == ("tokens", "document")}
    for budget, cut in ((200, ("a", "c")), (399, ("a", "c")), (400, ("a", "c", "b"))):
        run = {"q": {doc: float(-place) for place, doc in enumerate(cut)}}
        expected = pytrec_eval.RelevanceEvaluator({"q": grades}, {"ndcg"}).evaluate(run)["q"]["ndcg"]
        assert reported[budget] == pytest.approx(expected, abs=1e-12)
    assert reported[50] == 0.0


def test_a_token_budget_over_uncounted_chunks_is_refused() -> None:
    rows = runs([hit("q", 1, "a", tokens=None)])
    with pytest.raises(ValueError, match="tokens of every hit"):
        score_rankings(rows, [question()], [quoted("q", "a", 0, GOLD)], ks=(1,), token_budgets=(100,), by="retriever")


def test_labels_on_an_imported_systems_chunks_are_matched_by_id() -> None:
    asked = question(relevant=[{"document": "a", "chunk": "a#0-100", "grade": 1}])
    found = scored([hit("q", 1, "b"), hit("q", 2, "a", 0, 100)], [asked], [relevant("q", "a")])
    assert value(found, "RR", 0, "chunk") == 0.5
    assert found["q", "R", 1, "group"]["reason"] == "no_span_labels"


# -------------------------------------------------------------------------------------------------------------- statuses
def test_every_question_has_every_measure_whatever_became_of_it() -> None:
    questions = [question(f"q{i}") for i in range(4)]
    labels = [relevant(f"q{i}", "a") for i in range(4)]
    rows = [*ranking("q0", ["a"]), no_hit("q1", "ok", "empty_ranking"), no_hit("q2", "failed", "timeout")]
    found = scored(rows, questions, labels)
    states = {q: (r["status"], r["reason"], r["value"]) for (q, m, k, u), r in found.items() if (m, k, u) == ("R", 1, "document")}
    assert states == {
        "q0": ("scored", None, 1.0),
        "q1": ("scored", "empty_ranking", 0.0),
        "q2": ("failed", "timeout", None),
        "q3": ("missing", "missing_run", None),
    }
    assert len(found) == 4 * len(measures(KS, ()))


def test_a_lane_without_an_embedder_does_not_apply() -> None:
    found = scored([no_hit("q", "not_applicable", "no_embedder")], [question()], [relevant("q", "a")])
    assert found["q", "nDCG", 5, "document"]["status"] == "not_applicable"
    assert found["q", "nDCG", 5, "document"]["reason"] == "no_embedder"


@pytest.mark.parametrize(
    ("asked", "labels", "reason"),
    [
        (question(answerable=False), [], "unanswerable"),
        (question(), [], "no_relevance_labels"),
        (question(), [relevant("q", "a", 0)], "no_relevance_labels"),
        (question(), [relevant("q", "a", entitled=False, eligible=False)], "not_entitled_gold_only"),
    ],
)
def test_a_question_without_eligible_labels_is_in_no_denominator(asked: Row, labels: list[Row], reason: str) -> None:
    found = scored(ranking("q", ["a"]), [asked], labels)
    assert {(r["status"], r["reason"], r["value"]) for r in found.values()} == {("not_applicable", reason, None)}


def test_labels_on_documents_give_no_chunk_or_group_measure() -> None:
    found = scored(ranking("q", ["a"]), [question()], [relevant("q", "a"), evidence("q", "b")])
    assert {r["reason"] for (_, _, _, unit), r in found.items() if unit != "document"} == {"no_span_labels"}
    assert value(found, "R", 5) == 0.5


def test_evidence_lost_in_ingestion_stays_in_the_denominators() -> None:
    lost = evidence("q", "gone", group="g2", quotation="words", kept_doc_id=None, lost_at="parsed", eligible=False, match="none")
    found = scored([hit("q", 1, "a", 0, 100)], [question()], [quoted("q", "a", 0, GOLD), lost])
    assert value(found, "R", 10) == 0.5
    assert value(found, "R", 10, "group") == 0.5
    assert value(found, "R", 10, "chunk") == 0.5


def test_gold_of_a_dropped_copy_is_found_in_its_survivor() -> None:
    labels = [relevant("q", "copy", kept_doc_id="original"), relevant("q", "original")]
    found = scored(ranking("q", ["original"]), [question()], labels)
    assert value(found, "R", 1) == 1


def test_what_the_caller_may_not_read_is_not_asked_for() -> None:
    labels = [relevant("q", "a"), relevant("q", "secret", entitled=False, eligible=False)]
    assert value(scored(ranking("q", ["a"]), [question()], labels), "R", 1) == 1


def test_rows_of_unasked_questions_are_ignored() -> None:
    found = scored([*ranking("q", ["a"]), *ranking("other", ["a"])], [question()], [relevant("q", "a")])
    assert {q for q, *_ in found} == {"q"}


def test_an_empty_table_makes_every_question_missing() -> None:
    found = score_rankings(runs([]), [question()], [quoted("q", "a", 0, GOLD)], ks=(1,), token_budgets=(), by=None)
    assert set(found["status"].to_pylist()) == {"missing"}
    assert "retriever" not in found.column_names


def test_cut_offs_that_mean_nothing_are_refused() -> None:
    for ks in ((0,), (-1,), (3, 3)):
        with pytest.raises(ValueError, match="cut-offs must be positive and differ"):
            scored([], [question()], [], ks=ks)


# ------------------------------------------------------------------------------------------------------------ properties
names = st.sampled_from([f"d{i}" for i in range(12)])
rankings_of_documents = st.lists(names, min_size=1, max_size=12, unique=True)
gold = st.dictionaries(names, st.integers(1, 3), min_size=1, max_size=6)


@settings(deadline=None, max_examples=60)
@given(rankings_of_documents, gold)
def test_every_measure_lies_between_zero_and_one(run: list[str], grades: dict[str, int]) -> None:
    labels = [relevant("q", d, g) for d, g in grades.items()]
    assert all(0 <= r["value"] <= 1 for r in scored(ranking("q", run), [question()], labels).values() if r["value"] is not None)


@settings(deadline=None, max_examples=40)
@given(gold)
def test_a_perfect_ranking_scores_exactly_one(grades: dict[str, int]) -> None:
    best = sorted(grades, key=lambda d: -grades[d])
    found = scored(ranking("q", best), [question()], [relevant("q", d, g) for d, g in grades.items()])
    assert [value(found, m, k) for m, k in (("nDCG", 10), ("AP", 0), ("RR", 0), ("R", 10), ("Success", 1), ("P", 1))] == [1.0] * 6


@settings(deadline=None, max_examples=40)
@given(rankings_of_documents, gold, st.integers(1, 8))
def test_an_irrelevant_tail_raises_nothing(run: list[str], grades: dict[str, int], tail: int) -> None:
    labels = [relevant("q", d, g) for d, g in grades.items()]
    short, long = (scored(ranking("q", r), [question()], labels) for r in (run, [*run, *(f"tail{i}" for i in range(tail))]))
    assert all(long[key]["value"] == row["value"] for key, row in short.items())


spans = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 90), st.integers(1, 60)), min_size=1, max_size=10)


@settings(deadline=None, max_examples=60)
@given(spans, st.integers(0, 60), st.integers(0, 60))
def test_any_chunking_of_the_evidence_scores_between_zero_and_one(chunks: list[tuple[str, int, int]], first: int, second: int) -> None:
    labels = [quoted("q", "a", first, "x" * 20), quoted("q", "a", second, "y" * 15, group="g2")]
    distinct = dict.fromkeys(chunks)
    rows = [hit("q", rank, d, s, s + n) for rank, (d, s, n) in enumerate(distinct, 1)]
    found = scored(rows, [question()], labels)
    assert all(0 <= r["value"] <= 1 for r in found.values() if r["value"] is not None)


@settings(deadline=None, max_examples=20)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_never_matters(random: randomness.Random) -> None:
    questions = [question(q) for q in WORKED]
    labels = [relevant(q, d) for q, (own, _) in WORKED.items() for d in own] + [quoted("q1", "d3", 0, GOLD)]
    rows = [h for q, (_, run) in WORKED.items() for h in ranking(q, run.split())]
    before = score_rankings(runs(rows), questions, labels, ks=KS, token_budgets=(100,), by="retriever")
    for some in (rows, questions, labels):
        random.shuffle(some)
    assert score_rankings(runs(rows), questions, labels, ks=KS, token_budgets=(100,), by="retriever").equals(before)


# ------------------------------------------------------------------------------------------------------ invalid evaluator
def test_gold_rebuilt_after_filtering_is_refuted() -> None:
    """An evaluator that drops excluded gold reports 100% where half of the gold can never be found."""
    gold_of = {"q1": "d2", "q2": "d4", "q3": "d6", "q4": "d5"}
    surviving = {"q1": ["d1", "d4"], "q2": ["d4", "d1"], "q3": ["d1", "d4"], "q4": ["d5"]}
    rows = [h for q, run in surviving.items() for h in ranking(q, run)]
    questions = [question(q) for q in gold_of]

    def recall(labels: list[Row]) -> float:
        found = scored(rows, questions, labels)
        return float(np.mean([v for q in gold_of if (v := value(found, "R", 5, name=q)) is not None]))

    assert recall([relevant(q, d) for q, d in gold_of.items()]) == 0.5
    assert recall([relevant(q, d) for q, d in gold_of.items() if d in surviving[q]]) == 1.0


def test_an_unretrieved_chunk_does_not_shrink_the_ideal() -> None:
    labels = [quoted("q", "a", 0, GOLD), quoted("q", "b", 0, GOLD, group="g2")]
    found = scored([hit("q", 1, "a", 0, 100)], [question()], labels)
    assert value(found, "nDCG", 10, "chunk") == pytest.approx(0.613, abs=5e-4)


def test_the_result_has_the_schema_of_its_table() -> None:
    from rag_eval_assets.tables import TABLES

    found = score_rankings(runs(ranking("q", ["a"])), [question()], [relevant("q", "a")], ks=(1,), token_budgets=(5,), by="retriever")
    assert found.schema.equals(TABLES["retrieval_scores"].schema)
    assert isinstance(found, pa.Table)
