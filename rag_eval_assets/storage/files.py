"""Bytes of table files, in a folder or an object store: read whole or at their end, written whole, and marks that tell two states apart.

What belongs here: which request each of those is, and how long and how often it is tried. What does not: what the bytes mean (`parquet`)
and which files there are (`catalogue`). No function here lists anything.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from upath import UPath

from rag_eval_assets.unwritable import writing_to

Mark = list[Any]
"""Size and mtime of a file, or size and ETag (else time) of an object."""

CONNECT_SECONDS = 10
READ_SECONDS = 20
ATTEMPTS = 5
"""Tries of one S3 request where the server is busy, broken or silent; an answer that breaks off is asked for once more."""
SIDE_BY_SIDE = 16
"""Requests under way at once where many objects are looked at."""

Asked = TypeVar("Asked")
Found = TypeVar("Found")


def open_root(url: str) -> UPath:
    """The root of the tables. On S3 an object is read by one request, never from a remembered listing."""
    if not url.startswith(("s3://", "s3a://")):
        return UPath(url)
    bounds = {
        "connect_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        "retries": {"mode": "standard", "total_max_attempts": ATTEMPTS},
    }
    root = UPath(url, config_kwargs=bounds, use_listings_cache=False, max_concurrency=1)
    root.fs.retries = 2  # s3fs's own tries, around those of the client below it
    return root


def is_local(path: UPath) -> bool:
    return path.protocol in ("", "file")


def mark(path: UPath) -> Mark | None:
    """What tells this state of a file from the next one; None where there is no file."""
    try:
        if is_local(path):
            stat = os.stat(str(path))
            return [stat.st_size, stat.st_mtime_ns]
        if path.protocol in ("s3", "s3a"):
            bucket, key, _ = path.fs.split_path(path.path)
            answer = path.fs.call_s3("head_object", Bucket=bucket, Key=key)  # info() lists the bucket where an object is absent
            return [answer["ContentLength"], answer["ETag"]]
        info = path.fs.info(path.path)
    except FileNotFoundError:
        return None
    return [info.get("size"), str(info.get("ETag") or info.get("etag") or info.get("mtime") or info.get("created"))]


def read(path: UPath) -> bytes:
    """The whole file, by one request. Raises FileNotFoundError."""
    if is_local(path):
        with open(str(path), "rb") as source:
            return source.read()
    found: bytes = path.fs.cat_file(path.path)
    return found


def end(path: UPath, size: int, length: int) -> bytes:
    """The last `length` bytes of an object of `size` bytes, by one ranged request; shorter where the object has changed since."""
    found: bytes = path.fs.cat_file(path.path, start=max(0, size - length), end=size)
    return found


def write(path: UPath, data: bytes) -> Mark | None:
    """Write beside the place, flush, rename; on an object store one PUT (a multipart upload over 100 MiB, which is whole or absent too).

    A killed writer leaves the last version whole; of two writers the last complete one wins. Returns the mark of what was written, not
    of what stands there since; None where the store does not tell it. Raises UnwritableError where a disk is full or read-only.
    """
    if not is_local(path):
        answer = path.fs.pipe_file(path.path, data)
        return [len(data), answer["ETag"]] if isinstance(answer, dict) and "ETag" in answer else None
    with writing_to(str(path)):
        return _write_beside(path, data)


def _write_beside(path: UPath, data: bytes) -> Mark:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with open(str(temporary), "wb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
            stat = os.fstat(sink.fileno())
        os.replace(str(temporary), str(path))
    finally:
        if temporary.exists():
            temporary.unlink()
    folder = os.open(str(path.parent), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return [stat.st_size, stat.st_mtime_ns]


def side_by_side(root: UPath, ask: Callable[[Asked], Found], things: Iterable[Asked]) -> list[Found]:
    """What `ask` gives of each thing, in order; in an object store many requests are under way at once."""
    if is_local(root):
        return [ask(thing) for thing in things]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(ask, things))
