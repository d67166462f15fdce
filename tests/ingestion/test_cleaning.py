from __future__ import annotations

import hashlib
import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.cleaning import CleaningPolicy, clean_document, rows_text
from rag_eval_assets.settings import Cleaning
from rag_eval_assets.tables import REASONS, TABLES

PLAIN = CleaningPolicy()


def source(doc_id: str = "a.txt", media_type: str = "text/plain", **more: Any) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "sha256": "s" * 64,
        "media_type": media_type,
        "doc_class": "text",
        "title": None,
        "tenant": "acme",
        "groups": ["staff"],
        "jurisdiction": None,
        "publication_state": "published",
        "locale": None,
        "version": None,
        "version_of": None,
        "published": None,
        "fields": "{}",
    } | more


def parsed(*entries: Any, status: str = "ok") -> list[dict[str, Any]]:
    """Rows of parsed_documents from texts, or (category, text), or mappings."""
    rows = []
    for order, entry in enumerate(entries):
        if isinstance(entry, str):
            entry = ("NarrativeText", entry)
        if isinstance(entry, tuple):
            entry = {"category": entry[0], "text": entry[1]}
        rows.append(
            {"order": order, "page": None, "heading_path": [], "html": None, "status": status, "reason": None, "detail": None} | entry
        )
    return rows


def pages(*texts: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """One list of (category, text) a page."""
    entries = [{"category": c, "text": t, "page": number} for number, page in enumerate(texts, 1) for c, t in page]
    return parsed(*entries)


def clean(*entries: Any, policy: CleaningPolicy = PLAIN, **more: Any) -> dict[str, Any]:
    return clean_document(source(**more), parsed(*entries), "unstructured", policy)


def removed(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(entry["rule"], entry["text"]) for entry in row["removed"]]


class TestText:
    def test_the_text_is_the_elements_parted_by_a_blank_line_with_exact_spans(self) -> None:
        row = clean(("Title", "Returns"), "A customer may\nreturn  the product.", ("ListItem", "within 30 days"))
        assert row["text"] == "Returns\n\nA customer may return the product.\n\nwithin 30 days"
        assert [(e["category"], row["text"][e["start"] : e["end"]]) for e in row["elements"]] == [
            ("Title", "Returns"),
            ("NarrativeText", "A customer may return the product."),
            ("ListItem", "within 30 days"),
        ]
        assert row["text_sha256"] == hashlib.sha256(row["text"].encode()).hexdigest()
        assert (row["title"], row["parser"], row["tenant"], row["groups"]) == ("Returns", "unstructured", "acme", ["staff"])
        assert row["source_sha256"] == "s" * 64

    def test_a_row_holds_exactly_the_columns_of_the_contract(self) -> None:
        columns = [name for name in TABLES["documents"].columns if name != "work_key"]
        for row in (clean("Some text."), clean_document(source(), [], "x", PLAIN)):
            assert list(row) == columns
            assert row["reason"] is None or row["reason"] in REASONS

    def test_elements_are_put_in_reading_order(self) -> None:
        row = clean_document(source(), list(reversed(parsed("first", "second"))), "x", PLAIN)
        assert row["text"] == "first\n\nsecond"

    @pytest.mark.parametrize(
        ("written", "read"),
        [
            ("the infor-\nmation", "the information"),
            ("the infor\u00ad\nmation", "the information"),
            ("the COVID-\n19 rules", "the COVID-19 rules"),
            ("the M\u00fcller-\nMeier firm", "the M\u00fcller-Meier firm"),
            ("voor-\nen nadelen", "voor- en nadelen"),
            ("Ein-\nund Ausgang", "Ein- und Ausgang"),
            ("2020-\n2021", "2020-2021"),
            ("a well-known fault, a well-\nknown fault", "a well-known fault, a well-known fault"),
            ("one\r\ntwo\u2028three\u00a0four\tfive", "one two three four five"),
            ("bro\u200bken \ufeffword\u202e", "broken word"),
            ("cafe\u0301", "caf\u00e9"),
            ("nul\x00l and \x07bell", "null and bell"),
            ("half \ud83d surrogate", "half \ufffd surrogate"),
        ],
    )
    def test_a_paragraph_reads_as_it_was_meant(self, written: str, read: str) -> None:
        assert clean(written)["text"] == read

    def test_compatibility_forms_are_kept_under_nfc_and_folded_under_nfkc(self) -> None:
        text = "the \ufb01le of 10\u00b2 pages\u2026"
        assert clean(text)["text"] == text
        assert clean(text, policy=CleaningPolicy(unicode_form="NFKC"))["text"] == "the file of 102 pages..."

    def test_joiners_and_picture_forms_that_mean_something_stay(self) -> None:
        persian, family, heart = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f468\u200d\U0001f469", "\u2764\ufe0f"
        row = clean(f"{persian} {family} {heart}")
        assert row["text"] == f"{persian} {family} {heart}"
        assert "invisible_characters" not in row["flags"]
        assert clean("in\u200cvis\u200dible")["text"] == "invisible"

    def test_code_and_addresses_keep_their_lines(self) -> None:
        code = ("CodeSnippet", "if x:\n    return 1  \n\nelse-\nwhere")
        assert clean(code)["text"] == "if x:\n    return 1\n\nelse-\nwhere"
        assert clean(("Address", "Main  Street 1\n1234 AB  Zwolle"))["text"] == "Main Street 1\n1234 AB Zwolle"

    def test_a_table_becomes_rows_of_cells(self) -> None:
        html = "<table><tr><th>Part</th><th>Price</th></tr><tr><td>Se<b>al</b> &amp; ring</td><td>10.00</td></tr><tr><td></td></tr></table>"
        row = clean({"category": "Table", "text": "Part Price Seal & ring 10.00", "html": html})
        assert row["text"] == "Part | Price\nSeal & ring | 10.00"
        assert row["elements"][0]["html"] == html
        assert rows_text("<tr><td>a<br>b<td>c<tr><td>d") == "a b | c\nd"

    def test_a_table_without_readable_html_keeps_its_text(self) -> None:
        assert clean({"category": "Table", "text": "Seal 10.00", "html": "<p>x</p>"})["text"] == "Seal 10.00"

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["Title", "NarrativeText", "CodeSnippet", "UncategorizedText", "Footer"]),
                st.text(st.sampled_from("abZ 1-\n\r\t\u00ad\u200b\u200d\u00e9e\u0301\ufb01|\ud800\x00\u4e2d"), max_size=30),
            ),
            max_size=6,
        ),
        st.sampled_from(["NFC", "NFKC"]),
    )
    def test_spans_are_exact_and_the_text_is_clean_whatever_was_parsed(self, entries: list[tuple[str, str]], form: Any) -> None:
        row = clean(*entries, policy=CleaningPolicy(unicode_form=form))
        text = row["text"]
        text.encode()
        assert text == unicodedata.normalize(form, text)
        assert not set(text) & set("\r\u00ad\u200b\x00")
        assert "\n\n".join(text[e["start"] : e["end"]] for e in row["elements"]) == text
        assert all(e["start"] < e["end"] for e in row["elements"])
        assert (row["status"] == "ok") == bool(text) == bool(row["elements"])

    def test_cleaning_a_clean_text_changes_nothing(self) -> None:
        first = clean("The infor-\nmation  is\u00ad here.", ("Title", "End"))
        again = clean(*[(e["category"], first["text"][e["start"] : e["end"]]) for e in first["elements"]])
        assert again["text"] == first["text"]


