"""MinHash signatures in bulk against datasketch's own loop over shingles, at equal signatures, in one run.

With datasketch's default hash on both sides, with one fast hash on both sides, and from text to signature as the product does it,
where the loop is given its hash values for nothing. rensa, a compiled MinHash of other permutations, stands beside where installed.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from datasketch import MinHash
from datasketch.hashfunc import sha1_hash32

from ingestion import minhash
from tests.benchmarks.edits import edited_texts

WANTED = {"sha1": 10, "crc32": 20, "product": 20}
"""Times as fast as the loop, at least."""
PERMUTATIONS = 128
LENGTH = 5
_ROUNDS = 3


def _identity(value: int) -> int:
    return value


def loop(documents: Iterable[Sequence[bytes | int]], hashfunc: Callable[..., int]) -> list[np.ndarray]:
    """datasketch, shingle by shingle."""
    made = []
    for values in documents:
        sketch = MinHash(num_perm=PERMUTATIONS, seed=minhash.SEED, scheme=minhash.SCHEME, hashfunc=hashfunc)
        for value in values:
            sketch.update(value)
        made.append(sketch.hashvalues)
    return made


def own_bulk(documents: Iterable[Sequence[bytes]], hashfunc: Callable[..., int]) -> list[np.ndarray]:
    """datasketch's `MinHash.bulk`."""
    made = MinHash.bulk(documents, num_perm=PERMUTATIONS, seed=minhash.SEED, scheme=minhash.SCHEME, hashfunc=hashfunc)
    return [sketch.hashvalues for sketch in made]


def bulk(documents: Iterable[Sequence[bytes]], hashes: Callable[[set[bytes]], np.ndarray]) -> list[np.ndarray]:
    """The product's `minima`, each distinct shingle of a document hashed once."""
    return list(minhash.minima((hashes(set(values)) for values in documents), PERMUTATIONS))


def _sha1(values: set[bytes]) -> np.ndarray:
    """datasketch's default hash: the first four of a digest's twenty bytes, least significant first."""
    return np.frombuffer(b"".join([hashlib.sha1(value).digest() for value in values]), dtype="<u4")[::5]


def _crc32(values: set[bytes]) -> np.ndarray:
    return np.fromiter(map(zlib.crc32, values), dtype=np.uint32)


def from_texts(texts: Iterable[str]) -> list[np.ndarray]:
    """The product's path: hashes of all shingles of a text at once, then `minima`."""
    return list(minhash.minima((minhash.shingles(text, LENGTH) >> np.uint64(32) for text in texts), PERMUTATIONS))


def _rensa(documents: Iterable[Sequence[str]]) -> None:
    import rensa

    for values in documents:
        sketch = rensa.RMinHash(PERMUTATIONS, minhash.SEED)
        sketch.update(values)
        sketch.digest()


@dataclass(frozen=True)
class Result:
    documents: int
    shingles: int
    seconds: dict[str, float]
    """The best of the rounds, by what was timed."""

    def ratio(self, hashed: str) -> float:
        return self.seconds[f"loop {hashed}"] / self.seconds[f"bulk {hashed}"]

    def lines(self) -> Iterator[str]:
        yield f"{self.documents} texts, {self.shingles} shingles of {LENGTH} characters, {PERMUTATIONS} permutations, equal signatures"
        for hashed, wanted in WANTED.items():
            yield f"{hashed:8} loop / bulk {self.ratio(hashed):6.1f}  (wanted: {wanted} or more)"
        for name, seconds in self.seconds.items():
            yield f"{name:22} {seconds / self.documents * 1e6:9.0f} us a text, {seconds / self.seconds['bulk product']:6.1f} of the product's"
        if "rensa" not in self.seconds:
            yield "rensa                  not installed"


def measure(documents: int) -> Result:
    """Time everything on the same texts, turn by turn. Raises ValueError where two ways give different signatures."""
    texts = [t.text for t in edited_texts(-(-documents // 13))][:documents]
    words = [[text[at : at + LENGTH] for at in range(len(text) - LENGTH + 1)] for text in texts]
    coded = [[word.encode() for word in each] for each in words]
    ready = [(minhash.shingles(text, LENGTH) >> np.uint64(32)).tolist() for text in texts]
    ways: dict[str, Callable[[], object]] = {
        "loop sha1": lambda: loop(coded, sha1_hash32),
        "MinHash.bulk sha1": lambda: own_bulk(coded, sha1_hash32),
        "bulk sha1": lambda: bulk(coded, _sha1),
        "loop crc32": lambda: loop(coded, zlib.crc32),
        "MinHash.bulk crc32": lambda: own_bulk(coded, zlib.crc32),
        "bulk crc32": lambda: bulk(coded, _crc32),
        "loop product": lambda: loop(ready, _identity),
        "bulk product": lambda: from_texts(texts),
    }
    if find_spec("rensa"):
        ways["rensa"] = lambda: _rensa(words)
    seconds: dict[str, float] = {}
    made: dict[str, object] = {}
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            started = time.perf_counter()
            made[name] = way()
            seconds[name] = min(seconds.get(name, float("inf")), time.perf_counter() - started)
    for name in ways:
        if name != "rensa" and not np.array_equal(made[name], made[f"loop {name.split()[-1]}"]):
            raise ValueError(f"{name}: other signatures than datasketch's loop")
    return Result(len(texts), sum(map(len, words)), seconds)
