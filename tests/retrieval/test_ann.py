"""Approximate indexes are judged against exact search, deterministically, with ties and filters told apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from rag_eval_assets.retrieval.ann import measure, not_measured
from rag_eval_assets.tables import TABLES

GRID = {
    "hnsw_m": (8,),
    "hnsw_ef_construction": (40,),
    "hnsw_ef_search": (8, 64),
    "ivf_nlist": (),
    "ivf_nprobe": (1, 4, 1000),
}
QUANTISED = {"sq8": ("flat", "hnsw", "ivf"), "pq_m": (7, 16)}
Vectors = npt.NDArray[np.float32]


def _unit(seed: int, count: int, width: int = 32) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _measure(vectors: Vectors | None, queries: Vectors | None, **changed: Any) -> list[dict[str, Any]]:
    count = 0 if vectors is None else len(vectors)
    arguments: dict[str, Any] = {
        "embedder": "minilm",
        "k": 10,
        "grid": GRID,
        "selectivities": (1.0, 0.1),
        "oversample": 4,
        "minimum_recall": 0.95,
        "seed": 7,
        "threads": 2,
    }
    doc_ids = changed.pop("doc_ids", [f"d{at // 3}" for at in range(count)])
    qrels = changed.pop("qrels", {at: {f"d{at}": 1} for at in range(40)})
    return measure(vectors, doc_ids, queries, qrels, **{**arguments, **changed})


def _content(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = TABLES["ann_recall"].versioned_columns
    return [{name: row[name] for name in names} for row in rows]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return _measure(_unit(1, 800), _unit(2, 40))


def test_rows_keep_the_contract_and_every_setting_has_every_selectivity(rows: list[dict[str, Any]]) -> None:
    table = TABLES["ann_recall"]
    pa.Table.from_pylist(rows, schema=table.schema)
    assert list(rows[0]) == table.columns
    keys = [tuple(row[name] for name in table.key) for row in rows]
    assert keys == sorted(set(keys))
    # 800 vectors: 4 * sqrt(800) = 113 lists would leave 7 training vectors each, 800 // 39 = 20 is what training bears.
    settings = {(row["index"], row["setting"]) for row in rows}
    assert settings == {
        ("flat", "exact"),
        ("hnsw", "m8-efc40-efs64"),
        ("hnsw", "m8-efc40-efs8"),
        ("ivf", "nlist20-nprobe1"),
        ("ivf", "nlist20-nprobe20"),
        ("ivf", "nlist20-nprobe4"),
    }
    assert sorted({(row["filtering"], row["selectivity"]) for row in rows}) == [("none", 1.0), ("post", 0.1), ("pre", 0.1)]
    assert len(rows) == 3 * len(settings)
    assert all("nlist 113 lowered to 20" in row["detail"] for row in rows if row["index"] == "ivf")


def test_exact_search_and_an_index_that_probes_everything_lose_nothing(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["setting"] in ("exact", "nlist20-nprobe20") and row["filtering"] != "post":
            assert (row["recall_mean"], row["recall_p5"], row["recall_by_id"], row["ndcg_cost"]) == (1.0, 1.0, 1.0, 0.0)
    flat = {row["filtering"]: row["distance_computations"] for row in rows if row["index"] == "flat"}
    assert flat == {"none": 800.0, "pre": 80.0, "post": 800.0}


def test_recall_and_cost_rise_with_effort(rows: list[dict[str, Any]]) -> None:
    at = {(row["setting"], row["selectivity"]): row for row in rows if row["filtering"] != "post"}
    for low, high in (("m8-efc40-efs8", "m8-efc40-efs64"), ("nlist20-nprobe1", "nlist20-nprobe4")):
        assert at[low, 1.0]["recall_mean"] < at[high, 1.0]["recall_mean"]
        assert at[low, 1.0]["distance_computations"] < at[high, 1.0]["distance_computations"]
    assert at["nlist20-nprobe1", 0.1]["recall_mean"] < at["nlist20-nprobe20", 0.1]["recall_mean"]


def test_recall_by_id_is_the_share_of_the_true_ten_found(rows: list[dict[str, Any]]) -> None:
    """The same index built here by hand, its hits counted with plain sets against a full sort."""
    import faiss

    vectors, queries = _unit(1, 800), _unit(2, 40)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(32), 32, 20, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed, index.cp.spherical, index.nprobe = 7, True, 4
    index.train(vectors)
    index.add(vectors)
    _, found = index.search(queries, 10)
    truth = np.argsort(-(queries.astype(np.float64) @ vectors.T.astype(np.float64)), axis=1)[:, :10]
    recalls = [len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), truth.tolist(), strict=True)]
    (row,) = [row for row in rows if row["setting"] == "nlist20-nprobe4" and row["selectivity"] == 1.0]
    assert row["recall_by_id"] == pytest.approx(sum(recalls) / 40)
    assert row["recall_mean"] == pytest.approx(sum(recalls) / 40), "random vectors have no ties to forgive"
    assert row["recall_p5"] == pytest.approx(np.quantile(recalls, 0.05))


def test_equal_input_gives_equal_content_whatever_the_threads(rows: list[dict[str, Any]]) -> None:
    assert _content(_measure(_unit(1, 800), _unit(2, 40), threads=1)) == _content(rows)


def test_the_denominator_is_what_there_is_to_find() -> None:
    """3 vectors of 30 pass the filter: finding all 3 of the 10 asked for is recall 1."""
    rows = _measure(_unit(5, 30), _unit(6, 4), grid={**GRID, "hnsw_ef_search": (30,)}, selectivities=(0.1,))
    assert {row["recall_mean"] for row in rows if row["filtering"] == "pre"} == {1.0}
    assert {row["selectivity"] for row in rows} == {1.0, 0.1}, "recall without a filter is always measured"


def test_near_duplicates_lose_ids_but_no_neighbour() -> None:
    """Each vector stands 6 times: which twins come back is chance, that twins come back is not."""
    vectors = np.repeat(_unit(7, 60), 6, axis=0)
    rows = _measure(vectors, _unit(8, 30), k=4, grid={"hnsw_m": (16,), "hnsw_ef_construction": (100,), "hnsw_ef_search": (4,)})
    (row,) = [row for row in rows if row["index"] == "hnsw" and row["selectivity"] == 1.0]
    assert row["recall_mean"] > row["recall_by_id"]


def test_the_recommendation_is_the_cheapest_setting_that_is_good_enough(rows: list[dict[str, Any]]) -> None:
    able = [row for row in rows if row["selectivity"] == 1.0 and row["recall_mean"] >= 0.95]
    (recommended,) = [row for row in rows if row["recommended"]]
    assert recommended["distance_computations"] == min(row["distance_computations"] for row in able)
    assert recommended["selectivity"] == 1.0


def test_seconds_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    real = time.perf_counter
    plain = _measure(_unit(1, 200), _unit(2, 10))
    monkeypatch.setattr(time, "perf_counter", lambda: -real() * 17)
    assert _content(_measure(_unit(1, 200), _unit(2, 10))) == _content(plain)


def test_exact_search_is_recommended_where_nothing_else_is_good_enough() -> None:
    rows = _measure(_unit(9, 400), _unit(10, 20), grid={"ivf_nlist": (10,), "ivf_nprobe": (1,)}, minimum_recall=1.0)
    assert [row["index"] for row in rows if row["recommended"]] == ["flat"]


def test_ndcg_cost_is_the_loss_by_document_over_questions_with_gold_in_reach() -> None:
    """Two documents; the query's neighbour is its gold, which a probe of the wrong list would miss: exact finds it first."""
    vectors, queries = _unit(11, 400), _unit(11, 400)[:50]
    gold = {at: {f"d{at // 3}": 1} for at in range(50)}
    rows = _measure(vectors, queries, qrels=gold, grid={"ivf_nlist": (10,), "ivf_nprobe": (1, 10)})
    cost = {(row["setting"], row["selectivity"]): row["ndcg_cost"] for row in rows}
    assert cost["nlist10-nprobe10", 1.0] == 0.0
    assert 0.0 <= cost["nlist10-nprobe1", 1.0] <= 1.0
    assert all(row["ndcg_cost"] is None for row in _measure(vectors, queries, qrels={}))


