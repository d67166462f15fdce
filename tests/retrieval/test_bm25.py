"""BM25 scores are Lucene's, count how often a word is said, and follow the language of each text."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_assets.resources.stores import SqliteStore
from rag_eval_assets.retrieval import bm25
from rag_eval_assets.retrieval.bm25 import ANALYSERS, LANGUAGES, Bm25Index, analyse, analyse_known

WORDS = st.lists(st.sampled_from(["pump", "valve", "seal", "mice", "oil"]), max_size=8)


def _lucene(terms: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    """The formula of the paper, word by word, for every document."""
    mean = sum(map(len, terms)) / len(terms)
    scores = []
    for words in terms:
        counts, score = Counter(words), 0.0
        for term in query:
            df = sum(term in other for other in terms)
            idf = math.log(1 + (len(terms) - df + 0.5) / (df + 0.5))
            tf = counts[term]
            score += idf * tf / (tf + k1 * (1 - b + b * len(words) / mean)) if tf else 0.0
        scores.append(score)
    return scores


@given(terms=st.lists(WORDS, min_size=1, max_size=8), query=WORDS, k1=st.sampled_from([0.9, 1.2, 2.0]), b=st.sampled_from([0.0, 0.4, 1]))
def test_scores_are_those_of_the_lucene_formula(terms: list[list[str]], query: list[str], k1: float, b: float) -> None:
    expected = _lucene(terms, query, k1, b) if any(terms) else [0.0] * len(terms)
    hits = Bm25Index(terms, k1=k1, b=b).search(query, None, len(terms))
    assert dict(zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)) == pytest.approx(
        {at: score for at, score in enumerate(expected) if score > 0}, rel=1e-5
    )


def test_a_word_said_three_times_counts_three_times() -> None:
    (terms,) = analyse(["mice mice mice"], ["en"], "by_language")
    assert len(terms) == 3
    texts = ["mice and other small animals in the barn", "mice mice mice in the barn"]
    index = Bm25Index(analyse(texts, ["en", "en"], "english"), k1=1.2, b=0.0)
    assert index.search(["mice"], None, 2).positions.tolist() == [1, 0]


def test_a_text_met_before_is_not_analysed_again_and_each_analyser_keeps_its_own_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "terms.sqlite")
    texts, languages = ["The pumps leak", "De pompen lekken", "", "The pumps leak", "the of"], ["en", "nl", "en", "nl", "en"]
    hashes = [str(hash(text)) for text in texts]
    analysed: list[list[str]] = []
    plainly = analyse
    monkeypatch.setattr(bm25, "KEPT_AT_ONCE", 2)
    monkeypatch.setattr(bm25, "analyse", lambda texts, *rest: analysed.append(list(texts)) or plainly(texts, *rest))
    for analyser in ("by_language", "plain"):
        for _ in range(2):
            assert analyse_known(texts, hashes, languages, analyser, store) == plainly(texts, languages, analyser)
    # by_language: the third text's English and Dutch terms differ; plain: two equal texts have one entry.
    assert [len(texts) for texts in analysed] == [2, 2, 1, 2, 2]
    more = [*texts, "A new pump"]
    assert analyse_known(more, [*hashes, "new"], [*languages, "en"], "plain", store)[-1] == ["new", "pump"]
    assert analysed[-1] == ["A new pump"]
    assert analyse_known(texts, hashes, languages, "english", None) == plainly(texts, languages, "english")


def test_each_text_is_analysed_in_its_own_language() -> None:
    texts = ["De garanties van de pompen", "Die Garantien der Pumpen", "The guarantees of the pumps", "the pumps of X-12"]
    # Stems by hand from the published Snowball algorithms; "und" has no language, so words stay as they are.
    assert analyse(texts, ["nl", "de", "en", "und"], "by_language") == [
        ["garantie", "pomp"],
        ["garanti", "pump"],
        ["guarante", "pump"],
        ["the", "pumps", "of", "12"],
    ]


def test_a_dutch_question_meets_a_dutch_text_through_its_stem() -> None:
    index = Bm25Index(analyse(["De pomp lekt", "The pump leaks"], ["nl", "en"], "by_language"), k1=1.2, b=0.75)
    (query,) = analyse(["Welke pompen lekken er?"], ["nl"], "by_language")
    assert index.search(query, None, 2).positions.tolist() == [0]


@pytest.mark.parametrize("analyser", ANALYSERS)
def test_every_analyser_works_and_composed_letters_equal_decomposed_ones(analyser: str) -> None:
    composed, decomposed = analyse(["prüfung", "pru\u0308fung"], ["de", "de"], analyser)
    assert composed == decomposed
    assert composed


def test_every_language_has_a_stemmer_and_a_stop_list() -> None:
    for language in LANGUAGES:
        assert analyse(["pump"], [language], "by_language") != [[]]


def test_an_unknown_analyser_is_named() -> None:
    with pytest.raises(ValueError, match="no analyser 'klingon'"):
        analyse(["a"], ["en"], "klingon")


@pytest.mark.parametrize(("texts", "query"), [([], ["pump"]), (["", "of the"], ["pump"]), (["pump"], []), (["pump"], ["valve"])])
def test_nothing_in_common_is_an_empty_ranking(texts: list[str], query: list[str]) -> None:
    hits = Bm25Index(analyse(texts, ["en"] * len(texts), "english"), k1=1.2, b=0.75).search(query, None, 5)
    assert len(hits.positions) == len(hits.scores) == 0


def test_a_mask_hides_chunks_before_the_cut_and_leaves_scores_alone() -> None:
    index = Bm25Index([["pump"]] * 6 + [["seal"]] * 4, k1=1.2, b=0.75)
    everything = index.search(["pump"], None, 10)
    mask = np.array([True, False] * 5)
    hits = index.search(["pump"], mask, 2)
    assert everything.positions.tolist() == [5, 4, 3, 2, 1, 0]
    assert hits.positions.tolist() == [4, 2]
    assert set(hits.scores.tolist()) == {everything.scores[0]}


@given(terms=st.lists(WORDS, min_size=1, max_size=10), query=WORDS, seed=st.integers(0, 999))
def test_the_order_of_documents_in_the_index_changes_no_score(terms: list[list[str]], query: list[str], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(terms))
    plain = Bm25Index(terms, k1=1.2, b=0.75).search(query, None, 99)
    shuffled = Bm25Index([terms[at] for at in order], k1=1.2, b=0.75).search(query, None, 99)
    found = {int(order[at]): score for at, score in zip(shuffled.positions, shuffled.scores, strict=True)}
    assert found == dict(zip(plain.positions.tolist(), plain.scores, strict=True))


def _read(folder: Path) -> tuple[list[str], list[str], dict[str, str], dict[str, dict[str, int]]]:
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    queries = {row["_id"]: row["text"] for row in map(json.loads, (folder / "queries.jsonl").open(encoding="utf-8"))}
    qrels: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, doc, grade = line.split("\t")
        qrels.setdefault(query, {})[doc] = int(grade)
    corpus.sort(key=lambda row: row["_id"])
    texts = [f"{row['title']} {row['text']}" if row.get("title") else row["text"] for row in corpus]
    return [row["_id"] for row in corpus], texts, queries, qrels


def _ndcg(folder: Path, language: str, settings: list[tuple[float, float]]) -> list[float]:
    ids, texts, queries, qrels = _read(folder)
    terms = analyse(texts, [language] * len(texts), "by_language")
    asked = dict(zip(qrels, analyse([queries[query] for query in qrels], [language] * len(qrels), "by_language"), strict=True))
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10"})
    means = []
    for k1, b in settings:
        index = Bm25Index(terms, k1=k1, b=b)
        runs = {}
        for query, words in asked.items():
            found = index.search(words, None, 100).positions
            runs[query] = {ids[at]: float(len(found) - rank) for rank, at in enumerate(found)}
        means.append(sum(row["ndcg_cut_10"] for row in evaluator.evaluate(runs).values()) / len(qrels))
    return means


@pytest.mark.reference
def test_scifact_reaches_the_published_figures(shared: Path) -> None:
    found = _ndcg(shared / "retrieval" / "scifact", "en", [(0.9, 0.4), (1.2, 0.75), (1.5, 0.75)])
    assert found == pytest.approx([0.6762, 0.6791, 0.6863], abs=0.002)


@pytest.mark.reference
@pytest.mark.parametrize(("language", "published"), [("en", 0.965), ("de", 0.929), ("es", 0.954)])
def test_xquad_reaches_at_least_the_published_figures_in_each_language(shared: Path, language: str, published: float) -> None:
    (found,) = _ndcg(shared / "retrieval" / f"xquad_{language}", language, [(1.5, 0.75)])
    assert found >= published, f"nDCG@10 {found:.4f}"


def test_a_thousand_questions_over_a_large_index_take_seconds() -> None:
    rng = np.random.default_rng(3)
    vocabulary = np.array([f"w{n}" for n in range(20_000)])
    ranks = np.minimum(rng.zipf(1.3, size=(20_000, 40)) - 1, len(vocabulary) - 1)
    index = Bm25Index([row.tolist() for row in vocabulary[ranks]], k1=1.2, b=0.75)
    mask = rng.random(20_000) < 0.5
    started = time.perf_counter()
    for query in vocabulary[np.minimum(rng.zipf(1.3, size=(1000, 8)) - 1, len(vocabulary) - 1)].tolist():
        index.search(query, mask, 100)
    assert time.perf_counter() - started < 20
