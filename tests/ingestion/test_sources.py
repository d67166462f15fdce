"""What a corpus folder holds: ids, hashes, types, classes, metadata, and every way it may be wrong."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ingestion import media_types
from ingestion.media_types import contradicts, sniff
from ingestion.sources import CorpusError, file_of, matches, scan, undeclared_imports
from rag_eval_assets.tables import TABLES


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    return folder


def put(folder: Path, name: str, content: str | bytes = "text") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def errors(folder: Path) -> list[str]:
    with pytest.raises(CorpusError) as caught:
        scan(folder)
    return str(caught.value).splitlines()


def test_rows_follow_the_contract_and_are_in_order_of_id(corpus: Path) -> None:
    put(corpus, "b/two.txt", "two")
    put(corpus, "a.md", "# One")
    put(corpus, ".hidden/x.txt")
    put(corpus, ".DS_Store")
    rows = scan(corpus)
    assert [row["doc_id"] for row in rows] == ["a.md", "b/two.txt"]
    assert set(rows[0]) == set(TABLES["source_documents"].columns)
    assert rows[1] == {
        "doc_id": "b/two.txt", "path": "b/two.txt", "sha256": hashlib.sha256(b"two").hexdigest(), "bytes": 3, "media_type": "text/plain",
        "doc_class": "text", "title": None, "language": None, "tenant": None, "groups": [], "jurisdiction": None,
        "publication_state": "published", "locale": None, "version": None, "version_of": None, "published": None, "stratum": None, "fields": "{}",
        "imports": [],
    }  # fmt: skip


def test_sidecars_are_merged_nearest_last_and_text_stays_as_written(corpus: Path) -> None:
    put(corpus, "folder.meta.yaml", "tenant: acme\nlocale: en-GB\ngroups: [staff]\nfields: {product: kettle, floor: 1}\n")
    put(corpus, "hr/folder.meta.yaml", "groups: [hr, board, hr]\nfields:\n  floor: 2\n  draft: true\n  code: 007\n  day: 2026-01-02\n")
    put(corpus, "hr/pay.md")
    put(
        corpus,
        "hr/pay.md.meta.yaml",
        "id: pay\ntitle: Pay\nlanguage: no\nversion: 1.10\nversion_of: pay\npublished: 2026-03-31\ntenant: null\nclass: policy\n"
        "publication_state: draft\n",
    )
    put(corpus, "open.md")
    pay, opened = scan(corpus)[1], scan(corpus)[0]
    assert (opened["doc_id"], opened["tenant"], opened["groups"], opened["locale"]) == ("open.md", "acme", ["staff"], "en-GB")
    assert pay["doc_id"] == "pay"
    assert pay["path"] == "hr/pay.md"
    assert (pay["language"], pay["version"], pay["published"]) == ("no", "1.10", "2026-03-31")
    assert (pay["tenant"], pay["groups"], pay["doc_class"], pay["publication_state"]) == (None, ["board", "hr"], "policy", "draft")
    assert json.loads(pay["fields"]) == {"code": 7, "day": "2026-01-02", "draft": True, "floor": 2, "product": "kettle"}
    assert pay["fields"] == json.dumps(json.loads(pay["fields"]), sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(
    ("sidecar", "message"),
    [
        ("titel: Pay\n", "a.md.meta.yaml:1: unknown field 'titel'"),
        ("title: Pay\ntenant: a\ntenant: b\n", "a.md.meta.yaml:3: field 'tenant' stands twice"),
        ("title: Pay\nlanguage: Dutch\n", "a.md.meta.yaml:2: field 'language': 'Dutch' is no ISO 639-1 code"),
        (
            "title: Pay\nstratum: fax\n",
            "a.md.meta.yaml:2: field 'stratum': 'fax' is no stratum; known: clean_scan, photo, tables, multilingual",
        ),
        ("groups: staff\n", "a.md.meta.yaml:1: field 'groups': must be a list"),
        ("published: last week\n", "a.md.meta.yaml:1: field 'published': 'last week' is no ISO 8601 date"),
        ("id: ../secret\n", "a.md.meta.yaml:1: field 'id': '../secret' holds"),
        ("id: 'a\\nb'\n", "a.md.meta.yaml:1: field 'id'"),
        ('id: "a\\nb"\n', "a.md.meta.yaml:1: field 'id': 'a\\nb' holds a control character"),
        ("fields: {x: [1, 2]}\n", "a.md.meta.yaml:1: field 'fields': holds a list or mapping"),
        ("fields: {x: .nan}\n", "a.md.meta.yaml:1: field 'fields': .nan is no finite number"),
        ("fields: {x: !!python/object:os.system ls}\n", "a.md.meta.yaml:1: field 'fields': 'ls' has the tag"),
        ("title: [a\n", "a.md.meta.yaml:2: no YAML"),
        ("- title\n", "a.md.meta.yaml:1: must hold 'field: value' lines"),
        ("title: ''\n", "a.md.meta.yaml:1: field 'title': must be a single, non-empty value"),
    ],
)
def test_a_bad_sidecar_is_an_error_that_names_file_line_and_field(corpus: Path, sidecar: str, message: str) -> None:
    put(corpus, "a.md")
    put(corpus, "a.md.meta.yaml", sidecar)
    (line,) = errors(corpus)
    assert line.startswith(f"corpus/{message}")


def test_all_problems_are_told_at_once(corpus: Path) -> None:
    put(corpus, "a.md")
    put(corpus, "a.md.meta.yaml", "titel: x\nlocale: '?'\n")
    put(corpus, "b.md.meta.yaml", "title: x\n")
    put(corpus, "folder.meta.yaml", "id: x\n")
    lines = errors(corpus)
    assert len(lines) == 4
    assert any(line.startswith("corpus/b.md.meta.yaml: stands beside no file 'b.md'") for line in lines)
    assert any(line.startswith("corpus/folder.meta.yaml:1: field 'id' belongs to one file") for line in lines)


def test_two_sources_of_one_id_are_an_error_that_names_both(corpus: Path) -> None:
    put(corpus, "a.md")
    put(corpus, "b.md")
    put(corpus, "b.md.meta.yaml", "id: a.md\n")
    (line,) = errors(corpus)
    assert "a.md" in line
    assert line.startswith("corpus/b.md: id 'a.md' is already that of a.md")


def test_names_in_either_unicode_form_are_one_id_and_the_file_is_still_found(corpus: Path) -> None:
    name = "prijslijst-café.txt"
    put(corpus, unicodedata.normalize("NFD", name))
    (row,) = scan(corpus)
    assert row["doc_id"] == row["path"] == unicodedata.normalize("NFC", name)
    assert file_of(corpus, row["path"]).read_text() == "text"
    put(corpus, unicodedata.normalize("NFC", name))
    assert "is already that of" in errors(corpus)[0]
    with pytest.raises(FileNotFoundError):
        file_of(corpus, "absent/x.txt")


def test_links_out_of_the_corpus_to_nothing_or_to_folders_are_errors(corpus: Path, tmp_path: Path) -> None:
    secret = put(tmp_path, "secret.txt")
    put(corpus, "sub/a.txt")
    (corpus / "out.txt").symlink_to(secret)
    (corpus / "broken.txt").symlink_to(corpus / "absent")
    (corpus / "loop").symlink_to(corpus)
    (corpus / "same.txt").symlink_to(corpus / "sub" / "a.txt")
    lines = errors(corpus)
    assert [line.split(": ")[0] for line in lines] == ["corpus/broken.txt", "corpus/loop", "corpus/out.txt"]
    assert "outside the corpus" in lines[2]


@pytest.mark.timeout(60)
def test_sidecars_and_imports_that_lead_out_of_the_corpus_or_are_no_files_are_not_opened(corpus: Path, tmp_path: Path) -> None:
    secret = put(tmp_path, "secret.yaml", "sesame: open")
    for name in ("a.txt", "b.txt", "c.txt", "sub/d.txt", "e.txt"):
        put(corpus, name)
    (corpus / "a.txt.meta.yaml").symlink_to(secret)
    os.mkfifo(corpus / "b.txt.meta.yaml")
    os.mkfifo(corpus / "c.txt.pages.pymupdf.txt")
    (corpus / "sub" / "folder.meta.yaml").symlink_to(secret)
    (corpus / "e.txt.meta.yaml").mkdir()
    lines = errors(corpus)
    assert [line.split(": ")[0] for line in lines] == [
        "corpus/a.txt.meta.yaml", "corpus/b.txt.meta.yaml", "corpus/e.txt.meta.yaml", "corpus/c.txt.pages.pymupdf.txt",
        "corpus/sub/folder.meta.yaml",
    ]  # fmt: skip
    assert ["outside the corpus" in line for line in lines] == [True, False, False, False, True]
    assert not any("sesame" in line for line in lines)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("bomb", "told"),
    [
        ("a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, *a]\n" for n in range(90)), "unknown field 'b89'"),
        ("title: &a [*a]\n", "field 'title': must be a single"),
        ("title: " + "[" * 100_000, "nesting"),
        ("fields: {deep: " + "{a: " * 100_000, "nesting"),
        ("? [&a [x, x], &b [*a, *a], &c [*b, *b]]\n: 1\n", "stands for a field's name"),
        ("fields: &a {<<: *a}\n", "holds a list or mapping"),
    ],
)
def test_a_sidecar_of_aliases_or_without_a_bottom_is_one_error(corpus: Path, bomb: str, told: str) -> None:
    put(corpus, "a.txt")
    put(corpus, "a.txt.meta.yaml", bomb)
    assert told in errors(corpus)[-1]


@pytest.mark.parametrize(
    "doc_id",
    [
        "../up", "a/../../b", "/etc/passwd", "a\\b", "C:\\a", "a//b", "./a", "a/.", "..", ".", "nul\0byte", "a\u202eb", "x" * 1025,
        "é" * 513,
    ],
)  # fmt: skip
def test_an_id_that_climbs_hides_or_does_not_end_is_refused(corpus: Path, doc_id: str) -> None:
    put(corpus, "a.txt")
    put(corpus, "a.txt.meta.yaml", f"id: {json.dumps(doc_id)}\n")
    (line,) = errors(corpus)
    assert line.startswith("corpus/a.txt.meta.yaml:1")


def test_names_that_other_systems_reserve_and_look_alikes_are_ids_and_never_paths(corpus: Path) -> None:
    """No table is a file named after an id, so that CON or a full-width dot may be one. Composed and decomposed forms alone are one id."""
    names = ["CON", "nul.txt", "a.txt.", "COM1.md", "\uff0e\uff0e\uff0fetc", "аpple.txt", "apple.txt", "ﬁle.txt", "file.txt"]
    for name in names:
        put(corpus, name)
    assert sorted(row["doc_id"] for row in scan(corpus)) == sorted(names)
    (corpus / "cafe\u0301.txt").write_text("one")
    (corpus / "caf\u00e9.txt").write_text("two")
    assert "already that of" in "".join(errors(corpus))


def test_names_that_cannot_be_ids_are_errors_and_no_crash(corpus: Path) -> None:
    put(corpus, "line\nbreak.txt")
    put(corpus, "gpj\u202etxt.exe")
    Path(os.fsdecode(os.fsencode(corpus) + b"/bad\xff.txt")).write_text("x")
    os.mkfifo(corpus / "pipe")
    lines = errors(corpus)
    assert len(lines) == 4
    assert sum("control character" in line for line in lines) == 2
    assert sum("not UTF-8" in line for line in lines) == 1
    assert sum("neither a file nor a folder" in line for line in lines) == 1


def test_an_absent_corpus_is_an_error_and_an_empty_one_is_not(corpus: Path) -> None:
    assert scan(corpus) == []
    with pytest.raises(CorpusError, match="no such folder"):
        scan(corpus / "absent")


def test_unchanged_files_are_not_read_again(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(corpus, "a.txt", "one")
    put(corpus, "b.txt", "two")
    cache: dict[str, list[Any]] = {"gone.txt": [1, 2, "x", "y"]}
    first = scan(corpus, cache=cache)
    assert sorted(cache) == ["a.txt", "b.txt"]
    assert cache["a.txt"][0] == 3
    assert cache["a.txt"][2:] == [first[0]["sha256"], "text/plain"]
    put(corpus, "b.txt", "three")
    opened: list[str] = []
    real = Path.open

    def spy(self: Path, *args: Any, **kwargs: Any) -> Any:
        opened.append(self.name)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", spy)
    second = scan(corpus, cache=cache)
    assert opened == ["b.txt"]
    assert second[0] == first[0]
    assert second[1]["sha256"] == hashlib.sha256(b"three").hexdigest()


def archive(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as target:
        for name, data in members:
            target.writestr(name, data)
    return path


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 600


@pytest.mark.parametrize(
    ("name", "content", "media_type"),
    [
        ("a.bin", b"%PDF-1.7\n", "application/pdf"),
        ("a.docx", b"junk\n%PDF-1.4\n", "application/pdf"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\x00", "image/png"),
        ("a.png", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("a.tif", b"II*\x00\x08", "image/tiff"),
        ("a.dat", b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
        ("a.pdf", b"  <!DOCTYPE html><html>", "text/html"),
        ("a.html", b"plain words", "text/html"),
        ("a.txt", b"<html>shown as text</html>", "text/plain"),
        ("a.md", b"# Head", "text/markdown"),
        ("README", b"words", "text/plain"),
        ("notes", b"BM words", "text/plain"),
        ("a.pdf", b"just words", "text/plain"),
        ("a.pdf", b"\x00\x01\x02\x03" * 20, "application/pdf"),
        ("a.txt", "Grüße".encode("utf-16"), "text/plain"),
        ("x", b'<?xml version="1.0"?><a/>', "application/xml"),
        ("a.rtf", b"{\\rtf1", "application/rtf"),
        ("a.docx", b"PK\x03\x04broken", media_types.DOCX),
        ("a.docx", OLE + "EncryptedPackage".encode("utf-16-le"), media_types.DOCX),
        ("a.docx", OLE, "application/x-ole-storage"),
        ("a.doc", OLE, "application/msword"),
        ("a.docx", b"", media_types.DOCX),
        ("x", b"\x00\x01\x02\x03", "application/octet-stream"),
    ],
)
def test_media_types_are_read_from_content_with_the_name_as_tie_breaker(tmp_path: Path, name: str, content: bytes, media_type: str) -> None:
    assert sniff(put(tmp_path, name, content)) == media_type


def test_zip_members_tell_office_formats_apart(tmp_path: Path) -> None:
    assert sniff(archive(tmp_path / "a.zip", ("word/document.xml", b"<x/>"))) == media_types.DOCX
    assert sniff(archive(tmp_path / "b.docx", ("xl/workbook.xml", b"<x/>"))) == media_types.XLSX
    assert sniff(archive(tmp_path / "c", ("mimetype", b"application/epub+zip"))) == "application/epub+zip"
    assert sniff(archive(tmp_path / "d.docx", ("readme.txt", b"x"))) == "application/zip"


def test_a_name_that_promises_another_format_contradicts_but_another_image_type_does_not() -> None:
    assert contradicts("a.docx", "application/pdf")
    assert contradicts("a.pdf", "text/html")
    assert not contradicts("a.png", "image/jpeg")
    assert not contradicts("a.bin", "application/pdf")
    assert not contradicts("a.PDF", "application/pdf")


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("scans/**", "scans/a/b.pdf", True),
        ("scans/**", "old/scans/b.pdf", False),
        ("**/scans/*.pdf", "scans/b.pdf", True),
        ("**/scans/*.pdf", "old/deep/scans/b.pdf", True),
        ("scans/*.pdf", "scans/a/b.pdf", False),
        ("*.pdf", "scans/a/b.pdf", True),
        ("*.pdf", "b.PDF", False),
        ("v?/[!a]*.txt", "v1/b.txt", True),
        ("v?/[!a]*.txt", "v1/a.txt", False),
        ("a+b (1).txt", "a+b (1).txt", True),
    ],
)
def test_globs_match_as_their_description_says(glob: str, path: str, expected: bool) -> None:
    assert matches(glob, path) is expected


def test_class_comes_from_the_sidecar_then_the_first_rule_then_the_media_type(corpus: Path) -> None:
    put(corpus, "scans/a.pdf", b"%PDF-1.7")
    put(corpus, "scans/b.pdf", b"%PDF-1.7")
    put(corpus, "scans/b.pdf.meta.yaml", "class: contract\n")
    put(corpus, "c.pdf", b"%PDF-1.7")
    put(corpus, "d.png", b"\x89PNG\r\n\x1a\n")
    put(corpus, "e.xlsx", b"PK\x03\x04")
    put(corpus, "f.odt", b"PK\x03\x04")
    rules = [("scans/*", "scan"), ("**/*.pdf", "late")]
    assert [row["doc_class"] for row in scan(corpus, rules)] == ["late", "scan", "xlsx", "other", "scan", "contract"]
    assert [row["doc_class"] for row in scan(corpus)] == ["pdf", "scan", "xlsx", "other", "pdf", "contract"]


@pytest.mark.reference
def test_a_folder_of_real_files_is_listed_with_the_types_their_names_promise(shared: Path) -> None:
    folder = shared / "unstructured_docs"
    wrong = [
        path.name
        for path in sorted(folder.glob("*"))
        if path.suffix in (".pdf", ".docx", ".pptx", ".xlsx", ".html", ".md", ".txt", ".odt", ".epub", ".rtf", ".doc")
        and contradicts(path.name, sniff(path))
    ]
    # One is an encrypted workbook under its own name; the malformed presentation is no zip at all.
    assert wrong == []


# ------------------------------------------------------------------------------------------------------ imported texts
def test_an_import_is_no_document_but_stands_in_the_row_of_its_file(corpus: Path) -> None:
    put(corpus, "scans/a.png", b"\x89PNG\r\n\x1a\n")
    put(corpus, "scans/a.png.pages.vlm.jsonl", '{"page": 1, "text": "x"}')
    put(corpus, "scans/a.png.pages.other.md", "# x")
    put(corpus, "b.txt", "text")
    cache: dict[str, list[Any]] = {}
    plain, scanned = scan(corpus, (), cache)
    assert (plain["doc_id"], plain["imports"], scanned["doc_id"]) == ("b.txt", [], "scans/a.png")
    assert scanned["imports"] == [
        {"parser": "other", "path": "scans/a.png.pages.other.md", "sha256": hashlib.sha256(b"# x").hexdigest()},
        {"parser": "vlm", "path": "scans/a.png.pages.vlm.jsonl", "sha256": hashlib.sha256(b'{"page": 1, "text": "x"}').hexdigest()},
    ]
    assert scan(corpus, (), cache) == [plain, scanned]
    put(corpus, "scans/a.png.pages.other.md", "# longer")
    assert scan(corpus, (), cache)[1]["imports"][0]["sha256"] == hashlib.sha256(b"# longer").hexdigest()


@pytest.mark.parametrize(
    ("name", "words"),
    [("gone.pdf.pages.vlm.txt", "stands beside no file 'gone.pdf'"), ("a.txt.pages.vlm.txt", "second import of 'vlm'")],
)
def test_an_import_without_its_file_or_with_a_twin_is_a_problem(corpus: Path, name: str, words: str) -> None:
    put(corpus, "a.txt", "text")
    put(corpus, "a.txt.pages.vlm.md", "text")
    put(corpus, name, "text")
    with pytest.raises(CorpusError, match=words):
        scan(corpus)


@pytest.mark.parametrize("name", ["a.md.meta.yml", "a.md.meta.json", "folder.meta.yml"])
def test_a_near_miss_of_a_sidecars_name_is_an_error_and_no_document(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.md").write_text("Text.")
    (tmp_path / name).write_text("stratum: tables")
    with pytest.raises(CorpusError, match=rf"{name}: sidecars end in .meta.yaml; rename it to"):
        scan(tmp_path)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({}, r"a\.txt\.pages\.vlm\.md: no parser 'vlm' of kind imported in settings \(known: none\)"),
        ({"vlm": ["scan"]}, r"a\.txt\.pages\.vlm\.md: parser 'vlm' does not read class 'text'"),
    ],
)
def test_an_import_that_no_parser_would_read_is_an_error(corpus: Path, declared: dict[str, list[str]], words: str) -> None:
    put(corpus, "a.txt", "text")
    put(corpus, "a.txt.pages.vlm.md", "text")
    with pytest.raises(CorpusError, match=words):
        undeclared_imports(scan(corpus), declared)


def test_an_import_of_a_declared_parser_and_class_passes(corpus: Path) -> None:
    put(corpus, "a.txt", "text")
    put(corpus, "a.txt.pages.vlm.md", "text")
    undeclared_imports(scan(corpus), {"vlm": ["scan", "text"]})