def test_a_poorly_connected_graph_is_told() -> None:
    grid = {"hnsw_m": (4,), "hnsw_ef_construction": (8,), "hnsw_ef_search": (8,)}
    rows = _measure(_unit(12, 2000, 64), _unit(13, 30, 64), grid=grid)
    assert any("the graph is badly connected" in (row["detail"] or "") for row in rows if row["index"] == "hnsw")


@pytest.mark.parametrize(
    ("vectors", "queries", "reason"),
    [
        (None, None, "no_embedder"),
        (_unit(1, 1), _unit(2, 3), "no_vectors"),
        (np.empty((0, 32), dtype=np.float32), _unit(2, 3), "no_vectors"),
        (_unit(1, 5), np.empty((0, 32), dtype=np.float32), "too_few_questions"),
    ],
)
def test_what_cannot_be_measured_is_one_row_with_its_reason(vectors: Vectors | None, queries: Vectors | None, reason: str) -> None:
    (row,) = _measure(vectors, queries)
    pa.Table.from_pylist([row], schema=TABLES["ann_recall"].schema)
    assert (row["status"], row["reason"], row["recall_mean"], row["recommended"]) == ("not_applicable", reason, None, False)


def test_a_chunking_that_nothing_uses_is_one_row_that_says_so() -> None:
    row = not_measured("minilm", 10)
    pa.Table.from_pylist([row], schema=TABLES["ann_recall"].schema)
    assert (row["status"], row["reason"]) == ("not_applicable", "not_used")


