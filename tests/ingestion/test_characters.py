"""Characters that deceive, against Unicode's own data and hand-picked words."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from ingestion import characters, folding


def places(text: str, kind: str) -> list[tuple[int, str]]:
    return [(found.position, found.text) for found in characters.find(text) if found.kind == kind]


def test_the_invisible_characters_of_the_project_are_unicodes_default_ignorable_ones() -> None:
    everything = "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    assert re.findall(f"[{folding.INVISIBLE}]", everything) == regex.findall(r"\p{Default_Ignorable_Code_Point}", everything)
    assert len(places(everything, "default_ignorable")) == len(regex.findall(r"\p{DI}", everything))


@pytest.mark.parametrize(
    "word",
    ["p\u0430ypal", "\u039futlook", "\u0420aypal", "\u0441\u043ede", "\u13a0pple", "\u0585ffice", "\u043c\u03bf\u0441\u043a\u0432\u0430"],
)
def test_a_word_with_letters_of_another_script_is_found(word: str) -> None:
    assert places(f"at {word} now", "mixed_script") == [(3, word)]


@pytest.mark.parametrize(
    "text",
    ["\u041c\u043e\u0441\u043a\u0432\u0430 IT-\u043e\u0442\u0434\u0435\u043b", "\u0394T of 5 k\u03a9, \u00b5m and \u03bcm", "T\u30b7\u30e3\u30c4\u3092\u7740\u308b", "\u4e2d\u6587abc", "\ud55c\uad6d\uc5b4A", "\u03bd\u03bf\u03bc\u03cc\u03c2", "Gr\u00f6\u00dfe na\u00efve", "x\u0301y"],
)  # fmt: skip
def test_a_script_of_its_own_or_a_usual_mixture_is_not(text: str) -> None:
    assert places(text, "mixed_script") == []


def test_drift_is_found_where_a_normal_form_changes_a_letter() -> None:
    assert places("caf\u0065\u0301", "nfc_drift") == [(3, "e\u0301")]
    assert places("\u1112\u1161\u11ab", "nfc_drift") == [(0, "\u1112\u1161\u11ab")]  # a Korean syllable in its parts
    assert places("\u212b", "nfc_drift") == [(0, "\u212b")]  # the angstrom sign is the letter to NFC already
    assert places("5 m\u00b2, \ufb01n", "nfkc_drift") == [(3, "\u00b2"), (6, "\ufb01")]
    assert places("1\u00a0000 na\u00efve", "nfkc_drift") == []


@given(st.text(max_size=30))
def test_a_text_that_nfc_changes_has_a_place_of_drift_and_no_other_has(text: str) -> None:
    assert bool(places(text, "nfc_drift")) == (unicodedata.normalize("NFC", text) != text)


@given(st.text(max_size=30))
def test_each_place_is_where_it_says(text: str) -> None:
    for found in characters.find(text):
        assert text.startswith(found.text, found.position)
        assert found.code_points.startswith("U+")
