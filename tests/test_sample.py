"""The sample evaluation folder: built exactly, quoted exactly, split cleanly, and accepted by the readers of the product."""

from __future__ import annotations

import csv
import email
import email.policy
import html.parser
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
import zipfile
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from ingestion import labels as label_files
from ingestion import sources
from rag_eval_assets.golden import read_golden
from rag_eval_assets.retrieval.filters import entitled, passes
from rag_eval_assets.settings import read_settings

DATA = Path(__file__).resolve().parents[1] / "data"
BUILT = ("corpus", "golden", "references", "labels")
RULES = [("scans/**", "scan")]
ZIPPED = (".docx", ".pptx", ".xlsx", ".epub")

sys.path.insert(0, str(DATA / "build"))

from sample_builder import identifiers, questions, tree  # noqa: E402
from sample_builder.markup import ContentError, read_document  # noqa: E402


def _tree(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for name in BUILT for p in sorted((root / name).rglob("*")) if p.is_file()}


def _unpacked(name: str, data: bytes) -> Any:
    """A zipped format as its members: how hard they are squeezed depends on the zlib that Python was built with."""
    if name.endswith(ZIPPED) and not name.startswith("corpus/inbox/"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [(i.filename, i.date_time, archive.read(i)) for i in archive.infolist()]
    return data


@lru_cache
def _golden() -> list[dict[str, Any]]:
    return [json.loads(line) for p in sorted((DATA / "golden").glob("*.jsonl")) for line in p.read_text("utf-8").splitlines()]


@lru_cache
def _labels(kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / "labels" / f"{kind}.jsonl").read_text("utf-8").splitlines()]


@lru_cache
def _corpus() -> dict[str, dict[str, Any]]:
    return {row["doc_id"]: row for row in sources.scan(DATA / "corpus", RULES)}


def test_the_committed_tree_is_what_the_script_builds_in_another_process(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Pacific/Auckland"}
    command = [sys.executable, str(DATA / "build" / "build.py"), "--target", str(tmp_path)]
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=240)

    built, committed = _tree(tmp_path), _tree(DATA)

    assert sorted(built) == sorted(committed)
    assert [n for n in committed if _unpacked(n, built[n]) != _unpacked(n, committed[n])] == []


def test_the_sample_is_a_knowledge_base_of_a_sensible_size() -> None:
    corpus = _corpus()
    readable = {d: row for d, row in corpus.items() if not d.startswith("inbox/")}
    languages = Counter(x["value"] for x in _labels("language"))
    size = sum(p.stat().st_size for p in DATA.rglob("*") if p.is_file() and ".rag_eval" not in p.parts and "__pycache__" not in p.parts)

    assert len(readable) >= 60
    assert languages["nl"] >= 10
    assert languages["de"] >= 10
    assert languages["en"] > languages["nl"] + languages["de"]
    assert Counter(row["doc_class"] for row in readable.values()).keys() == {
        "pdf", "html", "docx", "markdown", "text", "scan", "pptx", "xlsx", "csv", "eml", "epub",
    }  # fmt: skip
    assert 8 <= sum(row["doc_class"] == "scan" for row in readable.values()) <= 12
    assert any(d.startswith("scans/") and d.endswith(".pdf") for d in readable)
    assert {row["tenant"] for row in readable.values()} == {None, "brinkhal", "polderwonen", "kestrel"}
    assert {row["publication_state"] for row in readable.values()} == {"published", "draft", "archived"}
    assert {row["jurisdiction"] for row in readable.values()} == {None, "NL", "DE", "GB"}
    assert max(row["bytes"] for row in corpus.values()) < 300_000
    assert size < 6_000_000


def test_settings_and_readers_of_the_product_accept_the_folder() -> None:
    settings = read_settings(DATA / "evaluation.yaml")
    corpus = _corpus()

    assert [(rule.glob, rule.doc_class) for rule in settings.classes] == RULES
    assert {row["doc_class"] for row in corpus.values()} <= settings.parser_of.keys()
    assert settings.nightly.timezone == "Europe/Amsterdam"
    assert {"sentence", "parent_child", "structural", "recursive", "window"} <= {line.strategy for line in settings.chunkings}
    assert len(settings.chunkings) <= 9
    assert all(gate.starting_value for gate in settings.gates.values())
    assert len(read_golden(DATA / "golden", list(corpus))) == len(_golden())
    assert label_files.read_labels(DATA / "labels", list(corpus))
    assert label_files.read_references(DATA / "references", list(corpus))


