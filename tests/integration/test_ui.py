"""Dagster's own UI and daemon on a small folder, driven by a headless browser: what a person clicks is what the files say.

Everything is clicked; GraphQL is read only, to wait and to look up runs. Nothing may leave the loopback address. The screenshots go
to the folder that RAG_EVAL_SCREENSHOTS names, so that a person can look at them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import pytest

from rag_eval_assets.automation import TICK_TAG
from rag_eval_assets.graph import AssetPartition
from rag_eval_assets.settings import Folder
from rag_eval_assets.storage.sync import open_catalogue
from rag_eval_assets.tables import TABLES
from tests.integration.server import ROOT, Run, Server, wait_for
from tests.small import QUESTIONS, SETTINGS, small_folder, write_questions

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
CHANGES = {"nightly": {"cron": "* * * * *"}, "systems": {"first": SETTINGS["systems"]["second"]}}
CHUNKINGS = ["window-16-o0", "whole"]
PLANTED = (
    '<img src=x onerror="window.planted=1">', "<script>window.planted=1</script>", "<svg onload=window.planted=1>",
    "[kettle](javascript:window.planted=1)", '"><iframe srcdoc="<script>parent.planted=1</script>">', "<details open ontoggle=window.planted=1>",
)  # fmt: skip
"""Texts that run where they are shown as HTML or Markdown that nobody escaped; they stand in a document, its name, a question, its answer."""
HOSTILE = "<img src=x onerror=window.planted=1>.txt"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = small_folder(tmp_path / "small", CHANGES)
    (folder.corpus / HOSTILE).write_text("\n\n".join(f"Kettle number {n} says {text} here." for n, text in enumerate(PLANTED)))
    asked = {
        "id": "q10", "question": f"What does kettle 0 say, {' '.join(PLANTED)}?", "reference_answer": " ".join(PLANTED), "split": "release",
        "language": "en", "intent": "lookup", "kinds": ["lookup"],
        "evidence": [{"group": "g1", "document": HOSTILE, "quotation": f"Kettle number 0 says {PLANTED[0]} here."}],
    }  # fmt: skip
    write_questions(folder.path, [*QUESTIONS, asked])
    server = Server(folder, tmp_path / "ui.log")
    left: list[psutil.Process] = []
    try:
        wait_for("loaded code location with healthy daemons", server.ready)
        yield server
    finally:
        left = server.stop()
    assert left == [], server.log.read_text()[-3000:]


@pytest.fixture
def page(server: Server) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(base_url=server.url, timezone_id="UTC", color_scheme="light")
        page.set_default_timeout(60_000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        yield page
        browser.close()
    assert dialogs == []
    elsewhere = [url for url in asked if urlsplit(url).scheme in ("http", "https", "ws") and urlsplit(url).hostname != "127.0.0.1"]
    assert elsewhere == []


class Screens:
    """Screenshots, numbered in the order they are taken."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page, self.folder, self.taken = page, folder, 0
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, address: str, width: int = 1600, height: int = 1000) -> None:
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.goto(address)

    def rest(self) -> None:
        """Leave the UI, whose polling costs the runs that are waited for."""
        self.page.goto("about:blank")

    def take(self, name: str) -> None:
        self.taken += 1
        self.page.wait_for_timeout(1500)  # transitions and pictures, which no selector tells of
        self.page.screenshot(path=self.folder / f"{self.taken:02d}-{name}.png")


@pytest.fixture
def screens(page: Page, tmp_path: Path) -> Screens:
    return Screens(page, Path(os.environ.get("RAG_EVAL_SCREENSHOTS") or tmp_path / "screens"))


def button(page: Page, text: str) -> Locator:
    """The button with exactly this text; its accessible name would contain its icon's."""
    return page.locator("button").filter(has_text=re.compile(rf"^{re.escape(text)}$"))


def status(server: Server) -> dict[AssetPartition, str]:
    done = subprocess.run(server.command("status", "--json"), cwd=ROOT, capture_output=True, text=True, check=True)
    return {AssetPartition(row["asset"], row["partition"]): row["state"] for row in json.loads(done.stdout)}


def made_by(folder: Folder, node: AssetPartition) -> str:
    footer = open_catalogue(folder).footer(node)
    assert footer is not None
    return footer.run_id


def test_a_person_clicks_and_the_files_follow(server: Server, page: Page, screens: Screens) -> None:
    root = clicked(server, screens, "/assets/source_documents", "Materialize")
    the_lineage_graph_shows_every_asset(page, screens)
    a_materialized_root_shows_its_rows(server, page, screens, root)
    assert a_tick_of_the_schedule_brings_everything_to_fresh(server, page, screens)
    the_pages_show_columns_their_sources_rows_and_pictures(page, screens)
    backfill = a_backfill_restores_a_deleted_file(server, page, screens)
    check = clicked(server, screens, "/assets/chunks?view=checks", "Execute")
    assert a_tick_of_the_schedule_brings_everything_to_fresh(server, page, screens) == []
    a_passed_file_check_says_what_it_read(server, page, screens, check)
    the_backfill_is_told_as_complete(server, page, screens, backfill)
    dagster_finds_nothing_stale(server)
    the_graph_is_drawn(page, screens, "lineage-fresh")
    nothing_planted_runs_in_the_ui_or_the_report(server, page, screens)