def test_two_vectors_are_enough() -> None:
    rows = _measure(_unit(1, 2), _unit(2, 3))
    assert all(row["recall_mean"] == 1.0 for row in rows)
    assert all(math.isfinite(row["distance_computations"]) for row in rows)


def test_a_query_that_is_not_finite_is_left_out_and_counted() -> None:
    queries = _unit(2, 5)
    queries[3] = np.nan
    rows = _measure(_unit(1, 100), queries)
    assert {row["queries"] for row in rows} == {4}
    assert all("1 queries without a finite vector left out" in row["detail"] for row in rows)


def test_a_filter_after_the_search_keeps_what_the_deeper_search_happened_to_reach(rows: list[dict[str, Any]]) -> None:
    """Exact search 40 deep, then a tenth of the vectors let through: the hits are counted here from a full sort."""
    vectors, queries = _unit(1, 800), _unit(2, 40)
    kept = np.random.default_rng(7).permutation(800)[:80]
    order = np.argsort(-(queries.astype(np.float64) @ vectors.T.astype(np.float64)), axis=1)
    left = [np.isin(ranking[:40], kept).sum() for ranking in order]
    (post,) = [row for row in rows if row["index"] == "flat" and row["filtering"] == "post"]
    assert post["recall_mean"] == pytest.approx(float(np.mean([min(10, n) / 10 for n in left])))
    (pre,) = [row for row in rows if row["index"] == "flat" and row["filtering"] == "pre"]
    assert pre["recall_mean"] == 1.0 > post["recall_mean"]


def test_two_builds_agree_as_far_as_faiss_itself_says(rows: list[dict[str, Any]]) -> None:
    """IVF of the next seed, built here by hand; what holds no chance has no agreement, and a filter is not built again."""
    import faiss

    vectors, queries = _unit(1, 800), _unit(2, 40)
    found = []
    for seed in (7, 8):
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(32), 32, 20, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed, index.cp.spherical, index.nprobe = seed, True, 4
        index.train(vectors)
        index.add(vectors)
        found.append(index.search(queries, 10)[1].tolist())
    shared = [len(set(a) & set(b)) / 10 for a, b in zip(*found, strict=True)]
    at = {(row["setting"], row["filtering"]): row["agreement"] for row in rows}
    assert at["nlist20-nprobe4", "none"] == pytest.approx(sum(shared) / 40)
    assert 0 < at["m8-efc40-efs8", "none"] < at["m8-efc40-efs64", "none"] <= 1
    assert at["exact", "none"] is None
    assert at["m8-efc40-efs64", "pre"] is None