def test_questions_cover_every_split_language_and_kind() -> None:
    splits = Counter(q["split"] for q in _golden())
    kinds = Counter(kind for q in _golden() for kind in q["kinds"])
    languages = Counter(q["language"] for q in _golden())

    assert len(_golden()) >= 200
    assert splits["development"] >= 100
    assert splits["release"] >= 85
    assert splits["calibration"] == 15
    assert splits["monitoring"] == 10
    assert min(languages["nl"], languages["de"]) >= 25
    least = {
        "lookup": 20, "table": 20, "negation": 15, "distractor": 15, "entity_swapped": 15, "version": 12, "scan": 10, "unanswerable": 10,
        "quantifier": 10, "entitlement": 8, "cross_language": 8, "multi_document": 8, "alternatives": 5, "footnote": 5, "not_entitled": 4,
        "counterfactual": 3, "figure": 2, "wrong_filter": 2,
    }  # fmt: skip
    assert {kind: kinds[kind] for kind, wanted in least.items() if kinds[kind] < wanted} == {}
    release = Counter(kind for q in _golden() if q["split"] == "release" for kind in q["kinds"])
    assert all(
        release[kind] for kind in ("multi_document", "alternatives", "unanswerable", "distractor", "negation", "quantifier", "version")
    )


def test_no_document_family_and_no_session_serves_two_splits() -> None:
    family = {r.doc_id: d.file.stem for d in tree.read_content(DATA / "build" / "content") for r in d.renditions}
    splits: defaultdict[str, set[str]] = defaultdict(set)
    for question in _golden():
        for item in question.get("evidence", []):
            splits[family[item["document"]]].add(question["split"])
        if question.get("session"):
            splits[question["session"]].add(question["split"])

    assert {name: found for name, found in splits.items() if len(found) > 1} == {}


class _Visible(html.parser.HTMLParser):
    """The text of a page, script and style left out."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


@lru_cache
def _file_text(doc_id: str) -> str:
    """A file's text read without any part of the product or the builder, white space and marks of tables left out."""
    path = DATA / "corpus" / doc_id
    if path.suffix == ".html":
        reader = _Visible()
        reader.feed(path.read_text("utf-8"))
        text = " ".join(reader.parts)
    elif path.suffix == ".docx":
        with zipfile.ZipFile(path) as archive:
            text = "".join(re.findall(r"<w:t(?: [^>]*)?>([^<]*)</w:t>", archive.read("word/document.xml").decode("utf-8")))
        text = text.replace("&amp;", "&")
    elif path.suffix == ".pdf":
        import pymupdf

        with pymupdf.open(path) as document:
            text = "\n".join(block[4] for page in document for block in page.get_text("blocks"))
        text = re.sub(r"(?<=\w)-\n(?=[a-zäöüß])", "", text)
    elif path.suffix in (".pptx", ".epub"):
        with zipfile.ZipFile(path) as archive:
            pages = sorted(name for name in archive.namelist() if re.search(r"slides/slide\d|chapter\d", name))
            text = "".join(re.sub(r"<[^>]+>", "", archive.read(name).decode("utf-8")) for name in pages)
    elif path.suffix == ".xlsx":
        text = "".join(str(v) for sheet in openpyxl.load_workbook(path) for row in sheet.iter_rows(values_only=True) for v in row)
    elif path.suffix == ".csv":
        text = "".join(cell for row in csv.reader(io.StringIO(path.read_text("utf-8")), delimiter=";") for cell in row)
    elif path.suffix == ".eml":
        text = email.message_from_bytes(path.read_bytes(), policy=email.policy.default).get_content()
    else:
        text = path.read_text("utf-8").replace("**", "").replace("`", "")
    return _squeezed(text)


def _squeezed(text: str) -> str:
    return re.sub(r"[\s|]", "", unicodedata.normalize("NFC", text))


