"""Settings, golden sets, sidecars, tables and stored replies that somebody damaged: read as they are, or one typed error.

Seeds are fixed, so that a case that fails once fails again; RAG_EVAL_FUZZ_TEXTS sets how many cases the long run takes.
"""

from __future__ import annotations

import io
import json
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingestion.sources import CorpusError, scan
from rag_eval_assets.golden import GoldenError, read_golden
from rag_eval_assets.resources.responses import DamagedReplyError, Reply, ResponseStore, beginning, keeping
from rag_eval_assets.settings import read_settings
from rag_eval_assets.storage.parquet import FOOTER_KEY, Footer, TornFileError, read_footer
from rag_eval_assets.strict import SettingsError
from tests.small import small_folder

TOKENS = (
    b"\x00", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"{", b"}", b"[", b"]", b'"', b"'", b":", b",", b"\n", b"\r", b"\t", b"- ", b"&a ", b"*a",
    b"<<: ", b"!!python/object/apply:os.system ['true']", b"!!binary ", b"---\n", b"...", b"null", b"true", b".nan", b".inf", b"-1", b"1e999",
    b"9" * 400, b"\xe2\x80\xae", b"../", b"[" * 300, b"{a: " * 300, b"#", b"%YAML 9.9\n", b"0x", b"2025-13-45", b"\\u0000", b"\\ud800", b"? ",
)  # fmt: skip
"""What text formats stumble over."""


def damaged(text: bytes, draw: random.Random) -> bytes:
    """A text with one to three pieces lost, doubled, exchanged, cut off, or replaced by one of `TOKENS`."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = draw.randrange(len(text) + 1)
        to = min(len(text), at + draw.choice((0, 1, 1, 2, 8, 40)))
        how = draw.randrange(6)
        if how == 0:
            text = text[:at] + text[to:]
        elif how == 1:
            text = text[:to] + text[at:]
        elif how == 2:
            text = text[:at] + bytes(draw.randrange(256) for _ in range(to - at)) + text[to:]
        elif how == 3 and draw.random() < 0.3:
            text = text[:at]
        else:
            text = text[:at] + draw.choice(TOKENS) + text[to:]
    return text


KINDS = ("settings", "golden", "sidecar", "footer", "reply")


def told(work: Callable[[], object], *errors: type[Exception]) -> str:
    """What came of it; an error of another type fails the test with its own traceback."""
    try:
        work()
    except errors as error:
        return type(error).__name__ if str(error).strip() else "nothing said"
    return "read"


def with_footer(text: bytes) -> bytes:
    """An empty Parquet file that says `text` of itself."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([], pa.string())}).replace_schema_metadata({FOOTER_KEY: text}), sink)
    return sink.getvalue()


def fuzz(folder: Path, count: int) -> Counter[tuple[str, str]]:
    outcomes: Counter[tuple[str, str]] = Counter()
    small = small_folder(folder / "small", {})
    settings = (small.path / "evaluation.yaml").read_bytes()
    golden = next(small.golden.glob("*.jsonl"))
    questions = golden.read_bytes()
    sidecar = b"title: Pay\nlanguage: nl\ngroups: [hr, board]\npublished: 2025-01-02\nfields:\n  floor: 2\n  draft: true\n  code: 007\n"
    footer = json.dumps(Footer("chunks", "whole", "r", "c", "d", 3, 3, {"settings": {"size": 1}}, {"documents": "v"}).to_json()).encode()
    (corpus := folder / "corpus").mkdir()
    (corpus / "a.md").write_text("Text.")
    for number in range(count):
        draw = random.Random(number)
        kind = KINDS[number % len(KINDS)]
        if kind == "settings":
            path = folder / "evaluation.yaml"
            path.write_bytes(damaged(settings, draw))
            outcome = told(lambda path=path: read_settings(path), SettingsError)
        elif kind == "golden":
            golden.write_bytes(damaged(questions, draw))
            outcome = told(lambda: read_golden(small.golden), GoldenError)
        elif kind == "sidecar":
            (corpus / "a.md.meta.yaml").write_bytes(damaged(sidecar, draw))
            outcome = told(lambda: scan(corpus), CorpusError)
        elif kind == "footer":
            data = with_footer(damaged(footer, draw))
            outcome = told(lambda data=data: read_footer(data), TornFileError)
        else:
            outcome = told(lambda draw=draw: reply_of(folder / "responses.sqlite", draw), DamagedReplyError)
        outcomes[kind, outcome] += 1
    return outcomes


def reply_of(path: Path, draw: random.Random) -> None:
    """Keep a reply, damage it in the file, and read it."""
    store = ResponseStore(path)
    key = f"{draw.random()}"
    call = store.write(beginning(key, "http://endpoint", "m"))
    store.write(keeping(call, key, Reply("yes", "stop", "m", 10, 2, 0.1, None, 0.5, 1, "2025-01-02")))
    with sqlite3.connect(path) as connection:
        ((text,),) = connection.execute("SELECT reply FROM replies WHERE key = ?", [key]).fetchall()
        connection.execute("UPDATE replies SET reply = ? WHERE key = ?", [damaged(text.encode(), draw).decode("utf-8", "replace"), key])
    connection.close()
    found = store.get_many([key])
    assert isinstance(found[key].text, str)


def test_damaged_texts_are_read_or_named_by_their_own_error(tmp_path: Path) -> None:
    outcomes = fuzz(tmp_path, 500)
    print(dict(sorted(outcomes.items())))
    assert sum(outcomes.values()) == 500
    # The damage is neither so light that all is read nor so heavy that only the first check is met.
    for kind in ("settings", "golden", "sidecar"):
        assert (
            min(sum(n for (k, outcome), n in outcomes.items() if k == kind and (outcome == "read") == read) for read in (True, False)) > 3
        )
    # A footer stands under a checksum: whatever changed it is noticed, but for what leaves its facts as they were.
    assert outcomes["footer", "TornFileError"] > 80


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_many_damaged_texts(tmp_path: Path) -> None:
    print(dict(sorted(fuzz(tmp_path, int(os.environ.get("RAG_EVAL_FUZZ_TEXTS", "20000"))).items())))
