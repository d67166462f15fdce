"""Error rates, their places and order, against published figures, other implementations and hand-worked cases."""

from __future__ import annotations

import math

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from ingestion.transcripts import Alignment, Change, align_characters, align_words, costliest, normalise, reading_order

POLICY = {"case": "keep", "whitespace": "collapse", "punctuation": "keep", "unicode_form": "NFC"}
REFERENCE, HYPOTHESIS = "Mars has two moons, Phobos and Deimos.", "Mars has two m00ns, Phobos and Deirnos."


def test_the_published_pair_has_its_published_rates() -> None:
    characters, words = align_characters(REFERENCE, HYPOTHESIS), align_words(REFERENCE, HYPOTHESIS)
    assert (characters.edits, characters.units, words.edits, words.units) == (4, 38, 2, 7)
    assert round(characters.edits / characters.units, 3) == 0.105
    assert round(words.edits / words.units, 3) == 0.286


def test_what_was_mistaken_for_what_stands_with_its_place() -> None:
    assert align_characters(REFERENCE, HYPOTHESIS).changes == (Change("oo", "00", 14, 16, 2), Change("m", "rn", 34, 36, 2))
    assert align_words("the lid is closed", "the is is shut").changes == (Change("lid", "is", 1, 2, 1), Change("closed", "shut", 3, 4, 1))


@given(st.text("abc ", min_size=1).filter(str.strip), st.text("abc ", min_size=1).filter(str.strip))
def test_rates_are_those_of_jiwer(reference: str, hypothesis: str) -> None:
    reference, hypothesis = (normalise(side, **POLICY) for side in (reference, hypothesis))
    characters, words = align_characters(reference, hypothesis), align_words(reference, hypothesis)
    assert math.isclose(characters.edits / characters.units, jiwer.cer(reference, hypothesis))
    assert math.isclose(words.edits / words.units, jiwer.wer(reference, hypothesis))


@given(st.text("ab é\n "), st.text("ab é\n "))
def test_edits_are_the_least_there_are_and_every_character_is_kept_or_changed(reference: str, hypothesis: str) -> None:
    found = align_characters(reference, hypothesis)
    assert found.edits == Levenshtein.distance(reference, hypothesis) == sum(change.edits for change in found.changes)
    kept = sum(size for _, size in found.kept)
    assert found.units == len(reference) == kept + sum(len(change.expected) for change in found.changes)
    assert len(hypothesis) == kept + sum(len(change.found) for change in found.changes)
    assert all(hypothesis[change.start : change.end] == change.found for change in found.changes)


def test_an_empty_side_is_all_omission_or_all_insertion() -> None:
    assert align_characters("", "") == Alignment(0, 0, (), ())
    assert align_characters("", "abc") == Alignment(3, 0, (Change("", "abc", 0, 3, 3),), ())
    assert align_words("a b", "  ") == Alignment(2, 2, (Change("a b", "", 0, 0, 2),), ())


def test_the_costliest_mistake_comes_first_however_it_is_spread() -> None:
    told = [("l", "1", 3, 3), ("m", "rn", 2, 4), ("l", "1", 2, 2), ("", "x" * 200, 1, 4), ("e", "c", 5, 5)]
    listed = costliest(told, most=3, longest=10)
    assert listed == [
        {"expected": "e", "found": "c", "count": 5, "edits": 5},
        {"expected": "l", "found": "1", "count": 5, "edits": 5},
        {"expected": "m", "found": "rn", "count": 2, "edits": 4},
    ]


@given(st.text())
def test_a_text_has_no_errors_against_itself_under_any_policy(text: str) -> None:
    for case in ("keep", "lower"):
        for form in ("NFC", "NFKC"):
            side = normalise(text, case=case, whitespace="collapse", punctuation="remove", unicode_form=form)
            assert align_characters(side, side).edits == align_words(side, side).edits == 0


def test_each_part_of_a_policy_does_what_it_says_and_no_more() -> None:
    text = "  Größe:\u00a0\uff11\uff10 ﬁt, e\u0301t\u00e9!\n"
    assert normalise(text, **POLICY) == "Größe: \uff11\uff10 ﬁt, été!"
    assert normalise(text, **(POLICY | {"unicode_form": "NFKC"})) == "Größe: 10 fit, été!"
    assert normalise(text, **(POLICY | {"case": "lower"})) == "größe: \uff11\uff10 ﬁt, été!"
    assert normalise(text, **(POLICY | {"punctuation": "remove"})) == "Größe \uff11\uff10 ﬁt été"
    assert normalise("a  b", **(POLICY | {"whitespace": "keep"})) == "a  b"
    with pytest.raises(ValueError, match="case must be keep or lower"):
        normalise(text, **(POLICY | {"case": "upper"}))


ORDERED = "The first rule concerns kettles. The second covers toasters. A third one binds ovens. Finally, mixers follow."


def test_order_is_one_for_the_same_order_minus_one_for_the_reverse_and_none_without_a_pair() -> None:
    sentences = ORDERED.split(". ")
    assert reading_order(ORDERED, ORDERED) == 1.0
    assert reading_order(ORDERED, ". ".join(reversed(sentences))) == -1.0
    assert reading_order(ORDERED, "Nothing of the kind") is None
    assert reading_order("One sentence only.", "One sentence only.") is None


def test_one_exchange_of_neighbours_costs_one_pair_of_six() -> None:
    one, two, three, four = ORDERED.split(". ")
    assert reading_order(ORDERED, ". ".join([one, three, two, four])) == pytest.approx(1 - 2 * 1 / 6)


def test_columns_read_across_show_in_the_order_though_every_word_is_there() -> None:
    left = ["alpha one is here.", "beta two stands below.", "gamma three ends it."]
    right = ["delta four opens.", "epsilon five goes on.", "zeta six closes."]
    across = " ".join(f"{one} {two}" for one, two in zip(left, right, strict=True))
    tau = reading_order(" ".join(left + right), across)
    assert tau == pytest.approx(1 - 2 * 3 / 15)  # three of fifteen pairs change places
