"""Where sentences end in English, Dutch and German, on hand-worked texts."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.sentences import sentence_starts


def cut(text: str) -> list[str]:
    return [text[a:b].strip() for a, b in pairwise([0, *sentence_starts(text), len(text)])]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith paid $3.50 to J. R. Tolkien, e.g. in cash.", "He left."],
        ['"Really?" he asked.', "No. 5 is alive.", "No.", "That is wrong."],
        ["U.S. law applies, see Fig. 3 and Sect. 112.", "(It is strict.)", "It binds Acme Corp. only."],
        ["Zie art. 5 en blz. 12 van o.a. de wet.", "'s Avonds is het koud.", "Dhr. Jansen (bijv. Piet) komt."],
        ["Hij komt om 12.30 uur, d.w.z. laat.", "\u2019s Nachts niet.", "Wie komt er?", "Niemand!"],
        ["Die Prüfung am 3. Oktober, z. B. in Köln, ist Pflicht.", "Nach Abs. 2 gilt das nicht."],
        ["Herr Dr. Müller kam im 19. Jahrhundert.", "\u201eGut.\u201c", "Er zahlte 1.000 Euro bzw. 3,5 % usw.", "Dann ging er."],
        ["Wait\u2026", "What?!", "Yes... no.", "In 1998.", "Fine."],
        ["\u4e00\u4e8c\u4e09\u3002", "\u56db\u4e94\u516d\uff01", "\u4e03"],
    ],
)
def test_sentences_end_at_marks_and_not_at_abbreviations(sentences: list[str]) -> None:
    assert cut(" ".join(sentences)) == sentences


def test_a_wrapped_line_is_one_sentence_and_a_blank_line_or_an_item_ends_it() -> None:
    assert cut("A sentence over\ntwo lines\n- one item\n- another\n\nno mark\n\nend") == [
        "A sentence over\ntwo lines",
        "- one item",
        "- another",
        "no mark",
        "end",
    ]


@given(text=st.text("aA1.!?\u2026 \n-'\")\u3002", max_size=60), bounds=st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_starts_stand_inside_the_given_part_in_order_and_after_white_space_or_a_cjk_mark(text: str, bounds: tuple[int, int]) -> None:
    start, end = sorted(min(b, len(text)) for b in bounds)
    found = sentence_starts(text, start, end)
    assert found == sorted(set(found))
    assert all(start < at < end and (text[at - 1].isspace() or text[at - 1] in "\u3002\"'") for at in found)


@pytest.mark.parametrize("unit", [". ", "a.", "!?", "\n", "\n ", "('", ".'", "e.g. "])
def test_a_hostile_text_takes_seconds(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    begin = time.perf_counter()
    sentence_starts(text)
    assert time.perf_counter() - begin < 5
