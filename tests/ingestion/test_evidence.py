from __future__ import annotations

import itertools
import json
import random
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ingestion import quotations
from ingestion.evidence import covered, merge_spans, trace
from ingestion.folding import normalise
from ingestion.quotations import closest, locate

PAGE = (
    "Returns policy\n\n"
    "The customer may return the product within 30 days of delivery,\nprovided that the infor-\nmation on the label is "
    "\u201clegible\u201d and the \ufb01le is complete. Opened software cannot be returned.\n\n"
    "Caf\u00e9 equipment is covered for 2\u00bd years\u00a0\u2013 the AX200 pump for 24 months."
)

# Letters, digits, layout, typography, combining marks, invisible characters: everything folding looks at.
CHARACTERS = st.sampled_from(
    "abcdeE 019.,-\n\t\u00a0\u00ad\u200b\u2013\u2019\u201c\ufb01\u00e9e\u0301\u00b2\u00bd\u4e2d\u0130\u00df'\"=\u0338"
)
TEXTS = st.text(CHARACTERS, min_size=1, max_size=60)


def found(quotation: str, text: str = PAGE) -> str | None:
    located = locate(quotation, text)
    return None if located is None else text[located.start : located.end]


class TestExact:
    def test_a_quotation_cut_out_of_a_text_is_found_word_for_word(self) -> None:
        located = locate("within 30 days of delivery", PAGE)
        assert located is not None
        assert (located.match, located.similarity) == ("exact", 1.0)
        assert PAGE[located.start : located.end] == "within 30 days of delivery"

    def test_the_first_occurrence_on_word_ends_counts(self) -> None:
        located = locate("cat", "concatenate the cat and the cat")
        assert located is not None
        assert (located.start, located.end) == (16, 19)

    def test_part_of_a_word_is_found_where_no_whole_word_is(self) -> None:
        located = locate("ncat", "concatenate")
        assert located is not None
        assert (located.start, located.end) == (2, 6)

    @pytest.mark.parametrize(
        ("quotation", "text"),
        [
            ("30 days", "within 130 days"),
            ("30", "a fee of 30.50 euro"),
            ("version 1.2", "since version 1.2.3"),
            ("5 euro", "costs 2,5 euro"),
            ("1,00", "1,000 pieces"),
        ],
    )
    def test_a_quotation_is_not_found_where_it_would_cut_a_number(self, quotation: str, text: str) -> None:
        assert locate(quotation, text) is None

    def test_a_number_at_a_sentence_end_is_whole(self) -> None:
        assert found("in 2012", "It landed in 2012. 40 people cheered.") == "in 2012"

    @pytest.mark.parametrize("quotation", ["", "  \n", "\u00ad\u200b"])
    def test_a_quotation_without_a_character_is_nowhere(self, quotation: str) -> None:
        assert locate(quotation, PAGE) is None

    def test_nothing_stands_in_an_empty_text(self) -> None:
        assert locate("anything", "") is None
        assert closest("anything", "") is None


class TestNormalised:
    @pytest.mark.parametrize(
        ("quotation", "expected"),
        [
            ("delivery, provided that the information", "delivery,\nprovided that the infor-\nmation"),
            ('the label is "legible"', "the label is \u201clegible\u201d"),
            ("the file is complete", "the \ufb01le is complete"),
            ("Cafe\u0301 equipment", "Caf\u00e9 equipment"),
            ("years - the AX200 pump", "years\u00a0\u2013 the AX200 pump"),
        ],
    )
    def test_layout_and_typography_do_not_hide_a_passage(self, quotation: str, expected: str) -> None:
        located = locate(quotation, PAGE)
        assert located is not None
        assert (located.match, located.similarity) == ("normalised", 1.0)
        assert PAGE[located.start : located.end] == expected

    def test_a_soft_hyphen_and_a_zero_width_space_are_not_there(self) -> None:
        assert found("instruction manual", "the in\u00adstruc\u00ad\ntion\u200b manual") == "in\u00adstruc\u00ad\ntion\u200b manual"

    def test_a_compound_broken_at_its_own_hyphen_is_found(self) -> None:
        assert found("a well-known fault", "It is a well-\nknown fault.") == "a well-\nknown fault"

    def test_a_range_broken_at_its_hyphen_keeps_it(self) -> None:
        assert found("2020-2021", "in 2020-\n2021 only") == "2020-\n2021"
        assert normalise("20-\n21") != normalise("2021")

    def test_a_superscript_does_not_join_the_number_before_it(self) -> None:
        assert normalise("10\u00b2") != normalise("102")
        assert normalise("m\u00b2") == normalise("m2")
        assert normalise("\u00bd cup") == normalise("1/2 cup")
        assert normalise("1\u00bd cup") != normalise("11/2 cup")

    def test_a_letter_is_not_found_inside_an_accented_one(self) -> None:
        assert locate("cafe", "cafe\u0301") is None

    def test_case_is_kept(self) -> None:
        assert normalise("Polish") != normalise("polish")


