"""The page: complete, escaped, self-contained, the same bytes for the same rows."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_eval_assets.report import canvas, page, pictures
from rag_eval_assets.report.failures import implicated
from rag_eval_assets.tables import TABLES, WHOLE_LOG

Row = dict[str, Any]
Maker = Callable[..., Row]
Tables = dict[str, dict[str | None, list[Row]]]

PAYLOADS = (
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'><svg onload=alert(1)>", "<a href=\"javascript:alert(1)\">x</a>",
    "</style><iframe src=//evil.example>", "{{ 7 * 7 }}{% raw %}", "<!-- --><base href=//evil.example>", "]]></textarea><b>bold</b>",
)  # fmt: skip
# Columns whose closed lists steer the page; every other text column is anybody's text.
STEERING = {"split", "status", "lost_at", "slice", "row", "kind"}


class Markup(HTMLParser):
    """Everything a browser would take as markup, and the text beside it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {k: v or "" for k, v in attrs}))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"style", "title"} & set(self.open):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def check_safe(markup: Markup) -> None:
    """No script, nothing loaded, no handler, no address but anchors and pictures that are data."""
    allowed = {
        "html", "head", "meta", "title", "style", "body", "a", "div", "nav", "ol", "li", "span", "main", "header", "p", "h1", "h2", "h3",
        "strong", "section", "article", "ul", "dl", "dt", "dd", "svg", "line", "rect", "figure", "img", "figcaption", "table", "caption",
        "thead", "tbody", "tr", "th", "td", "details", "summary", "code", "br", "blockquote", "footer",
    }  # fmt: skip
    for tag, attributes in markup.tags:
        assert tag in allowed, tag
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in ("srcdoc", "action", "formaction", "style", "srcset", "background")
            assert "javascript:" not in value.lower()
            if name == "href":
                assert value.startswith("#")
            if name == "src":
                assert tag == "img"
                svg = base64.b64decode(value.removeprefix("data:image/svg+xml;base64,"), validate=True)
                assert b"<script" not in svg
        if tag == "meta":
            assert attributes.get("http-equiv", "") in ("", "Content-Security-Policy")


def planted(value: Any, type_: pa.DataType, texts: Iterator[str]) -> Any:
    """The value with every string in it replaced by a payload."""
    if value is None:
        return next(texts) if pa.types.is_string(type_) else None
    if pa.types.is_string(type_):
        return next(texts)
    if pa.types.is_list(type_):
        return [planted(v, type_.value_type, texts) for v in value]
    if pa.types.is_struct(type_):
        return {f.name: planted(value[f.name], f.type, texts) for f in type_}
    return value


