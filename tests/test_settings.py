"""Settings: every error names file, line and field; names resolve; defaults hold; the folder knows its places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_eval_assets.settings import DATA_VARIABLE, Folder, Settings, read_settings
from rag_eval_assets.settings.checks import CATEGORIES, cron_problem
from rag_eval_assets.strict import SettingsError

MINIMAL = """\
parsers:
  text: {kind: unstructured, classes: [text]}
parser_of:
  text: text
chunkings:
  - {strategy: window, size: [64, 128], overlap: 8}
  - {strategy: whole}
retrievers:
  bm25: {kind: bm25}
  dense: {kind: dense, chunkings: [whole]}
systems:
  first:
    chunking: whole
    retriever: bm25
    depth: 10
"""


def read(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "evaluation.yaml"
    path.write_text(text, encoding="utf-8")
    return read_settings(path)


def complaint(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    return [line.replace(f"{tmp_path}/", "") for line in str(caught.value).splitlines()]


def test_the_smallest_folder_needs_parsers_chunkings_retrievers_and_systems_only(tmp_path: Path) -> None:
    found = read(tmp_path, MINIMAL)
    assert (found.tokenizer, found.sweep.margin, found.nightly.cron) == ("cl100k_base", 0.02, "0 2 * * *")
    assert complaint(tmp_path, "") == [
        f"evaluation.yaml:1: {name}: is required (README.md has the smallest evaluation.yaml)"
        for name in ("parsers", "parser_of", "chunkings", "retrievers", "systems")
    ]


def test_the_sample_folder_and_the_repository_agree(tmp_path: Path) -> None:
    assert Folder.from_environment().settings.systems


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("depth: 10", "depht: 10", "15: systems.first.depht: no such setting; known: kind, chunking, retriever, "),
        ("depth: 10", "depth: 0", "15: systems.first.depth: Input should be greater than or equal to 1"),
        ("depth: 10", "depth: many", "15: systems.first.depth: Input should be a valid integer"),
        ("depth: 10", "depth: 10\n    top_k: 11", "12: systems.first: top_k 11 is over depth 10"),
        ("kind: bm25}", "kind: bm52}", "9: retrievers.bm25.kind: Input should be 'bm25', 'rm3', 'dense', 'run_file', 'rrf', 'weighted', 'convex', 'rerank', 'rewrite', 'multi_query' or 'hyde'"),
        ("kind: bm25}", "kind: rrf}", "9: retrievers.bm25: 'of' names the retrievers, each once, that kind rrf builds on"),
        ("{strategy: whole}", "{strategy: whole, pages: 2}", "7: chunkings.1.pages: no such setting; known: strategy, size, overlap, parent, percentile, embedder"),
        ("{strategy: whole}", "{strategy: [whole]}", "7: chunkings.1.strategy: Input should be a valid string"),
        ("classes: [text]", "classes: []", "2: parsers.text.classes: is a list of 0; give at least 1"),
        ("classes: [text]", "classes: text", "2: parsers.text.classes: is no list; write [text]"),
        ("parsers:", "slices: {intent: 1}\nparsers:", "1: slices: is no list; begin each of its items with '- '"),
        ("parsers:", "scoring: 5\nparsers:", "1: scoring: is no mapping; write each of its parts as 'name: value'"),
        ("parsers:", "colour: red\nparsers:", "1: colour: no such setting; known: name, "),
        ("parsers:", "scoring: {ks: [5, 0]}\nparsers:", "1: scoring.ks: cut-offs must be positive"),
        ("parsers:", "scoring: {ks: [5, 5]}\nparsers:", "1: scoring.ks: cut-offs must be positive and differ"),
        ("parsers:", "nightly: {timezone: Mars/Base}\nparsers:", "1: nightly.timezone: 'Mars/Base' is no IANA"),
        ("parsers:", "gates: {g: {source: ann_recall, metric: recall}}\nparsers:", "1: gates.g: give exactly one of"),
        ("parsers:", "nightly: {cron: '0 25 * * *'}\nparsers:", "1: nightly.cron: '25' is no hour: 0 to 23, *, a range"),
        ("parsers:", "nightly: {cron: '0 2 * *'}\nparsers:", "1: nightly.cron: '0 2 * *' has 4 fields; a cron line has five: minute"),
        ("kind: bm25}", "kind: bm25, k1: .inf}", "9: retrievers.bm25.k1: Input should be a finite number"),
        ("parsers:", "seed: true\nparsers:", "1: seed: is true or false; a number is wanted"),
        ("parsers:", "scoring: {ks: [yes]}\nparsers:", "1: scoring.ks: is true or false; a number is wanted"),
        ("parsers:", "storage: s4://bucket\nparsers:", "1: storage: no protocol 's4'; known: "),
        ("parsers:", "storage: evaluation.yaml/tables\nparsers:", "1: storage: "),
        ("parsers:", "dedup: {sweep_thresholds: [0.5, 8]}\nparsers:", "1: dedup.sweep_thresholds.1: Input should be less than or equal to 1"),
        ("parsers:", "dedup: {permutations: 1000000}\nparsers:", "1: dedup.permutations: Input should be less than or equal to 4096"),
        ("parsers:", "ann: {selectivities: [0]}\nparsers:", "1: ann.selectivities.0: Input should be greater than 0"),
        ("parsers:", "classes: [{glob: 'a[b', doc_class: x}]\nparsers:", "1: classes.0.glob: 'a[b' is no glob: a '[' is not closed"),
        ("parsers:", "classes: [{glob: '[z-a]', doc_class: x}]\nparsers:", "1: classes.0.glob: '[z-a]' is no glob: bad character range"),
        ("parsers:", "classes: [{glob: 'scans/', doc_class: x}]\nparsers:", "1: classes.0.glob: 'scans/' matches no file"),
        ("parsers:", "gates: {G: {source: ann_recall, metric: r, at_least: 1}}\nparsers:", "1: gates.G: String should match"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    found = complaint(tmp_path, MINIMAL.replace(old, new, 1))
    assert len(found) == 1
    assert found[0].startswith(f"evaluation.yaml:{message}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("text: text", "text: txt", "4: parser_of.text: no parser 'txt'; known: text"),
        ("  text: text", "  pdf: text", "4: parser_of.pdf: parser 'text' does not declare class 'pdf' in its classes"),
        (
            "chunking: whole",
            "chunking: page",
            "13: systems.first.chunking: no chunking 'page'; known: window-64-o8, window-128-o8, whole",
        ),
        ("retriever: bm25", "retriever: splade", "14: systems.first.retriever: no retriever 'splade'"),
        ("depth: 10", "depth: 101", "15: systems.first.depth: 101 is over scoring.depth 100"),
        ("chunkings: [whole]", "chunkings: [page]", "10: retrievers.dense.chunkings: no chunking 'page'"),
        ("kind: dense", "kind: dense, embedder: e5", "10: retrievers.dense.embedder: no embedder 'e5'"),
        ("kind: bm25}", "kind: rrf, of: [dense]}", "9: retrievers.bm25.chunkings: lane 'dense' does not run on all of them"),
        (
            "kind: bm25}",
            "kind: rrf, of: [bm25]}",
            "9: retrievers.bm25.of: 'bm25' is no retriever of kind bm25, rm3, dense, run_file, rewrite, multi_query, hyde",
        ),
        ("parsers:", "scoring: {pass_metric: correkt}\nparsers:", "1: scoring.pass_metric: no answer metric 'correkt'; known: correct, "),
        ("parsers:", "scoring: {pass_metric: R}\nparsers:", "1: scoring.pass_metric: no answer metric 'R'"),
        ("parsers:", "sweep: {metric: ndcg}\nparsers:", "1: sweep.metric: no ranking metric 'ndcg'; known: P, R, RR, Success, nDCG"),
        (
            "parsers:",
            "cleaning: {drop_categories: [header]}\nparsers:",
            "1: cleaning.drop_categories: no category 'header'; known: Address, ",
        ),
        (
            "parsers:",
            "models: {m: {base_url: 'http://h/v1', model: x}}\njudges: {j: {model: m, metrics: [faithfullness]}}\nparsers:",
            "2: judges.j.metrics: no judged metric 'faithfullness'; known: faithfulness, context_recall, context_precision",
        ),
        ("parsers:", "judges: {j: {model: m}}\nparsers:", "1: judges.j.model: no model 'm'; known: "),
        (
            "parsers:",
            "models: {m: {base_url: 'http://h/v1', model: x}}\njudges: {j: {model: m, pairs: [[first, last]]}}\nparsers:",
            "2: judges.j.pairs.0: no system 'last'; known: first",
        ),
        (
            "parsers:",
            "models: {m: {base_url: 'http://h/v1', model: x}}\njudges: {j: {model: m, pairs: [[first, first]]}}\nparsers:",
            "2: judges.j.pairs.0: pairs 'first' with itself; name two systems",
        ),
        ("parsers:", "ann: {chunkings: [page]}\nparsers:", "1: ann.chunkings: no chunking 'page'"),
        (
            "strategy: whole",
            "strategy: holistic",
            "5: chunkings: no strategy 'holistic'; known: page, parent_child, recursive, semantic, sentence, structural, whole, window",
        ),
    ],
)
def test_a_name_that_stands_for_nothing_is_told_with_where_it_stands(tmp_path: Path, old: str, new: str, message: str) -> None:
    found = complaint(tmp_path, MINIMAL.replace(old, new, 1))
    assert len(found) == 1
    assert found[0].startswith(f"evaluation.yaml:{message}")


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("source: system_summary, metric: recall", "metric: no metric of system_summary 'recall'; known: AP, P, R, "),
        ("source: system_summary, metric: correct", "unit: correct is not counted by document; known: question"),
        ("source: system_summary, metric: R, k: 7", "k: R by document is not scored at 7; known: 1, 3, 5, 10, 20 "),
        ("source: system_summary, metric: RR, scope: [second]", "scope: no scope of system_summary 'second'; known: first"),
        ("source: ann_recall, metric: queries_per_second", "metric: no metric of ann_recall 'queries_per_second'; known: recall, "),
        ("source: ann_recall, metric: recall, k: 5", "k: 5 is not measured; ann.k is 10"),
        ("source: ann_recall, metric: recall, scope: [window-64-o8]", "scope: no scope of ann_recall 'window-64-o8'; known: whole, minilm"),
        ("source: filter_exclusion, metric: exclusion", "metric: no metric of filter_exclusion 'exclusion'; known: false_exclusion"),
        ("source: parse_quality, metric: cerr", "metric: no metric of parse_quality 'cerr'; known: parsed, cer, wer, "),
        ("source: parse_quality, metric: cer, scope: [text/pdf]", "scope: no scope of parse_quality 'text/pdf'; known: text, text/text"),
        ("source: dedup_quality, metric: f1", "metric: no metric of dedup_quality 'f1'; known: precision, recall, "),
        ("source: dedup_quality, metric: recall, scope: [all]", "scope: no scope of dedup_quality 'all'; known: corpus"),
    ],
)
def test_a_gate_that_names_what_its_source_does_not_have_is_told_with_what_it_has(tmp_path: Path, gate: str, message: str) -> None:
    (found,) = complaint(tmp_path, f"gates: {{g: {{{gate}, at_least: 0.5}}}}\n{MINIMAL}")
    assert found.startswith(f"evaluation.yaml:1: gates.g.{message}")


@pytest.mark.parametrize(
    "gate",
    [
        "source: system_summary, metric: R, k: 500, unit: group",
        "source: system_summary, metric: ragas_faithfulness@j, unit: question",
        "source: system_summary, metric: hallucination@j, unit: question",
        "source: system_summary, metric: context_recall, unit: group",
        "source: ann_recall, metric: recall, k: 10, scope: [whole/minilm]",
        "source: parse_quality, metric: evidence_located, scope: [text]",
    ],
)
def test_a_gate_on_anything_that_is_scored_is_accepted(tmp_path: Path, gate: str) -> None:
    judges = "models: {m: {base_url: 'http://h/v1', model: x}}\njudges: {j: {model: m, metrics: [faithfulness, hallucination]}}\n"
    assert read(tmp_path, f"{judges}gates: {{g: {{{gate}, at_least: 0.5}}}}\n{MINIMAL}").gates


def test_cron_lines_are_accepted_as_dagster_accepts_them_and_nothing_more() -> None:
    from dagster._utils.schedules import is_valid_cron_string

    good = [
        "0 2 * * *",
        "*/5 * * * *",
        "1-5,7 0-23/2 * * *",
        "0 0 ? jan,3 *",
        "0 0 * * mon-FRI",
        "5/10 * * * 7",
        "0 0 31 4,5 *",
    ]
    bad = ["60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *", "a * * * *", "1,,2 * * * *", "-5 * * * *",
           "0 2 * *", "* * * * * *", "", "0 0 30 2 *", "0 0 30 2 mon", "0 0 31 4,6 *", "1-2-3 * * * *", "@daily"]  # fmt: skip
    assert [line for line in good if cron_problem(line)] == []
    assert [line for line in bad if not cron_problem(line)] == []
    assert [line for line in good if not is_valid_cron_string(line)] == []


def test_every_category_of_unstructured_may_be_dropped() -> None:
    from unstructured.documents.elements import TYPE_TO_TEXT_ELEMENT_MAP

    from ingestion.parsers.elements import FURNITURE

    assert {kind.category for kind in TYPE_TO_TEXT_ELEMENT_MAP.values()} | FURNITURE | {"Footnote"} <= set(CATEGORIES)


@pytest.mark.parametrize("text", ["a: [1", "\tparsers: 1", "a: b: c", "- 1", "just words", "!!python/object:os.system x"])
def test_a_text_that_is_no_settings_is_an_error_that_names_a_line(tmp_path: Path, text: str) -> None:
    assert complaint(tmp_path, text)[0].startswith("evaluation.yaml:1: ")


def test_a_key_that_stands_twice_is_an_error_and_not_the_last_one_wins(tmp_path: Path) -> None:
    text = MINIMAL.replace("  bm25: {kind: bm25}", "  bm25: {kind: bm25}\n  bm25: {kind: bm25, k1: 2.0}")
    assert complaint(tmp_path, text) == ["evaluation.yaml:10: bm25: stands twice in one mapping; keep one"]


def test_bytes_that_are_no_utf8_and_bottomless_nesting_are_errors_that_name_a_line(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.yaml"
    path.write_bytes(MINIMAL.encode() + b"name: caf\xe9\n")
    with pytest.raises(SettingsError, match=r"evaluation\.yaml:16: no UTF-8 text; save the file as UTF-8"):
        read_settings(path)
    path.write_text("name: " + "[" * 5000)
    with pytest.raises(SettingsError, match=r"evaluation\.yaml:1: nested too deeply"):
        read_settings(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("bomb", "line"),
    [
        # 10 nodes on the first line and 9 times as many and one more on each below: 66,430 on the fifth, 597,871 on the sixth.
        ("a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(30)), 6),
        # 3 nodes on the first line; a mapping, its key, a list and 9 times as many on each below: 22,143 on the fifth, 199,290 on the sixth.
        ("a0: &a0 {x: 1}\n" + "".join(f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}\n" for n in range(30)), 6),
        ("name: &a [*a]\n", 1),
        ("slices: [x]\nname: &a {b: *a}\n", 2),
    ],
)
def test_aliases_that_stand_for_billions_of_values_or_for_themselves_are_refused_unread(tmp_path: Path, bomb: str, line: int) -> None:
    (tmp_path / "evaluation.yaml").write_text(MINIMAL + bomb)
    place = rf"evaluation\.yaml:{MINIMAL.count(chr(10)) + line}: its aliases stand for more than 100,000 values"
    with pytest.raises(SettingsError, match=place):
        read_settings(tmp_path / "evaluation.yaml")


@pytest.mark.parametrize("name", ["con", "nul.bm25", "a..b", "a.", "../up", "a/b", "a\\\\b", "x\\0", "ａ", "lpt1"])
def test_a_name_after_which_no_file_can_be_named_everywhere_is_refused_where_it_stands(tmp_path: Path, name: str) -> None:
    (line,) = complaint(tmp_path, MINIMAL.replace("  bm25: {kind: bm25}", f'  bm25: {{kind: bm25}}\n  "{name}": {{kind: bm25}}'))
    assert re.match(r"evaluation\.yaml:\d+: retrievers\.", line)


def test_an_alias_in_measure_is_what_it_stands_for(tmp_path: Path) -> None:
    text = MINIMAL.replace("  bm25: {kind: bm25}", "  bm25: &one {kind: bm25}\n  other: *one")
    (tmp_path / "evaluation.yaml").write_text(text)
    settings = read_settings(tmp_path / "evaluation.yaml")
    assert settings.retrievers["other"] == settings.retrievers["bm25"]


def test_a_schema_of_answers_nested_without_end_is_an_error_of_the_setting(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"items":' * 100_000)
    (tmp_path / "evaluation.yaml").write_text(MINIMAL + "scoring: {answer_schema: schema.json}\n")
    with pytest.raises(SettingsError, match=r"scoring\.answer_schema: .*schema\.json: no JSON"):
        read_settings(tmp_path / "evaluation.yaml")


def test_a_missing_file_says_what_a_folder_holds(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no such file\. An evaluation folder holds evaluation\.yaml, corpus/ and golden/"):
        read_settings(tmp_path / "evaluation.yaml")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*Settings.model_fields, "kind"]), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(change=st.dictionaries(st.sampled_from(sorted(Settings.model_fields)), values, max_size=3))
def test_whatever_a_setting_holds_only_a_settings_error_escapes(tmp_path: Path, change: dict[str, Any]) -> None:
    try:
        read(tmp_path, yaml.safe_dump(yaml.safe_load(MINIMAL) | change))
    except SettingsError as error:
        told = str(error)
    else:
        told = "evaluation.yaml:"
    assert "evaluation.yaml:" in told


def test_retrievers_run_on_every_chunking_unless_they_name_some(tmp_path: Path) -> None:
    retrievers = read(tmp_path, MINIMAL).retrievers
    assert [retrievers["bm25"].runs_on(key) for key in ("whole", "window-64-o8")] == [True, True]
    assert [retrievers["dense"].runs_on(key) for key in ("whole", "window-64-o8")] == [True, False]


def test_where_a_retriever_runs_does_not_shape_its_ranking(tmp_path: Path) -> None:
    everywhere = read(tmp_path, MINIMAL.replace("kind: dense, chunkings: [whole]", "kind: dense")).retrievers["dense"]
    assert everywhere.parameters == read(tmp_path, MINIMAL).retrievers["dense"].parameters


def test_the_folder_comes_from_the_environment_and_keeps_its_state_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "here"))
    folder = Folder.from_environment()
    assert folder.corpus == tmp_path.resolve() / "here" / "corpus"
    assert folder.stores == tmp_path.resolve() / "here" / ".rag_eval" / "stores"


@pytest.mark.parametrize(("storage", "wanted"), [("", ".rag_eval/tables"), ("storage: memory://bucket/x\n", "memory://bucket/x")])
def test_tables_stand_in_the_state_folder_unless_settings_name_a_place(tmp_path: Path, storage: str, wanted: str) -> None:
    read(tmp_path, storage + MINIMAL)
    assert Folder(tmp_path).tables.endswith(wanted)


def test_bands_that_leave_no_row_are_an_error(tmp_path: Path) -> None:
    assert read(tmp_path, "dedup: {permutations: 64, bands: 64, sweep_bands: [64]}\n" + MINIMAL).dedup.bands == 64
    for wrong in ("permutations: 64, bands: 65", "sweep_permutations: [64, 128], sweep_bands: [16, 65]"):
        assert "65 bands of 64 permutations have no row" in complaint(tmp_path, f"dedup: {{{wrong}}}\n" + MINIMAL)[0]
    for wrong in ("sweep_bands: [0]", "sweep_permutations: [8]", "sweep_thresholds: [0]", "containment: 1.1"):
        assert "dedup" in complaint(tmp_path, f"dedup: {{{wrong}}}\n" + MINIMAL)[0]


def test_a_storage_without_a_protocol_is_a_path_from_the_folder_wherever_the_command_runs(tmp_path: Path) -> None:
    read(tmp_path, "storage: ../shared\n" + MINIMAL)
    assert Path(Folder(tmp_path).tables).resolve() == tmp_path.parent / "shared"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{kind: dense, k1: 2}", "9: retrievers.bm25: 'k1' is no setting of kind dense, but of bm25; leave it out"),
        ("{kind: rm3, of: [dense]}", "9: retrievers.bm25.of: 'dense' is no retriever of kind bm25"),
        ("{kind: hyde, of: [dense]}", "9: retrievers.bm25: kind hyde needs 'model'"),
        ("{kind: hyde, of: [dense], model: writer}", "9: retrievers.bm25.model: no model 'writer'; known: none; add one under models"),
        (
            "{kind: multi_query, of: [dense, dense], model: w}",
            "9: retrievers.bm25: 'of' names the one retriever that kind multi_query builds on",
        ),
        (
            "{kind: rewrite, of: [dense], model: w, queries: 2}",
            "9: retrievers.bm25: 'queries' is no setting of kind rewrite, but of multi_query; leave it out",
        ),
        ("{kind: rm3, of: [dense, dense]}", "9: retrievers.bm25: 'of' names the one retriever that kind rm3 builds on"),
        ("{kind: weighted, of: [dense], weights: [1, 2]}", "9: retrievers.bm25: 'weights' holds one weight for each"),
        ("{kind: weighted, of: [dense], weights: [0]}", "9: retrievers.bm25: 'weights' holds one weight for each"),
        ("{kind: rerank, of: [dense]}", "9: retrievers.bm25: kind rerank needs 'reranker'"),
        ("{kind: rerank, of: [dense], reranker: ce, chunkings: [whole]}", "9: retrievers.bm25.reranker: no reranker 'ce'"),
        ("{kind: rerank, of: [dense], reranker: ce, depth: 200, chunkings: [whole]}", "9: retrievers.bm25.depth: 200 is over"),
        ("{kind: run_file, path: a.trec}", "9: retrievers.bm25: 'chunkings' names the one chunking"),
        ("{kind: run_file, chunkings: [whole]}", "9: retrievers.bm25: kind run_file needs 'path'"),
    ],
)
def test_a_retriever_that_lacks_or_mixes_settings_is_told_what_its_kind_has(tmp_path: Path, line: str, message: str) -> None:
    found = complaint(tmp_path, MINIMAL.replace("{kind: bm25}", line, 1))
    assert any(line.startswith(f"evaluation.yaml:{message}") for line in found), found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{kind: minilm, context: written}", "embedders.e: 'context_model' names the model of 'context: written', and of no other context"),
        ("{kind: minilm, context_model: w}", "embedders.e: 'context_model' names the model of 'context: written'"),
        ("{kind: minilm, context_window: 2000}", "embedders.e: 'context_window': options of 'context: written'; leave them out"),
        (
            "{kind: minilm, context: written, context_model: w}",
            "embedders.e.context_model: no model 'w'; known: none; add one under models",
        ),
        (
            "{kind: minilm, context: written, context_model: w, pooling: late}",
            "embedders.e: with 'pooling: late' the document is the context",
        ),
    ],
)
def test_a_written_context_names_its_model_and_no_other_context_does(tmp_path: Path, line: str, message: str) -> None:
    found = complaint(tmp_path, MINIMAL + f"embedders:\n  e: {line}\n")
    assert any(message in told for told in found), found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{kind: endpoint, model: m}", "kind endpoint needs 'url'"),
        ("{kind: function, model: 'm:f'}", "kind function needs 'version'"),
        ("{kind: function, model: m, version: '1'}", "model 'm' is not module:function"),
        ("{kind: cross_encoder, model: m, mode: listwise}", "a cross-encoder is pointwise"),
    ],
)
def test_a_reranker_that_cannot_be_opened_is_refused(tmp_path: Path, line: str, message: str) -> None:
    (found,) = complaint(tmp_path, f"{MINIMAL}rerankers:\n  own: {line}\n")
    assert found.endswith(f"rerankers.own: {message}")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{base_url: 127.0.0.1/v1, model: x}", "models.m.base_url: is no http or https URL"),
        ("{base_url: 'https://user:pass@host/v1', model: x}", "models.m.base_url: holds more than an address; a key belongs in"),
        ("{base_url: 'https://host/v1?key=sk-1', model: x}", "models.m.base_url: holds more than an address; a key belongs in"),
        ("{base_url: 'http://h/v1', model: x, key_variable: sk-live-1}", "models.m.key_variable: names an environment variable"),
        ("{base_url: 'http://h/v1', model: x, spend_limit: 1}", "models.m: spend_limit needs prices"),
        ("{base_url: 'http://h/v1', model: x, spend_limit: 1, prices: {prompt: 1, completion: 1}, max_tokens: null}", "models.m: spend_limit needs max"),
        ("{base_url: 'http://h/v1', model: x, parameters: {n: 2}}", "models.m.parameters: may not name n"),
        ("{base_url: 'http://h/v1', model: x, concurrency: 0}", "models.m.concurrency: Input should be greater"),
        ("{base_url: 'http://h/v1', model: x, price: 1}", "models.m.price: no such setting; known: base_url, model, key_variable, "),
    ],
)  # fmt: skip
def test_a_bad_model_is_named_with_its_field_and_never_with_a_key(tmp_path: Path, model: str, message: str) -> None:
    found = complaint(tmp_path, f"models:\n  m: {model}\n" + MINIMAL)
    assert len(found) == 1
    assert found[0].startswith(f"evaluation.yaml:2: {message}")
    assert "sk-" not in found[0]
    assert "user:pass" not in found[0]


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        ("{kind: chat}", "systems.first.reader: 'model' names the model of kind chat"),
        ("{model: m}", "systems.first.reader: 'model' names the model of kind chat"),
        ("{kind: chat, model: gpt}", "systems.first.reader.model: no model 'gpt'; known: m"),
        ("{kind: chat, model: m, threshold: 0.5}", "systems.first.reader: threshold: options of kind extractive"),
    ],
)
def test_a_reader_names_a_model_that_is_there(tmp_path: Path, reader: str, message: str) -> None:
    text = "models: {m: {base_url: 'http://h/v1', model: x}}\n" + MINIMAL + f"    reader: {reader}\n"
    (found,) = complaint(tmp_path, text)
    assert found.startswith(f"evaluation.yaml:17: {message}")


def test_a_judge_is_a_model_of_the_settings(tmp_path: Path) -> None:
    models = "models: {m: {base_url: 'http://h/v1/', model: large, key_variable: LARGE_KEY}}\n"
    found = read(tmp_path, models + "judges: {named: {model: m}}\n" + MINIMAL).judge_parameters["named"]
    assert [found["endpoint"][k] for k in ("model", "base_url")] == ["large", "http://h/v1"]
    assert "LARGE_KEY" not in str(found)


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ("a: {metric: nDCG, k: 10, claim: non_inferiority}", "2: claims.a: non_inferiority needs a margin over 0, such as 0.02"),
        ("a: {metric: nDCG, k: 7, margin: 0.1}", "2: claims.a.k: nDCG by document is not scored at 7"),
        ("a: {metric: correct, margin: 0.1}", "2: claims.a.unit: correct is not counted by document; known: question"),
        (
            "a: {metric: ragas_string_similarity, unit: question, margin: 0.1}",
            "2: claims.a.metric: ragas_string_similarity is a similarity",
        ),
        (
            "a: {metric: unseen_entity_flag, unit: question, margin: 0.1}",
            "2: claims.a.metric: unseen_entity_flag is a flag",
        ),
        ("a: {metric: nDCG, k: 10, margin: 2}", "2: claims.a.margin: Input should be less than 1"),
        ("a: {metric: RR, margin: 0.1}\n  b: {metric: RR, margin: 0.2}", "3: claims.b: is the claim of 'a' again; keep one"),
    ],
)
def test_a_mistake_in_a_policy_names_its_file_line_and_field(tmp_path: Path, claims: str, message: str) -> None:
    (tmp_path / "policy.yaml").write_text(f"claims:\n  {claims}\n")
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, f"policy: policy.yaml\n{MINIMAL}")
    assert str(caught.value).startswith(f"{tmp_path / 'policy.yaml'}:{message}")


def test_the_policy_that_is_shipped_is_sound(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text((Path(__file__).parents[1] / "data" / "policy.yaml").read_text())
    claims = read(tmp_path, f"policy: policy.yaml\n{MINIMAL}").claims
    assert claims is not None
    assert set(claims.claims) == {"ranking-no-worse", "answers-no-worse"}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "name a file with a JSON Schema"),
        ("{", "no JSON"),
        ('{"oneOf": []}', "schema: keyword 'oneOf' is not understood"),
        ('{"properties": {"a": {"type": "text"}}}', "schema.properties.a.type: 'text' is unknown"),
    ],
)
def test_a_mistake_in_a_schema_of_answers_names_the_setting_and_the_schema(tmp_path: Path, schema: str | None, message: str) -> None:
    if schema is not None:
        (tmp_path / "answer.json").write_text(schema)
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, f"scoring: {{answer_schema: answer.json}}\n{MINIMAL}")
    assert str(caught.value).startswith(f"{tmp_path / 'evaluation.yaml'}:1: scoring.answer_schema: {tmp_path / 'answer.json'}")
    assert message in str(caught.value)


def test_a_gate_may_stand_on_the_schema_of_answers_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text('{"type": "object"}')
    gate = "gates: {form: {source: system_summary, metric: schema_conformance, unit: question, at_least: 0.9}}\n"
    found = read(tmp_path, f"scoring: {{answer_schema: answer.json}}\n{gate}{MINIMAL}")
    assert found.answer_schema == {"type": "object"}
    with pytest.raises(SettingsError, match="schema_conformance"):
        read(tmp_path, gate + MINIMAL)
