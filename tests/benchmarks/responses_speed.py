"""Stored replies read back as a rerun reads them, against the same replies as lines of a JSON file, in one run.

A file of lines is the least a store could be: no keys, no generations, nothing that survives a kill. What the store costs above that is
the figure. Every reply is checked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rag_eval_assets.resources.responses import Reply, ResponseStore, beginning, keeping, response_key

_ROUNDS = 3


@dataclass(frozen=True)
class ResponsesSpeed:
    """Rows a second: from the store, and from lines of JSON."""

    rows: int
    store: float
    lines_of_json: float

    def lines(self) -> list[str]:
        return [
            f"{self.rows} replies: {self.store:.0f} rows/s from the store, {self.lines_of_json:.0f} from lines of JSON, "
            f"{self.lines_of_json / self.store:.1f} times as slow"
        ]


def _rate(read: Callable[[], object], rows: int) -> float:
    started = time.perf_counter()
    read()
    return rows / (time.perf_counter() - started)


def measure(scratch: Path, rows: int) -> ResponsesSpeed:
    """Best of rounds taken in turn, since the machine may be busy."""
    store, file = ResponseStore(scratch / "responses.sqlite"), scratch / "replies.jsonl"
    sent = [({"role": "user", "content": f"Question {number}?"},) for number in range(rows)]
    keys = [response_key("http://h/v1", "m", messages, {"temperature": 0.0}, None, 0) for messages in sent]
    text = "The answer stands in a passage of common length, and cites it [1]. " * 6
    replies = [Reply(f"{number} {text}", "stop", "m", 900, 90, 1.0, 0.2, 0.001, 1, "2026-01-01T00:00:00") for number in range(rows)]
    with file.open("w", encoding="utf-8") as lines:
        for key, reply in zip(keys, replies, strict=True):
            store.write(keeping(store.write(beginning(key, "http://h/v1", "m")), key, reply))
            lines.write(json.dumps({"key": key, **asdict(reply)}) + "\n")

    def from_lines() -> dict[str, Reply]:
        found = {}
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                own = json.loads(line)
                key = own.pop("key")
                found[key] = Reply(**own)
        return found

    expected = dict(zip(keys, replies, strict=True))
    assert store.get_many(keys) == expected == from_lines()
    rates = [(_rate(lambda: store.get_many(keys), rows), _rate(from_lines, rows)) for _ in range(_ROUNDS)]
    return ResponsesSpeed(rows, max(own for own, _ in rates), max(other for _, other in rates))
