"""Lexical groundedness by sentence: hand-worked shares, and human labels of the BEGIN benchmark."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rag_eval_assets.scoring.groundedness import by_sentence, lexical, unseen_entities

PASSAGES = ["The filter is changed every two years. The fan is cleaned every spring.", "The pump runs for 300 hours."]


def test_a_sentence_is_the_mean_of_its_content_words_its_words_and_its_best_context_sentence() -> None:
    # filters stands there as filter, and so does the; need and replacement do not: 1 of 3, 2 of 4, and 2 of 4 in one sentence.
    [found] = by_sentence("The filters need replacement [1]", PASSAGES)
    assert found.value == pytest.approx((1 / 3 + 2 / 4 + 2 / 4) / 3)
    assert found.lacking == ("need", "replac")


def test_words_of_one_context_sentence_tell_more_than_the_same_words_of_two() -> None:
    together, apart = by_sentence("The fan is cleaned every spring. The pump is cleaned every spring.", PASSAGES)
    assert together.value == 1
    # All words stand there, but one sentence holds 5 of the 6.
    assert apart.value == pytest.approx((1 + 1 + 5 / 6) / 3)


def test_one_made_up_sentence_is_found_among_grounded_ones() -> None:
    found = by_sentence("The fan is cleaned every spring. Badgers hibernate underground.", PASSAGES)
    assert [s.value for s in found] == [1, 0]
    assert lexical(found) == pytest.approx(6 / 9)  # 6 words of 9


@pytest.mark.parametrize("sentence", ["The pump runs for 400 hours.", "The pump never runs for 300 hours."])
def test_a_number_or_negation_of_its_own_costs_more_than_a_word(sentence: str) -> None:
    [other] = by_sentence("The pump today runs for 300 hours." if "never" in sentence else "The pump runs for full hours.", PASSAGES)
    [found] = by_sentence(sentence, PASSAGES)
    assert found.value < other.value < 1


def test_it_reads_dutch_and_german() -> None:
    for language, passage, answer in (
        ("nl", "De filters worden elk jaar vervangen.", "De filter wordt elk jaar vervangen."),
        ("de", "Die Filter werden jedes Jahr gewechselt.", "Der Filter wird jedes Jahr gewechselt."),
    ):
        [found] = by_sentence(answer, [passage], language)
        assert 0.7 < found.value < 1


def test_an_answer_without_words_has_no_sentences_and_no_value() -> None:
    assert by_sentence("... [1]", PASSAGES) == []
    assert lexical([]) is None


def _rows(shared: Path, part: str) -> list[dict[str, str]]:
    text = (shared / "begin" / f"{part}.tsv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.reference
def test_an_unseen_name_is_a_precise_and_rare_sign_of_what_the_context_does_not_hold(shared: Path) -> None:
    """On people's labels nine flags in ten are right, and nine faults in ten are not flagged: no figure to gate on."""
    rows = _rows(shared, "wow/begin_test_wow")
    flagged = [bool(unseen_entities(row["response"], [row["knowledge"], row["message"]])) for row in rows]
    faulty = [row["begin_label"] != "Fully attributable" for row in rows]
    right = sum(f and w for f, w in zip(flagged, faulty, strict=True))
    assert right / sum(flagged) > 0.9
    assert 0.05 < right / sum(faulty) < 0.2


@pytest.mark.reference
@pytest.mark.parametrize(
    ("part", "floor"),
    [("wow/begin_test_wow", 0.940), ("wow/begin_dev_wow", 0.942), ("cmu-dog/begin_dev_cmu", 0.967), ("topicalchat/begin_dev_tc", 0.926)],
)
def test_it_separates_human_labels_better_than_plain_word_precision(shared: Path, part: str, floor: float) -> None:
    """Fully attributable or not, as people judged; the floors are plain content-word precision, constants stand on wow dev alone."""
    import numpy as np
    from scipy.stats import mannwhitneyu

    rows = _rows(shared, part)
    values = np.array([lexical(by_sentence(row["response"], [row["knowledge"]])) or 0.0 for row in rows])
    attributable = np.array([row["begin_label"] == "Fully attributable" for row in rows])
    high, low = values[attributable], values[~attributable]
    # AUROC is the Mann-Whitney statistic over the number of pairs.
    assert mannwhitneyu(high, low).statistic / (len(high) * len(low)) > floor