def everywhere(tables: Tables) -> Tables:
    """The sample with a payload in every text column, in partition names too, but for what joins and steers."""

    def texts() -> Iterator[str]:
        n = 0
        while True:
            yield PAYLOADS[n % len(PAYLOADS)]
            n += 1

    supply = texts()
    hostile: Tables = {}
    for name, parts in tables.items():
        hostile[name] = {}
        for key, rows in parts.items():
            mark = None if key is None else f"{key} {PAYLOADS[len(key) % len(PAYLOADS)]}"
            hostile[name][mark] = [
                {
                    f.name: row[f.name] if f.name in STEERING | {"question_id"} else planted(row[f.name], f.type, supply)
                    for f in TABLES[name].schema
                }
                for row in rows
            ]
    for row in hostile["system_scores"]["baseline " + PAYLOADS[len("baseline") % len(PAYLOADS)]]:
        row["metric"] = "correct"
    return hostile


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without the time that pictures take, for tests of text."""
    monkeypatch.setattr(canvas, "_drawn", {})
    monkeypatch.setattr(canvas, "draw", lambda title, inches, paint: b"<svg/>")


def words(tables: Tables, **more: Any) -> str:
    return Markup(page.render(tables, name="test", **more)).words


def test_the_sample_keeps_the_contract_of_the_tables(sample: Tables) -> None:
    for name, parts in sample.items():
        schema = TABLES[name].schema
        for rows in parts.values():
            assert pa.Table.from_pylist(rows, schema=schema).num_rows == len(rows)
            assert not [(r, f.name) for r in rows for f in schema if r[f.name] is None and not f.nullable]


def test_the_page_loads_nothing_and_runs_nothing(html: str) -> None:
    markup = Markup(html)
    check_safe(markup)
    policy = next(a["content"] for t, a in markup.tags if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert not re.search(r"@import|url\(|https?://", re.sub(r"base64,[A-Za-z0-9+/=]+", "", html))


def test_hostile_text_in_every_column_stays_text(sample: Tables, undrawn: None) -> None:
    html = page.render(everywhere(sample), name=PAYLOADS[0], pass_metric="correct")
    markup = Markup(html)
    check_safe(markup)
    for payload in PAYLOADS:
        assert payload in markup.words
    assert "49" not in re.findall(r"\b49\b", markup.words)


def test_the_same_rows_give_the_same_bytes_in_another_process(html: str) -> None:
    script = (
        "import hashlib, sys; sys.path.insert(0, sys.argv[1]); import conftest; from rag_eval_assets.report import page;"
        "html = page.render(conftest.make_sample(), name='Company knowledge base');"
        "print(hashlib.sha256(html.encode()).hexdigest())"
    )
    environment = os.environ | {"PYTHONHASHSEED": "4242", "TZ": "Asia/Tokyo"}
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=180)
    assert told.stdout.strip() == hashlib.sha256(html.encode()).hexdigest()


def test_no_time_of_day_or_date_is_on_the_page(html: str) -> None:
    assert not re.search(r"20\d\d-\d\d-\d\d|\d\d:\d\d", Markup(html).words)


def test_the_page_needs_only_the_columns_it_says_it_reads(undrawn: None, sample: Tables) -> None:
    least: Tables = {
        name: {key: [{c: row[c] for c in page.READS[name]} for row in rows] for key, rows in parts.items()}
        for name, parts in sample.items()
    }  # fmt: skip
    assert set(page.READS) == set(sample)
    assert page.render(least, name="test") == page.render(sample, name="test")


def test_the_page_sets_a_retriever_against_each_one_it_is_built_on(html: str) -> None:
    section = html[html.index('<section id="retrievers"') : html.index('<section id="embedders"')]
    rows = re.findall(r"<tr>.*?</tr>", section)[1:]
    assert "warning 12.5% – runs/theirs.trec:7: retriever 'theirs': 1 of 8 hits stand for no chunk" in " ".join(Markup(html).words.split())
    told = [re.sub(r"<[^>]+>", " ", row) for row in rows]
    assert len(told) == 2  # the row of a retriever by itself decides nothing
    assert "bm25" in told[0]
    assert "keep" in told[0]
    assert "+8.0" in told[0]
    assert "0.012 / 0.250" in told[0]
    assert "1,234" in told[0]
    assert "dense" in told[1]
    assert "undecided" in told[1]
    assert "this fusion is below one of its lanes" in told[1]


def test_experiments_are_shown_beside_the_system_as_it_is(html: str, sample: Tables) -> None:
    words = " ".join(Markup(html).words.split())
    assert "Replayed experiments" in words
    assert "place of the relevant passages middle 45.0% [35.0%, 55.0%] −15.0 [−23.1, −7.0] 112" in words
    assert "5 as it is 60.0%" in words
    assert "80 the ranking was recorded to depth 50" in words
    del sample["replay_experiments"]["baseline"]
    assert "Replayed experiments" not in page.render(sample, name="x")


def test_the_page_tells_what_filters_hide_and_whether_they_may_be_hard(html: str) -> None:
    page_words = Markup(html).words
    assert "legal/a<b>.md (2 of 3)" in page_words
    assert "predicate precision" in page_words
    assert "the gain's lower limit -0.0200 is under 0.01" in page_words


def test_recorded_times_and_costs_are_shown_for_the_split_of_the_page(html: str, sample: Tables) -> None:
    words = Markup(html).words
    shown = words[words.index("Recorded figures by system") :][:600]
    assert re.search(r"baseline seconds to the first token 0\.25\d* 0\.75\d* 1\.5\d*", shown)
    assert re.search(r"baseline seconds to the whole reply 1\.25\d* 3\.5\d* 4\.75\d*", shown)
    assert re.search(r"baseline seconds to the ranking 0\.125\d* 0\.25\d* 0\.5\d*", shown)
    assert "replies that needed no call in the last run – – – 75.0% 45" in shown
    assert shown.count("baseline") == 5  # one split, five figures
    sample["system_costs"]["baseline"] = []
    assert "Time and cost" not in page.render(sample, name="x")


def test_judges_are_shown_against_people_with_their_preferences_and_corrected_rates(html: str, sample: Tables, row: Maker) -> None:
    words = " ".join(Markup(html).words.split())
    # 54 of 60, 2 of 20, 4 of 40 with exact limits.
    assert "panel claim faithfulness yes 90.0% [79.4%, 96.3%] 10.0% [1.2%, 31.7%] 10.0% [2.7%, 23.7%] – 60" in words
    assert "small-model-of-a-long-name preference no 55.0% [41.6%, 67.9%] – –" in words
    assert "panel hybrid-512 baseline 62.5% [47.5%, 77.5%] 52.5%" in words
    assert "40 1 no audit shows that both orders together agree better with people than one" in words
    # 40 of 50 approved, by the exact limits.
    assert "claim faithfulness @ panel 80.0% [66.2%, 90.0%] 87.5% [69.0%, 100.0%] 90.0% of 40 90.0% of 20 50" in words
    assert "entailment @ panel 40.0% [26.4%, 54.9%] – 90.0% of 40 – of 0 50 no human label covers this measure" in words
    silent = row("judge_audit", judge="none", measure="accuracy", status="not_applicable", reason="no_judge")
    sample |= {"judge_audit": {None: [silent]}, "preferences": {}, "preference_summary": {}, "corrected_rates": {}}
    without = page.render(sample, name="x")
    assert 'id="judges"' not in without
    assert "No judge model is configured" in without


def test_of_what_changes_from_run_to_run_the_page_shows_seconds_and_what_caches_spared_alone() -> None:
    told = {(name, column) for name, columns in page.READS.items() for column in columns if TABLES[name].role(column) != "content"}
    costs = {("system_costs", f"run_{figure}") for figure in ("p50", "p95", "p99", "mean", "total")}
    assert told == {("retriever_comparison", "seconds_p50"), ("retriever_comparison", "seconds_p95")} | costs


def test_a_log_without_limits_is_shown_as_logged_and_tokens_that_nobody_counted_as_unknown(sample: Tables) -> None:
    sample["system_specs"]["baseline"][0] |= {"kind": "import", "depth": WHOLE_LOG, "top_k": WHOLE_LOG, "token_budget": None}
    for context in sample["contexts"]["baseline"]:
        context["tokens"] = None
    words = " ".join(Markup(page.render(sample, name="x")).words.split())
    assert "as logged, budget none" in words
    assert "1000000" not in words.replace(",", "")
    assert "tokens unknown" in words


def test_an_evaluation_without_any_table_still_gives_a_page(undrawn: None) -> None:
    html = page.render({}, name="empty")
    check_safe(Markup(html))
    said = Markup(html).words
    assert "No gate is set" in said
    assert "nothing here may decide a release" not in said
    wanted = {"No chunking was swept.", "No slice was scored.", "No answer was scored.", "No document was parsed."}
    assert wanted <= set(re.findall(r"No \w+ was \w+\.", said))
    assert "✓" not in said


@pytest.mark.parametrize("hole", [None, float("nan"), float("inf"), float("-inf")])
def test_a_hole_in_any_measure_is_a_dash_and_never_nan(sample: Tables, undrawn: None, hole: float | None) -> None:
    tables = deepcopy(sample)
    for name, parts in tables.items():
        optional = [f.name for f in TABLES[name].schema if f.nullable and (pa.types.is_floating(f.type) or hole is None)]
        for rows in parts.values():
            for row in rows:
                row.update(dict.fromkeys(optional, hole))
    assert not re.search(r"\b(nan|NaN|null|inf|infinity)\b|None", words(tables))


def test_numbers_that_are_not_finite_break_no_picture(sample: Tables) -> None:
    rows = [
        r | {"mean": float("nan"), "lower": float("inf")} if i % 2 else r | {"upper": float("nan")}
        for i, r in enumerate(sample["chunk_sweep"][None])
    ]
    assert pictures.sweep_curve(rows).startswith(b"<svg")
    assert pictures.sweep_heat_map(rows).startswith(b"<svg")


def test_every_table_has_a_caption_and_every_head_a_scope_and_every_picture_a_text(html: str) -> None:
    tags = Markup(html).tags
    count = [t for t, _ in tags].count
    assert count("table") == count("caption") > 15
    assert all(a.get("scope") in ("col", "row", "rowgroup") for t, a in tags if t == "th")
    assert all(a.get("alt") for t, a in tags if t == "img")
    ids = [a["id"] for _, a in tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for t, a in tags if t == "a"} <= set(ids)


def test_every_row_of_a_table_has_as_many_cells_as_its_head(html: str) -> None:
    widths: list[int] = []
    spans: dict[int, int] = {}
    for tag, attributes in Markup(html).tags:
        if tag == "table":
            widths, spans, heads = [], {}, None
        elif tag == "tr":
            widths.append(sum(1 for left in spans.values() if left > 0))
            spans = {k: v - 1 for k, v in spans.items() if v > 1}
        elif tag in ("td", "th"):
            widths[-1] += int(attributes.get("colspan", 1))
            if int(attributes.get("rowspan", 1)) > 1:
                spans[len(spans)] = int(attributes["rowspan"]) - 1
            if attributes.get("scope") == "col":
                heads = widths[-1]
        if widths and tag == "tr" and len(widths) > 2:
            assert widths[-2] == heads, widths


def test_the_verdict_is_the_worst_decision_and_gates_stand_worst_first(html: str) -> None:
    said = Markup(html).words
    assert "✕ 1 of 7 gates failed" in said
    assert "mrr on baseline: 59.04% [48.00%, 59.99%] against ≥ 60.0% – upper limit under threshold" in said
    assert "5 thresholds are starting values" in said
    table = said[said.index("Gate decisions, worst first") :]
    assert table.index("✕ Fail") < table.index("? Insufficient evidence") < table.index("✓ Pass")


def test_a_gate_just_under_its_threshold_does_not_print_like_the_threshold(undrawn: None, row: Maker) -> None:
    gate = row(
        "gate_results",
        gate="recall",
        scope="s",
        value=0.8499,
        lower=0.8,
        upper=0.8499,
        threshold=0.85,
        direction="at_least",
        decision="FAIL",
    )
    assert "84.99% [80.00%, 84.99%] against ≥ 85.0%" in words({"gate_results": {None: [gate]}})


def test_all_gates_passed_only_where_every_gate_did(undrawn: None, row: Maker) -> None:
    gates = [row("gate_results", gate=g, scope="s", value=1.0, threshold=0.5, direction="at_least", decision="PASS") for g in "ab"]
    assert "✓ All 2 gates passed" in words({"gate_results": {None: gates}})
    lacking = {"gate_results": {None: [*gates, gates[0] | {"gate": "c", "decision": "INSUFFICIENT_EVIDENCE"}]}}
    assert "? 1 of 3 gates lacks evidence" in words(lacking)


def test_headline_scores_stand_with_interval_observed_mean_bounds_and_all_counts(html: str) -> None:
    said = Markup(html).words
    assert "Shows the release split: 46 questions (4 that the corpus does not answer), 2 systems" in said
    # nDCG@10 of the baseline: mean .7421, interval [.6321, .8301], observed .7510, bounds [.7273, .7569]; 38 = 37 + 1 failed
    assert "nDCG@10 by document baseline 74.2% [63.2%, 83.1%] 75.1% [72.7%, 75.7%] 38 37 1 8 0" in said
    assert "extractive (lexical, no language model)" in said


def test_the_sweep_says_what_it_recommends_or_that_it_is_undecided(html: str) -> None:
    said = Markup(html).words
    assert "✓ recommended bm25 : recursive-512-o0" in said
    assert "? undecided dense : nothing is recommended – 48 development questions, fewer than the 50 wanted" in said


def test_the_funnel_names_the_table_to_open_for_what_a_stage_lost(html: str) -> None:
    said = Markup(html).words
    # by hand: 42 groups; of the baseline's 11 failing groups 2 each at parsed, kept, filtered, exact search and answered, 1 in context
    assert "parsed 40 95.2% 2 parsed_documents" in said
    assert "answered 31 73.8% 2 system_scores" in said
    assert "4 rows not applicable (the corpus does not answer this question" in said


def test_a_failed_question_tells_its_whole_story(html: str) -> None:
    markup = Markup(html)
    said = markup.words
    story = said[said.index("rel-000") : said.index("rel-032")]
    for part in (
        "After 200 operating hours.",  # expected
        "Rinse the reservoir with clear water. [1]",  # given
        "token F1 0.21",  # why it failed
        "parsed , open parsed_documents",  # where its evidence was lost
        "The P0 pump must be descaled every 200 operating hours",  # the gold quotation
        "The P0 pump rnust be descaIed",  # what stands there instead
        "2 passages, 72 tokens",  # what was delivered
        "Warranty terms are in chapter 9.",
    ):
        assert part in story
    delivered = next(t for t in markup.text if t.startswith("Maintenance."))
    assert 290 < len(delivered) <= 300
    assert delivered.endswith("…")
    assert "No answer: the time limit for one item was reached (no reply within 30 s)" in said


def test_replays_are_summed_up_as_observed_with_those_that_confirm(row: Maker) -> None:
    def tried(name: str, label: str, intervention: str, recovered: bool | None, split: str = "release") -> Row:
        return row("diagnosis", question_id=name, split=split, label=label, intervention=intervention, recovered=recovered)

    rows = [
        tried("a", "ranked_out", "control", False), tried("a", "ranked_out", "larger_top_k", True),
        tried("b", "ranked_out", "control", False), tried("b", "ranked_out", "larger_top_k", None),
        tried("b", "ranked_out", "reranker=r", False), tried("c", "retrieval_miss", "control", False),
        tried("d", "none", "control", None), tried("e", "retrieval_miss", "control", False, "development"),
    ]  # fmt: skip
    found = implicated(rows, "release")
    assert found == {
        "labels": [("ranked out", 2), ("retrieval miss", 1)],
        "confirmed": (1, 2),
        "recovered": [("control", 0, 3), ("larger top k", 1, 1), ("reranker=r", 0, 1)],
    }
    assert implicated(rows[6:7], "release") is None


def test_an_unanswerable_question_that_was_answered_failed_at_refusal(html: str) -> None:
    said = Markup(html).words
    assert "A refusal: the corpus does not answer this question." in said
    assert "refusal 1" in said


def test_the_first_200_failures_are_shown_and_the_rest_counted(undrawn: None, row: Maker) -> None:
    scores = [
        row("system_scores", question_id=f"q{n:04d}", split="release", metric="correct", value=0.0, status="scored") for n in range(253)
    ]  # fmt: skip
    html = page.render({"system_scores": {"baseline": scores}}, name="test")
    assert html.count('<details class="failure">') == 200
    said = Markup(html).words
    assert "253 of 253 questions failed" in said
    assert "The first 200 are shown; 53 failed questions more stand in system_scores" in said


def test_no_question_failed_is_said_only_where_answers_were_checked(undrawn: None, row: Maker) -> None:
    shared = {"question_id": "q", "split": "release", "metric": "correct"}
    checked = {"system_scores": {"s": [row("system_scores", **shared, value=1.0, status="scored")]}}
    unchecked = {"system_scores": {"s": [row("system_scores", **shared, status="not_applicable", reason="no_gold_answer")]}}
    assert "✓ no question failed" in words(checked)
    assert "no question failed" not in words(unchecked)
    assert "No answer of this split can be checked against a reference." in words(unchecked)


def test_a_page_without_release_scores_says_so(undrawn: None, sample: Tables) -> None:
    for rows in sample["system_summary"].values():
        rows[:] = [r for r in rows if r["split"] == "development"]
    said = words(sample)
    assert "Shows the development split" in said
    assert "No question of the release split was scored" in said


def test_parse_failures_name_the_file_and_whether_the_corpus_lost_it(undrawn: None, sample: Tables) -> None:
    said = words(sample)
    assert "3 files never reached canonical text" in said
    assert "pdf/secret.pdf pdf pymupdf ✕ not in the corpus the file needs a password" in said
    assert "pdf/broken.pdf pdf unstructured another parser is used the worker process died" in said
    del sample["parsed_documents"]
    assert "pdf/secret.pdf pdf pymupdf ✕ not in the corpus the chosen parser failed on this document" in words(sample)


def test_golden_coverage_shows_empty_cells_and_leaks(html: str) -> None:
    said = Markup(html).words
    assert "21 of 36 cells have none" in said
    assert "✕ split leak" in said
    assert "dev-014 (development) and rel-020 (release) share policies/returns.md" in said
    assert "± 11.6 points" in said


def test_documents_that_nobody_judged_are_listed_with_their_passage(html: str) -> None:
    said = Markup(html).words
    assert "baseline rel-002 2 pdf/pump.pdf The pump is greased every spring." in said
    assert "Not of this split" not in said


def test_a_comparison_shows_points_what_changed_and_why_nothing_was_compared(html: str) -> None:
    said = Markup(html).words
    assert "✓ Pass +3.7 [+0.1, +7.5] 37 1 non inferior" in said
    assert "What changed since 2.3 : chunking window-256-o0 → recursive-512-o64 , top k 5 → 8" in said
    assert "Not compared: no baseline is saved for this system." in said


def test_a_refused_comparison_names_the_field_that_differs(undrawn: None, row: Maker) -> None:
    refused = row(
        "comparison", baseline="2.3", metric="all", status="not_applicable", reason="incomparable", detail="golden: 'a' is now 'b'"
    )
    said = words({"comparison": {"s": [refused]}})
    assert "Not compared with 2.3 : an identity that must match differs (golden: 'a' is now 'b')." in said


def test_a_setting_recommended_without_filter_is_shown_with_what_filters_make_of_it(html: str) -> None:
    said = Markup(html).words
    table = said[said.index("Recommended settings") : said.index("Every setting measured")]
    assert table.count("hnsw m16-efc200-efs64") == 4  # two chunkings, two selectivities
    assert "filter leaves 10.0%" in table


def test_the_identity_of_the_templates_changes_with_any_of_their_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = page.template_identity()
    assert re.fullmatch(r"[0-9a-f]{64}", before)
    folder = tmp_path / "templates"
    folder.mkdir()
    for path in (Path(page.__file__).parent / "templates").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(page, "files", lambda package: tmp_path)
    assert page.template_identity() == before
    (folder / "style.css").write_text("body {}", encoding="utf-8")
    assert page.template_identity() != before


def test_strata_stand_beside_parsers_and_the_empty_ones_are_named(undrawn: None, sample: Tables) -> None:
    said = words(sample)
    at = said.index("Character error rate by stratum and parser", said.index("Parse quality by class and parser"))
    shown = said[at : said.index("Parts of documents") if "Parts of documents" in said else at + 3000]
    assert "pages read as pictures are drawn at 200 dpi" in shown
    assert "Without a file: " in shown
    assert shown[shown.index("Without a file: ") :].split(".")[0].count(",") == 4
    assert "not read by it" in shown  # photos, by the parser of PDFs
    assert "4 documents" in shown
