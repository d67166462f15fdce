"""What a person types and what is printed."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rag_eval_assets.settings import Folder
from tests.command import rag_eval, rag_eval_process
from tests.integration.conftest import CHANGES
from tests.small import QUESTIONS, SETTINGS, write_questions, write_settings


def test_a_second_sync_says_that_nothing_is_stale_and_starts_no_run(synced: Folder) -> None:
    before = sorted(p.name for p in (synced.state / "dagster").rglob("*.db"))
    said = rag_eval_process(synced, "sync")
    assert "Nothing is stale: no run started." in said
    assert sorted(p.name for p in (synced.state / "dagster").rglob("*.db")) == before


def test_status_names_every_asset_partition_with_its_state_and_reasons(synced: Folder) -> None:
    rows = json.loads(rag_eval(synced, "status", "--json"))
    assert {tuple(sorted(row)) for row in rows} == {("asset", "partition", "reasons", "state")}
    assert {row["state"] for row in rows} == {"fresh"}
    systems = {**SETTINGS["systems"], "first": {**SETTINGS["systems"]["first"], "top_k": 2}}
    write_settings(synced.path, {**CHANGES, "systems": systems, "slices": ["language"]})
    Path(synced.tables, "chunks", "whole.parquet").unlink()
    stale = {
        (r["asset"], r["partition"]): (r["state"], r["reasons"]) for r in json.loads(rag_eval(synced, "status", "--json")) if r["reasons"]
    }
    assert stale["chunks", "whole"] == ("missing", ["no file"])
    state, reasons = stale["system_specs", "first"]
    assert (state, reasons[0].startswith("input: files changed")) == ("stale", True)
    assert stale["system_summary", "first"] == ("stale", ['setting: slices ["intent"] -> ["language"]'])
    assert ("answers", "second") not in stale


def test_a_dry_run_says_what_would_run_and_runs_nothing(synced: Folder) -> None:
    Path(synced.tables, "documents.parquet").unlink()
    assert "documents: no file" in rag_eval(synced, "sync", "--dry-run")
    assert not Path(synced.tables, "documents.parquet").exists()


def test_a_selection_brings_up_what_it_names_with_what_is_above(synced: Folder) -> None:
    for name in ("documents", "release_report", "answers/first"):
        Path(synced.tables, f"{name}.parquet").unlink()
    rag_eval(synced, "sync", "--select", "documents")
    assert Path(synced.tables, "documents.parquet").exists()
    assert not Path(synced.tables, "release_report.parquet").exists()
    rag_eval(synced, "sync", "--partition", "first")
    assert Path(synced.tables, "answers/first.parquet").exists()
    assert not Path(synced.tables, "release_report.parquet").exists()


def test_sql_has_every_asset_as_a_view(synced: Folder) -> None:
    assert "6" in rag_eval(synced, "sql", "select count(*) as documents from documents")
    said = rag_eval(synced, "sql", "select partition, count(*) from chunks group by 1 order by 1")
    assert "whole" in said
    assert "window-16-o0" in said


def test_sql_tells_of_a_table_without_a_file_and_refuses_a_damaged_one_where_the_query_names_it(synced: Folder) -> None:
    tables = Path(synced.tables)
    (tables / "documents.parquet").unlink()
    (tables / "chunks" / "whole.parquet").unlink()
    (tables / "dedup_quality.parquet").write_bytes(b"PAR1 no more")
    said = rag_eval(synced, "sql", "with d as (select * from Documents) select partition, count(*) from d, chunks group by 1")
    for absent in ("documents", "chunks[whole]"):
        assert f"{absent} has no file, so it gives no rows: run 'rag-eval sync'\n" in said
    assert "has no file" not in rag_eval(synced, "sql", "select count(*) from contexts")
    said = rag_eval(synced, "sql", "select count(*) from dedup_quality", code=2)
    assert re.match(r"error \S+dedup_quality\.parquet: no readable footer \(.*Run 'rag-eval sync', which makes it anew\.$", said, re.S)


def test_sql_gives_csv_and_json_whole(synced: Folder) -> None:
    query = "select a.question_id, range as n, kinds from golden_questions a, range(40) order by 1, 2"
    for form, read in (("json", json.loads), ("csv", lambda text: list(csv.DictReader(io.StringIO(text))))):
        rows = read(rag_eval_process(synced, "sql", query, "--format", form))
        assert len(rows) == 9 * 40
        assert str(rows[-1]["n"]) == "39"


@pytest.mark.parametrize("query", ["", " ; ", "/* nothing */"])
def test_a_query_without_a_statement_is_an_error(synced: Folder, query: str) -> None:
    assert rag_eval(synced, "sql", query, code=2).startswith("error there is no query in the text")


def test_a_mistake_in_sql_or_in_the_name_of_a_baseline_is_one_error_and_no_traceback(synced: Folder) -> None:
    for words in (["sql", "selec 1"], ["sql", "select document_id from documents"], ["baseline", "save", "../x", "first"]):
        said = rag_eval(synced, *words, code=2)
        assert said.startswith("error ")
        assert "Traceback" not in said


def test_a_baseline_that_is_there_is_kept_unless_told_otherwise(synced: Folder) -> None:
    rag_eval(synced, "baseline", "save", "june", "first")
    assert "pass --replace" in rag_eval(synced, "baseline", "save", "june", "first", code=2)
    rag_eval(synced, "baseline", "save", "june", "first", "--replace")


def test_sync_ends_with_the_files_that_gave_no_text_and_the_quotations_that_no_text_holds(synced: Folder) -> None:
    (synced.corpus / "empty.md").write_text("")
    lost = {**QUESTIONS[0], "evidence": [{"group": "g1", "document": "returns.md", "quotation": "Zebras graze near the old windmill."}]}
    write_questions(synced.path, [lost, *QUESTIONS[1:]])
    said = rag_eval(synced, "sync", "--select", "golden_evidence").replace("\n", " ")
    assert "1 of 7 files gave no text: empty.md (empty_file)" in said
    assert "1 of 8 quotations were not found: q1 (questions.jsonl:1) in returns.md: not found in what the parser read" in said
    write_questions(synced.path, QUESTIONS[1:])
    assert "quotations" not in rag_eval(synced, "sync", "--select", "golden_questions"), "evidence of a question that is gone"


def test_a_reason_in_a_pipe_is_one_line(synced: Folder) -> None:
    systems = {**SETTINGS["systems"], "first": {**SETTINGS["systems"]["first"], "top_k": 2}}
    write_settings(synced.path, {**CHANGES, "systems": systems})
    (line,) = [line for line in rag_eval(synced, "status").splitlines() if line.startswith("system_specs") and "first" in line]
    assert re.search(r"input: files changed \([0-9a-f]{8} -> [0-9a-f]{8}\)$", line.rstrip())


def test_the_smallest_folder_of_the_readme_runs(tmp_path: Path) -> None:
    written = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    blocks = {kind: written.split(f"```{kind}\n")[1].split("```")[0] for kind in ("yaml", "json")}
    folder = Folder(tmp_path / "smallest")
    evidence = json.loads(blocks["json"])["evidence"][0]
    document = folder.corpus / evidence["document"]
    document.parent.mkdir(parents=True)
    document.write_text(f"# Pump P1\n\n{evidence['quotation']} Use grease no. 2.\n")
    folder.golden.mkdir()
    (folder.golden / "questions.jsonl").write_text(blocks["json"])
    (folder.path / "evaluation.yaml").write_text(blocks["yaml"])
    said = rag_eval(folder, "sync")
    assert "asset partitions materialized" in said
    assert "were not found" not in said
    assert "pumps/p1.md" in rag_eval(folder, "inspect", "q1")


def test_inspect_shows_lineage_up_to_the_source_files(synced: Folder) -> None:
    said = rag_eval(synced, "inspect", "chunks", "whole")
    assert said.startswith("chunks[whole]: data ")
    for word in ("unique_documents:", "parsed_documents[unstructured]:", "source_documents:", "returns.md  sha256", "setting tokenizer"):
        assert word in said


def test_inspect_tells_the_story_of_a_question(synced: Folder) -> None:
    said = rag_eval(synced, "inspect", "q1")
    for word in (
        "How long may an unused kettle be returned?",
        "expected: 30 days",
        "returns.md",
        "system first",
        "delivered",
        "answer (ok)",
        "evidence g1: in the context, and the answer passed",
    ):
        assert word in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("inspect", "nobody"), "nothing goes by 'nobody': give an asset, or the id of"),
        (("inspect", "chunks", "nobody"), "chunks has the partitions window-16-o0, whole"),
        (("sync", "--select", "nobody"), "no asset nobody; known: source_documents"),
        (("sync", "--partition", "nobody"), "no partition 'nobody'; known:"),
        (("sync", "--select", "chunks", "--partition", "first"), "chunks has no partition 'first'; it has window-16-o0, whole"),
        (("baseline", "save", "june", "nobody"), "no system 'nobody'; known: first, second"),
    ],
)
def test_an_unknown_name_is_one_line_that_lists_what_there_is(synced: Folder, words: tuple[str, ...], message: str) -> None:
    said = rag_eval(synced, *words, code=2)
    assert said.startswith("error ")
    assert message in said
    assert "Traceback" not in said


def test_more_losses_than_are_named_come_with_the_query_for_all(synced: Folder) -> None:
    for number in range(7):
        (synced.corpus / f"empty-{number}.md").write_text("")
    said = rag_eval(synced, "sync", "--select", "documents")
    (query,) = re.findall(r' and 2 more; all: rag-eval sql --format csv "(.+)"\n', said)
    found = list(csv.DictReader(io.StringIO(rag_eval(synced, "sql", "--format", "csv", query))))
    assert [row["doc_id"] for row in found] == [f"empty-{number}.md" for number in range(7)]


def test_a_document_that_cleaning_left_little_of_is_told_with_its_sizes(synced: Folder) -> None:
    parsers = {"unstructured": {"kind": "unstructured", "classes": ["markdown", "text", "html"]}}
    write_settings(synced.path, {**CHANGES, "parsers": parsers, "parser_of": dict.fromkeys(("markdown", "text", "html"), "unstructured")})
    menu = "".join(f"<li>Entry {number} of a menu that is long</li>" for number in range(9))
    page = f"<html><body><nav><ul>{menu}</ul></nav><article><p>Only this sentence is about kettles.</p></article></body></html>"
    (synced.corpus / "menu.html").write_text(page)
    said = " ".join(rag_eval(synced, "sync", "--select", "documents").split())
    assert re.search(r"cleaning left out more than half of 1 documents: menu\.html \(kept 36 of \d+ characters\)", said)


def test_a_golden_set_without_questions_is_told(synced: Folder) -> None:
    write_questions(synced.path, [])
    assert "The golden set holds no question" in rag_eval(synced, "sync", "--select", "golden_questions")
    assert "The golden set holds no question" in rag_eval(synced, "sample")


def test_without_a_table_of_questions_nobody_says_that_there_is_no_such_question(synced: Folder) -> None:
    Path(synced.tables, "golden_questions.parquet").unlink()
    assert re.match(r"error golden_questions is not there \(.*run 'rag-eval sync'", rag_eval(synced, "inspect", "q1", code=2))


@pytest.mark.parametrize(("command", "told"), [("status", " fresh, 0 missing, 1 stale"), ("verify", "Every file is whole")])
def test_what_only_reads_works_where_no_cache_can_be_written(synced: Folder, command: str, told: str) -> None:
    (synced.corpus / "shipping.md").touch()
    write_questions(synced.path, QUESTIONS[1:])
    for cache in ("scan.json", "state.json", "source.json"):  # a folder in its place refuses the administrator too
        (synced.state / cache).unlink(missing_ok=True)
        (synced.state / cache / "x").mkdir(parents=True)
    assert told in rag_eval(synced, command)


def test_a_damaged_database_of_dagster_is_one_error_and_mended_as_it_says(synced: Folder) -> None:
    database = synced.state / "dagster" / "history" / "runs" / "index.db"
    database.write_bytes(b"no database" * 1_000)
    said = rag_eval_process(synced, "sync", code=2)
    assert said.startswith(f"error {database}: a database of Dagster is damaged. Remove the folder {synced.state / 'dagster'}: ")
    shutil.rmtree(synced.state / "dagster")
    said = rag_eval(synced, "sync")
    assert "documents: Dagster did not know the file" in said
    assert "Nothing is stale" in said


def test_an_interrupt_is_one_word_in_any_command_and_while_it_is_imported(
    synced: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rag_eval_assets import __main__, cli

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(cli.atexit, "_run_exitfuncs", lambda: None)
    monkeypatch.setattr(sys, "argv", ["rag-eval", "--data", str(synced.path), "verify"])
    monkeypatch.setattr("rag_eval_assets.storage.verify.verify_tables", interrupted)
    __main__.main()
    monkeypatch.setattr(cli, "run", interrupted)
    __main__.main()
    assert (ended, capsys.readouterr().err) == ([130, 130], "interrupted\ninterrupted\n")
    light = "import rag_eval_assets.__main__, sys; print(sorted(m for m in sys.modules if m in ('typer', 'pydantic', 'numpy', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", light], capture_output=True, text=True).stdout == "[]\n"


def test_a_slice_is_a_field_of_the_questions_or_one_of_their_own(synced: Folder) -> None:
    write_questions(synced.path, [{**QUESTIONS[0], "slices": {"region": "north"}}, *QUESTIONS[1:]])
    write_settings(synced.path, {**CHANGES, "slices": ["intent", "region"]})
    assert 'slices ["intent"] -> ["intent","region"]' in rag_eval(synced, "sync", "--dry-run")
    write_settings(synced.path, {**CHANGES, "slices": ["intent", "langauge"]})
    said = rag_eval(synced, "sync", code=2)
    assert re.search(r"evaluation\.yaml:\d+: slices: no question has 'langauge'; known: answerable, .*, region$", said.strip())


def test_a_field_that_dedup_must_not_merge_across_is_one_that_documents_have(synced: Folder) -> None:
    write_settings(synced.path, {**CHANGES, "filters": ["locale", "topci"]})
    said = rag_eval(synced, "sync", code=2)
    assert re.search(r"evaluation\.yaml:\d+: filters: no document has 'topci'; known: .*locale", said.strip())


def test_a_filter_on_a_field_that_no_document_has_stops_before_anything_runs(synced: Folder) -> None:
    write_questions(synced.path, [*QUESTIONS[1:], {**QUESTIONS[0], "filter": {"prodct": "kettle"}}])
    said = rag_eval(synced, "sync", code=2)
    assert re.match(
        r"error \S+questions\.jsonl:9: question 'q1': filter\.prodct: is a field that no document has; known: doc_class, ", said
    )
    assert "run  " not in said


def test_a_bad_golden_line_stops_before_anything_runs(synced: Folder) -> None:
    write_questions(synced.path, [*QUESTIONS, {"id": "q10", "question": "?", "split": "release", "colour": "red"}])
    said = rag_eval_process(synced, "sync", code=2)
    assert "questions.jsonl:10" in said
    assert "'q10'" in said
    assert "colour" in said
    assert "Traceback" not in said


def test_prune_lists_first_and_removes_when_told(synced: Folder) -> None:
    assert "Nothing is left over." in rag_eval(synced, "prune")
    write_settings(synced.path, {**CHANGES, "systems": {"first": SETTINGS["systems"]["first"]}})
    rag_eval(synced, "sync")
    table = Path(synced.tables, "answers", "second.parquet")
    assert "left over: " in rag_eval(synced, "verify")
    said = rag_eval(synced, "prune")
    assert re.search(r"\d+ files of \d+ bytes can go: pass --delete", said)
    assert table.exists()
    assert re.search(r"\d+ files of \d+ bytes removed", rag_eval(synced, "prune", "--delete"))
    assert not table.exists()
    assert "left over" not in rag_eval(synced, "verify")
    assert "Nothing is stale" in rag_eval(synced, "sync")


def test_verify_names_what_is_torn_foreign_and_missing(synced: Folder) -> None:
    assert "Every file is whole" in rag_eval(synced, "verify")
    tables = Path(synced.tables)
    (tables / "chunks" / "whole.parquet").write_bytes(b"PAR1 no more")
    (tables / "documents.parquet").unlink()
    (tables / "notes.txt").write_text("mine")
    said = rag_eval_process(synced, "verify", code=1)
    assert "torn: " in said
    assert "chunks/whole.parquet" in said
    assert "missing: 1 asset partitions have no file: documents. Run 'rag-eval sync'.\n" in said
    assert "foreign: " in said
    assert "notes.txt" in said


@pytest.mark.parametrize(("finder", "code", "told"), [("verify", 1, "torn: "), ("sync", 2, "Run 'rag-eval sync', which makes it anew.")])
def test_damage_that_keeps_size_and_time_is_mended_once_something_read_it(synced: Folder, finder: str, code: int, told: str) -> None:
    path = Path(synced.tables, "documents.parquet")
    before, data = path.stat(), bytearray(path.read_bytes())
    data[-20] ^= 1  # in the footer, which every reader needs
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert told in rag_eval(synced, finder, code=code)
    assert "1 asset partitions materialized" in rag_eval(synced, "sync")
    assert "Every file is whole" in rag_eval(synced, "verify")


def test_a_blocking_gate_is_exit_code_three(synced: Folder) -> None:
    gates = {
        "mrr": {"source": "system_summary", "metric": "RR", "at_least": 1.0},
        "impossible": {"source": "system_summary", "metric": "P", "k": 5, "at_least": 1.0},
    }
    write_settings(synced.path, {**CHANGES, "gates": gates})
    said = rag_eval_process(synced, "sync", code=3)
    assert "FAIL impossible on first" in said


def test_a_sample_to_read_by_hand_is_the_same_for_one_seed(synced: Folder) -> None:
    first = rag_eval(synced, "sample", "3", "--seed", "5")
    assert first == rag_eval(synced, "sample", "3", "--seed", "5") != rag_eval(synced, "sample", "3", "--seed", "6")
    assert first.count("expected:") == 3
    whole = rag_eval(synced, "sample")
    assert "expected: a refusal" in whole
    assert "None" not in whole
    assert '[1] safety.txt "Safety Never immerse the base in water.' in whole


def test_a_report_can_be_written_anywhere(synced: Folder, tmp_path: Path) -> None:
    rag_eval(synced, "report", "--to", str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").read_text().lower().startswith("<!doctype html>")
    for place, why in ((tmp_path, "Is a directory"), (tmp_path / "out" / "report.html", "No such file or directory")):
        assert rag_eval(synced, "report", "--to", str(place), code=2) == f"error {place}: {why}\n"


def test_a_subset_is_a_folder_that_syncs_by_itself(synced: Folder) -> None:
    written = rag_eval(synced, "subset", "--number", "3").splitlines()[0]
    assert Path(written) == synced.path / ".rag_eval" / "pr"
    rag_eval(Folder(written), "sync", "--select", "golden_coverage")
    told = rag_eval(Folder(written), "sql", "--format", "csv", "select count(*) from golden_questions")
    assert told.split() == ["count_star()", "3"]
    assert "Nothing is stale" in rag_eval(synced, "sync")


def test_holes_names_what_nobody_judged(synced: Folder) -> None:
    told = rag_eval(synced, "holes", "first", "--depth", "2")
    assert re.search(r"^first  q1  [12]  \S+$", told, re.M)
    assert re.search(r"^first: \d+ unjudged documents in the first 2 of \d+ questions$", told, re.M)
    assert "no system 'x'" in rag_eval(synced, "holes", "x", code=2)