class TestFailures:
    def test_a_document_that_did_not_parse_carries_the_parsers_reason(self) -> None:
        failed = [parsed("")[0] | {"status": "failed", "reason": "encrypted", "detail": "needs a password"}]
        row = clean_document(source(), failed, "pymupdf", PLAIN)
        assert (row["status"], row["reason"], row["detail"], row["text"]) == ("failed", "encrypted", "needs a password", "")
        assert (row["language"], row["elements"], row["flags"]) == ("und", [], [])

    def test_a_class_without_a_parser_says_so_and_nothing_failed_to_parse(self) -> None:
        row = clean_document(source(doc_class="epub"), [], "", PLAIN)
        assert (row["status"], row["reason"]) == ("failed", "unsupported_media_type")
        assert row["detail"] == "class epub has no line in parser_of: choose its parser"

    def test_a_document_without_rows_failed_to_parse(self) -> None:
        assert clean_document(source(), [], "pymupdf", PLAIN)["reason"] == "parse_failed"

    def test_a_document_whose_text_is_all_removed_has_no_text(self) -> None:
        row = clean(("Footer", "page foot"), " \u200b ")
        assert (row["status"], row["reason"], removed(row)) == ("failed", "no_text", [("category", "page foot")])


class TestFlags:
    @pytest.mark.parametrize(
        ("text", "flags"),
        [
            ("A sentence that is long enough to stand for itself, and holds nothing that a reader would wonder about.", []),
            ("short", ["short_text"]),
            ("mail jan@example.nl", ["pii", "short_text"]),
            ("in\u200bvisible", ["invisible_characters", "short_text"]),
            ("soft hyphen at the line\u00ad\nend", ["short_text"]),
            ("p\u0430ypal", ["mixed_script", "short_text"]),
            ("5 \u00b5m of TNF\u03b1, \u0394t, \u041c\u043e\u0441\u043a\u0432\u0430", ["nfkc_drift", "short_text"]),
            ("the \ufb01le\u2026", ["nfkc_drift", "short_text"]),
            ("no-break\u00a0space", ["short_text"]),
        ],
    )
    def test_what_the_checks_saw_is_flagged(self, text: str, flags: list[str]) -> None:
        assert clean(text)["flags"] == flags

    def test_the_language_is_read_from_the_text(self) -> None:
        row = clean("Het verwarmingselement valt tot vijf jaar na aankoop onder de garantie.")
        assert row["language"] == "nl"
        assert row["language_score"] > 0.9
        assert (clean("42")["language"], clean("42")["language_score"]) == ("und", None)