class TestAligned:
    @pytest.mark.parametrize(
        ("quotation", "expected"),
        [
            ("The custorner may retum the product within 30 days", "The customer may return the product within 30 days"),
            ("OPENED SOFTWARE CANNOT BE RETURNED", "Opened software cannot be returned"),
            ("the AX200pump for 24 rnonths", "the AX200 pump for 24 months"),
        ],
    )
    def test_reading_errors_are_bridged_with_the_ends_on_words(self, quotation: str, expected: str) -> None:
        located = locate(quotation, PAGE)
        assert located is not None
        assert located.match == "aligned"
        assert 0.85 <= located.similarity < 1.0 or quotation.isupper()
        assert PAGE[located.start : located.end] == expected

    def test_similarity_is_one_minus_the_edits_over_both_lengths(self) -> None:
        # "custorner" for "customer": m is rn, that is one deletion and two insertions, over 18 and 17 characters.
        located = locate("the custorner pays", "Here the customer pays.")
        assert located is not None
        assert located.similarity == pytest.approx(1 - 3 / 35)

    @pytest.mark.parametrize(
        ("quotation", "text"),
        [
            ("The customer may return the product within 14 days", "The customer may return the product within 30 days"),
            ("The fee is due on 1.5 percent of the amount", "The fee is due on 15 percent of the amount"),
            ("The pipe must endure 10\u00b2 pascal at all times", "The pipe must endure 10\u00b3 pascal at all times"),
            ("Store the samples at -5 degrees in the cellar", "Store the samples at 5 degrees in the cellar"),
            ("Opened software cannot be returned to the shop", "Opened software can be returned to the shop"),
            ("Paris was founded in that year of the crusade", "Paris was not founded in that year of the crusade"),
            ("Op dit onderdeel geven wij geen garantie aan kopers", "Op dit onderdeel geven wij een garantie aan kopers"),
            ("Auf dieses Bauteil besteht keine Garantie ab Kauf", "Auf dieses Bauteil besteht eine Garantie ab Kauf"),
            ("Only employees of the plant may open the cabinet", "Employees of the plant may open the cabinet"),
            ("The Berlin office closes at noon on every Friday", "The Munich office closes at noon on every Friday"),
            ("The AX200 pump must be serviced by an engineer", "The AY200 pump must be serviced by an engineer"),
            ("Customers on plan B pay their invoices monthly", "Customers on plan C pay their invoices monthly"),
        ],
    )
    def test_what_is_not_there_is_not_located_however_similar(self, quotation: str, text: str) -> None:
        near = closest(quotation, text)
        assert near is not None
        assert near.similarity > 0.85
        assert locate(quotation, text) is None

    def test_the_right_one_of_two_similar_sentences_is_taken(self) -> None:
        text = "A return is accepted within 30 days of delivery. A repair is accepted within 14 days of delivery, by post."
        assert found("A retum is acccpted within 14 days of delivery", text) is None
        assert found("A repalr is acccpted within 14 days of delivery", text) == "A repair is accepted within 14 days of delivery"

    def test_a_word_too_short_to_be_sure_of_is_not_aligned(self) -> None:
        assert locate("valve", "the value") is None

    def test_a_language_without_spaces_is_aligned_by_character(self) -> None:
        text = "保修期间为二十四个月从购买之日起计算并且不可转让"
        located = locate(text[2:14] + "天" + text[15:18], text)
        assert located is not None
        assert (located.match, located.start, located.end) == ("aligned", 2, 18)

    @pytest.mark.parametrize("length", [60, 300, 1_200])
    def test_a_garbled_passage_is_found_at_its_place_in_a_long_text(self, length: int) -> None:
        words = [
            f"{a}{b}{c}" for a in ("ba", "do", "ke", "mi", "ru") for b in ("lan", "tor", "vek", "sim") for c in ("a", "en", "is", "um")
        ]
        random.seed(5)
        text = " ".join(random.choice(words) for _ in range(40_000))
        start = text.index(" ", len(text) // 2) + 1
        end = text.index(" ", start + length)
        garbled = "".join("x" if i % 17 == 9 and c != " " else c for i, c in enumerate(text[start:end]))
        located = locate(garbled, text)
        assert located is not None
        assert (located.match, located.start, located.end) == ("aligned", start, end)


class TestProperties:
    @given(TEXTS, TEXTS)
    @settings(max_examples=400)
    def test_an_exact_or_normalised_span_folds_to_the_quotation(self, quotation: str, text: str) -> None:
        located = locate(quotation, text)
        if located is not None and located.match != "aligned":
            assert 0 <= located.start < located.end <= len(text)
            assert normalise(text[located.start : located.end]) == normalise(quotation)

    @given(TEXTS, TEXTS, TEXTS)
    @settings(max_examples=200)
    def test_a_quotation_cut_out_of_a_text_is_found_where_the_text_equals_it(self, before: str, quotation: str, after: str) -> None:
        text = before + quotation + after
        stripped = quotation.strip()
        at = len(before) + quotation.find(stripped)
        # A cut inside a number or before an accent is no quotation of what stands there.
        assume(stripped and not quotations._divides(text, at) and not quotations._divides(text, at + len(stripped)))
        located = locate(quotation, text)
        assert located is not None
        assert located.match == "exact"
        assert text[located.start : located.end] == stripped
        assert located.start <= at or not quotations._on_word_ends(text, at, at + len(stripped))

    @given(
        st.lists(st.sampled_from(["pump", "valve", "30", "days", "caf\u00e9", "\ufb01lter", "well-known"]), min_size=2, max_size=12),
        st.data(),
    )
    def test_a_quotation_laid_out_differently_is_found_with_exact_ends(self, words: list[str], data: st.DataObject) -> None:
        spaces = st.sampled_from([" ", "\n", "  ", "\u00a0", " \u200b", "\t\n "])
        text = "intro " + "".join(word + data.draw(spaces) for word in words) + "outro"
        form = data.draw(st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
        quotation = unicodedata.normalize(form, " ".join(words)).replace("-", "\u2010")
        located = locate(quotation, text)
        assert located is not None
        assert located.match in ("exact", "normalised")
        assert text[located.start : located.end].startswith(words[0])
        assert text[located.start : located.end].endswith(words[-1])
        assert normalise(text[located.start : located.end]) == normalise(quotation)

    @example("E\u0301-b")
    @example("=\u0338-b")
    @example("=\u0338-\nb")
    @given(TEXTS)
    def test_folding_keeps_what_is_canonically_equal_equal(self, text: str) -> None:
        assume("\u00ad" not in text and "\u200b" not in text)  # an invisible character between letter and accent parts them
        assert normalise(text) == normalise(unicodedata.normalize("NFC", text))

    @given(st.integers(0, 9_999), st.integers(0, 9_999))
    def test_a_sentence_is_located_only_where_its_number_agrees(self, written: int, wanted: int) -> None:
        text = f"A claim is handled by the service desk within {written} working hours after receipt."
        located = locate(f"A claim is handIed by the service desk within {wanted} working hours", text)
        assert (located is not None) == (written == wanted)


class TestSpans:
    def test_overlap_is_counted_once(self) -> None:
        assert merge_spans([(5, 9), (0, 3), (2, 6), (12, 12), (9, 10)]) == [(0, 10)]
        assert covered((0, 10), [(0, 6), (4, 8), (4, 8)]) == 8
        assert covered((2, 4), [(0, 3), (3, 9)]) == 2
        assert covered((0, 5), []) == 0

    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))), st.tuples(st.integers(0, 40), st.integers(0, 40)))
    def test_spans_cover_what_their_characters_cover(self, spans: list[tuple[int, int]], span: tuple[int, int]) -> None:
        characters = {c for start, end in spans for c in range(start, end)}
        merged = merge_spans(spans)
        assert {c for start, end in merged for c in range(start, end)} == characters
        assert all(a[1] < b[0] for a, b in itertools.pairwise(merged))
        assert covered(span, spans) == len(characters & set(range(*span)))


