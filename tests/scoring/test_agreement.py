"""Dates, numbers, negations and quantifiers between two texts in three languages, and answer quality against human preferences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_eval_assets.scoring.agreement import disagreement, informative_f1, missing_dates, other_quantifiers, token_f1
from rag_eval_assets.scoring.dates import dates, without_dates


@pytest.mark.parametrize(
    "written",
    [
        "3 March 2020",
        "March 3rd, 2020",
        "the 3rd of March, 2020",
        "2020-03-03",
        "03.03.2020",
        "3 maart 2020",
        "3. März 2020",
        "Mar 3, 2020",
    ],
)
def test_a_date_is_the_same_however_it_is_written(written: str) -> None:
    [date] = dates(f"It opened on {written}.")
    assert date.readings == {(2020, 3, 3)}
    assert missing_dates(f"It opened on {written}.", "Opened on 3 March 2020.") is None
    assert missing_dates("It opened on 3 May 2020.", f"Opened on {written}.") is not None


def test_figures_in_either_order_are_read_both_ways() -> None:
    assert dates("04/03/2020")[0].readings == {(2020, 3, 4), (2020, 4, 3)}
    assert missing_dates("on 4 March 2020", "04/03/2020") is None
    assert missing_dates("on 3 April 2020", "04/03/2020") is None
    assert missing_dates("on 4 May 2020", "04/03/2020") is not None
    assert [dates(text) for text in ("45/13/2020", "version 1.2.2020.4", "2020-13-01")] == [[], [], []]


def test_a_wrong_month_disagrees_and_dates_are_no_numbers() -> None:
    assert disagreement("It was founded on 3 May 2020.", "It was founded on 3 March 2020.") == "without the date 3 March 2020"
    assert disagreement("It was founded on 5 March 2020.", "It was founded on 05.03.2020.") is None
    assert without_dates("3 pumps on 3 March 2020").strip() == "3 pumps on"
    assert missing_dates("In 2020, on 3 March, it opened.", "3 March 2020") is None


@pytest.mark.parametrize(
    ("language", "answer", "statement", "told"),
    [
        ("en", "Returns are accepted for all items.", "Returns are accepted only for unused items.", "without only, with all"),
        ("en", "The warranty covers every part.", "The warranty covers every part except the seals.", "without except"),
        ("en", "None of the pumps are covered.", "All of the pumps are covered.", "without all, with none"),
        ("nl", "De garantie geldt voor alle onderdelen.", "De garantie geldt alleen voor de pomp.", "without only, with all"),
        ("nl", "Alle onderdelen vallen eronder.", "Alle onderdelen vallen eronder, behalve de pomp.", "without except"),
        ("de", "Die Garantie gilt für alle Teile.", "Die Garantie gilt nur für die Pumpe.", "without only, with all"),
        ("de", "Alle Teile sind gedeckt.", "Alle Teile außer der Pumpe sind gedeckt.", "without except"),
    ],
)
def test_quantifiers_that_differ_are_named(language: str, answer: str, statement: str, told: str) -> None:
    found = other_quantifiers(answer, statement, language)
    assert found is not None
    assert sorted(found.split(", ")) == sorted(told.split(", "))
    assert other_quantifiers(statement, statement, language) is None


@pytest.mark.parametrize(
    ("answer", "statement"),
    [
        ("Paris was not founded in 1994.", "Paris was founded in 1994."),
        ("Parijs werd niet in 1994 gesticht.", "Parijs werd in 1994 gesticht."),
        ("Paris wurde nicht 1994 gegründet.", "Paris wurde 1994 gegründet."),
        ("Paris was founded in 1995.", "Paris was founded in 1994."),
    ],
)
def test_a_dropped_negation_and_a_wrong_number_disagree(answer: str, statement: str) -> None:
    assert disagreement(answer, statement) is not None
    assert disagreement(statement, answer) is not None


def test_words_of_the_question_are_not_information() -> None:
    asked = "How often is the filter of the pump changed?"
    # Beyond the question's words the reference says year and two; both answers repeat the question, one says year and five.
    assert informative_f1("The filter of the pump is changed every two years.", "Every two years.", asked) == 1
    assert informative_f1("The filter of the pump is changed.", "Every two years.", asked) == 0
    assert informative_f1("The pump.", "The pump.", "Is it the pump or the fan?") == 1
    assert informative_f1("No.", "Yes.", "Is it?") < 1


@pytest.mark.reference
def test_informative_words_agree_with_human_preferences_more_than_token_f1(shared: Path) -> None:
    """RAGChecker's 560 preferences between two answers (Ru et al. 2024); its table gives token F1 Pearson 43.0, 55.7 and 52.9."""
    from scipy.stats import pearsonr

    rows = json.loads((shared / "ragchecker/data/meta_evaluation/human_labeled_data.json").read_text())
    assert len(rows) == 560

    def correlations(score: object) -> dict[str, float]:
        differences = [score(r["model2"]["response"], r) - score(r["model1"]["response"], r) for r in rows]  # type: ignore[operator]
        labels = ("correctness_label", "completeness_label", "overall_label")
        return {label: 100 * pearsonr(differences, [r[label] for r in rows]).statistic for label in labels}

    ours = correlations(lambda text, r: informative_f1(text, r["gt_answer"], r["query"]))
    plain = correlations(lambda text, r: token_f1(text, r["gt_answer"]))
    assert ours["overall_label"] > 52.9
    assert ours["correctness_label"] > 43.0
    assert ours["completeness_label"] > 55.7
    assert all(ours[label] > plain[label] for label in ours)