class TestRemoval:
    def test_element_categories_of_the_policy_are_left_out(self) -> None:
        row = clean(("Header", "Acme manual"), "Text.", ("PageNumber", "7"))
        assert row["text"] == "Text."
        assert removed(row) == [("category", "Acme manual"), ("category", "7")]
        assert clean(("Header", "Acme manual"), policy=CleaningPolicy(drop_categories=()))["text"] == "Acme manual"

    def test_running_heads_and_page_numbers_go_and_the_pages_text_stays(self) -> None:
        row = clean_document(
            source(),
            pages(*[[("NarrativeText", "ACME  Pump manual"), ("NarrativeText", f"Body {w}."), ("NarrativeText", f"{n} / 4")]
                    for n, w in enumerate(("one", "two", "three", "four"), 1)]),
            "x", PLAIN,
        )  # fmt: skip
        assert row["text"] == "Body one.\n\nBody two.\n\nBody three.\n\nBody four."
        assert {rule for rule, _ in removed(row)} == {"repeated_line"}
        assert len(row["removed"]) == 8

    def test_a_running_head_inside_an_element_is_cut_out_of_it(self) -> None:
        texts = [f"Confidential\nBody {letter} goes on.\nAcme, page {number + 4}" for number, letter in enumerate("abc", 1)]
        row = clean_document(source(), pages(*[[("NarrativeText", text)] for text in texts]), "x", PLAIN)
        assert row["text"] == "Body a goes on.\n\nBody b goes on.\n\nBody c goes on."
        assert removed(row)[0] == ("repeated_line", "Confidential Acme, page 5")

    @pytest.mark.parametrize(
        "page",
        [
            pytest.param(lambda n: [("Title", f"Step {n}"), ("NarrativeText", f"Do thing {n * 7} now.")], id="counted headings"),
            pytest.param(lambda n: [("Table", "Part | Price"), ("NarrativeText", f"Row {n * 7}")], id="repeated table heads"),
            pytest.param(lambda n: [("NarrativeText", f"The limit is {n * n} bar")], id="numbers that do not count pages"),
            pytest.param(lambda n: [("NarrativeText", "x" * 120)], id="long paragraphs"),
        ],
    )
    def test_content_at_the_page_edge_is_no_running_head(self, page: Any) -> None:
        assert clean_document(source(), pages(*[page(n) for n in range(1, 6)]), "x", PLAIN)["removed"] == []

    def test_two_pages_are_too_few_to_call_a_line_repeated(self) -> None:
        row = clean_document(source(), pages([("NarrativeText", "Warning")], [("NarrativeText", "Warning")]), "x", PLAIN)
        assert row["text"] == "Warning\n\nWarning"

    def test_the_share_of_pages_is_the_policys(self) -> None:
        rows = pages(*[[("NarrativeText", "Head" if n < 3 else f"Other {n * n}"), ("NarrativeText", f"Body {n * n}.")] for n in range(5)])
        assert [r for r, _ in removed(clean_document(source(), rows, "x", CleaningPolicy(repeated_lines=0.6)))] == ["repeated_line"] * 3
        assert removed(clean_document(source(), rows, "x", CleaningPolicy(repeated_lines=0.7))) == []