def test_every_quotation_stands_in_the_file_itself() -> None:
    scans = {d for d, row in _corpus().items() if row["doc_class"] == "scan"}
    missing = [
        (question["id"], item["document"], item["quotation"])
        for question in _golden()
        if "figure" not in question["kinds"]
        for item in question.get("evidence", [])
        if item["document"] not in scans and _squeezed(item["quotation"]) not in _file_text(item["document"])
    ]

    # A mark that a text file types before a footnote, or a hyphen of the word itself at a line's end, may stand between.
    assert missing == []


def test_every_quotation_of_a_scan_stands_in_its_reference_transcript() -> None:
    scans = {d for d, row in _corpus().items() if row["doc_class"] == "scan"}
    quoted = [(i["document"], i["quotation"]) for q in _golden() for i in q.get("evidence", []) if i["document"] in scans]

    assert len({d for d, _ in quoted}) >= 8
    for doc_id, quotation in quoted:
        transcript = (DATA / "references" / "text" / f"{doc_id}.txt").read_text("utf-8")
        assert _squeezed(quotation) in _squeezed(transcript), (doc_id, quotation)


def test_a_quotation_in_a_drawing_is_in_no_text_layer() -> None:
    drawn = [i for q in _golden() if "figure" in q["kinds"] for i in q["evidence"]]

    assert drawn
    assert all(_squeezed(i["quotation"]) not in _file_text(i["document"]) for i in drawn)


def test_the_builder_refuses_a_quotation_that_is_not_in_its_document(tmp_path: Path) -> None:
    documents = [read_document(DATA / "build" / "content" / "docs" / "it" / "drucker-de.md")]
    (tmp_path / "callers.yaml").write_text("staff: {tenant: [brinkhal]}\n", "utf-8")
    (tmp_path / "release.yaml").write_text(
        "- {id: x-1, q: Wann, a: nie, lang: de, intent: it, ev: [{drucker-de: Nach 19 Stunden werden sie gelöscht.}]}\n",
        "utf-8",
    )

    with pytest.raises(ContentError, match=r"release\.yaml: x-1: not in drucker-de: 'Nach 19 Stunden"):
        questions.read_questions(tmp_path, documents)


def test_the_builder_refuses_a_document_in_two_splits(tmp_path: Path) -> None:
    documents = [read_document(DATA / "build" / "content" / "docs" / "it" / "drucker-de.md")]
    (tmp_path / "callers.yaml").write_text("{}\n", "utf-8")
    for split in ("development", "release"):
        line = f"- {{id: {split}-1, q: Wann, intent: it, ev: [{{drucker-de: Nach 18 Stunden werden sie gelöscht.}}]}}\n"
        (tmp_path / f"{split}.yaml").write_text(line, "utf-8")

    with pytest.raises(ContentError, match="drucker-de already serves"):
        questions.read_questions(tmp_path, documents)


def test_filters_exclude_gold_only_where_the_kind_says_so() -> None:
    corpus = _corpus()
    wrong = set()
    for question in _golden():
        rows = [corpus[i["document"]] for i in question.get("evidence", [])]
        if question.get("filter") and any(not passes(question["filter"], row) for row in rows):
            wrong.add(question["id"])

    assert wrong == {q["id"] for q in _golden() if "wrong_filter" in q["kinds"]}
    assert len(wrong) == 2
    assert all(q["split"] == "development" for q in _golden() if q["id"] in wrong)
    assert sum(bool(q.get("filter")) for q in _golden() if q["split"] == "release") >= 10


def test_gold_outside_the_entitlement_is_marked_and_nothing_else_is() -> None:
    corpus = _corpus()
    outside, partly = set(), set()
    for question in _golden():
        readable = [entitled(question.get("entitlement", {}), corpus[i["document"]]) for i in question.get("evidence", [])]
        if readable and not any(readable):
            outside.add(question["id"])
        groups = defaultdict(list)
        for item, allowed in zip(question.get("evidence", []), readable, strict=True):
            groups[item["group"]].append(allowed)
        if any(readable) and not all(any(g) for g in groups.values()):
            partly.add(question["id"])

    assert outside == {q["id"] for q in _golden() if "not_entitled" in q["kinds"]}
    assert partly == set()


def test_unanswerable_questions_have_no_evidence_and_all_others_have() -> None:
    for question in _golden():
        assert question["answerable"] is ("unanswerable" not in question["kinds"]), question["id"]
        assert bool(question.get("evidence")) is question["answerable"], question["id"]


