"""No file, however hostile, costs more than its own typed row."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ingestion import parsers
from ingestion.parsers import ParseLimits, ParseRequest, ParserInfo, ParserMissing, not_applicable, parse_files
from rag_eval_assets.tables import REASONS, TABLES

HOSTILE = Path(__file__).parent / "hostile"
COLUMNS = set(TABLES["parsed_documents"].columns) - {"work_key", "stratum"}
LIMITS = ParseLimits(workers=2, seconds=30, megabytes=256, source_megabytes=1, pages=10)

Make = Callable[..., ParseRequest]


@pytest.fixture(autouse=True)
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HOSTILE))
    monkeypatch.setitem(parsers.PARSERS, "hostile", ParserInfo("hostile_parser", ("pebble",), frozenset({"text/plain"})))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def request(name: str, content: str | bytes, media_type: str = "text/plain") -> ParseRequest:
        path = tmp_path / name
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(data)
        return ParseRequest(name, path, media_type, "text", hashlib.sha256(data).hexdigest())

    return request


def children() -> set[int]:
    """Live child processes of this one."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(stat.parent.name))
    return found


def gone(pid: int, seconds: float = 10) -> bool:
    """Whether a process ends within some seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_each_way_to_die_is_a_typed_row_and_the_other_files_are_parsed(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    requests = [
        make("1.txt", "fine one"),
        make("2.txt", "abort"),
        make("3.txt", "exit"),
        make("4.txt", "blow-up 1024"),
        make("5.txt", "raise"),
        make("6.txt", "blank"),
        make("7.txt", "encrypted"),
        make("8.txt", "unpicklable"),
        make("9.txt", "blow-up 64"),
        make("a.txt", "fine two"),
    ]
    told: list[tuple[int, int]] = []
    rows = list(parse_files("hostile", requests, LIMITS, on_done=lambda done, total: told.append((done, total))))

    assert [group[0]["doc_id"] for group in rows] == [request.doc_id for request in requests]
    assert [group[0]["reason"] for group in rows] == [
        None, "crashed", "crashed", "memory", "crashed", "no_text", "encrypted", "crashed", None, None,
    ]  # fmt: skip
    assert [len(group) for group in rows] == [2, 1, 1, 1, 1, 1, 1, 1, 1, 2]
    assert "SIGABRT" in rows[1][0]["detail"]
    assert "exit code 7" in rows[2][0]["detail"]
    assert told == [(i + 1, len(requests)) for i in range(len(requests))]
    for group in rows:
        for row in group:
            assert set(row) == COLUMNS
            assert row["reason"] is None or row["reason"] in REASONS
    assert capfd.readouterr() == ("", ""), "a worker wrote to the caller's output"


def test_an_interrupt_while_workers_start_is_for_the_caller_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fine")
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from ingestion.parsers.elements import ParseOptions, ParseRequest\n"
        "from ingestion.parsers.isolation import run_isolated\n"
        "if __name__ == '__main__':\n"
        f"    asked = [ParseRequest(str(i), Path({str(tmp_path / 'a.txt')!r}), 'text/plain', 'text', '0') for i in range(3)]\n"
        "    print('started', flush=True)\n"
        "    list(run_isolated('ingestion.parsers.pymupdf_text', asked, ParseOptions(), workers=2, seconds=30, megabytes=256))\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell's background job ignores interrupts
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as started:  # fmt: skip
        assert started.stdout is not None
        assert started.stdout.readline() == "started\n"
        while len(young := [c.pid for c in psutil.Process(started.pid).children() if "spawn_main" in " ".join(c.cmdline())]) < 2:
            time.sleep(0.001)
        masks = [int(re.findall(r"SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())[0], 16) for pid in young]
        os.killpg(started.pid, signal.SIGINT)
        told = started.stderr.read() if started.stderr else ""
    assert [mask >> (signal.SIGINT - 1) & 1 for mask in masks] == [1, 1]
    assert told.count("Traceback") == 1, told
    assert told.splitlines()[-1] == "KeyboardInterrupt"


def test_workers_that_never_live_are_one_error_with_the_mend_instead_of_a_failure_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fine")
    script = tmp_path / "script.py"  # unguarded: each worker imports it, and fails on what the script has done already
    script.write_text(
        "from pathlib import Path\n"
        "from ingestion.parsers.elements import ParseOptions, ParseRequest\n"
        "from ingestion.parsers.isolation import run_isolated\n"
        f"Path({str(tmp_path / 'made')!r}).mkdir()\n"
        f"asked = [ParseRequest(str(i), Path({str(tmp_path / 'a.txt')!r}), 'text/plain', 'text', '0') for i in range(5)]\n"
        "print(list(run_isolated('ingestion.parsers.pymupdf_text', asked, ParseOptions(), workers=1, seconds=30, megabytes=256)))\n"
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("ingestion.parsers.isolation.WorkerError: parser workers end before they take a file")
    assert 'if __name__ == "__main__":' in ended.stderr


def test_a_hanging_file_is_a_timeout_and_its_neighbours_are_not_waited_for(make: Make) -> None:
    requests = [make("hang.txt", "hang"), *(make(f"{i}.txt", "fine") for i in range(5))]
    limits = ParseLimits(workers=2, seconds=1.0, megabytes=256)
    rows = list(parse_files("hostile", requests, limits))
    assert [group[0]["reason"] for group in rows] == ["timeout", None, None, None, None, None]
    assert "1 s" in rows[0][0]["detail"]


def test_error_texts_hold_no_folder_and_no_address_so_that_they_are_the_same_everywhere(make: Make) -> None:
    one, two = parse_files("hostile", [make("bad.txt", "raise"), make("worse.txt", "traceback")], LIMITS)
    assert one[0]["detail"] == "ValueError: bad thing in bad.txt at 0x..."
    assert two[0]["detail"] == "RuntimeError: no a.onnx here"


def test_a_file_that_changed_after_it_was_listed_is_not_parsed_under_the_old_hash(make: Make) -> None:
    request = make("a.txt", "fine")
    request.path.write_text("fine but different")
    (rows,) = parse_files("hostile", [request], LIMITS)
    assert (rows[0]["status"], rows[0]["reason"]) == ("failed", "corrupt")
    assert "changed" in rows[0]["detail"]


@pytest.mark.parametrize(
    ("name", "content", "media_type", "reason"),
    [
        ("empty.txt", b"", "text/plain", "empty_file"),
        ("report.docx", b"%PDF-1.7 ...", "application/pdf", "wrong_extension"),
        ("photo.png", b"\x89PNG\r\n\x1a\n...", "image/png", "unsupported_media_type"),
        ("large.txt", b"x" * (1024 * 1024 + 1), "text/plain", "too_large"),
    ],
)
def test_what_needs_no_parser_to_be_refused_starts_no_worker(
    make: Make, name: str, content: bytes, media_type: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsers, "run_isolated", lambda *_, **__: pytest.fail("a worker was started"))
    (rows,) = parse_files("hostile", [make(name, content, media_type)], LIMITS)
    assert [(row["order"], row["status"], row["reason"]) for row in rows] == [(0, "failed", reason)]
    assert rows[0]["detail"]


def test_a_file_that_vanished_is_a_failed_row(make: Make) -> None:
    request = make("gone.txt", "fine")
    request.path.unlink()
    (rows,) = parse_files("hostile", [request], LIMITS)
    assert (rows[0]["status"], rows[0]["reason"]) == ("failed", "corrupt")


def test_closing_early_leaves_no_process_behind(make: Make, tmp_path: Path) -> None:
    before = children()
    mark = tmp_path / "pid"
    stream = parse_files("hostile", [make("0.txt", "fine"), make("1.txt", f"pid-then-hang {mark}"), make("2.txt", "hang")], LIMITS)
    next(stream)
    until = time.monotonic() + 20
    while not mark.exists() and time.monotonic() < until:
        time.sleep(0.05)
    pid = int(mark.read_text())
    stream.close()  # type: ignore[attr-defined]
    assert gone(pid)
    # multiprocessing keeps one resource tracker a process, for its own life; everything else must have ended.
    left = [Path(f"/proc/{child}/cmdline").read_text() for child in children() - before]
    assert [line for line in left if "resource_tracker" not in line] == []


def test_a_killed_caller_takes_its_workers_with_it(make: Make, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    request = make("1.txt", f"pid-then-hang {mark}")
    script = tmp_path / "caller.py"
    script.write_text(
        "from pathlib import Path\n"
        "from ingestion import parsers\n"
        "if __name__ == '__main__':\n"
        "    parsers.PARSERS['hostile'] = parsers.ParserInfo('hostile_parser', ('pebble',), frozenset({'text/plain'}))\n"
        f"    request = parsers.ParseRequest('1.txt', Path({str(request.path)!r}), 'text/plain', 'text', {request.sha256!r})\n"
        "    list(parsers.parse_files('hostile', [request], parsers.ParseLimits(seconds=60, megabytes=256)))\n"
    )
    root = Path(__file__).resolve().parents[2]
    caller = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{HOSTILE}"})
    try:
        until = time.monotonic() + 30
        while not (mark.exists() and mark.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        pid = int(mark.read_text())
        caller.send_signal(signal.SIGKILL)
        caller.wait(10)
        assert gone(pid)
    finally:
        caller.kill()


def test_a_parser_that_cannot_start_fails_every_file_and_does_not_restart_for_ever(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parsers.PARSERS, "absent", ParserInfo("no_such_module", ("pebble",), frozenset({"text/plain"})))
    rows = list(parse_files("absent", [make("1.txt", "a"), make("2.txt", "b")], LIMITS))
    assert [group[0]["reason"] for group in rows] == ["crashed", "crashed"]
    assert "no_such_module" in rows[0][0]["detail"]


def test_workers_that_die_before_they_take_a_file_do_not_hang_the_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parsers.PARSERS, "dies", ParserInfo("hostile_start", ("pebble",), frozenset({"text/plain"})))
    rows = list(parse_files("dies", [make("1.txt", "a"), make("2.txt", "b")], LIMITS))
    assert [group[0]["reason"] for group in rows] == ["crashed", "crashed"]


def test_a_parser_that_is_not_installed_says_how_to_install_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    info = ParserInfo("hostile_parser", ("no-such-distribution",), frozenset({"text/plain"}), "ocr")
    monkeypatch.setitem(parsers.PARSERS, "missing", info)
    with pytest.raises(ParserMissing, match=r"no-such-distribution.*\[ocr\]"):
        parse_files("missing", [make("1.txt", "a")], LIMITS)


def test_an_undeclared_class_is_one_row_without_parsing(make: Make) -> None:
    rows = not_applicable(make("1.txt", "a"))
    assert [(row["order"], row["status"], row["reason"], row["text"]) for row in rows] == [(0, "not_applicable", "class_not_declared", "")]
    assert set(rows[0]) == COLUMNS


def test_no_requests_need_no_worker() -> None:
    assert list(parse_files("hostile", [], LIMITS)) == []


def test_notes_stand_in_the_first_row_and_headings_above_what_follows(make: Make) -> None:
    (rows,) = parse_files("hostile", [make("1.txt", "some text")], LIMITS)
    assert [(row["order"], row["detail"], row["heading_path"]) for row in rows] == [(0, "a note", []), (1, None, ["Head"])]