class TestHtmlBoilerplate:
    PAGE = (
        ("Boilerplate", "Skip this"),
        ("ListItem", "Home"),
        ("ListItem", "Products"),
        ("ListItem", "Pump care"),
        ("NarrativeText", "Home > Support > Pumps"),
        ("Title", "Pump care"),
        ("NarrativeText", "Rinse the pump with clean water after use."),
        ("ListItem", "Open the valve"),
        ("ListItem", "Print the report"),
        ("NarrativeText", "We use cookies to improve this site."),
        ("NarrativeText", "\u00a9 2024 Acme. All rights reserved."),
    )

    def test_navigation_notices_and_furniture_go_and_content_stays(self) -> None:
        row = clean(*self.PAGE, media_type="text/html")
        assert row["text"].split("\n\n") == [
            "Pump care",
            "Rinse the pump with clean water after use.",
            "Open the valve",
            "Print the report",
        ]
        assert [rule for rule, _ in removed(row)] == ["html_category", *["html_navigation"] * 4, "html_notice", "html_notice"]

    def test_it_is_left_alone_where_the_policy_or_the_format_says_so(self) -> None:
        assert clean(*self.PAGE, media_type="text/html", policy=CleaningPolicy(html_boilerplate=False))["removed"] == []
        assert clean(*self.PAGE, media_type="text/markdown")["removed"] == []

    def test_a_byline_and_a_date_next_to_a_menu_stay(self) -> None:
        entries = ["By Jan de Wit", "Facebook", "Twitter", "Print", "18 November 2019", "Home", "Contact", "Zwolle desk"]
        row = clean(*entries, media_type="text/html")
        assert row["text"].split("\n\n") == ["By Jan de Wit", "18 November 2019", "Zwolle desk"]

    def test_a_page_about_cookies_keeps_what_it_says_of_them(self) -> None:
        row = clean(("Title", "Cookie statement"), "Our shop uses cookies to remember the basket.", media_type="text/html")
        assert row["removed"] == []


class TestPersonalData:
    ENTRIES = (("Title", "Contact jan@example.nl"), "Call 06-12345678 or write to jan@example.nl.")

    def test_flagging_keeps_the_text_and_says_where(self) -> None:
        row = clean(*self.ENTRIES)
        assert [(s["type"], row["text"][s["start"] : s["end"]]) for s in row["pii"]] == [
            ("email", "jan@example.nl"), ("phone", "06-12345678"), ("email", "jan@example.nl"),
        ]  # fmt: skip

    def test_masking_reaches_every_text_of_the_row_and_keeps_spans_exact(self) -> None:
        html = "<table><tr><td>jan&#64;example.nl</td><td>06-<b>12345678</b></td></tr></table>"
        rows = parsed(
            *self.ENTRIES,
            {"category": "Table", "text": "", "html": html, "heading_path": ["Contact jan@example.nl"]},
            ("Footer", "Mail jan@example.nl"),
        )
        row = clean_document(source(title="Ask jan@example.nl"), rows, "x", CleaningPolicy(pii="mask"))
        assert "example.nl" not in repr(row)
        assert "12345678" not in repr(row)
        assert row["text"].startswith("Contact [EMAIL]\n\nCall [PHONE] or write to [EMAIL].")
        assert [row["text"][e["start"] : e["end"]] for e in row["elements"]] == row["text"].split("\n\n")
        assert row["title"] == "Ask [EMAIL]"
        unmasked = clean_document(source(title="x"), rows, "x", PLAIN)
        assert row["pii"] == unmasked["pii"]

    def test_html_of_a_table_is_masked_between_its_tags(self) -> None:
        html = "<table><tr><td>a &lt; b</td><td>jan@example.nl</td></tr></table>"
        row = clean({"category": "Table", "text": "", "html": html}, policy=CleaningPolicy(pii="mask"))
        assert row["elements"][0]["html"] == "<table><tr><td>a &lt; b</td><td>[EMAIL]</td></tr></table>"

    def test_a_dropped_document_keeps_no_personal_data(self) -> None:
        row = clean(*self.ENTRIES, policy=CleaningPolicy(pii="drop_document"))
        assert (row["status"], row["reason"], row["detail"]) == ("not_applicable", "personal_data", "email 2, phone 1")
        assert "example.nl" not in repr(row)
        assert clean("Nothing personal.", policy=CleaningPolicy(pii="drop_document"))["status"] == "ok"


def test_the_policy_mirrors_the_settings() -> None:
    assert CleaningPolicy(**Cleaning().model_dump()) == CleaningPolicy()


def test_a_hundred_documents_of_1500_words_are_cleaned_in_seconds() -> None:
    paragraph = "The heating element of a kettle is covered by our five year warranty when it was bought after 2019. " * 5
    documents = [parsed(*[f"{paragraph} {number} {n}" for n in range(16)]) for number in range(100)]
    clean("warm up the language model with a sentence")
    started = time.perf_counter()
    for rows in documents:
        clean_document(source(), rows, "x", PLAIN)
    assert time.perf_counter() - started < 10