def test_check_digits_agree_with_published_examples() -> None:
    # The registry's own example of a British IBAN, the test number of the Dutch tax office, and Visa's test card.
    assert identifiers.iban_is_valid("GB82 WEST 1234 5698 7654 32")
    assert not identifiers.iban_is_valid("GB82 WEST 1234 5698 7654 33")
    assert identifiers.bsn_is_valid("111222333")
    assert not identifiers.bsn_is_valid("111222334")
    assert identifiers.luhn_is_valid("4111 1111 1111 1111")
    assert not identifiers.luhn_is_valid("4111 1111 1111 1112")


def test_invented_personal_data_has_the_form_of_real_data() -> None:
    by_type = defaultdict(set)
    for label in _labels("pii"):
        by_type[label["value"]].add(label["quotation"])

    assert len(by_type["iban"]) >= 5
    assert all(identifiers.iban_is_valid(number) for number in by_type["iban"])
    assert len(by_type["bsn"]) >= 2
    assert all(identifiers.bsn_is_valid(number) for number in by_type["bsn"])
    assert all(identifiers.luhn_is_valid(number) for number in by_type["credit_card"])
    # example is a top-level domain that nobody can own (RFC 2606).
    assert all(address.endswith(".example") for address in by_type["email"])
    assert {"phone", "ip", "none"} <= by_type.keys()


def test_broken_files_are_broken_in_the_way_they_claim() -> None:
    import pymupdf

    inbox = DATA / "corpus" / "inbox"
    assert (inbox / "scan-2025-03-02.pdf").stat().st_size == 0
    assert (inbox / "invoice-77310.pdf").read_bytes().startswith(b"<!DOCTYPE html>")
    truncated = (inbox / "otter-brochure-upload.pdf").read_bytes()
    assert truncated.startswith(b"%PDF-")
    assert b"%%EOF" not in truncated
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(inbox / "minutes-works-council.docx")
    with pymupdf.open(inbox / "tender-prices.pdf") as locked:
        assert locked.needs_pass
        assert not locked.authenticate("wrong")
        assert locked.authenticate("hooiberg-38")
        assert "Lot 2: 96 dwellings" in locked[0].get_text()


def test_scans_are_grey_pictures_without_a_text_layer() -> None:
    import pymupdf
    from PIL import Image

    for doc_id, row in _corpus().items():
        path = DATA / "corpus" / doc_id
        if row["doc_class"] != "scan":
            continue
        if path.suffix == ".pdf":
            with pymupdf.open(path) as document:
                assert all(not page.get_text().strip() and page.get_images() for page in document)
        else:
            with Image.open(path) as image:
                assert image.mode in ("L", "P"), doc_id


def test_duplicate_labels_hold_both_verdicts_and_near_misses() -> None:
    verdicts = Counter(x["value"] for x in _labels("duplicate"))
    bulletins = [x for x in _labels("duplicate") if x["document"].endswith("2025-07.txt") and x["other_document"].endswith("2025-08.txt")]

    assert verdicts["yes"] >= 8
    assert verdicts["no"] >= 15
    assert {x["value"] for x in bulletins} == {"no"}


def test_judgments_stand_on_calibration_questions_and_disagree_with_each_other() -> None:
    calibration = {q["id"] for q in _golden() if q["split"] == "calibration"}

    assert {x["question"] for x in _labels("judgment")} <= calibration
    assert Counter(x["value"] for x in _labels("judgment")).keys() == {"yes", "no"}
    assert len(_labels("judgment")) >= 30


def test_strata_of_the_sample_hold_scans_and_tables_and_every_scan_has_one() -> None:
    named = Counter(row["stratum"] for row in _corpus().values() if row["stratum"])

    assert named["clean_scan"] >= 3
    assert named["photo"] >= 5
    assert named["tables"] >= 5
    assert set(named) <= sources.STRATA.keys()
    assert all(row["stratum"] for row in _corpus().values() if row["doc_class"] == "scan")


def test_every_format_that_offices_exchange_answers_a_question() -> None:
    asked = Counter(Path(d).suffix for d in {i["document"] for q in _golden() for i in q.get("evidence", [])})

    assert all(asked[suffix] for suffix in (".pptx", ".xlsx", ".csv", ".eml", ".epub"))