def clicked(server: Server, screens: Screens, address: str, text: str) -> str:
    """Id of the run that a click on this button launches; other things may be done while it starts."""
    screens.open(address)
    return str(server.launched_by(button(screens.page, text).click)["runId"])


def the_lineage_graph_shows_every_asset(page: Page, screens: Screens) -> None:
    screens.open("/asset-groups")
    page.locator("svg foreignObject").first.wait_for()
    screens.take("lineage-groups")
    for entry in ("Expand all groups", "Change graph to vertical orientation"):
        if not page.get_by_role("menuitem").first.is_visible():  # the menu stays open after a choice
            page.locator("button:has([aria-label=settings])").last.click()
        page.get_by_role("menuitem").filter(has_text=entry).click()
        page.wait_for_timeout(1000)
    the_graph_is_drawn(page, screens, "lineage-assets")


def the_graph_is_drawn(page: Page, screens: Screens, name: str) -> None:
    screens.open("/asset-groups", 2800, 1450)

    def all_there() -> bool:
        shown = page.locator("svg foreignObject").all_text_contents()  # long names are cut in the middle
        ends = [text.strip().partition("…") for text in shown if text.strip()]
        return all(any(t == head or (cut and t.startswith(head) and t.endswith(tail)) for head, cut, tail in ends) for t in TABLES)

    wait_for("graph with every asset", all_there, 60)
    page.wait_for_timeout(5000)  # the state of each asset arrives after its name
    screens.take(name)


def a_materialized_root_shows_its_rows(server: Server, page: Page, screens: Screens, run: str) -> None:
    server.succeeded(run)
    assert made_by(server.folder, AssetPartition("source_documents")) == run
    screens.open("/assets/source_documents", height=2200)
    page.get_by_text("rows_computed").wait_for()
    page.get_by_text("returns.md").first.wait_for()
    screens.take("materialized")


def a_tick_of_the_schedule_brings_everything_to_fresh(server: Server, page: Page, screens: Screens) -> list[Run]:
    """The runs that the tick's job started. The schedule is stopped again before its job ends."""
    schedule = "/locations/rag_eval_assets/schedules/nightly"
    screens.open(schedule)
    switch = page.locator("label[class*=formatSwitch]")
    mine = {"dagster/schedule_name": "nightly"}
    tick = server.launched_by(switch.click, **mine)
    screens.open(schedule)
    switch.click()
    wait_for("stopped schedule", lambda: _nightly(server)["status"] == "STOPPED", 60)
    screens.rest()
    for run in server.runs(**mine):  # a slow machine may have seen a second tick before the click
        server.succeeded(run["runId"])
    at = next(t["timestamp"] for t in _nightly(server)["ticks"] if tick["runId"] in t["runIds"])
    children = server.runs(**{TICK_TAG: datetime.fromtimestamp(at, UTC).isoformat()})
    assert all(run["status"] == "SUCCESS" for run in children)
    found = status(server)
    assert set(found.values()) == {"fresh"}
    assert {run["runId"] for run in children} <= {made_by(server.folder, node) for node in found}
    assert (server.folder.state / "report.html").exists()
    screens.open(schedule)
    page.get_by_text("Tick history").first.wait_for()
    screens.take("nightly" if children else "nightly-nothing-stale")
    return children


def _nightly(server: Server) -> dict[str, Any]:
    told = server.ask(
        "query ($schedule: ScheduleSelector!) { scheduleOrError(scheduleSelector: $schedule) {"
        "  ... on Schedule { scheduleState { status ticks(limit: 20) { timestamp runIds } } } } }",
        schedule={"repositoryLocationName": "rag_eval_assets", "repositoryName": "__repository__", "scheduleName": "nightly"},
    )
    return dict(told["scheduleOrError"]["scheduleState"])


def the_pages_show_columns_their_sources_rows_and_pictures(page: Page, screens: Screens) -> None:
    screens.open("/assets/chunks", height=1700)
    page.get_by_text("Canonical text [start, end). From unique_documents.").wait_for()
    page.get_by_text("list<string>").first.wait_for()
    page.get_by_text("dagster/partition_row_count").wait_for()
    screens.take("columns-and-preview")
    screens.open("/assets/chunks?view=partitions&partition=whole")
    for key in CHUNKINGS:
        page.get_by_text(key, exact=True).first.wait_for()
    page.get_by_text("file_sha256").wait_for()
    screens.take("partitions")
    screens.open("/assets/chunk_sweep", height=1600)
    page.get_by_text("[Show Markdown]").first.click()
    picture = page.locator("img[src^='data:image/svg+xml']")
    picture.wait_for()
    wait_for("drawn picture", lambda: picture.evaluate("image => image.complete && image.naturalWidth > 300"), 30)
    screens.take("picture")