def test_quantised_indexes_are_smaller_and_no_better_than_whole_ones() -> None:
    rows = _measure(_unit(1, 800), _unit(2, 40), grid={**GRID, **QUANTISED}, selectivities=(1.0,))
    pa.Table.from_pylist(rows, schema=TABLES["ann_recall"].schema)
    at = {(row["index"], row["setting"]): row for row in rows}
    # 32 numbers of 4 bytes against 32 of one.
    assert at["flat_sq8", "sq8"]["bytes"] < at["flat", "exact"]["bytes"] / 3
    assert 0.9 < at["flat_sq8", "sq8"]["recall_mean"] <= 1.0
    assert at["flat_sq8", "sq8"]["distance_computations"] == 800.0
    assert at["hnsw_sq8", "m8-efc40-efs64"]["bytes"] < at["hnsw", "m8-efc40-efs64"]["bytes"]
    # 800 vectors train 20 centres at 39 each: codes of 4 bits, and 7 parts of 32 numbers become 4.
    coarse, fine = at["ivf_pq", "pq7-nlist20-nprobe20"], at["ivf_pq", "pq16-nlist20-nprobe20"]
    assert coarse["detail"].endswith("4 codes of 4 bits, 7 and 8 asked for")
    assert coarse["recall_mean"] < fine["recall_mean"] < at["ivf_sq8", "nlist20-nprobe20"]["recall_mean"]
    assert coarse["bytes"] < fine["bytes"] < at["ivf_sq8", "nlist20-nprobe20"]["bytes"] < at["ivf", "nlist20-nprobe20"]["bytes"]


def test_too_few_vectors_to_train_product_codes_are_a_row_that_says_so() -> None:
    rows = _measure(_unit(1, 600), _unit(2, 5), grid={**GRID, "pq_m": (8,)})
    pa.Table.from_pylist(rows, schema=TABLES["ann_recall"].schema)
    (row,) = [row for row in rows if row["index"] == "ivf_pq"]
    assert (row["setting"], row["status"], row["reason"], row["recall_mean"]) == ("pq8", "not_applicable", "no_vectors", None)
    assert row["detail"] == "product quantisation trains on 624 vectors at least; 600 are there"


@pytest.mark.parametrize("count", [2, 6, 38, 39, 624])
def test_what_training_lacks_stands_in_the_row_and_faiss_writes_nothing(count: int, capfd: pytest.CaptureFixture[str]) -> None:
    grid = {"ivf_nlist": (1, 100), "ivf_nprobe": (100,), "sq8": ("ivf",), "pq_m": (8,)}
    rows = _measure(_unit(1, count), _unit(2, 2), grid=grid, selectivities=(1.0,))
    assert capfd.readouterr() == ("", "")
    trained = [row for row in rows if row["index"] in ("ivf", "ivf_sq8")]
    assert {row["recall_mean"] for row in trained if row["index"] == "ivf"} == {1.0}  # every list is probed
    told = f"its one list is trained on {count} vectors of the 39 that a list wants"
    assert {told in row["detail"] for row in trained} == {count < 39}


def test_an_effort_that_would_still_pay_and_lists_out_of_range_are_told() -> None:
    grid = {"hnsw_m": (4,), "hnsw_ef_construction": (40,), "hnsw_ef_search": (8, 16), "ivf_nlist": (8,), "ivf_nprobe": (1,)}
    at = {row["setting"]: row["detail"] or "" for row in _measure(_unit(1, 800), _unit(2, 40), grid=grid, selectivities=(1.0,))}
    assert "recall still rises at the largest ef_search" in at["m4-efc40-efs16"]
    assert "recall still rises" not in at["m4-efc40-efs8"]
    assert at["nlist8-nprobe1"] == "nlist 8 lies outside 4 to 16 times the square root of 800 vectors"


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="k 0"):
        _measure(_unit(1, 10), _unit(2, 2), k=0)
    with pytest.raises(ValueError, match="oversample 0"):
        _measure(_unit(1, 10), _unit(2, 2), oversample=0)
    with pytest.raises(ValueError, match="selectivities"):
        _measure(_unit(1, 10), _unit(2, 2), selectivities=(0.0,))
    with pytest.raises(ValueError, match="1 vectors are not finite"):
        _measure(np.array([[np.inf] * 32, [0.0] * 32], dtype=np.float32), _unit(2, 2))


def test_progress_counts_settings_of_every_kind() -> None:
    seen: list[tuple[int, int]] = []
    grid = {**GRID, **QUANTISED, "hnsw_m": (4, 8)}
    rows = _measure(_unit(1, 800), _unit(2, 3), grid=grid, on_done=lambda done, total: seen.append((done, total)))
    settings = len({(row["index"], row["setting"]) for row in rows})
    assert seen == [(done, settings) for done in range(1, settings + 1)]
