"""Every measure of `cleaning_quality` on texts small enough to count by hand."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from scipy.stats import binomtest

from ingestion.cleaning import CleaningPolicy, clean_document
from ingestion.cleaning_quality import cleaning_quality
from rag_eval_assets.tables import TABLES
from tests.ingestion.test_cleaning import PLAIN, clean, parsed, source


def label(kind: str, doc_id: str, value: str, quotation: str | None = None, **more: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("other_doc_id", "other_quotation", "occurrence", "annotator", "source"))
    return {"kind": kind, "doc_id": doc_id, "quotation": quotation, "value": value, **empty, **more}


def measured(rows: list[dict[str, Any]], measure: str, scope: str = "all") -> dict[str, Any]:
    [row] = [r for r in rows if (r["measure"], r["scope"]) == (measure, scope)]
    return row


class TestQuality:
    def test_without_labels_every_judged_measure_is_not_applicable(self) -> None:
        rows = cleaning_quality([clean("Some text.")], [], {"x": {"a.txt": parsed("Some text.")}})
        judged = [r for r in rows if r["reason"] == "no_labels"]
        assert {r["measure"] for r in judged} == {
            "boilerplate_precision", "boilerplate_recall", "language_accuracy", "pii_precision", "pii_recall", "title_exact",
            "title_similarity", "heading_exact", "heading_similarity", "heading_level", "heading_path_kept", "entity_precision",
            "entity_recall", "entity_f1", "relation_precision", "relation_recall", "relation_f1",
        }  # fmt: skip
        assert [r["scope"] for r in judged if r["measure"] == "boilerplate_recall"] == ["all", "parser=x"]
        assert {(r["status"], r["reason"], r["value"]) for r in judged} == {("not_applicable", "no_labels", None)}

    def test_rows_hold_the_columns_of_the_contract_once_each(self) -> None:
        rows = cleaning_quality([clean("Some text.")], [label("language", "a.txt", "en")])
        assert all(list(row) == TABLES["cleaning_quality"].columns for row in rows)
        keys = [(row["measure"], row["scope"]) for row in rows]
        assert keys == sorted(set(keys))

    def test_boilerplate_precision_names_removed_content_and_recall_what_was_left(self) -> None:
        document = clean(("Footer", "Company register 123"), ("Footer", "The fee is 30 euro"), "Body text.", "Follow us on the web")
        rows = cleaning_quality(
            [document],
            [
                label("boilerplate", "a.txt", "yes", "Company register 123"),
                label("boilerplate", "a.txt", "boilerplate", "Follow us on the web"),
                label("boilerplate", "a.txt", "content", "The fee is 30 euro"),
                label("boilerplate", "a.txt", "no", "Body text."),
                label("boilerplate", "gone.txt", "yes", "Body text."),
            ],
        )
        precision, recall = measured(rows, "boilerplate_precision"), measured(rows, "boilerplate_recall")
        assert (precision["numerator"], precision["denominator"], precision["value"]) == (1, 2, 0.5)
        assert "a.txt: The fee is 30 euro" in precision["detail"]
        assert (recall["numerator"], recall["denominator"]) == (1, 2)
        assert "a.txt: Follow us on the web" in recall["detail"]
        assert "1 labels on documents without canonical text" in recall["detail"]
        assert measured(rows, "boilerplate_recall", "class=text")["value"] == 0.5

    def test_language_figures_stand_beside_the_corpus_mix(self) -> None:
        texts = {
            "en1": "The heating element is covered for five years after purchase.",
            "en2": "Parcels leave the warehouse before noon on every working day.",
            "nl1": "Het verwarmingselement valt vijf jaar onder de garantie.",
            "und": "42",
        }
        documents = [clean(text, doc_id=name) for name, text in texts.items()]
        rows = cleaning_quality(
            documents,
            [
                label("language", "en1", "en"),
                label("language", "en2", "nl"),
                label("language", "nl1", "nl"),
                label("language", "und", "en"),
            ],
        )
        # Labelled en, nl, nl, en; read en, en, nl, und.
        overall = measured(rows, "language_accuracy")
        assert (overall["numerator"], overall["denominator"]) == (2, 4)
        exact = binomtest(2, 4).proportion_ci(0.95, "exact")
        assert (overall["lower"], overall["upper"]) == pytest.approx((exact.low, exact.high))
        assert measured(rows, "language_accuracy", "language=en")["value"] == 0.5
        assert measured(rows, "language_precision", "language=en")["value"] == 0.5
        assert measured(rows, "language_f1", "language=en")["value"] == 0.5
        assert measured(rows, "language_share", "language=nl")["value"] == 0.5
        assert measured(rows, "language_precision", "language=und")["value"] == 0.0
        assert measured(rows, "language_accuracy", "language=und")["status"] == "not_applicable"

    @pytest.mark.parametrize("policy", ["flag", "mask"])
    def test_personal_data_recall_is_measured_by_type(self, policy: Any) -> None:
        documents = [
            clean("Jan mails from jan@example.nl or 06-12345678, office 020 1234567.", doc_id="full", policy=CleaningPolicy(pii=policy)),
            clean("Write to piet@example.nl.", doc_id="unlabelled", policy=CleaningPolicy(pii=policy)),
            clean("Card 4111 1111 1111 1111 is a test card.", doc_id="none", policy=CleaningPolicy(pii=policy)),
        ]
        labels = [
            label("pii", "full", "email", "jan@example.nl"),
            label("pii", "full", "phone", "06 1234 5678"),
            label("pii", "full", "name", "Jan"),
            label("pii", "none", "none"),
        ]
        rows = cleaning_quality(documents, labels)
        assert measured(rows, "pii_recall", "type=email")["value"] == 1.0
        assert measured(rows, "pii_recall", "type=name")["value"] == 0.0
        assert not [r for r in rows if r["measure"] == "pii_recall" and r["scope"] == "all"]
        if policy == "flag":
            assert measured(rows, "pii_recall", "type=phone")["value"] == 1.0
            phone, card = measured(rows, "pii_precision", "type=phone"), measured(rows, "pii_precision", "type=credit_card")
            assert (phone["numerator"], phone["denominator"]) == (1, 2)
            assert "0201234567" in phone["detail"]
            assert (card["numerator"], card["denominator"]) == (0, 1)
            assert measured(rows, "pii_precision", "type=email")["denominator"] == 1
        else:
            assert measured(rows, "pii_precision", "type=email")["status"] == "not_applicable"

    def test_no_interval_has_zero_width(self) -> None:
        rows = cleaning_quality([clean("Some text.")], [label("language", "a.txt", "und")])
        scored = [r for r in rows if r["status"] == "scored" and r["lower"] is not None]
        assert scored
        assert all(r["lower"] < r["upper"] for r in scored)

    def test_shares_are_over_documents_and_characters(self) -> None:
        documents = [
            clean("in\u200bvisible", doc_id="a"),
            clean(("Footer", "12345"), "1234567890 12345", ("Footer", "123"), doc_id="b"),
            clean("", doc_id="c"),
        ]
        rows = cleaning_quality(documents, [])
        flagged = measured(rows, "flagged_invisible_characters")
        assert (flagged["numerator"], flagged["denominator"], flagged["detail"]) == (1, 2, "flagged: a")
        share = measured(rows, "removed_share")
        assert (share["numerator"], share["denominator"], share["lower"]) == (8, 8 + 16 + 9, None)
        assert share["detail"] == "category: 8"


class TestBoilerplateByParser:
    """Labelled quotations as each parser partition leaves them: content, furniture, or missing."""

    LABELS = (
        label("boilerplate", "a.html", "yes", "Subscribe to our newsletter"),
        label("boilerplate", "a.html", "yes", "Read more about pumps"),
        label("boilerplate", "a.html", "no", "Feet | four"),
        label("boilerplate", "a.html", "no", "Rinse the pump after use."),
        label("boilerplate", "b.html", "yes", "Home page of nobody"),
    )
    TABLE: ClassVar = {"category": "Table", "text": "Feet four", "html": "<table><tr><td>Feet</td><td>four</td></tr></table>"}

    def rows(self) -> list[dict[str, Any]]:
        good = parsed("Rinse the pump after use.", self.TABLE, ("Boilerplate", "Subscribe to our newsletter"), "Read more about pumps")
        bad = parsed(
            ("Boilerplate", "Rinse the pump after use."),
            ("Boilerplate", "Read more about pumps"),
            ("Footer", "Subscribe to our newsletter"),
        )
        partitions = {"good": {"a.html": good}, "bad": {"a.html": bad}, "other": {"a.html": parsed("", status="not_applicable")}}
        return cleaning_quality([], list(self.LABELS), partitions)

    def test_precision_lists_removed_evidence_and_recall_what_is_left(self) -> None:
        rows = self.rows()
        precision, recall = measured(rows, "boilerplate_precision", "parser=good"), measured(rows, "boilerplate_recall", "parser=good")
        assert (precision["numerator"], precision["denominator"], precision["detail"]) == (1, 1, None)
        assert (recall["numerator"], recall["denominator"]) == (1, 2)
        assert recall["detail"] == "boilerplate left: a.html: Read more about pumps"

    def test_content_that_is_nowhere_is_content_lost(self) -> None:
        precision = measured(self.rows(), "boilerplate_precision", "parser=bad")
        assert (precision["numerator"], precision["denominator"]) == (2, 4)
        assert precision["detail"] == "content removed: a.html: (missing altogether) Feet | four; a.html: Rinse the pump after use."

    def test_a_parser_that_read_no_labelled_document_has_no_figure(self) -> None:
        row = measured(self.rows(), "boilerplate_recall", "parser=other")
        assert (row["status"], row["reason"]) == ("not_applicable", "no_labels")


class TestCharacters:
    def test_each_place_is_named_with_document_element_position_and_code_point(self) -> None:
        texts = ["Plain text of some words.", "in\u200bvisible p\u0430y \ufb01ne e\u0301"]
        documents = [clean(*texts, doc_id="a"), clean("Plain text.", doc_id="b")]
        rows = cleaning_quality(documents, [], {"unstructured": {"a": parsed(*texts), "b": parsed("Plain text.")}})
        characters = sum(map(len, texts))
        for kind, place in {
            "default_ignorable": "element 1 at 2: U+200B ZERO WIDTH SPACE",
            "mixed_script": "element 1 at 11: 'p\u0430y' U+0430 CYRILLIC SMALL LETTER A",
            "nfkc_drift": "element 1 at 15: U+FB01 LATIN SMALL LIGATURE FI",
            "nfc_drift": "element 1 at 19: U+0065 LATIN SMALL LETTER E, U+0301 COMBINING ACUTE ACCENT",
        }.items():
            overall = measured(rows, kind)
            assert (overall["numerator"], overall["denominator"], overall["detail"]) == (1, characters + 11, f"a {place}")
            own = measured(rows, kind, "document=a")
            assert (own["numerator"], own["denominator"], own["detail"]) == (1, characters, place)
            assert not [r for r in rows if (r["measure"], r["scope"]) == (kind, "document=b")]

    def test_many_places_are_counted_whole_and_listed_in_part(self) -> None:
        text = "a\u00adb" * 30
        row = measured(cleaning_quality([clean(text)], [], {"unstructured": {"a.txt": parsed(text)}}), "default_ignorable")
        assert row["numerator"] == 30
        assert row["detail"].count("U+00AD") == 20
        assert row["detail"].endswith("; and 10 more")

    def test_without_a_parsed_text_there_is_nothing_to_measure(self) -> None:
        row = measured(cleaning_quality([], [], {}), "nfc_drift")
        assert (row["status"], row["reason"]) == ("not_applicable", "nothing_to_measure")


def test_short_texts_are_sentences_of_labelled_documents_with_figures_of_their_own() -> None:
    long = "Het verwarmingselement valt vijf jaar onder de garantie, en de klant krijgt binnen twee weken een nieuw onderdeel toegestuurd."
    documents = [
        clean(
            ("Title", "The heating element of it"),
            long,
            "De pomp wordt jaarlijks nagekeken.",
            "The lid is covered for two years.",
            "Kort.",
            doc_id="nl",
        ),
        clean("Parcels leave the warehouse before noon.", doc_id="en"),
    ]
    rows = cleaning_quality(documents, [label("language", "nl", "nl"), label("language", "en", "en")])
    overall = measured(rows, "language_accuracy", "short")
    assert (overall["numerator"], overall["denominator"]) == (2, 3)
    assert overall["detail"] == "wrong: nl: nl read as en: The lid is covered for two years."
    # Labelled nl 2, read as nl 1, right 1; labelled en 1, read as en 2, right 1.
    assert measured(rows, "language_f1", "short language=nl")["value"] == pytest.approx(2 / 3)
    assert measured(rows, "language_f1", "short language=en")["value"] == pytest.approx(2 / 3)
    assert measured(rows, "language_share", "short language=nl")["value"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("policy", "effect"), [("flag", "flagged"), ("mask", "masked"), ("drop_document", "dropped")])
def test_what_the_policy_did_to_documents_with_personal_data_is_recorded(policy: Any, effect: str) -> None:
    chosen = CleaningPolicy(pii=policy)
    documents = [clean("Write to jan@example.nl.", doc_id="a", policy=chosen), clean("Nothing personal here.", doc_id="b", policy=chosen)]
    rows = cleaning_quality(documents, [])
    for name in ("flagged", "masked", "dropped"):
        row = measured(rows, "pii_documents", f"policy={name}")
        assert (row["numerator"], row["denominator"]) == (int(name == effect), 2)
        assert row["detail"] == (f"{effect}: a: email 1" if name == effect else None)


class TestStructure:
    def document(self) -> dict[str, Any]:
        entries = [
            {"category": "Title", "text": "Pump  care", "heading_path": []},
            {"category": "Title", "text": "After winter", "heading_path": ["Pump care"]},
            {"category": "NarrativeText", "text": "Rinse it with clean water.", "heading_path": ["Pump care", "After winter"]},
        ]
        return clean_document(source(), parsed(*entries), "x", PLAIN)

    def test_titles_are_compared_exactly_and_by_likeness(self) -> None:
        rows = cleaning_quality(
            [self.document()], [label("title", "a.txt", "Pump cart"), label("title", "a.txt", "Pump care", annotator="b")]
        )
        exact, likeness = measured(rows, "title_exact"), measured(rows, "title_similarity")
        assert (exact["numerator"], exact["denominator"], exact["detail"]) == (1, 2, "wrong: a.txt: Pump care for Pump cart")
        assert likeness["value"] == pytest.approx((1 + 8 / 9) / 2)  # one of nine letters differs

    def test_a_heading_is_looked_for_among_titles_and_its_level_is_checked(self) -> None:
        labels = [
            label("heading", "a.txt", "1", "Pump care"),
            label("heading", "a.txt", "1", "After winter"),
            label("heading", "a.txt", "2", "Rinse it with clean water."),
        ]
        rows = cleaning_quality([self.document()], labels)
        exact, level = measured(rows, "heading_exact"), measured(rows, "heading_level", "class=text")
        assert (exact["numerator"], exact["denominator"], exact["detail"]) == (2, 3, "missed: a.txt: Rinse it with clean water.")
        assert "After winter (level 2 for 1)" in level["detail"]
        # The third label stands nowhere: no Title is half like it, so none is paired with it.
        assert "Rinse it with clean water. (level none for 2)" in level["detail"]
        assert measured(rows, "heading_similarity")["value"] == pytest.approx(2 / 3)

    def test_a_path_is_kept_where_exactly_the_labelled_headings_stand_above(self) -> None:
        passages = {"Rinse it with": "Pump care > After winter", "clean water.": "Pump care", "Nowhere to be found at all": "Pump care"}
        rows = cleaning_quality([self.document()], [label("heading_path", "a.txt", value, text) for text, value in passages.items()])
        kept = measured(rows, "heading_path_kept")
        assert (kept["numerator"], kept["denominator"]) == (1, 3)
        assert kept["detail"] == (
            "lost: a.txt: Nowhere to be found at all is not in the text; a.txt: clean water. under Pump care > After winter"
        )


class TestExtraction:
    DOCUMENT = clean("Jan Vos works for Brinkhal. Brinkhal is in Lochem, and Jan Vos lives in Raalte.")

    def test_entities_count_on_exact_spans_by_source_and_type(self) -> None:
        gold = [
            label("entity", "a.txt", "person", "Jan Vos"),
            label("entity", "a.txt", "person", "Jan Vos", occurrence=2),
            label("entity", "a.txt", "place", "Lochem"),
            label("entity", "a.txt", "place", "Raalte"),
        ]
        predicted = [
            label("entity", "a.txt", "person", "Jan Vos", source="tool"),
            label("entity", "a.txt", "person", "Vos", occurrence=2, source="tool"),
            label("entity", "a.txt", "place", "Lochem", source="tool"),
            label("entity", "a.txt", "place", "Brinkhal", source="tool"),
            label("entity", "a.txt", "place", "Raalte", source="tool"),
            label("entity", "b.txt", "place", "Raalte", source="tool"),
        ]
        rows = cleaning_quality([self.DOCUMENT, clean("Raalte", doc_id="b.txt")], gold + predicted)
        person = {m: measured(rows, f"entity_{m}", "source=tool type=person") for m in ("precision", "recall", "f1")}
        assert [(person[m]["numerator"], person[m]["denominator"]) for m in ("precision", "recall")] == [(1, 2), (1, 2)]
        place = {m: measured(rows, f"entity_{m}", "source=tool type=place") for m in ("precision", "recall", "f1")}
        assert (place["precision"]["value"], place["recall"]["value"]) == (pytest.approx(2 / 3), 1.0)
        assert place["f1"]["value"] == pytest.approx(2 * 2 / (2 + 3))
        assert place["precision"]["detail"] == ("not labelled: a.txt: Brinkhal. 1 predictions on documents without labels are not counted")
        assert not [r for r in rows if r["measure"].startswith("entity") and r["scope"] == "all"]

    def test_a_relation_needs_both_ends_and_its_type(self) -> None:
        ends = ("Jan Vos", "Brinkhal")
        gold = [label("relation", "a.txt", "works_for", ends[0], other_quotation=ends[1])]
        claims = [("works_for", *ends), ("works_for", "Jan Vos", "Lochem"), ("owns", *ends)]
        predicted = [label("relation", "a.txt", kind, one, other_quotation=other, source="llm") for kind, one, other in claims]
        rows = cleaning_quality([self.DOCUMENT], gold + predicted)
        assert measured(rows, "relation_precision", "source=llm type=works_for")["value"] == 0.5
        assert measured(rows, "relation_recall", "source=llm type=works_for")["value"] == 1.0
        assert measured(rows, "relation_precision", "source=llm type=owns")["value"] == 0.0
        assert measured(rows, "relation_recall", "source=llm type=owns")["status"] == "not_applicable"

    def test_a_document_labelled_to_hold_none_makes_each_prediction_wrong(self) -> None:
        labels = [label("entity", "a.txt", "none"), label("entity", "a.txt", "place", "Lochem", source="tool")]
        assert measured(cleaning_quality([self.DOCUMENT], labels), "entity_precision", "source=tool type=place")["value"] == 0.0

    def test_a_quotation_that_stands_nowhere_equals_nothing(self) -> None:
        labels = [label("entity", "a.txt", "place", "Atlantis"), label("entity", "a.txt", "place", "Atlantis", source="tool")]
        assert measured(cleaning_quality([self.DOCUMENT], labels), "entity_recall", "source=tool type=place")["value"] == 0.0

    def test_labels_without_predictions_say_so(self) -> None:
        row = measured(cleaning_quality([self.DOCUMENT], [label("entity", "a.txt", "place", "Lochem")]), "entity_f1")
        assert (row["status"], row["reason"]) == ("not_applicable", "no_predictions")