def a_backfill_restores_a_deleted_file(server: Server, page: Page, screens: Screens) -> str:
    """Id of the backfill, whose runs have succeeded."""
    nodes = [AssetPartition("chunks", key) for key in CHUNKINGS]
    Path(server.folder.tables, "chunks", "whole.parquet").unlink()
    assert status(server)[AssetPartition("chunks", "whole")] == "missing"
    screens.open("/assets/chunks")
    button(page, "Materialize…").click()
    button(page, "All").click()
    page.get_by_text("2 partitions", exact=True).wait_for()
    screens.take("backfill-dialog")
    button(page, "Launch backfill").click()
    backfill = wait_for("backfill", lambda: next(iter(_backfills(server)), None))
    screens.rest()
    mine = {"dagster/backfill": backfill["id"]}
    runs = wait_for("run of each partition", lambda: r if len(r := server.runs(**mine)) == len(CHUNKINGS) else None)
    for run in runs:
        server.succeeded(run["runId"])
    by_partition = {run["tags"]["dagster/partition"]: run["runId"] for run in runs}
    assert {node.partition: made_by(server.folder, node) for node in nodes} == by_partition
    assert set(status(server).values()) == {"fresh"}
    return str(backfill["id"])


def the_backfill_is_told_as_complete(server: Server, page: Page, screens: Screens, backfill: str) -> None:
    wait_for("completed backfill", lambda: any(b["id"] == backfill and b["status"] == "COMPLETED_SUCCESS" for b in _backfills(server)))
    screens.open(f"/runs/b/{backfill}", height=600)
    page.get_by_text("100% completed").wait_for()
    screens.take("backfill")
    screens.open("/runs")
    page.get_by_text("nightly").first.wait_for()
    screens.take("runs")


def _backfills(server: Server) -> list[dict[str, Any]]:
    told = server.ask("{ partitionBackfillsOrError { ... on PartitionBackfills { results { id status } } } }")
    return list(told["partitionBackfillsOrError"]["results"])


def a_passed_file_check_says_what_it_read(server: Server, page: Page, screens: Screens, run: str) -> None:
    server.succeeded(run)
    told = server.ask(
        'query ($key: AssetKeyInput!) { assetCheckExecutions(assetKey: $key, checkName: "file_matches_footer", limit: 3) {'
        "  runId evaluation { success metadataEntries { label ... on IntMetadataEntry { intValue } } } } }",
        key={"path": ["chunks"]},
    )["assetCheckExecutions"]
    assert told[0]["runId"] == run
    assert all(execution["evaluation"]["success"] for execution in told)
    metadata = [{m["label"]: m.get("intValue") for m in execution["evaluation"]["metadataEntries"]} for execution in told]
    assert [m["files"] for m in metadata] == [len(CHUNKINGS), 1, 1]  # alone it reads all; each run of the backfill read its own
    screens.open("/assets/chunks?view=checks")
    page.get_by_text("Passed").first.wait_for()
    screens.take("check")


def dagster_finds_nothing_stale(server: Server) -> None:
    """Dagster's own reckoning, from its events, agrees with that from the footers."""
    told = server.ask("{ assetNodes { assetKey { path } isPartitioned partitionKeys staleStatus } }")
    assert {node["assetKey"]["path"][0]: node["staleStatus"] for node in told["assetNodes"]} == dict.fromkeys(TABLES, "FRESH")
    for node in told["assetNodes"]:
        if node["isPartitioned"]:
            by_partition = server.ask(
                "query ($key: AssetKeyInput!, $keys: [String!]!) { assetNodes(assetKeys: [$key]) {"
                "  staleStatusByPartition(partitions: $keys) } }",
                key=node["assetKey"],
                keys=node["partitionKeys"],
            )
            found = by_partition["assetNodes"][0]["staleStatusByPartition"]
            assert found == ["FRESH"] * len(node["partitionKeys"]), node["assetKey"]


def nothing_planted_runs_in_the_ui_or_the_report(server: Server, page: Page, screens: Screens) -> None:
    found = open_catalogue(server.folder).read(AssetPartition("answers", "first"))[0].to_pylist()
    assert any("onerror" in str(row) for row in found)  # the planted text went the whole way
    pages = ("source_documents", "documents", "golden_questions", "golden_evidence", "system_scores", "evidence_funnel")
    for name in pages:
        screens.open(f"/assets/{name}", height=2200)
        page.get_by_text("rows_computed").first.wait_for()
        for shown in page.get_by_text("[Show Markdown]").all()[:2]:
            shown.click()
            page.wait_for_timeout(1000)
            page.keyboard.press("Escape")
        assert page.evaluate("window.planted") is None, name
    screens.take("planted")
    screens.open((server.folder.state / "report.html").as_uri(), height=2200)
    assert "Kettle number 0" in page.content() or "kettle 0" in page.content()
    page.wait_for_timeout(1000)
    assert page.evaluate("window.planted") is None
    assert page.locator("script").count() == 0
    screens.take("report-planted")