def document(doc_id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"doc_id": doc_id, "text": text, "status": "ok" if text else "failed", "tenant": None, **more}


def asked(
    question_id: str, *evidence_items: dict[str, Any], relevant: list[dict[str, Any]] | None = None, tenant: str = ""
) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "evidence": list(evidence_items),
        "relevant": relevant or [],
        "entitlement": json.dumps({"tenant": [tenant]} if tenant else {}),
    }


def item(doc_id: str, quotation: str | None, group: str = "g", grade: int = 1) -> dict[str, Any]:
    return {"group": group, "document": doc_id, "quotation": quotation, "grade": grade}


def verdict(doc_id: str, survivor: str) -> dict[str, Any]:
    return {"row": "document", "doc_id": doc_id, "other_doc_id": survivor, "kept": doc_id == survivor}


def may_read(entitlement: dict[str, Any], source: dict[str, Any]) -> bool:
    return source["tenant"] is None or source["tenant"] in entitlement.get("tenant", [])


class TestTrace:
    SENTENCE = "The heating element is covered for five years."

    def follow(self, question: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
        parts: dict[str, Any] = {
            "sources": {"a": {"tenant": None}, "b": {"tenant": None}},
            "parsed_text": {"a": f"Head\n\n{self.SENTENCE}", "b": self.SENTENCE},
            "documents": {"a": document("a", f"Head\n\n{self.SENTENCE}"), "b": document("b", self.SENTENCE)},
            "verdicts": {"a": verdict("a", "a"), "b": verdict("b", "b")},
        } | changes
        return trace([question], entitled=may_read, **parts)

    def test_evidence_that_stands_has_its_span_and_is_lost_nowhere(self) -> None:
        [row] = self.follow(asked("q", item("a", "covered for five years")))
        assert (row["start"], row["end"], row["match"], row["similarity"]) == (29, 51, "exact", 1.0)
        assert (row["kept_doc_id"], row["lost_at"], row["found_text"], row["status"], row["reason"]) == ("a", None, None, "ok", None)
        assert row["entitled"]
        assert row["eligible"]

    def test_a_missing_source_is_lost_at_acquisition_and_stays_eligible(self) -> None:
        [row] = self.follow(asked("q", item("gone", "covered for five years")))
        assert (row["lost_at"], row["status"], row["reason"], row["kept_doc_id"]) == ("acquired", "missing", "document_failed", None)
        assert row["eligible"]

    def test_a_passage_the_parser_did_not_read_is_lost_at_parsing_and_stays_eligible(self) -> None:
        garbled = "The heating element is covered for fine years."
        [row] = self.follow(
            asked("q", item("a", self.SENTENCE.replace("five", "seven"))),
            parsed_text={"a": garbled}, documents={"a": document("a", garbled)},
        )  # fmt: skip
        assert (row["lost_at"], row["match"], row["reason"], row["start"]) == ("parsed", "none", "not_locatable", None)
        assert row["found_text"] == garbled
        assert row["entitled"]
        assert row["eligible"]

    def test_a_document_that_failed_loses_its_passages_at_parsing(self) -> None:
        [row] = self.follow(asked("q", item("a", self.SENTENCE)), parsed_text={"a": ""}, documents={"a": document("a", "")})
        assert (row["lost_at"], row["status"], row["reason"], row["found_text"]) == ("parsed", "failed", "document_failed", None)
        assert row["eligible"]

    def test_a_passage_cleaning_cut_is_lost_at_cleaning(self) -> None:
        [row] = self.follow(
            asked("q", item("a", self.SENTENCE)), documents={"a": document("a", "Head\n\nThe lid is covered for two years.")}
        )
        assert (row["lost_at"], row["reason"]) == ("cleaned", "not_locatable")
        assert row["found_text"] is not None
        assert "covered for two years" in row["found_text"]

    def test_evidence_of_a_merged_copy_moves_to_the_survivor(self) -> None:
        [row] = self.follow(asked("q", item("b", self.SENTENCE)), verdicts={"b": verdict("b", "a")})
        assert (row["doc_id"], row["kept_doc_id"], row["start"], row["lost_at"]) == ("b", "a", 6, None)

    def test_evidence_that_the_survivor_does_not_hold_is_a_false_merge(self) -> None:
        other = self.SENTENCE.replace("five", "two")
        [row] = self.follow(
            asked("q", item("b", self.SENTENCE)), documents={"a": document("a", other), "b": document("b", self.SENTENCE)},
            verdicts={"b": verdict("b", "a")},
        )  # fmt: skip
        assert (row["lost_at"], row["kept_doc_id"], row["found_text"]) == ("kept", None, other)
        assert row["eligible"]

    def test_gold_outside_the_callers_entitlement_is_not_eligible(self) -> None:
        sources = {"a": {"tenant": "acme"}, "b": {"tenant": None}}
        for tenant, allowed in (("acme", True), ("other", False)):
            rows = self.follow(asked("q", item("a", self.SENTENCE), item("b", self.SENTENCE), tenant=tenant), sources=sources)
            assert [row["entitled"] for row in rows] == [row["eligible"] for row in rows] == [allowed, True]

    def test_every_item_and_every_relevant_document_has_a_row(self) -> None:
        question = asked(
            "q", item("a", "Head", "one"), item("b", "nowhere at all in it", "one", 2), item("b", None, "two"),
            relevant=[{"document": "b", "chunk": None, "grade": 3}, {"document": "a", "chunk": None, "grade": None}],
        )  # fmt: skip
        rows = self.follow(question)
        assert [(r["label"], r["group"], r["item"], r["doc_id"], r["grade"], r["match"]) for r in rows] == [
            ("evidence", "one", 0, "a", 1, "exact"),
            ("evidence", "one", 1, "b", 2, "none"),
            ("evidence", "two", 0, "b", 1, "document"),
            ("relevant", "a", 0, "a", 1, "document"),
            ("relevant", "b", 0, "b", 3, "document"),
        ]

    def test_rows_hold_exactly_the_columns_of_the_contract(self) -> None:
        from rag_eval_assets.tables import REASONS, STAGES, TABLES

        questions = [asked("q1", item("a", "Head"), item("gone", "x y z")), asked("q0", item("b", "five years of nothing"))]
        rows = trace(
            questions, {"a": {"tenant": None}, "b": {"tenant": None}}, {"a": "Head", "b": "Text"},
            {"a": document("a", "Head"), "b": document("b", "Text")}, {}, may_read,
        )  # fmt: skip
        assert [row["question_id"] for row in rows] == ["q0", "q1", "q1"]
        for row in rows:
            assert list(row) == TABLES["golden_evidence"].columns
            assert row["lost_at"] is None or row["lost_at"] in STAGES
            assert row["reason"] is None or row["reason"] in REASONS

    def test_found_text_stays_short(self) -> None:
        text = "word " * 400
        [row] = self.follow(asked("q", item("a", "many swords " * 300)), parsed_text={"a": text}, documents={"a": document("a", text)})
        assert row["found_text"] is not None
        assert len(row["found_text"]) <= 300


def test_three_hundred_quotations_of_a_long_text_are_looked_up_in_seconds() -> None:
    random.seed(3)
    words = ["".join(random.choice("bcdlmnrst") + random.choice("aeiou") for _ in range(random.randint(1, 4))) for _ in range(4_000)]
    text = " ".join(random.choice(words) for _ in range(170_000))
    assert len(text) > 900_000
    quotations = []
    for number in range(300):
        start = text.index(" ", random.randrange(len(text) - 400)) + 1
        quotation = text[start : text.index(" ", start + 120)]
        quotations.append([quotation, quotation.replace(" ", "\n"), quotation[:50] + "zq" + quotation[52:]][number % 3])
    started = time.perf_counter()
    located = [locate(quotation, text) for quotation in quotations]
    assert time.perf_counter() - started < 15
    assert all(place is not None for place in located[::3])
    assert all(place is not None for place in located[1::3])


@pytest.mark.reference
def test_every_reference_span_of_the_chunking_corpora_is_located_exactly(shared: Path) -> None:
    import csv

    folder = shared / "chunking_evaluation"
    [questions] = folder.rglob("questions_df.csv")
    corpora = {path.stem: path.read_text(encoding="utf-8") for path in folder.rglob("*.md")}
    count = 0
    with questions.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            text = corpora[row["corpus_id"]]
            for reference in json.loads(row["references"]):
                located = locate(reference["content"], text)
                count += 1
                assert located is not None
                assert located.match == "exact"
                assert text[located.start : located.end] == reference["content"].strip()
                assert located.start <= reference["start_index"] + len(reference["content"]) - len(reference["content"].lstrip())
    assert count == 790
